"""Objects that somebody thinks of submitting, as the gangs that would come of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from extender.domain.membership import GroupApi, GroupRef
from extender.domain.objectref import ObjectRef
from extender.domain.pod import Pod, read_pod
from extender.domain.podgroup import PodGroup, read_coscheduling, read_native
from extender.domain.submission.controllers import job_pods, replicated_pods
from extender.domain.submission.manifest import Manifest, SubmissionError, read_manifests
from extender.domain.submission.operators import (
    REPLICAS_FIELDS,
    job_set_pods,
    kubeflow_pods,
    leader_worker_set_pods,
    ray_cluster_pods,
)
from extender.domain.submission.podsets import HYPOTHETICAL, MOST_PODS, PodSet, bare_pod
from extender.domain.volcano import read_volcano
from extender.domain.workloads.jobset import read_job_set
from extender.domain.workloads.kubeflow import KubeflowKind, read_kubeflow_job
from extender.domain.workloads.leaderworkerset import read_leader_worker_set
from extender.domain.workloads.ray import read_ray_cluster
from extender.wire import kubernetes as wire
from extender.wire import volcano, workloads

Expand: TypeAlias = Callable[[Manifest], Sequence[PodSet]]

_KUBEFLOW: Final = "kubeflow.org"
_RAY: Final = "ray.io"

#: (API group, kind) -> the pods that its controller makes.
_EXPANDED: Final[Mapping[tuple[str, str], Expand]] = {
    ("batch", "Job"): job_pods,
    ("apps", "Deployment"): replicated_pods,
    ("apps", "StatefulSet"): replicated_pods,
    ("apps", "ReplicaSet"): replicated_pods,
    ("jobset.x-k8s.io", "JobSet"): job_set_pods,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): leader_worker_set_pods,
    (_RAY, "RayCluster"): ray_cluster_pods,
    **{(_KUBEFLOW, kind): kubeflow_pods for kind in REPLICAS_FIELDS},
}
#: Where objects that make a RayCluster have its spec.
_RAY_CLUSTERS: Final[Mapping[tuple[str, str], str]] = {
    (_RAY, "RayJob"): "rayClusterSpec",
    (_RAY, "RayService"): "rayClusterConfig",
}
#: What people have beside their workloads, and what makes no pods.
_WITHOUT_PODS: Final = frozenset(
    {
        *("Namespace", "Service", "ServiceAccount", "ConfigMap", "Secret", "PersistentVolumeClaim", "PersistentVolume"),
        *("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "NetworkPolicy", "PodDisruptionBudget"),
        *("Ingress", "StorageClass", "ResourceClaimTemplate", "HorizontalPodAutoscaler"),
    }
)
_UNSUPPORTED: Final[Mapping[str, str]] = {
    "TrainJob": "its runtime decides which pods there are: ask about the JobSet that the trainer makes of it "
    "(kubectl get jobset NAME -o yaml)",
    "CronJob": "ask about the Job in spec.jobTemplate",
}
#: PriorityClasses that every cluster has. Source: k8s.io/kubernetes pkg/apis/scheduling/types.go.
_SYSTEM_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


@dataclass(frozen=True, slots=True)
class Priorities:
    """What is known of PriorityClasses: values by name, and that of pods that name none."""

    classes: Mapping[str, int] = field(default_factory=dict)
    default: int = 0


@dataclass(frozen=True, slots=True)
class Submitted:
    """One gang that would come of the objects.

    `group` is the object that describes it, None if the file has none; `remarks` say what was assumed. Pods that name
    no gang stand together as one of which each starts by itself, `alone`.
    """

    ref: GroupRef
    group: PodGroup | None
    pods: tuple[Pod, ...]
    remarks: tuple[str, ...] = ()
    alone: bool = False


def read_submission(objects: Sequence[object], priorities: Priorities, created: str) -> tuple[Submitted, ...]:
    """Return the gangs that would come of Kubernetes objects, in the order in which they are first named.

    Args:
        objects: the objects as plain values, lists of objects included.
        priorities: the PriorityClasses of the cluster; those among the objects are added.
        created: when all of them would be created (RFC 3339).

    Raises SubmissionError naming object and field for what cannot be read, or makes pods that nobody can foretell.
    """
    manifests = [each for one in read_manifests(objects) for each in _unwrapped(one)]
    reading = _Reading(_with_classes(manifests, priorities), created)
    for manifest in manifests:
        reading.take_in(manifest)
    if not reading.gangs:
        raise SubmissionError("there is no object that makes pods; a PodGroup, Pod, Job, JobSet ... is needed")
    return tuple(reading.submitted())


@dataclass(slots=True)
class _Gathered:
    """What has been read of one gang."""

    group: PodGroup | None = None
    pods: dict[str, Pod] = field(default_factory=dict)
    remarks: dict[str, None] = field(default_factory=dict)
    alone: bool = False


class _Reading:
    """Gather pods and the objects that describe their gangs, which come in any order."""

    def __init__(self, priorities: Priorities, created: str) -> None:
        self.gangs: dict[GroupRef, _Gathered] = {}
        self._priorities = priorities
        self._created = created
        self._pods = 0

    def take_in(self, manifest: Manifest) -> None:
        """Take in an object; raise SubmissionError for what is not understood."""
        key = (manifest.group, manifest.kind)
        groups = _groups(manifest, self._priorities)
        for group in groups or ():
            self._describe(group, manifest)
        if key == ("", "Pod"):
            self._add_pod(manifest, _read_pod(manifest))
        elif (expand := _EXPANDED.get(key)) is not None:
            self._expand(manifest, expand)
        elif groups is None and manifest.kind not in _WITHOUT_PODS and key != _PRIORITY_CLASS:
            why = _UNSUPPORTED.get(manifest.kind, "nobody here knows which pods come of it; give the pods, or its Job")
            raise manifest.refuse("kind", f"{manifest.api_version} {manifest.kind} is not supported: {why}")

    def submitted(self) -> Iterator[Submitted]:
        """Yield the gangs; more gangs are called after their pods alone than after objects."""
        for ref, gang in self.gangs.items():
            remarks = list(gang.remarks)
            if not gang.pods:
                remarks.append("none of the objects makes pods of this gang; those in the cluster are not counted")
            yield Submitted(ref, gang.group, tuple(gang.pods.values()), tuple(remarks), gang.alone)

    def _describe(self, group: PodGroup, by: Manifest) -> None:
        gang = self.gangs.setdefault(group.ref, _Gathered())
        gang.group = replace(group, uid=f"{HYPOTHETICAL}{group.ref.api}/{group.ref}", created=self._created)
        if group.options.problems:
            gang.remarks |= {f"{by}: {problem}": None for problem in group.options.problems}

    def _expand(self, manifest: Manifest, expand: Expand) -> None:
        sets = expand(manifest)
        remarks: dict[str, None] = {}
        if _is_suspended(manifest):
            remarks[f"{manifest} is suspended; it is judged as if it were resumed"] = None
        for pod_set in sets:
            for pod in pod_set.pods(manifest):
                self._add_pod(manifest, pod, remarks)

    def _add_pod(self, by: Manifest, raw: wire.Pod, remarks: Mapping[str, None] | None = None) -> None:
        self._pods += 1
        if self._pods > MOST_PODS:
            raise by.refuse("spec", f"with this there are more than {MOST_PODS} pods; ask about fewer objects at once")
        priority, assumed = self._priority(raw.spec or wire.PodSpec())
        pod = replace(read_pod(raw, priority), created=self._created)
        ref, alone = pod.group, pod.group is None
        if ref is None:
            ref = GroupRef(GroupApi.LABEL, by.namespace, by.name)
            pod = replace(pod, group=ref)
        gang = self.gangs.setdefault(ref, _Gathered())
        if pod.uid in gang.pods:
            raise by.refuse("metadata.name", f"two pods would be called {pod.key}")
        if alone and gang.group is None:
            gang.alone, gang.group = True, _alone(by, ref, self._created)
            gang.remarks[f"the pods of {by} name no gang: each is placed by itself"] = None
        gang.pods[pod.uid] = pod
        gang.remarks |= remarks or {}
        if assumed:
            gang.remarks[assumed] = None
        gang.remarks |= {f"{by}: {problem}": None for problem in pod.options.problems}

    def _priority(self, spec: wire.PodSpec) -> tuple[int, str]:
        """Return the priority that the API server would give a pod, and what is assumed for it."""
        name = spec.priority_class_name
        if spec.priority is not None or not name:
            return self._priorities.default, ""
        if name in self._priorities.classes:
            return self._priorities.classes[name], ""
        default = self._priorities.default
        return (
            default,
            f"no PriorityClass is called {name}; priority {default} is assumed (put the object into the file)",
        )


_PRIORITY_CLASS: Final = ("scheduling.k8s.io", "PriorityClass")


def _unwrapped(manifest: Manifest) -> Iterator[Manifest]:
    """Yield what a controller makes of an object before there are pods: a RayJob's RayCluster."""
    field_name = _RAY_CLUSTERS.get((manifest.group, manifest.kind))
    if field_name is None:
        yield manifest
        return
    spec: Any = manifest.body.get("spec")
    inner = spec.get(field_name) if isinstance(spec, dict) else None
    if not isinstance(inner, dict):
        raise manifest.refuse(f"spec.{field_name}", "is missing; nobody can say which pods there would be")
    body = {**manifest.body, "kind": "RayCluster", "spec": inner}
    yield Manifest(_RAY, "RayCluster", manifest.namespace, manifest.name, body)


