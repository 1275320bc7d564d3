"""What one tenant does to itself alone: absurd amounts and unique shapes, on the real control plane."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import httpx
import pytest
import yaml

from localcluster.client import NAMESPACES, PODS, JsonObject, Resource
from localcluster.cluster import LocalCluster
from localcluster.errors import ApiError
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from localcluster.waiting import wait_until
from localcluster.workloads import PodTemplate
from tests.controlplane.conftest import StartMuster

pytestmark = pytest.mark.controlplane

#: What Muster may take at most with a handful of nodes (bytes).
MOST_MEMORY = 200_000_000


def memory(server: Server, field: str = "VmRSS") -> int:
    """Return the resident memory of a server, or the most that it ever had with `VmHWM` (bytes)."""
    lines = Path(f"/proc/{server.pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def test_absurd_amount_on_a_node_harms_that_node_alone(
    cluster: Sandbox, muster: Server, local_cluster: LocalCluster
) -> None:
    """A pod with a node and absurdly many GPUs takes its node, and neither memory nor anything of other nodes."""
    cluster.nodes(2, gpus=8)
    pods = [
        cluster.pod(f"absurd-{number}", gpus=gpus, node_name="node-0", scheduler="muster")
        for number, gpus in enumerate((200_000_000, 2**63 - 1))
    ]
    assert "spec.containers[0].resources.requests.nvidia.com/gpu" in pods[0].wait_message("is more than any node has")
    cluster.gang("gang", members=2, gpus=4).wait_bound()
    assert {binding.node for binding in cluster.bindings() if binding.pod.startswith("gang")} == {"node-1"}
    board = httpx.get(f"http://127.0.0.1:{local_cluster.muster_port}/api/v1/board", trust_env=False)
    assert board.status_code == httpx.codes.OK
    assert board.headers["x-content-type-options"] == "nosniff"
    assert memory(muster, "VmHWM") < MOST_MEMORY
    muster.check()


#: Of each unique affinity (bytes): some 0.5 MB, and twice that in memory.
AFFINITY_VALUES = 7_000


def unique_affinity(number: int) -> JsonObject:
    """Return a node affinity of half a megabyte that no other pod has."""
    values = [f"{number:04}-{value:05}-{'x' * 50}" for value in range(AFFINITY_VALUES)]
    term = {"matchExpressions": [{"key": "example.com/pool", "operator": "NotIn", "values": values}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


@pytest.mark.parametrize("scheduler", ["muster", "nobody"])
def test_nothing_stays_of_unique_affinities(
    cluster: Sandbox, start_muster: StartMuster, tmp_path: Path, scheduler: str
) -> None:
    """Pods with affinities of their own come and go: their memory goes with them, whichever scheduler they name."""
    settings = tmp_path / "settings.yaml"
    settings.write_text("recording_megabytes: 0\n", encoding="utf-8")  # it keeps what was seen, up to its own bound
    muster = start_muster("--config", str(settings))
    cluster.nodes(2, gpus=8)

    def come_and_go(first: int, count: int) -> None:
        for number in range(first, first + count):
            pod = cluster.pod(f"unique-{number}", scheduler=scheduler, spec={"affinity": unique_affinity(number)})
            if scheduler == "muster":
                pod.wait_bound()
            pod.delete()
        cluster.gang(f"gang-{first}", members=1, gpus=1).wait_bound()

    come_and_go(0, 10)
    before = memory(muster)
    come_and_go(10, 100)  # 0.9 MB each would be 90 MB; what may stay fills bounded caches of 16 MiB
    assert memory(muster) - before < 45_000_000
    muster.check()


QUOTAS = Resource("v1", "ResourceQuota", "resourcequotas", namespaced=True)
PAGE = Path(__file__).parents[2] / "docs" / "tenants.md"


def test_the_page_on_tenants_has_what_keeps_them_from_nodes(cluster: Sandbox) -> None:
    """Its objects are taken, and then pods that avoid Muster are refused in the namespaces of tenants alone."""
    blocks = re.findall(r"^ *```yaml\n(.*?)^ *```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    objects = [item for block in blocks for item in yaml.safe_load_all(dedent(block))]
    assert {item["kind"] for item in objects} >= {"Queue", "ResourceQuota", "ValidatingAdmissionPolicy"}
    cluster.nodes(1, gpus=8)
    with cluster.namespace("team-a") as namespace:
        cluster.api.patch(NAMESPACES, namespace, {"metadata": {"labels": {"tenant": namespace}}})
        for item in objects:
            if item["kind"] == "ResourceQuota":  # its usage is counted by kube-controller-manager; none runs here
                cluster.api.request("POST", QUOTAS.path(namespace), body=item, query={"dryRun": "All"})
            else:
                cluster.create(item)

        def refused(**options: object) -> str:
            pod = PodTemplate(**options).pod("pod", namespace)  # type: ignore[arg-type] # fields by name
            try:
                cluster.api.request("POST", PODS.path(namespace), body=pod, query={"dryRun": "All"})
            except ApiError as error:
                return str(error)
            return ""

        wait_until(
            lambda: "pods of tenants are scheduled" in refused(node_name="node-0"),
            timeout_seconds=30.0,
            description="the policy is in force",
        )
        assert "scheduled by muster" in refused(gpus=1, scheduler="default-scheduler")
        assert refused(gpus=1) == ""
        assert refused(scheduler="default-scheduler") == ""
    cluster.pod("other", gpus=1, scheduler="default-scheduler", node_name="node-0")
