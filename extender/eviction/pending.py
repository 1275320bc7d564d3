"""Evictions under way: which gangs leave for which, and what is kept for those."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from extender.clock import Clock
from extender.cluster.gangs import Gang, split
from extender.cluster.model import ClusterModel
from extender.cluster.whatif import withhold
from extender.eviction.movedplaces import MovedPlaces
from extender.eviction.moves import FoundMoves
from extender.eviction.notices import Notices, in_number
from extender.eviction.policies import Claimant, QuotaRights, own_notice
from extender.eviction.search.search import FoundPreemption
from extender.eviction.search.units import VictimEviction
from extender.eviction.sent import AllowedEvictions, SentEvictions
from extender.ledger.earmark import Earmark
from extender.ledger.effects import CollectedEffects, Evict, EvictionReason, Note, Suspension
from extender.ledger.reservations import Reservations
from extender.objects.node import Node
from extender.objects.pod import Pod
from extender.objects.podgroup import GroupRef
from extender.objects.podspec import LOST
from extender.objects.reason import Reason, Wait
from extender.objects.requests import count_gpus
from extender.queues.charges import Charge, payers_of
from extender.queues.sharing import Sharing

#: How long evicted pods may take to be gone before their place is given up (seconds). A pod has 30 s to end by default,
#: those that write a checkpoint ask for minutes.
PATIENCE_SECONDS: Final = 900.0

#: How long a gang for which others were evicted is safe from preemption in its own queue (seconds), so that evictions
#: do not follow from each other. Quota is reclaimed from it all the same. If it does not start there, no other gang is
#: evicted for it as long: kube-scheduler may refuse it wherever it is placed, for reasons that Muster does not know.
_SHELTER_SECONDS: Final = 600.0


@dataclass(slots=True)
class PendingEviction:
    """A place that is being cleared for one gang.

    `evictions` are whose pods leave; those are told at once and evicted at `due` (seconds, monotonic), when each is
    ready or has had its notice: none goes before it is certain that all do. `until` is when the place is given up if
    they are not gone. `keep` is what is kept for the gang, which waits in `queue`. `awaited`
    are all who are to leave, by UID: those that are evicted, and those that were leaving already; of the room of those
    that are `holding` theirs `keep` knows that it is not free yet.
    """

    gang: Gang
    queue: str
    keep: Earmark
    evictions: tuple[VictimEviction, ...]
    reasons: Mapping[str, EvictionReason]
    due: float
    until: float
    awaited: frozenset[str]
    sent: bool = False
    holding: frozenset[str] = frozenset()

    @property
    def pods(self) -> list[Pod]:
        """Return the pods that are evicted."""
        return [pod for eviction in self.evictions for pod in eviction.pods]


class PendingEvictions:
    """Warn those that are to leave, evict them, and keep their place until the gang they left for is there.

    Attributes:
        under_way: the places that are being cleared, by the UID of the gang they are for.
        told: why the pods of a gang were evicted last, by the UID of the gang, until it is placed again.
        in_vain: the UIDs of gangs that kube-scheduler refused though others had left for them.
        not_cleared: why the place of a gang was given up, by its UID, until another is cleared or the gang is placed.
        moved: what is kept for those that leave for others and have another place.
        on_the_way: evictions that cannot be taken back any more.
        notices: what gangs were told that are to be evicted.
        to_drain: gangs that have notice, or are evicted, because their queue is drained, by UID.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - all that a place is cleared by
        self,
        model: ClusterModel,
        sharing: Sharing,
        reservations: Reservations,
        allowed: AllowedEvictions,
        clock: Clock,
        effects: CollectedEffects,
    ) -> None:
        """Start with nothing under way. Evictions are added to `effects`, and made known to `allowed`."""
        self._model = model
        self._sharing = sharing
        self._reservations = reservations
        self._allowed = allowed
        self._clock = clock
        self._effects = effects
        self._leaving_for: dict[GroupRef, PendingEviction] = {}
        self._sheltered: dict[GroupRef, float] = {}
        self.moved = MovedPlaces(model, sharing, clock)
        self.on_the_way = SentEvictions(clock)
        self.notices = Notices(model, clock, effects)
        self._draining_due = math.inf
        self.to_drain: dict[str, Gang] = {}
        self.in_vain: set[str] = set()
        self.not_cleared: dict[str, str] = {}
        self.under_way: dict[str, PendingEviction] = {}
        self.told: dict[str, str] = {}

    def begin_pass(self) -> list[str]:
        """Begin a pass with evictions under way: end what has lost its purpose, evict those whose notice is over.

        Return the UIDs of gangs whose place was not cleared in time.
        """
        now, late = self._clock.monotonic(), []
        self.moved.begin_pass()
        if self.on_the_way.spared:
            self._let_down(self.on_the_way.settle(self._is_gone))
        for uid, pending in list(self.under_way.items()):
            gang = self._model.gangs.get(pending.gang.ref)
            if gang is not pending.gang or gang.uid != uid:
                self.end(uid, "the gang is gone")
            elif any(map(self._is_kept, pending.pods)):
                self.end(uid, "a pod is not to be evicted any more")
            elif now >= pending.until:
                self.end(uid, "the evicted pods were not gone in time")
                late.append(uid)
            elif not pending.sent and self._has_lost_nodes(pending):
                self.end(uid, "nodes of its place are lost")
            elif not pending.sent:
                pending.due = self._due(pending)
                if now >= pending.due:
                    self._send(pending)
                    self._model.gangs.touch(uid)  # it says until when they have notice
        return late

    def _due(self, pending: PendingEviction) -> float:
        """Return when those may be evicted who leave (seconds, monotonic): when all have had their notice."""
        due, latest = -math.inf, max((each.victim.notice for each in pending.evictions), default=0.0)
        for eviction in pending.evictions:
            gang = self._model.gangs.get(eviction.gang)
            if gang is not None and not self._is_lost(gang):
                reason, why = pending.reasons[eviction.victim.uid], _purpose(pending, eviction)
                pods = [pod for pod in eviction.pods if not self._is_gone(pod)]
                due = max(due, self.notices.due(gang, pods, eviction.victim.notice, reason, why, latest))
        return due

    def _is_lost(self, gang: Gang) -> bool:
        """Tell whether a gang has members on lost nodes, and too few besides to run: there is nothing to save."""
        bound = [pod for pod in gang.members.values() if pod.stays]
        lost = sum(1 for pod in bound if _takes_no_pods(self._model.table.find(pod.node_name)))
        return lost > 0 and len(bound) - lost < gang.min_member

    def _has_lost_nodes(self, pending: PendingEviction) -> bool:
        """Tell whether a gang could not start in the place that is to be cleared for it: nodes of it are lost."""
        rows = pending.keep.rows
        nodes = self._model.table.nodes_at(rows)
        return len(nodes) < len(rows) or any(map(_takes_no_pods, nodes))

    def keeps(self) -> dict[str, Earmark]:
        """Return what is kept for the gangs whose places are being cleared, by their UIDs.

        What those hold who have not left yet is not free, and keeps no other gang from what is: one for which others
        have left on the same node has its place as soon as they are gone.
        """
        table = self._model.table
        for pending in self.under_way.values():
            remaining = self._remaining(pending)
            holding = frozenset(pod.uid for pod in remaining)
            if holding != pending.holding:
                held = table.taken_by((pod.node_name, pod.shape) for pod in remaining)
                kept = np.zeros_like(held)
                withhold(kept, -pending.keep.kept)
                pending.keep = replace(pending.keep, of_free=np.maximum(kept - held, 0))
                pending.holding = holding
        return {uid: pending.keep for uid, pending in self.under_way.items()}

    def waits_until(self, gang: Gang) -> float:
        """Return until when no gang is evicted for a gang (seconds, monotonic): others were, and it did not start."""
        failed = gang.uid in self.in_vain or self._reservations.backoff.attempts(gang.uid) > 0
        return self._sheltered.get(gang.ref, 0.0) if failed else 0.0

    def unwanted(self, gang: Gang, why: str) -> None:
        """Take in that kube-scheduler refuses a gang by itself: if others were evicted for it, that was in vain."""
        self._shelter(gang)
        if gang.ref in self._sheltered:
            self.in_vain.add(gang.uid)
        self.end(gang.uid, why)

    def spares(self, holder: GroupRef, *, reclaimed: bool) -> bool:
        """Tell whether a gang is not to be evicted: it is leaving, or has cost others their place a short while ago."""
        leaves = holder in self._leaving_for or any(pod.group == holder for pod in self.on_the_way.leaving())
        if leaves or reclaimed:
            return leaves
        return self._clock.monotonic() < self._sheltered.get(holder, 0.0)

    def leaving(self) -> Iterator[str]:
        """Iterate over the UIDs of pods that leave, and still hold nodes: a gang waits for it, or has done so."""
        for each in self.under_way.values():
            yield from (pod.uid for pod in self._remaining(each))
        yield from (pod.uid for pod in self.on_the_way.leaving() if not self._is_gone(pod))

    def going(self) -> Iterator[tuple[str, float, list[str]]]:
        """Iterate over whose place is cleared, in how many seconds others are evicted at the latest, and which pods."""
        now = self._clock.monotonic()
        return ((uid, max(each.due - now, 0.0), [pod.uid for pod in each.pods]) for uid, each in self.under_way.items())

    def leaving_for(self, holder: GroupRef) -> PendingEviction | None:
        """Return for which gang's place members of a gang are to leave; None if they may stay."""
        pending = self._leaving_for.get(holder)
        return pending if pending is not None and self._remaining(pending) else None

    def progress(self, gang: Gang) -> Wait | None:
        """Return how far the place of a gang is cleared; None if none is, or if all have left."""
        pending = self.under_way.get(gang.uid)
        remaining = 0 if pending is None else len(self._remaining(pending))
        if pending is None or not remaining:
            return None
        until = "" if pending.sent else self.notices.until(each.gang for each in pending.evictions)
        notice = f"; they have notice until {until} at the latest" if until else ""
        return Wait(Reason.PREEMPTING, {"pods": remaining}, {"notice": notice})

    def start(
        self,
        claimant: Claimant,
        found: FoundPreemption,
        reasons: Mapping[str, EvictionReason],
        *,
        leaving: Iterable[str] = (),
        replaced: Iterable[str] = (),
    ) -> None:
        """Have those evicted who are in the way, for a reason each, once they have had their notice.

        `leaving` are pods that are being deleted anyway, and whose nodes or quota the gang gets. Of members that are to
        be `replaced` it has the quota, and does not wait for them.
        """
        gang, now = claimant.gang, self._clock.monotonic()
        evicted = [pod for each in found.evictions for pod in each.pods]
        uids = [pod.uid for pod in evicted]
        payers, gpus = payers_of(next(iter(gang.members.values()))), count_gpus(claimant.amounts.items())
        charge = Charge(
            *(gang.ref, claimant.queue, claimant.flavor, claimant.amounts),
            preemptible=not claimant.lasting,
            payers=payers,
            gpus=gpus,
        )
        leaving = list(dict.fromkeys(leaving))
        rights = QuotaRights(self._sharing, claimant)
        self._sharing.charges.promise(gang.uid, charge, [*uids, *filter(rights.concern, leaving), *replaced])
        pending = PendingEviction(
            gang,
            claimant.queue,
            Earmark.firm_for(gang, found.kept),
            found.evictions,
            reasons,
            due=now,
            until=math.inf,
            awaited=frozenset([*uids, *leaving]),
        )
        self._leaving_for |= {eviction.gang: pending for eviction in found.evictions}
        self.under_way[gang.uid] = pending
        self._model.gangs.touch_called(eviction.gang for eviction in found.evictions)
        self.not_cleared.pop(gang.uid, None)
        self.moved.end(gang.uid)  # that place was not enough
        pending.due = self._due(pending)
        if now >= pending.due:
            self._send(pending)
        if evicted:
            names = ", ".join(eviction.victim.name for eviction in found.evictions)
            message = f"clears its place of {in_number(evicted)} of {names}"
            self._effects.notes.append(Note(gang.ref, warning=False, reason="Preempting", message=message))

    def start_moves(self, claimant: Claimant, found: FoundMoves, reason: EvictionReason) -> None:
        """Have those evicted who can move out of the way, once they have had their notice; keep their new places."""
        reasons = {each.victim.uid: reason for each in found.preemption.evictions}
        self.start(claimant, found.preemption, reasons)
        notice = max((each.victim.notice for each in found.preemption.evictions), default=0.0)
        for destination in found.destinations:
            self.moved.keep(destination, notice + PATIENCE_SECONDS)

    def placed(self, gang: Gang) -> None:
        """Take in that a gang has been placed: evictions that were not sent yet are cancelled."""
        self._shelter(gang)
        self.end(gang.uid, "the gang was placed elsewhere")

    def _shelter(self, gang: Gang) -> None:
        """Note that others have left for a gang just now, if any have."""
        pending = self.under_way.get(gang.uid)
        if pending is None or not (pending.sent and pending.evictions):
            return
        now = self._clock.monotonic()
        self._sheltered = {of: until for of, until in self._sheltered.items() if now < until}
        self._sheltered[gang.ref] = now + _SHELTER_SECONDS

    def end(self, uid: str, why: str) -> None:
        """Keep a gang's place no more, if one is being cleared; who has not been evicted yet may stay."""
        pending = self.under_way.pop(uid, None)
        if pending is None:
            return
        self._sharing.charges.withdraw(uid)
        for eviction in pending.evictions:
            self._leaving_for.pop(eviction.gang, None)
        self._model.table.outdate()
        staying = self._spare(pending.pods)
        self._let_down(staying)
        for eviction in pending.evictions:
            if (gang := self._model.gangs.get(eviction.gang)) is not None:
                self._model.gangs.touch(gang.uid)
                self.notices.withdraw(gang, why)
            if not staying.isdisjoint(pod.uid for pod in eviction.pods):
                self.moved.end(eviction.victim.uid)
            if not pending.sent:
                about, message = eviction.gang, f"no pod is evicted: {why}"
                self._effects.notes.append(Note(about, warning=True, reason="EvictionCancelled", message=message))

    def _let_down(self, staying: AbstractSet[str]) -> None:
        """End the places for which pods were to leave that stay."""
        for uid, pending in list(self.under_way.items()) if staying else ():
            if not staying.isdisjoint(pending.awaited):
                self.end(uid, "a pod stays that was to leave")

    def may_stay(self, gang: Gang, why: str) -> None:
        """Take back that a gang is to be evicted for no other's sake, unless it leaves for another."""
        if gang.ref not in self._leaving_for:
            self.notices.withdraw(gang, why)
            self._spare(gang.members.values())

    def _spare(self, pods: Iterable[Pod]) -> set[str]:
        """Have those not evicted that are still there; return the UIDs of those that stay for certain."""
        staying = {pod.uid: pod for pod in pods if not self._is_gone(pod)}
        self._effects.spared.update(staying)
        self._effects.suspensions |= {each.workload.uid: None for each in self._model.workloads.of_pods(staying)}
        return self.on_the_way.spare(staying.values())

    def refused(self, uid: str, why: str) -> list[str]:
        """Take in that the API server refuses to evict a pod; return the UIDs of gangs whose place is given up."""
        self.on_the_way.turn_back(uid)
        concerned = [(each.gang, pod) for each in self.under_way.values() for pod in each.pods if pod.uid == uid]
        for gang, pod in concerned:
            self.end(gang.uid, f"a pod cannot be evicted: {why}")
            message = self.not_cleared[gang.uid] = f"its place is not cleared: {pod.key} cannot be evicted: {why}"
            self._effects.notes.append(Note(gang.ref, warning=True, reason="EvictionRefused", message=message))
        return [gang.uid for gang, _ in concerned]

    def stand_down(self) -> None:
        """Leave what is under way to the next leader."""
        for uid in self.under_way:
            self._sharing.charges.withdraw(uid)
        self.under_way.clear()
        self._leaving_for.clear()
        self.not_cleared.clear()
        self.moved.end_all()
        self.on_the_way.clear()

    def next_turn(self) -> float:
        """Return when time alone asks for something of those under way, or of places of those that move.

        In seconds (monotonic), inf for never.
        """
        turns = (each.until if each.sent else each.due for each in self.under_way.values())
        doubts = self.on_the_way.next_turn() if self.on_the_way.spared else math.inf
        others = (self.moved.next_end(), doubts, self.notices.next_turn(), self._draining_due)
        return min(min(turns, default=math.inf), *others)

    def evict_gang(self, gang: Gang, reason: EvictionReason, why: str, *, by: str = "") -> None:
        """Evict what is left of a gang, for no other's sake; of one that cannot go whole only what it can spare."""
        pods = [pod for pod in gang.ordered() if pod.stays]
        if not gang.preemptible:
            _, pods = split(gang, pods)
        self._evict(self._going(pods), by, reason, why, whole=gang.preemptible)
        self.notices.acted_on(gang)

    def evict_part(self, gang: Gang, pods: Iterable[Pod], reason: EvictionReason, why: str) -> None:
        """Evict some members of a gang, for no other's sake, but for such as are not to be evicted."""
        self._evict(self._going(pod for pod in pods if not gang.keeps(pod)), "", reason, why)

    def _going(self, pods: Iterable[Pod]) -> list[Pod]:
        return [pod for pod in pods if self._model.manages(pod) and pod.uid not in self._allowed.expected()]

    def replace_lost(
        self, gang: Gang, nodes: Mapping[str, str], seconds: float, reason: EvictionReason, why: str
    ) -> None:
        """Evict members whose new places are known (UID -> node), and keep these for so many seconds at most."""
        pods = [gang.members[uid] for uid in nodes]
        charge = next(filter(None, (self._sharing.charges.of(uid) for uid in nodes)), None)
        places = [(nodes[pod.uid], pod.shape) for pod in pods]
        queue, flavor = self._sharing.queue_of(gang), "" if charge is None else charge.flavor
        self.moved.add(gang, queue, flavor, places, seconds)
        self._evict([pod for pod in pods if not pod.deleting], "", reason, why)

    def drain(self) -> None:
        """Evict the gangs that run in queues which are to be drained, once they have had their notice."""
        now, before = self._clock.monotonic(), self.to_drain
        self._draining_due, self.to_drain = math.inf, {}
        for queue, holder in self._sharing.drained():
            why, reason = (
                f"because Queue {queue} is drained: its stopPolicy is HoldAndDrain",
                EvictionReason.QUEUE_DRAINED,
            )
            gang = self._model.gangs.get(holder)
            if gang is None:
                continue
            notice = own_notice(gang, self._sharing)
            staying = [pod for pod in gang.members.values() if pod.stays and not gang.keeps(pod)]
            due = self.notices.due(gang, staying, notice if staying else 0.0, reason, why)
            self.to_drain[gang.uid] = gang
            if due > now:
                self._draining_due = min(self._draining_due, due)
            else:
                self.evict_gang(gang, reason, why)
        for uid, gang in before.items():
            if uid not in self.to_drain:
                self.may_stay(gang, "its Queue is not drained any more")

    def _send(self, pending: PendingEviction) -> None:
        """Evict those that are to leave."""
        pending.sent, pending.until = True, self._clock.monotonic() + PATIENCE_SECONDS
        for eviction in pending.evictions:
            reason = pending.reasons[eviction.victim.uid]
            pods = [pod for pod in eviction.pods if not self._is_gone(pod)]
            gang, uids = self._model.gangs.get(eviction.gang), {pod.uid for pod in pods}
            whole = gang is not None and all(p.uid in uids for p in gang.members.values() if p.bound and not p.deleting)
            self._evict(pods, str(pending.gang.ref), reason, _purpose(pending, eviction), whole=whole)
            if gang is not None:
                self.notices.acted_on(gang)

    def _evict(self, pods: Sequence[Pod], by: str, reason: EvictionReason, why: str, *, whole: bool = False) -> None:
        """Have pods of one gang evicted; if that is the `whole` gang, its objects are suspended where they can be."""
        if not pods:
            return
        effects, about = self._effects, pods[0].group
        suspended = self._suspend(pods, reason) if whole else ()
        for pod in pods:
            if pod.uid not in suspended:
                effects.evictions[pod.uid] = Evict(pod, by, reason, f"evicted {why}")
        if (gang := self._model.gangs.get(about)) is not None:
            self.told[gang.uid] = f"{in_number(pods)} evicted {why}"
            effects.changed[about] = None
        self._allowed.allow(pod.uid for pod in pods)
        effects.notes.append(Note(about, warning=True, reason=reason, message=f"{in_number(pods)} evicted {why}"))

    def _suspend(self, pods: Sequence[Pod], reason: EvictionReason) -> Collection[str]:
        """Have the objects of pods suspended that can be; return the UIDs of the pods that leave by that."""
        leaving: dict[str, None] = {}
        for managed in self._model.workloads.of_pods({pod.uid: pod for pod in pods}):
            if managed.can_be_suspended:
                own = tuple(pod.uid for pod in pods if self._model.workloads.of(pod) is managed)
                leaving |= dict.fromkeys(own)
                wish = Suspension(managed.workload, suspend=True, reason=reason, pods=own)
                self._effects.suspensions[managed.workload.uid] = wish
        return leaving

    def _remaining(self, pending: PendingEviction) -> list[Pod]:
        """Return which of those that are to leave are still there."""
        return [pod for uid in pending.awaited if (pod := self._model.pods.get(uid)) is not None and pod.bound]

    def _is_kept(self, pod: Pod) -> bool:
        """Tell whether a pod that was to leave says by now that it is not to be evicted."""
        known, gang = self._model.pods.get(pod.uid), self._model.gangs.get(pod.group)
        return known is not None and not known.deleting and gang is not None and gang.keeps(known)

    def _is_gone(self, pod: Pod) -> bool:
        known = self._model.pods.get(pod.uid)
        return known is None or not known.bound or known.deleting


def _takes_no_pods(node: Node | None) -> bool:
    """Tell whether a node is lost, or gone."""
    return node is None or any(taint.key == LOST for taint in node.taints)


def _purpose(pending: PendingEviction, eviction: VictimEviction) -> str:
    """Say for which gang and by what right a gang is evicted."""
    gang = pending.gang
    match pending.reasons[eviction.victim.uid]:
        case EvictionReason.RECLAIMED:
            right = f"queue {pending.queue} reclaims its quota from queue {eviction.victim.queue}"
        case EvictionReason.FAIR_SHARING:
            right = f"queue {pending.queue} has less of its weighted share than queue {eviction.victim.queue}"
        case EvictionReason.DEFRAGMENTED:
            right = "to defragment, as was asked for"
        case EvictionReason.CONSOLIDATED:
            right = "it moves to make room for a larger one, and its new place is kept"
        case _:
            right = f"priority {gang.priority} over {eviction.victim.priority}"
    return f"for {gang.ref}: {right}"
