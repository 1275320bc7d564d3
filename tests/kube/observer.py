"""An observer that keeps what it is told."""

from __future__ import annotations

from extender.control.ports import Kind
from extender.domain.lease import Lease
from extender.domain.membership import GroupRef
from extender.domain.node import Node
from extender.domain.pod import Pod
from extender.domain.podgroup import PodGroup
from tests.kube.changes import Changes

Told = tuple[str, ...]


class Recorder(Changes):
    """Keep every call, and the objects themselves; implements `extender.control.ports.Observer`.

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
