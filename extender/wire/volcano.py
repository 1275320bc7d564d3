"""Slim structs of Volcano's PodGroup. Same rules as in `extender.wire.kubernetes`."""

from __future__ import annotations

from msgspec import Struct

from extender.wire.kubernetes import Int32, Int64, ObjectMeta, ResourceList
from extender.wire.topology import LabelSelector


class TierLimit(Struct, gc=False, frozen=True, rename="camel"):
    """A NetworkTopologySpec: how far apart pods may be; `mode` is hard or soft."""

    mode: str | None = None
    highest_tier_allowed: Int64 | None = None
    highest_tier_name: str | None = None


class LabelKey(Struct, gc=False, frozen=True, rename="camel"):
    """One `matchPolicy` of Volcano 1.14, which later versions write as `matchLabelKeys`."""

    label_key: str | None = None


class SubGroupPolicy(Struct, gc=False, frozen=True, rename="camel"):
    """Pods of a PodGroup that form subgroups: of those selected, those that agree on some labels."""

    name: str | None = None
    network_topology: TierLimit | None = None
    sub_group_size: Int32 | None = None
    min_sub_groups: Int32 | None = None
    label_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    match_policy: list[LabelKey] | None = None


class VolcanoSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Spec of a `scheduling.volcano.sh/v1beta1` PodGroup; `min_task_member` is by task."""

    min_member: Int32 | None = None
    min_task_member: dict[str, Int32] | None = None
    min_resources: ResourceList | None = None
    queue: str | None = None
    priority_class_name: str | None = None
    network_topology: TierLimit | None = None
    sub_group_policy: list[SubGroupPolicy] | None = None


class VolcanoPodGroup(Struct, gc=False, frozen=True):
    """A `scheduling.volcano.sh/v1beta1` PodGroup."""

    metadata: ObjectMeta | None = None
    spec: VolcanoSpec | None = None
