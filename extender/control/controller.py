"""Muster as a running thing: events in, decisions out, bind calls held in between."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence

import structlog

from extender.admission.admission import Admission
from extender.admission.answers import BindVerdict, Filtered, Outcome
from extender.admission.effects import Milestone
from extender.admission.verbs import Verbs
from extender.clock import Clock
from extender.control.arrivals import Arrivals
from extender.control.binding import Binder, Bound
from extender.control.expectation import Expectation
from extender.control.exposition import expose
from extender.control.fence import Fence
from extender.control.health import Condition, DegradedError, Health, Mode
from extender.control.leadership import Leadership, OnlyReplica, leads
from extender.control.metrics import Metrics
from extender.control.nominations import Nominations
from extender.control.outbox import SHORTEST_PAUSE_SECONDS, Outbox
from extender.control.ports import REQUIRED_KINDS, ClusterApi, Kind, PodKey
from extender.control.reporting import Reporting
from extender.control.reports import Reports
from extender.control.views import GangView
from extender.control.watches import Watches
from extender.control.window import WriteWindow
from extender.domain.lease import Lease
from extender.domain.membership import GroupRef
from extender.domain.node import Node
from extender.domain.pod import Pod
from extender.domain.podgroup import PodGroup
from extender.domain.reason import Reason, Wait
from extender.settings import Settings

log = structlog.get_logger("muster.control")

#: How long filter waits for the news that its kube-scheduler has got the Lease (seconds). Without leadership there is
#: nothing else to be done, and an error would cost the pod a pause of a second.
_LEASE_NEWS_SECONDS = 1.0


class Controller:
    """Feed the admission, run its pass when something changed, hold binds, and order the writes.

    Implements `extender.control.ports.Observer`. Everything runs on one event loop; nothing here blocks or locks.
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
        self._admission = Admission(settings, clock)
        self._verbs = Verbs(self._admission)
        self._binder = Binder(settings, clock, self._api, metrics, self._verbs)
        self._outbox = Outbox(settings, clock, metrics, self._window)
        self._nominations = Nominations(self._api, self._outbox, metrics, self._admission.model.table)
        self._reporting = Reporting(self._admission, Reports(self._api, self._outbox), settings.report_delay_seconds)
        self._watches = Watches(clock, metrics, settings.stale_after_seconds)
        self._health = Health(self._watches, self._leadership, self._outbox, clock, metrics)
        self._wake = asyncio.Event()
        self._expected: Expectation[str] = Expectation()
        self._arrivals = Arrivals(settings.arrival_wait_seconds, clock)
        self._default_priorities: dict[str, int] = {}
        self._listed = asyncio.Event()
        self._taken_up = asyncio.Event()

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
        await self._listed.wait()
        self._listed.clear()

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
        answer = self._verbs.filter(pod, names)
        if answer.outcome is Outcome.REFUSED:
            self._turned_away(pod.uid)
        self._settle()
        return answer

    def prioritize(self, pod: Pod, names: list[str]) -> list[int]:
        """Answer prioritize with a score of 0 to 10 per name; raise DegradedError when nothing can be said now."""
        if self._admission.model.manages(pod):
            self._require_health()
        return self._verbs.prioritize(pod, names)

    async def preempt(self, pod: Pod, victims: Mapping[str, Sequence[str]]) -> list[str]:
        """Answer preempt with the candidate nodes that remain; raise DegradedError when nothing can be said now."""
        self._require_health()
        if self._admission.model.manages(pod):
            await self._news_of(pod)
        return self._verbs.preempt(pod, victims)

    async def bind(self, pod: PodKey, node: str) -> Bound:
        """Answer bind: hold the call until the gang may start, then write the Binding; raise DegradedError."""
        self._require_health()
        if mistake := self._verbs.mistaken(pod.uid, pod.namespace, pod.name):
            return Bound(Outcome.REFUSED, mistake)
        arrival = self._verbs.arrive(pod.uid, node)
        self._settle()
        if arrival.verdict is not BindVerdict.REFUSE:
            self._nominations.forget(pod.uid)  # it has served its purpose
        bound = await self._binder.finish(pod, node, arrival)
        if bound.outcome is not Outcome.BOUND:
            self._turned_away(pod.uid)
        self._settle()
        return bound

    # What the watches tell.

    def pod_seen(self, pod: Pod) -> None:
        """Take in a pod."""
        joined = pod.group if self.known(pod.uid) is None else None
        self._admission.pod_seen(pod)
        self._expected.met(pod.uid)
        if joined is not None:
            self._follow_arrival(joined)
        self._settle()

    def pod_gone(self, uid: str) -> None:
        """Forget a pod."""
        self._admission.pod_gone(uid)
        self._nominations.forget(uid)
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
        if self._is_complete(group.ref):
            self._arrivals.completed(group.ref)
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

    def lease_seen(self, lease: Lease) -> None:
        """Take in the scheduler's Lease, which may make this replica the active one, or end that.

        Somebody else may have led between a Lease that lapsed and this one, however it came back.
        """
        if self._admission.rebuilt and self._lapsed():
            self._stand_down()
        self._leadership.lease_seen(lease)
        self._follow_health()

    def lease_gone(self) -> None:
        """Take in that there is no Lease."""
        self._leadership.lease_gone()
        self._follow_health()

    def synced(self, kind: Kind) -> None:
        """Learn that a list of a kind is complete; when there is one of each, take up work."""
        before = self._watches.complete(REQUIRED_KINDS)
        self._watches.synced(kind)
        if self._watches.complete(REQUIRED_KINDS):
            self._listed.set()
            if not before:
                log.info("synced", gangs=len(self._admission.model.gangs), nodes=len(self._admission.model.table))
        self._follow_health()

    def heard(self, kind: Kind) -> None:
        """Learn that a watch is alive."""
        stale = self._watches.stale()
        self._watches.heard(kind)
        if stale:
            self._follow_health()

    def skipped(self, kind: Kind) -> None:
        """Learn that an object could not be decoded."""
        self._metrics.undecodable.labels(kind).inc()

    def watch_restarted(self, kind: Kind, cause: str) -> None:
        """Learn that a watch had to start again."""
        self._watches.restarted(kind, cause)

    # What people ask.

    def gangs(self) -> list[GangView]:
        """Return how every gang stands, those of other schedulers included."""
        return list(self._reporting.views())

    def scrape_in_steps(self) -> Iterator[None]:
        """Set the gauges that are read off the state, in steps between which others may have the event loop."""
        yield from expose(self._metrics, self._admission, self._reporting.views())
        self._metrics.binds_held.set(len(self._binder.barrier))
        self._metrics.write_queue.set(len(self._outbox))
        self._metrics.write_window.set(self._window.places)
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
            self._admission.tick()
            began = self._clock.monotonic()
            if self._admission.decide():
                rest = self._clock.monotonic() - began
                self._metrics.pass_seconds.observe(rest)
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
        if self._admission.rebuilt and self._lapsed():
            self._stand_down()
        if condition.decides and not self._admission.rebuilt:
            self._take_up()
        if condition.decides:
            backlogged = condition.mode is Mode.BACKLOGGED
            self._admission.hold_off(Wait(Reason.WRITES_BACKLOGGED) if backlogged else None)
            self._settle()
        return condition

    def _lapsed(self) -> bool:
        return not leads(self._leadership, self._clock)

    def _take_up(self) -> None:
        """Begin to decide, from what stands in the cluster."""
        self._metrics.leadership_changes.labels("began").inc()
        self._admission.rebuild()
        self._reporting.changed(gang.ref for gang in self._admission.model.gangs)
        self._taken_up.set()
        log.info("leading", gangs=len(self._admission.model.gangs))

    def _stand_down(self) -> None:
        """Leave deciding and writing to whoever leads now."""
        self._metrics.leadership_changes.labels("ceased").inc()
        self._binder.barrier.refuse_all(f"{Reason.NOT_LEADING}: {Wait(Reason.NOT_LEADING).message}")
        self._outbox.clear()
        self._reporting.stand_down()
        self._admission.stand_down()
        self._taken_up.clear()
        log.warning("standing by: the Lease is not held any more")

    def _settle(self) -> None:
        """Carry out what the admission has asked for since last time."""
        effects = self._admission.take_effects()
        for uid in effects.released:
            self._binder.barrier.release(uid)
        for uid, why in effects.refused.items():
            self._binder.barrier.refuse(uid, why)
        for nomination in effects.nominations.values():
            self._nominations.put(nomination)
        for step in effects.milestones:
            self._log_milestone(step)
        for seconds in effects.plan_seconds:
            self._metrics.plan_seconds.observe(seconds)
        self._metrics.reservations_expired.inc(effects.expired)
        for note in effects.notes:
            self._reporting.note(note)
            about = note.about.key if isinstance(note.about, Pod) else str(note.about)
            log.info("note", reason=note.reason, message=note.message, about=about)
        self._reporting.changed(effects.changed)
        if self._admission.pending or effects.nominations or effects.refused:
            self._wake.set()  # there is something to judge, or a deadline has moved

    def _turned_away(self, uid: str) -> None:
        if self.known(uid) is not None:  # of others nobody would ever say that they are gone
            self._nominations.turned_away(uid)

    def _follow_arrival(self, ref: GroupRef) -> None:
        if self._is_complete(ref):
            self._arrivals.completed(ref)
        else:
            self._arrivals.joined(ref)

    def _is_complete(self, ref: GroupRef) -> bool:
        gang = self._admission.model.gangs.get(ref)
        return gang is None or gang.is_complete

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
        if step.what == "gang started":
            self._metrics.gang_wait_seconds.observe(step.waited)
            words["waited_seconds"] = round(step.waited, 3)
        if step.why:
            words["why"] = step.why
        log.info(step.what, **words)

    def _require_health(self) -> None:
        wait = self._health.condition().wait
        if wait is not None:
            raise DegradedError(wait)
        if not self._admission.rebuilt:
            self._follow_health()
