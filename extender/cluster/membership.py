"""What the members of a gang are and state: how many there are of each kind, and which value counts where they differ.

All that a gang's properties depend on is counted as members come and go, so that none of them walks over the members.
For each option the value of the PodGroup counts, then that of the first member that states any; whether it may be
evicted each member states for itself. Muster's own keys count before those of other schedulers, wherever they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from msgspec import Struct

from extender.objects import keys
from extender.objects.branches import Branch, of_roles
from extender.objects.keys import BelowMinimum, Options, Packing
from extender.objects.pod import Phase, Pod, Shape
from extender.objects.podgroup import PodGroup
from extender.objects.podoptions import LEADING_ROLES
from extender.objects.topology import SILENT, UNCONSTRAINED, Statement, TopologyRequest, settle

_Key = TypeVar("_Key", bound=Hashable)


class GangKind(NamedTuple):
    """All of a member that counts for its gang as a whole, but for its shape; a gang's members are of very few kinds.

    A plain tuple, because it is hashed with every event of every pod. `state` is a field of `Census`; `unbound` says
    that the pod has neither a node nor an end, `faulty` that something is wrong with it. `min_member` is the size
    of the gang in the member's own words, `states_minimum` says that it has any. `kept` says that it is not to be
    evicted, by its own word. `active_deadline` is in seconds. `keeps_devices` as in a pod.
    """

    state: str
    running: bool
    unbound: bool
    scheduler: str
    priority: int
    role: str
    min_member: int
    states_minimum: bool
    faulty: bool
    never_preempts: bool
    kept: bool
    active_deadline: float | None
    keeps_devices: bool

    @property
    def ended(self) -> bool:
        """Tell whether the member has succeeded or failed."""
        return self.state in {"succeeded", "failed"}

    @property
    def staying(self) -> bool:
        """Tell whether the member waits for a node and is not being deleted."""
        return self.unbound and self.state != "leaving"


class Census(Struct, frozen=True, gc=False):
    """How many members a gang has in each state; a member is counted in exactly one of them.

    `placeable` could be given a node now, `gated` exist but may not be placed, `bound` hold a node to stay,
    `succeeded` and `failed` have ended, `leaving` are being deleted, on a node or not: a controller may replace them
    before they are gone, and those that replace them must start together. `running` counts those of `bound` that run,
    `keeping` those of `placeable` that have devices allocated.
    """

    placeable: int = 0
    gated: int = 0
    bound: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    leaving: int = 0
    keeping: int = 0

    @property
    def exist(self) -> int:
        """Count the members that can still contribute to minMember."""
        return self.placeable + self.gated + self.bound + self.succeeded

    @property
    def secured(self) -> int:
        """Count the members that minMember need not wait for any more."""
        return self.bound + self.succeeded


class Voice(NamedTuple):
    """What members of one role ask for on behalf of their gang."""

    role: str
    options: keys.Options


class _Member(NamedTuple):
    """What one member adds to the counts, but for the place that it may want; None for nothing."""

    kind: GangKind
    voice: Voice | None
    held: Shape | None
    gated: Shape | None


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
        shared: whether it is that of many gangs, and not to be changed.
    """

    __slots__ = (
        "__weakref__",
        "_by_role",
        "_census",
        "gated",
        "held",
        "kinds",
        "shared",
        "unplaced",
        "voices",
        "wanted",
        "wanted_roles",
    )

    def __init__(self, members: Iterable[Pod] = (), *, shared: bool = False) -> None:
        """Count `members`, none of which has a node promised."""
        self.shared = shared
        self.kinds: dict[GangKind, int] = {}
        self.voices: dict[Voice, int] = {}
        self.held: dict[Shape, int] = {}
        self.gated: dict[Shape, int] = {}
        self.wanted: dict[Shape, int] = {}
        self.wanted_roles: dict[str, int] = {}
        self.unplaced: dict[str, Pod] = {}
        self._census: Census | None = None
        self._by_role: dict[str, Census] = {}
        for pod in members:
            self.add(pod)

    def __iter__(self) -> Iterator[GangKind]:
        """Iterate over the kinds that there are."""
        return iter(self.kinds)

    @property
    def census(self) -> Census:
        """Count the members by state; kept until one of them changes."""
        if self._census is None:
            self._census = census_of(self.kinds.items())
        return self._census

    def census_of(self, role: str) -> Census:
        """Count the members of one role by state; kept until any changes."""
        if not self._by_role:
            kinds: dict[str, list[tuple[GangKind, int]]] = {}
            for kind, members in self.kinds.items():
                kinds.setdefault(kind.role, []).append((kind, members))
            self._by_role = {each: census_of(own) for each, own in kinds.items()}
        return self._by_role.get(role, _NONE)

    def add(self, pod: Pod) -> None:
        """Count a member that has no node promised."""
        self.count(_member(pod), 1)
        if pod.placeable:
            self._want(pod)

    def remove(self, pod: Pod) -> None:
        """Take a member out of the counts."""
        self.count(_member(pod), -1)
        self.place(pod)

    def renew(self, pod: Pod) -> None:
        """Take in a member that counts as it did."""
        if pod.uid in self.unplaced:
            self.unplaced[pod.uid] = pod

    def place(self, pod: Pod) -> None:
        """Take in that a member has a node promised, or wants none any more."""
        if self.unplaced.pop(pod.uid, None) is not None:
            _change(self.wanted, pod.shape, -1)
            _change(self.wanted_roles, pod.role, -1)

    def place_all(self, pods: Iterable[Pod]) -> None:
        """Take in that members have a node promised, or want none any more."""
        placed = [pod for pod in pods if self.unplaced.pop(pod.uid, None) is not None]
        for shape, alike in groupby(placed, key=attrgetter("shape")):
            _change(self.wanted, shape, -sum(1 for _ in alike))
        for role, alike in groupby(placed, key=attrgetter("role")):
            _change(self.wanted_roles, role, -sum(1 for _ in alike))

    def unplace(self, pod: Pod) -> None:
        """Take in that a member has no node promised any more."""
        if pod.placeable and pod.uid not in self.unplaced:
            self._want(pod)

    def _want(self, pod: Pod) -> None:
        self.unplaced[pod.uid] = pod
        _change(self.wanted, pod.shape, 1)
        _change(self.wanted_roles, pod.role, 1)

    def count(self, member: _Member, change: int) -> None:
        """Count one member more or less, whether or not it wants a place."""
        self._census = None
        if self._by_role:
            self._by_role = {}
        _change(self.kinds, member.kind, change)
        if member.voice is not None:
            _change(self.voices, member.voice, change)
        if member.held is not None:
            _change(self.held, member.held, change)
        if member.gated is not None:
            _change(self.gated, member.gated, change)


