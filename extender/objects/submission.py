"""Objects before they are submitted, as the gangs that would come of them.

Pure values: nothing here looks at the cluster, and nothing of it is ever written there. What no function of the object
alone can say (webhooks, runtimes that are in the cluster alone) is refused with a reason, not guessed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from extender.objects.jobs import read_job
from extender.objects.keys import QUEUE
from extender.objects.manifest import Manifest, SubmissionError, read_manifests
from extender.objects.meta import ObjectMeta, ObjectRef
from extender.objects.pod import Pod, read_pod
from extender.objects.podgroup import HYPOTHETICAL, MOST_PODS, GroupRef, PodGroup, bare_pod
from extender.objects.podspec import PodObject, PodSpec
from extender.objects.priority import Priorities, PriorityClass
from extender.objects.sources.controllers import CONTROLLERS, Job
from extender.objects.sources.source import Expand, WorkloadKind
from extender.objects.sources.table import JOB, LABEL, SOURCES
from extender.objects.trainjob import RUNTIMES, is_train_job, job_set_of, runtime_of

#: (API group, kind) -> what describes gangs, or makes pods.
_KINDS: Final[Mapping[tuple[str, str], WorkloadKind[Any]]] = {
    (kind.group, kind.kind): kind for kind in (*CONTROLLERS, *(kind for source in SOURCES for kind in source.kinds))
}
#: (API group, kind) of an object that makes another one -> that kind, and where it has its spec.
_WRAPPERS: Final[Mapping[tuple[str, str], tuple[WorkloadKind[Any], str]]] = {
    (source.api, kind): (source.kinds[0], field_name)
    for source in SOURCES
    for kind, field_name in source.wrappers.items()
}
#: What people have beside their workloads, and what makes no pods.
_WITHOUT_PODS: Final = frozenset(
    {
        *("Namespace", "Service", "ServiceAccount", "ConfigMap", "Secret", "PersistentVolumeClaim", "PersistentVolume"),
        *("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "NetworkPolicy", "PodDisruptionBudget"),
        *("Ingress", "StorageClass", "ResourceClaimTemplate", "HorizontalPodAutoscaler"),
        *("Queue", "ClusterQueue", "LocalQueue", "ResourceFlavor", *RUNTIMES),
    }
)
_UNSUPPORTED: Final[Mapping[str, str]] = {
    "CronJob": "ask about the Job in spec.jobTemplate",
}
#: PriorityClasses that every cluster has. Source: k8s.io/kubernetes pkg/apis/scheduling/types.go.
_SYSTEM_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


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


class Submission(NamedTuple):
    """What is submitted: the gangs, in the order in which they are first named, and what makes no pods.

    `passed_over` are the names (`Kind namespace/name`) of objects that are not looked at for that.
    """

    gangs: tuple[Submitted, ...]
    passed_over: tuple[str, ...]


def read_submission(
    objects: Sequence[object], priorities: Priorities, created: str, managed: Collection[str] = ()
) -> Submission:
    """Return the gangs that would come of Kubernetes objects.

    Args:
        objects: the objects as plain values, lists of objects included.
        priorities: the PriorityClasses of the cluster; those among the objects are added.
        created: when all of them would be created (RFC 3339).
        managed: the namespaces in which Jobs that name a queue are gangs.

    None come of objects that are all passed over. Raises SubmissionError naming object and field for what cannot be
    read, or makes pods that cannot be foretold.
    """
    given, manifests, used = read_manifests(objects), list[Manifest](), list[Manifest]()
    for one in given:
        if is_train_job(one):
            used.append(runtime_of(one, given))
            manifests.append(job_set_of(one, used[-1]))
        else:
            manifests.append(_unwrapped(one))
    reading = _SubmissionReader(_with_classes(manifests, priorities), created, managed)
    for manifest in manifests:
        reading.take_in(manifest)
    passed_over = tuple(str(each) for each in given if _is_passed_over(each) and each not in used)
    if not reading.gangs and not passed_over:
        raise SubmissionError("there is no object that makes pods; a PodGroup, Pod, Job, JobSet ... is needed")
    return Submission(tuple(reading.submitted()), passed_over)


@dataclass(slots=True)
class _Gathered:
    """What has been read of one gang."""

    group: PodGroup | None = None
    pods: dict[str, Pod] = field(default_factory=dict)
    remarks: dict[str, None] = field(default_factory=dict)
    alone: bool = False


class _SubmissionReader:
    """Gather pods and the objects that describe their gangs, which come in any order."""

    def __init__(self, priorities: Priorities, created: str, managed: Collection[str]) -> None:
        self.gangs: dict[GroupRef, _Gathered] = {}
        self._managed = managed
        self._priorities = priorities
        self._created = created
        self._pods = 0

    def take_in(self, manifest: Manifest) -> None:
        """Take in an object; raise SubmissionError for what is not understood."""
        key = (manifest.group, manifest.kind)
        kind = _KINDS.get(key)
        if kind is not None:
            for group in kind.read(manifest.whole(kind.decode.kind), self._priorities.classes):
                self._describe(group, manifest)
        if self._is_managed(manifest):
            self._describe(read_job(manifest.whole(Job)).group, manifest)
        if key == ("", "Pod"):
            self._add_pod(manifest, _read_pod(manifest))
        elif kind is not None and kind.expand is not None:
            self._expand(manifest, kind.expand)
        elif kind is None and not _is_passed_over(manifest) and key != _PRIORITY_CLASS:
            why = _UNSUPPORTED.get(manifest.kind, "it is not known which pods come of it; give the pods, or its Job")
            raise manifest.refuse("kind", f"{manifest.api_version} {manifest.kind} is not supported: {why}")

    def submitted(self) -> Iterator[Submitted]:
        """Yield the gangs; more gangs are called after their pods alone than after objects."""
        for ref, gang in self.gangs.items():
            remarks = list(gang.remarks)
            if not gang.pods:
                remarks.append("none of the objects makes pods of this gang; those in the cluster are not counted")
            yield Submitted(ref, gang.group, tuple(gang.pods.values()), tuple(remarks), gang.alone)

    def _describe(self, group: PodGroup, by: Manifest) -> None:
        if group.parent is not None or group.parts_needed:
            message = "a gang of several objects is explained once it is in the cluster, not from a file"
            raise by.refuse("spec.parentCompositePodGroupName" if group.parent else "kind", message)
        gang = self.gangs.setdefault(group.ref, _Gathered())
        gang.group = replace(group, uid=f"{HYPOTHETICAL}{group.ref.api}/{group.ref}", created=self._created)
        if group.options.problems:
            gang.remarks |= {f"{by}: {problem}": None for problem in group.options.problems}

    def _expand(self, manifest: Manifest, expand: Expand) -> None:
        sets = expand(manifest)
        remarks: dict[str, None] = {}
        if _is_suspended(manifest):
            remarks[f"{manifest} is suspended; it is evaluated as if it were resumed"] = None
        for pod_set in sets:
            for pod in pod_set.pods(manifest):
                self._add_pod(manifest, pod, remarks)

    def _add_pod(self, by: Manifest, raw: PodObject, remarks: Mapping[str, None] | None = None) -> None:
        self._pods += 1
        if self._pods > MOST_PODS:
            raise by.refuse("spec", f"with this there are more than {MOST_PODS} pods; ask about fewer objects at once")
        priority, assumed = self._priority(raw.spec or PodSpec())
        pod = replace(read_pod(raw, priority), created=self._created)
        ref, alone = pod.group, pod.group.is_pod
        if alone and self._is_managed(by):
            ref, alone = GroupRef(JOB, by.namespace, by.name), False
            pod = replace(pod, group=ref)
        if alone:
            ref = GroupRef(LABEL, by.namespace, by.name)
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

    def _is_managed(self, manifest: Manifest) -> bool:
        """Tell whether an object is a Job that is a gang by itself, if its pods name no other one."""
        labels = (manifest.body.get("metadata") or {}).get("labels") or {}
        is_job = (manifest.group, manifest.kind) == ("batch", "Job")
        return is_job and QUEUE in labels and manifest.namespace in self._managed

    def _priority(self, spec: PodSpec) -> tuple[int, str]:
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


def _is_passed_over(manifest: Manifest) -> bool:
    return (manifest.group, manifest.kind) not in _KINDS and manifest.kind in _WITHOUT_PODS


_PRIORITY_CLASS: Final = ("scheduling.k8s.io", "PriorityClass")


def _unwrapped(manifest: Manifest) -> Manifest:
    """Return what a controller makes of an object before there are pods: a RayJob's RayCluster; most are themselves."""
    wrapped = _WRAPPERS.get((manifest.group, manifest.kind))
    if wrapped is None:
        return manifest
    kind, field_name = wrapped
    spec: Any = manifest.body.get("spec")
    inner = spec.get(field_name) if isinstance(spec, dict) else None
    if not isinstance(inner, dict):
        raise manifest.refuse(f"spec.{field_name}", "is missing; it cannot be said which pods there would be")
    body = {**manifest.body, "kind": kind.kind, "spec": inner}
    return Manifest(kind.group, kind.kind, manifest.namespace, manifest.name, body)


