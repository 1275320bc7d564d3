"""What there is to say of a gang beside its phase and reason.

Its place in line, where its members come closest to finding room and who holds what they lack there, and of a gang that
has places, how else it could have been placed. By what it was chosen is kept with the gang; the rest is not what the
cycle saw when it chose, but what it would see if it chose now, with the gang's own places free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from typing import Final

import numpy as np
from numpy.typing import NDArray

from extender.admission.admission import Admission
from extender.admission.headearmarks import declared
from extender.cluster.table import NodeTable
from extender.cluster.whatif import WhatIf
from extender.explain.documents import HolderRow, QueuePosition
from extender.explain.inquiry import Inquiry
from extender.explain.waterfall import Gathering, Waterfall, waterfalls
from extender.objects.devicewords import nodes_in_words
from extender.objects.meta import time_text
from extender.objects.pod import Pod, Shape
from extender.objects.podgroup import GroupRef
from extender.objects.topology import Objective, PlacementGoal, WeighedPlace
from extender.placement.backfill.outlook import Calendar, expected_release
from extender.placement.capacityview import Capacity
from extender.placement.placement import Better, Placement, describe, next_better
from extender.placement.room import room

#: Of the gangs that are ahead so many are named.
MOST_NAMED = 5
#: Nodes of a nearest miss that are listed at most: beyond that, nearly every node lacks something.
MOST_ROWS = 64
#: Of a node that is to take more pods so many are looked at: beyond that, the node is as good as empty.
_MOST_MORE = 64
#: Holders that are listed at most.
MOST_HOLDERS = 10

_COLLECTIVES: Final = {
    Objective.ALLREDUCE: "the fastest all-reduce",
    Objective.ALLTOALL: "the fastest all-to-all",
    Objective.NONE: "the least loss for others, whatever its own bandwidth",
}


#: What a place was chosen for: a gang's collective, and what others lose by it.
_GOALS: Final[Mapping[str, str]] = {
    PlacementGoal.BANDWIDTH: "chosen for {wanted}, then for what others lose least by: {lost:,.0f} GB/s",
    PlacementGoal.BALANCED: "chosen for {wanted}, weighed against what others lose by it: {lost:,.0f} GB/s",
    PlacementGoal.CAPACITY: "chosen for what others lose least by: {lost:,.0f} GB/s, then for {wanted}",
}


@dataclass(frozen=True, slots=True)
class WaitAccount:
    """What there is to say of a gang beside its phase and reason.

    Attributes:
        standing: where it stands in line.
        waterfalls: which constraint takes how many nodes from the members that it needs, by shape.
        nearest: where these come closest to finding room, None if they would find it.
        holdings: who holds what they lack there; `name_holders` makes `holders` of it.
        placement: where the gang is, or is promised to be, None while it holds no node.
        better: what a faster placement would take.
        choice: how else it could have been placed.
    """

    standing: QueuePosition
    waterfalls: tuple[Waterfall, ...] = ()
    nearest: NearestMiss | None = None
    holdings: tuple[HeldCapacity, ...] = ()
    holders: tuple[HolderRow, ...] = ()
    placement: Placement | None = None
    better: Better | None = None
    choice: NodeChoice | None = None


def explain_gang(inquiry: Inquiry) -> WaitAccount:
    """Work out everything about a gang, which need not be one that the cluster knows.

    Complexity: O(shapes x nodes + claims on the nodes of the nearest miss).
    """
    falls: tuple[Waterfall, ...] = ()
    miss = None
    if inquiry.case.pod_set.demand.pods:
        gathering = Gathering(inquiry)
        falls = waterfalls(inquiry, gathering)
        miss = nearest_miss(inquiry, gathering, falls)
    account = WaitAccount(stand(inquiry), falls, miss, holdings(inquiry, miss))
    places = places_of(inquiry)
    if not places:
        return account
    placement = describe(places, inquiry.table, inquiry.tree, inquiry.gang.topology.objective)
    return account if placement is None else with_places(account, inquiry, placement)


def with_places(account: WaitAccount, inquiry: Inquiry, placement: Placement) -> WaitAccount:
    """Add what there is to say of the places that the gang has in the inquiry's table."""
    places, objective = places_of(inquiry), inquiry.gang.topology.objective
    better = next_better(places, placement, inquiry.table, inquiry.tree, objective)
    return replace(account, placement=placement, better=better, choice=choice_of(inquiry, placement))


