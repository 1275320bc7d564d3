"""Slim structs of the objects from which controllers make pods, with the whole templates of the pods.

`extender.wire.workloads` reads of the same objects what describes a gang that exists. These are read when somebody asks
what would become of objects that do not exist yet. Same rules as in `extender.wire.kubernetes`.
"""

from __future__ import annotations

from msgspec import Struct

from extender.wire.kubernetes import Int32, ObjectMeta, PodSpec


class PodTemplate(Struct, frozen=True):
    """A PodTemplateSpec."""

    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None


class JobSpec(Struct, frozen=True, rename="camel"):
    """Spec of a `batch/v1` Job; `completion_mode` is Indexed or NonIndexed."""

    parallelism: Int32 | None = None
    completions: Int32 | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    template: PodTemplate | None = None


class JobTemplate(Struct, frozen=True):
    """A JobTemplateSpec."""

    metadata: ObjectMeta | None = None
    spec: JobSpec | None = None


class Replicated(Struct, frozen=True):
    """Spec of what has so many pods of one template: Deployments, StatefulSets, ReplicaSets."""

    replicas: Int32 | None = None
    template: PodTemplate | None = None


class DependsOn(Struct, frozen=True):
    """Another replicated job that has to be Ready or Complete first."""

    name: str | None = None


class ReplicatedJob(Struct, frozen=True, rename="camel"):
    """So many Jobs of one template."""

    name: str | None = None
    replicas: Int32 | None = None
    template: JobTemplate | None = None
    depends_on: list[DependsOn] | None = None


class StartupPolicy(Struct, frozen=True, rename="camel"):
    """The order in which replicated jobs are made: AnyOrder or InOrder."""

    startup_policy_order: str | None = None


class JobSetSpec(Struct, frozen=True, rename="camel"):
    """Spec of a JobSet."""

    replicated_jobs: list[ReplicatedJob] | None = None
    startup_policy: StartupPolicy | None = None
    suspend: bool | None = None


class LeaderWorkerTemplate(Struct, frozen=True, rename="camel"):
    """What a group consists of: `size` pods, the leader among them; without a template of its own it has the worker's.

    One of the two templates at least is needed.
    """

    size: Int32 | None = None
    leader_template: PodTemplate | None = None
    worker_template: PodTemplate | None = None


class LeaderWorkerSetSpec(Struct, frozen=True, rename="camel"):
    """Spec of a LeaderWorkerSet; `startup_policy` is LeaderCreated or LeaderReady."""

    replicas: Int32 | None = None
    leader_worker_template: LeaderWorkerTemplate | None = None
    startup_policy: str | None = None


class RunPolicy(Struct, frozen=True, rename="camel"):
    """The part of a Kubeflow RunPolicy that says whether there are pods."""

    suspend: bool | None = None


class KubeflowSpec(Struct, frozen=True, rename="camel"):
    """Spec of a Kubeflow job of any kind, each of which has its replicas, by type, under a name of its own."""

    run_policy: RunPolicy | None = None
    pytorch_replica_specs: dict[str, Replicated] | None = None
    tf_replica_specs: dict[str, Replicated] | None = None
    mpi_replica_specs: dict[str, Replicated] | None = None
    xgb_replica_specs: dict[str, Replicated] | None = None
    paddle_replica_specs: dict[str, Replicated] | None = None
    jax_replica_specs: dict[str, Replicated] | None = None
    launcher_creation_policy: str | None = None
    wait_for_workers: bool | None = None


class RayHeadGroup(Struct, frozen=True):
    """The head of a Ray cluster: one pod."""

    template: PodTemplate | None = None


class RayWorkerGroup(Struct, frozen=True, rename="camel"):
    """A group of Ray workers; each replica is `num_of_hosts` pods."""

    group_name: str | None = None
    replicas: Int32 | None = None
    min_replicas: Int32 | None = None
    max_replicas: Int32 | None = None
    num_of_hosts: Int32 | None = None
    suspend: bool | None = None
    template: PodTemplate | None = None


class RayClusterSpec(Struct, frozen=True, rename="camel"):
    """Spec of a RayCluster."""

    head_group_spec: RayHeadGroup | None = None
    worker_group_specs: list[RayWorkerGroup] | None = None
    suspend: bool | None = None
