"""Muster as a running thing: events in, decisions out, bind calls held in between."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec

import structlog

from extender.admission import events
from extender.admission.defragment import Defragmentation
from extender.admission.engine import Engine
from extender.admission.events import A, BindVerdict, Event, Filtered, Outcome
from extender.clock import Clock
from extender.control.binding import Awaited, Binder, Bound, GangAssembly
from extender.control.dispatch import Dispatcher
from extender.control.exposition import QueueGauges, expose, expose_lost_time, gpus_by_state
from extender.control.forecaster import Forecaster
from extender.control.health import DegradedError, Health, HealthCondition, Mode
from extender.control.historykeeper import HistoryKeeper
from extender.control.leadership import Leadership, OnlyReplica, leads
from extender.control.metrics import ADMISSION_PASS, Metrics
from extender.control.outbox import SHORTEST_PAUSE_SECONDS, Fence, Outbox, WriteWindow
from extender.control.ports import REWOUND, ClusterApi, LeaseGone, LeaseSeen, News, PodKey
from extender.control.watched import PROVISIONING, REQUIRED_KINDS, Watches
from extender.history.accountant import Accountant
from extender.journal.archive import Snapshot, collect_snapshot
from extender.journal.journal import Journal
from extender.journal.outcomes import Raised
from extender.ledger.effects import Effects, GangStep
from extender.objects.pod import Pod
from extender.objects.podgroup import GroupRef
from extender.objects.reason import Reason, Wait
from extender.settings import Settings, missing_classes

if TYPE_CHECKING:
    from extender.history.store import HistoryStore  # SQLAlchemy takes memory that those without a store do without

P = ParamSpec("P")

log = structlog.get_logger("muster.control")

#: How long filter waits for the news that its kube-scheduler has got the Lease (seconds). Without leadership there is
#: nothing else to be done, and an error would cost the pod a pause of a second.
_LEASE_NEWS_SECONDS = 1.0
_MEGABYTE = 1 << 20


class Controller:
    """Let the engine take in events, run its pass when something changed, hold binds, and order the writes.

    Everything runs on one event loop; nothing here blocks or locks. Implements `extender.control.ports.EventSink`.

    Attributes:
        clock: the time.
        admission: what decisions stand on, and what has been decided: to be read, events alone change it.
        journal: what is recorded.
        health: whether questions can be answered.
        inspection: what people read.
        decisions: what has been decided lately.
        changed_gangs: which gangs changed since the reader that shows them last looked.
        accountant: the accounts of gangs and of GPU-seconds.
        history: what writes them to a store, None if there is none.
    """

    def __init__(  # noqa: PLR0913 - what it stands between, two of which few need
        self,
        settings: Settings,
        clock: Clock,
        api: ClusterApi,
        metrics: Metrics,
        leadership: Leadership | None = None,
        *,
        store: HistoryStore | None = None,
        forecasts: bool = False,
    ) -> None:
        """Put the parts together; nothing happens before `run`, and no question is answered before all is synced.

        `leadership` says whether this process may decide and write; without it, it always may. `store` is where the
        history is kept, if anywhere. With `forecasts` a thread looks ahead: not in virtual time, which does not wait.
        """
        self._settings = settings
        self.clock = clock
        self._leadership = leadership or OnlyReplica()
        self._window = WriteWindow(settings.write_concurrency)
        fence = Fence(api, self._leadership, clock, self._window)
        self._metrics = metrics
        self._queue_gauges = QueueGauges(metrics)
        self.journal = Journal(round(settings.recording_megabytes * _MEGABYTE), clock)
        self._engine = Engine(settings, self.journal.clock)
        self.journal.open()
        self.admission = self._engine.admission
        self._binder = Binder(settings, clock, fence, metrics, self._engine.verbs, self._bind_ended)
        self._outbox = Outbox(settings, clock, metrics, self._window)
        self._dispatcher = Dispatcher(
            settings,
            clock,
            metrics,
            fence,
            self._outbox,
            self.admission,
            self._binder.barrier,
            self._eviction_told,
            lambda effects: self._account(self.accountant.follow, effects),
        )
        self._nominations = self._dispatcher.nominations
        self.inspection = self._dispatcher.inspection
        runtimes = self.inspection.runtimes
        self.accountant = Accountant(
            self.admission, clock, settings.history_user_label, recording=store is not None, runtimes=runtimes
        )
        self.decisions = self._dispatcher.decisions
        self.changed_gangs = self._dispatcher.changed_gangs
        self.forecaster = Forecaster(
            self.admission, self.inspection.prospects, runtimes, self.changed_gangs, clock, metrics
        )
        required = (*REQUIRED_KINDS, PROVISIONING.name) if settings.provisioning_class else REQUIRED_KINDS
        self._watches = Watches(clock, metrics, settings.stale_after_seconds, required)
        self.health = Health(self._watches, self._leadership, self._outbox, clock, metrics)
        self.history: HistoryKeeper | None = None
        if store is not None:
            shared, every, retention = store.shared, settings.history_write_seconds, settings.history_retention_days
            self.history = HistoryKeeper(
                self.accountant,
                store,
                clock,
                metrics,
                records=lambda: self.admission.rebuilt if shared else self._watches.complete,
                capacity=self.gpus,
                every=every,
                retention_days=retention,
            )
        self._forecasts = forecasts
        self._healthy_until = -math.inf
        self._wake = asyncio.Event()
        self._expected: Awaited[str] = Awaited()
        self._assembly = GangAssembly(settings.arrival_wait_seconds, clock)
        self._taken_up = asyncio.Event()
        self._stepping = asyncio.Lock()  # for a turn of the event loop
        self._listed = asyncio.Event()
        self._rewound = False  # whether statuses may be gone that were written

    def snapshot(self) -> Callable[[], Snapshot] | None:
        """Collect all that a snapshot holds; return what puts it together, in a thread, None if nothing is recorded."""
        return collect_snapshot(self.journal, self.admission, self._settings, self.clock.now())

    @property
    def leading(self) -> bool:
        """Tell whether this replica decides and writes."""
        return self.admission.rebuilt

    async def wait_listed(self) -> None:
        """Wait until all caches are complete, and one of them has been listed since the last wait."""
        await self._listed.wait()
        self._listed.clear()

    async def run(self) -> None:
        """Decide and write until cancelled; then answer the calls that are held."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._outbox.run(), name="outbox")
                group.create_task(self._decide(), name="admission")
                if self._forecasts:
                    group.create_task(self.forecaster.run(), name="forecast")
                if self.history is not None:
                    group.create_task(self.history.run(), name="history")
        finally:
            self._binder.barrier.refuse_all("Muster is stopping")

    # What the watches tell.

    def tell(self, event: News) -> None:
        match event:
            case events.PodSeen(pod):
                is_new = pod.uid not in self.admission.model.pods
                self._apply(event)
                self._account(self.accountant.pod_seen, pod.uid, new=is_new)
                if self._expected:
                    self._expected.met(pod.uid)
                if is_new and not self._completes(pod.group):
                    self._assembly.joined(pod.group)
            case events.PodGone(uid):
                self._apply(event)
                self._account(self.accountant.pod_gone, uid)
                self._nominations.forget(uid)
            case events.GroupSeen(group):
                self._apply(event)
                self._completes(group.ref)
            case LeaseSeen() | LeaseGone():
                self._lease_changed(event)
            case _:
                self._apply(event)

    def synced(self, kind: str) -> None:
        """Learn that a list of a kind is complete; when there is one of each, take up work."""
        before = self._watches.complete
        self._watches.synced(kind)
        if self._watches.complete:
            self._listed.set()
            if not before:
                model = self.admission.model
                names = [level.name for level in model.levels.levels]
                counts = {"gangs": len(model.gangs), "nodes": len(model.table)}
                log.info("synced", **counts, levels=names, levels_from=model.levels.source)
                for setting, name in missing_classes(self._settings, model.devices.columns.has_class):
                    log.warning("no such DeviceClass", setting=setting, name=name)
            if self._rewound and self.admission.rebuilt:
                self._dispatcher.take_up()
        self._follow_health()

    def heard(self, kind: str) -> None:
        stale = self._watches.stale()
        self._watches.heard(kind)
        if stale:
            self._follow_health()

    def skipped(self, kind: str) -> None:
        self._metrics.undecodable.labels(kind).inc()

    def watch_restarted(self, kind: str, cause: str, detail: str = "") -> None:
        self._watches.restarted(kind, cause, detail)
        if cause == REWOUND:
            self._dispatcher.forget_told()
            self._rewound = True

    # What the scheduler asks.

    def known(self, uid: str) -> Pod | None:
        """Return a pod as the watch last delivered it, or None."""
        return self.admission.model.pods.get(uid)

    async def filter(self, pod: Pod, names: list[str]) -> Filtered:
        """Answer filter; raise DegradedError for a pod that nothing can be said about now.

        A pod with a reservation is answered at once: the rest is for pods that are about to get one.
        """
        entry = self.admission.reservations.ledger.of_pod(pod.uid)
        if entry is None:
            if not self.admission.model.manages(pod):
                return Filtered(Outcome.PASSED, names)
            await self._lease_heard_of()
            self._require_health()
            if self.known(pod.uid) is None:  # the watch is a moment behind kube-scheduler
                await self._expected.wait(pod.uid, self._settings.observe_wait_seconds)
            await self._assembly.rest_of(pod.group)
            entry = self.admission.reservations.ledger.of_pod(pod.uid)
        else:
            self._require_health()
        if entry is not None and len(names) > 1:
            await self._nominations.get_ahead(self._settings.arrival_wait_seconds)
        await self._have_turn(pod.uid)
        effects = self._take_in(events.Filter(pod, names))
        if effects.answer.outcome is Outcome.REFUSED:
            self._rejected(pod.uid)  # before its nomination is ordered, which has to wake it
        self._carry_out(effects)
        return effects.answer

    async def _have_turn(self, uid: str) -> None:
        """Go on with the pass for a pod's gang, if that has changed itself; others have the loop between two steps."""
        pod = self.known(uid)
        if pod is None or pod.group not in self.admission.unjudged:
            return
        for _ in self.admission.steps_to(pod):
            await self._step()

    def prioritize(self, pod: Pod, names: list[str]) -> list[int]:
        """Answer prioritize with a score of 0 to 10 per name; raise DegradedError when nothing can be said now."""
        if self.admission.model.manages(pod):
            self._require_health()
        return self._apply(events.Prioritize(pod, names))

    async def preempt(self, pod: Pod, victims: Mapping[str, Sequence[str]]) -> list[str]:
        """Answer preempt with the candidate nodes that remain; raise DegradedError when nothing can be said now."""
        self._require_health()
        return self._apply(events.Preempt(pod, victims))

    async def bind(self, pod: PodKey, node: str) -> Bound:
        """Answer bind: hold the call until the gang may start, then write the Binding; raise DegradedError."""
        self._require_health()
        if mistake := self._engine.verbs.mistaken(pod.uid, pod.namespace, pod.name):
            return Bound(Outcome.REFUSED, mistake)
        arrival = self._apply(events.Arrive(pod.uid, node))
        if arrival.verdict is not BindVerdict.REFUSE:
            self._nominations.forget(pod.uid)  # it has served its purpose
        bound = await self._binder.finish(pod, node, arrival)
        if bound.outcome is not Outcome.BOUND:
            self._rejected(pod.uid)
        return bound

    # What people ask.

    def defragment(self, ref: GroupRef, *, apply: bool) -> Defragmentation:
        """Return which moves of others would make a gang fit, and with `apply` have them made.

        Raises KeyError if there is no such gang, DegradedError where nothing is decided here now.
        """
        self._require_health()
        return self._apply(events.Defragment(ref, apply=apply))

    def gpus(self) -> int:
        """Return how many GPUs the nodes have, cordoned ones included. Complexity: O(nodes)."""
        return int(gpus_by_state(self.admission.model.table, 0)["allocatable"])

    def scrape_in_steps(self) -> Iterator[None]:
        """Set the gauges that are read off the state, in steps between which others may have the event loop."""
        yield from expose(self._metrics, self.admission, self.inspection.gangs())
        yield from self._queue_gauges.show(self.inspection.queues())
        expose_lost_time(self._metrics, self._dispatcher.lost, self.clock.monotonic())
        yield from self.accountant.settle(self.gpus())
        for queue, namespace, use, grown in self.accountant.totals.grown(self.clock.now().timestamp()):
            if self.leading:  # the other replica follows the cluster, too
                self._metrics.gpu_seconds.labels(queue, namespace, use.name.lower()).inc(grown)
        self._metrics.binds_held.set(len(self._binder.barrier))
        self._metrics.write_queue.set(len(self._outbox))
        self._metrics.write_window.set(self._window.places)
        recording = self.journal.standing()
        self._metrics.recording.set(recording.on)
        self._metrics.recording_bytes.set(recording.size)
        self.health.scrape()
        self._watches.scrape()

    # How it goes on.

    async def _decide(self) -> None:
        """Run the pass whenever something asks for it, and the clockwork when it is due.

        A pass takes longer the more gangs wait. As long as a step of it took, others have the loop before the next one.
        """
        rest = 0.0
        while True:
            pause = max(self._next_turn() - self.clock.monotonic(), SHORTEST_PAUSE_SECONDS)
            try:
                async with asyncio.timeout(None if math.isinf(pause) else pause):
                    await self._wake.wait()
            except TimeoutError:
                pass
            else:
                await asyncio.sleep(max(self._settings.debounce_seconds, rest))
            self._wake.clear()
            rest = 0.0
            if not self._follow_health().decides:
                continue
            self._apply(events.Tick())
            rest = await self._pass()

    async def _pass(self) -> float:
        """Run the pass, step by step, if anything asks for it; return how long its last step took (seconds)."""
        ran, rest = await self._step()
        if not ran and not self.admission.is_busy:
            return 0.0
        spent = rest
        passes = self.admission.passes
        while self.admission.is_busy:
            if self.admission.passes != passes:  # it was broken off for the next
                passes = self.admission.passes
                self._dispatcher.queues_changed()
            await asyncio.sleep(rest)
            if not self._follow_health().decides:
                break
            _, rest = await self._step()
            spent += rest
        self._metrics.pass_seconds.observe(spent)
        self._metrics.recent.observe(ADMISSION_PASS, spent, self.clock.monotonic())
        self._dispatcher.queues_changed()
        return rest

    async def _step(self) -> tuple[bool, float]:
        """Run a step of the pass; return whether there was one, and its seconds. Of all that want one, one has a turn.

        It is the longest thing that is done in a turn of the event loop: two would be noticed.
        """
        await self._stepping.acquire()
        asyncio.get_running_loop().call_soon(self._stepping.release)
        began = self.clock.monotonic()
        ran = self._apply(events.Decide())
        return ran, self.clock.monotonic() - began

    def _next_turn(self) -> float:
        """Return when time alone asks for something (seconds, monotonic), infinity for never."""
        due = self.admission.next_tick() if self.health.condition().decides else None
        return min(self.health.changes_at(), math.inf if due is None else due)

    def _follow_health(self) -> HealthCondition:
        """Take up work, or leave it to others, as the state of this moment demands; return that state."""
        self._healthy_until = -math.inf
        before, condition = self.health.noticed, self.health.notice()
        if condition.mode is not before:
            self._wake.set()  # what time alone asks for next has changed
        self._end_lapsed_tenure()
        if condition.decides and not self.admission.rebuilt:
            self._take_up()
        if condition.decides:
            obstacle = Wait(Reason.WRITES_BACKLOGGED) if condition.mode is Mode.BACKLOGGED else None
            if obstacle != self.admission.obstacle:
                self._apply(events.HoldOff(obstacle))
            self._healthy_until = self.health.changes_at()
        return condition

    def _lease_changed(self, event: LeaseSeen | LeaseGone) -> None:
        """Take in the scheduler's Lease, which may make this replica the one that decides, or end that.

        Another replica may have decided between a Lease that lapsed and this one, however it came back.
        """
        if isinstance(event, LeaseSeen):
            self._end_lapsed_tenure()
            self._leadership.lease_seen(event.lease)
        else:
            self._leadership.lease_gone()
        self._follow_health()

    def _end_lapsed_tenure(self) -> None:
        if self.admission.rebuilt and not leads(self._leadership, self.clock):
            self._stand_down()

    def _take_up(self) -> None:
        """Begin to decide, from what stands in the cluster."""
        self._metrics.leadership_changes.labels("began").inc()
        self._apply(events.Rebuild())
        self._dispatcher.take_up()
        self._taken_up.set()
        log.info("leading", gangs=len(self.admission.model.gangs))

    def _stand_down(self) -> None:
        """Leave deciding and writing to the replica that leads now."""
        self._metrics.leadership_changes.labels("ceased").inc()
        self._dispatcher.stand_down()
        self._apply(events.StandDown())
        self._account(self.accountant.stand_down)
        self._taken_up.clear()
        log.warning("standing by: the Lease is not held any more")

    def _apply(self, event: Event[A]) -> A:
        """Let the engine take in an event, and carry out what it calls for; return the answer."""
        effects = self._take_in(event)
        self._carry_out(effects)
        return effects.answer

    def _take_in(self, event: Event[A]) -> Effects[A]:
        """Let the engine take in an event, and note it."""
        self.journal.begin()
        try:
            effects = self._engine.apply(event)
        except Exception as error:
            self.journal.note(event, Raised.of(error))
            raise
        self.journal.note(event, effects)
        return effects

    def _carry_out(self, effects: Effects[Any]) -> None:
        if not effects.empty:
            self._dispatcher.carry_out(effects)
            for step in effects.milestones:
                if step.what is GangStep.STARTED and (gang := self.admission.model.gangs.get(step.gang)) is not None:
                    self.forecaster.started(gang.uid)
        if self.admission.pending or effects.nominations or effects.refused:
            self._wake.set()  # there is something to decide, or a deadline has moved

    def _account(self, note: Callable[P, None], *arguments: P.args, **options: P.kwargs) -> None:
        """Keep account of what happened. A mistake there is said, and changes nothing else."""
        try:
            note(*arguments, **options)
        except Exception:
            self._metrics.history_dropped.inc()
            log.exception("history: a mistake in Muster")

    def _eviction_told(self, event: events.EvictionNews) -> None:
        self._apply(event)
        if isinstance(event, events.EvictionRefused):
            self._account(self.accountant.stays, event.uid)

    def _bind_ended(self, event: events.Leave | events.BindingFailed) -> None:
        """Take in that a bind call ends without a Binding."""
        self._rejected(event.uid)
        self._apply(event)

    def _completes(self, ref: GroupRef) -> bool:
        """Tell whether a gang has all its members now; filter calls then wait no longer for more of it."""
        gang = self.admission.model.gangs.get(ref)
        complete = gang is None or gang.is_complete
        if complete and ref in self._assembly.incomplete:
            self._assembly.completed(ref)
        return complete

    def _rejected(self, uid: str) -> None:
        if self.known(uid) is not None:  # of others it would never be said that they are gone
            self._nominations.rejected(uid)

    async def _lease_heard_of(self) -> None:
        """Wait a moment for the watch to deliver the Lease that the asking kube-scheduler has just got."""
        if not self.admission.rebuilt and self.health.condition().mode is Mode.STANDBY:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LEASE_NEWS_SECONDS):
                    await self._taken_up.wait()

    def _require_health(self) -> None:
        """Raise DegradedError where nothing can be said now."""
        if self.clock.monotonic() < self._healthy_until:
            return
        wait = self.health.condition().wait
        if wait is not None:
            raise DegradedError(wait)
        if not self.admission.rebuilt:
            self._follow_health()
        self._healthy_until = self.health.changes_at()
