"""Builders of nodes, pods and tables that name only what a test is about."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from extender.cluster.occupancy import Occupancy
from extender.cluster.table import NodeTable
from extender.objects.node import Node
from extender.objects.pod import Pod, Shape
from extender.objects.podgroup import GroupRef
from extender.objects.sources.coscheduling import COSCHEDULING

GPU = "nvidia.com/gpu"


def node(name: str, gpus: int = 0, *, cpu: int = 64_000, pods: int = 110, **fields: Any) -> Node:
    """Return a node with `cpu` milli-CPU and, if any, `gpus`."""
    allocatable = {"cpu": cpu, "memory": 2**40, "pods": pods} | ({GPU: gpus} if gpus else {})
    return Node(**({"name": name, "uid": f"uid-{name}", "allocatable": allocatable} | fields))


def up_to_date(table: NodeTable) -> Occupancy:
    """Return who holds what on the nodes of a table, computed from all claims of now."""
    table.occupancy.refresh()
    return table.occupancy


def shape(gpus: int = 0, *, cpu: int = 1000, **fields: Any) -> Shape:
    """Return the shape of a pod that asks for `cpu` milli-CPU and, if any, `gpus`."""
    requests = {"cpu": cpu, "pods": 1} | ({GPU: gpus} if gpus else {})
    return Shape(**({"requests": tuple(sorted(requests.items()))} | fields))


def pod(name: str, gpus: int = 0, *, cpu: int = 1000, **fields: Any) -> Pod:
    """Return a pod of Muster's; its UID is `uid-NAME`."""
    values: dict[str, Any] = {
        "uid": f"uid-{name}",
        "namespace": "default",
        "name": name,
        "shape": shape(gpus, cpu=cpu),
        "scheduler_name": "muster",
    }
    return Pod(**(values | fields))


def group_ref(name: str = "job", api: str = COSCHEDULING) -> GroupRef:
    """Return the name of a gang."""
    return GroupRef(api, "default", name)


def table_of(nodes: Iterable[Node]) -> NodeTable:
    """Return a table of `nodes`, taken in one after the other."""
    table = NodeTable()
    for each in nodes:
        table.upsert(each)
    return table
