"""KAI's PodGroups, with subgroups inside each other.

KAI's own controller makes PodGroups for pods of its scheduler; for others they are written with the pods.
Source: kai-scheduler/KAI-Scheduler pkg/apis/scheduling/v2alpha2/podgroup_types.go and
docs/developer/designs/multi-level-topology.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from msgspec import Struct

from extender.objects.branches import MOST_DEPTH, Branch
from extender.objects.keys import is_level
from extender.objects.meta import Decoder, Int32, ObjectMeta, ObjectRef, share_labels
from extender.objects.peers import Reading
from extender.objects.podgroup import GroupRef, PodGroup, read_group_options
from extender.objects.reason import Problem, quoted
from extender.objects.sources.source import PriorityValues, Source, WorkloadKind

KAI: Final = "scheduling.run.ai"
KAI_GROUP: Final = "pod-group-name"
KAI_SUBGROUP: Final = "kai.scheduler/subgroup-name"


class KaiTopology(Struct, gc=False, frozen=True, rename="camel"):
    """Node labels of whose domains pods must or should share one."""

    required_topology_level: str | None = None
    preferred_topology_level: str | None = None


class KaiSubGroup(Struct, gc=False, frozen=True, rename="camel"):
    """A subgroup: pods that are labelled with its name, or other subgroups whose parent it is."""

    name: str | None = None
    min_member: Int32 | None = None
    min_sub_group: Int32 | None = None
    parent: str | None = None
    topology_constraint: KaiTopology | None = None


class KaiSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Spec of a `scheduling.run.ai/v2alpha2` PodGroup; `min_sub_group` counts subgroups without parent."""

    min_member: Int32 | None = None
    min_sub_group: Int32 | None = None
    queue: str | None = None
    priority_class_name: str | None = None
    preemptibility: str | None = None
    sub_groups: list[KaiSubGroup] | None = None
    topology_constraint: KaiTopology | None = None


class KaiPodGroup(Struct, gc=False, frozen=True):
    """A `scheduling.run.ai/v2alpha2` PodGroup."""

    metadata: ObjectMeta | None = None
    spec: KaiSpec | None = None


decode_kai_pod_group = Decoder(KaiPodGroup)


def read_kai(group: KaiPodGroup, priority: int | None = None) -> PodGroup:
    """Read a `scheduling.run.ai/v2alpha2` PodGroup; subgroups that can be no tree become the `problem`.

    Args:
        group: the object.
        priority: the value of its PriorityClass; None where the members' own priority counts.
    """
    meta, spec, reading = group.metadata or ObjectMeta(), group.spec or KaiSpec(), Reading()
    own = _levels(spec.topology_constraint, "spec", reading)
    for term, level in zip(("required", "preferred"), own, strict=True):
        reading.level(term, level, f"spec.topologyConstraint.{term}TopologyLevel")
    options = read_group_options(meta, reading).with_peer_queue(spec.queue or "")
    if spec.preemptibility == "non-preemptible" and options.preemptible is None:
        options = replace(options, preemptible=False)
    problem = _problem(spec.sub_groups or ())
    tree = None
    if spec.sub_groups and problem is None:
        parts = _parts(spec.sub_groups, "", 0, Reading())
        tree = Branch(meta.name or "", len(parts) if spec.min_sub_group is None else spec.min_sub_group, parts)
    return PodGroup(
        ref=GroupRef(KAI, meta.namespace or "", meta.name or ""),
        uid=meta.uid or "",
        min_member=max(spec.min_member or 1, 1),
        priority=priority,
        created=meta.creation_timestamp or "",
        generation=meta.generation or 0,
        labels=share_labels(meta.labels),
        options=options,
        problem=problem or reading.refused,
        about=ObjectRef.of(f"{KAI}/v2alpha2", "PodGroup", meta),
        tree=tree,
    )


def _parts(groups: Sequence[KaiSubGroup], parent: str, depth: int, reading: Reading) -> tuple[Branch, ...]:
    """Return the subgroups whose parent is called so, with those inside them."""
    found = []
    for group in groups:
        if (group.parent or "") != parent:
            continue
        inner = _parts(groups, group.name or "", depth + 1, reading) if depth < MOST_DEPTH else ()
        least = group.min_member or 1
        if inner:
            least = len(inner) if group.min_sub_group is None else group.min_sub_group
        found.append(Branch(group.name or "", least, inner, *_levels(group.topology_constraint, "", reading)))
    return tuple(found)


def _problem(groups: Sequence[KaiSubGroup]) -> Problem | None:
    """Return why subgroups are no tree: names that are missing or there twice, parents that are none, bad levels."""
    names, parents, reading = set[str](), {each.name or "": each.parent or "" for each in groups}, Reading()
    for index, group in enumerate(groups):
        where, name = f"spec.subGroups[{index}]", group.name or ""
        if not name or name in names:
            return Problem(f"{where}.name", f"{quoted(name)} is there twice" if name else "is missing")
        names.add(name)
        if not _is_rooted(name, parents):
            return Problem(f"{where}.parent", f"{quoted(group.parent or '')} leads to no subgroup without parent")
        _levels(group.topology_constraint, where, reading)
    return reading.refused


def _is_rooted(name: str, parents: Mapping[str, str]) -> bool:
    """Tell whether a subgroup is within so many others that no more is not expected."""
    for _ in range(MOST_DEPTH):
        if not name:
            return True
        name = parents.get(name, name)
    return not name


def _levels(constraint: KaiTopology | None, where: str, reading: Reading) -> tuple[str, str]:
    """Return the required and the preferred level; a required one that can be none is refused."""
    levels, field = constraint or KaiTopology(), f"{where}.topologyConstraint"
    required, preferred = levels.required_topology_level or "", levels.preferred_topology_level or ""
    if required and not is_level(required):
        reading.refuse(f"{field}.requiredTopologyLevel", f"{quoted(required)} is not the name of a level")
        required = ""
    if preferred and not is_level(preferred):
        reading.problem(f"{field}.preferredTopologyLevel", f"{quoted(preferred)} is not the name of a level")
        preferred = ""
    return required, preferred


def _read(group: KaiPodGroup, priorities: PriorityValues) -> tuple[PodGroup]:
    name = (group.spec.priority_class_name if group.spec is not None else None) or ""
    return (read_kai(group, priorities.get(name)),)


SOURCE = Source(
    api=KAI,
    noun="PodGroup",
    gang=lambda _spec, _labels, annotations: annotations.get(KAI_GROUP, ""),
    gang_keys=(KAI_GROUP,),
    explicit=True,
    kinds=(WorkloadKind(KAI, "PodGroup", "podgroups", ("v2alpha2",), decode_kai_pod_group, _read, vital=True),),
    role=lambda labels, _annotations: labels.get(KAI_SUBGROUP, ""),
    role_keys=(KAI_SUBGROUP,),
)