def _with_classes(manifests: Sequence[Manifest], known: Priorities) -> Priorities:
    classes, default = dict(known.classes), known.default
    for manifest in manifests:
        if (manifest.group, manifest.kind) == _PRIORITY_CLASS:
            read = manifest.whole(PriorityClass)
            classes[manifest.name] = read.value or 0
            default = max(default, read.value or 0) if read.global_default else default
    return Priorities(_SYSTEM_PRIORITIES | classes, default)


def _read_pod(manifest: Manifest) -> PodObject:
    read = manifest.whole(PodObject)
    meta, spec = read.metadata or ObjectMeta(), read.spec
    if spec is None or not spec.containers:
        raise manifest.refuse("spec.containers", "there is none; nothing can be said of such a pod")
    return bare_pod(manifest.namespace, manifest.name, meta.labels or {}, meta.annotations or {}, spec)


def _alone(by: Manifest, ref: GroupRef, created: str) -> PodGroup:
    """Return what describes pods without a gang: each of them may start without the others."""
    about = ObjectRef(by.api_version, by.kind, by.namespace, by.name, "")
    return PodGroup(ref, f"{HYPOTHETICAL}{ref.api}/{ref}", created=created, about=about)


def _is_suspended(manifest: Manifest) -> bool:
    """Tell whether an object has no pods before it is resumed."""
    spec: Any = manifest.body.get("spec")
    policy = spec.get("runPolicy") if isinstance(spec, dict) else None
    return any(isinstance(part, dict) and part.get("suspend") is True for part in (spec, policy))