def _with_classes(manifests: Sequence[Manifest], known: Priorities) -> Priorities:
    classes, default = dict(known.classes), known.default
    for manifest in manifests:
        if (manifest.group, manifest.kind) == _PRIORITY_CLASS:
            read = manifest.whole(wire.PriorityClass)
            classes[manifest.name] = read.value or 0
            default = max(default, read.value or 0) if read.global_default else default
    return Priorities(_SYSTEM_PRIORITIES | classes, default)


def _groups(manifest: Manifest, priorities: Priorities) -> tuple[PodGroup, ...] | None:
    """Return the gangs that an object describes, None for one that describes none."""
    match (manifest.group, manifest.kind):
        case ("scheduling.x-k8s.io", "PodGroup"):
            return (read_coscheduling(manifest.whole(wire.CoschedulingPodGroup)),)
        case ("scheduling.k8s.io", "PodGroup"):
            return (read_native(manifest.whole(wire.NativePodGroup)),)
        case ("scheduling.volcano.sh", "PodGroup"):
            read = manifest.whole(volcano.VolcanoPodGroup)
            name = read.spec.priority_class_name if read.spec is not None else None
            return (read_volcano(read, priorities.classes.get(name or "")),)
        case ("jobset.x-k8s.io", "JobSet"):
            return (read_job_set(manifest.whole(workloads.JobSet)),)
        case ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"):
            return read_leader_worker_set(manifest.whole(workloads.LeaderWorkerSet))
        case ("ray.io", "RayCluster"):
            return (read_ray_cluster(manifest.whole(workloads.RayCluster)),)
        case ("kubeflow.org", kind) if kind in REPLICAS_FIELDS:
            job = manifest.whole(workloads.KubeflowJob)
            return (read_kubeflow_job(KubeflowKind(kind), job, _kubeflow_priority(job, priorities)),)
    return None


