"""The pass: walk the waiting gangs in the order of their queues, and give each a reservation or a reason.

Only gangs whose verdict may have changed are evaluated again; `Changes` is the rule for that.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from functools import partial
from typing import ParamSpec, TypeAlias, TypeVar

from extender.admission.attempts import Attempts
from extender.admission.cycle import GLANCE, Cycle, Entry, Pace
from extender.admission.extras import Extras
from extender.admission.headearmarks import HeadEarmarks
from extender.admission.intake import Intake
from extender.admission.noderequests import NodeRequests
from extender.admission.standing import StandingVerdicts
from extender.admission.verdicts import Changes, VerdictKey, wait_of
from extender.clock import Clock
from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel
from extender.eviction.losses import Losses
from extender.eviction.pending import PendingEvictions
from extender.eviction.preemptions import Preemptions
from extender.eviction.repairs import Repairs
from extender.eviction.runtimes import Runtimes
from extender.eviction.spares import Spares
from extender.judge import Case
from extender.ledger.earmark import Earmark
from extender.ledger.effects import CollectedEffects
from extender.ledger.rejections import Vetoes
from extender.ledger.reservations import Reservations
from extender.objects.reason import Wait
from extender.placement.candidates import Eligibility
from extender.placement.capacityview import CapacityViews, PodSet
from extender.placement.plan import plan
from extender.queues.ageing import Ageing
from extender.queues.order import Queues, Walk
from extender.queues.sharing import Sharing

_P = ParamSpec("_P")
_R = TypeVar("_R")

_Steps: TypeAlias = Generator[None, None, _R]


class AdmissionPass:
    """Judge the waiting gangs that a change can affect; every other verdict stands, by the rule of `Changes`.

    Gangs whose verdict can only have become worse, as nothing was given back that could help them, come again
    after all others, and only as long as nothing else is to be done: what they are told may lag for a while.

    Order: gangs that hold nodes already, those that have waited for very long, then the queues by what they have of
    their share, and in each priority, creation, UID. The first that does not fit keeps what it waits for; those behind
    it may use the rest. A gang that may have others evicted for it keeps the place that is being cleared. Members
    beyond minMember are placed after all gangs' minimums.
    Complexity: O(changed gangs + gangs that want nodes); if capacity changed, besides it
    O(their shapes x nodes + demands of several shapes x plan + placed gangs x plan).

    A pass that takes long runs in steps, between which other events are taken in. Each verdict is given on the state of
    its own step. A gang that changes between two steps is left to the next pass, and so is a newcomer.

    Attributes:
        changes: what the next pass looks at again.
        queues: who waits in which queue.
        cycle: the state of the last complete cycle, an empty one before the first.
        is_telling: whether all has been decided in the pass that is under way: who waits has still to be told why.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the pass is where the parts meet
        self,
        model: ClusterModel,
        sharing: Sharing,
        reservations: Reservations,
        pending_evictions: PendingEvictions,
        preemptions: Preemptions,
        attempts: Attempts,
        vetoes: Vetoes,
        repairs: Repairs,
        runtimes: Runtimes,
        losses: Losses,
        spares: Spares,
        heads: HeadEarmarks,
        asking: NodeRequests,
        ageing: Ageing,
        clock: Clock,
        effects: CollectedEffects,
    ) -> None:
        """Decide about the gangs of `model`, minding `sharing` and `vetoes`, and act on the others."""
        self._model = model
        self._sharing = sharing
        self._reservations = reservations
        self._extras = Extras(model, sharing, reservations, preemptions)
        self._pending_evictions = pending_evictions
        self._preemptions = preemptions
        self._attempts = attempts
        self._vetoes = vetoes
        self._repairs = repairs
        self._runtimes = runtimes
        self._losses = losses
        self._spares = spares
        self._heads = heads
        self._asking = asking
        self._ageing = ageing
        self._clock = clock
        self._effects = effects
        self.queues: Queues[Entry] = Queues()
        self._intake = Intake(model, sharing, reservations, pending_evictions, vetoes, ageing, self.queues, clock)
        apart = self._intake.is_apart
        self._standing = StandingVerdicts(model.table, self.queues, sharing, reservations, heads, spares, apart)
        self.changes = Changes(model, sharing, reservations, vetoes, ageing, clock)
        nothing = CapacityViews(model.table, model.tree, Eligibility(model.table))
        self.cycle = Cycle(model, sharing, vetoes, nothing, now=0.0)
        self.is_telling = False
        self._steps: _Steps[None] | None = None
        self._views: Callable[[], CapacityViews] = lambda: nothing
        self._obstacle: Wait | None = None
        self._pace = Pace(clock)
        self._is_behind = False  # whether gangs are still to be judged again that have no place for certain

    def forget(self) -> None:
        """Forget all verdicts: the next pass judges every gang, and one that is under way ends here."""
        self._steps = None
        self.queues.clear()
        self.changes.everything()

    def run(self, views: Callable[[], CapacityViews], obstacle: Wait | None = None) -> bool:
        """Begin a pass over the gangs that a change concerns, or go on with it; return whether it is complete.

        `views` returns the nodes as they are. With an `obstacle` no gang is placed: that is then the reason of every
        gang that could have been.
        """
        self._views, self._obstacle = views, obstacle
        self._pace.begin()
        steps = self._steps or self._pass()
        self._steps = None  # should it fail, the next one begins afresh
        for _ in steps:
            self._steps = steps
            return False
        return True

    def break_off(self) -> None:
        """Do without the rest of the pass that is under way."""
        self._steps = None

    def _go_on(self, cycle: Cycle) -> None:
        """Take in what has changed between two steps."""
        cycle.views, cycle.obstacle, cycle.firm = self._views(), self._obstacle, self._attempts.firm()
        cycle.changed |= self._model.gangs.changed

    def _pass(self) -> _Steps[None]:
        """Run a pass, in steps that end wherever this yields."""
        # 1. Bring up to date what time has changed, which devices are held, and what is charged to queues.
        self.is_telling, self._is_behind = False, False
        while self._reservations.nominate():  # should a pass have failed before it had nominated all
            yield
        views = self._views()
        self.changes.pass_time()
        self._model.table.occupancy.refresh()
        self._sharing.charges.refresh()
        self._sharing.remember()
        # 2. Take back slots that no longer hold; go on with what is being evicted and repaired.
        self._reservations.drop_invalid(self.changes.take_nodes(), views.admitted, self._vetoes)
        self._go_on_evicting()
        # 3. Let each gang that has changed stand in its queue, or wait for something of its own.
        for gang in self.changes.take_gangs():
            self._take_in(gang)
            self._pace.done += 1
            if self._pace.done >= GLANCE and self._pace.is_over():
                yield
        # 4. Judge them in turn: what each cannot start without, and what is kept for the first that do not fit.
        now, planner = self._clock.now().timestamp(), self._timed(plan)
        parts = (self._model, self._sharing, self._vetoes, self._views())
        cycle = Cycle(*parts, now, self._obstacle, planner, self._spares.opens)
        cycle.firm, cycle.spares = self._attempts.firm(), self._kept_as_spares()
        self._sharing.charges.refresh()  # without what has just been taken back
        yield from self._replace_lost(cycle)
        extras = yield from self._place_cores(cycle)
        # 5. Place members beyond minMember in what is left.
        for growth in self._extras.place(extras, cycle) if extras and cycle.obstacle is None else ():
            if growth is not None:
                self._attempts.make_room_for_more(growth, cycle)
            if self._pace.is_over():
                yield
                self._go_on(cycle)
                if cycle.obstacle is not None:
                    break
        if cycle.obstacle is not None:
            self._extras.hold(extras, cycle, cycle.obstacle)
        self._settle(cycle)
        # 6. Hand out devices before others go, whose devices the placed members would be taken to have.
        self._model.table.occupancy.refresh()
        # 7. Tell those that wait for the same as one that was judged; whatever changes goes before that.
        if not cycle.again:
            yield from self._tell(cycle)
        cycle.again |= self._is_behind

    def _tell(self, cycle: Cycle) -> _Steps[None]:
        """Tell gangs of the verdict on their kind: newcomers first, then the others if it is another one."""
        self.is_telling = True
        for first in self._standing.passed_by:
            untold = filter(None, map(self.queues.get, list(first.shared.untold)))
            yield from self._tell_some(first, untold, cycle)
        for first in self._standing.passed_by:
            shared = first.shared
            if shared.told != shared.wait:
                yield from self._tell_some(first, self.queues.line(first.queue, first.kind), cycle)
            shared.told = shared.wait
        for _ in self._standing.park():
            self._pace.done += 1
            if self._pace.done >= GLANCE and self._pace.is_over():
                yield

    def _tell_some(self, first: Entry, entries: Iterable[Entry], cycle: Cycle) -> _Steps[None]:
        """Tell those of some gangs of the verdict on their kind that stand behind the first that it is true of."""
        shared = first.shared
        for entry in entries:
            if entry.core is not None and entry.position >= first.position and entry.gang.ref not in cycle.changed:
                shared.untold.pop(entry.gang.ref, None)
                self._reservations.wait(entry.gang, wait_of(shared, entry.core))
                if entry.judged_on is not None:  # what was found out about it alone is no longer what it waits for
                    entry.judged_on, entry.head = shared.verdict_on, None
            self._pace.done += 1
            if self._pace.done >= GLANCE and self._pace.is_over():
                yield
                cycle.changed |= self._model.gangs.changed

    def _settle(self, cycle: Cycle) -> None:
        """Remember what a complete cycle has decided."""
        if cycle.obstacle is None and (cycle.heads or self._heads.keeps):
            self._heads.settle(cycle.heads)
        self.cycle = cycle
        if self._asking.is_on:
            self._asking.settle()

    def _go_on_evicting(self) -> None:
        """Go on with what is being evicted and repaired, and with gangs that may only run for so long."""
        self._preemptions.begin_pass()
        if self._repairs.wounds:
            self._repairs.begin_pass()
        if self._runtimes.runs:
            self._runtimes.begin_pass()

    @property
    def firm(self) -> Mapping[str, Earmark]:
        """Return what is kept for one gang alone since the last cycle, by the UID of that gang."""
        return self.cycle.firm

    def _take_in(self, gang: Gang) -> None:
        """Take in a gang that has changed or is gone."""
        if (entry := self.queues.get(gang.ref)) is not None:
            entry.shared.untold.pop(gang.ref, None)
            self.queues.remove(gang.ref)
        if self._model.gangs.get(gang.ref) is gang:
            self._sharing.follow(gang)
            if self._pending_evictions.moved.places:
                self._pending_evictions.moved.follow(gang)
            if gang.census().bound or gang.uid in self._repairs.wounds:
                self._repairs.follow(gang)
            self._follow_runtime(gang)
            if gang.expected_duration is not None or self._heads.timed:
                self._heads.follow(gang)
            self._intake.consider(gang)
            return
        self._sharing.forget(gang.ref)
        self._ageing.forget(gang.uid)
        self._repairs.forget(gang.uid)
        self._attempts.forget(gang)

    def _follow_runtime(self, gang: Gang) -> None:
        """Take in how a gang stands that may only run for so long."""
        if gang.max_runtime is not None or self._sharing.timing or gang.uid in self._runtimes.runs:
            self._runtimes.follow(gang)

    def _kept_as_spares(self) -> tuple[Earmark, ...]:
        """Return what Queues keep for repairs; mostly none does."""
        return self._spares.keeps() if self._sharing.sparing or self._spares.counts else ()

    def _replace_lost(self, cycle: Cycle) -> _Steps[None]:
        """Have members on lost nodes replaced: before any gang is placed, as those hold nodes that cannot run."""

        def case_of(pod_set: PodSet, queue: str) -> Case:
            case = cycle.case(pod_set, queue, cycle.verdict_key(queue)._replace(ahead=""))
            opens = partial(self._spares.opens, gang=case.gang, queue=queue, repairs=True)
            case.earmarks = [each for each in case.earmarks if not (each.spares and opens(each.spares))]
            return case

        losses = self._losses
        concern = losses.nodes or losses.open or losses.told or losses.leaving  # mostly no node is lost
        for _ in losses.repair(case_of) if concern and cycle.obstacle is None else ():
            cycle.firm, cycle.spares = self._attempts.firm(), self._kept_as_spares()
            self._sharing.charges.refresh()
            if self._pace.is_over():
                yield
                self._go_on(cycle)

    def _place_cores(self, cycle: Cycle) -> _Steps[list[Entry]]:
        """Give each gang its reservation or its reason; return those that have members beyond minMember to place.

        Those whose verdict stands cost a comparison, since there may be a thousand.
        """
        extras: list[Entry] = []
        keys: dict[str, VerdictKey] = {}
        standing, failed = self._standing, self._reservations.failures.namespaces
        walk = standing.begin()
        began = self._model.table.generation
        for entry in walk:
            if entry.core is None:
                extras.append(entry)
                continue
            key = keys.get(entry.queue) or keys.setdefault(entry.queue, cycle.verdict_key(entry.queue))
            if standing.goes_by(entry, key):
                continue
            if standing.stands(entry, entry.core, key):
                self._keep_for(entry, keys, cycle)
                continue
            odd = cycle.changed or failed
            left_out = odd and self._is_left_out(entry, walk, cycle)
            if left_out or (entry.queue and self._goes_later(entry, entry.core, key, walk, cycle)):
                continue
            generation = self._model.table.generation
            if self._attempts.visit(entry, entry.core, key, cycle):
                extras.append(entry)
            standing.stands_for_all(entry, key)
            is_over = self._pace.is_over()
            if is_over:
                yield
                self._go_on(cycle)
            moved = cycle.has_moved() or is_over
            if generation != self._model.table.generation:
                yield from self._placed(cycle)
                walk.turns_changed()
            if moved:
                keys.clear()
                standing.keys_changed(cycle, entry.position)
        placed = began != self._model.table.generation
        yield from self._judge_again(extras, cycle, placed=placed)
        return extras

    def _keep_for(self, entry: Entry, keys: dict[str, VerdictKey], cycle: Cycle) -> None:
        """Let what is kept for a gang stand until it is evaluated; the keys of those behind it are others then."""
        if entry.head is not None:
            cycle.heads += (entry.head,)
            keys.clear()
            self._standing.keys_changed(cycle, entry.position)

    def _judge_again(self, extras: list[Entry], cycle: Cycle, *, placed: bool) -> _Steps[None]:
        """Judge gangs that have no place for certain, for what they are told and who may be evicted for them.

        Where others have been `placed`, these are told first. Those whose verdict is oldest come first, for a step at
        least, then until there is anything else to do.
        """
        kept = cycle.firm, cycle.spares, cycle.obstacle
        standing = self._standing
        for number, (before, entry, key_then) in enumerate(standing.to_judge_again()):
            if placed and not number:
                yield
                self._go_on(cycle)
            if kept != (cycle.firm, cycle.spares, cycle.obstacle):
                self._is_behind = True
                return
            if entry.core is None or cycle.is_outdated(entry):
                continue
            if standing.room_may_help(entry, entry.core, before):
                self._is_behind = True  # room was given back between two steps: they have it in their order
                continue
            generation, head = self._model.table.generation, entry.head
            if self._visit_again(entry, entry.core, key_then, cycle):
                extras.append(entry)
            if generation != self._model.table.generation:
                yield from self._placed(cycle)
            if self._pace.is_over():
                yield
                self._go_on(cycle)
                self._is_behind |= bool(cycle.changed) or standing.freed.any_since(generation)
            if self._is_behind or entry.head is not head:  # what is kept was taken for granted until now
                self._is_behind = True
                return

    def _visit_again(self, entry: Entry, core: PodSet, then: VerdictKey, cycle: Cycle) -> bool:
        """Judge a gang that was passed over; return whether it has been placed and has members beyond that."""
        head, key = entry.head, then._replace(generation=self._model.table.generation)
        kept = tuple(each for each in cycle.heads if each is not head)
        cycle.heads = tuple(each for each in kept if each in then.earmarks)  # those of whom came before it
        self.queues.unpark_line(entry)
        more = self._attempts.visit(entry, core, key, cycle)
        if entry.head is None:
            cycle.heads = kept
        if not self._standing.stands_for_all(entry, key) and entry.kind is not None and head is None:
            cycle.again |= len(self.queues.line(entry.queue, entry.kind)) > 1  # those behind it were gone by
        return more

    def _is_left_out(self, entry: Entry, walk: Walk[Entry], cycle: Cycle) -> bool:
        """Tell whether a gang is not evaluated now, and let it come later where it is to be.

        It has changed since the pass began, or its namespace has had reservations in vain: then it comes after all
        others, unless it holds nodes.
        """
        if cycle.is_outdated(entry):
            return True
        failures, shared = self._reservations.failures, entry.shared
        failed = entry.position.not_partial and failures.is_failing(entry.gang.ref.namespace)
        shared.is_deferred = failed and not walk.is_last
        if shared.is_deferred:
            walk.defer_alone()
        return shared.is_deferred

    def _goes_later(self, entry: Entry, core: PodSet, key: VerdictKey, walk: Walk[Entry], cycle: Cycle) -> bool:
        """Let a gang that would borrow come after all that would not, and those behind it in its queue too.

        Otherwise what it borrows could be reclaimed from it at once. Return whether it comes later.
        """
        if walk.is_last or entry.is_urgent:
            return False
        if entry.judged_on != key:
            entry.shared.borrows = cycle.borrows(core, entry.queue)
        if entry.shared.borrows:
            walk.defer()
        return entry.shared.borrows

    def _placed(self, cycle: Cycle) -> _Steps[None]:
        """Nominate the members of a gang that has been placed, in steps; it may then be another queue's turn.

        All of them have their slots already: one that is asked about meanwhile is answered.
        """
        while self._reservations.nominate():
            yield
            self._go_on(cycle)
        self._sharing.charges.refresh()

    def _timed(self, planner: Callable[_P, _R]) -> Callable[_P, _R]:
        """Return a planner that notes for the metrics how long it took."""

        def timed(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            began = self._clock.monotonic()
            found = planner(*args, **kwargs)
            self._effects.plan_seconds.append(self._clock.monotonic() - began)
            return found

        return timed
