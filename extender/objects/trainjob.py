"""TrainJobs of Kubeflow Trainer before they are submitted: the JobSet that Trainer makes of one and its runtime.

Source: kubeflow/trainer pkg/runtime/framework/plugins/jobset/{jobset,builder}.go, version 2. What needs more than that
is refused: patches of the runtime's pods, and MPI, whose launcher may be one of the nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from extender.objects.manifest import Manifest
from extender.objects.sources.jobset import JOBSET

#: Kinds of runtimes; a TrainJob names the first by default.
RUNTIMES: Final = ("ClusterTrainingRuntime", "TrainingRuntime")
_GROUP: Final = "trainer.kubeflow.org"
#: The label of the Job whose pods are the nodes, its value there, and the container that has their resources.
_ANCESTOR, _TRAINER, _NODE = f"{_GROUP}/trainjob-ancestor-step", "trainer", "node"
_INSTEAD: Final = "ask about the JobSet that Trainer makes of it (kubectl get jobset NAME -o yaml)"

_Plain = dict[str, Any]


class _RuntimeRef(Struct, gc=False, frozen=True):
    """Which runtime a TrainJob names."""

    name: str = ""
    kind: str = RUNTIMES[0]


class _Trainer(Struct, frozen=True, rename="camel"):
    """What a TrainJob says of its nodes."""

    num_nodes: int | None = None
    resources_per_node: _Plain | None = None


class _TrainJobSpec(Struct, frozen=True, rename="camel"):
    """Spec of a TrainJob."""

    runtime_ref: _RuntimeRef = _RuntimeRef()
    trainer: _Trainer | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    suspend: bool | None = None
    pod_template_overrides: list[Any] | None = None
    runtime_patches: list[Any] | None = None


class _Policy(Struct, frozen=True, rename="camel"):
    """How a runtime runs its nodes, and how many there are."""

    num_nodes: int | None = None
    mpi: _Plain | None = None


class _TemplateMeta(Struct, frozen=True):
    """What of a template's metadata the JobSet gets."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Template(Struct, frozen=True):
    """The JobSet as the runtime has it."""

    metadata: _TemplateMeta | None = None
    spec: _Plain | None = None


class _RuntimeSpec(Struct, frozen=True, rename="camel"):
    """Spec of a runtime."""

    template: _Template | None = None
    ml_policy: _Policy | None = None


def is_train_job(manifest: Manifest) -> bool:
    """Tell whether an object is a TrainJob."""
    return (manifest.group, manifest.kind) == (_GROUP, "TrainJob")


def runtime_of(job: Manifest, beside: Sequence[Manifest]) -> Manifest:
    """Return the runtime that a TrainJob names, of those that are given with it; raise SubmissionError if it is not."""
    wanted = job.spec(_TrainJobSpec).runtime_ref
    for each in beside:
        near = each.kind == RUNTIMES[0] or each.namespace == job.namespace
        if (each.group, each.kind, each.name) == (_GROUP, wanted.kind, wanted.name) and near:
            return each
    where = f"kubectl get {wanted.kind.lower()} {wanted.name} -o yaml"
    message = f"its pods are in {wanted.kind} {wanted.name}, which is not given: give it too ({where}), or {_INSTEAD}"
    raise job.refuse("spec.runtimeRef", message)


def job_set_of(job: Manifest, runtime: Manifest) -> Manifest:
    """Return the JobSet that Trainer makes of a TrainJob; raise SubmissionError naming what cannot be foretold."""
    spec, about = job.spec(_TrainJobSpec), runtime.spec(_RuntimeSpec)
    trainer, policy, template = spec.trainer or _Trainer(), about.ml_policy or _Policy(), about.template or _Template()
    meta = template.metadata or _TemplateMeta()
    for field, value in (
        ("podTemplateOverrides", spec.pod_template_overrides),
        ("runtimePatches", spec.runtime_patches),
    ):
        if value:
            raise job.refuse(f"spec.{field}", f"what comes of it is up to Trainer: {_INSTEAD}")
    if policy.mpi is not None:
        raise runtime.refuse("spec.mlPolicy.mpi", f"how many pods there are is up to Trainer: {_INSTEAD}")
    nodes = trainer.num_nodes if trainer.num_nodes is not None else policy.num_nodes
    jobs = [_with_nodes(each, nodes, trainer.resources_per_node) for each in _objects(template.spec, "replicatedJobs")]
    metadata = {
        "namespace": job.namespace,
        "name": job.name,
        "labels": {**(meta.labels or {}), **(spec.labels or {})},
        "annotations": {**(meta.annotations or {}), **(spec.annotations or {})},
    }
    own = {**(template.spec or {}), "replicatedJobs": jobs, "suspend": spec.suspend}
    body = {"apiVersion": f"{JOBSET}/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": own}
    return Manifest(JOBSET, "JobSet", job.namespace, job.name, body)


def _with_nodes(replicated: _Plain, nodes: int | None, resources: _Plain | None) -> _Plain:
    """Return a replicated Job with the TrainJob's number of nodes if its pods are these, and with their resources."""
    template = _object(replicated, "template")
    spec, labels = _object(template, "spec"), _object(_object(template, "metadata"), "labels")
    pod = _object(spec, "template")
    containers = [
        {**each, "resources": resources} if resources and each.get("name") == _NODE else each
        for each in _objects(_object(pod, "spec"), "containers")
    ]
    spec |= {"template": {**pod, "spec": {**_object(pod, "spec"), "containers": containers}}}
    if labels.get(_ANCESTOR) != _TRAINER:
        return {**replicated, "template": {**template, "spec": spec}}
    spec |= {} if nodes is None else {"parallelism": nodes, "completions": nodes}
    return {**replicated, "replicas": 1, "template": {**template, "spec": spec}}


def _object(of: _Plain | None, field: str) -> _Plain:
    """Return a copy of an object's part, an empty one for anything else: what is wrong the JobSet's reader says."""
    found = (of or {}).get(field)
    return dict(found) if isinstance(found, dict) else {}


def _objects(of: _Plain | None, field: str) -> list[_Plain]:
    found = (of or {}).get(field)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
