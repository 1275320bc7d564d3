"""Members on lost nodes: the place for others in their stead is found first, then they are evicted.

For each gang with such members, those that hold nodes in the order of queues:

    is there another place for them, beside those that stay?         it is kept, and they are evicted
    would there be if others left that may be evicted for it?        these are evicted first
    is there one for the smallest unit that has to be together?      it is kept, and the unit is evicted
    else                                                             the gang waits, and says for what

So none is evicted for which there is no other place, however many nodes are lost. Those whose node is drained have
notice first (`Notices`), and their place is looked for again when that is over. What comes in their stead is placed
as any member: what is kept is for it alone. A pod on a node that does not answer is evicted as any other: it is gone
when its kubelet says so, or its node object is deleted, or tainted as out of service. Source: k8s.io/kubernetes
pkg/controller/podgc and tainteviction.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Final, Protocol

from extender.clock import Clock
from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel
from extender.cluster.nodehealth import NodeHealth
from extender.eviction.pending import PendingEvictions
from extender.eviction.policies import own_notice
from extender.eviction.preemptions import Preemptions
from extender.judge import CLEARABLE, Case, NoFit, judge
from extender.ledger.effects import CollectedEffects, EvictionReason
from extender.ledger.reservations import Reservations
from extender.objects.budget import Budgets
from extender.objects.node import SILENT_TAINTS
from extender.objects.pod import Pod
from extender.objects.podgroup import GroupRef
from extender.objects.reason import Reason, Wait
from extender.placement.capacityview import PodSet
from extender.placement.plan import Plan
from extender.placement.replacing import replaced, units
from extender.queues.order import position
from extender.queues.sharing import Sharing

#: Nodes that a reason names.
_MOST_NAMED: Final = 3

_OURS: Final = (Reason.NODES_LOST, Reason.REPAIRING)


class CaseMaker(Protocol):
    """Return the case of members of a gang in a queue, as things stand."""

    def __call__(self, pod_set: PodSet, queue: str) -> Case:
        """Return the case."""


@dataclass(slots=True)
class Repair:
    """Members that are being replaced: since when their nodes are lost (seconds, monotonic), the first first.

    `known` are the members that are not there in their stead. It is forgotten at `until`.
    """

    gang: Gang
    known: set[str]
    since: list[float]
    until: float


class Losses:
    """Follow members on lost nodes.

    Attributes:
        nodes: which nodes are lost, and since when (seconds, monotonic).
        open: gangs of which members are being replaced, by UID.
        told: gangs that say that members of them are lost, by UID.
        leaving: gangs that have notice as nodes of theirs are drained, by UID, and when it ends (seconds, monotonic).
        unplaced: how many members on lost nodes have no other place yet.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what is lost, and all by which it is replaced
        self,
        model: ClusterModel,
        sharing: Sharing,
        health: NodeHealth,
        budgets: Budgets,
        reservations: Reservations,
        pending_evictions: PendingEvictions,
        preemptions: Preemptions,
        seconds: float,
        clock: Clock,
        effects: CollectedEffects,
    ) -> None:
        """Start without any; a place is kept for so many `seconds`."""
        self._model = model
        self._sharing = sharing
        self._health = health
        self._budgets = budgets
        self._reservations = reservations
        self._pending_evictions = pending_evictions
        self._preemptions = preemptions
        self._seconds = seconds
        self._clock = clock
        self._effects = effects
        self.nodes: Mapping[str, float] = health.lost
        self._evicted: dict[str, float] = {}  # UID -> until when its new place is kept (monotonic)
        self.open: dict[str, Repair] = {}
        self.told: dict[str, Gang] = {}
        self.leaving: dict[str, tuple[Gang, float]] = {}
        self.unplaced = 0

    def bound(self, pod: Pod, gang: Gang) -> None:
        """Take in that a member is bound: where it replaces one, that took since its node was lost."""
        repair = self.open.get(gang.uid)
        if repair is None or pod.uid in repair.known:
            return
        repair.known.add(pod.uid)
        self._effects.repair_seconds.append(max(self._clock.monotonic() - heappop(repair.since), 0.0))
        if not repair.since:
            del self.open[gang.uid]

    def next_turn(self) -> float | None:
        """Return when the first new place is given up, for who is still there then, or the first notice ends, or None.

        In seconds (monotonic).
        """
        return min([*self._evicted.values(), *(due for _, due in self.leaving.values())], default=None)

    def pass_time(self) -> bool:
        """Tell whether a pass is due because time has passed."""
        turn = self.next_turn()
        return turn is not None and turn <= self._clock.monotonic()

    def repair(self, case_of: CaseMaker) -> Iterator[None]:
        """Find a place for each member on a lost node, and have those evicted that have one; yield after each gang."""
        self._begin()
        wounded, told, self.unplaced = self._wounded(), dict[str, Gang](), 0
        left, self.leaving = self.leaving, {}
        for gang, lost in sorted(wounded.values(), key=lambda each: position(each[0])):
            wait = self._replace(gang, lost, case_of)
            if wait is not None:
                self.unplaced += len(lost)
                told[gang.uid] = gang
                self._reservations.wait(gang, wait)
            yield
        for uid, repair in self.open.items():
            if uid not in told and not repair.gang.is_complete:
                told[uid] = repair.gang
                self._reservations.wait(repair.gang, Wait(Reason.REPAIRING, {"lost": len(repair.since)}))
        self._let_stay(left, told)
        self._take_back(told)
        self._let_go()

    def _begin(self) -> None:
        """Forget what has become of no account."""
        now, model = self._clock.monotonic(), self._model
        self._evicted = {uid: until for uid, until in self._evicted.items() if until > now and uid in model.pods}
        for uid, repair in list(self.open.items()):
            if self.nodes and self._pending_evictions.moved.forsake(uid, self.nodes):
                for pod in repair.gang.members.values():  # they need another place again
                    if pod.node_name in self.nodes:
                        self._evicted.pop(pod.uid, None)
            if model.gangs.get(repair.gang.ref) is not repair.gang or repair.until <= now:
                del self.open[uid]

    def _let_stay(self, left: Mapping[str, tuple[Gang, float]], told: Mapping[str, Gang]) -> None:
        """Take notice back from gangs whose nodes are not drained any more; what has no place now keeps what it has."""
        pending = self._pending_evictions
        for uid in left.keys() - self.leaving.keys():
            (gang, _), standing = left[uid], pending.notices.standing.get(uid)
            if standing is None or standing.over:
                continue
            if uid in told:
                self.leaving[uid] = gang, math.inf
            elif uid not in pending.to_drain:
                pending.may_stay(gang, "its nodes are not drained any more")

    def _take_back(self, told: dict[str, Gang]) -> None:
        """Let those wait no more that have no lost members any more; their own reason is found with the next pass."""
        for uid in self.told.keys() - told.keys():
            wait = self._reservations.waits.get(uid)
            if wait is not None and wait.reason in _OURS:
                self._reservations.wait(self.told[uid], None)
                self._model.gangs.touch(uid)
        self.told = told

    def _wounded(self) -> Mapping[GroupRef, tuple[Gang, list[Pod]]]:
        """Return the gangs with members on lost nodes that have no other place yet."""
        found: dict[GroupRef, tuple[Gang, list[Pod]]] = {}
        model = self._model
        for uid in self._on_lost_nodes():
            pod = model.pods.get(uid)
            if pod is None or not pod.bound or uid in self._evicted or not model.manages(pod):
                continue
            gang = model.gang_of(pod)
            if gang is None or (gang.ref.is_pod and not pod.controller):
                continue  # of a pod that is on its own nothing would come again
            if self._pending_evictions.leaving_for(gang.ref) is not None or self._waits_there(pod):
                continue
            lost = found.setdefault(gang.ref, (gang, []))[1]
            if not pod.deleting or self._is_awaited(gang, lost):
                lost.append(pod)
        return {ref: each for ref, each in found.items() if each[1]}

    def _waits_there(self, pod: Pod) -> bool:
        """Tell whether a pod is to stay on a node that does not answer: it tolerates that by name, without an end."""
        node = self._model.table.find(pod.node_name)
        taints = () if node is None else [each for each in node.taints if each.key in SILENT_TAINTS]
        lasting = [each for each in pod.shape.tolerations if each.key and not each.bounded]
        evicting = (replace(taint, effect="NoExecute") for taint in taints)
        return bool(taints) and all(any(each.tolerates(taint) for each in lasting) for taint in evicting)

    def _is_awaited(self, gang: Gang, lost: Sequence[Pod]) -> bool:
        """Tell whether something is to come in the stead of one that is being deleted, and has no place kept.

        So it is after a restart: who was evicted by the process before is found again as long as it is there. And so
        it is when the node is lost where the place was kept.
        """
        census, place = gang.census(), self._pending_evictions.moved.places.get(gang.uid)
        kept = sum(1 for pod in lost if pod.deleting) + (0 if place is None else len(place.places))
        return bool(census.bound or gang.uid in self.open) and gang.min_member - census.exist > kept

    def _on_lost_nodes(self) -> Iterator[str]:
        """Iterate over the UIDs of the pods on nodes that are lost and not on their way back."""
        for name in filter(self._health.is_failing, self.nodes):
            yield from (uid for uid, _ in self._model.table.claims_on(name))

    def _replace(self, gang: Gang, lost: Sequence[Pod], case_of: CaseMaker) -> Wait | None:
        """Find a place for lost members of a gang and have them evicted; return why there is none."""
        pending = self._pending_evictions
        if (underway := pending.progress(gang)) is not None:
            return underway
        first: NoFit | None = None
        for moving in units(gang, lost, self._model.table, self._model.tree):
            if not self._may_move(gang, lost, moving):
                continue
            queue = self._sharing.queue_of(gang)
            pod_set, whom = replaced(gang, moving, self._model.table, self._model.tree)
            with self._sharing.charges.without(pod.uid for pod in moving):
                case = case_of(pod_set, queue)
                case.replaced = tuple(pod.uid for pod in moving)
                if (kept := pending.moved.keeps().get(gang.uid)) is not None:
                    case.earmarks = (*case.earmarks, kept)  # that is for those that were lost before
                found = judge(case)
                if isinstance(found, NoFit) and first is None and self._clears(case, found):
                    return pending.progress(gang)
            if isinstance(found, Plan):
                if self._has_notice(gang, lost, moving):
                    return None
                self._move(gang, lost, {whom[uid].uid: node for uid, node in found.nodes.items()})
                return None
            first = first or found
            if self._preemptions.puts_off(gang.uid):
                break
        if gang.uid in pending.under_way:
            pending.end(gang.uid, "others have taken the place that was cleared")
        detail = "" if first is None else first.wait.message
        return Wait(Reason.NODES_LOST, {"lost": len(lost)}, {"nodes": _named(lost), "detail": detail})

    def _may_move(self, gang: Gang, lost: Sequence[Pod], moving: Sequence[Pod]) -> bool:
        """Tell whether those may be evicted that move with lost members."""
        others = [pod for pod in moving if pod not in lost]
        return not others or (gang.preemptible and self._budgets.allows(others))

    def _clears(self, case: Case, no_fit: NoFit) -> bool:
        """Have others evicted that may be for lost members; return whether their place is being cleared now."""
        if no_fit.wait.reason not in CLEARABLE or case.gang.uid in self._pending_evictions.under_way:
            return False
        return any(self._preemptions.attempt(case, option) for option in (*no_fit.nodes, *no_fit.quota))

    def _is_drained(self, lost: Iterable[Pod]) -> bool:
        return all(self._health.is_drained(pod.node_name) for pod in lost)

    def _has_notice(self, gang: Gang, lost: Sequence[Pod], moving: Sequence[Pod]) -> bool:
        """Tell members that leave a drained node, and return whether they may stay for now.

        On a node that does not answer nothing can be saved.
        """
        going = [pod for pod in moving if pod.stays]
        if not going or not self._is_drained(lost):
            return False
        why, now = f"because nodes are drained: {_named(lost)}", self._clock.monotonic()
        notices = self._pending_evictions.notices
        due = notices.due(gang, going, own_notice(gang, self._sharing), EvictionReason.NODE_DRAINED, why)
        if due > now:
            self.leaving[gang.uid] = gang, due
        return due > now

    def _move(self, gang: Gang, lost: Sequence[Pod], nodes: Mapping[str, str]) -> None:
        """Keep the places of members that move (UID -> node), and evict them."""
        now, since = self._clock.monotonic(), self.nodes
        self._preemptions.placed(gang)
        drained = self._is_drained(lost)
        fate, reason = ("drained", EvictionReason.NODE_DRAINED) if drained else ("lost", EvictionReason.NODE_LOST)
        why = f"because nodes are {fate}: {_named(lost)}; its new place is kept"
        if len(nodes) > len(lost):
            why = f"together with members whose nodes are {fate}: {_named(lost)}; their new places are kept"
        self._pending_evictions.replace_lost(gang, nodes, self._seconds, reason, why)
        self._pending_evictions.notices.acted_on(gang)
        self._evicted |= dict.fromkeys(nodes, now + self._seconds)
        known = gang.uid in self.open
        repair = self.open.setdefault(gang.uid, Repair(gang, set(gang.members), [], 0.0))
        repair.until = now + 2 * self._seconds
        first = min(since.get(pod.node_name, now) for pod in lost)
        for pod in (gang.members[uid] for uid in nodes):
            if not (known and pod.deleting):  # what is to come in its stead is counted already
                heappush(repair.since, since.get(pod.node_name, first))
        self._let_go()

    def _let_go(self) -> None:
        """Charge no quota for members that are being replaced, nor for pods that are being deleted on lost nodes."""
        pods = self._model.pods
        gone = {uid for uid in self._on_lost_nodes() if uid in pods and pods[uid].deleting}
        self._sharing.charges.let_go(frozenset(gone.union(self._evicted)))


def _named(pods: Iterable[Pod]) -> str:
    """Name the nodes of some pods: `a, b, c and 2 more`."""
    names = sorted({pod.node_name for pod in pods})
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
