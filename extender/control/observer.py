"""What the outside tells the control layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from extender.control.ports import Kind
from extender.domain.budget import DisruptionBudget
from extender.domain.devices import DeviceReport
from extender.domain.hypernodes import HyperNode
from extender.domain.lease import Lease
from extender.domain.levelobjects import LevelList
from extender.domain.membership import GroupRef
from extender.domain.node import Node
from extender.domain.objectref import ObjectRef
from extender.domain.pod import Pod
from extender.domain.podgroup import PodGroup
from extender.domain.queue import Queue
from extender.numa.nodetopology import NodeTopology


class Observer(Protocol):
    """What the watches tell, in the order of the API server per kind. Calls are synchronous and must be quick."""

    def pod_seen(self, pod: Pod) -> None:
        """Take in a pod that was added or changed."""
        ...

    def pod_gone(self, uid: str) -> None:
        """Forget a pod that was deleted."""
        ...

    def node_seen(self, node: Node) -> None:
        """Take in a node that was added or changed."""
        ...

    def node_gone(self, name: str) -> None:
        """Forget a node that was deleted."""
        ...

    def node_topology_seen(self, topology: NodeTopology) -> None:
        """Take in a node's NUMA zones, added or changed."""
        ...

    def node_topology_gone(self, name: str) -> None:
        """Forget the NUMA zones of the node called `name`."""
        ...

    def hyper_node_seen(self, hyper_node: HyperNode) -> None:
        """Take in a HyperNode that was added or changed."""
        ...

    def hyper_node_gone(self, name: str) -> None:
        """Forget a HyperNode that was deleted."""
        ...

    def levels_seen(self, levels: LevelList) -> None:
        """Take in an object that lists network tiers, added or changed."""
        ...

    def levels_gone(self, group: str, name: str) -> None:
        """Forget the object of an API group that listed network tiers."""
        ...

    def device_seen(self, report: DeviceReport) -> None:
        """Take in what is said of a node's GPUs, added or changed."""
        ...

    def device_gone(self, name: str) -> None:
        """Forget what was said of the GPUs of the node called `name`."""
        ...

    def calibration_seen(self, about: ObjectRef, data: Mapping[str, str]) -> None:
        """Take in the data of the ConfigMap with measured bandwidths, added or changed."""
        ...

    def calibration_gone(self) -> None:
        """Forget the measured bandwidths."""
        ...

    def group_seen(self, group: PodGroup) -> None:
        """Take in a PodGroup that was added or changed."""
        ...

    def group_gone(self, ref: GroupRef, uid: str) -> None:
        """Forget a PodGroup that was deleted."""
        ...

    def queue_seen(self, queue: Queue) -> None:
        """Take in a Queue that was added or changed."""
        ...

    def queue_gone(self, name: str) -> None:
        """Forget a Queue that was deleted."""
        ...

    def namespace_seen(self, name: str, labels: Mapping[str, str]) -> None:
        """Take in a namespace that was added or changed."""
        ...

    def namespace_gone(self, name: str) -> None:
        """Forget a namespace that was deleted."""
        ...

    def budget_seen(self, budget: DisruptionBudget) -> None:
        """Take in a PodDisruptionBudget that was added or changed."""
        ...

    def budget_gone(self, namespace: str, name: str) -> None:
        """Forget a PodDisruptionBudget that was deleted."""
        ...

    def default_priority(self) -> int:
        """Return the priority of pods that name none: the value of the global default PriorityClass, else 0."""
        ...

    def priority_class_seen(self, name: str, value: int, *, global_default: bool) -> None:
        """Take in a PriorityClass."""
        ...

    def priority_class_gone(self, name: str) -> None:
        """Forget a PriorityClass."""
        ...

    def lease_seen(self, lease: Lease) -> None:
        """Take in the scheduler's Lease, where it is watched."""
        ...

    def lease_gone(self) -> None:
        """Learn that there is no such Lease any more."""
        ...

    def synced(self, kind: Kind) -> None:
        """Learn that a complete list of `kind` has been delivered: the first, or a later one that was needed."""
        ...

    def heard(self, kind: Kind) -> None:
        """Learn that the watch of `kind` is alive: an event, a bookmark or a list arrived."""
        ...

    def skipped(self, kind: Kind) -> None:
        """Learn that an object or event of `kind` could not be decoded and was left out."""
        ...

    def watch_restarted(self, kind: Kind, cause: str) -> None:
        """Learn that the watch of `kind` had to start again; `cause` is a short fixed word for the metric."""
        ...
