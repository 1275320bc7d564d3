"""Ray clusters: the head and the workers without which the cluster is not to start are one gang.

RayJobs and RayServices make RayClusters. Source: ray-project/kuberay ray-operator/apis/ray/v1/raycluster_types.go and
controllers/ray/utils/{constant,util}.go, by which KubeRay itself sizes PodGroups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from msgspec import Struct

from extender.objects.manifest import Manifest
from extender.objects.meta import Decoder, Int32, ObjectMeta, ObjectRef
from extender.objects.podgroup import GroupRef, PodGroup, SubmittedPodSet, numbered
from extender.objects.podspec import PodSpec, PodTemplate
from extender.objects.reason import Problem
from extender.objects.sources.controllers import Conditions, JobCondition
from extender.objects.sources.roster import RosterPart, first_negative, gang_of, role_of
from extender.objects.sources.source import Keyed, Source, Suspending, WorkloadKind, one

RAY: Final = "ray.io"
#: `GroupRef.api` of RayJobs that Muster resumes: the clusters that they make have names of their own.
RAY_JOB: Final = "rayjobs.ray.io"
RAY_CLUSTER: Final = "ray.io/cluster"
RAY_NODE_TYPE: Final = "ray.io/node-type"
RAY_GROUP: Final = "ray.io/group"
#: Of workers whose replica has several hosts, where KubeRay numbers them (its feature RayMultiHostIndexing).
RAY_REPLICA: Final = "ray.io/worker-group-replica-index"
RAY_HOST: Final = "ray.io/replica-host-index"
#: A pod of another node type is not part of the Ray cluster: one removes its leftovers when it is gone.
_NODE_TYPES: Final = frozenset({"head", "worker"})


class RayHeadGroup(Struct, gc=False, frozen=True):
    """The head of a Ray cluster: one pod."""

    template: PodTemplate | None = None


class RayWorkerGroup(Struct, gc=False, frozen=True, rename="camel"):
    """A group of Ray workers; each replica is `num_of_hosts` pods."""

    group_name: str | None = None
    replicas: Int32 | None = None
    min_replicas: Int32 | None = None
    max_replicas: Int32 | None = None
    num_of_hosts: Int32 | None = None
    suspend: bool | None = None
    template: PodTemplate | None = None

    @property
    def least(self) -> int:
        """Return the least number of replicas with which an autoscaler leaves the group."""
        least = self.min_replicas or 0
        return least if self.max_replicas is None else min(least, self.max_replicas)

    @property
    def wanted(self) -> int:
        """Return how many replicas there are at first."""
        wanted = max(self.replicas or 0, self.min_replicas or 0)
        return wanted if self.max_replicas is None else min(wanted, self.max_replicas)

    @property
    def hosts(self) -> int:
        """Return how many pods a replica is."""
        return 1 if self.num_of_hosts is None else self.num_of_hosts


class RayClusterSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Spec of a RayCluster."""

    enable_in_tree_autoscaling: bool | None = None
    head_group_spec: RayHeadGroup | None = None
    worker_group_specs: list[RayWorkerGroup] | None = None
    suspend: bool | None = None


class RayCluster(Struct, gc=False, frozen=True):
    """A `ray.io/v1` RayCluster."""

    metadata: ObjectMeta | None = None
    spec: RayClusterSpec | None = None
    status: Conditions | None = None


class RayJobSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Spec of a RayJob: the cluster that it makes each time when it is started."""

    ray_cluster_spec: RayClusterSpec | None = None
    suspend: bool | None = None
    shutdown_after_job_finishes: bool | None = None


class RayJobStatus(Struct, gc=False, frozen=True, rename="camel"):
    """How far a RayJob has come."""

    job_deployment_status: str | None = None

    @property
    def conditions(self) -> list[JobCondition]:
        """Return whether it has ended, as other objects say it."""
        ended = self.job_deployment_status in {"Complete", "Failed"}
        return [JobCondition("Completed", "True")] if ended else []


class RayJob(Struct, gc=False, frozen=True):
    """A `ray.io/v1` RayJob."""

    metadata: ObjectMeta | None = None
    spec: RayJobSpec | None = None
    status: RayJobStatus | None = None


decode_ray_cluster = Decoder(RayCluster)
decode_ray_job = Decoder(RayJob)


def read_ray_cluster(cluster: RayCluster) -> PodGroup:
    """Read a `ray.io/v1` RayCluster; a bad count becomes the `problem`.

    What an autoscaler has added to a group's least number of replicas are extras.
    """
    meta = cluster.metadata or ObjectMeta()
    spec = cluster.spec or RayClusterSpec()
    groups = spec.worker_group_specs or []
    counts: dict[str, int | None] = {}
    for index, group in enumerate(groups):
        where = f"spec.workerGroupSpecs[{index}]"
        counts |= {
            f"{where}.replicas": group.replicas,
            f"{where}.minReplicas": group.min_replicas,
            f"{where}.maxReplicas": group.max_replicas,
            f"{where}.numOfHosts": group.num_of_hosts,
        }
    problem = first_negative(counts)
    head = RosterPart.of(role_of((spec.head_group_spec or RayHeadGroup()).template, "head"), 1)
    elastic = bool(spec.enable_in_tree_autoscaling)
    workers = [] if problem else [_part(group, elastic=elastic) for group in groups]
    ref = GroupRef(RAY, meta.namespace or "", meta.name or "")
    gang = gang_of(ref, ObjectRef.of(f"{RAY}/v1", "RayCluster", meta), meta, (head, *workers))
    return replace(gang, problem=problem)


def read_ray_job(job: RayJob) -> PodGroup:
    """Read a `ray.io/v1` RayJob: it is a gang as the cluster is that it makes. Who submits to that is no member.

    Each time when the job is resumed it makes a cluster of another name, which is not known before. Source:
    ray-project/kuberay ray-operator/controllers/ray/rayjob_controller.go.
    """
    meta, spec = job.metadata or ObjectMeta(), job.spec or RayJobSpec()
    cluster = read_ray_cluster(RayCluster(meta, spec.ray_cluster_spec))
    about = ObjectRef.of(f"{RAY}/v1", "RayJob", meta)
    ref = GroupRef(RAY_JOB, meta.namespace or "", meta.name or "")
    problem = cluster.problem
    if problem is not None:
        problem = replace(problem, field=problem.field.replace("spec.", "spec.rayClusterSpec.", 1))
    elif not spec.shutdown_after_job_finishes:
        problem = Problem("spec.shutdownAfterJobFinishes", "is not true: KubeRay suspends no such RayJob")
    return replace(cluster, ref=ref, about=about, problem=problem)


def _part(group: RayWorkerGroup, *, elastic: bool) -> RosterPart:
    role = role_of(group.template, group.group_name or "worker")
    if group.suspend:
        return RosterPart.of(role, 0)
    least = group.least * group.hosts if elastic else None
    return RosterPart.of(role, group.wanted * group.hosts, least, by=max(group.hosts, 1))


def ray_cluster_pods(of: Manifest) -> Sequence[SubmittedPodSet]:
    """Return the pods that a RayCluster has before its autoscaler adds any."""
    return _pods(of.whole(RayCluster).spec or RayClusterSpec(), of, "spec", {RAY_CLUSTER: of.name})


def ray_job_pods(of: Manifest) -> Sequence[SubmittedPodSet]:
    """Return the pods of the RayCluster that a RayJob makes; the gang that they will name is not known before."""
    spec = (of.whole(RayJob).spec or RayJobSpec()).ray_cluster_spec
    if spec is None:
        raise of.refuse("spec.rayClusterSpec", "is missing; it cannot be said which pods there would be")
    return _pods(spec, of, "spec.rayClusterSpec", {})


def _pods(spec: RayClusterSpec, of: Manifest, path: str, gang: Mapping[str, str]) -> Sequence[SubmittedPodSet]:
    """Return the pods of a cluster whose spec is at `path`; `gang` is the label by which they name it."""
    head = (spec.head_group_spec or RayHeadGroup()).template
    keys = {**gang, RAY_NODE_TYPE: "head", RAY_GROUP: "headgroup"}
    sets = [SubmittedPodSet(head, f"{path}.headGroupSpec.template", (f"{of.name}-head",), keys)]
    for index, group in enumerate(spec.worker_group_specs or ()):
        where, name = f"{path}.workerGroupSpecs[{index}]", group.group_name or "worker"
        names = numbered(f"{of.name}-{name}", _workers(group, of, where), of, f"{where}.replicas")
        keys = {**gang, RAY_NODE_TYPE: "worker", RAY_GROUP: name}
        sets.append(SubmittedPodSet(group.template, f"{where}.template", names, keys))
    return sets


def _workers(group: RayWorkerGroup, of: Manifest, where: str) -> int:
    """Return how many pods a group of workers has at first."""
    for field, count in (("replicas", group.replicas), ("numOfHosts", group.num_of_hosts)):
        if count is not None and count < 0:
            raise of.refuse(f"{where}.{field}", f"{count} is negative")
    return 0 if group.suspend else group.wanted * group.hosts


def _gang(_spec: PodSpec, labels: Keyed, _annotations: Keyed) -> str:
    name = labels.get(RAY_CLUSTER, "")
    return name if name and labels.get(RAY_NODE_TYPE) in _NODE_TYPES else ""


def _role(labels: Keyed, _annotations: Keyed) -> str:
    """Return `head`, or the group of a worker: groups differ in what they ask for, and have minimums of their own."""
    node_type = labels.get(RAY_NODE_TYPE, "")
    return (labels.get(RAY_GROUP) or node_type) if node_type == "worker" else node_type


SOURCE = Source(
    api=RAY,
    noun="RayCluster",
    gang=_gang,
    gang_keys=(RAY_CLUSTER,),
    kinds=(
        WorkloadKind(
            *(RAY, "RayCluster", "rayclusters", ("v1",), decode_ray_cluster, one(read_ray_cluster), ray_cluster_pods),
            suspending=Suspending(("spec", "suspend"), lambda item: bool((item.spec or RayClusterSpec()).suspend)),
        ),
    ),
    role=_role,
    role_keys=(RAY_NODE_TYPE,),
    index_keys=(RAY_HOST,),
    outer_index=RAY_REPLICA,
    wrappers={"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"},
)

#: Their pods name the clusters, and are told by whose these are.
JOB_SOURCE = Source(
    api=RAY_JOB,
    noun="RayJob",
    kinds=(
        WorkloadKind(
            *(RAY, "RayJob", "rayjobs", ("v1",), decode_ray_job, one(read_ray_job), ray_job_pods),
            suspending=Suspending(
                ("spec", "suspend"), lambda item: bool((item.spec or RayJobSpec()).suspend), by_part=True
            ),
        ),
    ),
)
