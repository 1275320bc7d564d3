"""The cluster as it was when somebody asked about a gang: a copy, read in a thread of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from extender.admission.explaining.material import Material
from extender.admission.explaining.obstacles import ADMITTED, Obstacles, find_obstacles
from extender.admission.keep import Keep, withhold
from extender.admission.sharing import Option
from extender.admission.site import Party, Site
from extender.admission.vetoes import leave_out
from extender.cluster.core import core
from extender.cluster.gangs import Gang
from extender.cluster.nodekinds import whole_gpus
from extender.cluster.table import NodeTable
from extender.cluster.tree import Tree
from extender.domain.pod import Pod, Shape
from extender.domain.selectors import Selector
from extender.domain.taints import Toleration
from extender.placement.ground import Eligible, without


class Scene:
    """What a pass would find that judged the gang alone, with all that it keeps off for others.

    Whatever is tried on it has no consequences.

    Attributes:
        material: what was gathered.
        table: the nodes.
        tree: which domain every node is in.
        gang: the gang.
    """

    def __init__(self, material: Material) -> None:
        """Look at the copies of `material`. Complexity: O(members)."""
        self.material = material
        self.table: NodeTable = material.table
        self.tree: Tree = material.tree
        self.gang: Gang = material.gang()
        self._admittance = _Admittance(self.table)
        self._sites: dict[Option, Site] = {}

    @cached_property
    def party(self) -> Party | None:
        """Return the members that the gang needs next, None if it needs none."""
        demand = self.material.demand
        if demand is None:
            return None
        pods = self._gated()[: demand.pods] if self.material.gated else core(self.gang, demand.pods)
        return Party(self.gang, demand, self.settled, _pods=pods)

    @cached_property
    def settled(self) -> Mapping[int, int]:
        """Return how many GPUs members of the gang that have a node, or one promised, have on which row."""
        settled: dict[int, int] = {}
        for uid in self.gang.members:
            claim = self.table.claim_of(uid)
            row = None if claim is None else self.table.row(claim.node)
            if claim is not None and row is not None:
                settled[row] = settled.get(row, 0) + whole_gpus(claim.shape)
        return settled

    @cached_property
    def option(self) -> Option:
        """Return the nodes that the gang is explained on: of its first flavor with quota, else of its first."""
        offered = self.material.options
        if not offered:
            return Option()
        return min(offered, key=lambda each: (each.lack is not None, each.lack is not None and each.lack.ever)).option

    def obstacles(self, shape: Shape) -> Obstacles:
        """Return what keeps pods of `shape` off each node, whatever is free there."""
        return self._admittance.obstacles(shape)

    def flavor(self, option: Option) -> NDArray[np.bool_]:
        """Return (rows,) which nodes have the labels of an option's flavor."""
        return self._admittance.flavor(option)

    def site(self, option: Option) -> Site:
        """Return where pods could go in an option, beside what is kept for others."""
        if option not in self._sites:
            possible = self._admittance.within(option)
            rejected = self.material.rejected
            admitted = without(possible, lambda shape: rejected.get(shape, ())) if rejected else possible
            self._sites[option] = Site(self, self.kept, admitted, possible)
        return self._sites[option]

    def eligible(self, site: Site) -> Eligible:
        """Return which nodes of a site admit a shape and were not refused to the gang by kube-scheduler."""
        return leave_out(site.admitted, self.material.vetoed)

    @cached_property
    def kept(self) -> NDArray[np.int64] | None:
        """Return (resources, rows) of what is kept for others, None if that is nothing."""
        return self.withheld(self.material.keeps)

    def withheld(self, keeps: Iterable[Keep]) -> NDArray[np.int64] | None:
        """Return (resources, rows) of all that is kept, None if that is nothing."""
        total = None
        for keep in keeps:
            if total is None:
                total = np.zeros((len(self.table.resources), self.table.rows), dtype=np.int64)
            withhold(total, -keep.kept)
        return total

    def _gated(self) -> list[Pod]:
        return [pod for pod in self.gang.ordered() if pod.gated and not (pod.deleting or pod.done or pod.node_name)]


class _Admittance:
    """Whom the nodes of a table admit. Apart from the scene, so that nothing here refers to what refers to it."""

    def __init__(self, table: NodeTable) -> None:
        """Look at the nodes of `table`, which stay as they are."""
        self._table = table
        self._obstacles: dict[tuple[Selector, tuple[Toleration, ...]], Obstacles] = {}
        self._flavors: dict[tuple[tuple[str, str], ...], NDArray[np.bool_]] = {}

    def obstacles(self, shape: Shape) -> Obstacles:
        """Return what keeps pods of `shape` off each node."""
        key = (shape.selector, shape.tolerations)
        if key not in self._obstacles:
            self._obstacles[key] = find_obstacles(self._table, *key)
        return self._obstacles[key]

    def flavor(self, option: Option) -> NDArray[np.bool_]:
        """Return (rows,) which nodes have the labels of an option's flavor."""
        wanted, table = option.selector, self._table
        if wanted not in self._flavors:
            mask = np.zeros(table.rows, dtype=np.bool_)
            rows = np.flatnonzero(table.present[: table.rows])
            mask[rows] = [all(node.labels.get(key) == value for key, value in wanted) for node in table.nodes()]
            self._flavors[wanted] = mask
        return self._flavors[wanted]

    def within(self, option: Option) -> Eligible:
        """Return which nodes of an option admit a shape, whatever their kubelets turned away."""
        masks: dict[Shape, NDArray[np.bool_]] = {}

        def admits(shape: Shape) -> NDArray[np.bool_]:
            if shape not in masks:
                mask: NDArray[np.bool_] = self.obstacles(shape).codes == ADMITTED
                mask &= self._table.present[: self._table.rows]
                masks[shape] = mask & self.flavor(option) if option.selector else mask
            return masks[shape]

        return admits
