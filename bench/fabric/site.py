"""A cluster in which somebody places gangs: what stands where, and what that is worth."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import numpy as np

from bench.fabric.bestfit import best_fit
from bench.fabric.clusters import Cluster, Job
from bench.placement import GPU
from extender.cluster.table import NodeTable
from extender.cluster.tree import build
from extender.cluster.whatif import WhatIf
from extender.objects.pod import Pod
from extender.objects.topology import Objective, PlacementGoal
from extender.placement.candidates import Candidates, Eligibility, PlacementTerms
from extender.placement.placement import describe
from extender.placement.plan import Plan, plan

Nodes: TypeAlias = Mapping[str, str]
"""Pod UID -> node name."""

Planner: TypeAlias = Callable[[Sequence[Pod], WhatIf, Candidates], Nodes | None]
"""Says where pods go, None if they have no room."""

#: GPUs of a node whose being free counts.
_WHOLE = 8


def muster(pods: Sequence[Pod], whatif: WhatIf, candidates: Candidates) -> Nodes | None:
    """Place pods as Muster does."""
    found = plan(pods, whatif, candidates, PlacementTerms())
    return found.nodes if isinstance(found, Plan) else None


def by_count(pods: Sequence[Pod], whatif: WhatIf, candidates: Candidates) -> Nodes | None:
    """Place pods as the reference does."""
    return best_fit(pods, whatif, candidates)


class Site:
    """One planner's cluster."""

    def __init__(self, cluster: Cluster, goal: PlacementGoal = PlacementGoal.BALANCED) -> None:
        """Build it, with what runs there already; `goal` is what Muster chooses places for."""
        self.table = NodeTable()
        for node in cluster.nodes:
            self.table.upsert(node)
        for job, names in cluster.running:
            for pod, name in zip(job.members(), names, strict=True):
                self.table.claim(pod.uid, name, pod.shape)
        self.table.occupancy.refresh()  # who holds which GPUs is worked out as pods come, not by a plan
        self.candidates = Candidates(build(self.table, cluster.levels, goal), Eligibility(self.table).mask)

    def ask(self, planner: Planner, job: Job) -> tuple[Nodes | None, float]:
        """Return where the planner would place a gang, and how many seconds it thought."""
        pods = job.members()
        began = time.perf_counter()
        nodes = planner(pods, WhatIf(self.table), self.candidates)
        return nodes, time.perf_counter() - began

    def take(self, job: Job, nodes: Nodes) -> None:
        """Let a gang have its nodes."""
        for uid, name in nodes.items():
            self.table.claim(uid, name, job.shape)
        self.table.occupancy.refresh()

    def bandwidth(self, nodes: Nodes) -> float | None:
        """Return what is predicted of a gang that has its nodes (GB/s); None for fewer than two GPUs."""
        described = describe(nodes, self.table, self.candidates.tree, Objective.ALLREDUCE)
        return None if described is None else described.bus_bandwidth

    @contextmanager
    def tried(self, job: Job, nodes: Nodes) -> Iterator[None]:
        """Let a gang have its nodes for a moment."""
        self.take(job, nodes)
        try:
            yield
        finally:
            for uid in nodes:
                self.table.release(uid)
            # Otherwise whoever claims again before anybody asks keeps the GPUs of the former claim.
            self.table.occupancy.refresh()

    def worth(self, job: Job, nodes: Nodes) -> float | None:
        """Return what would be predicted of a gang on those nodes (GB/s)."""
        with self.tried(job, nodes):
            return self.bandwidth(nodes)

    def breaks(self, job: Job, nodes: Nodes) -> int:
        """Return how many whole nodes a gang on those nodes would take anything of."""
        before = self.whole_nodes()
        with self.tried(job, nodes):
            return before - self.whole_nodes()

    def whole_nodes(self) -> int:
        """Count the nodes of eight GPUs of which all are free."""
        column = self.table.resources.index(GPU)
        whole = self.table.allocatable[column, : self.table.rows] == _WHOLE
        return int(np.count_nonzero(whole & (self.table.used[column, : self.table.rows] == 0)))
