"""Which gang a pod says it belongs to: one adapter per API, asked in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeAlias

from extender.domain import keys
from extender.wire import kubernetes as wire

#: Label of the coscheduling plugin. Source: kubernetes-sigs/scheduler-plugins apis/scheduling/v1alpha1.
COSCHEDULING_LABEL = "scheduling.x-k8s.io/pod-group"

#: Annotations of Volcano, the older one first: its controllers and other operators write that one. Source:
#: volcano-sh/apis pkg/apis/scheduling/v1beta1/labels.go.
VOLCANO_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")

#: Kueue's groups of plain pods. Source: kubernetes-sigs/kueue pkg/controller/jobs/pod/constants.
KUEUE_GROUP = "kueue.x-k8s.io/pod-group-name"
KUEUE_SIZE = "kueue.x-k8s.io/pod-group-total-count"
#: Kueue's integration of StatefulSets makes a group of their pods and sets both of these on it: the pods come one after
#: the other and need not start together. Source: kubernetes-sigs/kueue pkg/controller/jobs/statefulset.
_KUEUE_SERVING = ("kueue.x-k8s.io/pod-group-serving", "kueue.x-k8s.io/pod-group-fast-admission")

#: Source: kubernetes-sigs/jobset api/jobset/v1alpha2.
JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"

#: Source: kubernetes-sigs/lws api/leaderworkerset/v1.
LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
LWS_GROUP = "leaderworkerset.sigs.k8s.io/group-index"
LWS_SIZE = "leaderworkerset.sigs.k8s.io/size"

#: Source: kubeflow/training-operator pkg/apis/kubeflow.org/v1; kubeflow/mpi-operator pkg/apis/kubeflow/v2beta1.
KUBEFLOW_JOB = "training.kubeflow.org/job-name"

#: A pod of another node type is not part of the Ray cluster: one removes its leftovers when it is gone. Source:
#: ray-project/kuberay ray-operator/controllers/ray/utils/constant.go and apis/ray/v1/raycluster_types.go.
RAY_CLUSTER = "ray.io/cluster"
RAY_NODE_TYPE = "ray.io/node-type"
_RAY_NODE_TYPES = frozenset({"head", "worker"})


class GroupApi(StrEnum):
    """The API that describes a gang; the value is the API group of its objects, or of what its pods say."""

    COSCHEDULING = "scheduling.x-k8s.io"
    NATIVE = "scheduling.k8s.io"
    VOLCANO = "scheduling.volcano.sh"
    KUEUE = "kueue.x-k8s.io"  # groups of plain pods, without an object that Muster reads
    JOBSET = "jobset.x-k8s.io"
    LEADER_WORKER_SET = "leaderworkerset.x-k8s.io"  # one gang for each group of a set; the pods say how many they are
    KUBEFLOW = "kubeflow.org"
    RAY = "ray.io"
    LABEL = "muster.dev"  # pod labels and annotations alone, without an object

    @property
    def kind(self) -> str:
        """Return what people call the object that describes a gang."""
        return _KINDS.get(self, "PodGroup")

    @property
    def size_annotation(self) -> str:
        """Return the annotation in which pods say how many of them start together, "" where an object says it."""
        return _SIZES.get(self, "")


_KINDS: Final[Mapping[GroupApi, str]] = MappingProxyType(
    {
        GroupApi.KUEUE: "Kueue pod group",
        GroupApi.JOBSET: "JobSet",
        GroupApi.LEADER_WORKER_SET: "LeaderWorkerSet",
        GroupApi.KUBEFLOW: "Kubeflow job",
        GroupApi.RAY: "RayCluster",
        GroupApi.LABEL: "gang",
    }
)
_SIZES: Final[Mapping[GroupApi, str]] = MappingProxyType(
    {GroupApi.KUEUE: KUEUE_SIZE, GroupApi.LEADER_WORKER_SET: LWS_SIZE, GroupApi.LABEL: keys.MIN_MEMBER}
)


@dataclass(frozen=True, slots=True, order=True)
class GroupRef:
    """The name of a gang: unique in the cluster at any instant, but reusable over time."""

    api: GroupApi
    namespace: str
    name: str

    def __str__(self) -> str:
        """Render as `namespace/name`."""
        return f"{self.namespace}/{self.name}"


_Keyed: TypeAlias = Mapping[str, str]


def read_group(spec: wire.PodSpec, namespace: str, labels: _Keyed, annotations: _Keyed) -> GroupRef | None:
    """Return the gang a pod belongs to, or None for a pod on its own.

    Who wrote a PodGroup for the pods of an operator wants that to count, so references to one come first.
    """
    if name := labels.get(COSCHEDULING_LABEL):
        return GroupRef(GroupApi.COSCHEDULING, namespace, name)
    if spec.scheduling_group is not None and (name := spec.scheduling_group.pod_group_name):
        return GroupRef(GroupApi.NATIVE, namespace, name)
    if name := next((annotations[key] for key in VOLCANO_ANNOTATIONS if annotations.get(key)), ""):
        return GroupRef(GroupApi.VOLCANO, namespace, name)
    api, name = _operators_group(labels, annotations)
    return GroupRef(api, namespace, name) if name else None


def _operators_group(labels: _Keyed, annotations: _Keyed) -> tuple[GroupApi, str]:
    """Return what an operator's keys call the gang of its pod, else what the plain label does; no name is none."""
    if (name := labels.get(KUEUE_GROUP)) and not all(annotations.get(key) == "true" for key in _KUEUE_SERVING):
        return GroupApi.KUEUE, name
    if name := labels.get(JOBSET_NAME):
        return GroupApi.JOBSET, name
    if (name := labels.get(LWS_NAME)) and (index := labels.get(LWS_GROUP)):
        return GroupApi.LEADER_WORKER_SET, lws_group(name, index)
    if name := labels.get(KUBEFLOW_JOB):
        return GroupApi.KUBEFLOW, name
    if (name := labels.get(RAY_CLUSTER)) and labels.get(RAY_NODE_TYPE) in _RAY_NODE_TYPES:
        return GroupApi.RAY, name
    return GroupApi.LABEL, labels.get(keys.GANG, "")


def lws_group(name: str, index: str) -> str:
    """Return what the group number `index` of the LeaderWorkerSet called `name` is called, as its leader is."""
    return f"{name}-{index}"
