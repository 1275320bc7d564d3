"""Ranking the nodes that take a pod which joins no others: where a gang of one could go instead, best first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from extender.cluster.whatif import WhatIf
from extender.objects.keys import Packing
from extender.objects.pod import Pod, Shape
from extender.objects.topology import TopologyRequest
from extender.placement.bags import Wanted
from extender.placement.candidates import Candidates, PlacementTerms, Ranking, ScopeDomains, slices_of
from extender.placement.room import clique_units, field_of, keys_of_one, room, strands
from extender.placement.search import Search


def rank_single(whatif: WhatIf, candidates: Candidates, terms: PlacementTerms, pod: Pod) -> Ranking | None:
    """Return the rows that take a pod which joins no others, and what compares them; None if none does.

    Domains decide only which nodes it may go to, and which come first: what lies further out is no faster than a node,
    and no tighter. In this order: that the node has a domain of the level that is preferred, that it is none
    of those that are used last; then for a pod with GPUs
    what `Search` compares nodes by, for one that has none, or is to be spread, what `pack` does.
    """
    tree, shape = candidates.tree, pod.shape
    domains = _domains_of(pod, ScopeDomains(whatif, candidates, terms), candidates, terms.topology)
    if domains is None:
        return None
    required, preferred = domains
    inside = candidates.eligible(shape)
    for level in required:
        inside = inside & (tree.path(level) >= 0)
    within = candidates.within(inside)
    if shape.whole_gpus and terms.packing is not Packing.SPREAD:
        ranking = _rank_by_bandwidth(whatif, within, terms, shape)
    else:
        ranking = _rank_by_room(whatif, within, terms, shape, (*preferred, *required))
    if not ranking.nodes.shape[0]:
        return None
    wishes = [tree.path(level)[ranking.nodes] < 0 for level in preferred]
    if candidates.sparing([shape]) is not None and candidates.avoided is not None:
        wishes.append(candidates.avoided(shape)[ranking.nodes])
    return replace(ranking, keys=(*wishes, *ranking.keys))


def _domains_of(
    pod: Pod, domains: ScopeDomains, candidates: Candidates, topology: TopologyRequest
) -> tuple[list[int], list[int]] | None:
    """Return the levels of which a pod's node must have a domain, and of which it rather has one, most wanted first.

    None if there is no such level.
    """
    tree, role = candidates.tree, pod.role
    levels = domains.levels({pod.shape: [pod]}, ())
    if not levels:
        return None
    required, preferred = [levels[-1], *(level for level, _ in slices_of(topology, role, tree))], levels[:-1]
    for group in topology.role_groups:
        if role in group.roles and (level := tree.levels.find(group.level)) is not None:
            (required if group.required else preferred).append(level)
    return [level for level in required if level >= 0], [level for level in preferred if level >= 0]


def _rank_by_bandwidth(whatif: WhatIf, candidates: Candidates, terms: PlacementTerms, shape: Shape) -> Ranking:
    """Rank nodes as the search for a gang ranks those that hold all of it."""
    field = field_of(whatif, candidates.tree, shape, candidates.eligible(shape), {})
    search = Search(field, Wanted(1, field.gpus, terms.topology.objective), *clique_units(field, whatif, pods=1))
    ranking = search.rank_nodes(np.ones(field.rows.shape[0], dtype=np.bool_))
    return replace(ranking, nodes=field.rows[ranking.nodes])


def _rank_by_room(
    whatif: WhatIf, candidates: Candidates, terms: PlacementTerms, shape: Shape, levels: Sequence[int]
) -> Ranking:
    """Rank nodes as `pack` ranks them for one pod more: in the tightest domain of `levels`, the roomiest if spread."""
    table, tree, counts = whatif.table, candidates.tree, room(whatif, shape, candidates.eligible(shape))
    rows = np.flatnonzero(counts)
    sign = -1 if terms.packing is Packing.SPREAD else 1
    domains = []
    for level in levels:
        path = tree.path(level)[rows]
        domains.append(np.where(path >= 0, sign * tree.sums(level, counts)[path], 0))
    stranded = strands(table, table.vector(shape.requests))[rows]
    return Ranking(rows, (*domains, *keys_of_one(counts[rows], terms.packing, stranded)), table.order()[rows])
