"""Slim structs of the objects from which operators make pods. Same rules as in `extender.wire.kubernetes`.

Of pod templates only what decides a pod's role is read.
"""

from __future__ import annotations

from msgspec import Struct

from extender.wire.kubernetes import Int32, ObjectMeta, ResourceList


class PodTemplate(Struct, gc=False, frozen=True):
    """A PodTemplateSpec, for its metadata."""

    metadata: ObjectMeta | None = None


class JobTemplateSpec(Struct, gc=False, frozen=True):
    """Spec of a `batch/v1` Job: how many pods it has at a time, and how many must succeed."""

    parallelism: Int32 | None = None
    completions: Int32 | None = None
    template: PodTemplate | None = None


class JobTemplate(Struct, gc=False, frozen=True):
    """A JobTemplateSpec; its metadata are those of the Jobs."""

    metadata: ObjectMeta | None = None
    spec: JobTemplateSpec | None = None


class DependsOn(Struct, gc=False, frozen=True):
    """Another replicated job that has to be Ready or Complete first."""

    name: str | None = None
    status: str | None = None


class ReplicatedJob(Struct, gc=False, frozen=True, rename="camel"):
    """So many Jobs of one template."""

    name: str | None = None
    replicas: Int32 | None = None
    template: JobTemplate | None = None
    depends_on: list[DependsOn] | None = None


class StartupPolicy(Struct, gc=False, frozen=True, rename="camel"):
    """The order in which replicated jobs are made: AnyOrder or InOrder."""

    startup_policy_order: str | None = None


class JobSetSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Spec of a JobSet."""

    replicated_jobs: list[ReplicatedJob] | None = None
    startup_policy: StartupPolicy | None = None


class JobSet(Struct, gc=False, frozen=True):
    """A `jobset.x-k8s.io/v1alpha2` JobSet."""

    metadata: ObjectMeta | None = None
    spec: JobSetSpec | None = None


class LeaderWorkerTemplate(Struct, gc=False, frozen=True, rename="camel"):
    """What a group consists of: `size` pods, the leader among them. Without a template of its own it has the worker's.

    The templates matter for the labels alone.
    """

    size: Int32 | None = None
    leader_template: PodTemplate | None = None
    worker_template: PodTemplate | None = None


class RollingUpdate(Struct, gc=False, frozen=True, rename="camel"):
    """How many groups more than `replicas` there may be during an update: a number, or a percentage of them."""

    max_surge: int | str | None = None


class RolloutStrategy(Struct, gc=False, frozen=True, rename="camel"):
    """How the groups of a LeaderWorkerSet are replaced."""

    rolling_update_configuration: RollingUpdate | None = None


class LeaderWorkerSetSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Spec of a LeaderWorkerSet; `startup_policy` is LeaderCreated or LeaderReady."""

    replicas: Int32 | None = None
    leader_worker_template: LeaderWorkerTemplate | None = None
    startup_policy: str | None = None
    rollout_strategy: RolloutStrategy | None = None


class LeaderWorkerSet(Struct, gc=False, frozen=True):
    """A `leaderworkerset.x-k8s.io/v1` LeaderWorkerSet."""

    metadata: ObjectMeta | None = None
    spec: LeaderWorkerSetSpec | None = None


class ReplicaSpec(Struct, gc=False, frozen=True):
    """The pods of one type of a Kubeflow job."""

    replicas: Int32 | None = None
    template: PodTemplate | None = None


class KubeflowSchedulingPolicy(Struct, gc=False, frozen=True, rename="camel"):
    """How the operator would describe the job to a gang scheduler."""

    min_available: Int32 | None = None
    queue: str | None = None
    min_resources: ResourceList | None = None
    priority_class: str | None = None
    schedule_timeout_seconds: Int32 | None = None


class RunPolicy(Struct, gc=False, frozen=True, rename="camel"):
    """The part of a Kubeflow RunPolicy that is about scheduling."""

    scheduling_policy: KubeflowSchedulingPolicy | None = None


class ElasticPolicy(Struct, gc=False, frozen=True, rename="camel"):
    """With how few workers a job goes on."""

    min_replicas: Int32 | None = None


class KubeflowSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Spec of a Kubeflow job of any kind, each of which has its replicas, by type, under a name of its own.

    `launcher_creation_policy` is AtStartup or WaitForWorkersReady; earlier versions had `wait_for_workers`.
    """

    run_policy: RunPolicy | None = None
    elastic_policy: ElasticPolicy | None = None
    pytorch_replica_specs: dict[str, ReplicaSpec] | None = None
    tf_replica_specs: dict[str, ReplicaSpec] | None = None
    mpi_replica_specs: dict[str, ReplicaSpec] | None = None
    xgb_replica_specs: dict[str, ReplicaSpec] | None = None
    paddle_replica_specs: dict[str, ReplicaSpec] | None = None
    jax_replica_specs: dict[str, ReplicaSpec] | None = None
    launcher_creation_policy: str | None = None
    wait_for_workers: bool | None = None


class KubeflowJob(Struct, gc=False, frozen=True, rename="camel"):
    """A `kubeflow.org` job: PyTorchJob, TFJob, MPIJob, XGBoostJob, PaddleJob or JAXJob."""

    api_version: str | None = None
    metadata: ObjectMeta | None = None
    spec: KubeflowSpec | None = None


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


class RayClusterSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Spec of a RayCluster."""

    enable_in_tree_autoscaling: bool | None = None
    head_group_spec: RayHeadGroup | None = None
    worker_group_specs: list[RayWorkerGroup] | None = None


class RayCluster(Struct, gc=False, frozen=True):
    """A `ray.io/v1` RayCluster."""

    metadata: ObjectMeta | None = None
    spec: RayClusterSpec | None = None
