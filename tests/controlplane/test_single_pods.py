"""Pods that name no group: kube-scheduler chooses among the nodes that Muster ranks, on the real control plane."""

from __future__ import annotations

from pathlib import Path

import pytest

from localcluster.client import JsonObject
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from localcluster.waiting import wait_until
from tests.controlplane.conftest import StartMuster

pytestmark = pytest.mark.controlplane
#: The judge reads the pods' history; Queues it does not look at in stories of this kind.
judged = pytest.mark.usefixtures("judged")

GPU = "nvidia.com/gpu"
TEAM = {"muster.dev/queue": "team"}


@pytest.fixture
def ranking(start_muster: StartMuster, tmp_path: Path) -> Server:
    """Start Muster with single pods ranked."""
    config = tmp_path / "muster.yaml"
    config.write_text("single_pods: ranked\n")
    return start_muster("--config", str(config))


def rather(disk: str) -> JsonObject:
    """Return the preference of nodes with a label."""
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": [disk]}]}
    preferred = [{"weight": 100, "preference": term}]
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}


def queue(name: str, **quotas: int) -> JsonObject:
    """Return a Queue with quota for GPUs on the nodes of each pool, or everywhere."""
    flavors: list[JsonObject] = [
        {"name": pool, "resources": [{"name": GPU, "nominalQuota": gpus}]}
        | ({} if pool == "everywhere" else {"nodeSelector": {"pool": pool}})
        for pool, gpus in quotas.items()
    ]
    spec = {"flavors": flavors}
    return {"apiVersion": "muster.dev/v1alpha1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


@judged
def test_a_preference_decides_between_nodes_that_are_alike(cluster: Sandbox, ranking: Server) -> None:
    """Muster plans the first of the empty nodes; the pod goes to the one that it prefers."""
    cluster.nodes(3, gpus=8)
    cluster.nodes(1, prefix="quick", gpus=8, labels={"disk": "quick"})
    for number in range(3):
        pod = cluster.pod(f"single-{number}", gpus=1, spec=rather("quick"))
        pod.wait_bound()
        assert pod.node == "quick-0"
    ranking.check()


def test_a_pod_that_had_to_wait_is_placed_by_its_preference_too(cluster: Sandbox, ranking: Server) -> None:
    """Its nomination wakes it; the nominated node alone is refused, so that kube-scheduler looks at all of them."""
    cluster.nodes(3, gpus=8)
    cluster.nodes(1, prefix="quick", gpus=8, labels={"disk": "quick"})
    cluster.create(queue("team", everywhere=1))
    first = cluster.pod("first", gpus=1, labels=TEAM)
    first.wait_bound()
    second = cluster.pod("second", gpus=1, labels=TEAM, spec=rather("quick"))
    second.wait_message("pod waits: ")
    first.delete()
    second.wait_bound()
    assert second.node == "quick-0"
    ranking.check()


def test_quota_holds_for_ranked_pods(cluster: Sandbox, ranking: Server) -> None:
    """No preference takes a pod out of the flavor that has quota for it, nor beyond what there is of it."""
    cluster.nodes(2, prefix="fast", gpus=8, labels={"pool": "fast"})
    cluster.nodes(2, prefix="slow", gpus=8, labels={"pool": "slow", "disk": "quick"})
    cluster.create(queue("team", fast=2, slow=4))
    pods = [cluster.pod(f"single-{number}", gpus=1, labels=TEAM, spec=rather("quick")) for number in range(7)]
    wait_until(lambda: sum(pod.bound for pod in pods) >= 6, timeout_seconds=30, description="six pods are bound")
    (left,) = (pod for pod in pods if not pod.bound)
    left.wait_message("pod waits: ")
    assert sorted(str(pod.node).split("-")[0] for pod in pods if pod.bound) == ["fast"] * 2 + ["slow"] * 4
    ranking.check()


@judged
def test_what_is_kept_for_a_gang_is_kept_from_ranked_pods(cluster: Sandbox, ranking: Server) -> None:
    """A gang waits for two whole nodes; younger pods prefer these, and are placed on the one that is left."""
    busy, *wanted = cluster.nodes(3, gpus=8, labels={"disk": "quick"})
    cluster.nodes(1, prefix="other", gpus=8)
    for node, gpus in ((busy, 8), (wanted[0], 2), ("other-0", 4)):
        cluster.pod(f"on-{node}", gpus=gpus, node_name=node).wait_phase("Running")
    head = cluster.gang("head", members=2, gpus=8)
    head.wait_condition("False", "InsufficientCapacity")
    pods = [cluster.pod(f"single-{number}", gpus=1, spec=rather("quick")) for number in range(3)]
    for pod in pods:
        pod.wait_bound()
        assert pod.node == "other-0"
    ranking.check()


@judged
def test_more_single_pods_than_there_is_room_for(cluster: Sandbox, ranking: Server) -> None:
    """kube-scheduler chooses for 40 pods at once where 32 fit: no GPU is given out twice, and the others follow."""
    cluster.nodes(4, gpus=8)
    pods = [cluster.pod(f"single-{number}", gpus=1, run_seconds=3) for number in range(40)]
    for pod in pods:
        pod.wait_bound(timeout=60)
    assert max(cluster.peak_gpus().values()) <= 8
    ranking.check()
