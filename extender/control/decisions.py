"""A log of what was decided lately, for people."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any

from extender.clock import Clock
from extender.explain.documents import DecisionKind, DecisionRow
from extender.ledger.effects import Effects, Evict, GangStep, Milestone, Note
from extender.objects.meta import write_timestamp
from extender.objects.pod import Pod
from extender.objects.podgroup import GroupRef

#: Entries that are kept: hours on a cluster where a gang starts every minute, some 1 MB.
MOST_ENTRIES = 2000
#: Decimals of the seconds that a gang waited: milliseconds.
_SECONDS_DECIMALS = 3
#: Characters of a message that are kept.
_MOST_TEXT = 2000


_STEPS = {
    GangStep.PLACED: DecisionKind.RESERVED,
    GangStep.STARTED: DecisionKind.STARTED,
    GangStep.RELEASED: DecisionKind.RELEASED,
    GangStep.EXPIRED: DecisionKind.EXPIRED,
}


class DecisionLog:
    """Keep the last entries; older ones are dropped, and `seq` tells that they are gone."""

    def __init__(self, clock: Clock, most: int = MOST_ENTRIES) -> None:
        """Keep at most `most` entries, timed by `clock`."""
        self._clock = clock
        self._entries: deque[DecisionRow] = deque(maxlen=most)
        self._last = 0

    @property
    def last(self) -> int:
        """Return the `seq` of the newest entry there ever was, 0 before the first."""
        return self._last

    def since(self, seq: int) -> list[DecisionRow]:
        """Return the entries after `seq` that are still kept, oldest first."""
        newer = min(max(self._last - seq, 0), len(self._entries))
        return list(islice(self._entries, len(self._entries) - newer, None))

    def take_in(self, effects: Effects[Any]) -> None:
        """Note what the admission has asked for since last time, in the order in which it is carried out.

        That a pod without a group found a place at once is left out: there may be hundreds of them a minute.
        """
        now = ""
        for what, pods in _entries(effects):
            now = now or write_timestamp(self._clock.now())
            self._last += 1
            self._entries.append(_row(self._last, now, what, pods))


def _row(seq: int, at: str, what: Milestone | Evict | Note, pods: int) -> DecisionRow:
    """Return the entry of one thing that was decided, about so many pods."""
    match what:
        case Milestone() as step:
            gang = str(step.gang)
            waited = round(step.waited, _SECONDS_DECIMALS) if step.what is GangStep.STARTED else None
            return DecisionRow(
                seq, at, _STEPS[step.what], gang, gang,
                decision=step.decision, members=pods, message=step.why[:_MOST_TEXT], waited_seconds=waited,
            )  # fmt: skip
        case Evict() as eviction:
            gang = str(eviction.pod.group)
            return DecisionRow(
                seq, at, DecisionKind.EVICTED, gang, eviction.pod.key if pods == 1 else gang,
                members=pods, reason=eviction.reason.value, message=eviction.message[:_MOST_TEXT], warning=True,
            )  # fmt: skip
        case Note() as note:
            gang, about = _subject(note)
            return DecisionRow(
                seq, at, DecisionKind.NOTED, gang, about,
                reason=note.reason, message=note.message[:_MOST_TEXT], warning=note.warning,
            )  # fmt: skip


def _entries(effects: Effects[Any]) -> Iterator[tuple[Milestone | Evict | Note, int]]:
    """Yield what is worth an entry, and how many pods it is about."""
    for step in effects.milestones:
        if not step.routine:
            yield step, step.members
    evicted: dict[tuple[object, ...], list[Evict]] = {}
    for eviction in effects.evictions.values():
        evicted.setdefault((eviction.pod.group, eviction.reason, eviction.message), []).append(eviction)
    for together in evicted.values():
        yield together[0], len(together)
    for note in effects.notes:
        yield note, 1


def _subject(note: Note) -> tuple[str, str]:
    """Return gang and object of a note."""
    match note.about:
        case GroupRef() as ref:
            return str(ref), str(ref)
        case Pod() as pod:
            return str(pod.group), pod.key
        case other:
            return "", str(other)
