"""The decision about one gang: a plan, or why it waits.

The cycle, explanations, what-if questions, suggestions, defragmentation and the search for victims all decide here, on
a `Case` of what is live or of a copy: what is said of a gang is what would be done with it.

A worked example. Four members ask for eight GPUs each, in a queue with two flavors; 16 GPUs are kept for a gang ahead:

    offer    quota             nodes                                            in all
    h100     8 GPUs short      not looked at                                    NoFit.quota = (h100,)
    a100     enough            room for 3, each shape by itself: diagnosed      NoFit.nodes = (a100,)

    diagnosis of a100: take one obstacle away after the other, until all four fit
    some node admits the shape       yes, 6 nodes
    the empty cluster                room for 6: waiting can help, so it is not ExceedsCluster
    nodes that were refused          there are none
    what is kept for others          room for 5 without it: that is the reason, BehindHead
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import attrgetter
from typing import Final

from extender.cluster.gangs import Gang
from extender.cluster.table import NodeTable
from extender.cluster.tree import Tree
from extender.cluster.whatif import WhatIf
from extender.ledger.earmark import Earmark
from extender.objects.levels import Levels, tier_bound
from extender.objects.pod import Shape
from extender.objects.reason import Reason, Wait
from extender.objects.requests import format_amount, is_asked_for, is_extended
from extender.objects.topology import TopologyRequest, overlapping
from extender.placement.candidates import Candidates, Eligible, NodeCode, NodeFilter, Ranking, ScopeDomains, binding
from extender.placement.capacityview import Capacity, CapacityView, CapacityViews, Diagnosis, PodSet, PodSetRequest
from extender.placement.complete.completesearch import GaveUp
from extender.placement.cores import other_cores
from extender.placement.devicelacks import lacks_in_words
from extender.placement.joining import Joining
from extender.placement.plan import Plan, Planner, Shortfall, plan
from extender.placement.ranking import rank_single
from extender.queues.sharing import FlavorOffer, Option, QuotaCheck
from extender.queues.tree import QuotaShortage

#: Why a gang waits that others could make room for by leaving.
CLEARABLE: Final = frozenset(
    {
        *(Reason.QUOTA_EXCEEDED, Reason.INSUFFICIENT_CAPACITY, Reason.DOMAIN_FULL, Reason.ZONES_FULL),
        *(Reason.BEHIND_HEAD, Reason.KEPT_FOR_REPAIRS, Reason.MIN_RESOURCES_UNMET),
    }
)

#: Why a gang waits that no other could end by leaving: it would not fit on the empty cluster.
HOPELESS: Final = (
    Reason.EXCEEDS_CLUSTER,
    Reason.EXCEEDS_DOMAIN,
    Reason.NEVER_ALIGNED,
    Reason.NO_NODE_MATCHES,
    Reason.UNKNOWN_LEVEL,
    Reason.INVALID_POD_GROUP,
)

#: Why gangs wait of which it is told too which nodes lack devices for them.
_OF_CAPACITY: Final = (
    *(Reason.EXCEEDS_CLUSTER, Reason.EXCEEDS_DOMAIN),
    *(Reason.INSUFFICIENT_CAPACITY, Reason.DOMAIN_FULL),
)

#: Why members can never start. Of a gang it is true only if it is of all members that it may start with.
_NEVER: Final = (*HOPELESS, Reason.EXCEEDS_QUOTA)

#: Why members find no place where others of their gang may find one.
_OF_MEMBERS: Final = (
    *(Reason.NO_NODE_MATCHES, Reason.EXCEEDS_CLUSTER, Reason.EXCEEDS_DOMAIN, Reason.NEVER_ALIGNED),
    *(Reason.INSUFFICIENT_CAPACITY, Reason.DOMAIN_FULL, Reason.ZONES_FULL, Reason.SEARCH_GAVE_UP),
)

#: Other choices of members that a gang may start with which are tried, and of these in one look; the next goes on.
_MOST_CORES: Final = 128
_CORES_AT_ONCE: Final = 16

#: Where a gang without a queue may be placed.
ANYWHERE: Final = (FlavorOffer(Option()),)

#: What an earmark keeps of what is free now.
_KEPT = attrgetter("now")


@dataclass(slots=True)
class Case:
    """One gang, and all that the decision about it rests on; whatever is tried on it is undone.

    Attributes:
        pod_set: the members that are to be placed together.
        queue: the name of the gang's queue, "" for none.
        views: the nodes, by flavor and by what is kept on them.
        offers: the flavors that it may be placed in, what it prefers first.
        obstacle: why nothing of it starts, whatever quota and nodes are free; None if it may.
        earmarks: what is kept for others and not for it to use, the first in line first.
        refused: rows of nodes that kube-scheduler refused to it, by shape.
        planner: what places the members.
        quota: what the queue allows in one flavor if others leave; None where there is no queue.
        replaced: UIDs of members on lost nodes whose places these members take.
    """

    pod_set: PodSet
    queue: str
    views: CapacityViews
    offers: Sequence[FlavorOffer] = ANYWHERE
    obstacle: Wait | None = None
    earmarks: Sequence[Earmark] = ()
    refused: Mapping[Shape, list[int]] = field(default_factory=dict)
    planner: Planner = plan
    quota: QuotaCheck | None = None
    replaced: tuple[str, ...] = ()
    _eligible: tuple[NodeFilter, NodeFilter] | None = field(default=None, repr=False, compare=False)

    @property
    def gang(self) -> Gang:
        """Return the gang."""
        return self.pod_set.gang

    def offer(self, option: Option, leaving: Iterable[str] = ()) -> FlavorOffer:
        """Return what quota allows in one flavor now, once the pods with the UIDs `leaving` have left."""
        return FlavorOffer(option) if self.quota is None else self.quota.offer(option, leaving)

    def view(self, option: Option) -> CapacityView:
        """Return what is free in one flavor beside what is kept from the gang."""
        return self.views.view(option.selector, tuple(map(_KEPT, self.earmarks)))

    @contextmanager
    def clearing(self, option: Option, leaving: Iterable[str] = ()) -> Iterator[CapacityView]:
        """Return what is free in one flavor for a gang that others leave for, as long as the context lasts.

        Pods with the UIDs `leaving` have left by then. What is kept for gangs that wait is theirs as far as it is free
        then. The rest is not, as they cannot have their place now: who leaves does so for this gang alone.
        """
        firm = tuple(each.kept for each in self.earmarks if each.firm)
        waiting = [each.kept for each in self.earmarks if not each.firm]
        with self.views.view(option.selector, firm).without(leaving) as there, there.withholding(waiting):
            yield there

    def eligible(self, view: CapacityView) -> NodeFilter:
        """Return which nodes of a view admit a shape and were not refused to the gang by kube-scheduler."""
        if not self.refused:
            return view.admitted
        if self._eligible is None or self._eligible[0] is not view.admitted:
            refused = self.refused
            narrowed = view.admitted.without(NodeCode.REFUSED, lambda shape: refused.get(self._own(shape), ()))
            self._eligible = view.admitted, narrowed
        return self._eligible[1]

    def _own(self, shape: Shape) -> Shape:
        join = self.pod_set.joins.get(shape)
        return shape if join is None else join.shape


@dataclass(frozen=True, slots=True)
class NoFit:
    """Why a gang is not placed now: the reason told, and the flavors in which only nodes are short, or only quota.

    `nodes` are those whose quota suffices and that would hold the gang if they were empty, `quota` those in which
    quota might suffice if others left. `hopeless` says that no flavor with quota would hold it if it were empty.
    """

    wait: Wait
    nodes: tuple[Option, ...] = ()
    quota: tuple[Option, ...] = ()
    hopeless: bool = False


def judge(case: Case) -> Plan | NoFit:
    """Return a node for each member, in the first flavor that holds all of them, or why none does.

    The case is as before afterwards. Complexity: that of a count for each flavor, of a plan where that leaves it open.
    """
    if case.obstacle is not None:
        return NoFit(case.obstacle)
    first: Wait | None = None
    beside: Wait | None = None
    nodes: list[Option] = []
    quota: list[Option] = []
    for offer in case.offers:
        if offer.shortage is not None:
            short = lacking(offer.shortage)
            other = _place_others(case, offer.option, short) if case.pod_set.has_others else short
            if isinstance(other, Plan):
                return other
            beside = beside or (None if other is short else other)
            if not offer.shortage.ever:
                quota.append(offer.option)
            continue
        found = _wait_behind(offer.saved_for) if offer.saved_for else _place_any(case, offer.option)
        if isinstance(found, Plan):
            return found
        first = first or found
        if found.reason not in HOPELESS:
            nodes.append(offer.option)
    return NoFit(first or beside or _without_quota(case), tuple(nodes), tuple(quota), first is not None and not nodes)


def rank(case: Case, uid: str) -> Ranking | None:
    """Return the rows that a pod could have which has one already, and what compares them, as if it had left its own.

    None if it may have no other: one has been decided, and that stands. The case is as before afterwards.
    """
    offers = (case.offer(each.option, [uid]) for each in case.offers) if case.obstacle is None else ()
    for offer in offers:
        if offer.shortage is not None or offer.saved_for:
            continue
        with case.view(offer.option).without([uid]) as view:
            candidates = view.candidates(case.pod_set, case.eligible(view))
            terms, (pod,) = case.pod_set.demand.terms, case.pod_set.pods
            ranking = rank_single(view.snapshot(Capacity.FREE), candidates, terms, pod)
        if ranking is not None:
            return ranking
    return None


def judge_quota(case: Case) -> Wait | None:
    """Return what keeps members out of their queue, whatever nodes are free; None if nothing does."""
    if case.obstacle is not None:
        return case.obstacle
    return None if any(offer.shortage is None for offer in case.offers) else _without_quota(case)


def joined(pod_set: PodSet, table: NodeTable, tree: Tree) -> PodSet:
    """Return a pod set of which members join others that have a place, of their slices or roles, if there are any."""
    if not (pod_set.settled and pod_set.gang.topology.has_parts):
        return pod_set
    return Joining(pod_set.gang, table, tree).join(pod_set)


def place(case: Case, view: CapacityView) -> Plan | Shortfall | Wait:
    """Return a node on a view for each member, how far that falls short, or why no room on it helps; nothing is taken.

    This is what decides, quota aside: for the gang itself, and for the search for victims if these had left.
    """
    first = _place_once(case, view)
    others = () if isinstance(first, Plan) else (_place_once(each, view) for each in _otherwise(case, case.pod_set))
    return next((each for each in others if isinstance(each, Plan)), first)


def _otherwise(case: Case, pod_set: PodSet) -> Iterator[Case]:
    """Return the cases of the same members as they may join other slices."""
    return (replace(case, pod_set=other, _eligible=None) for other in pod_set.otherwise)


def _place_once(case: Case, view: CapacityView) -> Plan | Shortfall | Wait:
    """Return a node for each member as they join others in one way, or how far that falls short."""
    pod_set = case.pod_set
    if (bar := _bar(pod_set, view)) is not None:
        return bar
    free, terms = view.snapshot(Capacity.FREE), pod_set.demand.terms
    mark, candidates = free.mark(), view.candidates(pod_set, case.eligible(view))
    found = _place_near_some(case, view) or _place_near_all(case, free, candidates)
    result = found or case.planner(pod_set.pods, free, candidates, terms)
    free.undo(mark)
    return result


def _place_near_some(case: Case, view: CapacityView) -> Plan | None:
    """Place members in the domain that they should share with others that have a place, the narrowest with room."""
    for near in case.pod_set.near:
        there = replace(case, pod_set=near, _eligible=None)
        candidates = view.candidates(near, there.eligible(view))
        found = case.planner(near.pods, view.snapshot(Capacity.FREE), candidates, near.demand.terms)
        if isinstance(found, Plan):
            return found
    return None


def _place_near_all(case: Case, free: WhatIf, candidates: Candidates) -> Plan | None:
    """Place the members in a domain that has room for all of the gang that exist, too; None if there is none."""
    pod_set = case.pod_set
    terms, gang, levels = pod_set.demand.terms, pod_set.gang, candidates.tree.levels
    if not pod_set.has_others or not terms.topology.required:
        return None
    level = levels.find(terms.topology.required)
    if level is None:
        return None
    everyone = {shape: range(count) for shape, count in gang.wanted.items()}
    roomy = ScopeDomains(free, candidates, terms).roomy(level, everyone, candidates.settled)
    if not roomy.any():
        return None
    found = case.planner(pod_set.pods, free, candidates.within(roomy), terms)
    return found if isinstance(found, Plan) else None


def fits(case: Case, pod_set: PodSet, view: CapacityView) -> bool:
    """Tell whether `place` would find a node for members, as fast as counting allows."""
    if _bar(pod_set, view) is not None:
        return False
    return view.shortage(Capacity.FREE, pod_set, case.eligible(view)) is None or any(
        view.shortage(Capacity.FREE, each.pod_set, each.eligible(view)) is None for each in _otherwise(case, pod_set)
    )


def _wait_behind(head: str) -> Wait:
    return Wait(Reason.BEHIND_HEAD, names={"head": head})


def _place_any(case: Case, option: Option) -> Plan | Wait:
    """Place the members in one flavor, or others that the gang may start with, or say why none of them fit."""
    first = _place_or_explain(case, case.view(option))
    if isinstance(first, Wait) and first.reason is Reason.BEHIND_HEAD:
        first = _kept_as_spares(case, option) or first
    if isinstance(first, Plan) or not case.pod_set.has_others or first.reason not in _OF_MEMBERS:
        return first
    return _place_others(case, option, first)


def _kept_as_spares(case: Case, option: Option) -> Wait | None:
    """Say that the members would fit on what Queues keep for repairs, if it is for no other reason that they do not."""
    others = [each for each in case.earmarks if not each.spares]
    if len(others) == len(case.earmarks):
        return None
    if not fits(case, case.pod_set, case.views.view(option.selector, tuple(map(_KEPT, others)))):
        return None
    return Wait(Reason.KEPT_FOR_REPAIRS, names={"queue": next(each.spares for each in case.earmarks if each.spares)})


def _place_others(case: Case, option: Option, first: Wait) -> Plan | Wait:
    """Place other members that the gang may start with, or say why none fit: `first` is why the first ones do not.

    In one look some are tried; what has been is known as long as nothing moves, so that the next look goes on.
    """
    pod_set, view = case.pod_set, case.view(option)
    never, eligible = first.reason in _NEVER, case.eligible(view)
    shared = eligible is view.admitted and not pod_set.settled
    capacity, admitted = (Capacity.EMPTY, view.possible) if never else (Capacity.FREE, eligible)
    cores = other_cores(
        pod_set.gang, pod_set.demand.pods, lambda shape: view.room(capacity, shape, admitted), view.totals(capacity)
    )
    tried = 0
    for members in islice(cores, _MOST_CORES):
        never, request = first.reason in _NEVER, PodSetRequest.of_members(pod_set.gang, members)
        known = shared and (request in view.diagnoses or request in view.placeless)
        if known and not never:
            continue
        other = PodSet(pod_set.gang, request, pod_set.settled, memory=pod_set.memory, _pods=members)
        other = joined(other, view.table, view.tree)
        quota = None if case.quota is None else case.quota.on(case.quota.sharing, other.amounts)
        offer = FlavorOffer(option) if quota is None else quota.offer(option)
        if offer.shortage is not None and never:
            first = first if offer.shortage.ever else lacking(offer.shortage)
        if offer.shortage is not None or offer.saved_for:
            continue
        tried += not known
        if tried > _CORES_AT_ONCE:
            return _gave_up(GaveUp(0, len(view.table)), pod_set) if never or shared else first
        there = replace(case, pod_set=other, quota=quota, _eligible=None)
        short = None if never or other.otherwise else view.count(Capacity.FREE, other, eligible)
        found = short or (_place_or_explain(there, view) if never else place(there, view))
        if isinstance(found, Plan):
            return found
        if isinstance(found, Wait):
            first = found if never and found.reason not in _NEVER else first
        elif shared and found.gave_up is None:
            view.placeless.add(request)
    if first.reason in _NEVER and next(cores, None) is not None:  # not all of them have been tried
        return _gave_up(GaveUp(0, len(view.table)), pod_set)
    return first


def _place_or_explain(case: Case, view: CapacityView) -> Plan | Wait:
    """Place the members on a view, or say why they do not fit: what may pass before what never does."""
    first = _place_or_explain_once(case, view)
    for other in _otherwise(case, case.pod_set):
        if isinstance(first, Plan):
            break
        found = _place_or_explain_once(other, view)
        if isinstance(found, Plan) or (first.reason in _NEVER and found.reason not in _NEVER):
            first = found
    return first


def _place_or_explain_once(case: Case, view: CapacityView) -> Plan | Wait:
    """Place the members as they join others in one way. Of equal demands that fail only one is examined."""
    pod_set = case.pod_set
    if (unmet := unmet_min_resources(pod_set.gang, view)) is not None:
        return unmet
    eligible = case.eligible(view)
    shared = eligible is view.admitted and not pod_set.settled
    diagnosis = view.diagnoses.get(pod_set.demand) if shared else None
    if diagnosis is None:
        # The best node for one pod is found as fast as the room for it is counted.
        counted = None if pod_set.is_single else view.count(Capacity.FREE, pod_set, eligible)
        result = _bar(pod_set, view) or counted or _place_once(case, view)
        if not isinstance(result, Shortfall):
            return result
        diagnosis = replace(examine(pod_set, result, view, eligible), lacks=_lacks(pod_set, view))
        if shared and diagnosis.now.gave_up is None:
            view.diagnoses[pod_set.demand] = diagnosis
    if pod_set.joins and (unjoined := _unjoined(pod_set, diagnosis, view)) is not None:
        return unjoined
    wait = explain(pod_set, diagnosis, view, str(case.earmarks[0].gang.ref) if case.earmarks else "")
    if diagnosis.lacks and wait.reason in _OF_CAPACITY:
        return replace(wait, names={**wait.names, "devices": diagnosis.lacks})
    return wait


def _lacks(pod_set: PodSet, view: CapacityView) -> str:
    """Say which nodes lack devices for the most demanding member that has claims, "" if none do."""
    shapes = sorted((shape for shape, _ in pod_set.demand.shapes), key=lambda each: (-each.whole_gpus, each.requests))
    said = (lacks_in_words(view.table, shape, view.possible(shape)) for shape in shapes)
    return next(filter(None, said), "")


def _bar(pod_set: PodSet, view: CapacityView) -> Wait | None:
    """Say what keeps members from being placed on a view however much room they find there."""
    if (unmet := unmet_min_resources(pod_set.gang, view)) is not None:
        return unmet
    topology, group = pod_set.demand.topology, pod_set.gang.group
    if topology.role_groups and (pair := overlapping(binding(topology.role_groups, view.tree))):
        detail = f"role groups {pair} overlap, and none holds the other: they cannot be kept together"
        kind = "PodGroup" if group is None else group.kind
        return Wait(Reason.INVALID_POD_GROUP, names={"kind": kind, "group": str(pod_set.gang.ref), "detail": detail})
    levels = view.tree.levels
    if unknown := unknown_level(pod_set.demand.topology, levels):
        known = ", ".join(level.name for level in levels.levels) or "none"
        return Wait(Reason.UNKNOWN_LEVEL, names={"level": _called(unknown, pod_set.gang), "known": f"{known}, node"})
    return None


def _called(level: str, gang: Gang) -> str:
    """Return how a wait names a level; a bound by number says where it stands."""
    tier = tier_bound(level)
    if tier is None:
        return level
    kind = "PodGroup" if gang.group is None else gang.group.kind
    return f"tier-{tier} or lower, to which networkTopology.highestTierAllowed of {kind} {gang.ref} limits it"


def _without_quota(case: Case) -> Wait:
    """Say which quota is short where no flavor has enough: what may be had later before what never will be."""
    shortages = [offer.shortage for offer in case.offers if offer.shortage is not None]
    if shortages:
        return lacking(min(shortages, key=lambda shortage: shortage.ever))
    return Wait(Reason.INVALID_QUEUE, names={"queue": case.queue, "detail": _no_flavor(case.pod_set.amounts)})


def lacking(shortage: QuotaShortage) -> Wait:
    """Say which quota is short."""
    names = {
        "queue": shortage.queue,
        "flavor": shortage.flavor,
        "resource": shortage.resource,
        "wanted": format_amount(shortage.resource, shortage.asked),
        "whose": " for pods that cannot be evicted, which may not borrow" if shortage.nonpreemptible else "",
    }
    if shortage.ever:  # what is left now does not matter, and a verdict that stands would not follow it
        numbers = {"asked": shortage.asked, "available": shortage.most}
        return Wait(Reason.EXCEEDS_QUOTA, numbers, names | {"most": format_amount(shortage.resource, shortage.most)})
    numbers = {"asked": shortage.asked, "available": shortage.available}
    left = format_amount(shortage.resource, max(shortage.available, 0))
    return Wait(Reason.QUOTA_EXCEEDED, numbers, names | {"left": left})


def _no_flavor(amounts: Mapping[str, int]) -> str:
    asked = ", ".join(sorted(resource for resource, amount in amounts.items() if amount and is_asked_for(resource)))
    return f"no flavor has quota for all that is asked for: {asked}"


def unknown_level(topology: TopologyRequest, levels: Levels) -> str:
    """Return the first level that is required and not known, "" if all are known."""
    asked = [topology.required, *(part.level for part in topology.slices)]
    asked += [group.level for group in topology.role_groups if group.required]
    return next((level for level in asked if level and levels.find(level) is None), "")


def examine(pod_set: PodSet, now: Shortfall, view: CapacityView, eligible: Eligible) -> Diagnosis:
    """Find out why they fall short by `now`, by taking one obstacle away after the other.

    `eligible` says which nodes admit a shape and were not refused by kube-scheduler.
    """
    if not all(view.admits(shape) for shape, _ in pod_set.demand.shapes):
        return Diagnosis(now, unmatched=True)
    ever = view.lack_ever(pod_set)
    if ever is not None and ever.gave_up is None:
        return Diagnosis(now, ever, unaligned=_unaligned(Capacity.EMPTY, pod_set, ever, view, view.possible))
    if now.gave_up is not None:
        return Diagnosis(now)
    if eligible is not view.admitted and view.shortage(Capacity.FREE, pod_set, view.admitted) is None:
        return Diagnosis(now, vetoed=True)
    if view.possible is not view.admitted and view.shortage(Capacity.FREE, pod_set, view.possible) is None:
        return Diagnosis(now, rejected=True)
    if view.kept is not None and view.shortage(Capacity.UNKEPT, pod_set, eligible) is None:
        return Diagnosis(now, kept=True)
    return Diagnosis(now, unaligned=_unaligned(Capacity.FREE, pod_set, now, view, eligible))


def _unaligned(
    capacity: Capacity, pod_set: PodSet, short: Shortfall, view: CapacityView, eligible: Eligible
) -> int | None:
    """Return how many would fit by their number alone, None if that is no more than fit.

    Each shape counts as if it had the nodes to itself, with zones and without: shapes that have no room beside each
    other lack something else than zones.
    """
    counted = view.counted(capacity, pod_set, eligible)
    aligned = sum(min(view.room(capacity, shape, eligible), wanted) for shape, wanted in pod_set.demand.shapes)
    return counted if not short.level and counted > aligned else None


def explain(pod_set: PodSet, diagnosis: Diagnosis, view: CapacityView, head: str) -> Wait:
    """Say why they do not fit, in the gang's own numbers and names; `head` is who is first in the queue."""
    minimum = pod_set.gang.min_member
    settled = minimum - pod_set.demand.pods
    if pod_set.settled:
        minimum, settled = _counted(pod_set)
    now = {"fits": settled + diagnosis.now.fits, "minMember": minimum}
    if diagnosis.unmatched:
        unplaceable = next(pod.key for pod in pod_set.pods if not view.admits(pod.shape))
        return Wait(Reason.NO_NODE_MATCHES, {"nodes": len(view.table)}, {"unplaceable": unplaceable})
    if diagnosis.ever is not None:
        return _never(pod_set, diagnosis, diagnosis.ever, {"fits": settled + diagnosis.ever.fits, "minMember": minimum})
    if (far := diagnosis.now.gave_up) is not None:
        return _gave_up(far, pod_set)
    if diagnosis.vetoed or diagnosis.rejected:
        return _refused(diagnosis, now)
    if diagnosis.kept:
        return Wait(Reason.BEHIND_HEAD, names={"head": head})
    if diagnosis.now.level:
        return _no_domain(Reason.DOMAIN_FULL, diagnosis.now, now)
    if diagnosis.unaligned is not None:
        return Wait(Reason.ZONES_FULL, now | {"counted": settled + diagnosis.unaligned})
    return Wait(Reason.INSUFFICIENT_CAPACITY, now)


