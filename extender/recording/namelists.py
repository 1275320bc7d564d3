"""Long lists of node names, kept as runs of numbers: kube-scheduler offers the same 5,000 in every call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

#: Lists with fewer names are written as they are.
_SHORT = 16


class NameList(list[str]):
    """Marks an argument that is a list of nodes' names, and may be long."""


Packed: TypeAlias = list[str] | Mapping[str, list[str] | list[int]]
"""Names as they are, or `new` names, which get the next numbers, and `runs`: number and length of each, in turn."""


class NameListError(ValueError):
    """Packed names that name nothing."""


class NamePacker:
    """Number names as they come, and write lists of them as runs of numbers."""

    def __init__(self) -> None:
        """Know no name yet."""
        self._numbers: dict[str, int] = {}

    def pack(self, names: Sequence[str]) -> Packed:
        """Return a list of names for `NameUnpacker`, which has to be shown all of them in the same order."""
        if len(names) < _SHORT:
            return list(names)
        numbers = self._numbers
        try:
            found = np.fromiter(map(numbers.__getitem__, names), dtype=np.int64, count=len(names))
            new: list[str] = []
        except KeyError:
            new = [name for name in dict.fromkeys(names) if name not in numbers]
            numbers.update(zip(new, range(len(numbers), len(numbers) + len(new)), strict=True))
            found = np.fromiter(map(numbers.__getitem__, names), dtype=np.int64, count=len(names))
        starts = np.flatnonzero(np.diff(found, prepend=found[0] - 2) != 1)
        lengths = np.diff(starts, append=len(names))
        return {"new": new, "runs": np.stack((found[starts], lengths), axis=1).ravel().tolist()}


class NameUnpacker:
    """Read what `NamePacker` wrote."""

    def __init__(self) -> None:
        """Know no name yet."""
        self._names: list[str] = []

    def unpack(self, packed: Packed) -> list[str]:
        """Return a list of names; raise NameListError for numbers that nobody has."""
        if not isinstance(packed, Mapping):
            return list(packed)
        self._names += [str(name) for name in packed.get("new", ())]
        runs = [int(number) for number in packed.get("runs", ())]
        found: list[str] = []
        for start, length in zip(runs[::2], runs[1::2], strict=True):
            if start < 0 or length < 1 or start + length > len(self._names):
                raise NameListError(f"names {start} to {start + length} of {len(self._names)}")
            found += self._names[start : start + length]
        return found
