"""The smallest changes with which a gang that waits would be placed now, more nodes included; each has been tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, TypeAlias

import numpy as np

from extender.cluster.gangs import core_size
from extender.cluster.whatif import Replica
from extender.explain.account import HeldCapacity
from extender.explain.documents import SuggestedChange
from extender.explain.endings import ends_in_words, first_ends, when
from extender.explain.evictable import Evictable, at_priority, in_words
from extender.explain.inquiry import Inquiry
from extender.explain.wider import wider_levels
from extender.judge import fits
from extender.objects.devicewords import resource_in_words
from extender.objects.meta import time_text
from extender.objects.node import Node
from extender.objects.pod import Pod, Shape
from extender.objects.requests import CLASS_RESOURCE_PREFIX, TRIAL_PREFIX, format_amount, is_extended
from extender.objects.topology import TopologyRequest
from extender.placement.candidates import PlacementTerms
from extender.placement.capacityview import Capacity, CapacityView, PodSet, PodSetRequest
from extender.placement.room import room
from extender.queues.sharing import FlavorOffer, Option

#: More nodes than this are hardly added for one gang, and each of them is tried as a row of its own.
_MOST_NODES: Final = 1024
_HOSTNAME: Final = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class MoreNodes:
    """How many nodes more, and which."""

    nodes: int
    message: str


def more_nodes(inquiry: Inquiry, option: Option, pod_set: PodSet, may_try: Callable[[], bool]) -> MoreNodes | None:
    """Return how many more empty nodes of the commonest kind would have the party placed; None if none would.

    Where all have to be in one domain, the nodes come into the one that has most room already. `may_try` counts trials,
    and says when there were enough.
    """
    view = inquiry.case.view(option)
    shape = pod_set.demand.most_demanding
    pattern = _pattern(inquiry, view, pod_set, shape)
    if pattern is None:
        return None
    row, where = pattern
    node = inquiry.table.node(row)
    each = int(room(view.snapshot(Capacity.EMPTY), shape, view.possible(shape))[row])
    if not each:
        return None
    most = min(-(-pod_set.demand.pods // each), _MOST_NODES)
    count = min(max(-(-_missing(inquiry, view, pod_set) // each), 1), most)
    while may_try():
        bigger = _grow(inquiry, option, row, count)
        if fits(inquiry.case, PodSet(pod_set.gang, pod_set.demand, pod_set.settled, _pods=pod_set.pods), bigger):
            return MoreNodes(count, f"{_in_words(node, count, where)}{_unless(inquiry)}")
        if count == most:
            return None
        count = min(2 * count, most)
    return None


def _missing(inquiry: Inquiry, view: CapacityView, pod_set: PodSet) -> int:
    """Return how many of the party fit nowhere now, or not into the domain that has most room."""
    short = view.shortage(Capacity.FREE, pod_set, inquiry.case.eligible(view))
    return pod_set.demand.pods if short is None else max(short.needed - short.fits, 1)


def _pattern(inquiry: Inquiry, view: CapacityView, pod_set: PodSet, shape: Shape) -> tuple[int, str] | None:
    """Return a node of the commonest kind that admits `shape`, and the domain that it is in if one has to hold all."""
    table, eligible = inquiry.table, view.possible(shape)
    level = view.tree.levels.find(pod_set.demand.topology.required) if pod_set.demand.topology.required else None
    where = ""
    if level is not None and level >= view.tree.depth:
        return None  # all on one node: more of them do not help
    if level is not None and level >= 0:
        rooms = view.rooms(Capacity.FREE, level, shape, inquiry.case.eligible(view))
        if not rooms.shape[0]:
            return None
        domain = int(rooms.argmax())
        eligible = eligible & (view.tree.path(level) == domain)
        where = f" in {view.tree.levels.name(level)} {view.tree.domain_name(level, domain, table.node)}"
    empty = room(view.snapshot(Capacity.EMPTY), shape, eligible)
    rows = np.flatnonzero(empty).tolist()
    if not rows:
        return None
    kinds = [amounts.tobytes() for amounts in np.ascontiguousarray(table.allocatable[:, rows].T)]
    commonest = max(Counter(kinds).items(), key=lambda kind: (kind[1], kind[0]))[0]
    return rows[kinds.index(commonest)], where


def _grow(inquiry: Inquiry, option: Option, row: int, count: int) -> CapacityView:
    """Return the inquiry's nodes and `count` more that are as the one at `row` is, empty."""
    table, node = Replica(inquiry.table), inquiry.table.node(row)
    names = [f"hypothetical-{index}" for index in range(count)]
    for name in names:
        table.upsert(replace(node, name=name, uid=name, labels={**node.labels, _HOSTNAME: name}))
    rows = table.rows_of(names)
    domains = np.full((inquiry.tree.depth, table.rows), -1, dtype=np.int64)
    domains[:, : inquiry.tree.domains.shape[1]] = inquiry.tree.domains
    domains[:, rows] = domains[:, [row]]
    grown = inquiry.case.views.on(table, replace(inquiry.tree, domains=domains))
    return grown.view(option.selector, [each.now for each in inquiry.case.earmarks])


