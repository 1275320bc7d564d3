"""Gangs as they stand: which pods belong together, under which PodGroup, and which of them it cannot start without."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, islice
from operator import attrgetter, itemgetter

from extender.cluster import membership
from extender.cluster.membership import Census, GangKind, Tally, Voice, tally_of_one
from extender.objects import keys
from extender.objects.branches import Branch, Have, Standing, of_labels
from extender.objects.jobsigns import NO_SIGNS, JobSigns
from extender.objects.pod import Phase, Pod, Shape
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.podoptions import RoleRank
from extender.objects.sources.table import SOURCE_OF
from extender.objects.text import NaturalKey, natural_key
from extender.objects.topology import (
    SHARED_CLAIM,
    SHARED_CLAIM_GROUPS,
    LabelGroup,
    TopologyRequest,
    WeighedPlace,
    subgroup_role,
    with_subgroups,
)

#: What gangs share until it is theirs: most pods run, and most of those name no group.
_UNCOUNTED = Tally(shared=True)
_NO_MEMBERS: frozenset[str] = frozenset()

#: Choices of what a part lacks of which some are placed: of one that needs any two of six parts there are fifteen.
_MOST_CHOICES = 16


@dataclass(slots=True)
class Gang:
    """One gang: its pods, and the PodGroup that describes it.

    `uid` changes when the PodGroup is re-created under its name, or when a gang without object comes back after its
    last pod went: nothing is inherited across a change of `uid`. `first_seen` is when this life was first seen
    (seconds, monotonic). `refused` are members that kube-scheduler does not place wherever there is room, with its
    words. `outlived` tells that its last pod has gone and was one of Muster's. `weighed` is by what its place was
    chosen, for people: a restart forgets it. Members are counted as they come and go: of a gang of 1,000 each step of
    each member asks.
    """

    ref: GroupRef
    uid: str
    first_seen: float
    group: PodGroup | None = None
    members: dict[str, Pod] = field(default_factory=dict)
    oldest_member: str = ""
    refused: dict[str, str] = field(init=False, default_factory=dict)
    outlived: bool = field(init=False, default=False)
    weighed: WeighedPlace | None = field(init=False, compare=False, default=None)
    _tally: Tally = field(init=False, repr=False, compare=False, default=_UNCOUNTED)
    _is_pod: bool = field(init=False, repr=False, compare=False, default=False)
    _promised: set[str] | frozenset[str] = field(init=False, repr=False, compare=False, default=_NO_MEMBERS)
    _sharers: set[str] | frozenset[str] = field(init=False, repr=False, compare=False, default=_NO_MEMBERS)
    _voices: tuple[Voice, ...] | None = field(init=False, repr=False, compare=False, default=None)
    _started: float | None = field(init=False, repr=False, compare=False, default=None)
    _spared: tuple[PodGroup | None, frozenset[str]] | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        """Count the members that the gang starts with."""
        self._is_pod = self.ref.is_pod
        if self.members:
            self._tally = Tally(self.members.values())
            self._sharers = frozenset(uid for uid, pod in self.members.items() if SHARED_CLAIM in pod.labels)

    @property
    def kinds(self) -> Mapping[GangKind, int]:
        """Return how many members there are of each kind."""
        return self._tally.kinds

    @property
    def labels(self) -> Mapping[str, str]:
        """Return the labels of the object that describes the gang, else of its first pod."""
        if self.group is not None:
            return self.group.labels
        first = min(self.members.values(), key=lambda pod: (pod.created, pod.name), default=None)
        return {} if first is None else first.labels

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
        stated, minimums = self._stated_minimum, self.role_minimums
        return max(stated, sum(minimums.values())) if minimums else stated

    @property
    def _stated_minimum(self) -> int:
        if self._is_pod:
            return 1
        if self.group is not None:
            return self.group.min_member
        return max((kind.min_member for kind in self._tally), default=1)

    @property
    def is_elastic(self) -> bool:
        """Tell whether it can do with fewer members than it has, or says how many it has at most."""
        most = membership.max_member(self.group, self._said())
        return self.min_member < max(self.census().exist, most or 0)

    @property
    def spaces(self) -> int:
        """Return how many members without a place may get one: as many as there are, or as its maximum leaves.

        Members on nodes and those that have one promised count for it, ended ones do not. What the gang cannot start
        without is never too many.
        """
        most, tree = membership.max_member(self.group, self._said()), self.tree
        joining = self.unplaced_count
        if tree is not None and tree.has_most:
            joining -= sum(count for role, count in self.wanted_roles.items() if self._is_beyond(role))
        if self._is_pod or most is None:
            return joining
        taken = sum(self.held.values()) + self.census().placeable - self.unplaced_count
        return max(min(joining, max(most, self.min_member) - taken), 0)

    @property
    def role_minimums(self) -> Mapping[str, int]:
        """Return how many members of which role must start together at least, by role; by the steps that have begun."""
        tree = self.tree
        if tree is None and (self.group is None or not self.group.steps):
            return membership.NO_MINIMUMS  # as of most gangs, with every event of every member
        minimums = membership.NO_MINIMUMS if tree is None else tree.needs(self.standing)
        begun = self._begun
        return {role: max(minimums.get(role, 0), begun.get(role, 0)) for role in {**minimums, **begun}}

    @property
    def tree(self) -> Branch | None:
        """Return the parts that the gang has, None if it has none."""
        group = self.group
        if group is not None and group.label_parts:
            return of_labels(group.label_parts, frozenset(kind.role for kind in self._tally))
        described = group is not None and (group.tree or group.role_minimums or group.options.says_parts)
        if self._is_pod or not (described or self._tally.voices):
            return None
        return membership.tree(group, self._said())

    @property
    def _begun(self) -> dict[str, int]:
        """Return how many members are needed of roles whose step has begun."""
        steps = () if self.group is None else self.group.steps
        return {step.role: step.least for step in steps if self.census_of(step.role).exist > step.after}

    def standing(self, role: str) -> Standing:
        """Return how many members of a role could have a place, and how many have one."""
        census = self.census_of(role)
        placed = census.secured + census.placeable - self.wanted_roles.get(role, 0)
        return Standing(census.exist - census.gated, placed, census.secured)

    def units(self, pod: Pod) -> Iterator[list[Pod]]:
        """Yield what may be placed for the sake of one member beyond the minimum, the first choice first.

        That is itself alone, unless it is of a part of the gang that lacks members: then those that the part lacks, of
        several choices that do as well each. Nothing is if they are not there, or would be too many.
        """
        tree = self.tree
        if tree is None:
            yield [pod]
            return
        part = tree.unit(pod.role, self._placed_of)
        if self._is_beyond(pod.role):
            return
        members = [each for each in self.unplaced() if each.uid not in self.refused] if tree.has_units else []
        if part is None:
            leaf = tree.leaf(pod.role)
            lacks = leaf.by - (self._placed_of(pod.role) - leaf.least) % leaf.by
            alike = [each for each in members if each.role == pod.role][:lacks]
            if leaf.by == 1 or len(alike) == lacks:
                yield alike if leaf.by > 1 else [pod]
            return
        for minimums in islice(part.choices(self.standing), _MOST_CHOICES):
            lacking = {role: gap for role, least in minimums.items() if (gap := least - self._placed_of(role)) > 0}
            chosen: list[Pod] = []
            for each in members:
                if lacking.get(each.role, 0):
                    lacking[each.role] -= 1
                    chosen.append(each)
            if chosen and not any(lacking.values()):
                yield chosen

    def _placed_of(self, role: str) -> int:
        return self.standing(role).placed

    def _is_beyond(self, role: str) -> bool:
        """Tell whether the gang has as many parts, or members of a part, as it may have, and no more of a role join."""
        tree = self.tree
        return tree is not None and tree.bars(role, self._placed_of)

    @property
    def is_complete(self) -> bool:
        """Tell whether minMember members exist, and those that must of each role, as far as is known."""
        described = self.group is not None or not needs_object(self.ref)
        if not described or self.census().exist < self.min_member:
            return False
        return all(self.census_of(role).exist >= minimum for role, minimum in self.role_minimums.items())

    @property
    def has_core(self) -> bool:
        """Tell whether all that the gang cannot start without has a place, or has succeeded."""
        return self.placed_count >= self.min_member and not role_gaps(self)

    @property
    def has_minimum(self) -> bool:
        """Tell whether minMember members, and those that must of each role, are bound or have succeeded."""
        return self.would_have_minimum({})

    @property
    def has_ended(self) -> bool:
        """Tell whether its PodGroup says that it has finished, and no member has come since; they may have gone."""
        if self.group is None or not self.group.told_finished:
            return False
        census = self.census()
        return not (census.placeable or census.gated or census.bound)

    @property
    def is_growing(self) -> bool:
        """Tell whether the gang has all that starts together at first, and lacks only what its controller made since.

        It has lost nothing: what it lacks now was not there when it started.
        """
        if self.group is None or not self.group.steps or self.has_minimum:
            return False
        tree = self.tree
        secured = self.census().secured >= self.group.min_member
        return secured and (tree is None or tree.holds(lambda role: self.census_of(role).secured))

    @property
    def priority(self) -> int:
        """Return the PodGroup's own priority, else the highest of the unbound members, else of all."""
        return self._highest([kind.priority for kind in self._tally if kind.unbound])

    @property
    def held_priority(self) -> int:
        """Return what others must exceed to have it evicted: as `priority`, by the members that are bound."""
        return self._highest([kind.priority for kind in self._tally if kind.state == "bound"])

    def _highest(self, priorities: list[int]) -> int:
        if self.group is not None and self.group.priority is not None:
            return self.group.priority
        return max(priorities or [kind.priority for kind in self._tally], default=0)

    @property
    def created(self) -> str:
        """Return when the gang was created (RFC 3339): the PodGroup, or the oldest pod it ever had."""
        return self.group.created if self.group is not None else self.oldest_member

    @property
    def packing(self) -> keys.Packing:
        """Return how the gang spreads over nodes: the PodGroup's word, then the members', then binpack."""
        return membership.packing(self.group, self._said(), chain(self._tally.wanted, self._tally.held))

    @property
    def topology(self) -> TopologyRequest:
        """Return what the gang asks of the topology; subgroups by labels are groups of the roles of `told_apart`."""
        asked = membership.topology(self.group, self._said(), (kind.role for kind in self._tally))
        if not self._label_groups:
            return asked
        return with_subgroups(asked, ((pod.role, pod.labels) for pod in self.members.values()), self._label_groups)

    @property
    def _label_groups(self) -> tuple[LabelGroup, ...]:
        own = () if self.group is None else self.group.options.peers.label_groups
        return (*own, *SHARED_CLAIM_GROUPS) if self._sharers else own

    def told_apart(self, pods: list[Pod]) -> list[Pod]:
        """Return some members with roles that tell their subgroups apart, the same list if they have none."""
        groups = self._label_groups
        if not groups:
            return pods
        return [replace(pod, role=subgroup_role(pod.role, pod.labels, groups)) for pod in pods]

    @property
    def queue(self) -> str:
        """Return the name of the queue that the gang asks for by Muster's own keys, "" if none."""
        return membership.queue(self.group, self._said())

    @property
    def peer_queue(self) -> str:
        """Return the name of the queue that other schedulers' keys name for the gang, "" if none does."""
        return membership.peer_queue(self.group, self._said())

    @property
    def preemptible(self) -> bool:
        """Tell whether the gang can be evicted whole: none of its members that have not ended are to be kept."""
        if self.group is not None and self.group.options.preemptible is not None:
            return self.group.options.preemptible
        return not any(kind.kept and not kind.ended for kind in self._tally)

    @property
    def spare(self) -> frozenset[str]:
        """Return the UIDs of members with a node, or one promised, that can leave though the gang cannot do so whole.

        Kept until others are placed. Complexity: O(members log members) then, if there are more than minMember and not
        all are to be kept.
        """
        stated = None if self.group is None else self.group.options.preemptible
        if self.goes_whole or stated is not None or all(kind.kept or kind.ended for kind in self._tally):
            return _NO_MEMBERS
        if self._spared is None or self._spared[0] is not self.group:
            placed: list[Pod] = []
            if self.placed_count > self.min_member:
                placed = sorted(filter(self.has_place, self.members.values()), key=member_order)
            self._spared = self.group, frozenset(pod.uid for pod in split(self, placed)[1])
        return self._spared[1]

    def has_place(self, pod: Pod) -> bool:
        """Tell whether a member is bound to stay, or has a node promised."""
        return (pod.bound or pod.uid in self._promised) and not pod.deleting

    @property
    def placed_count(self) -> int:
        """Count the members that are bound, have succeeded or have a node promised."""
        census = self.census()
        return census.secured + census.placeable - self.unplaced_count

    @property
    def goes_whole(self) -> bool:
        """Tell whether no member leaves for others but with all of them."""
        return self.group is not None and self.group.goes_whole

    @property
    def below_minimum(self) -> keys.BelowMinimum:
        """Return what happens to the gang when it runs and has lost members for good."""
        return membership.below_minimum(self.group, self._said())

    @property
    def never_preempts(self) -> bool:
        """Tell whether the PodGroup, else a member that waits, else any, may not preempt (preemptionPolicy Never)."""
        if self.group is not None and self.group.never_preempts is not None:
            return self.group.never_preempts
        waiting = [kind.never_preempts for kind in self._tally if kind.unbound]
        return any(waiting or [kind.never_preempts for kind in self._tally])

    @property
    def expected_duration(self) -> float | None:
        """Return how long the gang runs (seconds): what it says, else its maximum or its members' longest deadline.

        None where it does not say, and a member has no deadline.
        """
        stated = membership.expected_duration(self.group, self._said())
        if stated is None:
            stated = self.max_runtime
        if stated is not None:
            return stated
        deadlines = [kind.active_deadline for kind in self._tally]
        known = [deadline for deadline in deadlines if deadline is not None]
        return max(known, default=None) if len(known) == len(deadlines) else None

    @property
    def checkpoint_interval(self) -> float | None:
        """Return after how much work the gang saves it, as it says (seconds); no more is lost with an eviction."""
        return membership.checkpoint_interval(self.group, self._said())

    @property
    def eviction_notice(self) -> float:
        """Return how long before its eviction the gang asks to be told (seconds), 0 if it does not."""
        return membership.eviction_notice(self.group, self._said()) or 0.0

    @property
    def listens(self) -> bool:
        """Tell whether its job heeds what its pods are told: it asks for notice, or says when it saves its work."""
        asks = membership.eviction_notice(self.group, self._said()) is not None
        return asks or any(sign != NO_SIGNS for sign in self.signs)

    @property
    def max_runtime(self) -> float | None:
        """Return how long the gang is to run at most, as it says (seconds)."""
        return membership.max_runtime(self.group, self._said())

    @property
    def is_held(self) -> bool:
        """Tell whether the gang is not to start now, as it says."""
        return membership.held(self.group, self._said())

    @property
    def signs(self) -> Iterator[JobSigns]:
        """Iterate over what its PodGroup and its members say while they run."""
        if self.group is not None:
            yield self.group.options.signs
        yield from (pod.signs for pod in self.members.values() if pod.signs is not NO_SIGNS)

    def last_checkpoint(self, now: float) -> float | None:
        """Return when the gang last saved its work: the newest that any of it says (both epoch seconds).

        Of many that write rank 0 may alone, and a member that comes in the stead of another knows nothing yet.
        """
        times = (sign.checkpoint(now) for sign in self.signs)
        return max((moment for moment in times if moment is not None), default=None)

    def unsaved_at_most(self, now: float) -> float | None:
        """Return how much work is lost at most with an eviction now (seconds), None if it says nothing about that.

        A gang that has been told of its eviction saves its work: it loses nothing that others would not lose.
        """
        if any(sign.planned is not None for sign in self.signs):
            return 0.0
        saved, interval = self.last_checkpoint(now), self.checkpoint_interval
        known = [interval, None if saved is None else now - saved]
        return min((seconds for seconds in known if seconds is not None), default=None)

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
        if self.census().secured + sum(more.values()) < self._stated_minimum:
            return False
        tree, have = self.tree, self.have(more)
        return (tree is None or tree.holds(have)) and all(have(role) >= n for role, n in self._begun.items())

    def torn(self, more: Mapping[str, int]) -> frozenset[str]:
        """Return the roles of parts that lack their minimum with so many members of each role bound more."""
        return frozenset() if self.tree is None else frozenset[str]().union(*self.tree.torn(self.have(more)))

    def torn_parts(self, more: Mapping[str, int]) -> dict[frozenset[str], list[Pod]]:
        """Return the members that stay of each part that would lack members, though the gang may have what it needs.

        By the roles of the part; with so many members of each role bound more, or less if < 0.
        """
        tree, found = self.tree, dict[frozenset[str], list[Pod]]()
        for roles in tree.torn(self.have(more)) if tree is not None and tree.has_choice else ():
            if members := [pod for pod in self.ordered() if pod.stays and pod.role in roles]:
                found[roles] = members
        return found

    def have(self, more: Mapping[str, int]) -> Have:
        """Return how many members of a role are bound or have succeeded, with so many of each more."""
        return lambda role: self.census_of(role).secured + more.get(role, 0)

    def keeps(self, pod: Pod) -> bool:
        """Tell whether a member is not to be evicted, whatever for."""
        return not membership.preemptible(self.group, pod.options)

    def ordered(self) -> list[Pod]:
        """Return the members by rank, then natural order of their names: neighbours in rank stay neighbours."""
        return sorted(self.members.values(), key=member_order)

    def unbound(self) -> list[Pod]:
        """Return the members that have neither a node nor an end, in member order."""
        return sorted((pod for pod in self.members.values() if not (pod.node_name or pod.done)), key=member_order)

    def unplaced(self) -> list[Pod]:
        """Return the members that could be placed now and have no node promised, in member order, refused ones last."""
        members = sorted(self._tally.unplaced.values(), key=member_order)
        return sorted(members, key=lambda pod: pod.uid in self.refused) if self.refused else members

    def join(self, pod: Pod) -> None:
        """Take in a member, or its newest state."""
        before = self.members.get(pod.uid)
        if before is not None and membership.counts_alike(before, pod):
            self._tally.renew(pod)
        elif len(self.members) - (before is not None):
            tally = self._own_tally()
            if before is not None:
                tally.remove(before)
            tally.add(pod)
        else:
            self._tally = tally_of_one(pod)
        self.members[pod.uid] = pod
        if self._sharers or SHARED_CLAIM in pod.labels:
            self._sharers = {*self._sharers, pod.uid} if SHARED_CLAIM in pod.labels else self._sharers - {pod.uid}
        if pod.uid in self._promised:
            self._tally.place(pod)
        self._voices = self._started = None
        if self._spared is not None and (before is None or self._matters(before) != self._matters(pod)):
            self._spared = None

    def _matters(self, pod: Pod) -> tuple[object, ...]:
        """Return what of a member decides who can be spared."""
        return pod.role, pod.rank, pod.phase is Phase.SUCCEEDED, pod.options, self.has_place(pod)

    def leave(self, uid: str) -> None:
        """Forget a member."""
        if uid in self.members:
            self.withdraw(uid)
            self._own_tally().remove(self.members.pop(uid))
            self.refused.pop(uid, None)
            self._sharers -= {uid}
            self._voices = self._started = self._spared = None

    def promise(self, uids: Iterable[str]) -> None:
        """Take in that members have a node promised, each once."""
        members = self.members
        own = [members[uid] for uid in uids if uid in members]
        if own:
            if not isinstance(self._promised, set):
                self._promised = set()
            self._promised.update(pod.uid for pod in own)
            self._tally.place_all(own)
            self._spared = self._spared if all(pod.bound for pod in own) else None

    def withdraw(self, uid: str) -> None:
        """Take in that a member has no node promised any more."""
        if isinstance(self._promised, set) and uid in self._promised:
            self._promised.remove(uid)
            self._promised = self._promised or _NO_MEMBERS
            self._tally.unplace(self.members[uid])
            self._spared = self._spared if self.members[uid].bound else None

    def _own_tally(self) -> Tally:
        """Return the tally to change it."""
        if self._tally.shared:
            self._tally = Tally(self.members.values())  # none of them has a node promised, or they could be placed
        return self._tally

    def census(self) -> Census:
        """Count the members by state."""
        return self._tally.census

    def census_of(self, role: str) -> Census:
        """Count the members of one role by state."""
        return self._tally.census_of(role)

    def _said(self) -> tuple[Voice, ...]:
        """Return what members ask for on behalf of the gang, first in member order first."""
        if not self._tally.voices:
            return ()
        if self._voices is None:
            self._voices = membership.in_order(self._tally.voices, self.members.values(), member_order)
        return self._voices


