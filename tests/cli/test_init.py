"""`muster init`: what it finds in a cluster, and what it says to apply."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from extender.cli.clusterchecks import (
    CheckState,
    gpus_finding,
    profile_finding,
    scheduler_finding,
    topology_finding,
    version_finding,
)
from extender.cli.commands import app
from tests.cli.conftest import Script

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
SLICES = "/apis/resource.k8s.io/v1/resourceslices?limit=500"
ZONES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies?limit=500"
OWN = "/apis/apps/v1/namespaces/muster-system/deployments/muster"
CONFIG = "/api/v1/namespaces/muster-system/configmaps/muster-scheduler-config-1"
CONFIGURATION = Path("scheduler-config/muster.yaml").read_text(encoding="utf-8")
GROUPS = ("resource.k8s.io", "topology.node.k8s.io", "kueue.x-k8s.io", "cert-manager.io")


def node(name: str, labels: Mapping[str, str], gpus: int = 8) -> dict[str, Any]:
    """Return a node."""
    return {
        "metadata": {"name": name, "labels": dict(labels)},
        "status": {"allocatable": {"nvidia.com/gpu": str(gpus)}},
    }


H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "topology.k8s.aws/network-node-layer-1": "a"}


def deployment(image: str = "registry.k8s.io/kube-scheduler:v1.37.0", ready: int = 2) -> dict[str, Any]:
    """Return Muster's Deployment."""
    volumes = [{"name": "config", "configMap": {"name": "muster-scheduler-config-1"}}]
    spec = {"containers": [{"image": "r/muster:1"}, {"image": image}], "volumes": volumes}
    return {
        "metadata": {"name": "muster", "namespace": "muster-system"},
        "spec": {"replicas": 2, "template": {"spec": spec}},
        "status": {"readyReplicas": ready},
    }


def forbidden(server: Script, path: str) -> None:
    """Have a path refused for want of a right."""
    server.answers[path] = (403, json.dumps({"kind": "Status", "code": 403, "message": f"may not {path}"}).encode())


@pytest.fixture
def ready(server: Script) -> Script:
    """Return an API server of a cluster in which Muster runs and nothing is missing."""
    documents: dict[str, Any] = {
        "/version": {"gitVersion": "v1.37.0"},
        "/apis": {"groups": [{"name": each} for each in GROUPS]},
        "/apis/scheduling.x-k8s.io/v1alpha1": {"resources": [{"kind": "PodGroup"}]},
        "/apis/muster.dev/v1alpha1": {"resources": [{"kind": "Queue"}]},
        "/apis/resource.k8s.io/v1": {"resources": [{"kind": "ResourceSlice"}]},
        SLICES: {"items": [{"spec": {"driver": "gpu.nvidia.com"}}]},
        ZONES: {"items": [{}]},
        REVIEWS: {"status": {"allowed": True}},
        OWN: deployment(),
        CONFIG: {"data": {"muster.yaml": CONFIGURATION}},
        LEASE: {"spec": {"holderIdentity": "cp-1_x"}},
        "/api/v1/nodes?limit=500": {"items": [node("a", H100)], "metadata": {"continue": "n1"}},
        "/api/v1/nodes?limit=500&continue=n1": {"items": [node("b", H100)]},
    }
    server.answers |= {path: (200, json.dumps(document).encode()) for path, document in documents.items()}
    return server