def _unless(inquiry: Inquiry) -> str:
    """Say that new nodes are for all gangs, if others wait too."""
    return f", if none of the other {inquiry.waiting} that wait gets them" if inquiry.waiting else ""


def _in_words(node: Node, count: int, where: str) -> str:
    resource, gpus = node.gpus
    has = f" ({gpus} {resource_in_words(resource)} each)" if gpus else ""
    return f"{count} more empty node{'s' if count != 1 else ''} like {node.name}{has}{where}"


MOST_SUGGESTIONS: Final = 5
#: Trials for one gang at most. Each costs a count of what fits, in thin slices of numpy; of a gang with slices, groups
#: of roles or pods of several shapes, a plan.
MOST_TRIALS: Final = 64

#: What of a pod's request may be less without another program: how fast it runs depends on its GPUs.
_YIELDING: Final = ("cpu", "memory", "ephemeral-storage")
#: Smaller requests are multiples of these (milli-CPU, bytes), as people write them: of the coarsest that a request has
#: so many of.
_GRAINS: Final[Mapping[str, Sequence[int]]] = {"cpu": (1000, 100, 10, 1)}
_BYTE_GRAINS: Final = (2**30, 2**20, 2**10, 1)
_LEAST_GRAINS: Final = 8

#: How much each change asks of people, from 0 (a number in the gang's own manifest) on; what part of the gang or of the
#: cluster it changes is added, up to 1. Others have to agree to quota, to new nodes, and to be evicted.
_WEIGHTS: Final = {
    "topologyLevel": 0.2,
    "resources": 0.1,
    "queue": 0.3,
    "minMember": 0.4,
    "gpus": 0.6,
    "quota": 0.8,
    "priority": 1.0,
    "nodes": 1.2,
    "end": 1.4,
}
#: Of so many GPUs per pod divisors are tried, too: no node has more that are given out whole.
_MOST_GPUS: Final = 16
#: Other Queues that are tried.
_MOST_QUEUES: Final = 4

#: The highest priority that a pod may have, and how many higher ones are searched if those that may be evicted by rank
#: for one are not enough by other rules.
_HIGHEST: Final = 2**31 - 1
_MOST_RAISED: Final = 2


_Sized: TypeAlias = tuple[float, SuggestedChange]


def suggest(inquiry: Inquiry, evictable: Evictable, held: Sequence[HeldCapacity] = ()) -> tuple[SuggestedChange, ...]:
    """Return the smallest changes that help, the smallest first; none for a gang that fits, or for which none is known.

    Those that help at once come first. `held` is who holds what it lacks where it comes closest to finding room.
    Only single changes are tried, so there may be none where two would do. Nothing but other Queues is tried for a gang
    whose queue takes it in no case, or that has to wait for a gang ahead of it; nothing if its members have scheduling
    gates.
    """
    if not inquiry.case.pod_set.demand.pods or inquiry.gated:
        return ()
    found = sorted(
        _SuggestionSearch(inquiry, evictable, held).run(),
        key=lambda each: (each[1].later, _WEIGHTS[each[1].change] + each[0], each[1].change),
    )
    return tuple(change for _, change in found[:MOST_SUGGESTIONS])


