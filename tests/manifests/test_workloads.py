"""examples/workloads as files: fields that exist, pods that are Muster's, and what-if that understands them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from extender.objects.pod import Pod, read_pod
from extender.objects.podgroup import GroupRef
from extender.objects.podspec import decode_pod
from extender.objects.priority import Priorities
from extender.objects.submission import read_submission
from tests.builders import CREATED, written
from tests.controlplane.operators import children
from tests.docs.conftest import ROOT, read_page
from tests.manifests.conftest import Manifest
from tests.manifests.links import broken_links

FOLDER = ROOT / "examples" / "workloads"
FILES = [pytest.param(path, id=path.stem) for path in sorted(FOLDER.glob("*.yaml"))]

#: Where a shape ends: a value, or what the API server itself validates when the pods are made.
ANY = None
#: The fields of an object, by name; `*` stands for names that people choose and `[]` for the items of a list.
Shape: TypeAlias = Mapping[str, "Shape"] | None

_RUN_POLICY: Shape = dict.fromkeys(
    (
        "activeDeadlineSeconds",
        "backoffLimit",
        "cleanPodPolicy",
        "managedBy",
        "schedulingPolicy",
        "suspend",
        "ttlSecondsAfterFinished",
    )
)
_REPLICAS: Shape = {"*": dict.fromkeys(("replicas", "restartPolicy", "template"))}
_JOB_SET: Shape = {
    **dict.fromkeys(
        ("coordinator", "failurePolicy", "managedBy", "startupPolicy", "suspend", "ttlSecondsAfterFinished")
    ),
    "network": dict.fromkeys(("enableDNSHostnames", "publishNotReadyAddresses", "subdomain")),
    "successPolicy": dict.fromkeys(("operator", "targetReplicatedJobs")),
    "replicatedJobs": {"[]": dict.fromkeys(("dependsOn", "groupName", "name", "replicas", "template"))},
}
_LEADER_WORKER_SET: Shape = {
    **dict.fromkeys(("groupIdentity", "networkConfig", "replicas", "rolloutStrategy", "startupPolicy")),
    "leaderWorkerTemplate": dict.fromkeys(
        ("leaderTemplate", "restartPolicy", "size", "subGroupPolicy", "workerTemplate")
    ),
}
_RAY_GROUP = ("rayStartParams", "template")

#: The operators' fields down to their pod templates, as their published Go types have them.
SHAPES: Mapping[tuple[str, str], Shape] = {
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): _JOB_SET,
    ("kubeflow.org/v1", "PyTorchJob"): {
        **dict.fromkeys(("elasticPolicy", "nprocPerNode")),
        "pytorchReplicaSpecs": _REPLICAS,
        "runPolicy": _RUN_POLICY,
    },
    ("kubeflow.org/v2beta1", "MPIJob"): {
        **dict.fromkeys(
            ("launcherCreationPolicy", "mpiImplementation", "runLauncherAsWorker", "slotsPerWorker", "sshAuthMountPath")
        ),
        "mpiReplicaSpecs": _REPLICAS,
        "runPolicy": _RUN_POLICY,
    },
    ("disaggregatedset.x-k8s.io/v1", "DisaggregatedSet"): {
        **dict.fromkeys(("placementPolicy", "slices")),
        "roles": {"[]": {**dict.fromkeys(("metadata", "name", "scaling")), "spec": _LEADER_WORKER_SET}},
    },
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"): _LEADER_WORKER_SET,
    ("ray.io/v1", "RayJob"): {
        **dict.fromkeys(
            (
                "activeDeadlineSeconds",
                "backoffLimit",
                "entrypoint",
                "jobId",
                "runtimeEnvYAML",
                "shutdownAfterJobFinishes",
                "submissionMode",
                "submitterPodTemplate",
                "suspend",
                "ttlSecondsAfterFinished",
            )
        ),
        "rayClusterSpec": {
            **dict.fromkeys(("autoscalerOptions", "enableInTreeAutoscaling", "rayVersion", "suspend")),
            "headGroupSpec": dict.fromkeys((*_RAY_GROUP, "enableIngress", "headService", "serviceType")),
            "workerGroupSpecs": {
                "[]": dict.fromkeys(
                    (*_RAY_GROUP, "groupName", "maxReplicas", "minReplicas", "numOfHosts", "replicas", "suspend")
                )
            },
        },
    },
    ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime"): {
        "mlPolicy": dict.fromkeys(("flux", "jax", "mpi", "numNodes", "torch", "xgboost")),
        "podGroupPolicy": ANY,
        "template": {"metadata": ANY, "spec": _JOB_SET},
    },
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): {
        **dict.fromkeys(("annotations", "initializer", "labels", "managedBy", "suspend")),
        "runtimeRef": dict.fromkeys(("apiGroup", "kind", "name")),
        "trainer": dict.fromkeys(("args", "command", "env", "image", "numNodes", "numProcPerNode", "resourcesPerNode")),
    },
}
#: Kinds that the API server of the control-plane tests validates strictly.
VALIDATED = frozenset({"Deployment", "Job", "Pod", "PodGroup", "Queue", "Service"})


def documents(path: Path) -> list[Manifest]:
    """Return the objects of an example, as `kubectl apply` sends them: in a namespace."""
    found: list[Manifest] = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    for item in found:
        if item["kind"] != "Queue":
            item["metadata"].setdefault("namespace", "default")
    return found


def unknown(value: Any, shape: Shape, path: str) -> Iterator[str]:
    """Yield the paths of fields that a shape does not have."""
    if shape is None:
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from unknown(item, shape["[]"], f"{path}[{index}]")
        return
    for name, inner in value.items():
        if name in shape or "*" in shape:
            yield from unknown(inner, shape.get(name, shape.get("*")), f"{path}.{name}")
        else:
            yield f"{path}.{name}"


def pods_made_of(objects: list[Manifest]) -> Iterator[Pod]:
    """Yield the pods that controllers would make of an example, as the API server would store them."""
    waiting = list(objects)
    while waiting:
        item = waiting.pop(0)
        if item["kind"] != "Pod":
            waiting += children(item, objects)
            continue
        for container in item["spec"]["containers"]:
            resources = container["resources"]
            resources["requests"] = {**resources.get("limits", {}), **resources["requests"]}
        yield read_pod(decode_pod(written(item)))


def counted(pods: Iterator[Pod]) -> dict[GroupRef | None, Counter[tuple[str, str]]]:
    """Return how many pods of which role and request each gang has."""
    gangs: dict[GroupRef | None, Counter[tuple[str, str]]] = {}
    for pod in pods:
        gangs.setdefault(pod.group, Counter())[pod.role, str(sorted(pod.shape.requests))] += 1
    return gangs


@pytest.mark.parametrize("path", FILES)
def test_every_field_of_an_operators_object_exists(path: Path) -> None:
    """Down to the pod templates the fields are those of the operator's API; the rest the API server validates."""
    for item in documents(path):
        if item["kind"] not in VALIDATED:
            assert list(unknown(item["spec"], SHAPES[item["apiVersion"], item["kind"]], "spec")) == []