def member_order(pod: Pod) -> tuple[RoleRank, NaturalKey, str]:
    """Return the sort key of members: by rank, then by name with its numbers as numbers."""
    return (pod.rank, natural_key(pod.name), pod.uid)


def needs_object(ref: GroupRef) -> bool:
    """Tell whether a gang of this API waits until its PodGroup exists."""
    return not (ref.is_pod or SOURCE_OF[ref.api].size_annotation)


def split(gang: Gang, placed: Sequence[Pod]) -> tuple[list[Pod], list[Pod]]:
    """Split the members of a gang that hold a node to stay into those it needs and those it can spare, last first.

    Those that are not to be evicted are needed; all are of a gang that only leaves whole. `placed` are all of them in
    member order, or with those that have a node promised.
    """
    less = Counter(pod.role for pod in placed if not pod.bound)
    spare = gang.census().secured + less.total() - gang.min_member
    extras: list[Pod] = []
    for pod in reversed(placed) if spare > 0 and not gang.goes_whole else ():
        if len(extras) == spare:
            break
        if gang.keeps(pod):
            continue
        less[pod.role] -= 1
        if gang.would_have_minimum(less):
            extras.append(pod)
        else:
            less[pod.role] += 1
    spared = {pod.uid for pod in extras}
    return [pod for pod in placed if pod.uid not in spared], extras


