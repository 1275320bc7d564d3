"""What a gang that has changed is: waiting for something of its own, or one that wants nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from extender.admission.cycle import Entry
from extender.admission.verdicts import kind_of
from extender.clock import Clock
from extender.cluster.gangs import Gang, core_size, held_back, needs_object
from extender.cluster.model import ClusterModel
from extender.eviction.pending import PendingEvictions
from extender.ledger.rejections import Vetoes
from extender.ledger.reservations import Reservations
from extender.objects.keys import ADMISSION_GATE
from extender.objects.pod import Pod
from extender.objects.reason import Reason, Wait
from extender.objects.refusal import shortened
from extender.objects.sources.table import SOURCE_OF
from extender.placement.capacityview import PodSet, PodSetRequest
from extender.queues.ageing import Ageing
from extender.queues.order import Queues, position
from extender.queues.sharing import Sharing


@dataclass(frozen=True, slots=True)
class GangCandidates:
    """How many members of a gang want a place; members with a slot already are left out.

    Without the `core` it cannot start (none once it has started): first what roles lack of their own minimum, then the
    others in member order. The `extras` beyond minMember are placed singly when there is room.
    """

    core: int
    extras: int


class Intake:
    """Let gangs stand in their queues that could be placed, and tell the others why they cannot be."""

    def __init__(  # noqa: PLR0913, PLR0917 - all that says whether a gang could be placed
        self,
        model: ClusterModel,
        sharing: Sharing,
        reservations: Reservations,
        pending_evictions: PendingEvictions,
        vetoes: Vetoes,
        ageing: Ageing,
        queues: Queues[Entry],
        clock: Clock,
    ) -> None:
        """Put gangs that want nodes into `queues`."""
        self._model = model
        self._sharing = sharing
        self._reservations = reservations
        self._pending_evictions = pending_evictions
        self._vetoes = vetoes
        self._ageing = ageing
        self._queues = queues
        self._clock = clock

    def consider(self, gang: Gang) -> None:
        """Say what a gang is that has changed: waiting for something of its own, or one that wants nodes."""
        reservations = self._reservations
        # Members of several schedulers wait with a reason; a gang of another scheduler alone is not ours to judge.
        if not self._model.looks_after(gang):
            self._reservations.wait(gang, None if gang.members else self._before_pods(gang))
            return
        reservations.drop_refused(gang)
        reservation = reservations.ledger.of_gang(gang.uid)
        verdict = wanted(gang, 0 if reservation is None else len(reservation.slots))
        queue = self._sharing.queue_of(gang)
        gated = isinstance(verdict, Wait) and verdict.reason in {Reason.MEMBERS_GATED, Reason.ROLE_MEMBERS_GATED}
        if gated and self._consider_gated(gang, queue):
            return
        unusable = self._sharing.unusable(queue, gang.ref.namespace)
        wait = verdict if isinstance(verdict, Wait) else unusable or self._leaving(gang)
        if wait is not None or isinstance(verdict, Wait):
            reservations.drop_gang(gang.uid, "" if wait is None else wait.message)
            if wait is not None and wait.reason is Reason.REFUSED_BY_SCHEDULER:
                self._pending_evictions.unwanted(gang, wait.message)
            else:
                self._pending_evictions.end(gang.uid, "" if wait is None else wait.message)
            self._reservations.wait(gang, wait)
            return
        pause = reservations.backoff.pause(gang.uid, self._clock.monotonic())
        if verdict.core:
            if pause is None:
                self._stand(gang, queue, PodSet.of_core(gang, verdict.core))
                return
            before = reservations.waits.get(gang.uid)
            refused = before is not None and before.reason in {Reason.REFUSED_BY_SCHEDULER, Reason.BINDING_REFUSED}
            self._reservations.wait(gang, before if refused else Wait(Reason.BACKING_OFF, {"attempts": pause.attempts}))
            return
        if gang.has_minimum:
            self._reservations.wait(gang, None)
        elif reservation is not None:
            reservations.await_members(gang)
        if verdict.extras and pause is None:
            self._stand(gang, queue, None)

    def _before_pods(self, gang: Gang) -> Wait | None:
        """Say what keeps a PodGroup from starting that has no pods; None if it has finished, or is not for Muster.

        What is wrong with it, or with its queue, comes first: its pods may be on their way.
        """
        if gang.has_ended or not self._model.concerns(gang):
            return None
        wrong = _no_fit(gang) or (Wait(Reason.HELD) if gang.is_held else None)
        return wrong or self._sharing.unusable(self._sharing.queue_of(gang), gang.ref.namespace) or _missing(gang)

    def _stand(self, gang: Gang, queue: str, core: PodSet | None, *, gated: bool = False) -> None:
        """Let a gang stand in its queue."""
        aged = self._ageing.is_aged(gang)
        blocks = aged or self._sharing.is_strict(queue)
        place = position(gang, aged=aged)
        entry = Entry(gang, queue, place, core, gated=gated, blocks=blocks)
        if core is not None and not (gated or entry.is_urgent or self.is_apart(gang.uid)):
            entry.kind = kind_of(gang, core, by_payer=bool(self._sharing.limiting))
        if entry.kind is not None:
            alike = self._queues.line(queue, entry.kind)
            entry.shared = alike[0].shared if alike else entry.shared
            entry.shared.untold[gang.ref] = None
        self._queues.put(gang.ref, entry)

    def is_apart(self, uid: str) -> bool:
        """Tell whether a gang was refused nodes, or others leave for it."""
        pending = self._pending_evictions
        return uid in self._vetoes.of_gangs or uid in pending.under_way or uid in pending.moved.places

    def _leaving(self, gang: Gang) -> Wait | None:
        """Return for whom the gang is being evicted: who has been is not placed before all of it has left."""
        if not self._pending_evictions.under_way or gang.has_minimum:
            return None
        pending = self._pending_evictions.leaving_for(gang.ref)
        if pending is None:
            return None
        pods = sum(1 for uid in pending.awaited if uid in gang.members)
        return Wait(Reason.BEING_EVICTED, {"pods": pods}, {"by": str(pending.gang.ref)})

    def _consider_gated(self, gang: Gang, queue: str) -> bool:
        """Let a gang stand in its queue whose members wait for nothing but quota; return whether it does."""
        pods = _gated_for_quota(gang)
        unusable = self._sharing.unusable(queue, gang.ref.namespace)
        if len(pods) < gang.min_member - gang.census().secured or not pods or unusable is not None:
            return False
        shapes = PodSetRequest.of_members(gang, pods)
        self._stand(gang, queue, PodSet(gang, shapes, _pods=pods), gated=True)
        return True


def _gated_for_quota(gang: Gang) -> list[Pod]:
    """Return the members that one gate alone keeps: the one that asks for quota."""
    return [pod for pod in gang.ordered() if pod.gates == (ADMISSION_GATE,) and not pod.deleting]


def wanted(gang: Gang, slotted: int) -> GangCandidates | Wait:
    """Say how many members of a gang want a place, or why it cannot be considered. Complexity: O(kinds of members).

    Args:
        gang: the gang.
        slotted: how many of its unbound members have a slot already.
    """
    wait = _no_fit(gang)
    if wait is not None:
        return wait
    if gang.is_held:
        return GangCandidates(0, 0) if gang.has_minimum else Wait(Reason.HELD)
    if (missing := _missing(gang)) is not None:
        return missing
    census, minimums = gang.census(), gang.role_minimums
    if (gated := _role_gated(gang, minimums)) is not None:
        return gated
    if census.exist - census.gated < gang.min_member:
        numbers = {"gated": census.gated, "exist": census.exist, "minMember": gang.min_member}
        return Wait(Reason.MEMBERS_GATED, numbers)
    if (refused := held_back(gang, slotted)) is not None:
        detail = f"{refused.key}: {shortened(gang.refused[refused.uid])}"
        return Wait(Reason.REFUSED_BY_SCHEDULER, {"refused": len(gang.refused)}, {"detail": detail})
    core = core_size(gang, slotted)
    return GangCandidates(core, max(gang.spaces - core, 0))


def _missing(gang: Gang) -> Wait | None:
    """Return the first role of which too few members exist, or that the gang as a whole has too few."""
    for role, minimum in sorted(gang.role_minimums.items()):
        if (exist := gang.census_of(role).exist) < minimum:
            return Wait(Reason.ROLE_MEMBERS_MISSING, {"exist": exist, "minMember": minimum}, {"role": role})
    if (exist := gang.census().exist) < gang.min_member:
        return Wait(Reason.MEMBERS_MISSING, {"exist": exist, "minMember": gang.min_member})
    return None


def _role_gated(gang: Gang, minimums: Mapping[str, int]) -> Wait | None:
    """Return the first role of which too few members are free of scheduling gates."""
    for role, minimum in sorted(minimums.items()):
        census = gang.census_of(role)
        if census.exist - census.gated < minimum:
            numbers = {"gated": census.gated, "exist": census.exist, "minMember": minimum}
            return Wait(Reason.ROLE_MEMBERS_GATED, numbers, {"role": role})
    return None


def _no_fit(gang: Gang) -> Wait | None:
    """Return what is wrong with the gang's description, or None."""
    group, source = gang.group, SOURCE_OF[gang.ref.api]
    if group is None and needs_object(gang.ref):
        return Wait(Reason.POD_GROUP_MISSING, names={"kind": source.noun, "group": str(gang.ref)})
    if group is not None and group.problem is not None:
        names = {"kind": group.kind, "group": str(gang.ref), "detail": str(group.problem)}
        return Wait(Reason.INVALID_POD_GROUP, names=names)
    kinds = [kind for kind in gang.kinds if kind.staying]
    if any(kind.faulty for kind in kinds):
        bad = next(pod for pod in gang.unbound() if pod.problem is not None and not pod.deleting)
        return Wait(Reason.INVALID_MEMBER, names={"pod": bad.key, "detail": str(bad.problem)})
    sized = group is not None or gang.ref.is_pod
    if kinds and not sized and not any(kind.states_minimum for kind in kinds):
        detail = f"annotation {source.size_annotation} is missing or invalid"
        first = next(pod for pod in gang.unbound() if not pod.deleting)
        return Wait(Reason.INVALID_MEMBER, names={"pod": first.key, "detail": detail})
    schedulers = sorted({kind.scheduler for kind in kinds})
    if len(schedulers) > 1:
        return Wait(Reason.MIXED_SCHEDULERS, names={"detail": ", ".join(schedulers)})
    priorities = sorted({kind.priority for kind in kinds})
    if len(priorities) > 1 and (group is None or group.priority is None):
        return Wait(Reason.MIXED_PRIORITIES, names={"detail": ", ".join(map(str, priorities))})
    return None
