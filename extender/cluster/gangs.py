"""Gangs as they stand: which pods belong together, under which PodGroup."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

from extender.cluster import wording
from extender.cluster.tally import Kind, Tally, Voice
from extender.domain import keys
from extender.domain.membership import GroupRef
from extender.domain.names import NaturalKey, natural_key
from extender.domain.pod import Pod, Shape
from extender.domain.podgroup import PodGroup
from extender.domain.roles import Rank
from extender.domain.topology import TopologyRequest


@dataclass(frozen=True, slots=True)
class Census:
    """How many members a gang has in each state; a member is counted in exactly one of them.

    `placeable` could be given a node now, `gated` exist but may not be placed, `bound` hold a node to stay,
    `succeeded` and `failed` have ended, `leaving` are being deleted, on a node or not: a controller may replace them
    before they are gone, and those that replace them must start together. `running` counts those of `bound` that run.
    """

    placeable: int = 0
    gated: int = 0
    bound: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    leaving: int = 0

    @property
    def exist(self) -> int:
        """Count the members that can still contribute to minMember."""
        return self.placeable + self.gated + self.bound + self.succeeded

    @property
    def secured(self) -> int:
        """Count the members that minMember need not wait for any more."""
        return self.bound + self.succeeded


@dataclass(slots=True)
class Gang:
    """One gang: its pods, and the PodGroup that describes it.

    `uid` changes when the PodGroup is re-created under its name, or when a gang without object comes back after its
    last pod went: nothing is inherited across a change of `uid`. `first_seen` is when this life was first heard of
    (seconds, monotonic). Members are counted as they come and go: of a gang of 1,000 each step of each member asks.
    """

    ref: GroupRef
    uid: str
    first_seen: float
    group: PodGroup | None = None
    members: dict[str, Pod] = field(default_factory=dict)
    oldest_member: str = ""
    _tally: Tally = field(init=False, repr=False, compare=False, default_factory=Tally)
    _promised: set[str] = field(init=False, repr=False, compare=False, default_factory=set)
    _census: Census | None = field(init=False, repr=False, compare=False, default=None)
    _voices: tuple[Voice, ...] | None = field(init=False, repr=False, compare=False, default=None)
    _started: float | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        """Count the members that the gang starts with."""
        for pod in self.members.values():
            self._tally.add(pod)

    @property
    def kinds(self) -> Mapping[Kind, int]:
        """Return how many members there are of each kind."""
        return self._tally.kinds

    @property
    def held(self) -> Mapping[Shape, int]:
        """Return how many members of each shape hold resources on a node."""
        return self._tally.held

    @property
    def gated(self) -> Mapping[Shape, int]:
        """Return how many members of each shape may not be placed yet, because of a scheduling gate."""
        return self._tally.gated

    @property
    def wanted(self) -> Mapping[Shape, int]:
        """Return how many members of each shape could be placed now and have no node promised."""
        return self._tally.wanted

    @property
    def wanted_roles(self) -> Mapping[str, int]:
        """Return how many members of each role could be placed now and have no node promised."""
        return self._tally.wanted_roles

    @property
    def unplaced_count(self) -> int:
        """Return how many members could be placed now and have no node promised."""
        return len(self._tally.unplaced)

    @property
    def min_member(self) -> int:
        """Return how many members must start together: those of all roles with a minimum of their own at least."""
        if self.group is not None:
            stated = self.group.min_member
        else:
            stated = max((kind.options.min_member or 1 for kind in self._tally), default=1)
        minimums = self.role_minimums
        return max(stated, sum(minimums.values())) if minimums else stated

    @property
    def role_minimums(self) -> Mapping[str, int]:
        """Return how many members of which role must start together at least, by role; by the steps that have begun."""
        minimums = wording.role_minimums(self.group, self._said())
        if self.group is None or not self.group.steps:
            return minimums
        begun = {step.role: step.least for step in self.group.steps if self.census_of(step.role).exist > step.after}
        return {role: max(minimums.get(role, 0), begun.get(role, 0)) for role in {**minimums, **begun}}

    @property
    def is_complete(self) -> bool:
        """Tell whether minMember members exist, and those that must of each role, as far as is known."""
        described = self.group is not None or not needs_object(self.ref)
        if not described or self.census().exist < self.min_member:
            return False
        return all(self.census_of(role).exist >= minimum for role, minimum in self.role_minimums.items())

    @property
    def has_minimum(self) -> bool:
        """Tell whether minMember members, and those that must of each role, are bound or have succeeded."""
        return self.would_have_minimum({})

    @property
    def is_growing(self) -> bool:
        """Tell whether the gang has all that starts together at first, and lacks only what its controller made since.

        It has lost nothing: what it lacks now was not there when it started.
        """
        if self.group is None or not self.group.steps or self.has_minimum:
            return False
        first = wording.role_minimums(self.group, self._said())
        secured = self.census().secured >= self.group.min_member
        return secured and all(self.census_of(role).secured >= minimum for role, minimum in first.items())

    @property
    def priority(self) -> int:
        """Return the PodGroup's own priority, else the highest of the unbound members, else of all."""
        if self.group is not None and self.group.priority is not None:
            return self.group.priority
        waiting = [kind.priority for kind in self._tally if kind.unbound]
        return max(waiting or [kind.priority for kind in self._tally], default=0)

    @property
    def created(self) -> str:
        """Return when the gang was created (RFC 3339): the PodGroup, or the oldest pod it ever had."""
        return self.group.created if self.group is not None else self.oldest_member

    @property
    def packing(self) -> keys.Packing:
        """Return how the gang spreads over nodes: the PodGroup's word, then the members', then binpack."""
        return wording.packing(self.group, self._said(), chain(self._tally.wanted, self._tally.held))

    @property
    def topology(self) -> TopologyRequest:
        """Return what the gang asks of the topology."""
        return wording.topology(self.group, self._said(), (kind.role for kind in self._tally))

    @property
    def queue(self) -> str:
        """Return the name of the queue that the gang asks for in Muster's own words, "" if nobody says."""
        return wording.queue(self.group, self._said())

    @property
    def peer_queue(self) -> str:
        """Return the name of the queue that other schedulers' keys name for the gang, "" if none does."""
        return wording.peer_queue(self.group, self._said())

    @property
    def preemptible(self) -> bool:
        """Tell whether the gang lets itself be preempted."""
        return wording.preemptible(self.group, self._said())

    @property
    def below_minimum(self) -> keys.BelowMinimum:
        """Return what shall become of the gang when it runs and has lost members for good."""
        return wording.below_minimum(self.group, self._said())

    @property
    def never_preempts(self) -> bool:
        """Tell whether a member that waits, else any, may preempt nobody (preemptionPolicy Never)."""
        waiting = [kind.never_preempts for kind in self._tally if kind.unbound]
        return any(waiting or [kind.never_preempts for kind in self._tally])

    @property
    def expected_duration(self) -> float | None:
        """Return how long the gang runs (seconds): what it says, else the longest of its members' deadlines.

        None where it does not say, and a member has no deadline.
        """
        stated = wording.expected_duration(self.group, self._said())
        if stated is not None:
            return stated
        deadlines = [kind.active_deadline for kind in self._tally]
        known = [deadline for deadline in deadlines if deadline is not None]
        return max(known, default=None) if len(known) == len(deadlines) else None

    @property
    def started_at(self) -> float | None:
        """Return since when the gang runs: when a kubelet first took on one that is bound now (epoch seconds).

        None while none has.
        """
        if self._started is None:
            self._started = min((p.started_at for p in self.members.values() if p.bound and p.started_at), default=0.0)
        return self._started or None

    def would_have_minimum(self, more: Mapping[str, int]) -> bool:
        """Tell whether the gang would have its minimum with so many members of each role bound more, or less if < 0."""
        if self.census().secured + sum(more.values()) < self.min_member:
            return False
        minimums = self.role_minimums
        return not minimums or all(
            self.census_of(role).secured + more.get(role, 0) >= n for role, n in minimums.items()
        )

    def ordered(self) -> list[Pod]:
        """Return the members by rank, then natural order of their names: neighbours in rank stay neighbours."""
        return sorted(self.members.values(), key=member_order)

    def unbound(self) -> list[Pod]:
        """Return the members that have neither a node nor an end, in member order."""
        return sorted((pod for pod in self.members.values() if not (pod.node_name or pod.done)), key=member_order)

    def unplaced(self) -> list[Pod]:
        """Return the members that could be placed now and have no node promised, in member order."""
        return sorted(self._tally.unplaced.values(), key=member_order)

    def join(self, pod: Pod) -> None:
        """Take in a member, or its newest state."""
        before = self.members.get(pod.uid)
        if before is not None:
            self._tally.remove(before)
        self.members[pod.uid] = pod
        self._tally.add(pod)
        if pod.uid in self._promised:
            self._tally.place(pod)
        self._census = self._voices = self._started = None

    def leave(self, uid: str) -> None:
        """Forget a member."""
        pod = self.members.pop(uid, None)
        if pod is not None:
            self._tally.remove(pod)
            self._promised.discard(uid)
            self._census = self._voices = self._started = None

    def promise(self, uid: str) -> None:
        """Take in that a member has a node promised."""
        if uid in self.members:
            self._promised.add(uid)
            self._tally.place(self.members[uid])

    def withdraw(self, uid: str) -> None:
        """Take in that a member has no node promised any more."""
        if uid in self._promised:
            self._promised.remove(uid)
            self._tally.unplace(self.members[uid])

    def census(self) -> Census:
        """Count the members by state; kept until one of them changes."""
        if self._census is None:
            self._census = _count(self._tally.kinds.items())
        return self._census

    def census_of(self, role: str) -> Census:
        """Count the members of one role by state."""
        return _count((kind, members) for kind, members in self._tally.kinds.items() if kind.role == role)

    def _said(self) -> tuple[Voice, ...]:
        """Return what members ask for on behalf of the gang, first in member order first."""
        if self._voices is None:
            self._voices = wording.in_order(self._tally.voices, self.members.values(), member_order)
        return self._voices


def _count(kinds: Iterable[tuple[Kind, int]]) -> Census:
    counts: Counter[str] = Counter()
    for kind, members in kinds:
        counts[kind.state] += members
        if kind.running:
            counts["running"] += members
    return Census(**counts)


def member_order(pod: Pod) -> tuple[Rank, NaturalKey, str]:
    """Return the sort key of members: by rank, then by name with its numbers as numbers."""
    return (pod.rank, natural_key(pod.name), pod.uid)


def needs_object(ref: GroupRef) -> bool:
    """Tell whether a gang of this API waits until its PodGroup exists."""
    return not ref.api.size_annotation
