"""The nodes of a study, and the kubelets' account of what is free on them, beside which Muster's model is checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from extender.cluster.model import ClusterModel
from extender.cluster.whatif import WhatIf
from extender.objects.node import Node
from extender.objects.pod import Shape
from extender.objects.requests import PODS
from extender.placement.room import room
from muster_lab.traces.trace import Trace, TraceError, TraceJob

GPU = "nvidia.com/gpu"
CPU, MEMORY = "cpu", "memory"
#: Label of a node's GPU product, as GPU feature discovery writes it.
_PRODUCT = "nvidia.com/gpu.product"
#: A kubelet's default maxPods.
_MOST_PODS = 110
#: What the labels of a node's domains begin with, and how many racks are a block.
_TIER, _RACKS_OF_BLOCK = "fabric.topograph.run/tier", 4


@dataclass(frozen=True, slots=True)
class Fleet:
    """Equal nodes: `gpus` each, `cpu` (milli-CPU) and `memory` (bytes).

    `product` is what the label of their GPUs says, "" for none. With `rack` so many nodes are a rack, and
    four racks a block.
    """

    nodes: int
    gpus: int = 8
    cpu: int = 128_000
    memory: int = 2**40
    product: str = ""
    rack: int = 0

    @property
    def all_gpus(self) -> int:
        """Return how many GPUs there are."""
        return self.nodes * self.gpus

    @property
    def allocatable(self) -> Mapping[str, int]:
        """Return what each node has."""
        return {CPU: self.cpu, MEMORY: self.memory, PODS: _MOST_PODS, GPU: self.gpus}

    def each(self) -> Iterator[Node]:
        """Iterate over the nodes."""
        width = len(str(self.nodes - 1))
        for index in range(self.nodes):
            name = f"node-{index:0{width}d}"
            yield Node(name, uid=name, allocatable=self.allocatable, labels=self._labels(index))

    def _labels(self, index: int) -> dict[str, str]:
        """Return the labels of one node: its product, and its domains as topograph writes them."""
        labels = {_PRODUCT: self.product} if self.product else {}
        if self.rack:
            rack = index // self.rack
            labels |= {f"{_TIER}-0": f"rack-{rack}", f"{_TIER}-1": f"block-{rack // _RACKS_OF_BLOCK}"}
        return labels

    def check(self, trace: Trace) -> None:
        """Raise TraceError that names a job which would not fit even if nothing else ran, by the room of plans."""
        model = ClusterModel(())
        for node in self.each():
            model.put_node(node)
        empty, everywhere = WhatIf(model.table), np.ones(model.table.rows, dtype=np.bool_)
        for job in trace.jobs:
            if int(room(empty, shape_of(job), everywhere).sum()) < job.pods:
                asked = f"{job.pods} x {job.gpus} GPUs, {job.cpu} milli-CPU, {job.memory} bytes"
                had = f"{self.nodes} x {self.gpus} GPUs, {self.cpu} milli-CPU, {self.memory} bytes"
                raise TraceError(f"job {job.name} never fits: it asks for {asked}, and the nodes have {had}")


def shape_of(job: TraceJob) -> Shape:
    """Return what decides where a job's pods fit."""
    asked = {CPU: job.cpu, MEMORY: job.memory, PODS: 1, GPU: job.gpus}
    return Shape(tuple(sorted((resource, amount) for resource, amount in asked.items() if amount)))


class Rooms:
    """What is free on which node, kept apart from Muster's own model; and how much of it is of use to whom.

    Attributes:
        free: GPUs that no pod holds, on nodes that are well.
        stranded: how many of those a pod of the trace cannot use, because its node has too few of them: the mean over
            all its pods with GPUs. Source: Weng et al., Beware of Fragmentation, USENIX ATC 2023, for whole GPUs.
    """

    def __init__(self, fleet: Fleet, trace: Trace) -> None:
        self._free = {node.name: dict(fleet.allocatable) for node in fleet.each()}
        self._useless = _useless(fleet.gpus, trace)
        self._closed: set[str] = set()
        self.free = fleet.all_gpus
        self.stranded = fleet.nodes * self._useless[fleet.gpus]

    def hold(self, placed: Iterable[tuple[str, Shape]]) -> bool:
        """Tell whether all these pods would have room on their nodes at once."""
        taken: dict[tuple[str, str], int] = {}
        for node, shape in placed:
            for resource, amount in shape.requests:
                key = node, resource
                taken[key] = taken.get(key, 0) + amount
        return all(self._free[node].get(resource, 0) >= amount for (node, resource), amount in taken.items())

    def take(self, node: str, shape: Shape) -> None:
        """Take in that a pod runs on a node."""
        self._change(node, shape, -1)

    def give_back(self, node: str, shape: Shape) -> None:
        """Take in that a pod has left its node."""
        self._change(node, shape, 1)

    def _change(self, node: str, shape: Shape, sign: int) -> None:
        there = self._free[node]
        before = there[GPU]
        for resource, amount in shape.requests:
            there[resource] += sign * amount
        if node not in self._closed:
            self.free += there[GPU] - before
            self.stranded += self._useless[there[GPU]] - self._useless[before]

    def close(self, node: str) -> None:
        """Take in that a node fails: nothing there is free until it is back."""
        self._closed.add(node)
        self.free -= self._free[node][GPU]
        self.stranded -= self._useless[self._free[node][GPU]]

    def reopen(self, node: str) -> None:
        """Take in that a node is back."""
        self._closed.discard(node)
        self.free += self._free[node][GPU]
        self.stranded += self._useless[self._free[node][GPU]]


def _useless(most: int, trace: Trace) -> list[float]:
    """Return, for each number of free GPUs on a node, how many of them the trace's mean pod cannot use there."""
    pods = [0] * (most + 1)
    for job in trace.jobs:
        if 0 < job.gpus <= most:
            pods[job.gpus] += job.pods
    total = sum(pods) or 1
    return [free * sum(pods[free + 1 :]) / total for free in range(most + 1)]