def stand(inquiry: Inquiry) -> QueuePosition:
    """Return where a gang stands in the line in which the gangs are tried, with the last of those before it."""
    queue = inquiry.case.queue
    found = inquiry.line.stand(inquiry.gang.uid, queue, inquiry.awaiting, MOST_NAMED)
    ahead = tuple(str(each.gang.ref) for each in found.ahead)
    return QueuePosition(queue or None, found.place, found.of, found.in_own, found.of_own, ahead)


def name_holders(admission: Admission, account: WaitAccount, now: float) -> WaitAccount:
    """Fill in who the holders are at `now` (epoch seconds), on the event loop: it takes tens of microseconds.

    Those that are gone meanwhile are left out.
    """
    found = (_identify(admission, each, now) for each in account.holdings)
    return replace(account, holders=tuple(holder for holder in found if holder is not None))


@dataclass(frozen=True, slots=True, eq=False)
class NearestMiss:
    """The domain in which most of those fit that have to be together, and what it lacks for the others.

    `level` and `domain` are "cluster" and "" where nothing has to be together. `shortages` is by resource (milli-CPU,
    bytes, counts) what would have to become free on the nodes that lack least; empty if by numbers nothing is short,
    but zones are. `rows` are those nodes, MOST_ROWS at most, those that lack least first.
    """

    level: str
    domain: str
    fits: int
    needed: int
    shortages: Mapping[str, int]
    rows: tuple[int, ...]


def nearest_miss(inquiry: Inquiry, gathering: Gathering, falls: Sequence[Waterfall]) -> NearestMiss | None:
    """Return where the members of a gang come closest to finding room; None if they would, or there is no domain."""
    domain = gathering.best
    if domain is None:
        return None
    fits, needed = gathering.held(domain), gathering.part.count
    if fits >= needed or all(fall.fits >= fall.pods for fall in falls):
        return None
    inside = gathering.rows(domain)
    shortages: dict[str, int] = {}
    rows: dict[int, None] = {}
    for fall in falls:
        missing = gathering.missing(fall.shape, domain)
        if missing > 0:
            amounts, at = _deficit(inquiry, fall, inside, missing)
            shortages = {
                name: shortages.get(name, 0) + amounts.get(name, 0) for name in shortages.keys() | amounts.keys()
            }
            rows |= dict.fromkeys(at)
    levels = inquiry.tree.levels
    name = inquiry.tree.domain_name(gathering.part.level, domain, inquiry.table.node)
    return NearestMiss(
        levels.name(gathering.part.level), name, fits, needed, dict(sorted(shortages.items())), tuple(rows)[:MOST_ROWS]
    )


def _deficit(
    inquiry: Inquiry, fall: Waterfall, inside: NDArray[np.bool_], missing: int
) -> tuple[dict[str, int], list[int]]:
    """Return what `missing` more pods of a shape lack on the nodes that lack least, and the rows of these.

    Pods that not even the empty nodes would take lack what is too little there for them too; where no node takes such
    pods, as those of a domain that are tainted, that is what all of its nodes are short of.
    """
    table, site = inquiry.table, inquiry.case.view(inquiry.option)
    vector, present = table.vector(fall.shape.requests), table.present[: table.rows]
    names, asked = [table.resources[column] for column in vector.columns.tolist()], vector.amounts
    takers = inside & fall.open_to
    rows = np.flatnonzero(takers if takers.any() else inside & present)
    free, room = site.snapshot(Capacity.FREE).free[vector.columns][:, rows], fall.room[rows]
    left = np.maximum(free - room * asked[:, None], 0)  # no pod lacks more than it asks for
    most = _most_when_empty(table, vector.columns, asked, rows) - room if takers.any() else np.zeros_like(room)
    total, where = np.zeros_like(asked), list[int]()
    for already, many in ((np.zeros_like(most), most), (np.maximum(most, 0), np.full_like(most, _MOST_MORE))):
        steps = range(min(missing, _MOST_MORE))
        lacking = [_lack_of_next(left, asked, already + more)[:, many > more] for more in steps]
        amounts = np.concatenate(lacking, axis=1) if lacking else np.zeros((len(names), 0), dtype=np.int64)
        shares = (amounts / np.maximum(asked, 1)[:, None]).sum(axis=0)
        chosen = np.argsort(shares, kind="stable")
        total += amounts[:, chosen[:missing]].sum(axis=1)
        if many is most:
            at = np.concatenate([rows[many > more] for more in range(len(lacking))]) if lacking else rows[:0]
            where = list(dict.fromkeys(at[chosen[: max(missing, MOST_ROWS)]].tolist()))
        missing -= min(missing, chosen.shape[0])
        if not missing:
            break
    total += asked * missing
    shortages = {name: int(amount) for name, amount in zip(names, total.tolist(), strict=True) if amount > 0}
    return shortages, where