def shed(gang: Gang, placed: Sequence[Pod], extras: Sequence[Pod]) -> list[tuple[tuple[Pod, ...], frozenset[str]]]:
    """Return extras as `split` finds them by what leaves together, each with the UIDs of those that leave with it.

    First come parts that lack members anyway, then members without which no part lacks any, each by itself. Then come
    those of a part that is none without one of them: what that part has beyond its minimum leaves with it. A part with
    a member that is not to be evicted stays.
    """
    tree = gang.tree
    if tree is None or not tree.has_units:
        return [((pod,), frozenset()) for pod in extras]
    left = Counter(pod.role for pod in placed if not pod.bound)
    torn, taken, single, standing = gang.torn(left), set[str](), list[Pod](), left.copy()
    for pod in extras:
        left[pod.role] -= 1
        if pod.role not in torn and tree.unit(pod.role, gang.have(left)) is None:
            single.append(pod)
            taken.add(pod.uid)
        else:
            left[pod.role] += 1
    found: list[tuple[bool, tuple[Pod, ...], frozenset[str]]] = []
    for pod in extras:
        left[pod.role] -= 1
        part = None if pod.uid in taken else tree.unit(pod.role, gang.have(left))
        left[pod.role] += 1
        if part is None:
            continue
        unit = tuple(each for each in extras if each.role in part.roles and each.uid not in taken)
        others = frozenset(each.uid for each in placed if each.role in part.roles) - {each.uid for each in unit}
        if pod.role in torn or others <= taken:
            alone = not part.parts and part.least == 1  # no other of its role lacks it
            found.append((pod.role not in torn, unit, frozenset() if alone else others & taken))
            left.subtract(each.role for each in unit)
            taken.update(each.uid for each in unit)
    found += ((False, tuple(pods), frozenset()) for pods in _by_step(single, tree, gang.have(standing)))
    return [(unit, others) for _, unit, others in sorted(found, key=itemgetter(0))]