_NONE: Final = Census()


def census_of(kinds: Iterable[tuple[GangKind, int]]) -> Census:
    """Count members of some kinds by state."""
    counts: dict[str, int] = {}
    for kind, members in kinds:
        counts[kind.state] = counts.get(kind.state, 0) + members
        if kind.running:
            counts["running"] = counts.get("running", 0) + members
        if kind.keeps_devices and kind.state == "placeable":
            counts["keeping"] = counts.get("keeping", 0) + members
    return Census(**counts)


def tally_of_one(pod: Pod) -> Tally:
    """Return the tally of a gang with one member: one for all such gangs whose member cannot be placed, as most run.

    Fifty thousand pods that name no group are as many gangs, and a few hundred such tallies.
    """
    if pod.placeable:
        return Tally((pod,))
    member = _member(pod)
    tally = _shared.get(member)
    if tally is None:
        tally = _shared[member] = Tally(shared=True)
        tally.count(member, 1)
    return tally


#: Tallies that gangs share, gone with the last of them: a tenant chooses how large a shape is.
_shared: Final[WeakValueDictionary[_Member, Tally]] = WeakValueDictionary()


def _member(pod: Pod) -> _Member:
    kind, speaks = _kind(pod), pod.options is not keys.NO_OPTIONS and pod.options.speaks_for_gang
    return _Member(
        kind,
        Voice(pod.role, pod.options) if speaks else None,
        pod.shape if pod.bound else None,
        pod.shape if kind.state == "gated" else None,
    )


def counts_alike(before: Pod, pod: Pod) -> bool:
    """Tell whether a member counts as it did, also where it wants a place."""
    return before.shape == pod.shape and _member(before) == _member(pod)


def _change(counts: dict[_Key, int], key: _Key, change: int) -> None:
    """Change one count; what is not there any more has none."""
    left = counts.get(key, 0) + change
    if left:
        counts[key] = left
    else:
        del counts[key]


