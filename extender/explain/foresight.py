"""What a forecast rests on: copies of what holds nodes and of what waits, gathered on the event loop in steps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np

from extender.admission.admission import Admission
from extender.admission.cycle import Cycle, Entry
from extender.admission.headearmarks import declared
from extender.cluster.gangs import Gang
from extender.cluster.whatif import Replica
from extender.explain.copies import Copies
from extender.explain.inquiry import copying
from extender.explain.runtimes import LearnedRuntimes, Runtime, RuntimeSource
from extender.judge import joined
from extender.objects.podgroup import POD, GroupRef
from extender.objects.topology import TopologyRequest
from extender.placement.capacityview import CapacityViews, PodSet, PodSetRequest, settled_on
from extender.placement.earmark import ENDING_SECONDS
from extender.queues.charges import Charge
from extender.queues.order import Position

#: What is looked at in one step while a forecast is prepared on the event loop: some 0.3 ms.
_PER_STEP: Final = 64
#: Gangs that are named of those that do not say how long they run.
_MOST_NAMED: Final = 3


class Prospect(NamedTuple):
    """When a gang is expected to start.

    `at` is in epoch seconds, None if that is not known: `unknown` says why, and it is `after` a time if no more than
    that was worked out (epoch seconds, else None). `because` names whose end it waits for, "" if for none, and
    `overdue` says that this should have ended. `source` is what it goes by.
    """

    at: float | None
    because: str = ""
    overdue: bool = False
    source: RuntimeSource = RuntimeSource.DECLARED
    unknown: str = ""
    after: float | None = None


@dataclass(slots=True, eq=False)
class Occupant:
    """What holds nodes: whose it is, its pods and charges, since when (epoch seconds, None: not yet), and how long."""

    name: str
    uids: Sequence[str]
    charges: Sequence[tuple[Charge, int]]
    began: float | None
    runtime: Runtime | None


@dataclass(slots=True, eq=False)
class InLine:
    """A gang in line; `kind` is the same of all that fit where and when the others do."""

    ref: GroupRef
    uid: str
    queue: str
    position: Position
    kind: tuple[object, ...]
    request: PodSetRequest
    copy: Callable[[], Gang]
    runtime: Runtime | None
    gated: Sequence[str]
    _pod_set: PodSet | None = field(default=None, init=False)

    def pod_set(self, table: Replica, cycle: Cycle) -> PodSet:
        """Return what it asks for, on a copy of the gang."""
        if self._pod_set is None:
            gang = self.copy()
            pods = [gang.members[uid] for uid in self.gated] or None
            self._pod_set = PodSet(gang, self.request, _pods=pods)
        gang = self._pod_set.gang
        if gang.unplaced_count == len(gang.members) or self.gated:
            return self._pod_set
        self._pod_set.settled = settled_on(gang, table)
        return joined(self._pod_set, table, cycle.views.tree)


@dataclass(slots=True)
class Endless:
    """What runs without a known end: how many gangs and pods of others, and the names of the first."""

    count: int = 0
    names: list[str] = field(default_factory=list)

    def add(self, name: str) -> None:
        """Add one."""
        self.count += 1
        if len(self.names) < _MOST_NAMED:
            self.names.append(name)

    def __str__(self) -> str:
        """Return the names, and how many more there are."""
        more = self.count - len(self.names)
        return ", ".join(self.names) + (f" and {more} more" if more else "")


@dataclass(slots=True)
class Foresight:
    """All that a forecast rests on: values and copies, for one thread; with what is known of some gangs already.

    `refs` are the gangs that wait, by UID; `cleared` is when the places are that are being cleared (epoch seconds), and
    `leaving` in how many seconds the pods are gone that are evicted for that, both by UID.
    """

    now: float
    admission: Admission
    views: CapacityViews
    table: Replica
    cycle: Cycle
    runtimes: LearnedRuntimes
    waiting: list[InLine] = field(default_factory=list)
    running: list[Occupant] = field(default_factory=list)
    endless: Endless = field(default_factory=Endless)
    prospects: dict[str, Prospect] = field(default_factory=dict)
    refs: dict[str, GroupRef] = field(default_factory=dict)
    cleared: dict[str, float] = field(default_factory=dict)
    leaving: dict[str, float] = field(default_factory=dict)


def foresee(
    admission: Admission, runtimes: LearnedRuntimes, now: float, instead: Mapping[str, TopologyRequest] | None = None
) -> Generator[None, None, Foresight]:
    """Gather on the event loop what a forecast at `now` (epoch seconds) rests on, in steps; nothing is changed.

    Some gangs, by UID, ask for another topology `instead`.
    What changes between two steps is seen as it is then; the next forecast has it right.
    Complexity: O(nodes) copied in bulk, O(gangs + pods) in steps.
    """
    nodes = Copies().nodes(admission)
    scene = Foresight(now, admission, nodes.views, nodes.table, admission.tenure.decider.cycle, runtimes)
    yield
    awaiting, evictions = admission.reservations.awaiting, admission.tenure.pending_evictions
    for uid, seconds, pods in evictions.going():
        scene.cleared[uid] = now + (seconds + ENDING_SECONDS)
        scene.leaving |= dict.fromkeys(pods, seconds + ENDING_SECONDS)
    for number, entry in enumerate(admission.tenure.decider.queues.entries, start=1):
        if entry.gang.uid in scene.cycle.firm and entry.gang.uid not in scene.cleared:
            scene.prospects[entry.gang.uid] = Prospect(now + ENDING_SECONDS)  # its place is kept
        elif entry.core is not None and entry.gang.uid not in awaiting:
            asked = (instead or {}).get(entry.gang.uid)
            demand = entry.core.demand if asked is None else replace(entry.core.demand, topology=asked)
            scene.waiting.append(_in_line(entry, entry.core, demand, scene))
        if number % _PER_STEP == 0:
            yield
    yield from _gather_running(scene, awaiting)
    return scene


def _gather_running(scene: Foresight, awaiting: Collection[str]) -> Iterator[None]:
    """Gather what holds nodes, if any gang waits for them, and say of those that stand in no line why they do not.

    Arrays hold what is gone through: into a list of 50,000 the garbage collector would look for 10 ms.
    """
    admission = scene.admission
    queued = {each.uid for each in scene.waiting}
    pods = 0
    for gang in np.fromiter(admission.model.gangs, object):
        wait = admission.reservations.waits.get(gang.uid)
        elsewhere = gang.uid in queued or gang.uid in awaiting or gang.uid in scene.prospects
        if wait is not None:
            scene.refs[gang.uid] = gang.ref
        if wait is not None and not elsewhere:
            scene.prospects[gang.uid] = Prospect(None, unknown=f"it waits for no room yet: {wait.reason.value}")
        if scene.waiting and gang.unplaced_count < len(gang.members) and admission.model.concerns(gang):
            scene.running += _running(gang, scene)
        pods += len(gang.members) + 1
        if pods > _PER_STEP:
            pods = 0
            yield
    others = np.fromiter(admission.model.pods.values() if scene.waiting else (), object)
    for number, pod in enumerate(others, start=1):
        if pod.group.api == POD and pod.bound and not admission.model.manages(pod):
            if (seconds := declared(pod)) is None:
                scene.endless.add(pod.key)
            else:
                runtime = Runtime(seconds, RuntimeSource.DECLARED)
                scene.running.append(Occupant(pod.key, (pod.uid,), (), pod.started_at, runtime))
        if number % (8 * _PER_STEP) == 0:
            yield


def _in_line(entry: Entry, core: PodSet, demand: PodSetRequest, scene: Foresight) -> InLine:
    admission = scene.admission
    gang, reservation = entry.gang, admission.reservations.ledger.of_gang(entry.gang.uid)
    counted = gang.group is not None and gang.group.min_resources
    alone = gang.unplaced_count < len(gang.members) or counted or gang.uid in scene.cleared
    kind = (entry.queue, demand, gang.expected_duration, gang.preemptible, gang.uid if alone else "")
    return InLine(
        ref=gang.ref,
        uid=gang.uid,
        queue=entry.queue,
        position=entry.position,
        kind=(entry.gated, entry.is_urgent, *kind),
        request=demand,
        copy=copying(gang, () if reservation is None else frozenset(reservation.slots)),
        runtime=scene.runtimes.expect(gang, admission.sharing),
        gated=[pod.uid for pod in core.pods] if entry.gated else (),
    )


def _running(gang: Gang, scene: Foresight) -> Iterator[Occupant]:
    """Yield what a gang holds, and apart from that what is leaving already, or evicted soon."""
    now, sharing = scene.now, scene.admission.sharing
    table, charges = scene.admission.model.table, sharing.charges
    staying, leaving = list[str](), dict[float, list[str]]()
    for uid, pod in gang.members.items():
        if table.claim_of(uid) is None:
            continue
        if pod.deleting or uid in scene.leaving:
            seconds = ENDING_SECONDS if pod.deleting else scene.leaving[uid]
            leaving.setdefault(seconds, []).append(uid)
        else:
            staying.append(uid)
    began = gang.started_at
    for seconds, uids in leaving.items():
        soon = Runtime(seconds, RuntimeSource.DECLARED)
        yield Occupant(str(gang.ref), uids, _charged(uids, charges.of), now, soon)
    if staying:
        runtime = scene.runtimes.expect(gang, sharing, 0.0 if began is None else now - began)
        if runtime is None:
            scene.endless.add(str(gang.ref))
        else:
            yield Occupant(str(gang.ref), staying, _charged(staying, charges.of), began, runtime)


def _charged(uids: Iterable[str], charge_of: Callable[[str], Charge | None]) -> list[tuple[Charge, int]]:
    """Return what is charged for pods, those that are charged the same together."""
    found: dict[int, tuple[Charge, int]] = {}
    for charge in filter(None, map(charge_of, uids)):
        found[id(charge)] = charge, found.get(id(charge), (charge, 0))[1] + 1
    return list(found.values())
