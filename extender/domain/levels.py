"""Network tiers: the levels of domains that nodes are in, and what crossing them costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from extender.domain.node import Node

#: What people call the innermost domain, the node itself.
NODE_LEVEL = "node"

#: Labels that name the machine, so that a level of theirs is the node itself: on GKE a GPU node has its host to itself.
HOST_LABELS = frozenset({"kubernetes.io/hostname", "cloud.google.com/gce-topology-host"})
_NODE_NAMES = HOST_LABELS | {NODE_LEVEL, "host", "hostname"}

#: What members have in common at least: the whole cluster.
CLUSTER_LEVEL = "cluster"

#: What no level can be called, because it is something else.
RESERVED_NAMES = _NODE_NAMES | {CLUSTER_LEVEL}

#: Share of the network's bandwidth that is left when the lowest common domain is the innermost level, the next one out,
#: and any beyond. The last is Arnold's measurement of groups that span pods: 17 % less for collectives, 70 % less
#: point-to-point (arXiv 2509.15940); the middle ones are assumptions between it and 1, to be calibrated.
ALLREDUCE_FACTORS = (1.0, 0.95, 0.83)
ALLTOALL_FACTORS = (1.0, 0.6, 0.30)


@dataclass(frozen=True, slots=True)
class Level:
    """One tier: its name, the node label whose value names a node's domain, and its factors (None: by position)."""

    name: str
    label: str
    allreduce: float | None = None
    alltoall: float | None = None


@dataclass(frozen=True, slots=True)
class Levels:
    """All tiers, outermost first, without the cluster as a whole and the node itself.

    `source` says where the list comes from. `members` names the domains of levels that objects describe instead of node
    labels: level label -> node name -> domain.
    """

    levels: tuple[Level, ...] = ()
    source: str = ""
    members: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def find(self, wanted: str) -> int | None:
        """Return the index of a level by its name or node label; that of the node itself is the number of levels."""
        if wanted in _NODE_NAMES:
            return len(self.levels)
        return next((i for i, level in enumerate(self.levels) if wanted in (level.name, level.label)), None)

    def name(self, index: int) -> str:
        """Return what the level at `index` is called; -1 is the cluster."""
        if index < 0:
            return CLUSTER_LEVEL
        return NODE_LEVEL if index >= len(self.levels) else self.levels[index].name

    def domain(self, index: int, node: Node) -> str:
        """Return the domain of `node` at a level, "" if it has none."""
        label = self.levels[index].label
        if label in self.members:
            return self.members[label].get(node.name, "")
        return node.labels.get(label, "")

    def factor(self, index: int) -> tuple[float, float]:
        """Return the factors of all-reduce and all-to-all for members whose lowest common domain is at `index`.

        Without any level nothing is known, and nothing is taken off.
        """
        count = len(self.levels)
        if index >= count or not count:
            return 1.0, 1.0
        depth = count - 1 - index
        place = min(depth, len(ALLREDUCE_FACTORS) - 1)
        level = self.levels[index] if index >= 0 else None
        allreduce = None if level is None else level.allreduce
        alltoall = None if level is None else level.alltoall
        return (
            ALLREDUCE_FACTORS[place] if allreduce is None else allreduce,
            ALLTOALL_FACTORS[place] if alltoall is None else alltoall,
        )
