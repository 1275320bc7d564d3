"""Lent quota comes back: a large gang has borrowers evicted on the real control plane, and starts on their place."""

from __future__ import annotations

import pytest

from localcluster.client import JsonObject
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from localcluster.story import Gang

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(900)]

GPU = "nvidia.com/gpu"
#: Gangs that run on 11 nodes of eight GPUs, each with 22 pods: one within the quota of its queue, and three borrowing.
BORROWERS, MEMBERS = 4, 22
NEEDED = 3
OWNER_MEMBERS = 64


def queue(name: str, gpus: int | None = None, **spec: object) -> JsonObject:
    """Return a Queue, with quota for GPUs on all nodes if a number of them is given."""
    if gpus is not None:
        spec["flavors"] = [{"name": "all", "resources": [{"name": GPU, "nominalQuota": gpus}]}]
    return {"apiVersion": "muster.dev/v1alpha1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def gang(cluster: Sandbox, name: str, members: int, to: str) -> Gang:
    """Create a gang of pods with one GPU each in a queue."""
    return cluster.gang(name, members=members, gpus=1, labels={"muster.dev/queue": to})


@pytest.fixture
def shared(cluster: Sandbox, muster: Server) -> list[Gang]:
    """Return the gangs of a queue that runs on all GPUs there are, most of which belong to another queue."""
    muster.check()
    cluster.nodes(11, gpus=8)
    for manifest in (queue("all"), queue("owner", 64, parent="all"), queue("borrower", 24, parent="all")):
        cluster.create(manifest)
    gangs = [gang(cluster, f"borrower-{index}", MEMBERS, "borrower") for index in range(BORROWERS)]
    for each in gangs:
        each.wait_bound(MEMBERS, timeout=60)
    return gangs


def test_a_gang_reclaims_what_borrowers_have(
    request: pytest.FixtureRequest, cluster: Sandbox, shared: list[Gang], stock_scheduler: Server
) -> None:
    """Exactly the gangs leave that have to, each whole; nobody takes their place; they wait again and say why.

    Foreign pods that nobody keeps from it race for the place each time: as many as there is room for besides.
    """
    stock_scheduler.check()
    for repetition in range(request.config.getoption("--reclaims")):
        foreign = [
            cluster.pod(f"racer-{repetition}-{index}", gpus=1, scheduler="default-scheduler") for index in range(2)
        ]
        owner = gang(cluster, "owner", OWNER_MEMBERS, "owner")
        owner.wait_bound(OWNER_MEMBERS, timeout=60)
        evicted = [each for each in shared if not each.bound]
        assert len(evicted) == NEEDED
        assert not any(each.partial for each in shared), "a gang was evicted in part"
        for each in evicted:
            for member in each.members:
                member.create()
        for each in evicted:
            each.wait_condition("False", "QuotaExceeded")
            preempted = each.condition("Preempted")
            assert preempted is not None
            assert preempted["status"] == "True"
            assert "for default/owner: queue owner reclaims its quota from queue borrower" in preempted["message"]
        assert owner.whole
        for pod in foreign:
            pod.delete()
        owner.delete()
        for each in evicted:
            each.wait_bound(MEMBERS, timeout=60)
