"""Gangs that kube-scheduler refuses on planned nodes for reasons of its own, on the real control plane."""

from __future__ import annotations

import pytest

from localcluster.client import JsonObject
from localcluster.nodes import HOSTNAME_LABEL
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from localcluster.waiting import wait_until
from tests.controlplane.volumes import VOLUMES, bind_claim, claim, mount, storage_class, volume

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("judged")]

#: The labels of the members, for terms about each other.
LABELS = {"app": "gang"}
SELECTOR = {"matchLabels": LABELS}


def anti_affinity() -> JsonObject:
    """Return what keeps members off each other's nodes."""
    term = {"labelSelector": SELECTOR, "topologyKey": HOSTNAME_LABEL}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def even_spread() -> JsonObject:
    """Return what lets the numbers of members on any two nodes differ by one at most."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": HOSTNAME_LABEL,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": SELECTOR,
    }
    return {"topologySpreadConstraints": [constraint]}


def test_members_that_avoid_each_other_are_spread(cluster: Sandbox, muster: Server) -> None:
    """Required anti-affinity by host: every member gets a node of its own, although all fit on one."""
    cluster.nodes(4, gpus=8)
    gang = cluster.gang("gang", members=4, gpus=1, labels=LABELS, spec=anti_affinity())
    gang.wait_bound(4)
    assert len(set(gang.nodes)) == 4
    muster.check()


@pytest.mark.parametrize(
    ("members", "nodes"),
    [pytest.param(3, 3, marks=pytest.mark.nightly), pytest.param(4, 2, marks=pytest.mark.nightly), (7, 3)],
)
def test_members_that_must_spread_evenly_do(cluster: Sandbox, muster: Server, members: int, nodes: int) -> None:
    """Topology spread with a skew of one: as many on each node as on any other, give or take one."""
    names = cluster.nodes(nodes, gpus=8)
    gang = cluster.gang("gang", members=members, gpus=1, labels=LABELS, spec=even_spread())
    gang.wait_bound(members)
    numbers = [gang.nodes.count(name) for name in names]
    assert max(numbers) - min(numbers) <= 1
    muster.check()


def test_members_that_share_a_host_port_are_spread(cluster: Sandbox, muster: Server) -> None:
    """One host port for all: each member gets a node of its own, and none that where another pod has the port."""
    cluster.nodes(4, gpus=8)
    cluster.pod("foreign", gpus=1, host_port=8080, node_name="node-1").wait_phase("Running")
    gang = cluster.gang("gang", members=3, gpus=1, host_port=8080)
    gang.wait_bound(3)
    assert sorted(gang.nodes) == ["node-0", "node-2", "node-3"]
    muster.check()


class TestVolumes:
    """One member needs a volume."""

    def test_member_with_a_claim_that_does_not_exist_holds_nothing(self, cluster: Sandbox, muster: Server) -> None:
        """The gang's reservation expires with kube-scheduler's own words, its nodes go to others, and it starts later.

        kube-scheduler refuses the member before it looks at nodes, so that Muster is not even asked.
        """
        cluster.nodes(2, gpus=8)
        roles = [
            cluster.role("store", 1, gpus=8, spec=mount("data")),
            cluster.role("worker", 1, gpus=8),
        ]
        gang = cluster.gang("gang", roles=roles, timeout_seconds=1)
        gang.wait_condition("False", "RefusedByScheduler")
        gang.wait_message('persistentvolumeclaim "data" not found')
        assert not gang.bound
        other = cluster.gang("other", members=2, gpus=8)
        other.wait_bound(2)
        other.wait_running(2)
        other.complete()
        cluster.create(claim("data", volume="volume-0"))
        cluster.create(volume("volume-0", "node-0", claimed_by="data"))
        bind_claim(cluster, "data", "volume-0")
        gang.wait_bound(2, timeout=60)
        assert gang.nodes[0] == "node-0"
        muster.check()

    def test_member_follows_its_local_volume(self, cluster: Sandbox, muster: Server) -> None:
        """A claim that waits for its first consumer, and one local volume: its node is found, the gang starts whole.

        The test does the part of kube-controller-manager, which does not run here: it says that the volume is there,
        and completes the binding of the claim to the volume that kube-scheduler has chosen.
        """
        cluster.nodes(4, gpus=8)
        cluster.create(storage_class())
        cluster.create(volume("volume-0", "node-3"))
        cluster.api.patch(VOLUMES, "volume-0", {"status": {"phase": "Available"}}, subresource="status")
        cluster.create(claim("data"))
        roles = [cluster.role("store", 1, gpus=1, spec=mount("data")), cluster.role("worker", 2, gpus=1)]
        gang = cluster.gang("gang", roles=roles)
        wait_until(
            lambda: "claimRef" in cluster.api.get(VOLUMES, "volume-0")["spec"],
            timeout_seconds=15,
            description="kube-scheduler has chosen the volume",
        )
        assert not gang.bound
        bind_claim(cluster, "data", "volume-0")
        gang.wait_bound(3)
        assert gang.nodes[0] == "node-3"
        muster.check()

    @pytest.mark.parametrize("order", [(2, 3, 1, 0), (7, 4, 5, 6)], ids=["nodes of the plan", "other nodes"])
    def test_members_go_to_the_nodes_of_their_volumes(
        self, cluster: Sandbox, muster: Server, order: tuple[int, ...]
    ) -> None:
        """Members that are alike, and have volumes of their own on nodes that they fill: each goes to its volume's."""
        names = cluster.nodes(max(order) + 1, gpus=8)
        cluster.create(storage_class())
        chosen = [names[number] for number in order]
        for number, name in enumerate(chosen):
            cluster.create(claim(f"data-{number}", volume=f"volume-{number}"))
            cluster.create(volume(f"volume-{number}", name, claimed_by=f"data-{number}"))
            bind_claim(cluster, f"data-{number}", f"volume-{number}")
        roles = [cluster.role(f"rank-{number}", 1, gpus=8, spec=mount(f"data-{number}")) for number in range(4)]
        gang = cluster.gang("gang", roles=roles)
        gang.wait_bound(4, timeout=60)
        assert gang.nodes == chosen
        muster.check()
