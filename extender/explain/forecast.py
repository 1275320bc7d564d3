"""When every gang that waits will start: what runs ends when expected, and those that wait are tried as in a pass.

On copies, in a thread, moment by moment of the calendar: what has ended by then gives back nodes and quota, and the
line is gone through as a pass does, with the room that is kept for the first that do not fit, and those first that have
got very old by then. Those that have notice leave when that is over. Not foreseen is who comes or is given notice
meanwhile, and who grows beyond its minimum.

Example. Queue of 16 GPUs on two nodes of 8; `a` has node 1 until 100 s, `b` node 2 until 300 s, and three gangs wait:

    moment   ended   free   first (16, 50 s)    second (8, 150 s)       third (8, does not say)
    100      a       8      no: kept for it     no: ends at 250 + 60 s  no
    300      b       16     starts at 300       no                      no
    350      first   16                         starts at 350           starts at 350
"""

from __future__ import annotations

import datetime as dt
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, NamedTuple

from extender.admission.admission import Admission
from extender.admission.cycle import Cycle
from extender.admission.headearmarks import HeadEarmarks
from extender.clock import ManualClock
from extender.cluster.gangs import Gang
from extender.explain.foresight import Foresight, InLine, Occupant, Prospect
from extender.explain.runtimes import RuntimeSource
from extender.judge import HOPELESS, NoFit, judge
from extender.ledger.rejections import Vetoes
from extender.objects.meta import read_timestamp, time_text
from extender.objects.podgroup import GroupRef
from extender.objects.reason import Reason, Wait
from extender.placement.backfill.outlook import Calendar, Release
from extender.placement.capacityview import PodSet
from extender.placement.plan import Plan
from extender.queues.charges import Charge
from extender.queues.sharing import Sharing

#: Seconds from a decision until kubelets have taken the pods on, from when on runtimes count.
TURNOVER_SECONDS: Final = 5.0
#: Ends that lie so close together are one moment, the last of them: seconds, and a share of the time until then. So
#: there are some 600 moments at most until the horizon.
_CLOSE_SECONDS: Final = 1.0
_CLOSE_SHARE: Final = 0.02
#: The order of ends decides who starts, and with that when all behind do: of so many judgements the ends are told apart
#: to the second. That is all of a small cluster, and the first moments of a large one.
APART_JUDGEMENTS: Final = 512
#: Further ahead nothing is foreseen (seconds).
_HORIZON: Final = 90 * 86_400.0


