"""The members of a gang, counted by what its questions turn on, so that no answer walks over all of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import NamedTuple, TypeVar

from extender.domain import keys
from extender.domain.pod import Phase, Pod, Shape

_Key = TypeVar("_Key", bound=Hashable)


class Kind(NamedTuple):
    """All of a member that counts for its gang as a whole, but for its shape; a gang's members are of very few kinds.

    A plain tuple, because it is hashed with every event of every pod. `state` is a field of `Census`; `unbound` says
    that the pod has neither a node nor an end, `faulty` that something is wrong with it. `active_deadline` is in
    seconds.
    """

    state: str
    running: bool
    unbound: bool
    scheduler: str
    priority: int
    role: str
    options: keys.Options
    faulty: bool
    never_preempts: bool
    active_deadline: float | None

    @property
    def staying(self) -> bool:
        """Tell whether the member waits for a node and is not being deleted."""
        return self.unbound and self.state != "leaving"


class Voice(NamedTuple):
    """What members of one role ask for on behalf of their gang."""

    role: str
    options: keys.Options


class Tally:
    """Count members as they come and go.

    Attributes:
        kinds: how many members there are of each kind.
        voices: how many members of which role ask for what; those that ask for nothing are left out.
        held: how many members of each shape hold resources on a node.
        gated: how many members of each shape may not be placed yet, because of a scheduling gate.
        wanted: how many of each shape could be placed now and have no node promised.
        wanted_roles: how many of each role those are.
        unplaced: those members, by UID, in no particular order.
    """

    def __init__(self) -> None:
        """Count nobody yet."""
        self.kinds: dict[Kind, int] = {}
        self.voices: dict[Voice, int] = {}
        self.held: dict[Shape, int] = {}
        self.gated: dict[Shape, int] = {}
        self.wanted: dict[Shape, int] = {}
        self.wanted_roles: dict[str, int] = {}
        self.unplaced: dict[str, Pod] = {}

    def __iter__(self) -> Iterator[Kind]:
        """Iterate over the kinds that there are."""
        return iter(self.kinds)

    def add(self, pod: Pod) -> None:
        """Count a member that has no node promised."""
        self._count(pod, 1)
        if pod.placeable:
            self._want(pod)

    def remove(self, pod: Pod) -> None:
        """Take a member out of the counts."""
        self._count(pod, -1)
        self.place(pod)

    def place(self, pod: Pod) -> None:
        """Take in that a member has a node promised, or wants none any more."""
        if self.unplaced.pop(pod.uid, None) is not None:
            _change(self.wanted, pod.shape, -1)
            _change(self.wanted_roles, pod.role, -1)

    def unplace(self, pod: Pod) -> None:
        """Take in that a member has no node promised any more."""
        if pod.placeable and pod.uid not in self.unplaced:
            self._want(pod)

    def _want(self, pod: Pod) -> None:
        self.unplaced[pod.uid] = pod
        _change(self.wanted, pod.shape, 1)
        _change(self.wanted_roles, pod.role, 1)

    def _count(self, pod: Pod, change: int) -> None:
        kind = _kind(pod)
        _change(self.kinds, kind, change)
        if pod.options.speaks_for_gang:
            _change(self.voices, Voice(pod.role, pod.options), change)
        if pod.bound:
            _change(self.held, pod.shape, change)
        if kind.state == "gated":
            _change(self.gated, pod.shape, change)


def _change(counts: dict[_Key, int], key: _Key, change: int) -> None:
    """Change one count; what is not there any more has none."""
    left = counts.get(key, 0) + change
    if left:
        counts[key] = left
    else:
        del counts[key]


def _kind(pod: Pod) -> Kind:
    running = pod.bound and not pod.deleting and pod.phase is Phase.RUNNING
    unbound = not (pod.node_name or pod.done)
    return Kind(
        _state(pod),
        running,
        unbound,
        pod.scheduler_name,
        pod.priority,
        pod.role,
        pod.options,
        pod.problem is not None,
        pod.never_preempts,
        pod.active_deadline,
    )


def _state(pod: Pod) -> str:
    if pod.phase is Phase.SUCCEEDED:
        return "succeeded"
    if pod.phase is Phase.FAILED:
        return "failed"
    if pod.deleting:
        return "leaving"
    if pod.node_name:
        return "bound"
    return "gated" if pod.gated else "placeable"
