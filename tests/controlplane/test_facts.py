"""What describes network and hardware, on a real API server, with the rights that the manifests grant."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random

import pytest

from extender.clock import SystemClock
from extender.control.watched import REQUIRED_KINDS
from extender.kube.credentials import KubeConfig
from extender.kube.reflector import Feeds
from extender.kube.transport import Transport
from extender.kube.watch import WatchOptions
from localcluster.client import ApiClient, JsonObject
from localcluster.cluster import MUSTER_NAMESPACE, LocalCluster
from localcluster.errors import ApiError
from localcluster.manifests import CUSTOM_RESOURCE_DEFINITIONS, apply_all
from localcluster.sandbox import Sandbox
from localcluster.waiting import wait_until
from tests.controlplane.crds import foreign_definitions
from tests.kube.observer import Recorder

pytestmark = pytest.mark.controlplane

#: Looks for APIs that are not there ten times a second.
IMPATIENT = WatchOptions(look_again_seconds=0.1)

LEVELS = {"levels": [{"nodeLabel": "x/block"}, {"nodeLabel": "kubernetes.io/hostname"}]}
ZONES = [{"name": "node-0", "type": "Node", "resources": [{"name": "cpu", "allocatable": "4"}]}]
OBJECTS: list[JsonObject] = [
    {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "a"},
        "topologyPolicies": ["Restricted"],
        "zones": ZONES,
    },
    {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": "s0"},
        "spec": {"tier": 1, "members": [{"type": "Node", "selector": {"regexMatch": {"pattern": "^node-"}}}]},
    },
    {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Topology", "metadata": {"name": "default"}, "spec": LEVELS},
    {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "default"}, "spec": LEVELS},
    {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopologyBinding",
        "metadata": {"name": "default"},
        "spec": {"levels": [{"domain": "rack", "key": "x/rack"}]},
    },
    {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "ClusterNetworkTopology",
        "metadata": {"name": "default"},
        "spec": {"networkTopologySpec": [{"topologyLayer": "spine", "labelKey": ["x/spine"]}]},
    },
    {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": "a", "annotations": {"scheduling.koordinator.sh/gpu-partitions": "{}"}},
        "spec": {"devices": [{"type": "gpu", "minor": 0, "health": True}]},
    },
    {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"minMember": 2},
    },
]
SEEN = {
    ("node topology seen", "a", "restricted"),
    ("hyper node seen", "s0", "1"),
    ("levels seen", "kueue.x-k8s.io", "default", "x/block"),
    ("levels seen", "kai.scheduler", "default", "x/block"),
    ("levels seen", "grove.io", "default", "x/rack"),
    ("levels seen", "scheduling.koordinator.sh", "default", "x/spine"),
    ("device seen", "a", "{}"),
}
GONE = {
    ("node topology gone", "a"),
    ("hyper node gone", "s0"),
    ("levels gone", "kueue.x-k8s.io", "default"),
    ("levels gone", "kai.scheduler", "default"),
    ("levels gone", "grove.io", "default"),
    ("levels gone", "scheduling.koordinator.sh", "default"),
    ("device gone", "a"),
}


@contextlib.asynccontextmanager
async def watching(local_cluster: LocalCluster, folder: Path) -> AsyncIterator[Recorder]:
    """Run all feeds as Muster's own account until everything is synced, and on."""
    kubeconfig = local_cluster.service_account("muster").write_kubeconfig(folder / "kubeconfig")
    observer = Recorder()
    async with await Transport.connect(KubeConfig((kubeconfig,)), SystemClock()) as transport:
        task = asyncio.create_task(Feeds(transport, observer, IMPATIENT, random=Random(1)).run())
        try:
            await observer.until(lambda: set(REQUIRED_KINDS) <= set(observer.synced_kinds))
            yield observer
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def facts(observer: Recorder) -> list[tuple[str, ...]]:
    """Return what an observer was told besides what every cluster has."""
    everywhere = {"synced", "class seen", "namespace seen", "budget seen", "queue seen"}
    return [words for words in observer.told if words[0] not in everywhere]


def remove(api: ApiClient, definitions: list[JsonObject]) -> None:
    """Delete CRDs with their objects, and wait until they are gone."""
    names = {definition["metadata"]["name"] for definition in definitions}

    def left() -> set[str]:
        return names & {item["metadata"]["name"] for item in api.list_items(CUSTOM_RESOURCE_DEFINITIONS)}

    for name in left():
        with contextlib.suppress(ApiError):  # it may be terminating already
            api.delete(CUSTOM_RESOURCE_DEFINITIONS, name)
    wait_until(lambda: not left(), timeout_seconds=30, description="CRDs removed")


@pytest.fixture
def definitions(cluster: Sandbox) -> Iterator[list[JsonObject]]:
    """Return the other projects' CRDs, which are not installed before the test nor after it."""
    definitions = foreign_definitions()
    yield definitions
    remove(cluster.api, definitions)


async def test_apis_of_others_may_come_and_go(
    local_cluster: LocalCluster, cluster: Sandbox, definitions: list[JsonObject], tmp_path: Path
) -> None:
    """Without any of them all is synced; installed later they are read, in an older version too; removed, forgotten."""
    async with watching(local_cluster, tmp_path) as observer:
        assert facts(observer) == []
        await asyncio.to_thread(apply_all, cluster.api, definitions)
        await asyncio.to_thread(cluster.api.create_all, OBJECTS)
        await observer.until(lambda: set(observer.told) >= SEEN and bool(observer.groups))
        await asyncio.to_thread(remove, cluster.api, definitions)
        await observer.until(lambda: set(observer.told) >= GONE)
    assert observer.skipped_kinds == []
    assert "forbidden" not in observer.restarts


async def test_of_config_maps_only_the_calibration_is_read(
    local_cluster: LocalCluster, cluster: Sandbox, tmp_path: Path
) -> None:
    """The role names one ConfigMap; another one in the same namespace stays unread."""
    config_maps: list[JsonObject] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": MUSTER_NAMESPACE}}
        for name in ("another", "muster-calibration")
    ]
    for item in config_maps:
        cluster.api.create(item | {"data": {"key": "measured"}})
    async with watching(local_cluster, tmp_path) as observer:
        name = f"ConfigMap {MUSTER_NAMESPACE}/muster-calibration"
        assert facts(observer) == [("calibration seen", name, "measured")]
        for item in config_maps:
            cluster.api.delete(cluster.api.resource_of(item), item["metadata"]["name"], MUSTER_NAMESPACE)
        await observer.until(lambda: ("calibration gone",) in observer.told)