def init(kubeconfig: Path, *words: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(app, ["init", "--kubeconfig", str(kubeconfig), *words], env={"COLUMNS": "200"})


def states(result: Result) -> dict[str, str]:
    """Return the states of a result in JSON."""
    return {each["check"]: each["state"] for each in json.loads(result.stdout)["findings"]}


def test_a_ready_cluster_says_so_and_nothing_is_written(ready: Script, kubeconfig: Path) -> None:
    """Exit code 0; all that is sent but reads are reviews of the caller's own rights."""
    result = init(kubeconfig)
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith("\nready\n")
    assert "16 NVIDIA-H100-80GB-HBM3 on 2 nodes" in result.stdout
    assert "preset eks: layer-1; 2 of 2 nodes with GPUs have topology.k8s.aws/network-node-layer-1" in result.stdout
    assert "Kueue" in result.stdout
    assert "To apply" not in result.stdout
    assert {each for each in ready.asked if not each.startswith("GET ")} == {f"POST {REVIEWS}"}


def test_an_empty_cluster_is_told_what_to_apply(ready: Script, kubeconfig: Path) -> None:
    """Exit code 1, and commands for the context that was asked about; PodGroups of others stay."""
    for path in (OWN, "/apis/muster.dev/v1alpha1", LEASE, ZONES, "/apis/resource.k8s.io/v1"):
        del ready.answers[path]
    result = init(kubeconfig, "--context", "there", "-o", "json")
    assert result.exit_code == 1, result.output
    document = json.loads(result.stdout)
    target = f"--kubeconfig {kubeconfig}"
    assert document["ready"] is False
    assert document["apply"][0] == f"kubectl {target} --context there create namespace muster-system"
    assert document["apply"][2].startswith(f"helm {target} --kube-context there install muster manifests/helm/muster")
    assert document["apply"][2].endswith("--set crds.podGroups=false")
    assert states(result)["CRDs"] == states(result)["Muster"] == "missing"
    del ready.answers["/apis/scheduling.x-k8s.io/v1alpha1"]
    ready.answers["/api/v1/namespaces/muster-system"] = (200, b'{"metadata": {"name": "muster-system"}}')
    result = init(kubeconfig)
    assert "PodGroup and Queue are not served; Helm brings what is missing" in result.stdout
    assert "create namespace" not in result.stdout
    assert result.stdout.endswith("not ready: something is missing\n")


def test_an_installed_muster_lacks_a_kind(ready: Script, kubeconfig: Path) -> None:
    """The kind alone is applied; replicas that are not ready are told with what says why."""
    del ready.answers["/apis/muster.dev/v1alpha1"]
    ready.answers[OWN] = (200, json.dumps(deployment(ready=0)).encode())
    del ready.answers[CONFIG]
    result = init(kubeconfig)
    assert result.exit_code == 1
    assert "apply --server-side -f manifests/queue-crd.yaml" in result.stdout
    assert "0 of 2 replicas are ready" in result.stdout
    assert "describe pods -l app.kubernetes.io/name=muster" in result.stdout
    assert "the Deployment mounts no configuration" in result.stdout


def test_missing_rights(ready: Script, kubeconfig: Path) -> None:
    """Whoever may not install is told; where Muster runs that is a note. What may not be read is unknown."""
    ready.answers[REVIEWS] = (200, b'{"status": {"allowed": false}}')
    for path in ("/api/v1/nodes?limit=500", LEASE, CONFIG, SLICES, ZONES):
        forbidden(ready, path)
    result = init(kubeconfig, "-o", "json")
    assert result.exit_code == 0, result.output
    found = states(result)
    assert found["rights"] == "note"
    assert {found[each] for each in ("GPUs", "kube-scheduler", "profile", "DRA", "NUMA")} == {"unknown"}
    forbidden(ready, OWN)
    result = init(kubeconfig, "-o", "json")
    assert (states(result)["Muster"], states(result)["rights"]) == ("unknown", "missing")
    assert json.loads(result.stdout)["apply"] == []
    del ready.answers[OWN]
    result = init(kubeconfig)
    assert result.exit_code == 1
    assert "you may not create namespaces, create customresourcedefinitions" in result.stdout


def test_refused_arguments(ready: Script, kubeconfig: Path) -> None:
    """Exit code 2 for a format that there is not and a kubeconfig that cannot be read; nothing was asked."""
    assert init(kubeconfig, "-o", "csv").exit_code == 2
    assert init(kubeconfig.with_name("none")).exit_code == 2
    assert init(kubeconfig, "--context", "nowhere").exit_code == 2
    assert ready.asked == []


@pytest.mark.parametrize(
    ("version", "state"),
    [("v1.24.9", "missing"), ("v1.30.1", "note"), ("v1.35.4+k3s1", "ok"), ("v1.38.0", "note"), ("", "unknown")],
)
def test_versions(version: str, state: str) -> None:
    """As docs/versions.md has them."""
    assert version_finding(version).state == state


@pytest.mark.parametrize(
    ("image", "state"),
    [
        ("registry.k8s.io/kube-scheduler:v1.36.1", "ok"),
        ("registry.k8s.io/kube-scheduler:v1.36.1@sha256:00", "ok"),
        ("registry.k8s.io/kube-scheduler:v1.35.0", "missing"),
        ("registry.k8s.io/kube-scheduler:v1.38.0", "missing"),
        ("registry.k8s.io/kube-scheduler", "note"),
        ("other", "note"),
    ],
)
def test_a_kube_scheduler_that_does_not_fit(image: str, state: str) -> None:
    """It is of the API server's minor version or one below; else Helm gives it another."""
    found = scheduler_finding(deployment(image), "v1.37.2-eks-1")
    assert found.state == state
    assert all("kubeScheduler.image.tag=v1.37.2 --namespace muster-system" in each for each in found.apply)
    assert bool(found.apply) == (state == "missing")


@pytest.mark.parametrize(
    ("text", "state"),
    [
        (CONFIGURATION, "ok"),
        ("kind: KubeSchedulerConfiguration\nprofiles: [{schedulerName: muster}]", "missing"),
        ("kind: Other", "missing"),
        ("profiles: [", "missing"),
        ("kind: KubeSchedulerConfiguration\nprofiles: 3", "missing"),
        ("text", "missing"),
    ],
)
def test_profiles(text: str, state: str) -> None:
    """Without a profile or an extender Muster is never asked; `muster check-config` says more."""
    found = profile_finding([text], "check")
    assert found.state == state
    assert found.apply == (() if state == "ok" else ("check",))


def test_nodes() -> None:
    """GPUs that nothing names, that the table does not know, and none; labels that fit no preset, and some nodes."""
    nodes = [node("a", H100), node("b", {}), node("c", {"nvidia.com/gpu.product": "Z1"}), node("d", {}, 0)]
    found = gpus_finding(nodes)
    assert (found.state, len(found.apply)) == (CheckState.NOTE, 2)
    assert "8 Z1 (not in Muster's table) on 1 nodes" in found.message
    assert "without a label that names them on 1 nodes" in found.message
    assert gpus_finding([node("d", {}, 0)]).state is CheckState.MISSING
    assert topology_finding(nodes, frozenset({"topology.volcano.sh"})).state is CheckState.NOTE
    assert "no node has labels of a known preset" in topology_finding(nodes[1:], frozenset()).message
