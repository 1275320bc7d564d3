"""Moves of running gangs that would make a waiting gang fit: on request only, and shown before anything is done."""

from __future__ import annotations

from dataclasses import dataclass, replace

from extender.clock import Clock
from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel
from extender.eviction.pending import PendingEvictions
from extender.eviction.policies import Claimant, Policies
from extender.eviction.search.search import FoundPreemption, search
from extender.eviction.search.units import Victim
from extender.judge import Case, judge_quota, place
from extender.ledger.effects import EvictionReason
from extender.objects.budget import Budgets
from extender.objects.podgroup import GroupRef
from extender.placement.capacityview import PodSet, PodSetRequest
from extender.placement.plan import Plan
from extender.queues.sharing import Option, Sharing

#: How often gangs that would have nowhere to go are left out of the search.
_MOST_ATTEMPTS = 16


@dataclass(frozen=True, slots=True)
class Move:
    """A gang, or a pod without one, that would have to move: how many pods, from which nodes to which."""

    name: str
    pods: int
    origins: tuple[str, ...]
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Defragmentation:
    """Whether a gang would fit, after which moves; `reason` says why not."""

    fits: bool
    moves: tuple[Move, ...] = ()
    reason: str = ""


class Defragmenter:
    """Look for moves, none of which costs a gang anything but time: every gang that moves has a place to go to."""

    def __init__(
        self, model: ClusterModel, sharing: Sharing, budgets: Budgets, pending_evictions: PendingEvictions, clock: Clock
    ) -> None:
        """Look at `model`; moves that are to be made go through `pending_evictions`."""
        self._model = model
        self._budgets = budgets
        self._pending_evictions = pending_evictions
        self._clock = clock
        self._policies = Policies(model, sharing)

    def run(self, case: Case, *, apply: bool) -> Defragmentation:
        """Return the moves after which a gang would be placed; with `apply` have those evicted who are to move.

        Quota, queues and what is kept for others count as in every decision about it: moves change none of them.
        """
        gang = case.gang
        if not gang.unplaced_count or gang.has_minimum:
            reason = "" if gang.has_minimum else "no member waits for a node"
            return Defragmentation(fits=gang.has_minimum, reason=reason)
        without_quota = judge_quota(case)
        if without_quota is not None:
            return Defragmentation(fits=False, reason=without_quota.message)
        for option in (offer.option for offer in case.offers if offer.shortage is None and not offer.saved_for):
            found = self._search(case, option)
            if found is None:
                continue
            preemption, moves = found
            if apply and preemption.evictions:
                claimant = Claimant.of(case, option)
                self._pending_evictions.end(gang.uid, "moves were asked for instead")
                reasons = dict.fromkeys((each.victim.uid for each in preemption.evictions), EvictionReason.DEFRAGMENTED)
                self._pending_evictions.start(claimant, preemption, reasons)
            return Defragmentation(fits=True, moves=moves)
        return Defragmentation(
            fits=False, reason="no moves make it fit such that every gang that moves has another place"
        )

    def _search(self, case: Case, option: Option) -> tuple[FoundPreemption, tuple[Move, ...]] | None:
        """Search for moves, leaving out one gang after the other that would have nowhere to go."""
        moving = replace(case, quota=None)  # it does not change by moving within the cluster
        victims = self._movable(case.gang)
        for _ in range(_MOST_ATTEMPTS):
            found = search(moving, option, victims, self._budgets)
            if found is None:
                return None
            stuck, moves = self._replace(found, case)
            if stuck is None:
                return found, moves
            victims = [victim for victim in victims if victim.uid != stuck.uid]
        return None

    def _movable(self, gang: Gang) -> list[Victim]:
        """Return every gang that may be evicted and whose eviction has not begun."""

        def spared(holder: GroupRef) -> bool:
            return holder == gang.ref or self._pending_evictions.leaving_for(holder) is not None

        return self._policies.all_victims(spared, self._clock.now().timestamp())

    def _replace(self, found: FoundPreemption, case: Case) -> tuple[Victim | None, tuple[Move, ...]]:
        """Place the gangs that move beside the gang; return the first that has no place, or all moves."""
        moves = []
        with case.view(Option()).without(pod.uid for each in found.evictions for pod in each.pods) as left:
            left.take(case.pod_set.pods, found.plan.nodes)
            for eviction in found.evictions:
                pods, gang = eviction.pods, self._model.gangs.get(eviction.gang)
                if gang is None:
                    return eviction.victim, ()
                request = PodSetRequest.of_members(gang, pods)
                pod_set = PodSet(gang, request, _pods=list(pods))
                result = place(Case(pod_set, eviction.victim.queue, case.views, planner=case.planner), left)
                if not isinstance(result, Plan):
                    return eviction.victim, ()
                left.take(pods, result.nodes)
                origins = tuple(sorted({pod.node_name for pod in pods}))
                moves.append(Move(eviction.victim.name, len(pods), origins, tuple(sorted(set(result.nodes.values())))))
        return None, tuple(moves)
