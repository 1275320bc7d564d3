"""What came out of an input, as plain values that can be written, compared and read by people."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from extender.admission.answers import Arrival, Filtered
from extender.admission.defragment import Defragmentation
from extender.admission.effects import Effects, Note
from extender.domain.membership import GroupRef
from extender.domain.pod import Pod
from extender.domain.reason import Wait
from extender.recording.desk import Desk

#: Lists of nodes with more names are told by their number and a checksum.
_MOST_NAMES = 8


class Raised(NamedTuple):
    """An input that failed: what was raised, and what it said."""

    error: str
    message: str

    @classmethod
    def of(cls, error: Exception) -> Raised:
        """Return an exception as values."""
        return cls(type(error).__name__, str(error))


class SeizedEffects(NamedTuple):
    """Effects, and why each gang that has changed waits at that moment (None: it does not, or is gone)."""

    effects: Effects
    waits: tuple[Wait | None, ...]


def seize_pass(desk: Desk, ran: bool) -> tuple[bool, int, int, int]:  # noqa: FBT001 - the answer of `decide`
    """Return whether a pass ran, how many have, how many gangs wait, and how many have a reservation."""
    admission = desk.admission
    reserved = sum(1 for _ in admission.reservations.ledger) if ran else 0
    return ran, admission.passes, len(admission.reservations.waits), reserved


def report_pass(seized: tuple[bool, int, int, int]) -> object:
    """Return nothing where no pass ran."""
    ran, passes, waiting, reserved = seized
    return {"pass": passes, "waiting": waiting, "reserved": reserved} if ran else None


def seize_effects(desk: Desk, effects: Effects) -> SeizedEffects:
    """Return what is to be done, with the reasons of the gangs that changed."""
    if not effects.changed:
        return SeizedEffects(effects, ())
    gangs, waits = desk.admission.model.gangs, desk.admission.reservations.waits
    found = (gangs.get(ref) for ref in effects.changed)
    return SeizedEffects(effects, tuple([None if gang is None else waits.get(gang.uid) for gang in found]))


def report_effects(seized: SeizedEffects) -> object:
    """Return what is to be done; only what there is any of. How long plans took is in the clock's readings already."""
    effects, waits = seized
    found: dict[str, object] = {}
    for name, written in _WRITTEN.items():
        if value := getattr(effects, name):
            found[name] = written(value)
    if effects.changed:
        found["changed"] = [[*_ref(ref), _wait(wait)] for ref, wait in zip(effects.changed, waits, strict=True)]
    return found or None


def report_filtered(answer: Filtered) -> object:
    """Return an answer to filter."""
    refusals = [[_names(each.names), each.text, each.resolvable] for each in answer.refusals]
    return [answer.outcome, _names(answer.accepted), refusals, answer.decision]


def report_scores(scores: Sequence[int]) -> object:
    """Return scores, one byte for each."""
    return bytes(scores)


def report_arrival(arrival: Arrival) -> object:
    """Return an answer to bind."""
    return [arrival.verdict, arrival.message, arrival.decision]


def report_moves(found: Defragmentation) -> object:
    """Return moves."""
    moves = [[move.name, move.pods, list(move.origins), list(move.targets)] for move in found.moves]
    return [found.fits, moves, found.reason]


def _names(names: Sequence[str]) -> object:
    """Return names, or of many how many they are and a checksum of them in their order."""
    if len(names) <= _MOST_NAMES:
        return list(names)
    return [len(names), zlib.crc32("\0".join(names).encode())]


def _ref(ref: GroupRef) -> list[str]:
    return [ref.api.value, ref.namespace, ref.name]


def _wait(wait: Wait | None) -> object:
    return None if wait is None else [wait.reason.value, dict(wait.numbers), dict(wait.names)]


def _about(note: Note) -> list[object]:
    about = note.about
    if isinstance(about, GroupRef):
        return ["gang", *_ref(about)]
    if isinstance(about, Pod):
        return ["pod", about.uid, about.namespace, about.name]
    return [about.kind, about.uid, about.namespace, about.name]


#: How each part of the effects is written; `changed` is written with reasons.
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
}
