"""DisaggregatedSets: each slice of a set is a gang, of one revision, with a part for each group of each role.

Their controller makes a LeaderWorkerSet for each role, and lets a rollout begin with one group of each role. So a gang
needs no more than that, and further groups join whole:

    gang llm-0-5d8c7b    needs
      prefill            one of its groups, each with all of its pods
      decode             one of its groups

Source: kubernetes-sigs/lws api/disaggregatedset/v1 and pkg/controllers/disaggregatedset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from extender.objects.branches import LabelParts
from extender.objects.manifest import Manifest
from extender.objects.meta import Decoder, Int32, ObjectMeta, ObjectRef, Requirement, share_labels
from extender.objects.peers import Reading
from extender.objects.podgroup import ANY_NAME, GroupRef, PodGroup, SubmittedPodSet, numbered, read_group_options
from extender.objects.podspec import PodSpec
from extender.objects.sources.leaderworkerset import (
    LWS_GROUP,
    LWS_NAME,
    LeaderWorkerSetSpec,
    makes_leaders_first,
    pods_of_groups,
)
from extender.objects.sources.roster import first_negative
from extender.objects.sources.source import Keyed, Source, WorkloadKind
from extender.objects.topology import LabelGroup

DISAGGREGATED_SET: Final = "disaggregatedset.x-k8s.io"
SET_NAME: Final = "disaggregatedset.x-k8s.io/name"
SET_SLICE: Final = "disaggregatedset.x-k8s.io/slice"
SET_REVISION: Final = "disaggregatedset.x-k8s.io/revision"
SET_ROLE: Final = "disaggregatedset.x-k8s.io/role"


class DisaggregatedRole(Struct, gc=False, frozen=True):
    """What a role is made of: the metadata and the spec of its LeaderWorkerSets."""

    name: str | None = None
    metadata: ObjectMeta | None = None
    spec: LeaderWorkerSetSpec | None = None


class DisaggregatedSetSpec(Struct, gc=False, frozen=True):
    """Spec of a DisaggregatedSet; without `slices` there is one."""

    roles: list[DisaggregatedRole] | None = None
    slices: Int32 | None = None


class DisaggregatedSet(Struct, gc=False, frozen=True):
    """A `disaggregatedset.x-k8s.io/v1` DisaggregatedSet."""

    metadata: ObjectMeta | None = None
    spec: DisaggregatedSetSpec | None = None


decode_disaggregated_set = Decoder(DisaggregatedSet)


def read_disaggregated_set(workload: DisaggregatedSet) -> tuple[PodGroup, ...]:
    """Read a DisaggregatedSet into one gang for each slice, which stands for those of all revisions.

    A bad count becomes the `problem` of the first; there are no others then.
    """
    meta, spec = workload.metadata or ObjectMeta(), workload.spec or DisaggregatedSetSpec()
    roles = [(role, role.spec or LeaderWorkerSetSpec()) for role in spec.roles or ()]
    sizes = {f"spec.roles[{index}].{_SIZE}": _size(each) for index, (_, each) in enumerate(roles)}
    problem = first_negative({"spec.slices": spec.slices, **sizes})
    options = read_group_options(meta, Reading())
    parts = tuple(_part(role, each) for role, each in roles) if problem is None and not options.says_parts else ()
    slices = 1 if problem is not None or spec.slices is None else spec.slices
    return tuple(
        PodGroup(
            ref=GroupRef(DISAGGREGATED_SET, meta.namespace or "", f"{meta.name or ''}-{number}-{ANY_NAME}"),
            uid=f"{meta.uid or ''}/{number}",
            min_member=options.min_member or 1,
            created=meta.creation_timestamp or "",
            generation=meta.generation or 0,
            labels=share_labels(meta.labels),
            options=options,
            problem=problem,
            about=ObjectRef.of(f"{DISAGGREGATED_SET}/v1", "DisaggregatedSet", meta),
            label_parts=parts,
        )
        for number in range(slices)
    )


_SIZE: Final = "spec.leaderWorkerTemplate.size"


def _size(spec: LeaderWorkerSetSpec) -> int | None:
    return None if spec.leader_worker_template is None else spec.leader_worker_template.size


def _part(role: DisaggregatedRole, spec: LeaderWorkerSetSpec) -> LabelParts:
    """Return the groups of a role, of which one is needed; of a group whose leader comes first, its leader."""
    size, own = _size(spec), (Requirement(SET_ROLE, "In", (role.name or "",)),)
    if makes_leaders_first(role.metadata, spec):
        size = 1
    return LabelParts(role.name or "", LabelGroup((LWS_GROUP,), "", selector=own), 1, 1 if size is None else size)


def disaggregated_set_pods(of: Manifest) -> Sequence[SubmittedPodSet]:
    """Return the pods that the groups of all roles have at first, in every slice; their revision may be any."""
    spec = of.whole(DisaggregatedSet).spec or DisaggregatedSetSpec()
    sets: list[SubmittedPodSet] = []
    for part in numbered(of.name, 1 if spec.slices is None else spec.slices, of, "spec.slices"):
        labels = {SET_NAME: of.name, SET_SLICE: part.rpartition("-")[2], SET_REVISION: ANY_NAME}
        for index, role in enumerate(spec.roles or ()):
            own = {**labels, SET_ROLE: role.name or "", LWS_NAME: f"{part}-{role.name or ''}"}
            groups = role.spec or LeaderWorkerSetSpec()
            sets += pods_of_groups(of, role.metadata, groups, own, f"spec.roles[{index}].")
    return sets


def _gang(_spec: PodSpec, labels: Keyed, _annotations: Keyed) -> str:
    """Return what a pod's gang is called; the pods of sets that have no slices are as those of LeaderWorkerSets."""
    names = labels.get(SET_NAME), labels.get(SET_SLICE), labels.get(SET_REVISION)
    return "-".join(name for name in names if name) if all(names) and labels.get(LWS_GROUP) else ""


SOURCE = Source(
    api=DISAGGREGATED_SET,
    noun="DisaggregatedSet",
    gang=_gang,
    gang_keys=(SET_NAME,),
    kinds=(
        WorkloadKind(
            DISAGGREGATED_SET,
            "DisaggregatedSet",
            "disaggregatedsets",
            ("v1",),
            decode_disaggregated_set,
            lambda item, _priorities: read_disaggregated_set(item),
            disaggregated_set_pods,
            vital=True,
        ),
    ),
)
