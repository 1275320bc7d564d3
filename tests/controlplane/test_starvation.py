"""Gangs that kube-scheduler never lets pass keep nobody else out, on the real control plane."""

from __future__ import annotations

import pytest

from localcluster.client import JsonObject
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from localcluster.story import Gang
from tests.controlplane.conftest import PROMPT_SECONDS
from tests.controlplane.volumes import claim, mount, storage_class

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("judged")]

NO_CLAIM: JsonObject = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}]}
NO_PEER: JsonObject = {
    "affinity": {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "nowhere"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    }
}


def hopeless(cluster: Sandbox, name: str, namespace: str, members: int, spec: JsonObject, *, whole: bool) -> Gang:
    """Create a gang of which kube-scheduler refuses all members, if `whole`, or one."""
    if whole:
        return cluster.gang(name, namespace=namespace, members=members, gpus=1, spec=spec)
    roles = [cluster.role("store", 1, gpus=1, spec=spec), cluster.role("worker", members - 1, gpus=1)]
    return cluster.gang(name, namespace=namespace, roles=roles)


@pytest.mark.parametrize("whole", [True, False], ids=["all-members", "one-member"])
@pytest.mark.parametrize("spec", [NO_CLAIM, NO_PEER], ids=["no-claim", "no-peer"])
def test_gangs_that_never_pass_do_not_take_turns(
    cluster: Sandbox, muster: Server, tenant: str, other: str, spec: JsonObject, *, whole: bool
) -> None:
    """Each asks for the whole cluster; a small gang of another tenant starts at once, and they say why they do not."""
    cluster.nodes(4, gpus=8)
    bad = [hopeless(cluster, f"bad-{number}", tenant, 32, spec, whole=whole) for number in range(2)]
    good = cluster.gang("good", namespace=other, members=2, gpus=1)
    good.wait_bound(2, timeout=PROMPT_SECONDS)
    for gang in bad:
        gang.wait_condition("False", "RefusedByScheduler")
        assert not gang.bound
    bad[0].wait_message("not found" if spec is NO_CLAIM else "didn't match pod affinity rules")
    muster.check()


def test_many_gangs_that_never_pass_do_not_take_turns_either(
    cluster: Sandbox, muster: Server, tenant: str, other: str
) -> None:
    """However many one tenant has, those of another start at once, one after the other."""
    cluster.nodes(4, gpus=8)
    for number in range(8):
        hopeless(cluster, f"bad-{number}", tenant, 32, NO_CLAIM, whole=number % 2 == 0)
    for number in range(3):
        good = cluster.gang(f"good-{number}", namespace=other, members=2, gpus=4)
        good.wait_bound(2, timeout=PROMPT_SECONDS)
    muster.check()


def test_a_gang_that_fits_one_node_alone_is_found_out_too(
    cluster: Sandbox, muster: Server, tenant: str, other: str
) -> None:
    """Three of four nodes are full, so that its refusal reads as if room might help."""
    cluster.nodes(4, gpus=8)
    cluster.gang("full", members=3, gpus=8).wait_running(3)
    bad = [cluster.gang(f"bad-{number}", namespace=tenant, members=1, gpus=8, spec=NO_PEER) for number in range(2)]
    bad[0].wait_message("didn't match pod affinity rules")
    good = cluster.gang("good", namespace=other, members=2, gpus=4)
    good.wait_bound(2, timeout=PROMPT_SECONDS)
    assert not any(gang.bound for gang in bad)
    muster.check()


def test_a_gang_starts_as_soon_as_what_it_waited_for_is_there(cluster: Sandbox, muster: Server, tenant: str) -> None:
    """The pod with which its members have to share a node comes, and kube-scheduler asks about them."""
    cluster.nodes(1, gpus=8)
    gang = hopeless(cluster, "gang", tenant, 4, NO_PEER, whole=True)
    gang.wait_condition("False", "RefusedByScheduler")
    cluster.pod("peer", namespace=tenant, gpus=1, labels={"app": "nowhere"}).wait_bound()
    gang.wait_bound(4)
    muster.check()


def never_provisioned(cluster: Sandbox, name: str, namespace: str) -> JsonObject:
    """Create a claim that nothing ever provisions; return the part of a pod's spec that mounts it."""
    cluster.create({**claim(name), "metadata": {"name": name, "namespace": namespace}})
    return mount(name)


def test_room_that_kube_scheduler_keeps_for_a_volume_is_not_held_in_vain(
    cluster: Sandbox, muster: Server, tenant: str, other: str
) -> None:
    """It binds two pods' volumes for minutes, and refuses the gang that Muster places there after their time."""
    cluster.create({**storage_class(), "provisioner": "example.com/never"})
    cluster.nodes(4, gpus=8)
    for number in range(2):
        volume = never_provisioned(cluster, f"never-{number}", tenant)
        stuck = cluster.gang(f"stuck-{number}", namespace=tenant, members=1, gpus=8, timeout_seconds=3, spec=volume)
        stuck.wait_condition("False", "AwaitingMembers")
    large = cluster.gang("large", members=4, gpus=8)
    large.wait_condition("False", "RefusedByScheduler", timeout=2 * PROMPT_SECONDS)
    large.wait_message("Insufficient")
    good = cluster.gang("good", namespace=other, members=2, gpus=8)
    good.wait_bound(2, timeout=PROMPT_SECONDS)
    assert not large.bound
    muster.check()
