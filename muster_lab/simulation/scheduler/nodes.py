"""What the scheduler knows of nodes: what they have, what runs there, what it assumes will, and which is best."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from extender.objects.node import Node
from extender.objects.pod import Pod
from extender.placement.candidates import MAX_EXTENDER_PRIORITY

#: What LeastAllocated takes a pod for that requests nothing. Source: pkg/scheduler/util/pod_resources.go.
_LEAST_REQUESTS = {"cpu": 100, "memory": 200 * 1024 * 1024}

#: Highest score of a plugin. Source: framework.MaxNodeScore.
MAX_NODE_SCORE = 100

#: Above every priority: the lowest priority on a node without pods.
_NO_PRIORITY = np.iinfo(np.int64).max


@dataclass(slots=True)
class NodeInfo:
    """One node, the pods on it, and what they request in sum (milli-CPU, bytes, counts).

    `scored` is the same for CPU and memory, with a floor for each pod that requests nothing of them.
    """

    node: Node
    pods: dict[str, Pod] = field(default_factory=dict)
    requested: dict[str, int] = field(default_factory=dict)
    scored: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_LEAST_REQUESTS, 0))

    def add(self, pod: Pod) -> None:
        """Count a pod."""
        self.pods[pod.uid] = pod
        self._count(pod, 1)

    def remove(self, uid: str) -> None:
        """Stop counting a pod."""
        self._count(self.pods.pop(uid), -1)

    def fits(self, pod: Pod) -> bool:
        """Tell whether there is room for one more pod."""
        available = self.node.allocatable
        return all(
            self.requested.get(resource, 0) + amount <= available.get(resource, 0)
            for resource, amount in pod.shape.requests
        )

    def copy(self) -> NodeInfo:
        """Return a copy to try things on."""
        return NodeInfo(self.node, dict(self.pods), dict(self.requested), dict(self.scored))

    def _count(self, pod: Pod, sign: int) -> None:
        for resource, amount in pod.shape.requests:
            self.requested[resource] = self.requested.get(resource, 0) + sign * amount
        for resource, amount in scored_request(pod).items():
            self.scored[resource] += sign * amount


def scored_request(pod: Pod) -> dict[str, int]:
    """Return the CPU (milli) and memory (bytes) that a pod counts for in scores."""
    return {resource: pod.shape.request(resource) or least for resource, least in _LEAST_REQUESTS.items()}


@dataclass(slots=True)
class NodeColumns:
    """All nodes as columns, (nodes,) int64 each, as they are at the start of a scheduling cycle.

    `version` is that of the cache: it tells whether the same nodes stand behind other columns. `revision` grows with
    every change of a node or of what is on it.
    """

    version: int
    revision: int
    nodes: list[Node]
    names: list[str]
    row: dict[str, int]
    allocatable: dict[str, NDArray[np.int64]]
    requested: dict[str, NDArray[np.int64]]
    scored: dict[str, NDArray[np.int64]]
    lowest_priority: NDArray[np.int64]

    def of(self, columns: dict[str, NDArray[np.int64]], resource: str) -> NDArray[np.int64]:
        """Return a resource's column, zeros for one that no node has."""
        found = columns.get(resource)
        return np.zeros(len(self.names), dtype=np.int64) if found is None else found