class Forecast:
    """Play what is to come, in steps; what is known so far is there after each.

    Attributes:
        prospects: by UID, when each gang will start that waits; complete after `conclude`.
        reached: the moment that has been played last (epoch seconds).
    """

    def __init__(self, scene: Foresight, apart: int = APART_JUDGEMENTS) -> None:
        """Begin with things as they are; what is gathered in `scene` is used up.

        After `apart` judgements ends are taken together that lie close to each other for how far ahead they are.
        """
        admission = scene.admission
        self._scene = scene
        self._apart = apart
        self._table = scene.table
        self._sharing: Sharing = admission.sharing.apart()
        self._model = copy(admission.model)
        self._model.table = scene.table
        self._opens = admission.tenure.spares.opens
        self._clock = ManualClock(dt.datetime.fromtimestamp(scene.now, dt.UTC))
        self._ends: list[tuple[float, int, Occupant]] = []
        self._serial = count()
        self._declared: dict[int, Release] = {}
        self._learned = False
        self._overdue: set[str] = set()
        tenure = admission.tenure
        foresight = admission.settings.backfill != "none"
        ending = self._declared  # whom room is kept for goes by what has declared when it ends
        self._heads = HeadEarmarks(
            self._model, self._clock, foresight=foresight, most=tenure.heads.most, releases=lambda _: ending.values()
        )
        self._firm = dict(scene.cycle.firm)
        self._freed: dict[str, str] = {}  # node -> whose end has freed something of it at this moment
        self._last = ""
        self._why: dict[tuple[object, ...], Wait] = {}
        self._lines: dict[tuple[object, ...], deque[InLine]] = {}
        for each in sorted(scene.waiting, key=lambda one: one.position):
            self._lines.setdefault(each.kind, deque()).append(each)
        ageing = admission.settings.ageing_seconds
        patient = (each for each in scene.waiting if each.position.not_aged)
        told = ((read_timestamp(each.position.created), each) for each in patient)
        aged = ((created + ageing, next(self._serial), each) for created, each in told if created is not None)
        self._ageing = sorted(aged, reverse=True)
        self.prospects = scene.prospects
        self.reached = scene.now

    def steps(self) -> Iterator[None]:
        """Play until nothing is to come that is known of; each step is the judgement of one gang.

        Complexity: O(moments x kinds of gangs x judgement + gangs that start x plan).
        """
        now = self._scene.now
        for each in self._scene.running:
            self._await_end(each, now)
        yield
        yield from self._pass()
        while self._ends and self._lines and self._ends[0][0] < now + _HORIZON:
            share = 0.0 if self._apart > 0 else _CLOSE_SHARE
            self._let_end(self._ends[0][0] + max(_CLOSE_SECONDS, share * (self._ends[0][0] - now)))
            yield
            yield from self._pass()

    def conclude(self, before: Mapping[str, Prospect] | None = None) -> None:
        """Say of those that have not started why it is not known when they will.

        What was said `before` of starts further ahead than was played stands.
        """
        more = bool(self._ends)
        for kind, line in self._lines.items():
            wait = self._why.get(kind)
            if wait is not None and wait.reason in HOPELESS:
                why = f"no end of another makes room: {wait.reason.value}"
            elif more:
                why = f"later than {time_text(self.reached)}: it was not worked out further"
            elif self._scene.endless.count:
                why = f"not known how long these run: {self._scene.endless}"
            else:
                why = f"no end of another makes room{'' if wait is None else f': {wait.reason.value}'}"
            later = Prospect(None, unknown=why, after=self.reached if why.startswith("later") else None)
            for each in line:
                known = before.get(each.uid, later) if before and later.after is not None else later
                self.prospects[each.uid] = known if (known.at or 0.0) > self.reached else later

    # What ends.

    def _await_end(self, running: Occupant, now: float) -> None:
        """Remember when something will end, or that this is not known."""
        began = now + TURNOVER_SECONDS if running.began is None else running.began
        if running.runtime is None:
            self._scene.endless.add(running.name)
            return
        release = Release(began + running.runtime.seconds, tuple(running.uids), running.name)
        at = release.at
        if at <= now:
            overdue = Calendar((release,), now).moments
            if not overdue:  # for too long
                self._scene.endless.add(running.name)
                return
            self._overdue.add(running.name)
            at = overdue[0].at
        if running.runtime.source is RuntimeSource.DECLARED:
            self._declared[id(running)] = release
        heappush(self._ends, (at, next(self._serial), running))

    def _let_end(self, until: float) -> None:
        """Let all end that does so by `until`; it is the moment of the last of them then."""
        self._freed = {}
        at = self.reached
        while self._ends and self._ends[0][0] <= until:
            at, _, running = heappop(self._ends)
            self._declared.pop(id(running), None)
            self._learned |= running.runtime is not None and running.runtime.source is RuntimeSource.LEARNED
            self._last = running.name
            for uid in running.uids:
                claim = self._table.claim_of(uid)
                if claim is not None:
                    self._freed[claim.node] = running.name
                    self._table.release(uid)
            queues = dict[str, None]()
            for charge, times in running.charges:
                self._sharing.charges.book(charge, -times)
                queues[charge.queue] = None
            for queue in queues:
                self._sharing.tree.count(queue, -1)
        self._clock.advance(max(at - self.reached, 0.0))
        self.reached = at

    # Who starts.

    def _pass(self) -> Iterator[None]:
        """Go through the line as a pass does."""
        self._age()
        kinds = list(self._lines)
        parts = (self._model, self._sharing, Vetoes(1.0, self._clock.monotonic), self._scene.views)
        cycle = Cycle(*parts, self.reached, opens=self._opens)
        for first in [line[0] for line in self._lines.values() if line[0].uid in self._scene.cleared]:
            uid = first.uid
            if uid in self._firm and self._scene.cleared[uid] <= self.reached:  # all is free now, for the copy of it
                self._firm[uid] = replace(self._firm[uid], gang=first.pod_set(self._table, cycle).gang)
        cycle.firm, cycle.spares = self._firm, self._scene.cycle.spares
        held, is_last = set[str](), False
        while kinds:
            line, later = self._in_turn(kinds), list[tuple[object, ...]]()
            while line:
                _, _, kind = heappop(line)
                first = self._lines[kind][0]
                pod_set = first.pod_set(self._table, cycle)
                urgent = not (first.position.not_partial and first.position.not_aged)
                waits_for_lenders = not is_last and bool(first.queue) and not urgent
                if waits_for_lenders and (first.queue in held or cycle.borrows(pod_set, first.queue)):
                    held.add(first.queue)
                    later.append(kind)
                    continue
                if self._starts(first, pod_set, cycle):
                    self._lines[kind].popleft()
                    if self._lines[kind]:
                        line.append(((), next(self._serial), kind))
                    else:
                        del self._lines[kind]
                    line = self._in_turn([each for _, _, each in line])
                self._apart -= 1
                yield
            if is_last:
                break
            kinds, is_last = later, True
        self._heads.settle(cycle.heads)

    def _age(self) -> None:
        """Let those go first that have waited for very long by now."""
        kinds = set[tuple[object, ...]]()
        while self._ageing and self._ageing[-1][0] <= self.reached:
            each = self._ageing.pop()[2]
            each.position = each.position._replace(not_aged=False)
            kinds.add(each.kind)
        for kind in kinds & self._lines.keys():
            self._lines[kind] = deque(sorted(self._lines[kind], key=lambda one: one.position))

    def _in_turn(self, kinds: Iterable[tuple[object, ...]]) -> list[tuple[tuple[object, ...], int, tuple[object, ...]]]:
        """Return a heap of kinds of gangs, by the first of each."""
        turns, line = dict[str, tuple[object, ...]](), list[tuple[tuple[object, ...], int, tuple[object, ...]]]()
        for kind in kinds:
            first = self._lines[kind][0]
            if not (first.position.not_partial and first.position.not_aged):
                turn: tuple[object, ...] = (0, (), first.position)
            else:
                if first.queue not in turns:
                    turns[first.queue] = (1, self._sharing.turn(first.queue))
                turn = (*turns[first.queue], first.position)
            line.append((turn, next(self._serial), kind))
        heapify(line)
        return line

    def _starts(self, waiting: InLine, pod_set: PodSet, cycle: Cycle) -> bool:
        """Judge a gang; let it start if it fits, or else stand in the way of others as it would."""
        case = cycle.case(pod_set, waiting.queue, cycle.verdict_key(waiting.queue))
        found = judge(case)
        if isinstance(found, NoFit):
            self._why[waiting.kind] = found.wait
            if found.nodes and len(cycle.heads) < self._heads.most and waiting.uid not in cycle.firm:
                head = self._heads.head(waiting.position, case, case.view(found.nodes[0]), cycle)
                cycle.heads += () if head is None else (head,)
            if self._sharing.is_strict(waiting.queue):
                cycle.ahead.setdefault(waiting.queue, (waiting.position, str(waiting.ref)))
            if not waiting.position.not_aged and found.wait.reason is Reason.QUOTA_EXCEEDED:
                cycle.frugal.setdefault(self._sharing.root(waiting.queue), str(waiting.ref))
            return False
        self._start(waiting, pod_set, found)
        return True

    def _start(self, waiting: InLine, pod_set: PodSet, found: Plan) -> None:
        gang, table, sharing = pod_set.gang, self._table, self._sharing
        self._firm.pop(waiting.uid, None)
        for uid, node in found.nodes.items():
            table.claim(uid, node, gang.members[uid].shape)
        table.occupancy.refresh()
        charges = list[tuple[Charge, int]]()
        if waiting.queue:
            names = found.nodes.values()
            flavor = self._flavor(waiting.queue, pod_set.amounts, next(iter(names), ""))
            charge = Charge(waiting.ref, waiting.queue, flavor, pod_set.amounts, preemptible=gang.preemptible)
            sharing.charges.book(charge, 1)
            charges.append((charge, 1))
            sharing.tree.count(waiting.queue, 1)
        because = next((self._freed[node] for node in found.nodes.values() if node in self._freed), self._last)
        source = RuntimeSource.LEARNED if self._learned else RuntimeSource.DECLARED
        because = because if self.reached > self._scene.now else ""
        self.prospects[waiting.uid] = Prospect(self.reached, because, because in self._overdue, source)
        name, uids = str(waiting.ref), tuple(found.nodes)
        self._await_end(Occupant(name, uids, charges, None, waiting.runtime), self.reached)

    def _flavor(self, queue: str, amounts: Mapping[str, int], node_name: str) -> str:
        """Return the flavor that a gang on a node is charged to."""
        node = self._table.find(node_name)
        labels = {} if node is None else node.labels
        for option in self._sharing.options(queue, amounts):
            if all(labels.get(key) == value for key, value in option.selector):
                return option.flavor
        return ""


