"""Labels of pods, kept small: there are 50,000 pods, and those of one workload differ in one value or in none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from sys import intern

#: Sets of keys with more are not remembered, so that nobody can fill the memory with them.
_MOST_SHARED_KEYS = 64


class LabelSet(Mapping[str, str]):
    """An immutable set of labels that shares its keys with all others that have the same, and each value too.

    It takes a third of what a dict does.
    """

    __slots__ = ("_places", "_values")

    def __init__(self, places: Mapping[str, int], values: tuple[str, ...]) -> None:
        """Take the place of each key among the values."""
        self._places = places
        self._values = values

    def __getitem__(self, key: str) -> str:
        """Return the value of a label; raise KeyError where there is none."""
        return self._values[self._places[key]]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys."""
        return iter(self._places)

    def __len__(self) -> int:
        """Count the labels."""
        return len(self._values)

    def __hash__(self) -> int:
        """Hash by content."""
        return hash(frozenset(self.items()))

    def __repr__(self) -> str:
        """Render as the dict that it stands for."""
        return f"LabelSet({dict(self)})"


NO_LABELS = LabelSet({}, ())


def share_labels(labels: Mapping[str, str]) -> LabelSet:
    """Return the same labels with keys and values that others share."""
    if not labels:
        return NO_LABELS
    keys = tuple(labels)
    places = _shared_places(keys) if len(keys) <= _MOST_SHARED_KEYS else _places(keys)
    return LabelSet(places, tuple(map(intern, labels.values())))


def _places(keys: tuple[str, ...]) -> Mapping[str, int]:
    return {key: place for place, key in enumerate(keys)}


_shared_places = lru_cache(maxsize=4096)(_places)
