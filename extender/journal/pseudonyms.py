"""Pseudonyms in the order of the names that they stand for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

from extender.objects.text import natural_key

_DIGITS: Final = 6
_TOKEN: Final = re.compile(
    r"\b(?:(?:pod|gang|namespace|queue|role|flavor|object|place|key|level|set|text)-[0-9]{6,}\b"
    r"|device_[0-9]{6,}\b|resource-[0-9]{6,}/(?:gpu|other)\b)"
)


class Space(Enum):
    """Names that are compared with each other. Each has pseudonyms of its own; the value is how these begin.

    Nodes, domains and values of labels are one: a label may name the node or the domain.
    """

    POD = "pod"
    GANG = "gang"
    NAMESPACE = "namespace"
    QUEUE = "queue"
    ROLE = "role"
    FLAVOR = "flavor"
    OBJECT = "object"
    PLACE = "place"
    KEY = "key"
    LEVEL = "level"
    SET = "set"
    TEXT = "text"
    RESOURCE = "resource"
    DEVICE = "device"


#: How resources end that count as GPUs.
_GPU: Final = "/gpu"

#: In which order decisions compare the names of a space, where that is not the order of texts.
_ORDERS: Final[Mapping[Space, Callable[[str], Any]]] = dict.fromkeys(
    (Space.POD, Space.PLACE, Space.DEVICE), natural_key
)


class Pseudonyms:
    """Hear all names first, then give each its pseudonym."""

    def __init__(self) -> None:
        self._heard: dict[Space, dict[str, None]] = {space: {} for space in Space}
        self._given: dict[Space, dict[str, str]] = {}
        self._meant: dict[str, str] = {}

    def name(self, space: Space, name: str) -> str:
        """Return the pseudonym of a name, before `settle` the name itself; what is empty stays so."""
        if not name:
            return name
        if not self._given:
            self._heard[space][name] = None
            return name
        return self._given[space][name]

    def settle(self) -> None:
        """Give pseudonyms to all names that were heard, in their order."""
        for space, heard in self._heard.items():
            ordered = sorted(heard, key=_ORDERS.get(space))
            width = max(_DIGITS, len(str(len(ordered))))
            self._given[space] = {
                name: _written(space, f"{place:0{width}d}", name) for place, name in enumerate(ordered)
            }
            self._meant |= {given: name for name, given in self._given[space].items()}

    def heard(self, space: Space) -> Mapping[str, None]:
        """Return the names of a space."""
        return self._heard[space]

    def restored(self, value: Any) -> Any:  # noqa: ANN401 - a document
        """Return plain values with the names again that pseudonyms stand for, in texts too."""
        if isinstance(value, str):
            return _TOKEN.sub(lambda found: self._meant.get(found[0], found[0]), value)
        if isinstance(value, list):
            return [self.restored(each) for each in value]
        if isinstance(value, dict):
            return {self.restored(key): self.restored(each) for key, each in value.items()}
        return value


def _written(space: Space, number: str, name: str) -> str:
    """Return a pseudonym; words about devices are names in CEL, resources in a domain, and GPUs count as such."""
    match space:
        case Space.DEVICE:
            return f"device_{number}"
        case Space.RESOURCE:
            return f"resource-{number}{_GPU if name.endswith(_GPU) else '/other'}"
    return f"{space.value}-{number}"