class ForecastNews(NamedTuple):
    """What is told now, what each gang was told first (epoch seconds), and the gangs that are told something else."""

    told: Mapping[str, Prospect]
    first: dict[str, float]
    changed: list[GroupRef]


class Prospects:
    """What gangs that wait have been told of their start, and how true it came.

    Attributes:
        told: by UID, the prospect of each gang that waited when it was last looked ahead.
    """

    def __init__(self, admission: Admission) -> None:
        """Nothing has been told yet."""
        self._admission = admission
        self.told: Mapping[str, Prospect] = {}
        self._first: dict[str, float] = {}

    def of(self, gang: Gang) -> Prospect | None:
        """Return when a gang is expected to start, None if it does not wait, or that was not looked at yet.

        For the first that wait room is kept, if what they wait for has declared its end: then that holds.
        """
        keep = next((keep for keep in self._admission.heads if keep.gang is gang), None)
        if keep is not None and keep.start is not None:
            return Prospect(keep.start.at, keep.start.because, keep.start.overdue, RuntimeSource.PROMISED)
        return self.told.get(gang.uid) if gang.uid in self._admission.reservations.waits else None

    def compare(self, told: Mapping[str, Prospect], refs: Mapping[str, GroupRef]) -> ForecastNews:
        """Return what a new forecast says otherwise than the last, of the gangs called `refs` by UID; in a thread."""
        first = {uid: at for uid, at in dict(self._first).items() if uid in told}
        for uid, each in told.items():
            if each.at is not None:
                first.setdefault(uid, each.at)
        return ForecastNews(told, first, [ref for uid, ref in refs.items() if self.told.get(uid) != told.get(uid)])

    def tell(self, news: ForecastNews) -> None:
        """Take in a new forecast."""
        self.told, self._first = news.told, news.first

    def started(self, uid: str, at: float) -> float | None:
        """Take in that a gang has started; return by how much that was later than it was told first (seconds)."""
        said = self._first.pop(uid, None)
        return None if said is None else at - said
