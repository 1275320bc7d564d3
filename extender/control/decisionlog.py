"""What has been decided lately: the last starts, releases, evictions and notes, for whoever asks or follows."""

from __future__ import annotations

import datetime as dt
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from extender.admission.effects import Effects, Evict, Milestone, Note, Step
from extender.clock import Clock
from extender.domain.membership import GroupRef
from extender.domain.pod import Pod

#: Entries that are kept: hours on a cluster where a gang starts every minute, some 1 MB.
MOST_ENTRIES = 2000


class EntryKind(StrEnum):
    """What an entry tells of."""

    RESERVED = "reserved"
    STARTED = "started"
    RELEASED = "released"
    EXPIRED = "expired"
    EVICTED = "evicted"
    NOTED = "noted"


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that was decided, or that people were told.

    `seq` grows by one from entry to entry, from 1 on. `gang` is namespace/name, "" where none is concerned; `about` the
    object that it is about: a pod's namespace/name, or the gang's. `decision` is the name that a reservation has in the
    log, `members` how many pods it concerns. `reason` is one word, `message` a sentence. `waited` is, for a start, the
    seconds since the gang was first seen.
    """

    seq: int
    at: dt.datetime
    kind: EntryKind
    gang: str
    about: str
    decision: str = ""
    members: int = 0
    reason: str = ""
    message: str = ""
    warning: bool = False
    waited: float | None = None


_STEPS = {
    Step.PLACED: EntryKind.RESERVED,
    Step.STARTED: EntryKind.STARTED,
    Step.RELEASED: EntryKind.RELEASED,
    Step.EXPIRED: EntryKind.EXPIRED,
}


class DecisionLog:
    """Keep the last entries; older ones are dropped, and `seq` tells that they are gone."""

    def __init__(self, clock: Clock, most: int = MOST_ENTRIES) -> None:
        """Keep at most `most` entries, timed by `clock`."""
        self._clock = clock
        self._entries: deque[Entry] = deque(maxlen=most)
        self._last = 0

    @property
    def last(self) -> int:
        """Return the `seq` of the newest entry there ever was, 0 before the first."""
        return self._last

    def since(self, seq: int) -> list[Entry]:
        """Return the entries after `seq` that are still kept, oldest first."""
        newer = min(max(self._last - seq, 0), len(self._entries))
        return list(islice(self._entries, len(self._entries) - newer, None))

    def take_in(self, effects: Effects) -> None:
        """Note what the admission has asked for since last time, in the order in which it is carried out."""
        if not (effects.milestones or effects.evictions or effects.notes):
            return
        now = self._clock.now()
        for entry in _entries(effects, now):
            self._last += 1
            self._entries.append(entry(self._last))


@dataclass(frozen=True, slots=True)
class _Draft:
    """An entry without its number."""

    at: dt.datetime
    what: Milestone | Evict | Note
    pods: int = 1

    def __call__(self, seq: int) -> Entry:
        """Return the entry with its number."""
        match self.what:
            case Milestone() as step:
                gang = str(step.gang)
                waited = step.waited if step.what is Step.STARTED else None
                return Entry(
                    seq, self.at, _STEPS[step.what], gang, gang,
                    decision=step.decision, members=step.members, message=step.why, waited=waited,
                )  # fmt: skip
            case Evict() as eviction:
                gang = "" if eviction.pod.group is None else str(eviction.pod.group)
                return Entry(
                    seq, self.at, EntryKind.EVICTED, gang, eviction.pod.key if self.pods == 1 else gang,
                    members=self.pods, reason=eviction.reason.value, message=eviction.message, warning=True,
                )  # fmt: skip
            case Note() as note:
                gang, about = _subject(note)
                return Entry(
                    seq, self.at, EntryKind.NOTED, gang, about,
                    reason=note.reason, message=note.message, warning=note.warning,
                )  # fmt: skip


def _entries(effects: Effects, now: dt.datetime) -> Iterator[_Draft]:
    for step in effects.milestones:
        yield _Draft(now, step)
    evicted: dict[tuple[object, ...], list[Evict]] = {}
    for eviction in effects.evictions.values():
        whose = eviction.pod.group or eviction.pod.uid
        evicted.setdefault((whose, eviction.reason, eviction.message), []).append(eviction)
    for together in evicted.values():
        yield _Draft(now, together[0], len(together))
    for note in effects.notes:
        yield _Draft(now, note)


def _subject(note: Note) -> tuple[str, str]:
    """Return gang and object of a note."""
    match note.about:
        case GroupRef() as ref:
            return str(ref), str(ref)
        case Pod() as pod:
            return "" if pod.group is None else str(pod.group), pod.key
        case other:
            return "", str(other)
