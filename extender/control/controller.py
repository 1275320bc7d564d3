"""Muster as a running thing: events in, decisions out, bind calls held in between."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from extender.admission.admission import Admission
from extender.admission.answers import BindVerdict, Filtered, Outcome
from extender.admission.effects import Milestone, Nomination
from extender.admission.verbs import Verbs
from extender.clock import Clock
from extender.cluster.gangs import Gang
from extender.control.barrier import Barrier
from extender.control.metrics import Metrics
from extender.control.outbox import SHORTEST_PAUSE_SECONDS, Outbox, Urgency
from extender.control.ports import REQUIRED_KINDS, ApiError, ClusterApi, Kind, PodKey
from extender.control.reports import Reports
from extender.control.views import GangView, view
from extender.control.watches import Watches
from extender.domain.membership import GroupRef
from extender.domain.node import Node
from extender.domain.pod import Pod
from extender.domain.podgroup import PodGroup
from extender.settings import Settings

log = structlog.get_logger("muster.control")


@dataclass(frozen=True, slots=True)
class Bound:
    """How a bind call ended; an empty `error` means bound."""

    outcome: Outcome
    error: str = ""
    decision: str = ""


class NotSyncedError(Exception):
    """The caches are not complete yet, so no question can be answered."""


class Controller:
    """Feed the admission, run its pass when something changed, hold binds, and order the writes.

    Implements `extender.control.ports.Observer`. Everything runs on one event loop; nothing here blocks or locks.
    """

    def __init__(self, settings: Settings, clock: Clock, api: ClusterApi, metrics: Metrics) -> None:
        """Put the parts together; nothing happens before `run`, and no question is answered before all is synced."""
        self._settings = settings
        self._clock = clock
        self._api = api
        self._metrics = metrics
        self._admission = Admission(settings, clock)
        self._verbs = Verbs(self._admission)
        self._barrier = Barrier()
        self._outbox = Outbox(settings, clock, metrics)
        self._reports = Reports(api, self._outbox)
        self._watches = Watches(clock, metrics, settings.stale_after_seconds)
        self._wake = asyncio.Event()
        self._expected: dict[str, asyncio.Future[None]] = {}
        self._to_report: dict[GroupRef, None] = {}
        self._report_timer: asyncio.TimerHandle | None = None
        self._default_priorities: dict[str, int] = {}
        self._synced = asyncio.Event()

    @property
    def ready(self) -> bool:
        """Tell whether calls should be sent here: the ledger is rebuilt, and every watch was heard of lately."""
        return self._admission.rebuilt and not self._watches.stale()

    def unready_because(self) -> list[str]:
        """Return what keeps `ready` false, for people."""
        return self._watches.complaints()

    async def wait_synced(self) -> None:
        """Wait until all caches are complete for the first time."""
        await self._synced.wait()

    async def run(self) -> None:
        """Judge and write until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._outbox.run(), name="outbox")
            group.create_task(self._judge(), name="admission")

    # What the scheduler asks.

    async def filter(self, pod: Pod, names: list[str]) -> Filtered:
        """Answer filter; raise NotSyncedError before the first sync."""
        self._require_sync()
        if pod.group is not None and pod.uid not in self._admission.model.pods:
            await self._observed(pod.uid)
        answer = self._verbs.filter(pod, names)
        self._settle()
        return answer

    def prioritize(self, pod: Pod, names: list[str]) -> list[int]:
        """Answer prioritize with a score of 0 to 10 per name; raise NotSyncedError before the first sync."""
        self._require_sync()
        return self._verbs.prioritize(pod, names)

    def preempt(self, pod: Pod, victims: Mapping[str, Sequence[str]]) -> list[str]:
        """Answer preempt with the candidate nodes that remain; raise NotSyncedError before the first sync."""
        self._require_sync()
        return self._verbs.preempt(pod, victims)

    async def bind(self, pod: PodKey, node: str) -> Bound:
        """Answer bind: hold the call until the gang may start, then write the Binding."""
        self._require_sync()
        arrival = self._verbs.arrive(pod.uid, node)
        self._settle()
        if arrival.verdict is not BindVerdict.REFUSE:
            self._outbox.forget(Urgency.NOMINATION, f"nomination/{pod.uid}")  # it has served its purpose
        match arrival.verdict:
            case BindVerdict.ALREADY:
                return Bound(Outcome.BOUND, decision=arrival.decision)
            case BindVerdict.REFUSE:
                return Bound(Outcome.REFUSED, arrival.message)
            case BindVerdict.HOLD:
                refusal = await self._hold(pod)
                if refusal:
                    return Bound(Outcome.REFUSED, refusal, arrival.decision)
        return await self._write_binding(pod, node, arrival.decision)

    # What the watches tell.

    def pod_seen(self, pod: Pod) -> None:
        """Take in a pod."""
        self._admission.pod_seen(pod)
        expected = self._expected.pop(pod.uid, None)
        if expected is not None and not expected.done():
            expected.set_result(None)
        self._settle()

    def pod_gone(self, uid: str) -> None:
        """Forget a pod."""
        self._admission.pod_gone(uid)
        self._outbox.forget(Urgency.NOMINATION, f"nomination/{uid}")
        self._settle()

    def node_seen(self, node: Node) -> None:
        """Take in a node."""
        if node.problem is not None:
            log.warning("node is not usable", node=node.name, problem=str(node.problem))
        self._admission.node_seen(node)
        self._settle()

    def node_gone(self, name: str) -> None:
        """Forget a node."""
        self._admission.node_gone(name)
        self._settle()

    def group_seen(self, group: PodGroup) -> None:
        """Take in a PodGroup."""
        self._admission.group_seen(group)
        self._settle()

    def group_gone(self, ref: GroupRef, uid: str) -> None:
        """Forget a PodGroup."""
        self._admission.group_gone(ref, uid)
        self._settle()

    def default_priority(self) -> int:
        """Return the highest value among global default PriorityClasses, 0 without one."""
        return max(self._default_priorities.values(), default=0)

    def priority_class_seen(self, name: str, value: int, *, global_default: bool) -> None:
        """Take in a PriorityClass; only a global default changes anything, and only for pods seen later."""
        if global_default:
            self._default_priorities[name] = value
        else:
            self._default_priorities.pop(name, None)

    def priority_class_gone(self, name: str) -> None:
        """Forget a PriorityClass."""
        self._default_priorities.pop(name, None)

    def synced(self, kind: Kind) -> None:
        """Learn that a kind's first list is complete; with the last one, rebuild the ledger."""
        self._watches.synced(kind)
        if not self._admission.rebuilt and self._watches.complete(REQUIRED_KINDS):
            self._admission.rebuild()
            self._synced.set()
            for gang in self._admission.model.gangs:
                self._to_report[gang.ref] = None
            log.info("synced", gangs=len(self._admission.model.gangs), nodes=len(self._admission.model.table))
            self._settle()

    def heard(self, kind: Kind) -> None:
        """Learn that a watch is alive."""
        self._watches.heard(kind)

    def skipped(self, kind: Kind) -> None:
        """Learn that an object could not be decoded."""
        self._metrics.undecodable.labels(kind).inc()

    def watch_restarted(self, kind: Kind, cause: str) -> None:
        """Learn that a watch had to start again."""
        self._watches.restarted(kind, cause)

    # What people ask.

    def gangs(self) -> list[GangView]:
        """Return how every gang stands, those of other schedulers included."""
        return [self._view(gang) for gang in self._admission.model.gangs]

    def scrape(self) -> None:
        """Set the gauges that are read off the state."""
        metrics = self._metrics
        for gauge in (metrics.gangs, metrics.gangs_waiting, metrics.reserved):
            gauge.clear()
        for seen in self.gangs():
            if seen.managed:
                metrics.gangs.labels(seen.phase).inc()
                if seen.wait is not None:
                    metrics.gangs_waiting.labels(seen.wait.reason).inc()
        ledger = self._admission.reservations.ledger
        promised = [slot for reservation in ledger for slot in reservation.slots.values()]
        for slot in (*promised, *ledger.singles()):
            for resource, value in slot.pod.shape.requests:
                metrics.reserved.labels(resource).inc(value)
        metrics.binds_held.set(len(self._barrier))
        metrics.vetoes.set(len(self._admission.vetoes))
        metrics.write_queue.set(len(self._outbox))
        metrics.ready.set(self.ready)
        self._watches.scrape()

    # How it goes on.

    async def _judge(self) -> None:
        """Run the pass whenever something asks for it, and the clockwork when it is due."""
        while True:
            due = self._admission.next_tick() if self._admission.rebuilt else None
            pause = None if due is None else max(due - self._clock.monotonic(), SHORTEST_PAUSE_SECONDS)
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                pass
            else:
                await asyncio.sleep(self._settings.debounce_seconds)
            self._wake.clear()
            self._admission.tick()
            began = self._clock.monotonic()
            if self._admission.decide():
                self._metrics.pass_seconds.observe(self._clock.monotonic() - began)
            self._settle()

    def _settle(self) -> None:
        """Carry out what the admission has asked for since last time."""
        effects = self._admission.take_effects()
        for uid in effects.released:
            self._barrier.release(uid)
        for uid, why in effects.refused.items():
            self._barrier.refuse(uid, why)
        for nomination in effects.nominations.values():
            self._nominate(nomination)
        for step in effects.milestones:
            self._log_milestone(step)
        for seconds in effects.plan_seconds:
            self._metrics.plan_seconds.observe(seconds)
        self._metrics.reservations_expired.inc(effects.expired)
        for note in effects.notes:
            gang = self._admission.model.gangs.get(note.about) if isinstance(note.about, GroupRef) else None
            self._reports.note(note, gang)
            about = note.about.key if isinstance(note.about, Pod) else str(note.about)
            log.info("note", reason=note.reason, message=note.message, about=about)
        if effects.changed:
            self._report_later(effects.changed)
        if self._admission.pending or effects.nominations or effects.refused:
            self._wake.set()  # there is something to judge, or a deadline has moved

    def _nominate(self, nomination: Nomination) -> None:
        pod = nomination.pod
        key = PodKey(pod.namespace, pod.name, pod.uid)
        if nomination.again:
            self._metrics.renominations.inc()
        call = partial(self._write_nomination, key, nomination.node, again=nomination.again)
        self._outbox.put(Urgency.NOMINATION, f"nomination/{pod.uid}", pod.key, call)

    async def _write_nomination(self, pod: PodKey, node: str, *, again: bool) -> None:
        if again:
            await self._api.nominate(pod, "")
        await self._api.nominate(pod, node)

    async def _hold(self, pod: PodKey) -> str:
        """Hold a bind call at the barrier; return why it failed, or "" when the Binding may be written."""
        seconds = self._settings.bind_hold_seconds
        try:
            return await self._barrier.wait(pod.uid, seconds)
        except TimeoutError:
            if not self._barrier.holds(pod.uid):
                self._verbs.leave(pod.uid)
            return f"gang waits: held {seconds:g} s for the other members, trying again"

    async def _write_binding(self, pod: PodKey, node: str, decision: str) -> Bound:
        """Write the Binding, retrying while kube-scheduler is still waiting for the answer."""
        give_up = self._clock.monotonic() + self._settings.http_timeout_seconds - self._settings.bind_hold_seconds
        pause = 0.05
        while True:
            try:
                await self._api.bind(pod, node)
            except ApiError as error:
                again = max(error.retry_after or 0.0, pause)
                if error.transient and self._clock.monotonic() + again < give_up:
                    self._metrics.writes.labels("binding", "retried").inc()
                    await asyncio.sleep(again)
                    pause *= 2
                    continue
                self._metrics.writes.labels("binding", "failed").inc()
                log.warning("binding failed", pod=str(pod), node=node, decision=decision, error=str(error))
                self._verbs.binding_failed(pod.uid, f"binding failed: {error}", final=not error.transient)
                self._settle()
                return Bound(Outcome.ERROR, f"binding {pod} to {node}: {error}", decision)
            self._metrics.writes.labels("binding", "ok").inc()
            log.debug("bound", pod=str(pod), node=node, decision=decision)
            return Bound(Outcome.BOUND, decision=decision)

    async def _observed(self, uid: str) -> None:
        """Wait a moment for the watch to deliver a pod that kube-scheduler knows already."""
        if self._settings.observe_wait_seconds == 0 or self._watches.stale():
            return
        future = self._expected.setdefault(uid, asyncio.get_running_loop().create_future())
        try:
            async with asyncio.timeout(self._settings.observe_wait_seconds):
                await asyncio.shield(future)
        except TimeoutError:
            self._expected.pop(uid, None)

    def _report_later(self, changed: dict[GroupRef, None]) -> None:
        """Collect changes for a moment: a gang whose pods are being created changes with each of them."""
        self._to_report |= changed
        if self._report_timer is None and self._admission.rebuilt:
            delay = self._settings.report_delay_seconds
            self._report_timer = asyncio.get_running_loop().call_later(delay, self._report)

    def _report(self) -> None:
        self._report_timer = None
        changed, self._to_report = self._to_report, {}
        for ref in changed:
            gang = self._admission.model.gangs.get(ref)
            if gang is None:
                self._reports.forget(ref)
                continue
            seen = self._view(gang)
            if seen.managed:
                self._reports.report(gang, seen)

    def _log_milestone(self, step: Milestone) -> None:
        """Log one line per decision about a gang, under the name that its filter and bind calls carry."""
        words: dict[str, object] = {"gang": str(step.gang), "decision": step.decision, "members": step.members}
        if step.what == "gang started":
            self._metrics.gang_wait_seconds.observe(step.waited)
            words["waited_seconds"] = round(step.waited, 3)
        if step.why:
            words["why"] = step.why
        log.info(step.what, **words)

    def _view(self, gang: Gang) -> GangView:
        model, reservations = self._admission.model, self._admission.reservations
        reservation = reservations.ledger.of_gang(gang.uid)
        managed = any(model.manages(pod) for pod in gang.members.values())
        return view(
            gang,
            0 if reservation is None else len(reservation.slots),
            reservations.waits.get(gang.uid),
            managed=managed,
        )

    def _require_sync(self) -> None:
        if not self._admission.rebuilt:
            raise NotSyncedError("; ".join(self._watches.complaints()))
