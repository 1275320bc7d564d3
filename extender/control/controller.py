"""Muster as a running thing: events in, decisions out, bind calls held in between."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence

import structlog

from extender.admission.admission import Admission
from extender.admission.answers import BindVerdict, Filtered, Outcome
from extender.admission.defragment import Defragmentation
from extender.admission.effects import Effects, Milestone, Step
from extender.clock import Clock
from extender.cluster.gangs import Gang
from extender.cluster.occupancy import Held
from extender.control.arrivals import Arrivals
from extender.control.binding import Binder, Bound
from extender.control.changedgangs import ChangedGangs
from extender.control.decisionlog import DecisionLog
from extender.control.evictions import Evictions, Gates
from extender.control.expectation import Expectation
from extender.control.exposition import count, expose, expose_lost_time, expose_queues
from extender.control.fence import Fence
from extender.control.health import Condition, DegradedError, Health, Mode
from extender.control.inspection import Inspection
from extender.control.leadership import Leadership, OnlyReplica, leads
from extender.control.metrics import Metrics
from extender.control.nominations import Nominations
from extender.control.observing import Observing, Reactions
from extender.control.outbox import SHORTEST_PAUSE_SECONDS, Outbox
from extender.control.ports import ClusterApi, PodKey
from extender.control.queuereports import QueueReports
from extender.control.reporting import Reporting
from extender.control.reports import Reports
from extender.control.views import GangView
from extender.control.waste import LostTime, follow
from extender.control.watches import Watches
from extender.control.window import WriteWindow
from extender.domain.membership import GroupRef
from extender.domain.pod import Pod
from extender.domain.reason import Reason, Wait
from extender.placement.placement import Placement
from extender.recording.journal import Recording
from extender.recording.recorder import Recorder
from extender.settings import Settings

log = structlog.get_logger("muster.control")

#: How long filter waits for the news that its kube-scheduler has got the Lease (seconds). Without leadership there is
#: nothing else to be done, and an error would cost the pod a pause of a second.
_LEASE_NEWS_SECONDS = 1.0


class Controller:
    """Feed the admission, run its pass when something changed, hold binds, and order the writes.

    Everything runs on one event loop; nothing here blocks or locks.

    Attributes:
        observer: whom the watches tell.
        inspection: what people are told from.
        decisions: what has been decided lately.
    """

    def __init__(
        self, settings: Settings, clock: Clock, api: ClusterApi, metrics: Metrics, leadership: Leadership | None = None
    ) -> None:
        """Put the parts together; nothing happens before `run`, and no question is answered before all is synced.

        `leadership` says whether this process may decide and write; without it, it always may.
        """
        self._settings = settings
        self._clock = clock
        self._leadership = leadership or OnlyReplica()
        self._window = WriteWindow(settings.write_concurrency)
        self._api = Fence(api, self._leadership, clock, self._window)
        self._metrics = metrics
        self._recorder = Recorder(settings, clock)
        self._admission = self._recorder.admission  # to be read: what changes it goes through the recorder
        self._binder = Binder(settings, clock, self._api, metrics, self._recorder)
        self._outbox = Outbox(settings, clock, metrics, self._window)
        self._nominations = Nominations(self._api, self._outbox, metrics, self._admission.model.table)
        self._evictions = Evictions(self._api, self._outbox, clock, metrics, self._eviction_refused)
        self._gates = Gates(self._api, self._outbox)
        self._lost = LostTime(clock.monotonic())
        self._reporting = Reporting(self._admission, Reports(self._api, self._outbox), settings.report_delay_seconds)
        self.inspection = Inspection(self._admission, self._reporting.view)
        self.decisions = DecisionLog(clock)
        delay = settings.report_delay_seconds
        self._queue_reports = QueueReports(self._api, self._outbox, clock, self.inspection.queues, delay)
        self._watches = Watches(clock, metrics, settings.stale_after_seconds)
        self._health = Health(self._watches, self._leadership, self._outbox, clock, metrics)
        self._wake = asyncio.Event()
        self._expected: Expectation[str] = Expectation()
        self._arrivals = Arrivals(settings.arrival_wait_seconds, clock)
        self._taken_up = asyncio.Event()
        self.observer = Observing(
            self._recorder,
            self._watches,
            self._leadership,
            metrics,
            self._expected,
            self._arrivals,
            self._nominations,
            Reactions(self._settle, self._follow_health, self._end_lapsed_term),
        )

    @property
    def admission(self) -> Admission:
        """Return what decides here: to be read, and never changed, by whoever shows it to people."""
        return self._admission

    @property
    def recorder(self) -> Recorder:
        """Return what notes all that is told and asked here: to be read."""
        return self._recorder

    @property
    def recording(self) -> Recording:
        """Return how the recording stands."""
        return self._recorder.recording

    @property
    def changed_gangs(self) -> ChangedGangs:
        """Return which gangs changed since whoever shows them last looked."""
        return self._reporting.changed_gangs

    def view(self, gang: Gang) -> GangView:
        """Return how one gang stands."""
        return self._reporting.view(gang)

    @property
    def ready(self) -> bool:
        """Tell whether calls can be answered here, or could as soon as this replica leads."""
        return self._health.ready

    @property
    def leading(self) -> bool:
        """Tell whether this replica decides and writes."""
        return self._admission.rebuilt

    def unready_because(self) -> list[str]:
        """Return what keeps `ready` false, for people."""
        return self._watches.complaints()

    async def wait_listed(self) -> None:
        """Wait until all caches are complete, and one of them has been listed since the last wait."""
        await self.observer.listed.wait()
        self.observer.listed.clear()

    async def run(self) -> None:
        """Judge and write until cancelled; then let go whoever is held."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._outbox.run(), name="outbox")
                group.create_task(self._judge(), name="admission")
        finally:
            self._binder.barrier.refuse_all("Muster is stopping")

    # What the scheduler asks.

    def known(self, uid: str) -> Pod | None:
        """Return a pod as the watch last delivered it, or None."""
        return self._admission.model.pods.get(uid)

    async def filter(self, pod: Pod, names: list[str]) -> Filtered:
        """Answer filter; raise DegradedError for a pod that nothing can be said about now."""
        if not self._admission.model.manages(pod):
            return Filtered(Outcome.PASSED, names)
        await self._lease_heard_of()
        self._require_health()
        if pod.group is not None:
            await self._news_of(pod)
            await self._arrivals.rest_of(pod.group)
            if len(names) > 1 and self._admission.reservations.ledger.of_pod(pod.uid) is not None:
                await self._nominations.get_ahead(self._settings.arrival_wait_seconds)
        answer = self._recorder.filter(pod, names)
        if answer.outcome is Outcome.REFUSED:
            self._turned_away(pod.uid)
        self._settle()
        return answer

    def prioritize(self, pod: Pod, names: list[str]) -> list[int]:
        """Answer prioritize with a score of 0 to 10 per name; raise DegradedError when nothing can be said now."""
        if self._admission.model.manages(pod):
            self._require_health()
        return self._recorder.prioritize(pod, names)

    async def preempt(self, pod: Pod, victims: Mapping[str, Sequence[str]]) -> list[str]:
        """Answer preempt with the candidate nodes that remain; raise DegradedError when nothing can be said now."""
        self._require_health()
        if self._admission.model.manages(pod):
            await self._news_of(pod)
        return self._recorder.preempt(pod, victims)

    async def bind(self, pod: PodKey, node: str) -> Bound:
        """Answer bind: hold the call until the gang may start, then write the Binding; raise DegradedError."""
        self._require_health()
        if mistake := self._recorder.mistaken(pod.uid, pod.namespace, pod.name):
            return Bound(Outcome.REFUSED, mistake)
        arrival = self._recorder.arrive(pod.uid, node)
        self._settle()
        if arrival.verdict is not BindVerdict.REFUSE:
            self._nominations.forget(pod.uid)  # it has served its purpose
        bound = await self._binder.finish(pod, node, arrival)
        if bound.outcome is not Outcome.BOUND:
            self._turned_away(pod.uid)
        self._settle()
        return bound

    # What people ask.

    def defragment(self, ref: GroupRef, *, apply: bool) -> Defragmentation:
        """Return which moves of others would make a gang fit, and with `apply` have them made.

        Raises KeyError if there is no such gang, DegradedError where nothing is decided here now.
        """
        self._require_health()
        found = self._recorder.defragment(ref, apply=apply)
        self._settle()
        return found

    def gangs(self) -> list[GangView]:
        """Return how every gang stands, those of other schedulers included."""
        return list(self._reporting.views())

    def placement_of(self, ref: GroupRef) -> Placement | None:
        """Return where a gang is, or is promised to be, and what is predicted of that; None while it holds no node."""
        return self._admission.placement_of(ref)

    def held(self, uid: str) -> Held | None:
        """Return which GPUs and NUMA zones a pod holds, or is promised; None where nothing is known of it."""
        return self._admission.model.table.occupancy.held(uid)

    def scrape_in_steps(self) -> Iterator[None]:
        """Set the gauges that are read off the state, in steps between which others may have the event loop."""
        yield from expose(self._metrics, self._admission, self._reporting.views())
        expose_queues(self._metrics, self.inspection.queues())
        expose_lost_time(self._metrics, self._lost, self._clock.monotonic())
        self._metrics.binds_held.set(len(self._binder.barrier))
        self._metrics.write_queue.set(len(self._outbox))
        self._metrics.write_window.set(self._window.places)
        self._metrics.recording.set(self.recording.on)
        self._health.scrape()
        self._watches.scrape()

    # How it goes on.

    async def _judge(self) -> None:
        """Run the pass whenever something asks for it, and the clockwork when it is due.

        A pass takes longer the more gangs wait. As long as it took, others have the loop before the next one.
        """
        rest = 0.0
        while True:
            pause = max(self._next_turn() - self._clock.monotonic(), SHORTEST_PAUSE_SECONDS)
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
            self._recorder.tick()
            began = self._clock.monotonic()
            if self._recorder.decide():
                rest = self._clock.monotonic() - began
                self._metrics.pass_seconds.observe(rest)
                self._queues_changed()
            self._settle()

    def _next_turn(self) -> float:
        """Return when time alone asks for something (seconds, monotonic), infinity for never."""
        due = self._admission.next_tick() if self._health.condition().decides else None
        return min(self._health.changes_at(), math.inf if due is None else due)

    def _follow_health(self) -> Condition:
        """Take up work, or leave it to others, as the state of this moment demands; return that state."""
        before, condition = self._health.noticed, self._health.notice()
        if condition.mode is not before:
            self._wake.set()  # what time alone asks for next has changed
        self._end_lapsed_term()
        if condition.decides and not self._admission.rebuilt:
            self._take_up()
        if condition.decides:
            backlogged = condition.mode is Mode.BACKLOGGED
            self._recorder.hold_off(Wait(Reason.WRITES_BACKLOGGED) if backlogged else None)
            self._settle()
        return condition

    def _end_lapsed_term(self) -> None:
        if self._admission.rebuilt and not leads(self._leadership, self._clock):
            self._stand_down()

    def _take_up(self) -> None:
        """Begin to decide, from what stands in the cluster."""
        self._metrics.leadership_changes.labels("began").inc()
        self._recorder.rebuild()
        self._reporting.changed(gang.ref for gang in self._admission.model.gangs)
        self._queues_changed()
        self._taken_up.set()
        log.info("leading", gangs=len(self._admission.model.gangs))

    def _stand_down(self) -> None:
        """Leave deciding and writing to whoever leads now."""
        self._metrics.leadership_changes.labels("ceased").inc()
        self._binder.barrier.refuse_all(f"{Reason.NOT_LEADING}: {Wait(Reason.NOT_LEADING).message}")
        self._outbox.clear()
        self._evictions.stand_down()
        self._reporting.stand_down()
        self._queue_reports.stand_down()
        self._recorder.stand_down()
        self._lost.clear(self._clock.monotonic())
        self._taken_up.clear()
        log.warning("standing by: the Lease is not held any more")

    def _settle(self) -> None:
        """Carry out what the admission has asked for since last time."""
        effects = self._recorder.take_effects()
        for uid in effects.released:
            self._binder.barrier.release(uid)
        for uid, why in effects.refused.items():
            self._binder.barrier.refuse(uid, why)
        for nomination in effects.nominations.values():
            self._nominations.put(nomination)
        for uid in effects.spared:
            self._evictions.spare(uid)
        for eviction in effects.evictions.values():
            self._evictions.put(eviction)
        for gate in effects.ungates.values():
            self._gates.open(gate)
        for step in effects.milestones:
            self._log_milestone(step)
        self.decisions.take_in(effects)
        count(self._metrics, effects)
        follow(self._lost, self._admission, effects.changed, self._clock.monotonic())
        self._tell(effects)
        if self._admission.pending or effects.nominations or effects.refused:
            self._wake.set()  # there is something to judge, or a deadline has moved

    def _tell(self, effects: Effects) -> None:
        """Have people told what is new."""
        for note in effects.notes:
            self._reporting.note(note)
            about = note.about.key if isinstance(note.about, Pod) else str(note.about)
            log.info("note", reason=note.reason, message=note.message, about=about)
        self._reporting.changed(effects.changed)
        if effects.changed:
            self._queues_changed()

    def _queues_changed(self) -> None:
        if self._admission.sharing.queues:
            self._queue_reports.changed()

    def _eviction_refused(self, uid: str, why: str) -> None:
        self._recorder.eviction_refused(uid, why)
        self._wake.set()

    def _turned_away(self, uid: str) -> None:
        if self.known(uid) is not None:  # of others nobody would ever say that they are gone
            self._nominations.turned_away(uid)

    async def _news_of(self, pod: Pod) -> None:
        """Wait a moment for the watch to deliver a pod that kube-scheduler knows already."""
        if pod.uid not in self._admission.model.pods:
            await self._expected.wait(pod.uid, self._settings.observe_wait_seconds)

    async def _lease_heard_of(self) -> None:
        """Wait a moment for the watch to deliver the Lease that the asking kube-scheduler has just got."""
        if not self._admission.rebuilt and self._health.condition().mode is Mode.STANDBY:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LEASE_NEWS_SECONDS):
                    await self._taken_up.wait()

    def _log_milestone(self, step: Milestone) -> None:
        """Log one line per decision about a gang, under the name that its filter and bind calls carry."""
        words: dict[str, object] = {"gang": str(step.gang), "decision": step.decision, "members": step.members}
        if step.what is Step.STARTED:
            self._metrics.gang_wait_seconds.observe(step.waited)
            words["waited_seconds"] = round(step.waited, 3)
        if step.why:
            words["why"] = step.why
        log.info(step.what.value, **words)

    def _require_health(self) -> None:
        wait = self._health.condition().wait
        if wait is not None:
            raise DegradedError(wait)
        if not self._admission.rebuilt:
            self._follow_health()
