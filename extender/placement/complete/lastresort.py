"""Place pods that the quick ways have found no place for: on the nodes that the complete search finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Final

import numpy as np

from extender.cluster.tree import Tree
from extender.cluster.whatif import WhatIf
from extender.objects.keys import Packing
from extender.objects.pod import Pod, Shape
from extender.objects.topology import Objective
from extender.placement.candidates import Candidates, Groups, PlacementTerms, ScopeDomains, group_by_shape
from extender.placement.complete.completesearch import CompleteSearch, GaveUp, SeatPlan
from extender.placement.complete.nodekinds import order_of
from extender.placement.complete.regions import Steps

#: Steps that the searches for one answer may take: about 10 ms on one core. What they have computed is remembered, so
#: that the next answer goes on from there.
MOST_STEPS: Final = 2_000_000

#: Of these, one in so many for domains further in than any that is required: the pods would only be faster there.
_ONE_IN: Final = 4


def place_completely(
    pods: Sequence[Pod], whatif: WhatIf, candidates: Candidates, terms: PlacementTerms, most: int = MOST_STEPS
) -> SeatPlan | GaveUp | None:
    """Return a node for each pod and take it, None if there is no place, or how far the search came in `most` steps.

    Nothing is taken but for pods that have one. Deterministic: what counts is work, not time.
    """
    memory = {} if candidates.memory is None else candidates.memory
    groups = group_by_shape(pods)
    levels = _levels(groups, whatif, candidates, terms)
    inner, outer = Steps(most // _ONE_IN), Steps(most)
    far: GaveUp | None = None
    for level in levels:
        for each in _ways(terms, candidates.tree):
            steps = outer if level == levels[-1] else inner
            found = CompleteSearch(pods, groups, whatif, candidates, each, level, memory, steps).find()
            if isinstance(found, SeatPlan) and not take_seats(pods, found, whatif):
                found = GaveUp(0, 1)  # kubelets would have to admit them in an order that there is not
            if isinstance(found, SeatPlan):
                return found
            if isinstance(found, GaveUp) and level == levels[-1]:
                far = far or found
    return far


def _levels(groups: Groups, whatif: WhatIf, candidates: Candidates, terms: PlacementTerms) -> list[int]:
    """Return the levels of which one domain is to hold all pods, the most wanted first and the required one last."""
    levels = ScopeDomains(whatif, candidates, terms).levels(groups, candidates.settled)
    near = terms.packing is Packing.BINPACK and terms.topology.objective is not Objective.NONE
    if near and len(levels) == 1 and any(shape.whole_gpus for shape in groups):
        levels = list(range(candidates.tree.depth - 1, levels[-1], -1)) + levels
    return levels


def _ways(terms: PlacementTerms, tree: Tree) -> Iterator[PlacementTerms]:
    """Yield terms that together are no stricter than those given: with preferred domains of roles, wide ones or none.

    Slices of roles that share a domain are counted off by themselves: so members may find a place with it alone.
    """
    topology = terms.topology
    liked = [group for group in topology.role_groups if not group.required] if topology.slices else []
    for kept in (len(liked), *range(len(liked))):
        for firm in combinations(liked, kept):
            for wide in product((False, True), repeat=kept):
                at = {group: tree.levels.name(0) if far else group.level for group, far in zip(firm, wide, strict=True)}
                groups = tuple(
                    replace(group, level=at.get(group, group.level), required=group.required or group in at)
                    for group in topology.role_groups
                )
                yield replace(terms, topology=replace(topology, role_groups=groups))


def take_seats(pods: Sequence[Pod], seats: SeatPlan, whatif: WhatIf) -> bool:
    """Take what pods ask for on their rows, in an order in which kubelets admit them; return whether there is one."""
    mark, table = whatif.mark(), whatif.table
    by_row: dict[int, Counter[Shape]] = {}
    for pod in pods:
        by_row.setdefault(seats.rows[pod.uid], Counter())[pod.shape] += 1
    for row, counts in by_row.items():
        at, state = np.array([row], dtype=np.intp), int(whatif.states[row])
        moving = [
            shape
            for shape in counts
            if table.occupancy.concerns(shape) and table.occupancy.admit(state, shape) != state
        ]
        order = order_of(table.occupancy, state, moving, tuple(counts[shape] for shape in moving))
        if order is None:
            whatif.undo(mark)
            return False
        for shape, count in counts.items():
            whatif.take_from(at, table.vector(shape.requests), np.array([count], dtype=np.int64))
        for shape in (*(moving[index] for index in order), *(each for each in counts if each not in moving)):
            whatif.settle(at, shape, np.array([1 if shape in moving else counts[shape]], dtype=np.int64))
    return True
