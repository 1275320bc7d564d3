"""The verdict: every rule applied to one history."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from tests.judge.capacity import open_nodes, room_for_bound, room_for_nominated
from tests.judge.evictions import gangs_stay_whole, none_for_members
from tests.judge.history import History, Tolerance, Violation
from tests.judge.lives import Lives
from tests.judge.ownevictions import evicted_by_right, evicted_for_a_start, gangs_leave_whole
from tests.judge.quota import quota_holds
from tests.judge.starting import atomic, bound_once, inherits_nothing
from tests.judge.waiting import everyone_runs, nominations_end, survives, whole_or_nothing

Rule: TypeAlias = Callable[[Lives], Iterator[Violation]]

RULES: tuple[Rule, ...] = (
    atomic,
    room_for_bound,
    open_nodes,
    room_for_nominated,
    bound_once,
    whole_or_nothing,
    nominations_end,
    everyone_runs,
    inherits_nothing,
    gangs_stay_whole,
    none_for_members,
    gangs_leave_whole,
    evicted_for_a_start,
    evicted_by_right,
    quota_holds,
)

#: What is assumed where nobody says otherwise: a healthy network, and a Muster that is never paused.
_USUAL = Tolerance()


def judge(history: History, tolerance: Tolerance = _USUAL) -> list[Violation]:
    """Return every violation of P1 to P7, and of quota, that the history shows, in the order of time.

    `tolerance` says how late news and writes may have been in this history: more than the faults injected.
    """
    lives = Lives.read(history, tolerance)
    found = [violation for rule in RULES for violation in rule(lives)]
    return sorted([*found, *survives(lives, found)])


def report(violations: Sequence[Violation]) -> str:
    """Write the violations for people, "" if there are none."""
    return "\n".join(map(str, violations))