class _SuggestionSearch:
    """Try one kind of change after the other, as long as trials are left."""

    def __init__(self, inquiry: Inquiry, evictable: Evictable, held: Sequence[HeldCapacity]) -> None:
        self._held = held
        self._inquiry = inquiry
        self._gang = inquiry.gang
        self._pod_set = inquiry.case.pod_set
        self._evictable = evictable
        self._left = MOST_TRIALS

    def run(self) -> Iterator[_Sized]:
        """Yield what helps, each with how large a change it is."""
        if self._inquiry.case.obstacle is not None:
            if not self._missing:
                yield from self._elsewhere()
            return
        within = [offered for offered in self._inquiry.case.offers if offered.shortage is None]
        if self._missing:  # no node helps a gang that is not there yet
            yield from self._fewer(self._inquiry.case.offers)
            return
        if any(self._fits(self._pod_set, self._view(offered)) for offered in within):
            return
        yield from self._fewer(self._inquiry.case.offers)
        yield from self._fewer_gpus()
        yield from self._elsewhere()
        if within:
            view = self._view(within[0])
            yield from self._wider(view)
            yield from self._smaller(view)
            yield from self._higher(within[0].option)
            yield from self._larger_cluster(within[0].option)
            yield from self._later(within[0].option)
        yield from self._more_quota()

    @property
    def _missing(self) -> int:
        """Return how many members more must exist, or be free of gates, before nodes are looked for."""
        secured = self._gang.census().secured + len(self._inquiry.promised)
        return max(self._gang.min_member - secured - self._pod_set.demand.pods, 0)

    def _view(self, offered: FlavorOffer) -> CapacityView:
        return self._inquiry.case.view(offered.option)

    def _fits(self, pod_set: PodSet, view: CapacityView, *, beside: int = 0) -> bool:
        """Try a party; none fits any more when all trials have been used, `beside` of which are for others."""
        return self._may_try(beside) and fits(self._inquiry.case, pod_set, view)

    def _may_try(self, beside: int = 0) -> bool:
        """Count a trial, and tell whether there is one left."""
        if self._left <= beside:
            return False
        self._left -= 1
        return True

    def _fewer(self, options: Sequence[FlavorOffer]) -> Iterator[_Sized]:
        """Try the largest smaller minimum of a gang that says that it can do with fewer than it has."""
        if not self._gang.is_elastic:
            return
        minimums = sum(self._gang.role_minimums.values())
        census, needed = self._gang.census(), self._pod_set.demand.pods
        lowest = max(minimums - census.secured - len(self._inquiry.promised), 1)
        total, best = needed + self._missing, 0
        highest = needed + 1 if self._missing else needed
        if self._gang.role_minimums and core_size(self._gang, 0) < lowest:
            return
        for offered in options:

            def enough(pods: int, offered: FlavorOffer = offered) -> bool:
                return self._has_place(self._first(pods), offered)

            best = max(best, _largest(lowest, highest, enough))
        if best:
            before = self._gang.min_member
            after = before - (total - best)
            message = f"minMember {after} instead of {before}: so many members would be placed now"
            yield 1 - after / before, SuggestedChange("minMember", before, after, message)

    def _covered(self, amounts: Mapping[str, int], option: Option) -> bool:
        """Tell whether there is quota for `amounts` in a flavor."""
        quota = self._inquiry.case.quota
        return quota is None or quota.on(self._evictable.sharing, amounts).offer(option).shortage is None

    def _has_place(self, pod_set: PodSet, offered: FlavorOffer) -> bool:
        """Tell whether there is quota for fewer or smaller members in a flavor, and room."""
        covered = offered.shortage is None or self._covered(pod_set.amounts, offered.option)
        return covered and self._fits(pod_set, self._view(offered), beside=16)

    def _first(self, pods: int) -> PodSet:
        """Return the first members that the gang needs, as a pod set of their own."""
        if pods == self._pod_set.demand.pods:
            return self._pod_set
        demand = PodSetRequest.of_gang(self._gang, pods)
        return PodSet(self._gang, demand, self._pod_set.settled)

    def _wider(self, view: CapacityView) -> Iterator[_Sized]:
        """Try the levels around the one that is required, the next one first, then none at all."""
        asked = self._pod_set.demand.topology
        levels = view.tree.levels
        before = asked.required or ("slices" if asked.slices else "role groups" if asked.role_groups else "")
        if not before:
            return
        wider = wider_levels(asked, levels)
        for steps, (name, topology) in enumerate(wider, start=1):
            if self._fits(self._asking(topology), view):
                if name:
                    message = f"{name} instead of {before} as the required topology level"
                else:
                    message = (
                        f"no required topology ({before} is required): it would be placed as close as there is room"
                    )
                yield steps / len(wider), SuggestedChange("topologyLevel", before, name or None, message)
                return

    def _later(self, option: Option) -> Iterator[_Sized]:
        """Try the first ends of those who hold what it lacks, if it is known when they are."""

        def enough(uids: Collection[str]) -> bool:
            with self._inquiry.case.clearing(option, uids) as there:
                return self._fits(self._pod_set, there)

        ends = first_ends([self._evictable.ending_of(each) for each in self._held], enough)
        at = when(ends) if ends else None
        if at is not None:
            who = ", ".join(each.name for each in ends)
            message = f"when {ends_in_words(ends)} there is room, unless another that waits goes first"
            yield 0.0, SuggestedChange("end", None, who, message, later=True, starts_at=time_text(at))

    def _fewer_gpus(self) -> Iterator[_Sized]:
        """Try fewer GPUs per pod, the most first: powers of two, and what shares the GPUs of a node out whole."""
        asked = {name for shape, _ in self._pod_set.demand.shapes for name, _ in shape.requests if is_extended(name)}
        for resource in sorted(asked):
            if resource.startswith((TRIAL_PREFIX, CLASS_RESOURCE_PREFIX)):
                continue  # devices: the template of the claim says how many
            before = max(shape.request(resource) for shape, _ in self._pod_set.demand.shapes)
            for after in _shares(before, self._inquiry.table, resource):
                smaller = self._with_less(resource, after)
                if any(self._has_place(smaller, offered) for offered in self._inquiry.case.offers):
                    message = f"{after} {resource} per pod instead of {before}, if its program can do with so many"
                    change = SuggestedChange("gpus", {resource: str(before)}, {resource: str(after)}, message)
                    yield 1 - after / before, change
                    return

    def _elsewhere(self) -> Iterator[_Sized]:
        """Try other Queues that take the gang and have quota for it."""
        case = self._inquiry.case
        others = self._evictable.other_queues(self._gang, self._pod_set.amounts)
        for name, option in islice(others, _MOST_QUEUES):
            if self._fits(self._pod_set, case.view(option), beside=8):
                instead = f" instead of {case.queue}" if case.queue else ""
                message = f"Queue {name}{instead}: it takes gangs of namespace {self._gang.ref.namespace} and has room"
                yield 0.0, SuggestedChange("queue", case.queue or None, name, message)
                return

    def _asking(self, topology: TopologyRequest) -> PodSet:
        """Return the pod set as if it asked for another topology."""
        pod_set = self._pod_set
        return self._of_pods(pod_set.pods, replace(pod_set.demand.terms, topology=topology))

    def _of_pods(self, pods: list[Pod], terms: PlacementTerms) -> PodSet:
        return PodSet(self._gang, PodSetRequest.of_pods(pods, terms), self._pod_set.settled, _pods=pods)

    def _smaller(self, view: CapacityView) -> Iterator[_Sized]:
        """Try the largest smaller request of each resource that may keep GPUs idle."""
        pod_set, asks_for_more = (
            self._pod_set,
            {r for shape, _ in self._pod_set.demand.shapes for r, _ in shape.requests},
        )
        for resource in _YIELDING:
            before = max(shape.request(resource) for shape, _ in pod_set.demand.shapes)
            if not before or len(asks_for_more) <= 2:  # noqa: PLR2004 - the resource itself and the pod
                continue

            grain = grain_of(resource, before)

            def enough(grains: int, resource: str = resource, grain: int = grain) -> bool:
                return self._fits(self._with_less(resource, grains * grain), view, beside=8)

            if not enough(0):
                continue
            after = _largest(1, -(-before // grain), enough) * grain
            if after:
                was, less = format_amount(resource, before), format_amount(resource, after)
                message = f"{less} {resource} per pod instead of {was}: nodes have the rest, but not so much {resource}"
                yield 1 - after / before, SuggestedChange("resources", {resource: was}, {resource: less}, message)

    def _with_less(self, resource: str, most: int) -> PodSet:
        """Return the pod set as if no pod asked for more than `most` of a resource."""
        pod_set, demand = self._pod_set, self._pod_set.demand
        smaller = {shape: with_less(shape, resource, most) for shape, _ in demand.shapes}
        if len(smaller) == 1 and not demand.sequence and not pod_set.settled:  # counting says everything
            ((shape, pods),) = demand.shapes
            return PodSet(self._gang, replace(demand, shapes=frozenset({(smaller[shape], pods)})))
        return self._of_pods([replace(pod, shape=smaller[pod.shape]) for pod in pod_set.pods], demand.terms)

    def _higher(self, option: Option) -> Iterator[_Sized]:
        """Try the lowest priority that lets the gang go before others, or have them evicted."""
        case, own = self._inquiry.case, self._gang.priority
        holders = {each.priority for each in self._evictable.victims(case, option, _HIGHEST)}
        heads = {keep.gang.priority for keep in case.earmarks if not keep.firm}
        steps = sorted({priority + 1 for priority in (*holders, *heads) if priority >= own})

        def enough(upto: int) -> bool:
            tried = at_priority(case, steps[-upto])
            victims = self._evictable.victims(tried, option, steps[-upto])
            uids = (pod.uid for each in victims for pod in (*each.core, *each.extras))
            with tried.clearing(option) as before, before.without(uids) as there:
                return self._fits(self._pod_set, there, beside=_MOST_RAISED)

        # Few enough is found as many enough is: the most steps that may be left out. Of few each is tried as it is.
        spare = _largest(1, len(steps) + 1, enough) if len(steps) > _MOST_RAISED else len(steps)
        for after in steps[len(steps) - spare :][:_MOST_RAISED] if spare else ():
            tried = at_priority(case, after)
            if self._fits(self._pod_set, tried.view(option)):
                then = "it goes before those for whom room is kept now"
            elif (found := self._evictable.search(tried, option, after)) is not None:
                then = f"{in_words(found)} would be evicted for it"
            else:
                continue  # budgets, or what queues have borrowed, allow no choice of victims
            yield 0.0, SuggestedChange("priority", own, after, f"priority {after} instead of {own}: {then}")
            return

    def _larger_cluster(self, option: Option) -> Iterator[_Sized]:
        """Try the fewest more nodes of the kind of which there are most."""
        found = more_nodes(self._inquiry, option, self._pod_set, self._may_try)
        if found is not None:
            nodes = len(self._inquiry.table)
            share = found.nodes / max(nodes + found.nodes, 1)
            yield share, SuggestedChange("nodes", nodes, nodes + found.nodes, found.message)

    def _more_quota(self) -> Iterator[_Sized]:
        """Try each flavor as if there were quota for what the gang asks for."""
        for offered in self._inquiry.case.offers:
            shortage = offered.shortage
            if shortage is None or not self._fits(self._pod_set, self._view(offered)):
                continue
            more = shortage.asked - max(shortage.available, 0)
            others = [
                resource
                for resource, amount in self._pod_set.amounts.items()
                if resource != shortage.resource and not self._covered({resource: amount}, offered.option)
            ]
            added = format_amount(shortage.resource, more)
            message = f"{added} more {shortage.resource} of flavor {shortage.flavor} for Queue {shortage.queue}"
            if others:
                message += f", and more {', '.join(sorted(others))}"
            left = format_amount(shortage.resource, max(shortage.available, 0))
            after = format_amount(shortage.resource, shortage.asked)
            change = SuggestedChange("quota", left, after, f"{message}: there is room on nodes")
            yield more / max(shortage.asked, 1), change
            return


def with_less(shape: Shape, resource: str, most: int) -> Shape:
    """Return a shape that asks for no more than `most` of a resource; of several containers as if they were one."""
    if shape.request(resource) <= most:
        return shape
    requests = tuple((name, min(value, most) if name == resource else value) for name, value in shape.requests)
    return replace(shape, requests=tuple(each for each in requests if each[1]), containers=())


def _shares(before: int, table: Replica, resource: str) -> list[int]:
    """Return the powers of two below a number of GPUs and the divisors of what nodes have, the largest first."""
    fewer = {2**power for power in range(before.bit_length()) if 2**power < before}
    if before <= _MOST_GPUS and resource in table.resources:
        have = {int(each) for each in table.allocatable[table.resources.index(resource)]} - {0}
        fewer |= {after for after in range(1, before) if any(not each % after for each in have)}
    return sorted(fewer, reverse=True)


def grain_of(resource: str, amount: int) -> int:
    """Return of what a smaller request is a multiple: of whole CPUs or GiB, or finer if it has only a few of these."""
    grains = _GRAINS.get(resource, _BYTE_GRAINS)
    return next((grain for grain in grains if amount >= _LEAST_GRAINS * grain), grains[-1])


def _largest(lowest: int, beyond: int, enough: Callable[[int], bool]) -> int:
    """Return the largest number from `lowest` to below `beyond` that is `enough`, 0 if none is; by bisection."""
    low, high = lowest - 1, beyond
    while high - low > 1:
        middle = (low + high) // 2
        if enough(middle):
            low = middle
        else:
            high = middle
    return low if low >= lowest else 0
