"""What explanations are asked about: racks of nodes, and what is worked out about a gang there."""

from __future__ import annotations

from typing import Any

from extender.admission.events import NodeSeen, PodSeen
from extender.cluster.gangs import Gang
from extender.explain.account import WaitAccount, explain_gang, name_holders
from extender.explain.inquiry import inquire
from extender.objects.keys import Options
from extender.objects.node import Node
from extender.objects.topology import TopologyTerms
from tests.worlds import GPU, Job, World

LEVELS = [{"name": "block", "nodeLabel": "block"}, {"name": "rack", "nodeLabel": "rack"}]
H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}


def racked(racks: int = 2, nodes: int = 2, **settings: Any) -> World:
    """Return a world of racks `r0`, `r1`, ... in one block, with nodes `r0-0`, `r0-1`, ... of eight GPUs."""
    world = World(topology_levels=LEVELS, **settings)
    for rack in range(racks):
        for index in range(nodes):
            add(world, f"r{rack}-{index}", rack=f"r{rack}", block="b0")
    return world


def add(world: World, name: str, gpus: int = 8, **labels: str) -> None:
    """Add a node."""
    allocatable = {"cpu": 64_000, "memory": 2**40, "pods": 110} | ({GPU: gpus} if gpus else {})
    world.tell(NodeSeen(Node(name, uid=name, allocatable=allocatable, labels=H100 | labels)))


def take(world: World, node: str, gpus: int, **fields: Any) -> str:
    """Let a pod of another scheduler hold GPUs of a node; return its UID."""
    pod = world.pod(f"on-{node}", gpus, node_name=node, **{"scheduler_name": "default-scheduler"} | fields)
    world.tell(PodSeen(pod))
    return pod.uid


def asking(world: World, name: str, members: int, gpus: int = 8, **terms: Any) -> Job:
    """Create a gang that asks for this of the topology."""
    return world.gang(name, members, gpus, group={"options": Options(topology=TopologyTerms(**terms))})


def explained(world: World, gang: Job | Gang) -> WaitAccount:
    """Return what is worked out about a gang."""
    scene = inquire(world.admission, gang.gang if isinstance(gang, Job) else gang, world.now)
    return name_holders(world.admission, explain_gang(scene), world.now)
