"""What is remembered only to save time, bounded in bytes: equal values as one object, and results by what they are of.

A cache that is bounded by a number of entries is not bounded: a tenant chooses how large an entry is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Generic, ParamSpec, TypeVar
from weakref import WeakKeyDictionary, ref

from msgspec import Struct
from msgspec.structs import astuple

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
P = ParamSpec("P")
R = TypeVar("R")


class Shared(Generic[V]):
    """Return one object for equal ones, for as long as anything else holds it: it takes no memory of its own.

    The values must be hashable and allow weak references.
    """

    def __init__(self) -> None:
        """Know no value yet."""
        self._known: WeakKeyDictionary[V, ref[V]] = WeakKeyDictionary()

    def __len__(self) -> int:
        """Count the values that are held."""
        return len(self._known)

    def __call__(self, value: V) -> V:
        """Return the object that stands for all that equal `value`: the first of them."""
        held = self._known.get(value)
        first = None if held is None else held()
        if first is None:
            self._known[value] = ref(value)
            return value
        return first


class SizedDict(dict[K, V]):
    """A dictionary of results that is emptied when they take more than so many bytes.

    Reading costs what it costs in any dictionary. What takes more than the bound by itself is not kept.
    """

    def __init__(self, most_bytes: int) -> None:
        """Keep up to `most_bytes`."""
        super().__init__()
        self._most_bytes = most_bytes
        self._sizes: dict[K, int] = {}
        self._bytes = 0

    def keep(self, key: K, value: V, size: int) -> V:
        """Remember `value`, which takes `size` bytes with its key, and return it."""
        self.forget(key)
        if self._bytes + size > self._most_bytes:
            self.clear()
        if size <= self._most_bytes:
            self[key] = value
            self._sizes[key] = size
            self._bytes += size
        return value

    def forget(self, key: K) -> V | None:
        """Forget one value, and return it; None for one that is not known."""
        self._bytes -= self._sizes.pop(key, 0)
        return self.pop(key, None)

    def clear(self) -> None:
        """Forget everything."""
        super().clear()
        self._sizes.clear()
        self._bytes = 0


def size_of(value: object) -> int:
    """Return about how many bytes a value takes: strings, numbers, tuples and sets, and objects with such fields."""
    match value:
        case str() | bytes():
            return 60 + len(value)
        case tuple() | frozenset() | list():
            return 60 + 8 * len(value) + sum(map(size_of, value))
        case Mapping():
            return 100 + sum(50 + size_of(key) + size_of(each) for key, each in value.items())
    if isinstance(value, Struct):
        return 40 + sum(8 + size_of(each) for each in astuple(value))
    if is_dataclass(value):
        return 60 + sum(size_of(getattr(value, each.name)) for each in fields(value))
    return 40


def sized_cache(most_bytes: int, size: Callable[P, int]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Remember what a function returned by its arguments, until the results take more than `most_bytes`.

    `size` returns the bytes that arguments and result take together. The arguments are given by position and are
    hashable. What raises is not remembered.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        known: SizedDict[object, R] = SizedDict(most_bytes)

        @wraps(function)
        def remembering(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return known[args]
            except KeyError:
                return known.keep(args, function(*args, **kwargs), size(*args, **kwargs))

        return remembering

    return decorate