def _kubeflow_priority(job: workloads.KubeflowJob, priorities: Priorities) -> int | None:
    run = job.spec.run_policy if job.spec is not None else None
    policy = run.scheduling_policy if run is not None else None
    return priorities.classes.get((policy.priority_class if policy is not None else None) or "")


def _read_pod(manifest: Manifest) -> wire.Pod:
    read = manifest.whole(wire.Pod)
    meta, spec = read.metadata or wire.ObjectMeta(), read.spec
    if spec is None or not spec.containers:
        raise manifest.refuse("spec.containers", "there is none; nothing can be said of such a pod")
    return bare_pod(manifest.namespace, manifest.name, meta.labels or {}, meta.annotations or {}, spec)


def _alone(by: Manifest, ref: GroupRef, created: str) -> PodGroup:
    """Return what describes pods without a gang: each of them may start without the others."""
    about = ObjectRef(by.api_version, by.kind, by.namespace, by.name, "")
    return PodGroup(ref, f"{HYPOTHETICAL}{ref.api}/{ref}", created=created, about=about)


def _is_suspended(manifest: Manifest) -> bool:
    """Tell whether an object has no pods before somebody resumes it."""
    spec: Any = manifest.body.get("spec")
    policy = spec.get("runPolicy") if isinstance(spec, dict) else None
    return any(isinstance(part, dict) and part.get("suspend") is True for part in (spec, policy))