def _counted(pod_set: PodSet) -> tuple[int, int]:
    """Return of how many members is told, and how many of these have a place: of its minimum, or of those beyond."""
    pods, gang = pod_set.demand.pods, pod_set.gang
    if gang.has_core and pod_set.pods[0].uid in gang.members:  # not instead of one that is lost
        return pods, 0
    minimum = gang.min_member
    return minimum, minimum - pods


def _unjoined(pod_set: PodSet, diagnosis: Diagnosis, view: CapacityView) -> Wait | None:
    """Say which members find no room beside the others of their slice or their roles; None if all do."""
    if diagnosis.vetoed or diagnosis.rejected or diagnosis.kept:
        return None
    for shape, wanted in sorted(pod_set.demand.shapes, key=lambda each: each[0].requests):
        join = pod_set.joins.get(shape)
        if join is not None and view.room(Capacity.FREE, shape, view.admitted) < wanted:
            minimum, settled = _counted(pod_set)
            now = {"fits": settled + diagnosis.now.fits, "minMember": minimum}
            of = f"role {' and '.join(join.roles)}" if join.roles else f"a slice of {join.size}"
            part = f"the missing members of {of} beside the others"
            return Wait(Reason.DOMAIN_FULL, now, {"level": join.level, "part": part})
    return None


