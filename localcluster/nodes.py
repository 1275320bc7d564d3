"""GPU nodes as a cloud would register them, for kwok to keep alive."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from localcluster.client import JsonObject

GPU = "nvidia.com/gpu"
ZONE_LABEL = "topology.kubernetes.io/zone"
RACK_LABEL = "topology.kubernetes.io/rack"
HOSTNAME_LABEL = "kubernetes.io/hostname"

NODES_PER_RACK = 4
RACKS_PER_ZONE = 4

#: Creation needs some time; what it is does not matter, as conditions only show it.
_SINCE = "2026-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class NodeShape:
    """What one node offers. `cpu` and `memory` are Kubernetes quantities; `gpus` and `pods` are counts."""

    gpus: int = 8
    cpu: str = "128"
    memory: str = "1Ti"
    pods: int = 110
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[JsonObject, ...] = ()

    def capacity(self) -> dict[str, str]:
        """Return capacity and allocatable, which are the same here: nothing is reserved for the system."""
        amounts = {"cpu": self.cpu, "memory": self.memory, "pods": str(self.pods)}
        if self.gpus:
            amounts[GPU] = str(self.gpus)
        return amounts


def node(name: str, shape: NodeShape, *, zone: str, rack: str) -> JsonObject:
    """Return a Node that is ready from the start."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {HOSTNAME_LABEL: name, ZONE_LABEL: zone, RACK_LABEL: rack, **shape.labels},
        },
        "spec": {"taints": list(shape.taints)},
        "status": {
            "capacity": shape.capacity(),
            "allocatable": shape.capacity(),
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "KubeletReady",
                    "message": "",
                    "lastHeartbeatTime": _SINCE,
                    "lastTransitionTime": _SINCE,
                }
            ],
        },
    }


def numbered_nodes(count: int, shape: NodeShape, *, prefix: str = "node", first: int = 0) -> list[JsonObject]:
    """Return `count` nodes named `prefix-FIRST` and up, NODES_PER_RACK to a rack and RACKS_PER_ZONE to a zone."""
    racks = ((number, number // NODES_PER_RACK) for number in range(first, first + count))
    return [
        node(f"{prefix}-{number}", shape, zone=f"zone-{rack // RACKS_PER_ZONE}", rack=f"rack-{rack}")
        for number, rack in racks
    ]
