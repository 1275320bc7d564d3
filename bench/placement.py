"""Placing gangs: time of one plan, and of a pass over many waiting gangs."""

from __future__ import annotations

from collections.abc import Iterator

from bench.figures import Figure, ratio, time_call
from extender.admission.admission import Admission
from extender.clock import ManualClock
from extender.cluster.table import NodeTable
from extender.cluster.whatif import WhatIf
from extender.domain.keys import Packing
from extender.domain.membership import GroupApi, GroupRef
from extender.domain.node import Node
from extender.domain.pod import Pod, Shape
from extender.domain.podgroup import PodGroup
from extender.placement.eligibility import Eligibility
from extender.placement.plan import plan
from extender.settings import Settings

GPU = "nvidia.com/gpu"
_WORKER = Shape((("cpu", 8000), ("memory", 64 << 30), (GPU, 1), ("pods", 1)))


def gpu_nodes(count: int) -> Iterator[Node]:
    """Yield nodes of eight GPUs."""
    for index in range(count):
        yield Node(
            f"node-{index}", allocatable={"cpu": 128_000, "memory": 2 << 40, "pods": 110, GPU: 8}, labels={"zone": "a"}
        )


def members(gang: str, count: int) -> list[Pod]:
    """Return the pods of a gang of equal workers."""
    ref = GroupRef(GroupApi.COSCHEDULING, "bench", gang)
    return [
        Pod(f"{gang}-{i}", "bench", f"{gang}-{i}", _WORKER, created=gang, group=ref, scheduler_name="muster")
        for i in range(count)
    ]


def _plan(nodes: int, pods: int, repeats: int, bound: float | None) -> Figure:
    table = NodeTable()
    for node in gpu_nodes(nodes):
        table.upsert(node)
    eligibility, gang = Eligibility(table), members("gang", pods)

    def place() -> None:
        plan(gang, WhatIf(table), eligibility.mask, Packing.BINPACK)

    return time_call(f"plan_{pods}_pods_{nodes}_nodes", place, repeats=repeats, bound=bound)


def _pass(gangs: int, nodes: int, repeats: int) -> Figure:
    admission = Admission(Settings(), ManualClock())
    admission.rebuild()
    for node in gpu_nodes(nodes):
        admission.node_seen(node)
    for index in range(gangs + 1):
        # The first gang takes every GPU and never gives them back; the others wait, no two of one size.
        size = nodes * 8 if index == 0 else 8 + index
        ref = GroupRef(GroupApi.COSCHEDULING, "bench", f"gang-{index:04}")
        admission.group_seen(PodGroup(ref, uid=f"uid-{index}", min_member=size, created=f"{index:04}"))
        for pod in members(f"gang-{index:04}", size):
            admission.pod_seen(pod)

    def judge() -> None:
        admission.reconsider()
        admission.decide()

    return time_call(f"pass_{gangs}_waiting_gangs_{nodes}_nodes", judge, repeats=repeats)


def measure(repeats: int) -> list[Figure]:
    """Measure everything of this family; times in milliseconds."""
    small, large = _plan(500, 1000, repeats, None), _plan(5000, 1000, repeats, 20.0)
    return [
        _plan(5000, 8, repeats, None),
        _plan(5000, 100, repeats, None),
        large,
        ratio("plan_1000_pods_growth_500_to_5000_nodes", large, small, bound=10.0),
        _pass(1, 500, repeats),
        _pass(100, 500, repeats),
    ]
