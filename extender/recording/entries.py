"""Inputs as they are noted, and how they are written and read: typed values, never code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import msgspec

from extender.domain.node import Node
from extender.domain.pod import Pod
from extender.recording.clocks import Readings, microseconds, moment_of
from extender.recording.inputs import INPUTS, Input
from extender.recording.namelists import NameList, NameListError, NamePacker, NameUnpacker
from extender.recording.outcomes import Raised
from extender.recording.settling import Settler


class Entry(NamedTuple):
    """One input: which, its arguments, and what came of it.

    `known` is the first argument as it was known before, where it is a pod or a node that was: usually the same. `came`
    is what `Input.seize` took of the answer, or what was raised.
    """

    what: Input
    arguments: tuple[Any, ...]
    known: object
    readings: Readings
    came: Any

    @property
    def names(self) -> int:
        """Return how many names of nodes there are among the arguments."""
        return len(self.arguments[1]) if NameList in self.what.takes else 0


class Noted(NamedTuple):
    """One input as a recording has it; `came` is written plainly, and `known` says where to find the first argument.

    That is the UID of a pod, or the name of a node, that is the one known at that moment; "" where it is given.
    """

    what: Input
    arguments: tuple[Any, ...]
    known: str
    readings: Readings
    came: bytes


class EntryError(ValueError):
    """Bytes that are no inputs."""


_Written = tuple[str, msgspec.Raw, str, list[float], list[int], bytes]
"""Name, arguments, where the first is known from, monotonic readings (s), calendar readings (us), what came."""

_FAILED: Final = "raised"


def plain(value: object) -> object:
    """Return as a plain value what msgspec does not know by itself; raise NotImplementedError for all else."""
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(f"{type(value).__name__} cannot be recorded")


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=plain)
_DECODER: Final = msgspec.msgpack.Decoder(list[_Written])
_ANY: Final = msgspec.msgpack.Decoder()


def outcome_of(what: Input, came: object) -> bytes:
    """Write what came of an input; two that are written alike are alike."""
    if isinstance(came, Raised):
        return _ENCODER.encode({_FAILED: list(came)})
    return _ENCODER.encode(what.report(came))


def read_outcome(came: bytes) -> object:
    """Return what was written as plain values."""
    try:
        return _ANY.decode(came)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise EntryError(f"an outcome cannot be read: {error}") from error


class EntryWriter:
    """Write inputs; the names of nodes are numbered over all that one writer writes."""

    def __init__(self) -> None:
        """Know no name yet."""
        self._names = NamePacker()

    def write(self, entries: Sequence[Entry]) -> bytes:
        """Return inputs as bytes; each by itself, so that the thread that does it can be interrupted in between."""
        return _ENCODER.encode([msgspec.Raw(_ENCODER.encode(self._plain(entry))) for entry in entries])

    def rewrite(self, noted: Sequence[Noted]) -> bytes:
        """Return inputs that were read as bytes."""
        return _ENCODER.encode([self._entry(*each) for each in noted])

    def _plain(self, entry: Entry) -> object:
        known, first = "", entry.arguments[0] if entry.arguments else None
        if entry.known is not None and first == entry.known:
            known = first.uid if isinstance(first, Pod) else first.name if isinstance(first, Node) else ""
        return self._entry(entry.what, entry.arguments, known, entry.readings, outcome_of(entry.what, entry.came))

    def _entry(
        self, what: Input, arguments: tuple[Any, ...], known: str, readings: Readings, came: bytes
    ) -> tuple[object, ...]:
        given: list[object] = [
            self._names.pack(value) if kind is NameList else value
            for kind, value in zip(what.takes, arguments, strict=True)
        ]
        if known:
            given[0] = None
        calendar = [microseconds(moment) for moment in readings.calendar]
        return what.name, given, known, list(readings.monotonic), calendar, came


class EntryReader:
    """Read what one `EntryWriter` wrote, in the same order."""

    def __init__(self) -> None:
        """Know no name yet."""
        self._names = NameUnpacker()
        self._settler = Settler()

    def read(self, data: bytes) -> Iterator[Noted]:
        """Iterate over inputs; raise EntryError for bytes that are none."""
        try:
            for name, arguments, known, monotonic, calendar, came in _DECODER.decode(data):
                yield Noted(
                    _input_of(name),
                    self._arguments(_input_of(name), arguments, known=known),
                    known,
                    Readings(monotonic, [moment_of(each) for each in calendar]),
                    came,
                )
        except (msgspec.MsgspecError, UnicodeDecodeError, NameListError, OverflowError, ValueError) as error:
            raise EntryError(f"inputs cannot be read: {error}") from error

    def _arguments(self, what: Input, raw: msgspec.Raw, *, known: str) -> tuple[Any, ...]:
        values = _arguments_decoder(what.name, known=bool(known)).decode(raw)
        return tuple(
            self._names.unpack(value) if kind is NameList else self._settler.settled(value)
            for kind, value in zip(what.takes, values, strict=True)
        )


@cache
def _arguments_decoder(name: str, *, known: bool) -> msgspec.msgpack.Decoder[Any]:
    takes = [list[str] | dict[str, Any] if kind is NameList else kind for kind in INPUTS[name].takes]
    if known:
        takes[0] = None
    return msgspec.msgpack.Decoder(tuple[tuple(takes)] if takes else tuple[()])  # type: ignore[misc]  # made at run time


def _input_of(name: str) -> Input:
    found = INPUTS.get(name)
    if found is None:
        raise EntryError(f"there is no input called {name[:40]!r}; another version of Muster may know it")
    return found
