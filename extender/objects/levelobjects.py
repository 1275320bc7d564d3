"""Lists of levels as objects of other projects give them: Kueue's and KAI's Topology, Grove's and Koordinator's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec import Struct

from extender.objects.levels import HOST_LABELS, LEVEL_NAMES, PRESETS, RESERVED_NAMES, Level, Levels, Preset
from extender.objects.meta import Decoder, ObjectMeta, ObjectRef
from extender.objects.reason import Problem


class TopologyLevelObject(Struct, gc=False, frozen=True, rename="camel"):
    """One level of a Topology: the node label whose value names a node's domain."""

    node_label: str | None = None


class TopologySpec(Struct, gc=False, frozen=True):
    """Spec of a Topology; the outermost level first."""

    levels: list[TopologyLevelObject] | None = None


class Topology(Struct, gc=False, frozen=True):
    """A Topology of Kueue (`kueue.x-k8s.io`) or KAI (`kai.scheduler/v1alpha1`): both have the same form."""

    metadata: ObjectMeta | None = None
    spec: TopologySpec | None = None


class NetworkLayer(Struct, gc=False, frozen=True, rename="camel"):
    """One layer of a ClusterNetworkTopology."""

    topology_layer: str | None = None
    parent_topology_layer: str | None = None
    label_key: list[str] | None = None


class NetworkTopologySpec(Struct, gc=False, frozen=True, rename="camel"):
    """Spec of a ClusterNetworkTopology: layers in any order, each naming its parent."""

    network_topology_spec: list[NetworkLayer] | None = None


class NetworkTopology(Struct, gc=False, frozen=True):
    """A `scheduling.koordinator.sh/v1alpha1` ClusterNetworkTopology."""

    metadata: ObjectMeta | None = None
    spec: NetworkTopologySpec | None = None


class GroveTopologyLevel(Struct, gc=False, frozen=True):
    """One level of a ClusterTopologyBinding: its name, and the node label whose value names a node's domain."""

    domain: str | None = None
    key: str | None = None


class GroveTopologySpec(Struct, gc=False, frozen=True):
    """Spec of a ClusterTopologyBinding; the outermost level first."""

    levels: list[GroveTopologyLevel] | None = None


class GroveTopology(Struct, gc=False, frozen=True):
    """A `grove.io/v1alpha1` ClusterTopologyBinding, which was called ClusterTopology before and had the same form."""

    metadata: ObjectMeta | None = None
    spec: GroveTopologySpec | None = None


#: Believe what is there, in the order of `choose_levels`; believe nothing.
AUTO, NONE = "auto", "none"


def choose_levels(
    configured: Sequence[Level],
    preset: str,
    hyper_nodes: Levels | None,
    lists: Sequence[LevelList],
    labelled: Mapping[str, int],
) -> Levels:
    """Return the levels to plan with, and in `source` where they come from.

    A `configured` list wins, then a `preset` that is named. With AUTO: HyperNodes, else the first of `lists` that has
    levels, else the preset whose labels most nodes carry. `labelled` counts the nodes that carry a label.
    """
    if configured:
        return Levels(tuple(configured), source="settings")
    if preset == NONE:
        return Levels(source="settings: topology_preset none")
    if preset != AUTO:
        named = next(each for each in PRESETS if each.name == preset)
        return Levels(_fitting(named, labelled), source=f"preset {preset}")
    if hyper_nodes is not None and hyper_nodes.levels:
        return hyper_nodes
    for each in lists:
        if each.levels:
            return Levels(each.levels, source=f"{each.about.kind} {each.about.group}/{each.about.name}")
    best = max(PRESETS, key=lambda each: (_coverage(each, labelled) > 0, not each.fallback, _coverage(each, labelled)))
    if not _coverage(best, labelled):
        return Levels(source="no node has labels of a known preset")
    return Levels(_fitting(best, labelled), source=f"preset {best.name}")


def _coverage(preset: Preset, labelled: Mapping[str, int]) -> int:
    return max(_carriers(variant, labelled) for variant in preset.variants)


def _carriers(variant: tuple[Level, ...], labelled: Mapping[str, int]) -> int:
    return max(labelled.get(level.label, 0) for level in variant)


def _fitting(preset: Preset, labelled: Mapping[str, int]) -> tuple[Level, ...]:
    """Return the variant that most nodes carry, without levels that none does; all of it while there are no nodes."""
    variant = max(preset.variants, key=lambda each: _carriers(each, labelled))
    return tuple(level for level in variant if labelled.get(level.label)) or variant


decode_topology = Decoder(Topology)
decode_network_topology = Decoder(NetworkTopology)
decode_grove_topology = Decoder(GroveTopology)

#: Koordinator's API group.
NETWORK_TOPOLOGY_GROUP = "scheduling.koordinator.sh"
#: Whose list comes first, by API group, where several are there.
LEVEL_GROUPS = ("kueue.x-k8s.io", "kai.scheduler", "grove.io", NETWORK_TOPOLOGY_GROUP)

#: The layers that Koordinator knows by itself. Source: koordinator apis/scheduling/v1alpha1.
_CLUSTER_LAYER = "ClusterTopologyLayer"
_NODE_LAYER = "NodeTopologyLayer"


@dataclass(frozen=True, slots=True)
class LevelList:
    """What one object says: levels, outermost first, without the node itself; `problems` say what was left out."""

    about: ObjectRef
    levels: tuple[Level, ...] = ()
    problems: tuple[Problem, ...] = ()


def read_topology(topology: Topology, api_version: str) -> LevelList:
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


def read_grove_topology(topology: GroveTopology) -> LevelList:
    """Read a ClusterTopologyBinding; each level has the name of its domain. What is within a node is left out.

    Source: NVIDIA/grove operator/api/core/v1alpha1/clustertopologybinding.go.
    """
    meta = topology.metadata or ObjectMeta()
    levels: dict[str, Level] = {}
    problems: list[Problem] = []
    names, within_node = set(RESERVED_NAMES), False
    for index, entry in enumerate((topology.spec and topology.spec.levels) or ()):
        where, name, label = f"spec.levels[{index}]", entry.domain or "", entry.key or ""
        if within_node:
            problems.append(Problem(where, f"{name!r} is within a node and left out: its kubelet decides about that"))
        elif not label:
            problems.append(Problem(f"{where}.key", "is empty; name the node label of that level"))
        elif label in levels:
            problems.append(Problem(f"{where}.key", f"{label!r} is there twice; only the first counts"))
        elif label in HOST_LABELS:
            within_node = True
        else:
            levels[label] = Level(name if name and name not in names else label, label)
            names.add(name)
    about = ObjectRef.of("grove.io/v1alpha1", "ClusterTopologyBinding", meta)
    return LevelList(about, tuple(levels.values()), tuple(problems))


def read_network_topology(topology: NetworkTopology) -> LevelList:
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
