"""PodGangs of Grove, by which it has multi-node inference scheduled: NVIDIA Dynamo deploys with it.

A PodCliqueSet's replica is one gang with its standalone PodCliques and as many replicas of each scaling group as it
must have; what a scaling group has beyond them are gangs of their own, which Grove gates until the first one runs. Pods
of one PodClique are one role.

Source: NVIDIA/grove scheduler/api/core/v1alpha1/podgang.go, operator/api/common/labels.go and
docs/designs/gang-scheduling-semantics.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from msgspec import Struct

from extender.objects.keys import is_level
from extender.objects.meta import Decoder, Int32, ObjectMeta, ObjectRef, share_labels
from extender.objects.peers import Reading
from extender.objects.podgroup import GroupRef, PodGroup, read_group_options
from extender.objects.reason import quoted
from extender.objects.sources.roster import first_negative
from extender.objects.sources.source import PriorityValues, Source, WorkloadKind
from extender.objects.topology import RoleGroup

GROVE: Final = "scheduler.grove.io"
GROVE_GANG: Final = "grove.io/podgang"
GROVE_CLIQUE: Final = "grove.io/podclique"


class GrovePackConstraint(Struct, gc=False, frozen=True):
    """Node labels of whose domains pods must or should share one."""

    required: str | None = None
    preferred: str | None = None


class GroveTopologyConstraint(Struct, gc=False, frozen=True, rename="camel"):
    """Where pods must or should be together."""

    pack_constraint: GrovePackConstraint | None = None


class GroveConstraintGroup(Struct, gc=False, frozen=True, rename="camel"):
    """PodCliques that must or should be together: those of one replica of a scaling group."""

    pod_group_names: list[str] | None = None
    topology_constraint: GroveTopologyConstraint | None = None


class GrovePodGroup(Struct, gc=False, frozen=True, rename="camel"):
    """The pods of one PodClique, called as it is; those beyond `min_replicas` are extras."""

    name: str | None = None
    min_replicas: Int32 | None = None
    topology_constraint: GroveTopologyConstraint | None = None


class PodGangSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Spec of a PodGang; `podgroups` is written like this."""

    podgroups: list[GrovePodGroup] | None = None
    topology_constraint: GroveTopologyConstraint | None = None
    topology_constraint_group_configs: list[GroveConstraintGroup] | None = None
    priority_class_name: str | None = None


class PodGang(Struct, gc=False, frozen=True):
    """A `scheduler.grove.io/v1alpha1` PodGang."""

    metadata: ObjectMeta | None = None
    spec: PodGangSpec | None = None


decode_pod_gang = Decoder(PodGang)


def read_pod_gang(gang: PodGang, priority: int | None = None) -> PodGroup:
    """Read a PodGang; a negative minimum becomes the `problem`, a level that cannot be one a problem of the options.

    Args:
        gang: the object.
        priority: the value of its PriorityClass; None where the members' own priority counts.

    The annotation `muster.dev/min-member` of the object counts before its minimums, as with other operators.
    """
    meta = gang.metadata or ObjectMeta()
    spec = gang.spec or PodGangSpec()
    groups = spec.podgroups or []
    problem = first_negative({f"spec.podgroups[{i}].minReplicas": group.min_replicas for i, group in enumerate(groups)})
    minimums = {} if problem else {group.name or "": group.min_replicas or 0 for group in groups}
    reading = Reading()
    for term, level, where in _levels(spec.topology_constraint, "spec", reading):
        reading.level(term, level, where)
    together = tuple(_together(spec, reading))
    options = read_group_options(meta, reading)
    if together:
        options = replace(options, peers=replace(options.peers, role_groups=together))
    return PodGroup(
        ref=GroupRef(GROVE, meta.namespace or "", meta.name or ""),
        uid=meta.uid or "",
        min_member=options.min_member or max(sum(minimums.values()), 1),
        role_minimums=() if options.min_member else tuple(sorted((role, n) for role, n in minimums.items() if n)),
        priority=priority,
        created=meta.creation_timestamp or "",
        generation=meta.generation or 0,
        labels=share_labels(meta.labels),
        options=options,
        problem=problem,
        about=ObjectRef.of(f"{GROVE}/v1alpha1", "PodGang", meta),
    )


def _together(spec: PodGangSpec, reading: Reading) -> Iterator[RoleGroup]:
    """Yield which roles go to one domain: those of each scaling group's replica, and each PodClique by itself."""
    for index, config in enumerate(spec.topology_constraint_group_configs or ()):
        where = f"spec.topologyConstraintGroupConfigs[{index}]"
        for term, level, _ in _levels(config.topology_constraint, where, reading):
            if config.pod_group_names:
                yield RoleGroup(frozenset(config.pod_group_names), level, required=term == "required")
    for index, group in enumerate(spec.podgroups or ()):
        for term, level, _ in _levels(group.topology_constraint, f"spec.podgroups[{index}]", reading):
            yield RoleGroup(frozenset({group.name or ""}), level, required=term == "required")


def _levels(constraint: GroveTopologyConstraint | None, where: str, reading: Reading) -> Iterator[tuple[str, str, str]]:
    """Yield (`required` or `preferred`, level, field) of what a constraint asks for."""
    pack = (constraint.pack_constraint if constraint is not None else None) or GrovePackConstraint()
    for term, level in (("required", pack.required), ("preferred", pack.preferred)):
        field = f"{where}.topologyConstraint.packConstraint.{term}"
        if level and is_level(level):
            yield term, level, field
        elif level:
            reading.problem(field, f"{quoted(level)} is not the name of a level or a node label key")


def _read(gang: PodGang, priorities: PriorityValues) -> tuple[PodGroup]:
    name = (gang.spec.priority_class_name if gang.spec is not None else None) or ""
    return (read_pod_gang(gang, priorities.get(name)),)


SOURCE = Source(
    api=GROVE,
    noun="PodGang",
    label=GROVE_GANG,
    explicit=True,
    kinds=(WorkloadKind(GROVE, "PodGang", "podgangs", ("v1alpha1",), decode_pod_gang, _read, vital=True),),
    role=lambda labels, _annotations: labels.get(GROVE_CLIQUE, ""),
    role_keys=(GROVE_CLIQUE,),
    index_keys=("grove.io/podclique-pod-index",),
)
