"""Events as they are noted, and how they are written and read: typed values, never code.

An event is written as its name and its fields. A pod or a node that is equal to the last one of its UID or name is
written as that UID or name: kube-scheduler asks about pods that the watch has just told of, and most changes of nodes
are in what Muster does not read. Lists of node names are written as they are: to number the names would halve what a
call takes, and hold up the event loop for ten times as long.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias, get_type_hints

import msgspec

from extender.admission import events
from extender.admission.events import Event
from extender.journal.outcomes import Raised, report
from extender.ledger.effects import Effects
from extender.objects.dradevices import Amount
from extender.objects.keys import Options
from extender.objects.meta import LabelSet, key_places, share_labels
from extender.objects.node import Node
from extender.objects.pod import Pod, Shape
from extender.objects.podgroup import PodGroup
from extender.objects.resourceslice import AttributeSet, AttributeValue, DeviceVersion
from extender.objects.topology import SILENT, TopologyTerms
from extender.objects.workload import Suspendable

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


class Readings(NamedTuple):
    """What a clock said, in order: seconds of the monotonic clock, and moments by the calendar."""

    monotonic: Sequence[float] = ()
    calendar: Sequence[dt.datetime] = ()


def microseconds(moment: dt.datetime) -> int:
    """Return a moment as whole microseconds since 1970, which is all that it says."""
    return (moment - EPOCH) // _MICROSECOND


def moment_of(microseconds: int) -> dt.datetime:
    """Return the moment so many microseconds after the beginning of 1970; OverflowError beyond the calendar."""
    return EPOCH + dt.timedelta(microseconds=microseconds)


class Settler:
    """Let equal shapes and options be one object each, and terms that say nothing the one that stands for that."""

    def __init__(self) -> None:
        self._shapes: dict[Shape, Shape] = {}
        self._options: dict[Options, Options] = {}

    def settled(self, value: Any) -> Any:  # noqa: ANN401 - whatever an input takes
        """Return an argument as the watch would have made it."""
        if isinstance(value, Pod):
            return replace(
                value,
                shape=self._shapes.setdefault(value.shape, value.shape),
                options=self._settled(value.options),
                labels=share_labels(value.labels),
            )
        if isinstance(value, PodGroup):
            return replace(value, options=self._settled(value.options), labels=share_labels(value.labels))
        if isinstance(value, Suspendable):
            pods = tuple(replace(each, template=self.settled(each.template)) for each in value.pods)
            return replace(value, group=self.settled(value.group), pods=pods)
        return value

    def _settled(self, options: Options) -> Options:
        found = self._options.get(options)
        if found is None:
            found = replace(options, topology=_terms(options.topology), peers=_terms(options.peers))
            self._options[options] = found
        return found


def _terms(terms: TopologyTerms) -> TopologyTerms:
    return SILENT if terms == SILENT else terms


#: Every event by its name in a recording.
EVENTS: Final[Mapping[str, type[Event[Any]]]] = {
    each.__name__: each
    for each in vars(events).values()
    if isinstance(each, type) and issubclass(each, Event) and each is not Event
}


#: The names and types of each event's fields.
_FIELDS: Final[Mapping[type, Sequence[tuple[str, Any]]]] = {
    each: tuple(get_type_hints(each).items()) for each in EVENTS.values()
}


class JournalEntry(NamedTuple):
    """One event, what the clock said meanwhile, and what came of it."""

    event: Event[Any]
    readings: Readings
    came: Effects[Any] | Raised


class Noted(NamedTuple):
    """One event as a recording has it; `came` is what came of it, written plainly."""

    event: Event[Any]
    readings: Readings
    came: bytes

    @property
    def name(self) -> str:
        """Return what the event is called."""
        return type(self.event).__name__


class EntryError(ValueError):
    """Bytes that are no events."""


_Written = tuple[str, msgspec.Raw, list[float], list[int], bytes]
"""Name, fields, monotonic readings (s), calendar readings (us), what came."""


#: A value of a device's attribute: how it is written, and the value; a version is written as its text.
_Attribute: TypeAlias = tuple[str, str | bool | int | list[str | bool | int]]
_VERSION: Final = "version"


def plain(value: object) -> object:
    """Return as a plain value what msgspec does not know by itself; raise NotImplementedError for all else."""
    if isinstance(value, LabelSet):
        return value.plain()
    if isinstance(value, AttributeSet):
        return {name: _plain_attribute(each) for name, each in value.items()}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Amount):
        return str(int(value))
    raise NotImplementedError(f"{type(value).__name__} cannot be recorded")


def _plain_attribute(value: AttributeValue) -> _Attribute:
    if isinstance(value, tuple):
        versions = [each.text for each in value if isinstance(each, DeviceVersion)]
        others = [each for each in value if not isinstance(each, DeviceVersion)]
        return (_VERSION, [*versions]) if versions else ("", others)
    return (_VERSION, value.text) if isinstance(value, DeviceVersion) else ("", value)


def _read_special(kind: type, written: Any) -> object:  # noqa: ANN401 - what `plain` made of it
    """Return what was written as a plain value; raise NotImplementedError for any other type."""
    if kind is Amount:
        return Amount(written)
    if kind is not AttributeSet:
        raise NotImplementedError(f"{kind.__name__} cannot be read")
    values: list[AttributeValue] = []
    for how, value in written.values():
        made = DeviceVersion if how == _VERSION else _itself
        values.append(tuple(map(made, value)) if isinstance(value, list) else made(value))
    return AttributeSet(key_places(tuple(written)), tuple(values))


def _itself(value: Any) -> Any:  # noqa: ANN401 - any value
    return value


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=plain)
_DECODER: Final = msgspec.msgpack.Decoder(list[_Written])
_ANY: Final = msgspec.msgpack.Decoder()


def values_of(event: Event[Any]) -> list[Any]:
    """Return the values of an event's fields, in their order."""
    return [getattr(event, name) for name, _ in _FIELDS[type(event)]]