def _gave_up(far: GaveUp, pod_set: PodSet) -> Wait:
    """Say that it is neither known that the members have a place nor that they have none."""
    numbers = {"searched": far.nodes, "nodes": far.of, "minMember": pod_set.gang.min_member}
    return Wait(Reason.SEARCH_GAVE_UP, numbers)


def _refused(diagnosis: Diagnosis, now: dict[str, int]) -> Wait:
    """Say who does not want the members where it would fit now."""
    if diagnosis.rejected:
        return Wait(Reason.REJECTED_BY_KUBELET, now)
    detail = "it left out planned nodes for reasons of its own, and the others are not enough"
    return Wait(Reason.REFUSED_BY_SCHEDULER, {"fits": now["fits"]}, {"detail": detail})


def _never(pod_set: PodSet, diagnosis: Diagnosis, ever: Shortfall, numbers: dict[str, int]) -> Wait:
    """Say why the members would not even fit on the empty cluster."""
    if ever.level:
        return _no_domain(Reason.EXCEEDS_DOMAIN, ever, numbers)
    if diagnosis.unaligned is not None:
        request = ", ".join(
            f"{format_amount(resource, value)} {resource}" for resource, value in _aligned_request(pod_set)
        )
        return Wait(Reason.NEVER_ALIGNED, numbers, {"request": request})
    return Wait(Reason.EXCEEDS_CLUSTER, numbers)


