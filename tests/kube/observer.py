"""An observer that keeps what it is told."""

from __future__ import annotations

from collections.abc import Mapping

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
from tests.kube.changes import Changes

Told = tuple[str, ...]


class Recorder(Changes):
    """Keep every call, and the objects themselves; implements `extender.control.observer.Observer`.

    Args:
        priority: the priority of pods that name none.
    """

    def __init__(self, priority: int = 0) -> None:
        """Know nothing yet."""
        super().__init__()
        self.told: list[Told] = []
        self.pods: list[Pod] = []
        self.nodes: list[Node] = []
        self.groups: list[PodGroup] = []
        self.leases: list[Lease] = []
        self.synced_kinds: list[Kind] = []
        self.restarts: list[str] = []
        self.skipped_kinds: list[Kind] = []
        self.heard_of = 0
        self._priority = priority

    def tell(self, *words: str) -> None:
        """Keep something that was told."""
        self.told.append(words)
        self.changed()

    def pod_seen(self, pod: Pod) -> None:
        """Keep a pod."""
        self.pods.append(pod)
        self.tell("pod seen", pod.key, pod.uid)

    def skipped(self, kind: Kind) -> None:
        """Keep that something was skipped."""
        self.skipped_kinds.append(kind)

    def pod_gone(self, uid: str) -> None:
        """Keep that a pod is gone."""
        self.tell("pod gone", uid)

    def node_seen(self, node: Node) -> None:
        """Keep a node."""
        self.nodes.append(node)
        self.tell("node seen", node.name)

    def node_gone(self, name: str) -> None:
        """Keep that a node is gone."""
        self.tell("node gone", name)

    def group_seen(self, group: PodGroup) -> None:
        """Keep a PodGroup."""
        self.groups.append(group)
        self.tell("group seen", group.ref.api, str(group.ref), group.uid)

    def group_gone(self, ref: GroupRef, uid: str) -> None:
        """Keep that a PodGroup is gone."""
        self.tell("group gone", ref.api, str(ref), uid)

    def queue_seen(self, queue: Queue) -> None:
        """Keep a Queue."""
        self.tell("queue seen", queue.name, queue.uid, *map(str, queue.problems))

    def queue_gone(self, name: str) -> None:
        """Keep that a Queue is gone."""
        self.tell("queue gone", name)

    def namespace_seen(self, name: str, labels: Mapping[str, str]) -> None:
        """Keep a namespace."""
        self.tell("namespace seen", name, *(f"{key}={value}" for key, value in labels.items()))

    def namespace_gone(self, name: str) -> None:
        """Keep that a namespace is gone."""
        self.tell("namespace gone", name)

    def budget_seen(self, budget: DisruptionBudget) -> None:
        """Keep a PodDisruptionBudget."""
        self.tell("budget seen", budget.key, str(budget.allowed))

    def budget_gone(self, namespace: str, name: str) -> None:
        """Keep that a PodDisruptionBudget is gone."""
        self.tell("budget gone", f"{namespace}/{name}")

    def default_priority(self) -> int:
        """Return the default priority."""
        return self._priority

    def priority_class_seen(self, name: str, value: int, *, global_default: bool) -> None:
        """Keep a PriorityClass."""
        self.tell("class seen", name, str(value), "default" if global_default else "")

    def priority_class_gone(self, name: str) -> None:
        """Keep that a PriorityClass is gone."""
        self.tell("class gone", name)

    def synced(self, kind: Kind) -> None:
        """Keep that a kind is complete."""
        self.synced_kinds.append(kind)
        self.tell("synced")

    def lease_seen(self, lease: Lease) -> None:
        """Keep a Lease."""
        self.leases.append(lease)
        self.tell("lease seen")

    def lease_gone(self) -> None:
        """Keep that the Lease is gone."""
        self.tell("lease gone")

    def node_topology_seen(self, topology: NodeTopology) -> None:
        """Keep a node's NUMA zones."""
        self.tell("node topology seen", topology.node, str(topology.policy))

    def node_topology_gone(self, name: str) -> None:
        """Keep that a node's NUMA zones are gone."""
        self.tell("node topology gone", name)

    def hyper_node_seen(self, hyper_node: HyperNode) -> None:
        """Keep a HyperNode."""
        self.tell("hyper node seen", hyper_node.name, str(hyper_node.tier))

    def hyper_node_gone(self, name: str) -> None:
        """Keep that a HyperNode is gone."""
        self.tell("hyper node gone", name)

    def levels_seen(self, levels: LevelList) -> None:
        """Keep a list of levels."""
        self.tell("levels seen", levels.about.group, levels.about.name, *(level.label for level in levels.levels))

    def levels_gone(self, group: str, name: str) -> None:
        """Keep that a list of levels is gone."""
        self.tell("levels gone", group, name)

    def device_seen(self, report: DeviceReport) -> None:
        """Keep a report of devices."""
        self.tell("device seen", report.node, report.partitions)

    def device_gone(self, name: str) -> None:
        """Keep that a report of devices is gone."""
        self.tell("device gone", name)

    def calibration_seen(self, about: ObjectRef, data: Mapping[str, str]) -> None:
        """Keep the data of a calibration."""
        self.tell("calibration seen", str(about), *data.values())

    def calibration_gone(self) -> None:
        """Keep that the calibration is gone."""
        self.tell("calibration gone")

    def heard(self, kind: Kind) -> None:
        """Count signs of life."""
        assert kind in Kind
        self.heard_of += 1
        self.changed()

    def watch_restarted(self, kind: Kind, cause: str) -> None:
        """Keep why a watch started again."""
        assert kind in Kind
        self.restarts.append(str(cause))
        self.changed()
