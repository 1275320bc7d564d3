"""How one gang stands, in full: why it waits, or what is predicted of where it is, for people and programs.

State is collected in one go, as values and copies; answers and pictures are made of it in whatever thread.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from extender.admission.admission import Admission
from extender.clock import Clock
from extender.cluster.gangs import Gang, member_order
from extender.cluster.occupancy import Held
from extender.explain.account import (
    HeldCapacity,
    NearestMiss,
    WaitAccount,
    explain_gang,
    name_holders,
    places_of,
)
from extender.explain.copies import Copies
from extender.explain.demand import UnmetDemand, unmet_demand
from extender.explain.documents import (
    ExpectedStart,
    Explanation,
    FasterPlacement,
    LevelNames,
    MemberRow,
    MemberState,
    NearestDomain,
    NodeWaterfall,
    PartRow,
    PlacementChoice,
    PredictedPlacement,
    QuotaStanding,
    SuggestedChange,
    WaitReason,
)
from extender.explain.drawing.tree import DrawnHolding, Survey
from extender.explain.evictable import Evictable
from extender.explain.forecast import Prospects
from extender.explain.foresight import Prospect
from extender.explain.inquiry import Inquiry, inquire
from extender.explain.parts import part_tree
from extender.explain.quotas import quota_standing
from extender.explain.runtimes import LearnedRuntimes, RuntimeSource
from extender.explain.suggestions import suggest
from extender.explain.views import GangView, QueueReport, gang_view, queue_reports
from extender.explain.waterfall import Waterfall
from extender.objects.devicewords import resource_in_words
from extender.objects.levels import CLUSTER_LEVEL, NODE_LEVEL, Levels
from extender.objects.meta import time_text
from extender.objects.node import Node
from extender.objects.pod import Phase, Pod
from extender.objects.podgroup import GroupRef
from extender.objects.reason import Wait
from extender.objects.requests import PODS, format_amount, is_asked_for
from extender.objects.sources.table import SOURCE_OF
from extender.placement.placement import Better, Placement

#: Decimals of a bandwidth: megabytes per second, far below what the model knows.
_GBPS_DECIMALS = 3

#: Of so many nodes people are told what is not believed.
_MOST_DOUBTS = 5

_NO_GATES: Mapping[str, str] = {}

#: From so many GB/s on, people are told whole ones.
_WHOLE_GBPS = 100


@dataclass(frozen=True, slots=True)
class GangFacts:
    """What an explanation is written from, in a thread: values that do not change.

    `levels` are those that it is placed by. `promised` has the node of each member with a reservation, `held` what
    members hold of their nodes, where that is known, both by UID. `doubts` says by node what was reported of it and is
    not believed. `start` is when a gang that waits is expected to start, where that was looked at. `suggestions` are
    the smallest changes with which it would be placed now, None where none were searched for. `quota` is how its Queue
    stands, if it waits for quota and that was looked at. A `hypothetical` gang does not exist: it was only asked about.
    `parts` is None of one that has none. `refused` is what the API server refuses to do for it, and why.
    """

    view: GangView
    levels: Levels
    members: tuple[Pod, ...]
    account: WaitAccount
    promised: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[str, Held] = field(default_factory=dict)
    doubts: Mapping[str, str] = field(default_factory=dict)
    start: Prospect | None = None
    suggestions: tuple[SuggestedChange, ...] | None = None
    quota: QuotaStanding | None = None
    hypothetical: bool = False
    parts: PartRow | None = None
    refused: str = ""


def explanation(facts: GangFacts) -> Explanation:
    """Write down how a gang stands, the members in order."""
    view, account = facts.view, facts.account
    placement, better, nearest, choice = account.placement, account.better, account.nearest, account.choice
    return Explanation(
        namespace=view.ref.namespace,
        name=view.ref.name,
        api=view.ref.api,
        managed=view.managed,
        hypothetical=facts.hypothetical,
        phase=view.phase,
        min_member=view.min_member,
        reason=None if view.wait is None else wait_reason(view.wait),
        placement=None if placement is None else predicted_placement(placement),
        headline=headline(facts),
        next_better=None if better is None else _faster(better),
        expected_start=expected_start(facts.start),
        start_unknown=start_unknown(facts.start),
        starts_after=starts_after(facts.start),
        queue=account.standing,
        waterfall=tuple(map(_waterfall, account.waterfalls)),
        nearest_miss=None if nearest is None else _nearest(nearest),
        holders=account.holders,
        quota=facts.quota,
        choice=None if choice is None else PlacementChoice(choice.considered, choice.lines, choice.weighed),
        suggestions=facts.suggestions,
        remarks=remarks(facts),
        levels=LevelNames(facts.levels.source, tuple(level.name for level in facts.levels.levels)),
        parts=facts.parts,
        pods=tuple(_member(facts, pod) for pod in sorted(facts.members, key=member_order)),
    )


# What matters most, in words.


def headline(facts: GangFacts) -> str:
    """Return what matters most about a gang, in one line: its phase, and what is predicted of where it is."""
    phase, placement = facts.view.phase.value, facts.account.placement
    return phase if placement is None else f"{phase}, {predicted(placement)}"


def remarks(facts: GangFacts) -> tuple[str, ...]:
    """Return what else there is to say, in a line each: why it waits, what it has, where the levels are from."""
    wait, levels, account = facts.view.wait, facts.levels, facts.account
    names = " > ".join(level.name for level in levels.levels) or "none"
    return (
        *([] if wait is None else [f"waits: {wait.reason.value}: {wait.message}"]),
        *([] if wait is None or not facts.refused else [facts.refused]),
        *_account_lines(account),
        *([] if facts.quota is None else facts.quota.lines),
        *([] if facts.start is None else [_expected(facts.start)]),
        *([] if account.placement is None else _consequences(account.placement)),
        *([] if account.better is None else [_would_take(account.better)]),
        *(f"{node}: {doubt}" for node, doubt in list(facts.doubts.items())[:_MOST_DOUBTS]),
        f"levels: {names}{f' ({levels.source})' if levels.source else ''}",
    )


def _account_lines(account: WaitAccount) -> list[str]:
    """Return the place in line and the nearest miss of a gang that waits, in a line each."""
    standing, lines = account.standing, list[str]()
    if standing.position is not None:
        place, behind = (
            f"{standing.position} of {standing.of}",
            f", behind {standing.ahead[-1]}" if standing.ahead else "",
        )
        if standing.name:
            own = f"{standing.position_in_queue} of {standing.of_queue} in line in Queue {standing.name}"
            lines.append(f"{own}, {place} over all Queues{behind}")
        else:
            lines.append(f"{place} in line{behind}")
    if account.nearest is not None:
        lines.append(_nearest_line(account.nearest))
    return lines


def _nearest_line(miss: NearestMiss) -> str:
    """Return a nearest miss in words: `rack b0/r1 has room for 3 of 4 and lacks 8 nvidia.com/gpu`."""
    where = "the cluster" if miss.level == CLUSTER_LEVEL else f"{miss.level} {miss.domain}"
    lacks = ", ".join(f"{amount} {name}" for name, amount in _amounts(miss.shortages).items())
    return f"nearest: {where} has room for {miss.fits} of {miss.needed}{f' and lacks {lacks}' if lacks else ''}"


def _expected(start: Prospect) -> str:
    """Return when a start is expected: `starts at 2026-11-21T12:00:00Z if default/old ends as expected`."""
    if start.at is None:
        return f"start not known: {start.unknown}"
    if start.source is RuntimeSource.LEARNED:
        like = "none comes before it and gangs run as long as those like them did"
        return f"starts about {time_text(start.at)} if {like}{f', {start.because} last' if start.because else ''}"
    if not start.because:
        return f"starts at {time_text(start.at)} if all goes as expected"
    ends = "which should have ended already, ends by then" if start.overdue else "ends as declared"
    return f"starts at {time_text(start.at)} if {start.because}{',' if start.overdue else ''} {ends}"


def _would_take(better: Better) -> str:
    """Return what the next better placement would take: `376 GB/s would take one rack: r0 has room for 2 of 3`."""
    roomiest = f"{better.domain} has room for {better.fits} of {better.needed}" if better.domain else "there is none"
    return f"{gbps(better.bus_bandwidth)} would take one {better.level}: {roomiest}"


def predicted(placement: Placement) -> str:
    """Return what is predicted of a placement, and where it is: `329 GB/s predicted, within rack b0/r1`."""
    bandwidth = placement.bus_bandwidth
    speed = "no bandwidth predicted" if bandwidth is None else f"{gbps(bandwidth)} predicted"
    return f"{speed}, {whereabouts(placement)}"


def gbps(value: float) -> str:
    """Return a bandwidth (GB/s) with as many digits as it means anything with."""
    return f"{value:,.0f} GB/s" if value >= _WHOLE_GBPS else f"{value:.3g} GB/s"


def whereabouts(placement: Placement) -> str:
    """Return the closest that all members share: `on gpu-3`, `within rack r7`, `within rack-7`."""
    level, domain = placement.level, placement.domain
    if level == CLUSTER_LEVEL:
        return "across the cluster"
    if level == NODE_LEVEL:
        return f"on {domain}"
    return f"within {domain}" if domain.startswith(level) else f"within {level} {domain}"


def _consequences(placement: Placement) -> list[str]:
    gpus, nodes = sum(placement.gpus_per_node.values()), len(placement.gpus_per_node)
    amount = f"{gpus} GPU{'s' if gpus != 1 else ''} on {nodes} node{'s' if nodes != 1 else ''}"
    lines = [f"{amount}; future requests lose {gbps(placement.fragmentation)}"]
    if placement.bus_bandwidth is None and gpus > 1:
        lines.append("some of these GPUs are of a product that is not known (node label nvidia.com/gpu.product)")
    return lines


# The parts of the document.


def wait_reason(wait: Wait) -> WaitReason:
    """Write down why a gang waits."""
    return WaitReason(wait.reason, wait.message, dict(sorted(wait.numbers.items())))


def expected_start(start: Prospect | None) -> ExpectedStart | None:
    """Write down when a gang is expected to start; None if that is not known."""
    if start is None or start.at is None:
        return None
    return ExpectedStart(time_text(start.at), start.because or None, start.overdue, start.source.value)


def start_unknown(start: Prospect | None) -> str | None:
    """Return why it is not known when a gang starts; None if it is, or was not looked at."""
    return None if start is None else start.unknown or None


def starts_after(start: Prospect | None) -> str | None:
    """Return until when a gang does not start of which no more was worked out; None if more was."""
    return None if start is None or start.after is None else time_text(start.after)


def predicted_placement(placement: Placement) -> PredictedPlacement:
    """Write down a placement; bandwidths in GB/s."""
    return PredictedPlacement(
        bus_bandwidth=rounded(placement.bus_bandwidth),
        level=placement.level,
        domain=placement.domain,
        fragmentation_cost=rounded(placement.fragmentation),
        gpus_per_node=dict(placement.gpus_per_node),
    )


def rounded(value: float | None) -> float | None:
    """Return a bandwidth (GB/s) in whole MB/s, None for one that is not known or not finite."""
    return None if value is None or not math.isfinite(value) else float(round(value, _GBPS_DECIMALS))


def _faster(better: Better) -> FasterPlacement:
    return FasterPlacement(rounded(better.bus_bandwidth), better.level, better.domain, better.fits, better.needed)


def _waterfall(fall: Waterfall) -> NodeWaterfall:
    return NodeWaterfall(
        pods=fall.pods,
        request=_amounts({name: amount for name, amount in fall.shape.requests if name != PODS}),
        nodes=fall.nodes,
        steps=fall.steps,
        usable=fall.usable,
        fits=fall.fits,
    )


def _nearest(miss: NearestMiss) -> NearestDomain:
    return NearestDomain(miss.level, miss.domain, miss.fits, miss.needed, _amounts(miss.shortages))


def _member(facts: GangFacts, pod: Pod) -> MemberRow:
    promised, held = facts.promised.get(pod.uid, ""), facts.held.get(pod.uid)
    return MemberRow(
        name=pod.name,
        role=pod.role or None,
        state=_state(pod, promised=bool(promised)),
        node=pod.node_name or promised or None,
        gpus=tuple(held.gpus) if held is not None and held.gpus else None,
        zones=tuple(held.zones) if held is not None and held.zones else None,
        observed=held is not None and held.observed,
    )


def _state(pod: Pod, *, promised: bool) -> MemberState:
    if pod.done:
        return MemberState.SUCCEEDED if pod.phase is Phase.SUCCEEDED else MemberState.FAILED
    if pod.deleting:
        return MemberState.LEAVING
    if pod.node_name:
        return MemberState.BOUND
    if promised:
        return MemberState.RESERVED
    return MemberState.GATED if pod.gated else MemberState.WAITING


def _amounts(amounts: Mapping[str, int]) -> dict[str, str]:
    asked = ((name, amount) for name, amount in sorted(amounts.items()) if amount and is_asked_for(name))
    return {resource_in_words(name, amount): format_amount(name, amount) for name, amount in asked}


#: In a cluster with more nodes, zones are looked up for those of the gang alone: hardly any other is drawn by itself.
_MOST_ZONED = 500


@dataclass(frozen=True, slots=True)
class Collected:
    """What an explanation of a gang is worked out from: values and copies, for whatever thread.

    What would help a gang that waits is searched for with `evictable`, if that is not None. `start` is when it is
    expected to start, if it waits. `outdated` is freed with it.
    """

    view: GangView
    levels: Levels
    members: tuple[Pod, ...]
    inquiry: Inquiry
    evictable: Evictable | None
    start: Prospect | None
    outdated: Sequence[object] = ()


def explain_further(collected: Collected) -> GangFacts:
    """Work out how a gang stands, in whatever thread; who the holders are is for `Inspection.complete` to say.

    Complexity: O(shapes x nodes + claims): milliseconds for 5,000 nodes, in steps of microseconds.
    """
    inquiry = collected.inquiry
    account, occupancy = explain_gang(inquiry), inquiry.table.occupancy
    nodes = () if account.placement is None else account.placement.gpus_per_node
    uids = (pod.uid for pod in collected.members)
    return GangFacts(
        view=collected.view,
        levels=collected.levels,
        members=collected.members,
        account=account,
        promised=inquiry.promised,
        held={uid: held for uid in uids if (held := occupancy.held(uid)) is not None},
        doubts={node: doubt for node in nodes if (doubt := occupancy.distrust(node))},
        start=collected.start,
        suggestions=_suggestions(collected, account.holdings),
        quota=None if collected.evictable is None else quota_standing(inquiry, collected.evictable),
        parts=part_tree(inquiry.gang, places_of(inquiry), inquiry.views, collected.view.wait),
    )


def _suggestions(collected: Collected, held: Sequence[HeldCapacity]) -> tuple[SuggestedChange, ...] | None:
    """Return what would help a gang that waits, None if that is not asked for."""
    if collected.evictable is None:
        return None
    return () if collected.view.wait is None else suggest(collected.inquiry, collected.evictable, held)


class Inspection:
    """Collect what is to be told of a gang or of the cluster, as values that do not change afterwards.

    Attributes:
        prospects: when the gangs that wait are expected to start.
        runtimes: how long gangs ran that have ended.
    """

    def __init__(self, admission: Admission, clock: Clock, gates: Mapping[str, str] = _NO_GATES) -> None:
        """Read `admission`, as of the time of `clock`; `gates` says why some stay that are to go, by pod UID."""
        self._admission = admission
        self._clock = clock
        self._gates = gates
        self._copies = Copies()
        self.prospects = Prospects(admission)
        self.runtimes = LearnedRuntimes(admission.settings.history_user_label)

    def gangs(self) -> Iterator[GangView]:
        """Iterate over how every gang stands, those of other schedulers included, each as of when it is asked for."""
        return (gang_view(self._admission, gang) for gang in self._shown())

    def _shown(self) -> Iterable[Gang]:
        """Return every gang; a pod that names no group is among them only while it waits: 50,000 of them may run."""
        gangs = self._admission.model.gangs
        alone = (gang for gang in gangs.of(self._admission.reservations.waits) if gang.ref.is_pod)
        return np.fromiter(chain(gangs.named.values(), alone), object)  # into a list the garbage collector would look

    def find(self, namespace: str, name: str) -> GroupRef | None:
        """Return the gang of that name, else the gang of the pod of that name; None without either.

        Of several APIs' namesakes it is the first that asks for Muster. Complexity: O(pods) where no gang has the name.
        """
        model = self._admission.model
        refs = (GroupRef(api, namespace, name) for api in SOURCE_OF)
        gangs = [gang for ref in refs if (gang := model.gangs.get(ref)) is not None]
        if gangs:
            return max(gangs, key=model.concerns).ref
        namesakes = (pod for pod in model.pods.values() if pod.name == name and pod.namespace == namespace)
        return next((pod.group for pod in namesakes if model.gang_of(pod) is not None), None)

    def labels(self) -> dict[tuple[str, str, str], Mapping[str, str]]:
        """Return the labels of the gangs that are shown, by API, namespace and name."""
        return {(gang.ref.api, gang.ref.namespace, gang.ref.name): gang.labels for gang in self._shown()}

    def explain(self, ref: GroupRef) -> GangFacts:
        """Return how a gang stands, worked out on the spot; raise KeyError if there is none."""
        return self.complete(explain_further(self.collect(ref)))

    def collect(self, ref: GroupRef, *, suggesting: bool = True) -> Collected:
        """Return what `explain_further` needs, in well under a millisecond; raise KeyError if there is no such gang.

        What would help a gang that waits is searched for if `suggesting`: that takes longer than all else, and so has
        copies of its own. Without, they are shared: the answers are to be worked out one by one.
        """
        model = self._admission.model
        gang = model.gangs.get(ref)
        if gang is None:
            raise KeyError(ref)
        now = self._clock.now().timestamp()
        inquiry = inquire(self._admission, gang, now, copies=None if suggesting else self._copies)
        seen = gang_view(self._admission, gang)
        return Collected(
            view=seen if seen.wait is not None else replace(seen, wait=self._admission.wait_of(gang)),
            levels=model.tree.levels,
            members=tuple(gang.members.values()),
            inquiry=inquiry,
            evictable=Evictable(self._admission, inquiry.live.queue, now, self.runtimes) if suggesting else None,
            start=self.prospects.of(gang),
            outdated=self._copies.outdated(),
        )

    def complete(self, explained: GangFacts) -> GangFacts:
        """Return an explanation with the names of those who hold what the gang needs, and what is refused to it."""
        account = name_holders(self._admission, explained.account, self._clock.now().timestamp())
        evictions = self._admission.tenure.pending_evictions
        gates = filter(None, (self._gates.get(pod.uid) for pod in explained.members))
        refused = evictions.not_cleared.get(explained.view.uid) or next(gates, "")
        return replace(explained, account=account, refused=refused)

    def survey(self, ref: GroupRef) -> Survey:
        """Return what a picture of the cluster with a gang on it shows: who is where, and what the gang is promised."""
        model, table = self._admission.model, self._admission.model.table
        gang = model.gangs.get(ref)
        reservation = None if gang is None else self._admission.reservations.ledger.of_gang(gang.uid)
        promised = () if reservation is None else tuple((slot.pod, slot.node) for slot in reservation.slots.values())
        nodes = tuple(table.nodes())
        shown = nodes
        if len(nodes) > _MOST_ZONED and gang is not None:
            claims = filter(None, map(table.claim_of, gang.members))
            shown = tuple(filter(None, map(table.find, {claim.node for claim in claims})))
        return Survey(
            levels=model.tree.levels,
            nodes=nodes,
            pods=tuple(model.pods.values()),
            promised=promised,
            held={} if gang is None else self._gpus_held(gang),
            zones={node.name: zones for node in shown if (zones := self._zones(node))},
            beside=tuple(
                (node.name, DrawnHolding(holder, gpus, ()))
                for node in nodes
                for holder, gpus in model.devices.beside(node.name)
            ),
        )

    def demand(self) -> tuple[UnmetDemand, ...]:
        """Return what waiting gangs lack that more nodes would give them, the oldest gang first."""
        waits = self._admission.reservations.waits
        found = unmet_demand(self._admission.model.gangs.of(waits), waits)
        return tuple(sorted(found, key=lambda row: (row.since, row.gang)))

    def queues(self) -> Iterator[QueueReport]:
        """Iterate over how each Queue stands, in order of their names, each as of when it is asked for."""
        return queue_reports(self._admission)

    def _zones(self, node: Node) -> tuple[int, ...]:
        """Return the NUMA zone of each GPU of a node whose kubelet aligns pods with zones, zone by zone; () if not."""
        topology = self._admission.model.table.occupancy.topology(node.name)
        resource, gpus = node.gpus
        zones = () if topology is None else topology.zones
        row = tuple(zone.id for zone in zones for _ in range(zone.allocatable.get(resource, 0)))
        return row if len(row) == gpus else ()

    def _gpus_held(self, gang: Gang) -> dict[str, tuple[int, ...]]:
        occupancy = self._admission.model.table.occupancy
        return {uid: held.gpus for uid in gang.members if (held := occupancy.held(uid)) is not None}
