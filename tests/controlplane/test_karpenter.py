"""Gangs on nodes that Karpenter makes and removes: the real one, with its provider of kwok's nodes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from localcluster.build import ensure_binaries, files_of
from localcluster.client import EVENTS, NODES, PODS, JsonObject, Resource
from localcluster.cluster import LocalCluster
from localcluster.controlplane import STOCK_API_SERVER
from localcluster.manifests import apply_all
from localcluster.processes import Server
from localcluster.programs import AUTOSCALING_BINARIES, KARPENTER_MODULE, Binary, Release
from localcluster.sandbox import Sandbox
from localcluster.waiting import wait_until
from tests.controlplane.conftest import muster_starter, running_cluster

pytestmark = [pytest.mark.controlplane, pytest.mark.nightly, pytest.mark.timeout(900)]

NODE_POOLS = Resource("karpenter.sh/v1", "NodePool", "nodepools", namespaced=False)
NODE_CLAIMS = Resource("karpenter.sh/v1", "NodeClaim", "nodeclaims", namespaced=False)
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
#: How long nodes take to come or go at most (seconds): batches of Karpenter's last up to ten.
SOON = 60.0

#: Without zone and kind of capacity on its nodes Karpenter makes some, but consolidates none.
OFFERED = {"karpenter.sh/capacity-type": "on-demand", "topology.kubernetes.io/zone": "zone-a"}
INSTANCE_TYPE = {
    "name": "gpu-8",
    "offerings": [
        {
            "Price": 10.0,
            "Available": True,
            "Requirements": [{"key": key, "operator": "In", "values": [value]} for key, value in OFFERED.items()],
        }
    ],
    "architecture": "amd64",
    "operatingSystems": ["linux"],
    "resources": {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"},
}


def pool() -> list[JsonObject]:
    """Return a NodePool that gives back nodes as soon as they are not full, as many at once as it likes."""
    spec = {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
        "expireAfter": "Never",
    }
    disruption = {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "1s",
        "budgets": [{"nodes": "100%"}],
    }
    return [
        {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}},
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": "gpu"},
            "spec": {"template": {"spec": spec}, "disruption": disruption},
        },
    ]


@pytest.fixture(scope="module")
def karpenter_cluster(tmp_path_factory: pytest.TempPathFactory, release: Release) -> Iterator[LocalCluster]:
    """Run a control plane with Karpenter's definitions."""
    with running_cluster(tmp_path_factory, "karpenter", STOCK_API_SERVER, release) as running:
        patterns = ("pkg/apis/crds/*.yaml", "kwok/apis/crds/*.yaml")
        files = [each for pattern in patterns for each in files_of(KARPENTER_MODULE, "sigs.k8s.io/karpenter", pattern)]
        apply_all(running.admin, [yaml.safe_load(each.read_text("utf-8")) for each in files])
        running.muster_scheduler.start()
        yield running


@pytest.fixture(scope="module")
def karpenter_server(karpenter_cluster: LocalCluster) -> Server:
    """Run Karpenter, which is built first if it has not been."""
    executable = ensure_binaries(AUTOSCALING_BINARIES)[Binary.KARPENTER]
    types = karpenter_cluster.folder / "instance-types.json"
    types.write_text(json.dumps([INSTANCE_TYPE]), "utf-8")
    server = karpenter_cluster.karpenter(executable, types)
    server.start()
    return server


@pytest.fixture
def karpenter(karpenter_cluster: LocalCluster, karpenter_server: Server) -> Iterator[Sandbox]:
    """Return the cluster without nodes, and with a NodePool."""
    with Sandbox(karpenter_cluster.admin) as sandbox:
        apply_all(karpenter_cluster.admin, pool())
        yield sandbox
        karpenter_server.check()
        sandbox.api.delete_all(PODS, "default")
        sandbox.api.request("DELETE", NODE_CLAIMS.path())
        wait_until(lambda: not nodes(sandbox), timeout_seconds=SOON, description="the nodes are gone")
        sandbox.api.request("DELETE", NODE_POOLS.path(None, "gpu"))
        sandbox.reset()


@pytest.fixture
def start_muster(karpenter_cluster: LocalCluster, tmp_path: Path) -> Iterator[Callable[[str], Server]]:
    """Start Muster with settings."""

    def configured(settings: str = "") -> Server:
        config = tmp_path / "muster.yaml"
        config.write_text(settings, "utf-8")
        return start("--config", str(config)) if settings else start()

    with muster_starter(karpenter_cluster) as start:
        yield configured


def nodes(cluster: Sandbox) -> list[str]:
    """Return the names of the nodes that there are."""
    return [each["metadata"]["name"] for each in cluster.api.list_items(NODES)]


def protected(pod: JsonObject | None) -> bool:
    """Tell whether a pod is not to be moved."""
    assert pod is not None
    return (pod["metadata"].get("annotations") or {}).get(DO_NOT_DISRUPT) == "true"


def kept(cluster: Sandbox) -> set[str]:
    """Return the nodes that Karpenter leaves because a pod is not to be moved, as its Events say."""
    events = [each for each in cluster.api.list_items(EVENTS) if DO_NOT_DISRUPT in (each.get("note") or "")]
    return {each["regarding"]["name"] for each in events} & set(nodes(cluster))


def half_empty(cluster: Sandbox) -> None:
    """Let a gang have a member on each of two nodes, which are half empty: a third one has ended."""
    gang = cluster.gang("train", members=3, gpus=4)
    gang.wait_running(timeout=SOON)
    together = [member for member in gang.members if gang.nodes.count(member.node or "") == 2]
    assert len(together) == 2
    together[0].complete()


def test_a_gang_on_an_empty_cluster_gets_nodes_and_starts_whole(
    karpenter: Sandbox, start_muster: Callable[..., Server]
) -> None:
    """Its members are refused one by one, and nodes come for all; when it has ended they go."""
    muster = start_muster()
    gang = karpenter.gang("train", members=4, gpus=8)
    gang.wait_running(timeout=SOON)
    assert len(set(gang.nodes)) == 4
    assert all(protected(member.object) for member in gang.members)
    gang.complete()
    wait_until(lambda: not nodes(karpenter), timeout_seconds=2 * SOON, description="empty nodes go")
    muster.check()


def test_consolidation_does_not_break_a_gang_that_runs(karpenter: Sandbox, start_muster: Callable[..., Server]) -> None:
    """One node would do for both members: they stay where they are until the gang has ended."""
    muster = start_muster()
    half_empty(karpenter)
    karpenter.wait_until(lambda: len(kept(karpenter)) == 2, "Karpenter says why it leaves both nodes", SOON)
    assert karpenter.stays_true(lambda: len(nodes(karpenter)) == 2, 30)
    assert not karpenter.deleted_pods()
    muster.check()


def test_without_protection_it_does(karpenter: Sandbox, start_muster: Callable[..., Server]) -> None:
    """What the annotation is for: a member is evicted for the price of a node."""
    muster = start_muster("protect_members: never\n")
    half_empty(karpenter)
    wait_until(lambda: bool(karpenter.deleted_pods()), timeout_seconds=2 * SOON, description="a member is evicted")
    muster.check()