def outcome_of(came: Effects[Any] | Raised) -> bytes:
    """Write what came of an event; two that are written alike are alike."""
    return _ENCODER.encode(report(came))


def read_outcome(came: bytes) -> object:
    """Return what was written as plain values."""
    try:
        return _ANY.decode(came)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise EntryError(f"an outcome cannot be read: {error}") from error


class EntryWriter:
    """Write events; what repeats is counted over all that one writer writes."""

    def __init__(self) -> None:
        self._last = _LastSeen()

    def write(self, entries: Sequence[JournalEntry]) -> bytes:
        """Return events as bytes; each by itself, so that the thread that does it can be interrupted in between."""
        return self.rewrite(Noted(each.event, each.readings, outcome_of(each.came)) for each in entries)

    def rewrite(self, noted: Iterable[Noted]) -> bytes:
        """Return events that were read as bytes."""
        return _ENCODER.encode([msgspec.Raw(_ENCODER.encode(self._plain(each))) for each in noted])

    def _plain(self, noted: Noted) -> tuple[object, ...]:
        event, readings = noted.event, noted.readings
        given = [write(self, getattr(event, name)) for name, write in _WRITERS[type(event)]]
        self._last.forget(event)
        calendar = [microseconds(moment) for moment in readings.calendar]
        return noted.name, given, list(readings.monotonic), calendar, noted.came

    def _object(self, value: Any) -> object:  # noqa: ANN401 - a pod or a node
        return self._last.written(value)

    def _asked_about(self, pod: Pod) -> object:
        return self._last.asked_about(pod)

    def _as_it_is(self, value: object) -> object:
        return value

    @classmethod
    def writer(cls, event: type, kind: Any) -> _Write:  # noqa: ANN401 - a type, made at run time
        """Return what writes a field of some type in events of another."""
        if kind not in _KEYS:
            return cls._as_it_is
        return cls._asked_about if event in _QUESTIONS else cls._object


_Write: TypeAlias = Callable[[EntryWriter, Any], object]


