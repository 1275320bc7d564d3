"""Effects carried out: held calls answered, writes ordered, and people told of what changed, a moment later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from itertools import islice
from typing import Any

import structlog

from extender.admission.admission import Admission
from extender.clock import Clock
from extender.control.asking import Asking
from extender.control.binding import Barrier
from extender.control.decisions import DecisionLog
from extender.control.evictions import Evictions, Gates, Suspensions, Told
from extender.control.exposition import LostTime, count, follow
from extender.control.metrics import Metrics
from extender.control.nominations import Nominations
from extender.control.outbox import Outbox
from extender.control.ports import ClusterApi
from extender.control.reports import AGAIN_SECONDS, GangReports, QueueReports
from extender.explain.explanation import Inspection
from extender.ledger.effects import Effects, GangStep, Milestone
from extender.objects.podgroup import GroupRef
from extender.objects.reason import Reason, Wait
from extender.settings import Settings

log = structlog.get_logger("muster.control")

#: Of more gangs it is not remembered which changed: the reader looks at all of them then.
_MOST_GANGS = 10_000
#: Gangs that are reported before others have the event loop: a millisecond or two.
_GANGS_PER_TURN = 50


class ChangedGangs:
    """Remember for one reader which gangs changed; it may never ask, so what is remembered is bounded."""

    def __init__(self) -> None:
        """Start with everything changed."""
        self._refs: set[GroupRef] | None = None

    def note(self, refs: Iterable[GroupRef]) -> None:
        """Take in that these gangs changed, came or went."""
        if self._refs is None:
            return
        self._refs.update(refs)
        if len(self._refs) > _MOST_GANGS:
            self._refs = None

    def note_all(self) -> None:
        """Take in that any gang may have changed."""
        self._refs = None

    def take(self) -> set[GroupRef] | None:
        """Return the gangs that changed since this was last asked, None for all there are and were."""
        refs, self._refs = self._refs, set()
        return refs


class Dispatcher:
    """Carry out what the engine asks for.

    Attributes:
        nominations: the nominations on their way.
        decisions: what has been decided lately.
        changed_gangs: which gangs changed since the reader that shows them last looked.
        inspection: what people read.
        lost: the time that gangs have waited, by reason.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - all that effects are carried out by
        self,
        settings: Settings,
        clock: Clock,
        metrics: Metrics,
        api: ClusterApi,
        outbox: Outbox,
        admission: Admission,
        barrier: Barrier,
        told: Told,
        account: Callable[[Effects[Any]], None],
    ) -> None:
        """Write to `api` by way of `outbox`; call `told` of how evictions stand with the API server.

        `account` is told of all effects, for the history.
        """
        delay = settings.report_delay_seconds
        self._admission = admission
        self._account = account
        self._barrier = barrier
        self._clock = clock
        self._outbox = outbox
        self._metrics = metrics
        self._evictions = Evictions(api, outbox, clock, metrics, told)
        self._gates = Gates(api, outbox)
        self._suspensions = Suspensions(api, outbox, metrics, told)
        self._asking = Asking(api, outbox, admission)
        ranked = settings.single_pods == "ranked"
        self.nominations = Nominations(api, outbox, metrics, admission.model.table, ranked=ranked)
        self.decisions = DecisionLog(clock)
        self.changed_gangs = ChangedGangs()
        self._reports = GangReports(admission, api, outbox, self._report_again)
        self._delay = delay
        self._changed: dict[GroupRef, None] = {}
        self._due: dict[GroupRef, None] = {}  # changed long enough ago, and not reported yet
        self._timer: asyncio.TimerHandle | None = None
        self.inspection = Inspection(admission, clock, self._gates.stay)
        self.lost = LostTime()
        self._queue_reports = QueueReports(api, outbox, clock, self.inspection.queues, delay)

    def carry_out(self, effects: Effects[Any]) -> None:
        """Answer held calls, order writes, and tell people."""
        for uid in effects.released:
            self._barrier.release(uid)
        for uid, why in effects.refused.items():
            self._barrier.refuse(uid, why)
        for nomination in effects.nominations.values():
            self.nominations.put(nomination)
        self._order_writes(effects)
        if effects.milestones or effects.evictions or effects.notes:
            self._tell(effects)
        count(self._metrics, effects)
        follow(self.lost, self._admission, effects.changed, self._clock.monotonic())
        if effects.changed:
            self._gangs_changed(effects.changed)
            self.queues_changed()
        if effects.changed or effects.evictions or effects.suspensions or effects.spared:
            self._account(effects)

    def _order_writes(self, effects: Effects[Any]) -> None:
        """Order what is to be changed in the cluster, besides nominations and Bindings."""
        for uid in effects.spared:
            self._evictions.spare(uid)
        for notice in effects.notices.values():
            self._evictions.notify(notice)
        for eviction in effects.evictions.values():
            self._evictions.put(eviction)
        for gate in effects.ungates.values():
            self._gates.open(gate)
        for uid, wish in effects.suspensions.items():
            self._suspensions.put(uid, wish)
        for key, ask in effects.node_requests.items():
            self._asking.put(key, ask)
        for wanted in effects.annotations.values():
            self._asking.annotate(wanted)

    def queues_changed(self) -> None:
        """Have the statuses of Queues written in a moment, if there are any."""
        if self._admission.sharing.queues:
            self._queue_reports.changed()

    def take_up(self) -> None:
        """Tell of everything: this replica decides from now on."""
        self._gangs_changed([gang.ref for gang in self._admission.model.gangs])
        self.queues_changed()

    def forget_told(self) -> None:
        """Forget what was written: it may not be there any more."""
        self.changed_gangs.note_all()
        self._changed.clear()
        self._due.clear()
        self._reports.stand_down()
        self._queue_reports.stand_down()

    def stand_down(self) -> None:
        """Carry out nothing any more: another replica decides."""
        self._barrier.refuse_all(f"{Reason.NOT_LEADING}: {Wait(Reason.NOT_LEADING).message}")
        self._outbox.clear()
        self._evictions.stand_down()
        self._gates.stand_down()
        self.forget_told()
        self.lost.clear(self._clock.monotonic())

    def _gangs_changed(self, refs: Collection[GroupRef]) -> None:
        """Report gangs in a moment: one whose pods are being created changes with each. Without decisions, none."""
        self.changed_gangs.note(refs)
        if not self._admission.rebuilt:
            return
        self._changed |= dict.fromkeys(refs)
        if self._timer is None and self._changed:
            self._timer = asyncio.get_running_loop().call_later(self._delay, self._report)

    def _report_again(self, ref: GroupRef) -> None:
        """Report a gang once more, some time after that was in vain."""
        asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._gangs_changed, (ref,))

    def _report(self) -> None:
        """Report some gangs that are due, and the rest in the next turn of the loop; then wait for the next."""
        if not self._due:
            self._due, self._changed = self._changed, {}
        for ref in list(islice(self._due, _GANGS_PER_TURN)):
            del self._due[ref]
            self._reports.report(ref)
        self._timer = None
        if self._due or self._changed:
            self._timer = asyncio.get_running_loop().call_later(0 if self._due else self._delay, self._report)

    def _tell(self, effects: Effects[Any]) -> None:
        for step in effects.milestones:
            self._log_milestone(step)
            if step.what is GangStep.STARTED and not step.routine:
                self._reports.started(step.gang, step.waited)
        self.decisions.take_in(effects)
        for note in effects.notes:
            self._reports.note(note)

    def _log_milestone(self, step: Milestone) -> None:
        """Log one line per decision about a gang, under the name that its filter and bind calls carry."""
        words: dict[str, object] = {"gang": str(step.gang), "decision": step.decision, "members": step.members}
        if step.what is GangStep.STARTED:
            self._metrics.gang_wait_seconds.observe(step.waited)
            words["waited_seconds"] = round(step.waited, 3)
        if step.why:
            words["why"] = step.why
        (log.debug if step.routine else log.info)(step.what.value, **words)
