"""Members that a gang cannot lose are protected from autoscalers that would move them to fewer or cheaper nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from extender.cluster.gangs import Gang, member_order, split
from extender.objects.node import Node
from extender.objects.pod import Pod

#: Label of the nodes that Karpenter makes. Source: kubernetes-sigs/karpenter pkg/apis/v1 labels.go.
KARPENTER_POOL: Final = "karpenter.sh/nodepool"
#: Annotations of pods whose node is to stay. Sources: the same; kubernetes/autoscaler cluster-autoscaler/utils/drain.
_KARPENTER: Final[Mapping[str, str]] = {"karpenter.sh/do-not-disrupt": "true"}
_EVERYWHERE: Final[Mapping[str, str]] = {**_KARPENTER, "cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
_NOTHING: Final[Mapping[str, str]] = {}


class Protection:
    """Say which annotations a member gets with its node. Those that a gang needs are worked out once for a start."""

    def __init__(self, where: str) -> None:
        """Protect members on nodes of Karpenter's (`karpenter`), on all (`always`), or none (`never`)."""
        self._where = where
        self._needed: tuple[tuple[str, int, int], frozenset[str]] = (("", 0, 0), frozenset())

    def annotations(self, pod: Pod, gang: Gang, node: Node) -> Mapping[str, str]:
        """Return the annotations of a member that gets a node; none for a pod that names no group."""
        on_karpenter = KARPENTER_POOL in node.labels
        if self._where == "never" or gang.ref.is_pod or not (on_karpenter or self._where == "always"):
            return _NOTHING
        if not self._needs(gang, pod):
            return _NOTHING
        return _EVERYWHERE if self._where == "always" else _KARPENTER

    def _needs(self, gang: Gang, pod: Pod) -> bool:
        """Tell whether a gang would fall below its minimum without a member that has a node promised, or is kept."""
        placed = gang.placed_count
        if placed <= gang.min_member:
            return True
        key = (gang.uid, placed, gang.min_member)
        if self._needed[0] != key:
            needed, _ = split(gang, sorted(filter(gang.has_place, gang.members.values()), key=member_order))
            self._needed = key, frozenset(each.uid for each in needed)
        return pod.uid in self._needed[1]