def _no_domain(reason: Reason, short: Shortfall, of_all: dict[str, int]) -> Wait:
    """Say for which part of the members no domain has room; `of_all` has the numbers where the part is all of them."""
    of_part = {"fits": short.fits, "minMember": short.needed}
    if short.roles:
        return Wait(reason, of_part, {"level": short.level, "part": f"all of role {' and '.join(short.roles)}"})
    if short.size:
        part = f"{'one more' if short.fits else 'a'} slice of {short.size}"
        return Wait(reason, of_part, {"level": short.level, "part": part})
    return Wait(reason, of_all, {"level": short.level, "part": "all"})


def _aligned_request(pod_set: PodSet) -> list[tuple[str, int]]:
    """Return what the most demanding member asks for of what kubelets align: devices; CPUs if they are its own."""
    shape = pod_set.demand.most_demanding
    aligned = ("cpu",) if shape.guaranteed else ()
    devices = ((name, value) for name, value in shape.requests if is_extended(name) or name in aligned)
    return [(name, value) for name, value in devices if is_asked_for(name)]


def unmet_min_resources(gang: Gang, view: CapacityView) -> Wait | None:
    """Check minResources against what is free in the cluster plus what the gang holds, as coscheduling does."""
    wanted = {} if gang.group is None else gang.group.min_resources
    if not wanted:
        return None
    free = view.totals()
    for resource, needed in sorted(wanted.items()):
        held = sum(pods * shape.request(resource) for shape, pods in gang.held.items())
        if free.get(resource, 0) + held < needed:
            numbers = {"needed": needed, "free": free.get(resource, 0) + held}
            names = {"wanted": f"{format_amount(resource, needed)} {resource}"}
            return Wait(Reason.MIN_RESOURCES_UNMET, numbers, names)
    return None