def _by_step(pods: Sequence[Pod], tree: Branch, have: Have) -> Iterator[list[Pod]]:
    """Yield members beyond the minimum of their roles by what joined together, first what is less than that."""
    for role, alike in groupby(sorted(pods, key=attrgetter("role"), reverse=True), key=attrgetter("role")):
        leaf, own = tree.leaf(role), list(alike)
        odd = (have(role) - leaf.least) % leaf.by
        for at in range(odd - leaf.by if odd else 0, len(own), leaf.by):
            if chunk := own[max(at, 0) : at + leaf.by]:
                yield chunk


def next_unit(gang: Gang) -> list[Pod]:
    """Return the members beyond the minimum that are the next to be placed together, none if no more of them may."""
    return next((unit for pod in gang.unplaced() for unit in gang.units(pod)), [])


def core_size(gang: Gang, slotted: int) -> int:
    """Return how many of a gang's members without a place belong to its core. Complexity: O(kinds of members).

    Args:
        gang: the gang.
        slotted: how many of its unbound members have a node promised.
    """
    missing = max(gang.min_member - gang.census().secured - slotted, sum(role_gaps(gang).values()), 0)
    return min(missing, gang.unplaced_count)


def core(gang: Gang, pods: int) -> list[Pod]:
    """Return the first `pods` members to be placed, in member order: what each role lacks goes before the rest."""
    members, gaps = gang.unplaced(), role_gaps(gang)
    if not gaps or pods >= len(members):
        return members[:pods]
    needed: set[str] = set()
    rest: list[str] = []
    for pod in members:
        if gaps.get(pod.role, 0):
            gaps[pod.role] -= 1
            needed.add(pod.uid)
        else:
            rest.append(pod.uid)
    needed.update(rest[: max(pods - len(needed), 0)])
    return [pod for pod in members if pod.uid in needed][:pods]


def held_back(gang: Gang, slotted: int) -> Pod | None:
    """Return a member without which the gang cannot start and that kube-scheduler refuses, None if there is none.

    Args:
        gang: the gang.
        slotted: how many of its unbound members have a node promised.
    """
    refused = [pod for pod in gang.unplaced() if pod.uid in gang.refused] if gang.refused else []
    if not refused:
        return None
    by_role = Counter(pod.role for pod in refused)
    short = {role for role, gap in role_gaps(gang).items() if gang.wanted_roles.get(role, 0) - by_role[role] < gap}
    missing = gang.min_member - gang.census().secured - slotted
    if not short and gang.unplaced_count - len(refused) >= missing:
        return None
    return next((pod for pod in refused if pod.role in short), refused[0])


def role_gaps(gang: Gang) -> dict[str, int]:
    """Return how many more members of each role must get a place, for the roles that lack any."""
    gaps = {role: minimum - gang.standing(role).placed for role, minimum in gang.role_minimums.items()}
    return {role: gap for role, gap in gaps.items() if gap > 0}
