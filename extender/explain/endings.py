"""Whose end makes room: when those who hold something are expected to end, and the first ends that are enough."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from extender.cluster.gangs import Gang
from extender.explain.runtimes import LearnedRuntimes
from extender.objects.meta import time_text
from extender.queues.sharing import Sharing

#: Of so many ends it is asked, one by one, whether the others are enough.
_MOST_SPARED: Final = 8
#: Gangs that are named of those whose end makes room.
_MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Ending:
    """A gang that holds something: the UIDs of its pods, and when it is expected to end (epoch seconds, None: unknown).

    `overdue` says that it should have ended already.
    """

    name: str
    uids: tuple[str, ...]
    at: float | None
    overdue: bool = False


def ending(gang: Gang, uids: Iterable[str], runtimes: LearnedRuntimes, sharing: Sharing, now: float) -> Ending:
    """Return when a gang is expected to end, by the runtimes that a forecast goes by."""
    began = gang.started_at
    runtime = runtimes.expect(gang, sharing, 0.0 if began is None else now - began)
    at = None if runtime is None else (now if began is None else began) + runtime.seconds
    return Ending(str(gang.ref), tuple(uids), at, at is not None and at < now)


def first_ends(holders: Iterable[Ending], enough: Callable[[Collection[str]], bool]) -> tuple[Ending, ...]:
    """Return the first ends after which there is `enough` without the pods of those UIDs; () if there never is.

    Those whose end is not known come last, the fewest pods first. Of few, none is among them that is not needed.
    Complexity: O(log holders) calls of `enough`, and one for each of the first few.
    """
    line = sorted(holders, key=lambda each: (each.at is None, each.at or 0.0, len(each.uids), each.name))
    if not line or not enough(_uids(line)):
        return ()
    low, high = 0, len(line)  # the first `low` are too few, the first `high` are enough
    while high - low > 1:
        middle = (low + high) // 2
        if enough(_uids(line[:middle])):
            high = middle
        else:
            low = middle
    needed = line[:high]
    for each in line[: high - 1] if high <= _MOST_SPARED else ():
        others = [other for other in needed if other is not each]
        if enough(_uids(others)):
            needed = others
    return tuple(needed)


def when(ends: Sequence[Ending]) -> float | None:
    """Return when the last of these ends (epoch seconds), None if that is not known of one, or one is overdue."""
    moments = [None if each.overdue else each.at for each in ends]
    known = [at for at in moments if at is not None]
    return max(known) if known and len(known) == len(moments) else None


def ends_in_words(ends: Sequence[Ending]) -> str:
    """Say whose ends these are, and when the last is: `team/a and team/b end (at 2026-11-21T12:00:00Z)`."""
    named = [each.name for each in ends[:_MOST_NAMED]]
    more = len(ends) - len(named)
    who = ", ".join(named) + (f" and {more} more" if more else "")
    at = when(ends)
    if at is not None:
        known = f"at {time_text(at)}"
    else:
        known = "overdue" if any(each.overdue for each in ends) else "not known when"
    return f"{who} {'ends' if len(ends) == 1 else 'end'} ({known})"


def _uids(ends: Iterable[Ending]) -> list[str]:
    return [uid for each in ends for uid in each.uids]