@pytest.mark.parametrize("path", FILES)
def test_every_pod_is_musters_and_in_a_gang(path: Path) -> None:
    """Nothing that a pod says is unusable, and at least one pod of each file asks for GPUs."""
    pods = list(pods_made_of(documents(path)))
    for pod in pods:
        assert (pod.scheduler_name, pod.problem, pod.options.problems) == ("muster", None, ())
        assert pod.group is not None
    assert any(pod.shape.request("nvidia.com/gpu") for pod in pods)


@pytest.mark.parametrize("path", FILES)
def test_what_if_expects_the_pods_that_the_controllers_make(path: Path) -> None:
    """Two programs that share nothing agree: the one that answers `muster explain -f`, and that of the tests."""
    objects = documents(path)
    expected = {
        submitted.ref: Counter((pod.role, str(sorted(pod.shape.requests))) for pod in submitted.pods)
        for submitted in read_submission(objects, Priorities(), CREATED).gangs
    }
    made = {ref: count for ref, count in counted(pods_made_of(objects)).items() if ref is not None}
    # Nobody can foretell the five characters after the name of a RayJob's cluster, nor the hash of a revision.
    assert {ref.name.removesuffix("-4kq9z").replace("5d8c7b9f", "*"): count for ref, count in made.items()} == {
        ref.name: count for ref, count in expected.items()
    }


def test_the_page_lists_every_example() -> None:
    """Each file has a row, and each says with which command it is applied; links lead somewhere."""
    page = read_page(FOLDER / "README.md")
    names = sorted(path.name for path in FOLDER.glob("*.yaml"))
    assert sorted(link for link in page.links if link.endswith(".yaml")) == names
    for name in names:
        assert f"#   kubectl apply -f examples/workloads/{name}\n" in (FOLDER / name).read_text(encoding="utf-8")
    assert broken_links(page.path) == []
