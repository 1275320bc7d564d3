"""What a gang that has changed is: waiting for something of its own, or a contender for nodes."""

from __future__ import annotations

from extender.admission.ageing import Ageing
from extender.admission.clearances import Clearances
from extender.admission.contender import Contender
from extender.admission.judgement import judge
from extender.admission.queue import Queues, position
from extender.admission.reservations import Reservations
from extender.admission.sharing import Sharing
from extender.admission.site import Demand, Party
from extender.clock import Clock
from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel
from extender.domain.keys import ADMISSION_GATE
from extender.domain.pod import Pod
from extender.domain.reason import Reason, Wait


class Intake:
    """Let gangs stand in their queues that could be placed, and tell the others why they cannot be."""

    def __init__(  # noqa: PLR0913, PLR0917 - all that says whether a gang could be placed
        self,
        model: ClusterModel,
        sharing: Sharing,
        reservations: Reservations,
        clearances: Clearances,
        ageing: Ageing,
        queues: Queues[Contender],
        clock: Clock,
    ) -> None:
        """Put contenders into `queues`."""
        self._model = model
        self._sharing = sharing
        self._reservations = reservations
        self._clearances = clearances
        self._ageing = ageing
        self._queues = queues
        self._clock = clock

    def consider(self, gang: Gang) -> None:
        """Say what a gang is that has changed: waiting for something of its own, or a contender for nodes."""
        reservations = self._reservations
        # Members of several schedulers wait with a reason; a gang of another scheduler alone is not ours to judge.
        if not self._model.looks_after(gang):
            self._reservations.wait(gang, None)
            return
        reservation = reservations.ledger.of_gang(gang.uid)
        verdict = judge(gang, 0 if reservation is None else len(reservation.slots))
        queue = self._sharing.queue_of(gang)
        gated = isinstance(verdict, Wait) and verdict.reason in {Reason.MEMBERS_GATED, Reason.ROLE_MEMBERS_GATED}
        if gated and self._consider_gated(gang, queue):
            return
        unusable = self._sharing.unusable(queue, gang.ref.namespace)
        wait = verdict if isinstance(verdict, Wait) else unusable or self._leaving(gang)
        if wait is not None or isinstance(verdict, Wait):
            reservations.drop_gang(gang.uid, "" if wait is None else wait.message)
            self._clearances.end(gang.uid, "" if wait is None else wait.message)
            self._reservations.wait(gang, wait)
            return
        pause = reservations.backoff.pause(gang.uid, self._clock.monotonic())
        if verdict.core:
            if pause is None:
                self._stand(gang, queue, Party(gang, Demand.of_gang(gang, verdict.core)))
                return
            before = reservations.waits.get(gang.uid)
            refused = before is not None and before.reason is Reason.REFUSED_BY_SCHEDULER
            self._reservations.wait(gang, before if refused else Wait(Reason.BACKING_OFF, {"attempts": pause.attempts}))
            return
        if gang.has_minimum:
            self._reservations.wait(gang, None)
        elif reservation is not None:
            reservations.await_members(gang)
        if verdict.extras and pause is None:
            self._stand(gang, queue, None)

    def _stand(self, gang: Gang, queue: str, core: Party | None, *, gated: bool = False) -> None:
        """Let a gang stand in its queue."""
        aged = self._ageing.is_aged(gang)
        blocks = aged or self._sharing.is_strict(queue)
        place = position(gang, aged=aged)
        self._queues.put(gang.ref, Contender(gang, queue, place, core, gated=gated, blocks=blocks))

    def _leaving(self, gang: Gang) -> Wait | None:
        """Return for whom the gang is being evicted: who has been is not placed before all of it has left."""
        clearance = self._clearances.leaving_for(gang.ref)
        if clearance is None or gang.has_minimum:
            return None
        pods = sum(1 for uid in clearance.awaited if uid in gang.members)
        return Wait(Reason.BEING_EVICTED, {"pods": pods}, {"by": str(clearance.gang.ref)})

    def _consider_gated(self, gang: Gang, queue: str) -> bool:
        """Let a gang stand in its queue whose members wait for nothing but quota; return whether it does."""
        pods = _gated_for_quota(gang)
        unusable = self._sharing.unusable(queue, gang.ref.namespace)
        if len(pods) < gang.min_member - gang.census().secured or not pods or unusable is not None:
            return False
        shapes = Demand.of_pods(pods, gang)
        self._stand(gang, queue, Party(gang, shapes, _pods=pods), gated=True)
        return True


def _gated_for_quota(gang: Gang) -> list[Pod]:
    """Return the members that one gate alone keeps: the one that asks for quota."""
    return [pod for pod in gang.ordered() if pod.gates == (ADMISSION_GATE,) and not pod.deleting]
