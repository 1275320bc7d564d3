"""Moves: which gangs and pods can go elsewhere such that another gets their place, and where they go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from extender.cluster.model import ClusterModel
from extender.eviction.search.choosing import BudgetCheck
from extender.eviction.search.search import FoundPreemption, search
from extender.eviction.search.units import Victim, VictimEviction
from extender.judge import Case, joined, place
from extender.placement.capacityview import CapacityView, PodSet, PodSetRequest, settled_on
from extender.placement.plan import Plan
from extender.queues.sharing import Option, Sharing

#: How often gangs that would have nowhere to go are left out of the search.
_MOST_ATTEMPTS = 16


@dataclass(frozen=True, slots=True)
class Move:
    """Who would have to move: how many pods of a gang, or a pod without one, from which nodes to which."""

    name: str
    pods: int
    origins: tuple[str, ...]
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the pods of a victim go that are to move: a node for the UID of each."""

    eviction: VictimEviction
    nodes: Mapping[str, str]

    @property
    def move(self) -> Move:
        """Return what people are told."""
        pods = self.eviction.pods
        origins, targets = {pod.node_name for pod in pods}, set(self.nodes.values())
        return Move(self.eviction.victim.name, len(pods), tuple(sorted(origins)), tuple(sorted(targets)))


@dataclass(frozen=True, slots=True)
class FoundMoves:
    """The evictions and the plan of the gang that gets the place, and where those go who are evicted."""

    preemption: FoundPreemption
    destinations: tuple[Destination, ...]

    @property
    def moves(self) -> tuple[Move, ...]:
        """Return what people are told."""
        return tuple(each.move for each in self.destinations)


class MoveSearch:
    """Search for moves, none of which costs a gang anything but time: every one that moves has a place to go to."""

    def __init__(self, model: ClusterModel, sharing: Sharing) -> None:
        """Look at `model`, and at the flavors of `sharing`, in which those stay who move."""
        self._model = model
        self._sharing = sharing

    def find(self, case: Case, option: Option, movable: Sequence[Victim], budgets: BudgetCheck) -> FoundMoves | None:
        """Return moves of some of the `movable` after which a gang is placed in one flavor; None if there are none.

        Those that would have nowhere to go are left out of the search one after the other.
        """
        moving = replace(case, quota=None)  # it does not change by moving within the cluster
        for _ in range(_MOST_ATTEMPTS):
            found = search(moving, option, movable, budgets)
            if found is None:
                return None
            destinations = self._replace(found, case)
            if not isinstance(destinations, Victim):
                return FoundMoves(found, destinations)
            movable = [victim for victim in movable if victim.uid != destinations.uid]
        return None

    def _replace(self, found: FoundPreemption, case: Case) -> Victim | tuple[Destination, ...]:
        """Place those that move beside the gang; return the first that has no place, or the places of all."""
        destinations = []
        with case.view(Option()).without(pod.uid for each in found.evictions for pod in each.pods) as left:
            left.take(case.pod_set.pods, found.plan.nodes)
            for eviction in found.evictions:
                plan = self._place(eviction, case, left)
                if plan is None:
                    return eviction.victim
                left.take(eviction.pods, plan.nodes)
                destinations.append(Destination(eviction, plan.nodes))
        return tuple(destinations)

    def _place(self, eviction: VictimEviction, case: Case, left: CapacityView) -> Plan | None:
        """Return where pods that move find a place on what is left, on nodes of the flavor that they have quota of."""
        pods, victim, gang = eviction.pods, eviction.victim, self._model.gangs.get(eviction.gang)
        if gang is None:
            return None
        pod_set = PodSet(gang, PodSetRequest.of_members(gang, pods), _pods=list(pods))
        if len(pods) < gang.placed_count:  # it runs on, and they stay with the others
            pod_set.settled = settled_on(gang, self._model.table)
            pod_set = joined(pod_set, self._model.table, self._model.tree)
        selector = self._sharing.tree.node_selector(victim.queue, victim.flavor) if victim.flavor else ()
        there = left.on_nodes(*case.views.filters(selector)) if selector else left
        result = place(Case(pod_set, victim.queue, case.views, planner=case.planner), there)
        return result if isinstance(result, Plan) else None
