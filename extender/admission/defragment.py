"""Moves of running gangs that would make a waiting gang fit, on request: shown before anything is done."""

from __future__ import annotations

from dataclasses import dataclass

from extender.clock import Clock
from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel
from extender.eviction.moves import Move, MoveSearch
from extender.eviction.pending import PendingEvictions
from extender.eviction.policies import Claimant, Policies
from extender.eviction.search.units import Victim
from extender.judge import Case, judge_quota
from extender.ledger.effects import EvictionReason
from extender.objects.budget import Budgets
from extender.objects.podgroup import GroupRef
from extender.queues.sharing import Sharing


@dataclass(frozen=True, slots=True)
class Defragmentation:
    """Whether a gang would fit, after which moves; `reason` says why not, or what is done for it already."""

    fits: bool
    moves: tuple[Move, ...] = ()
    reason: str = ""


class Defragmenter:
    """Answer which moves would make a gang fit, and have them made if that is asked for."""

    def __init__(
        self, model: ClusterModel, sharing: Sharing, budgets: Budgets, pending_evictions: PendingEvictions, clock: Clock
    ) -> None:
        """Look at `model`; moves that are to be made go through `pending_evictions`."""
        self._budgets = budgets
        self._pending_evictions = pending_evictions
        self._clock = clock
        self._policies = Policies(model, sharing)
        self._search = MoveSearch(model, sharing)

    def run(self, case: Case, *, apply: bool) -> Defragmentation:
        """Return the moves after which a gang would be placed; with `apply` have those evicted who are to move.

        Quota, queues and what is kept for others count as in every decision about it: moves change none of them.
        """
        gang = case.gang
        if not gang.unplaced_count or gang.has_minimum:
            reason = "" if gang.has_minimum else "no member waits for a node"
            return Defragmentation(fits=gang.has_minimum, reason=reason)
        if (underway := self._pending_evictions.progress(gang)) is not None:
            return Defragmentation(fits=True, reason=underway.message)
        without_quota = judge_quota(case)
        if without_quota is not None:
            return Defragmentation(fits=False, reason=without_quota.message)
        movable = self._movable(gang)
        for option in (offer.option for offer in case.offers if offer.shortage is None and not offer.saved_for):
            found = self._search.find(case, option, movable, self._budgets)
            if found is None:
                continue
            if apply and found.destinations:
                self._pending_evictions.end(gang.uid, "moves were asked for instead")
                self._pending_evictions.start_moves(Claimant.of(case, option), found, EvictionReason.DEFRAGMENTED)
            return Defragmentation(fits=True, moves=found.moves)
        return Defragmentation(
            fits=False, reason="no moves make it fit such that every gang that moves has another place"
        )

    def _movable(self, gang: Gang) -> list[Victim]:
        """Return every gang that may be evicted and whose eviction has not begun."""

        def spared(holder: GroupRef) -> bool:
            return holder == gang.ref or self._pending_evictions.leaving_for(holder) is not None

        return self._policies.all_victims(spared, self._clock.now().timestamp())