class EntryReader:
    """Read what one `EntryWriter` wrote, in the same order."""

    def __init__(self) -> None:
        self._last = _LastSeen()
        self._settler = Settler()

    def read(self, data: bytes) -> Iterator[Noted]:
        """Iterate over events; raise EntryError for bytes that are none."""
        try:
            for name, given, monotonic, calendar, came in _DECODER.decode(data):
                event = self._event(name, given)
                yield Noted(event, Readings(monotonic, [moment_of(each) for each in calendar]), came)
        except (msgspec.MsgspecError, UnicodeDecodeError, OverflowError, ValueError) as error:
            raise EntryError(f"events cannot be read: {error}") from error

    def _event(self, name: str, given: msgspec.Raw) -> Event[Any]:
        known = EVENTS.get(name)
        if known is None:
            raise EntryError(f"there is no event called {name[:40]!r}; another version of Muster may know it")
        values = _DECODERS[known].decode(given)
        pairs = zip(_FIELDS[known], values, strict=True)
        event = known(*(self._field(kind, value) for (_, kind), value in pairs))
        self._last.forget(event)
        return event

    def _field(self, kind: Any, value: Any) -> object:  # noqa: ANN401 - each field has its own
        settled = value if isinstance(value, str) else self._settler.settled(value)
        return self._last.meant(kind, settled) if kind in _KEYS else settled


#: Objects that are written once for as long as they stay the same, and what tells one from the other.
_KEYS: Final[Mapping[type, Callable[[Any], str]]] = {Pod: attrgetter("uid"), Node: attrgetter("name")}

#: What kube-scheduler asks, now and then about a pod that has gone: nothing would ever forget it again.
_QUESTIONS: Final = frozenset({events.Filter, events.Prioritize, events.Preempt})


#: The names of each event's fields, and what writes each.
_WRITERS: Final[Mapping[type, Sequence[tuple[str, _Write]]]] = {
    each: tuple((name, EntryWriter.writer(each, kind)) for name, kind in pairs) for each, pairs in _FIELDS.items()
}


class _LastSeen:
    """Remember the last pod of each UID and the last node of each name: the same on both sides of a recording."""

    def __init__(self) -> None:
        self._objects: dict[type, dict[str, Any]] = {kind: {} for kind in _KEYS}

    def written(self, value: Any) -> object:  # noqa: ANN401 - a pod or a node
        """Return the key of an object that is the last one with that key, else the object."""
        objects, key = self._objects[type(value)], _KEYS[type(value)](value)
        if objects.get(key) == value:
            return key
        objects[key] = value
        return value

    def asked_about(self, pod: Pod) -> object:
        """Return the same of a pod that may have gone: one that is not known is not remembered."""
        return self.written(pod) if pod.uid in self._objects[Pod] else pod

    def meant(self, kind: type, value: Any) -> object:  # noqa: ANN401 - a pod or a node, or the key of one
        """Return the object that was written; raise EntryError for a key without one."""
        if isinstance(value, str):
            if value not in self._objects[kind]:
                raise EntryError(f"there is no {kind.__name__} called {value[:40]!r} before")
            return self._objects[kind][value]
        self._objects[kind][_KEYS[kind](value)] = value
        return value

    def forget(self, event: Event[Any]) -> None:
        """Forget an object that is gone."""
        match event:
            case events.PodGone(uid):
                self._objects[Pod].pop(uid, None)
            case events.NodeGone(name):
                self._objects[Node].pop(name, None)


def _wire(kind: Any) -> Any:  # noqa: ANN401 - a type, made at run time
    """Return the type that a field is written as."""
    return kind | str if kind in _KEYS else kind


_DECODERS: Final[Mapping[type, msgspec.msgpack.Decoder[Any]]] = {
    each: msgspec.msgpack.Decoder(
        tuple[tuple(_wire(kind) for _, kind in pairs)] if pairs else tuple[()],  # type: ignore[misc]  # made at run time
        dec_hook=_read_special,
    )
    for each, pairs in _FIELDS.items()
}
