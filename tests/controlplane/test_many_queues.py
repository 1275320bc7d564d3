"""Hundreds of Queues that come at once delay no gang, and have nothing evaluated that they do not concern."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from localcluster.client import JsonObject
from localcluster.cluster import LocalCluster
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from tests.controlplane.conftest import PROMPT_SECONDS
from tests.controlplane.test_reclaim import gang, queue
from tests.controlplane.test_tenants import memory

pytestmark = pytest.mark.controlplane

#: Queues that come in a burst, and gangs that wait for room meanwhile in another tree.
QUEUES, WAITING = 400, 30


def read(local_cluster: LocalCluster, name: str) -> float:
    """Return a metric of Muster's without labels."""
    page = httpx.get(f"http://127.0.0.1:{local_cluster.muster_port}/metrics", trust_env=False).text
    return next(float(line.split()[1]) for line in page.splitlines() if line.startswith(f"{name} "))


def test_a_gang_starts_while_hundreds_of_queues_come(
    cluster: Sandbox, muster: Server, local_cluster: LocalCluster
) -> None:
    """It is of their tree and starts at once; gangs of another tree keep the verdicts that they have."""
    nodes = cluster.nodes(4, gpus=8)
    for manifest in (queue("all"), queue("good", 8, parent="all"), queue("other", 800)):
        cluster.create(manifest)
    there = {"kubernetes.io/hostname": nodes[0]}
    labels = {"muster.dev/queue": "other"}
    cluster.gang("holder", members=1, gpus=8, node_selector=there, labels=labels).wait_bound()
    waiting = [
        cluster.gang(f"waiting-{number}", members=1, gpus=8, node_selector=there, labels=labels)
        for number in range(WAITING)
    ]
    for each in waiting:
        each.wait_condition("False")
    before, planned = memory(muster), read(local_cluster, "muster_plan_seconds_count")
    manifests: list[JsonObject] = [queue(f"team-{number}", 8, parent="all") for number in range(QUEUES)]
    with ThreadPoolExecutor(8) as pool:
        made = pool.map(cluster.create, manifests)
        next(made)
        gang(cluster, "first", 8, "good").wait_bound(8, timeout=PROMPT_SECONDS)
        list(made)
    gang(cluster, "last", 8, f"team-{QUEUES - 1}").wait_bound(8, timeout=PROMPT_SECONDS)
    assert read(local_cluster, "muster_plan_seconds_count") - planned < 2 * WAITING
    assert memory(muster) - before < 30_000_000
    assert not any(each.bound for each in waiting)
    muster.check()