class NodeCache:
    """Keep the nodes and their pods, those assumed to be bound included.

    Attributes:
        version: grows when a node is added, changed or deleted, not with its pods.
    """

    def __init__(self) -> None:
        self._infos: dict[str, NodeInfo] = {}
        self._where: dict[str, str] = {}
        self._homeless: dict[str, dict[str, Pod]] = {}
        self._assumed: set[str] = set()
        self._dirty: set[str] = set()
        self._columns: NodeColumns | None = None
        self._revision = 0
        self.version = 0

    def __len__(self) -> int:
        return len(self._infos)

    def __iter__(self) -> Iterator[NodeInfo]:
        """Iterate over the nodes in the order in which they appeared."""
        return iter(self._infos.values())

    def find(self, name: str) -> NodeInfo | None:
        """Return a node, or None."""
        return self._infos.get(name)

    def put_node(self, node: Node) -> Node | None:
        """Take in a node; return what it was before, None if it is new. Its pods may have been heard of earlier."""
        info = self._infos.get(node.name)
        before = None if info is None else info.node
        if info is None:
            info = self._infos[node.name] = NodeInfo(node)
            for pod in self._homeless.pop(node.name, {}).values():
                info.add(pod)
        if before != node:
            info.node = node
            self.version += 1
            self._columns = None
        return before

    def drop_node(self, name: str) -> None:
        """Forget a node; its pods are remembered until they are deleted."""
        info = self._infos.pop(name, None)
        if info is not None:
            self._homeless[name] = info.pods
            self.version += 1
            self._columns = None

    def put_pod(self, pod: Pod) -> None:
        """Take in a pod on a node; one that was assumed there is confirmed."""
        self.drop_pod(pod.uid)
        self._where[pod.uid] = pod.node_name
        info = self._infos.get(pod.node_name)
        if info is None:
            self._homeless.setdefault(pod.node_name, {})[pod.uid] = pod
        else:
            info.add(pod)
            self._dirty.add(pod.node_name)

    def drop_pod(self, uid: str) -> None:
        """Forget a pod on a node, if there is one."""
        self._assumed.discard(uid)
        name = self._where.pop(uid, None)
        if name is None:
            return
        info = self._infos.get(name)
        if info is None:
            self._homeless.get(name, {}).pop(uid, None)
        else:
            info.remove(uid)
            self._dirty.add(name)

    def assume(self, pod: Pod) -> None:
        """Count a pod on the node that it will be bound to."""
        self.put_pod(pod)
        self._assumed.add(pod.uid)

    def forget(self, uid: str) -> None:
        """Stop assuming a pod; one that has been confirmed meanwhile stays."""
        if uid in self._assumed:
            self.drop_pod(uid)

    def assumes(self, uid: str) -> bool:
        """Tell whether a pod is assumed to be bound, without confirmation so far."""
        return uid in self._assumed

    def columns(self) -> NodeColumns:
        """Return all nodes as columns. They stay as they are until this is called again."""
        if self._columns is None:
            self._columns = self._build()
        elif self._dirty:
            for name in self._dirty:
                self._refresh(self._columns, name)
            self._revision += 1
            self._columns.revision = self._revision
        self._dirty.clear()
        return self._columns

    def _build(self) -> NodeColumns:
        nodes = [info.node for info in self]
        names = [node.name for node in nodes]
        resources = {resource for node in nodes for resource in node.allocatable}
        allocatable = {
            resource: np.array([node.allocatable.get(resource, 0) for node in nodes], dtype=np.int64)
            for resource in sorted(resources)
        }
        self._revision += 1
        columns = NodeColumns(
            version=self.version,
            revision=self._revision,
            nodes=nodes,
            names=names,
            row={name: row for row, name in enumerate(names)},
            allocatable=allocatable,
            requested={resource: np.zeros(len(names), dtype=np.int64) for resource in allocatable},
            scored={resource: np.zeros(len(names), dtype=np.int64) for resource in _LEAST_REQUESTS},
            lowest_priority=np.full(len(names), _NO_PRIORITY, dtype=np.int64),
        )
        for name in names:
            self._refresh(columns, name)
        return columns

    def _refresh(self, columns: NodeColumns, name: str) -> None:
        row, info = columns.row[name], self._infos[name]
        for resource, column in columns.requested.items():
            column[row] = info.requested.get(resource, 0)
        for resource, column in columns.scored.items():
            column[row] = info.scored[resource]
        columns.lowest_priority[row] = min((pod.priority for pod in info.pods.values()), default=_NO_PRIORITY)


def least_allocated(pod: Pod, rows: NDArray[np.intp], columns: NodeColumns) -> NDArray[np.int64]:
    """Return the score, 0 to 100, of each node in `rows`: the free share of CPU and memory with the pod on it.

    Source: NodeResourcesFit with its default strategy, LeastAllocated over CPU and memory with equal weight.
    """
    total = np.zeros(rows.shape[0], dtype=np.int64)
    counted = np.zeros(rows.shape[0], dtype=np.int64)
    for resource, amount in scored_request(pod).items():
        capacity = columns.of(columns.allocatable, resource)[rows]
        requested = columns.scored[resource][rows] + amount
        there = capacity > 0
        share = np.maximum(capacity - requested, 0) * MAX_NODE_SCORE // np.maximum(capacity, 1)
        total += np.where(there, share, 0)
        counted += there
    return total // np.maximum(counted, 1)


def best(names: Sequence[str], scores: NDArray[np.int64], extender: Mapping[str, int], weight: int) -> str:
    """Return the name of the best node: the plugins' scores and the extender's, weighted.

    kube-scheduler decides ties by chance where an extender scored; here the earlier node wins, so that a run repeats.
    """
    factor = weight * (MAX_NODE_SCORE // MAX_EXTENDER_PRIORITY)
    totals = scores + np.array([extender.get(name, 0) * factor for name in names], dtype=np.int64)
    return names[int(np.argmax(totals))]