def _kind(pod: Pod) -> GangKind:
    running = pod.bound and not pod.deleting and pod.phase is Phase.RUNNING
    unbound = not (pod.node_name or pod.done)
    return GangKind(
        _state(pod),
        running,
        unbound,
        pod.scheduler_name,
        pod.priority,
        pod.role,
        pod.options.min_member or 1,
        pod.options.min_member is not None or pod.options.says_parts,
        pod.problem is not None,
        pod.never_preempts,
        pod.options.preemptible is False,
        pod.active_deadline,
        pod.keeps_devices,
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


#: The minimums of a gang in which no role has one.
NO_MINIMUMS: Final[Mapping[str, int]] = MappingProxyType({})


def in_order(said: Iterable[Voice], members: Iterable[Pod], member_order: Callable[[Pod], Any]) -> tuple[Voice, ...]:
    """Return the voices of `members` that ask for anything, given as `said`, in the order of the first that has each.

    Complexity: O(voices), unless members of one role disagree; then O(members).
    """
    voices = set(said)
    if len({voice.role for voice in voices}) == len(voices):
        return tuple(sorted(voices, key=lambda voice: (voice.role not in LEADING_ROLES, voice.role)))
    first: dict[Voice, Any] = {}
    for pod in members:
        voice = Voice(pod.role, pod.options)
        if voice in voices:
            place = member_order(pod)
            first[voice] = min(first.get(voice, place), place)
    return tuple(sorted(first, key=first.__getitem__))


def packing(group: PodGroup | None, said: Iterable[Voice], shapes: Iterable[Shape]) -> Packing:
    """Return how a gang spreads over nodes, whose members have `shapes`; binpack if none says."""
    words = [word for word in _words(group, said) if word.packing is not None or word.packings]
    asked = {resource for shape in shapes for resource, _ in shape.requests} if words else ()
    return next((found for word in words if (found := word.packing_of(asked)) is not None), Packing.BINPACK)


def tree(group: PodGroup | None, said: Iterable[Voice]) -> Branch | None:
    """Return the parts that a gang has, None if it has none."""
    for word in _words(group, said):
        if word.says_parts:
            return word.tree or of_roles(word.role_minimums)
    return None if group is None else group.root


def topology(group: PodGroup | None, said: Sequence[Voice], roles: Iterable[str]) -> TopologyRequest:
    """Return what a gang whose members have `roles` asks of the topology."""
    if not said and (group is None or (group.options.topology is SILENT and group.options.peers is SILENT)):
        return UNCONSTRAINED
    own = [Statement(voice.options.topology, voice.role) for voice in said]
    peers = [Statement(voice.options.peers, voice.role) for voice in said]
    tiers = [own, peers]
    if group is not None:
        tiers = [[Statement(group.options.topology, None)], own, [Statement(group.options.peers, None)], peers]
    spoken = tuple(tuple(each for each in tier if each.terms != SILENT) for tier in tiers)
    return settle(spoken, frozenset(roles)) if any(spoken) else UNCONSTRAINED


def queue(group: PodGroup | None, said: Sequence[Voice]) -> str:
    """Return the name of the queue that a gang asks for by Muster's own keys, "" if none."""
    return next((word.queue for word in _words(group, said) if word.queue), "")


def peer_queue(group: PodGroup | None, said: Sequence[Voice]) -> str:
    """Return the name of the queue that a gang asks for by the keys of other schedulers, "" if none."""
    return next((word.peer_queue for word in _words(group, said) if word.peer_queue), "")


def expected_duration(group: PodGroup | None, said: Sequence[Voice]) -> float | None:
    """Return how long a gang says that it runs (seconds), None if it does not."""
    durations = (word.expected_duration for word in _words(group, said))
    return next((seconds for seconds in durations if seconds is not None), None)


def checkpoint_interval(group: PodGroup | None, said: Sequence[Voice]) -> float | None:
    """Return after how much work a gang saves it, as it says (seconds), None if it does not."""
    intervals = (word.checkpoint_interval for word in _words(group, said))
    return next((seconds for seconds in intervals if seconds is not None), None)


def eviction_notice(group: PodGroup | None, said: Sequence[Voice]) -> float | None:
    """Return how long before its eviction a gang asks to be told (seconds), None if it does not."""
    asked = (word.eviction_notice for word in _words(group, said))
    return next((seconds for seconds in asked if seconds is not None), None)


def max_runtime(group: PodGroup | None, said: Sequence[Voice]) -> float | None:
    """Return how long a gang is to run at most, as it says (seconds), None if it does not."""
    limits = (word.max_runtime for word in _words(group, said))
    return next((seconds for seconds in limits if seconds is not None), None)


def held(group: PodGroup | None, said: Sequence[Voice]) -> bool:
    """Tell whether a gang is not to start now, as its PodGroup or any of its members says."""
    return any(word.hold for word in _words(group, said))


def max_member(group: PodGroup | None, said: Sequence[Voice]) -> int | None:
    """Return how many members a gang is to have on nodes at most, None for any number."""
    return next((word.max_member for word in _words(group, said) if word.max_member is not None), None)


def preemptible(group: PodGroup | None, options: Options) -> bool:
    """Tell whether a member with `options` may be evicted; it may unless the PodGroup, or else itself, says not."""
    stated = None if group is None else group.options.preemptible
    return options.preemptible is not False if stated is None else stated


def below_minimum(group: PodGroup | None, said: Sequence[Voice]) -> BelowMinimum:
    """Return what happens to a running gang that lost members for good; eviction by default."""
    policies = (word.below_minimum for word in _words(group, said))
    return next((policy for policy in policies if policy is not None), BelowMinimum.EVICT)


def _words(group: PodGroup | None, said: Iterable[Voice]) -> Iterator[Options]:
    if group is not None:
        yield group.options
    for voice in said:
        yield voice.options
