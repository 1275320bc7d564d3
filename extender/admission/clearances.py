"""Places that are being cleared: who leaves for whom, and what is kept until all of them are gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from extender.admission.charges import Charge, Holder
from extender.admission.effects import Evict, EvictionReason, Note
from extender.admission.evictions import AllowedEvictions
from extender.admission.keep import Keep
from extender.admission.queue import position
from extender.admission.quotarights import QuotaRights
from extender.admission.reservations import Reservations
from extender.admission.sharing import Sharing
from extender.admission.victims import Claimant
from extender.clock import Clock
from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel
from extender.domain.membership import GroupRef
from extender.domain.pod import Pod
from extender.domain.reason import Reason, Wait
from extender.preemption.search import Eviction, Preemption

#: How long evicted pods may take to be gone before their place is given up (seconds). A pod has 30 s to end by default,
#: those that write a checkpoint ask for minutes.
PATIENCE_SECONDS: Final = 900.0

#: How long a gang for which others were evicted is safe from preemption in its own queue (seconds), so that evictions
#: do not follow from each other. Quota is reclaimed from it all the same. For as long it has nobody else evicted if it
#: does not start there: kube-scheduler may refuse it wherever it is placed, for reasons that Muster does not know.
_SHELTER_SECONDS: Final = 600.0


@dataclass(slots=True)
class Clearance:
    """A place that is being cleared for one gang.

    `evictions` are whose pods leave; those are told at once and evicted at `due` (seconds, monotonic). `until` is when
    the place is given up if they are not gone. `keep` is what is kept for the gang, which waits in `queue`. `awaited`
    are all who are to leave, by UID: those that are evicted, and those that were leaving already.
    """

    gang: Gang
    queue: str
    keep: Keep
    evictions: tuple[Eviction, ...]
    reasons: Mapping[str, EvictionReason]
    due: float
    until: float
    awaited: frozenset[str]
    sent: bool = False

    @property
    def pods(self) -> list[Pod]:
        """Return the pods that are evicted."""
        return [pod for eviction in self.evictions for pod in eviction.pods]


class Clearances:
    """Warn those that are to leave, evict them, and keep their place until the gang they left for is there.

    Attributes:
        under_way: the places that are being cleared, by the UID of the gang they are for.
        told: why the pods of a gang were evicted last, by the UID of the gang, until it is placed again.
    """

    def __init__(
        self,
        model: ClusterModel,
        sharing: Sharing,
        reservations: Reservations,
        allowed: AllowedEvictions,
        clock: Clock,
    ) -> None:
        """Start with nothing under way. Evictions become effects of `reservations`, and are made known to `allowed`."""
        self._model = model
        self._sharing = sharing
        self._reservations = reservations
        self._allowed = allowed
        self._clock = clock
        self._leaving_for: dict[Holder, Clearance] = {}
        self._sheltered: dict[Holder, float] = {}
        self.under_way: dict[str, Clearance] = {}
        self.told: dict[str, str] = {}

    def begin_pass(self) -> list[str]:
        """Begin a pass: end what has lost its purpose, and evict those whose notice is over.

        Return the UIDs of gangs whose place was not cleared in time.
        """
        now, late = self._clock.monotonic(), []
        for uid, clearance in list(self.under_way.items()):
            gang = self._model.gangs.get(clearance.gang.ref)
            if gang is not clearance.gang or gang.uid != uid:
                self.end(uid, "the gang is gone")
            elif now >= clearance.until:
                self.end(uid, "the evicted pods were not gone in time")
                late.append(uid)
            elif not clearance.sent and now >= clearance.due:
                self._send(clearance)
        self._drain()
        return late

    def keeps(self) -> dict[str, Keep]:
        """Return what is kept for whom, by the UID of the gang."""
        return {uid: clearance.keep for uid, clearance in self.under_way.items()}

    def is_sheltered(self, holder: Holder) -> bool:
        """Tell whether others were evicted for a gang a short while ago: who has cost so much is not preempted next."""
        return self._clock.monotonic() < self._sheltered.get(holder, 0.0)

    def waits_until(self, gang: Gang) -> float:
        """Return until when nobody is evicted for a gang (seconds, monotonic): others were, and it did not start."""
        failed = self._reservations.backoff.attempts(gang.uid) > 0
        return self._sheltered.get(gang.ref, 0.0) if failed else 0.0

    def is_leaving(self, holder: Holder) -> bool:
        """Tell whether a gang, or a pod, has to leave already."""
        return holder in self._leaving_for

    def leaving_for(self, holder: Holder) -> Clearance | None:
        """Return for which gang's place members of a gang, or a pod, are to leave; None if they may stay."""
        clearance = self._leaving_for.get(holder)
        return clearance if clearance is not None and self._remaining(clearance) else None

    def progress(self, gang: Gang) -> Wait | None:
        """Return how far the place of a gang is cleared; None if none is, or if all have left."""
        clearance = self.under_way.get(gang.uid)
        remaining = 0 if clearance is None else len(self._remaining(clearance))
        return Wait(Reason.PREEMPTING, {"pods": remaining}) if remaining else None

    def start(
        self,
        claimant: Claimant,
        found: Preemption,
        reasons: Mapping[str, EvictionReason],
        *,
        notice: float = 0.0,
        leaving: Iterable[str] = (),
    ) -> None:
        """Have those evicted who are in the way, for a reason each, after so many seconds of notice.

        `leaving` are pods that are being deleted anyway, and whose nodes or quota the gang gets.
        """
        gang, now = claimant.gang, self._clock.monotonic()
        evicted = [pod for each in found.evictions for pod in each.pods]
        uids = [pod.uid for pod in evicted]
        charge = Charge(gang.ref, claimant.queue, claimant.flavor, claimant.amounts)
        leaving = list(dict.fromkeys(leaving))
        rights = QuotaRights(self._sharing, claimant)
        self._sharing.charges.promise(gang.uid, charge, [*uids, *filter(rights.concern, leaving)])
        clearance = Clearance(
            gang,
            claimant.queue,
            Keep(gang, position(gang), found.kept, firm=True),
            found.evictions,
            reasons,
            due=now + notice,
            until=now + notice + PATIENCE_SECONDS,
            awaited=frozenset([*uids, *leaving]),
        )
        self._leaving_for |= {_holder(eviction): clearance for eviction in found.evictions}
        self.under_way[gang.uid] = clearance
        if notice:
            for eviction in found.evictions:
                text = f"{_pods(eviction.pods)} to be evicted in {notice:.0f} s {_purpose(clearance, eviction)}"
                self._note(eviction, "EvictionNotice", text)
        else:
            self._send(clearance)
        if evicted:
            names = ", ".join(eviction.victim.name for eviction in found.evictions)
            message = f"clears its place of {_pods(evicted)} of {names}"
            self._reservations.effects.notes.append(Note(gang.ref, warning=False, reason="Preempting", message=message))

    def placed(self, gang: Gang) -> None:
        """Take in that a gang has been placed: if nobody was evicted yet, nobody needs to be."""
        clearance = self.under_way.get(gang.uid)
        now = self._clock.monotonic()
        if clearance is not None and clearance.sent and clearance.evictions:
            self._sheltered = {of: until for of, until in self._sheltered.items() if now < until}
            self._sheltered[gang.ref] = now + _SHELTER_SECONDS
        self.end(gang.uid, "the gang was placed elsewhere")

    def end(self, uid: str, why: str) -> None:
        """Keep a gang's place no more, if one is being cleared; who has not been evicted yet may stay."""
        clearance = self.under_way.pop(uid, None)
        if clearance is None:
            return
        self._sharing.charges.withdraw(uid)
        for eviction in clearance.evictions:
            self._leaving_for.pop(_holder(eviction), None)
        self._model.table.outdate()
        staying = (pod.uid for pod in clearance.pods if not self._is_gone(pod))
        self._reservations.effects.spared.update(staying)
        for eviction in clearance.evictions:
            holder = _holder(eviction)
            if isinstance(holder, GroupRef) and (gang := self._model.gangs.get(holder)) is not None:
                self._model.gangs.touch(gang.uid)
            if not clearance.sent:
                self._note(eviction, "EvictionCancelled", f"nobody is evicted: {why}")

    def refused(self, uid: str, why: str) -> list[str]:
        """Take in that the API server refuses to evict a pod; return the UIDs of gangs whose place is given up."""
        concerned = [of for of, each in self.under_way.items() if any(pod.uid == uid for pod in each.pods)]
        for of in concerned:
            self.end(of, f"a pod cannot be evicted: {why}")
        return concerned

    def stand_down(self) -> None:
        """Leave what is under way to whoever decides next."""
        for uid in self.under_way:
            self._sharing.charges.withdraw(uid)
        self.under_way.clear()
        self._leaving_for.clear()

    def next_turn(self) -> float | None:
        """Return when time alone asks for something (seconds, monotonic), or None."""
        return min((each.until if each.sent else each.due for each in self.under_way.values()), default=None)

    def evict_gang(self, gang: Gang, reason: EvictionReason, why: str, *, by: str = "") -> None:
        """Evict what is left of a gang, for no other's sake."""
        pods = [pod for pod in gang.members.values() if pod.bound and not pod.deleting and self._model.manages(pod)]
        self._evict([pod for pod in pods if pod.uid not in self._allowed.expected()], by, reason, why)

    def evict_pod(self, pod: Pod, reason: EvictionReason, why: str) -> None:
        """Evict a pod without gang, for no other's sake."""
        if pod.bound and not pod.deleting and pod.uid not in self._allowed.expected():
            self._evict([pod], "", reason, why)

    def _drain(self) -> None:
        """Evict whoever runs in queues that are to be drained."""
        for queue, holder in self._sharing.drained():
            why = f"because Queue {queue} is drained: its stopPolicy is HoldAndDrain"
            gang = self._model.gangs.get(holder) if isinstance(holder, GroupRef) else None
            if gang is not None:
                self.evict_gang(gang, EvictionReason.QUEUE_DRAINED, why)
            elif isinstance(holder, str) and holder in self._model.pods:
                self.evict_pod(self._model.pods[holder], EvictionReason.QUEUE_DRAINED, why)

    def _send(self, clearance: Clearance) -> None:
        """Evict those that are to leave."""
        clearance.sent = True
        for eviction in clearance.evictions:
            reason = clearance.reasons[eviction.victim.uid]
            pods = [pod for pod in eviction.pods if not self._is_gone(pod)]
            self._evict(pods, str(clearance.gang.ref), reason, _purpose(clearance, eviction))

    def _evict(self, pods: Sequence[Pod], by: str, reason: EvictionReason, why: str) -> None:
        """Have pods of one gang evicted, or one without."""
        if not pods:
            return
        effects, about = self._reservations.effects, pods[0].group or pods[0]
        for pod in pods:
            effects.evictions[pod.uid] = Evict(pod, by, reason, f"evicted {why}")
        if isinstance(about, GroupRef) and (gang := self._model.gangs.get(about)) is not None:
            self.told[gang.uid] = f"{_pods(pods)} evicted {why}"
            effects.changed[about] = None
        self._allowed.allow(pod.uid for pod in pods)
        effects.notes.append(Note(about, warning=True, reason=reason, message=f"{_pods(pods)} evicted {why}"))

    def _note(self, eviction: Eviction, reason: str, message: str) -> None:
        about = eviction.pods[0].group or eviction.pods[0]
        self._reservations.effects.notes.append(Note(about, warning=True, reason=reason, message=message))

    def _remaining(self, clearance: Clearance) -> list[Pod]:
        """Return which of those that are to leave are still there."""
        pods = self._model.pods
        return [pods[uid] for uid in clearance.awaited if uid in pods and pods[uid].bound]

    def _is_gone(self, pod: Pod) -> bool:
        known = self._model.pods.get(pod.uid)
        return known is None or not known.bound or known.deleting


def _holder(eviction: Eviction) -> Holder:
    first = eviction.pods[0]
    return first.group or first.uid


def _pods(pods: Sequence[Pod]) -> str:
    return "1 pod" if len(pods) == 1 else f"{len(pods)} pods"


def _purpose(clearance: Clearance, eviction: Eviction) -> str:
    """Say for whom and by what right somebody is evicted."""
    gang = clearance.gang
    match clearance.reasons[eviction.victim.uid]:
        case EvictionReason.RECLAIMED:
            right = f"queue {clearance.queue} reclaims its quota from queue {eviction.victim.queue}"
        case EvictionReason.DEFRAGMENTED:
            right = "to defragment, as was asked for"
        case _:
            right = f"priority {gang.priority} over {eviction.victim.priority}"
    return f"for {gang.ref}: {right}"