def _lack_of_next(left: NDArray[np.int64], asked: NDArray[np.int64], before: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return (resources, rows) what one pod more lacks on each node, of which `left` would go to `before` others."""
    wanted = before * asked[:, None]
    lack: NDArray[np.int64] = np.maximum(wanted + asked[:, None] - left, 0) - np.maximum(wanted - left, 0)
    return lack


def _most_when_empty(
    table: NodeTable, columns: NDArray[np.intp], asked: NDArray[np.int64], rows: NDArray[np.intp]
) -> NDArray[np.int64]:
    """Return (len(rows),) how many pods each node takes when empty, by numbers."""
    some = asked > 0
    if not some.any():
        return np.full(rows.shape[0], _MOST_MORE, dtype=np.int64)
    whole = table.allocatable[columns[some]][:, rows]
    most: NDArray[np.int64] = (whole // asked[some][:, None]).min(axis=0)
    return most


@dataclass(frozen=True, slots=True)
class HeldCapacity:
    """What one gang has of the nodes in question.

    `pod` is one of its pods. Of a pod of another scheduler that names no group, `ref` is its own name.
    """

    ref: GroupRef
    pod: Pod
    gpus: int
    nodes: int


def holdings(inquiry: Inquiry, miss: NearestMiss | None) -> tuple[HeldCapacity, ...]:
    """Return who holds anything of what the nodes of a nearest miss are short of, who holds most first.

    Complexity: O(claims on those nodes).
    """
    if miss is None:
        return ()
    gpus_of, table, pods, own = _TakenGpus(frozenset(miss.shortages)), inquiry.table, inquiry.pods, inquiry.gang.members
    found: dict[GroupRef, _Tally] = {}
    for row in miss.rows:
        for uid, claim in table.claims_on(table.node(row).name):
            gpus = gpus_of[claim.shape]
            pod = None if gpus is None else pods.get(uid)
            if gpus is None or pod is None or uid in own:
                continue
            tally = found.get(pod.group)
            if tally is None:
                tally = found[pod.group] = _Tally(pod)
            tally.gpus += gpus
            tally.rows.add(row)
    most = nsmallest(MOST_HOLDERS, found.values(), key=lambda each: (-each.gpus, -len(each.rows), each.pod.key))
    return tuple(HeldCapacity(tally.pod.group, tally.pod, tally.gpus, len(tally.rows)) for tally in most)


@dataclass(slots=True)
class _Tally:
    """What one gang or pod holds, as far as it has been counted."""

    pod: Pod
    gpus: int = 0
    rows: set[int] = field(default_factory=set)


class _TakenGpus(dict[Shape, int | None]):
    """By shape, how many GPUs a pod takes; None if it takes nothing of what is short. Many pods have few shapes."""

    def __init__(self, short: frozenset[str]) -> None:
        """Look at what pods take of `short`; if that is empty, at whatever they take."""
        super().__init__()
        self._short = short

    def __missing__(self, shape: Shape) -> int | None:
        """Look at a shape for the first time."""
        takes = not self._short or any(amount and name in self._short for name, amount in shape.requests)
        self[shape] = shape.whole_gpus if takes else None
        return self[shape]


def _identify(admission: Admission, held: HeldCapacity, now: float) -> HolderRow | None:
    sharing, pod = admission.sharing, held.pod
    gang = admission.model.gangs.get(held.ref)
    if gang is None:
        if pod.uid not in admission.model.pods or admission.model.is_member(pod):
            return None
        duration, started = declared(pod), pod.started_at
        name, priority, queue = pod.key, pod.priority, None
    else:
        duration, started = gang.expected_duration, gang.started_at
        name, priority, queue = str(held.ref), gang.priority, sharing.queue_of(gang) or None
    ends_at, overdue = (None, False) if duration is None else _end(name, pod, started, duration, now)
    ends = None if ends_at is None else time_text(ends_at)
    return HolderRow(name, held.gpus, held.nodes, priority, queue, ends, overdue)


def _end(name: str, pod: Pod, started: float | None, duration: float, now: float) -> tuple[float | None, bool]:
    """Return when a holder is expected to end, as starts are worked out, and whether that is overdue."""
    calendar = Calendar((expected_release(name, (pod.uid,), started, duration, now),), now)
    if not calendar.moments:
        return None, True
    return calendar.moments[0].at, bool(calendar.overdue)


@dataclass(frozen=True, slots=True)
class Reach:
    """Of how many domains of one level any one would hold the whole gang."""

    level: str
    domains: int
    holding: int


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """What could have been chosen for a gang with places.

    `considered` counts the nodes that would take a member, `nodes` all there are; `reaches` are from the outermost
    level to the node; `lines` say it to people. `weighed` is by what it was chosen, where that is known.
    """

    considered: int
    nodes: int
    members: int
    reaches: tuple[Reach, ...]
    lines: tuple[str, ...]
    weighed: WeighedPlace | None


def places_of(inquiry: Inquiry) -> dict[str, str]:
    """Return pod UID -> node of the members of the gang that have a node, or one promised."""
    claim_of = inquiry.table.claim_of
    return {uid: claim.node for uid in inquiry.gang.members if (claim := claim_of(uid)) is not None}


def choice_of(inquiry: Inquiry, placement: Placement) -> NodeChoice | None:
    """Return what could have been chosen for a gang that has places; None where their shapes are not known."""
    table, tree = inquiry.table, inquiry.tree
    places = places_of(inquiry)
    shapes = Counter(claim.shape for uid in places if (claim := table.claim_of(uid)) is not None)
    if not shapes:
        return None
    site = inquiry.case.view(inquiry.option)
    free = WhatIf(table, site.snapshot(Capacity.FREE).free)
    free.vacate(places)
    eligible = inquiry.case.eligible(site)
    rooms: Mapping[Shape, NDArray[np.int64]] = {shape: room(free, shape, eligible(shape)) for shape in shapes}
    considered = int(np.logical_or.reduce([each > 0 for each in rooms.values()]).sum())
    reaches = []
    for level in range(tree.depth + 1):
        held = [np.minimum(tree.sums(level, np.minimum(rooms[shape], n)), n) >= n for shape, n in shapes.items()]
        domains = len(tree.names[level]) if level < tree.depth else len(table)
        reaches.append(Reach(tree.levels.name(level), domains, int(np.logical_and.reduce(held).sum())))
    found = NodeChoice(considered, len(table), len(places), tuple(reaches), (), inquiry.gang.weighed)
    return replace(found, lines=_lines(inquiry, found, placement))


def _lines(inquiry: Inquiry, found: NodeChoice, placement: Placement) -> tuple[str, ...]:
    topology = inquiry.gang.topology
    all_of_it = "all members" if found.members > 1 else "it"
    reaches = [
        f"level {each.level}: {each.holding:,} of {each.domains:,} would hold {all_of_it}" for each in found.reaches
    ]
    wanted = _COLLECTIVES[topology.objective]
    if topology.required:
        wanted += f", all in one {topology.required}"
    elif topology.preferred:
        wanted += f", in one {topology.preferred} if one has room"
    gpus = sum(placement.gpus_per_node.values())
    taking = f"{found.considered:,} of {nodes_in_words(found.nodes)} would take a member"
    return (
        f"as things stand now, with its own places free: {taking}",
        *reaches,
        _GOALS[inquiry.tree.goal].format(wanted=wanted, lost=placement.fragmentation),
        *([] if found.weighed is None else _weighed(found.weighed, gpus)),
    )


def _weighed(weighed: WeighedPlace, gpus: int) -> Iterator[str]:
    """Say by what a place was chosen, for all of so many GPUs or some of them, and what was passed by."""
    cost, passed = weighed.cost, weighed.passed
    some = f" for {weighed.gpus} of {gpus} GPUs" if weighed.gpus < gpus else ""
    yield (
        f"weighed{some} when it was chosen: communication costs {cost.work:.2g} GPUs of work, and later gangs lose"
        f" {cost.lost:.2g}, which count as {cost.counted:.2g}"
    )
    if passed is None:
        return
    what = " + ".join(map(str, passed.gpus)) + " GPUs" if passed.gpus else "a place"
    where = f" within one {passed.level}" if passed.level else ""
    work, lost = abs(cost.work - passed.cost.work), abs(cost.lost - passed.cost.lost)
    percent, faster = round(abs(passed.speed - 1) * 100), passed.speed > 1
    speed, bound = ("faster: gains {}, costs", "at least ") if faster else ("slower: costs {}, saves", "at most ")
    yield (
        f"passed by: {what}{where}, {percent} % {speed.format(f'{work:.2g} GPUs of work')} later gangs"
        f" {'' if passed.exact else bound}{lost:.2g}, which count as {abs(cost.counted - passed.cost.counted):.2g}"
    )
