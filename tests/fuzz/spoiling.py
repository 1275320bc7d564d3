"""What spoils requests: values in the wrong place, and bytes that went wrong."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

#: Values that a field of any type may wrongly hold.
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**400, 0.5, 1e308, -0.0, "", "\0", "ä", "\U0001f4a5",
    "9" * 5000, "1e999", "-1", "8Ei", "0.0000001", "1n", "Infinity", "node-0", "ghost", "muster", "default-scheduler",
    "Running", "Succeeded", "Exists", "Gt", [], {}, [None], [[]], {"": None}, {"a": {"b": {"c": []}}}, ["node-0"] * 3,
)  # fmt: skip
_PIECES = (
    b"null",
    b"[",
    b"{",
    b"]",
    b"}",
    b'"',
    b",",
    b":",
    b"\\u0000",
    b"\\ud800",
    b"\xff",
    b"\0",
    b"1e999",
    b"[" * 600,
)
_KEYS = ("Pod", "NodeNames", "Nodes", "metadata", "spec", "uid", "Error", "containers", "items", "objects", "")


class Spoiler:
    """Spoil documents and bytes by what a random generator draws."""

    def __init__(self, random: Random) -> None:
        """Draw from `random`."""
        self._random = random

    def spoil(self, document: Any) -> None:
        """Replace, remove, double or rename one value somewhere in the document."""
        random = self._random
        holder, key = random.choice(_places(document) or [({"": 0}, "")])
        match random.randrange(5):
            case 0 | 1:
                holder[key] = copy.deepcopy(random.choice(ODD))
            case 2:
                del holder[key]
            case 3 if isinstance(holder, list):
                holder.append(copy.deepcopy(holder[key]))
            case 3:
                holder[f"{key}{key}"] = holder[key]
            case _:
                holder[key] = self.anything(2)

    def anything(self, depth: int) -> Any:
        """Return a value of any form, `depth` deep at most."""
        random = self._random
        kind = random.random()
        if depth and kind < 0.3:
            return [self.anything(depth - 1) for _ in range(random.randrange(4))]
        if depth and kind < 0.6:
            return {random.choice(_KEYS): self.anything(depth - 1) for _ in range(random.randrange(4))}
        return copy.deepcopy(random.choice(ODD))

    def garble(self, body: bytes) -> bytes:
        """Flip, cut, insert or double some bytes."""
        random = self._random
        garbled = bytearray(body)
        for _ in range(random.randint(1, 4)):
            at = random.randrange(len(garbled) + 1)
            match random.randrange(4):
                case 0 if at < len(garbled):
                    garbled[at] ^= 1 << random.randrange(8)
                case 1:
                    del garbled[at : at + random.randint(1, 20)]
                case 2:
                    garbled[at:at] = random.choice(_PIECES)
                case _:
                    garbled[at:at] = garbled[at : at + random.randint(1, 50)]
        return bytes(garbled)


def written(document: Any) -> bytes:
    """Return a document as JSON, with whatever texts it has."""
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _places(document: Any) -> list[tuple[Any, Any]]:
    """Return every container in the document with every key or index of it."""
    found: list[tuple[Any, Any]] = []
    left = [document]
    while left:
        holder = left.pop()
        entries = holder.items() if isinstance(holder, dict) else enumerate(holder) if isinstance(holder, list) else ()
        for key, value in entries:
            found.append((holder, key))
            left.append(value)
    return found
