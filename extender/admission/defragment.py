"""Moves of running gangs that would make a waiting gang fit: on request only, and shown before anything is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from extender.admission.budgets import Budgets
from extender.admission.charges import Holder
from extender.admission.clearances import Clearances
from extender.admission.effects import EvictionReason
from extender.admission.sharing import Option, Sharing
from extender.admission.site import Demand, Party
from extender.admission.victims import Claimant, Policies
from extender.clock import Clock
from extender.cluster.core import core_size
from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel
from extender.cluster.whatif import WhatIf
from extender.domain.pod import Pod
from extender.domain.quantity import format_amount
from extender.placement.ground import Eligible, Ground, Terms
from extender.placement.plan import Plan, plan
from extender.preemption.search import Eviction, Preemption, search
from extender.preemption.victim import Victim

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
    """Look for moves, none of which takes anything from anybody but time: whoever moves has a place to go to."""

    def __init__(
        self, model: ClusterModel, sharing: Sharing, budgets: Budgets, clearances: Clearances, clock: Clock
    ) -> None:
        """Look at `model`; moves that are to be made go through `clearances`."""
        self._model = model
        self._sharing = sharing
        self._budgets = budgets
        self._clearances = clearances
        self._clock = clock
        self._policies = Policies(model, sharing)

    def run(self, gang: Gang, admitted: Eligible, *, apply: bool) -> Defragmentation:
        """Return the moves that would make a gang fit; with `apply` have those evicted who are to move.

        `admitted` says which nodes admit a shape.
        """
        self._sharing.charges.refresh()
        if not gang.unplaced_count or gang.has_minimum:
            return Defragmentation(
                fits=gang.has_minimum, reason="" if gang.has_minimum else "no member waits for a node"
            )
        party = Party(gang, Demand.of_gang(gang, core_size(gang, 0)))
        queue, amounts = self._sharing.queue_of(gang), party.amounts
        if unusable := self._sharing.unusable(queue, gang.ref.namespace):
            return Defragmentation(fits=False, reason=unusable.message)
        reason = "its queue has no flavor for it"
        for option in self._sharing.options(queue, amounts):
            lack = self._sharing.lack(queue, option, amounts)
            if lack is not None:
                left, asked = (format_amount(lack.resource, each) for each in (max(lack.available, 0), lack.asked))
                reason = f"Queue {lack.queue} lacks quota: {left} of {asked} {lack.resource} are left"
                continue
            found = self._search(party, option, admitted)
            if found is None:
                reason = "no moves make it fit, such that whoever moves has another place"
                continue
            preemption, moves = found
            if apply and preemption.evictions:
                claimant = Claimant(gang, queue, option.flavor, amounts, kind=None)
                self._clearances.end(gang.uid, "moves were asked for instead")
                reasons = dict.fromkeys((each.victim.uid for each in preemption.evictions), EvictionReason.DEFRAGMENTED)
                self._clearances.start(claimant, preemption, reasons)
            return Defragmentation(fits=True, moves=moves)
        return Defragmentation(fits=False, reason=reason)

    def _search(self, party: Party, option: Option, admitted: Eligible) -> tuple[Preemption, tuple[Move, ...]] | None:
        """Search for moves, leaving out one after the other whoever would have nowhere to go."""
        table, tree, terms = self._model.table, self._model.tree, party.demand.terms
        eligible = self._sharing.within(admitted, option)
        victims = self._movable(party.gang)
        for _ in range(_MOST_ATTEMPTS):
            ground = Ground(tree, eligible)
            found = search(party.pods, WhatIf(table), ground, terms, victims, _Anything(), self._budgets)
            if found is None:
                return None
            stuck, moves = self._replace(found, admitted)
            if stuck is None:
                return found, moves
            victims = [victim for victim in victims if victim.uid != stuck.uid]
        return None

    def _movable(self, gang: Gang) -> list[Victim]:
        """Return every gang that may be evicted and whose eviction nobody has begun."""

        def spared(holder: Holder) -> bool:
            return holder == gang.ref or self._clearances.leaving_for(holder) is not None

        return self._policies.everybody(spared, self._clock.now().timestamp())

    def _replace(self, found: Preemption, admitted: Eligible) -> tuple[Victim | None, tuple[Move, ...]]:
        """Place whoever moves beside the gang; return the first that has no place, or all moves."""
        table, tree = self._model.table, self._model.tree
        left = WhatIf(table)
        left.vacate([pod.uid for each in found.evictions for pod in each.pods])
        left.free -= found.kept
        moves = []
        for eviction in found.evictions:
            pods, terms = self._going(eviction)
            result = plan(pods, left, Ground(tree, admitted), terms)
            if not isinstance(result, Plan):
                return eviction.victim, ()
            origins = tuple(sorted({pod.node_name for pod in pods}))
            moves.append(Move(eviction.victim.name, len(pods), origins, tuple(sorted(set(result.nodes.values())))))
        return None, tuple(moves)

    def _going(self, eviction: Eviction) -> tuple[Sequence[Pod], Terms]:
        """Return the pods that have to find another place, and how they want to be placed."""
        gang = self._model.gang_of(eviction.pods[0])
        return eviction.pods, Terms() if gang is None else Terms(gang.packing, gang.topology)


class _Anything:
    """Quota does not change by moving within the cluster."""

    def allows(self, evicted: Sequence[tuple[Victim, Sequence[Pod]]]) -> bool:  # noqa: ARG002 - the protocol's
        """Allow everything."""
        return True
