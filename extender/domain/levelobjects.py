"""Lists of levels as objects of other projects give them: Kueue's and KAI's Topology, Koordinator's own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from extender.domain.levels import HOST_LABELS, RESERVED_NAMES, Level
from extender.domain.objectref import ObjectRef
from extender.domain.presets import LEVEL_NAMES
from extender.domain.reason import Problem
from extender.wire import topology as wire
from extender.wire.kubernetes import ObjectMeta

#: Koordinator's API group.
NETWORK_TOPOLOGY_GROUP = "scheduling.koordinator.sh"

#: The layers that Koordinator knows by itself. Source: koordinator apis/scheduling/v1alpha1.
_CLUSTER_LAYER = "ClusterTopologyLayer"
_NODE_LAYER = "NodeTopologyLayer"


@dataclass(frozen=True, slots=True)
class LevelList:
    """What one object says: levels, outermost first, without the node itself; `problems` say what was left out."""

    about: ObjectRef
    levels: tuple[Level, ...] = ()
    problems: tuple[Problem, ...] = ()


def read_topology(topology: wire.Topology, api_version: str) -> LevelList:
    """Read a Topology of Kueue or KAI; `api_version` tells which.

    A level is called what a preset calls its label, else what follows the label's prefix.
    """
    meta = topology.metadata or ObjectMeta()
    entries = (topology.spec and topology.spec.levels) or []
    problems: list[Problem] = []
    labels: list[str] = []
    for index, entry in enumerate(entries):
        field, label = f"spec.levels[{index}].nodeLabel", entry.node_label or ""
        if not label:
            problems.append(Problem(field, "is empty; name the node label of that level"))
        elif label in labels:
            problems.append(Problem(field, f"{label!r} is there twice; only the first counts"))
        elif label in HOST_LABELS:
            if index < len(entries) - 1:
                problems.append(Problem(field, f"{label!r} is the node itself, and can only be the last level"))
        else:
            labels.append(label)
    return LevelList(_about(meta, api_version, "Topology"), name_levels(labels), tuple(problems))


def read_network_topology(topology: wire.NetworkTopology) -> LevelList:
    """Read a ClusterNetworkTopology; each level has the name of its layer and the first of its labels."""
    meta = topology.metadata or ObjectMeta()
    layers = (topology.spec and topology.spec.network_topology_spec) or []
    problems: list[Problem] = []
    children: dict[str, tuple[str, str]] = {}  # parent -> layer, label
    for index, layer in enumerate(layers):
        field = f"spec.networkTopologySpec[{index}]"
        name, labels = layer.topology_layer or "", layer.label_key or []
        if name in {_NODE_LAYER, _CLUSTER_LAYER}:
            continue
        parent = layer.parent_topology_layer or _CLUSTER_LAYER
        if not name or not labels or not labels[0]:
            problems.append(Problem(field, "needs topologyLayer and labelKey"))
        elif parent in children:
            problems.append(Problem(field, f"layer {children[parent][0]!r} has the same parent; only that one counts"))
        else:
            children[parent] = (name, labels[0])
            if len(labels) > 1:
                problems.append(Problem(f"{field}.labelKey", f"only the first label, {labels[0]!r}, is read"))
    levels: list[Level] = []
    layer_name = _CLUSTER_LAYER
    while child := children.pop(layer_name, None):
        layer_name, label = child
        levels.append(Level(layer_name, label))
    problems += [
        Problem("spec.networkTopologySpec", f"layer {name!r} has no way up to the cluster and is left out")
        for name, _label in children.values()
    ]
    return LevelList(
        _about(meta, f"{NETWORK_TOPOLOGY_GROUP}/v1alpha1", "ClusterNetworkTopology"), tuple(levels), tuple(problems)
    )


def name_levels(labels: Iterable[str]) -> tuple[Level, ...]:
    """Return levels for node labels, under short names where these are unique and mean nothing else."""
    levels: list[Level] = []
    taken = set(RESERVED_NAMES)
    for label in labels:
        short = LEVEL_NAMES.get(label) or label.rpartition("/")[2]
        name = label if short in taken else short
        taken.add(name)
        levels.append(Level(name, label))
    return tuple(levels)


def _about(meta: ObjectMeta, api_version: str, kind: str) -> ObjectRef:
    return ObjectRef(api_version, kind, meta.namespace or "", meta.name or "", meta.uid or "")
