"""The manifests as an administrator applies them: with kubectl, strictly, and again."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
import yaml

from localcluster.client import POD_GROUPS, JsonObject
from localcluster.cluster import LocalCluster
from localcluster.manifests import MANIFESTS, render
from localcluster.ports import LOOPBACK, free_ports
from localcluster.processes import Server
from localcluster.programs import Binary
from localcluster.sandbox import Sandbox
from tests.docs.conftest import ROOT, Page
from tests.patience import HANGS

pytestmark = pytest.mark.controlplane


@pytest.fixture
def kubectl(local_cluster: LocalCluster) -> Callable[..., str]:
    """Return a function that runs kubectl with all rights and returns what it prints."""

    def run(*arguments: str) -> str:
        command = [str(local_cluster.binaries[Binary.KUBECTL]), f"--kubeconfig={local_cluster.admin_kubeconfig}"]
        done = subprocess.run([*command, *arguments], check=False, capture_output=True, text=True, timeout=HANGS)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def deployment(local_cluster: LocalCluster) -> JsonObject:
    """Return the Deployment as kustomize renders it."""
    (found,) = (item for item in render(local_cluster.binaries[Binary.KUBECTL]) if item["kind"] == "Deployment")
    return found


def test_the_api_server_accepts_every_field(kubectl: Callable[..., str]) -> None:
    """A dry run of the documented command, with strict validation, has nothing to object to."""
    answer = kubectl(
        "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-k", str(MANIFESTS)
    )
    lines = answer.splitlines()
    assert len(lines) == len(list(yaml.safe_load_all(kubectl("kustomize", str(MANIFESTS)))))
    assert all(line.endswith("serverside-applied (server dry run)") for line in lines)


def test_rendering_is_deterministic(kubectl: Callable[..., str], tmp_path: Path) -> None:
    """Equal files render to equal bytes; a change of the scheduler configuration rolls the pod."""
    first, second = (kubectl("kustomize", str(MANIFESTS)) for _ in range(2))
    assert first == second
    for folder in ("manifests", "scheduler-config"):
        (tmp_path / folder).mkdir()
        for file in (ROOT / folder).glob("*.yaml"):
            (tmp_path / folder / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    config = tmp_path / "scheduler-config" / "muster.yaml"
    config.write_text(config.read_text(encoding="utf-8") + "# changed\n", encoding="utf-8")
    changed = kubectl("kustomize", str(tmp_path / "manifests"))
    names = [set(re.findall(r"name: (muster-scheduler-config-\w+)", text)) for text in (first, changed)]
    assert [len(name) for name in names] == [1, 1]
    assert names[0] != names[1]


def test_the_documented_overlay_gives_muster_its_settings(kubectl: Callable[..., str], tmp_path: Path) -> None:
    """The overlay in docs/operations.md mounts the file that it has `muster serve` read."""
    page = Page(ROOT / "docs" / "operations.md", (ROOT / "docs" / "operations.md").read_text(encoding="utf-8"))
    (overlay,) = (block.text for block in page.blocks if "# overlay/kustomization.yaml" in block.text)
    assert "../muster/manifests" in overlay
    (tmp_path / "muster").symlink_to(ROOT)
    (tmp_path / "overlay").mkdir()
    (tmp_path / "overlay" / "kustomization.yaml").write_text(overlay, encoding="utf-8")
    (tmp_path / "overlay" / "settings.yaml").write_text("veto_seconds: 20\n", encoding="utf-8")
    objects = list(yaml.safe_load_all(kubectl("kustomize", str(tmp_path / "overlay"))))
    (pod,) = (item["spec"]["template"]["spec"] for item in objects if item["kind"] == "Deployment")
    (muster,) = (container for container in pod["containers"] if container["name"] == "muster")
    (mount,) = muster["volumeMounts"]
    (volume,) = (one for one in pod["volumes"] if one["name"] == mount["name"])
    (config,) = (item for item in objects if item["metadata"]["name"] == volume["configMap"]["name"])
    assert muster["args"][-1] == f"--config={mount['mountPath']}/settings.yaml"
    assert config["data"] == {"settings.yaml": "veto_seconds: 20\n"}


def test_every_probe_of_muster_is_answered(
    cluster: Sandbox, start_muster: Callable[..., Server], deployment: JsonObject
) -> None:
    """The paths that the kubelet asks exist on the second listener, and the verbs do not."""
    (port,) = free_ports(1)
    start_muster(f"--metrics-host={LOOPBACK}", f"--metrics-port={port}")
    assert cluster.empty
    containers = deployment["spec"]["template"]["spec"]["containers"]
    (muster,) = (container for container in containers if container["name"] == "muster")
    with httpx.Client(base_url=f"http://{LOOPBACK}:{port}", trust_env=False) as http:
        for probe in ("readinessProbe", "livenessProbe"):
            assert http.get(muster[probe]["httpGet"]["path"]).status_code == httpx.codes.OK
        assert http.get("/metrics").status_code == httpx.codes.OK
        assert http.post("/v1/filter", json={}).status_code == httpx.codes.NOT_FOUND


def test_every_flag_of_kube_scheduler_exists(local_cluster: LocalCluster, deployment: JsonObject) -> None:
    """The container's command is one that the pinned kube-scheduler knows."""
    containers = deployment["spec"]["template"]["spec"]["containers"]
    (scheduler,) = (container for container in containers if container["name"] == "kube-scheduler")
    program, *flags = scheduler["command"]
    known = subprocess.run(
        [local_cluster.binaries[Binary.KUBE_SCHEDULER], "--help"], check=True, capture_output=True, text=True
    ).stdout
    assert program == "kube-scheduler"
    assert flags
    assert [flag for flag in flags if f"{flag.split('=')[0]} " not in known] == []


def test_kubectl_shows_how_a_gang_stands(cluster: Sandbox, kubectl: Callable[..., str]) -> None:
    """`kubectl get pg` has the columns that tell whether and why a gang waits; -o wide adds the sentence."""
    cluster.gang("job", members=4, create=0)
    metadata = {"name": "job", "namespace": "default"}
    cluster.api.create(
        {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup", "metadata": metadata, "spec": {"minMember": 4}}
    )
    condition = {
        "type": "Scheduled",
        "status": "False",
        "reason": "InsufficientCapacity",
        "message": "2 of 4 members fit",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"phase": "Pending", "running": 1, "conditions": [condition]}
    cluster.api.patch(POD_GROUPS, "job", {"status": status}, namespace="default", subresource="status")
    heads, row = kubectl("get", "pg", "job", "-o", "wide").splitlines()
    columns = ["NAME", "PHASE", "MINMEMBER", "RUNNING", "SUCCEEDED", "FAILED", "SCHEDULED", "REASON", "AGE", "MESSAGE"]
    assert heads.split() == columns
    assert row.split()[:4] == ["job", "Pending", "4", "1"]
    assert "False" in row
    assert row.endswith("2 of 4 members fit")
