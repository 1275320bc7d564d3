"""What came of an event, as plain values that can be written, compared and read by people."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from extender.admission.defragment import Defragmentation
from extender.admission.events import Arrival, Filtered
from extender.ledger.effects import Effects, Note
from extender.objects.pod import Pod
from extender.objects.podgroup import GroupRef
from extender.objects.reason import Wait

#: Lists of nodes with more names are told by their number and a checksum.
_MOST_NAMES = 8


class Raised(NamedTuple):
    """An event that failed: what was raised, and what it said."""

    error: str
    message: str

    @classmethod
    def of(cls, error: Exception) -> Raised:
        """Return an exception as values."""
        return cls(type(error).__name__, str(error))


def report(came: Effects[Any] | Raised) -> object:
    """Return what came of an event; only what there is any of, None for nothing.

    How long plans took is in the clock's readings already.
    """
    if isinstance(came, Raised):
        return {"raised": list(came)}
    found: dict[str, object] = {}
    if came.answer is not None:
        found["answer"] = _answer(came.answer)
    for name, written in _WRITTEN.items():
        if value := getattr(came, name):
            found[name] = written(value)
    return found or None


def _answer(answer: object) -> object:
    match answer:
        case Filtered():
            refusals = [[_names(each.names), each.text, each.resolvable] for each in answer.refusals]
            return [answer.outcome, _names(answer.accepted), refusals, answer.decision]
        case Arrival():
            return [answer.verdict, answer.message, answer.decision]
        case Defragmentation():
            moves = [[move.name, move.pods, list(move.origins), list(move.targets)] for move in answer.moves]
            return [answer.fits, moves, answer.reason]
        case [int(), *_] as scores:  # from 0 to 10, one byte for each
            return bytes(cast("list[int]", scores))
        case _:
            return answer


def _names(names: Sequence[str]) -> object:
    """Return names, or of many how many they are and a checksum of them in their order."""
    if len(names) <= _MOST_NAMES:
        return list(names)
    return [len(names), zlib.crc32("\0".join(names).encode())]


def _ref(ref: GroupRef) -> list[str]:
    return [ref.api, ref.namespace, ref.name]


def _wait(wait: Wait | None) -> object:
    return None if wait is None else [wait.reason.value, dict(wait.numbers), dict(wait.names)]


def _about(note: Note) -> list[object]:
    about = note.about
    if isinstance(about, GroupRef):
        return ["gang", *_ref(about)]
    if isinstance(about, Pod):
        return ["pod", about.uid, about.namespace, about.name]
    return [about.kind, about.uid, about.namespace, about.name]


#: How each part of the effects is written.
_WRITTEN: Final[Mapping[str, Callable[[Any], object]]] = {
    "nominations": lambda wishes: [[uid, each.node, each.again] for uid, each in wishes.items()],
    "released": list,
    "refused": dict,
    "notes": lambda notes: [[*_about(note), note.warning, note.reason, note.message] for note in notes],
    "milestones": lambda steps: [
        [each.what, *_ref(each.gang), each.decision, each.members, each.why, each.waited] for each in steps
    ],
    "expired": int,
    "rejections": lambda rejections: [each.value for each in rejections],
    "observations": lambda observations: [[each.fact.name, each.match] for each in observations],
    "evictions": lambda wishes: [[uid, each.by, each.reason, each.message] for uid, each in wishes.items()],
    "spared": sorted,
    "ungates": lambda wishes: [[uid, each.gate] for uid, each in wishes.items()],
    "changed": lambda changed: [[*_ref(ref), _wait(wait)] for ref, wait in changed.items()],
}
