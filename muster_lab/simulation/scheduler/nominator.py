"""Which pods are nominated to which nodes, as the scheduler remembers it."""

from __future__ import annotations

from collections.abc import Callable

from extender.objects.pod import Pod


class Nominator:
    """Remember nominations from the moment they are made, before the API server confirms them.

    Source: pkg/scheduler/backend/queue/nominator.go.

    Attributes:
        revision: grows with every change.
    """

    def __init__(self, lookup: Callable[[Pod], Pod | None]) -> None:
        """Ask `lookup` for the newest version of a pod; None or a bound one is not nominated."""
        self._lookup = lookup
        self._node: dict[str, str] = {}
        self._pods: dict[str, dict[str, Pod]] = {}
        self.revision = 0

    def nominate(self, pod: Pod, node: str) -> None:
        """Nominate a pod to `node`, in place of whatever it was nominated to; to no node if that is empty."""
        self.forget(pod.uid)
        newest = self._lookup(pod)
        if not node or newest is None or newest.node_name:
            return
        self.revision += 1
        self._node[pod.uid] = node
        self._pods.setdefault(node, {})[pod.uid] = pod

    def update(self, before: Pod, after: Pod) -> None:
        """Take in a new version of a pod. One that never told of a nomination keeps the one made in memory."""
        node = after.nominated_node
        if not before.nominated_node and not after.nominated_node:
            node = self._node.get(before.uid, "")
        self.nominate(after, node)

    def forget(self, uid: str) -> None:
        """Drop a pod's nomination."""
        node = self._node.pop(uid, None)
        if node is None:
            return
        self.revision += 1
        pods = self._pods[node]
        del pods[uid]
        if not pods:
            del self._pods[node]

    def knows(self, uid: str) -> bool:
        """Tell whether a pod is nominated to any node."""
        return uid in self._node

    def nodes(self) -> list[str]:
        """Return the nodes that pods are nominated to."""
        return list(self._pods)

    def on(self, node: str) -> list[Pod]:
        """Return the pods nominated to a node."""
        return list(self._pods.get(node, {}).values())
