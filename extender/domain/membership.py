"""Which gang a pod says it belongs to: one adapter per API, asked in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from extender.domain import keys
from extender.wire import kubernetes as wire

#: Label of the coscheduling plugin. Source: kubernetes-sigs/scheduler-plugins apis/scheduling/v1alpha1.
COSCHEDULING_LABEL = "scheduling.x-k8s.io/pod-group"

#: Annotations of Volcano, the older one first: its controllers and other operators write that one. Source:
#: volcano-sh/apis pkg/apis/scheduling/v1beta1/labels.go.
VOLCANO_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")


class GroupApi(StrEnum):
    """The API that describes a gang; the value is the API group of its objects."""

    COSCHEDULING = "scheduling.x-k8s.io"
    NATIVE = "scheduling.k8s.io"
    VOLCANO = "scheduling.volcano.sh"
    LABEL = "muster.dev"  # pod labels and annotations alone, without an object


@dataclass(frozen=True, slots=True, order=True)
class GroupRef:
    """The name of a gang: unique in the cluster at any instant, but reusable over time."""

    api: GroupApi
    namespace: str
    name: str

    def __str__(self) -> str:
        """Render as `namespace/name`."""
        return f"{self.namespace}/{self.name}"


def read_group(
    spec: wire.PodSpec, namespace: str, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> GroupRef | None:
    """Return the gang a pod belongs to, or None for a pod on its own."""
    if name := labels.get(COSCHEDULING_LABEL):
        return GroupRef(GroupApi.COSCHEDULING, namespace, name)
    if spec.scheduling_group is not None and (name := spec.scheduling_group.pod_group_name):
        return GroupRef(GroupApi.NATIVE, namespace, name)
    if name := next((annotations[key] for key in VOLCANO_ANNOTATIONS if annotations.get(key)), ""):
        return GroupRef(GroupApi.VOLCANO, namespace, name)
    if name := labels.get(keys.GANG):
        return GroupRef(GroupApi.LABEL, namespace, name)
    return None
