"""Why a gang is where it is: how else it could have been placed, as things stand now.

Plans are not kept. So what is told is not what the pass saw when it chose, but what it would see if it chose now, with
the gang's own places free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from extender.admission.explaining.obstacles import nodes_in_words
from extender.admission.explaining.scene import Scene
from extender.admission.site import Capacity
from extender.cluster.whatif import WhatIf
from extender.domain.pod import Shape
from extender.domain.topology import Objective
from extender.placement.placement import Placement
from extender.placement.room import room


@dataclass(frozen=True, slots=True)
class Reach:
    """Of how many domains of one level any one would hold the whole gang."""

    level: str
    domains: int
    holding: int


@dataclass(frozen=True, slots=True)
class Choice:
    """What could have been chosen for a gang with places.

    `considered` counts the nodes that would take a member, `nodes` all there are; `reaches` are from the outermost
    level to the node; `lines` say it to people.
    """

    considered: int
    nodes: int
    members: int
    reaches: tuple[Reach, ...]
    lines: tuple[str, ...]


_COLLECTIVES: Final = {
    Objective.ALLREDUCE: "the fastest all-reduce",
    Objective.ALLTOALL: "the fastest all-to-all",
    Objective.NONE: "the least loss for others, whatever its own bandwidth",
}


def places_of(scene: Scene) -> dict[str, str]:
    """Return pod UID -> node of the members of the gang that have a node, or one promised."""
    claim_of = scene.table.claim_of
    return {uid: claim.node for uid in scene.gang.members if (claim := claim_of(uid)) is not None}


def choice_of(scene: Scene, placement: Placement | None) -> Choice | None:
    """Return what could have been chosen for a gang that has places; None for one without."""
    table, tree = scene.table, scene.tree
    places = places_of(scene)
    shapes = Counter(claim.shape for uid in places if (claim := table.claim_of(uid)) is not None)
    if placement is None or not shapes:
        return None
    site = scene.site(scene.option)
    free = WhatIf(table, site.snapshot(Capacity.FREE).free)
    free.vacate(places)
    eligible = scene.eligible(site)
    rooms: Mapping[Shape, NDArray[np.int64]] = {shape: room(free, shape, eligible(shape)) for shape in shapes}
    considered = int(np.logical_or.reduce([each > 0 for each in rooms.values()]).sum())
    reaches = []
    for level in range(tree.depth + 1):
        held = [np.minimum(tree.sums(level, np.minimum(rooms[shape], n)), n) >= n for shape, n in shapes.items()]
        domains = len(tree.names[level]) if level < tree.depth else len(table)
        reaches.append(Reach(tree.levels.name(level), domains, int(np.logical_and.reduce(held).sum())))
    members = len(places)
    lines = _lines(scene, Choice(considered, len(table), members, tuple(reaches), ()), placement)
    return Choice(considered, len(table), members, tuple(reaches), lines)


def _lines(scene: Scene, found: Choice, placement: Placement) -> tuple[str, ...]:
    topology = scene.gang.topology
    all_of_it = "all members" if found.members > 1 else "it"
    reaches = [
        f"level {each.level}: {each.holding:,} of {each.domains:,} would hold {all_of_it}" for each in found.reaches
    ]
    wanted = _COLLECTIVES[topology.objective]
    if topology.required:
        wanted += f", all in one {topology.required}"
    elif topology.preferred:
        wanted += f", in one {topology.preferred} if one has room"
    taking = f"{found.considered:,} of {nodes_in_words(found.nodes)} would take a member"
    return (
        f"as things stand now, with its own places free: {taking}",
        *reaches,
        f"chosen for {wanted}, then for what others lose least by: {placement.fragmentation:,.0f} GB/s",
    )
