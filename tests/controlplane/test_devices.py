"""Devices of Dynamic Resource Allocation on a real API server, with the real kube-scheduler and claim controller."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localcluster.devices import (
    RESOURCE_CLAIMS,
    claim,
    claim_spec,
    claim_template,
    claiming,
    device_class,
    gpus_of,
    resource_slice,
)
from localcluster.history import SCHEDULING, Recorder
from localcluster.nodes import GPU
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from tests.controlplane.holding import Holding, allocations, hands_changed

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(600)]


@pytest.fixture
def recorder(device_cluster: Sandbox) -> Iterator[Recorder]:
    """Record pods and claims from before the story begins."""
    with Recorder(device_cluster.api, (*SCHEDULING, RESOURCE_CLAIMS)) as recorder:
        yield recorder


def with_gpus(cluster: Sandbox, nodes: int, *, each: int = 8) -> list[str]:
    """Create nodes whose GPUs only ResourceSlices tell of."""
    names = cluster.nodes(nodes, gpus=0)
    for name in names:
        cluster.create(resource_slice(name, gpus_of(each)))
    return names


def recorded(recorder: Recorder) -> list[Holding]:
    """Return which devices claims held when, up to now."""
    recorder.catch_up()
    return allocations(recorder.changes())


def test_gpus_of_slices_count_as_the_extended_resource(device_cluster: Sandbox, device_muster: Server) -> None:
    """Pods that ask for nvidia.com/gpu start where a DeviceClass has that name and only slices tell of GPUs."""
    device_cluster.create(device_class(extended_resource=GPU))
    with_gpus(device_cluster, 2)
    single = device_cluster.pod("single", gpus=8)
    single.wait_phase("Running")
    single.complete()
    gang = device_cluster.gang("gang", members=4, gpus=4)
    gang.wait_running()
    assert sorted(gang.nodes) == ["node-0", "node-0", "node-1", "node-1"]
    device_muster.check()


def test_gangs_with_claims_do_not_hold_each_other_up(
    device_cluster: Sandbox, device_muster: Server, recorder: Recorder
) -> None:
    """Of two gangs that each fit alone one runs, and the other waits without a device, and runs after the first.

    kube-scheduler allocates before it binds: gangs that were let pass in part would hold devices of each other.
    """
    device_cluster.create(device_class())
    device_cluster.create(claim_template("six", claim_spec(6)))
    with_gpus(device_cluster, 4)
    gangs = [device_cluster.gang(name, members=4, create=0, spec=claiming(template="six")) for name in ("a", "b")]
    device_cluster.interleave(*gangs)
    device_cluster.wait_until(lambda: any(gang.whole for gang in gangs), "one gang started")
    first, second = sorted(gangs, key=lambda gang: not gang.whole)
    first.wait_running()
    second.wait_condition("False", "InsufficientCapacity")
    assert device_cluster.stays_true(lambda: not second.bound, 3)
    owned = {member.name for member in second.members}
    assert not [held for held in recorded(recorder) if held.owner in owned]
    first.complete()
    second.wait_running(timeout=30)
    assert not hands_changed(recorded(recorder))
    device_muster.check()


def test_a_shared_claim_is_charged_once(device_cluster: Sandbox, device_muster: Server) -> None:
    """Pods of one gang that share a claim go to the node where it is, and take its devices once."""
    device_cluster.create(device_class())
    with_gpus(device_cluster, 2)
    device_cluster.create(claim("shared", claim_spec(8)))
    gang = device_cluster.gang("gang", members=2, spec=claiming(shared="shared"))
    gang.wait_running(timeout=30)
    assert len(set(gang.nodes)) == 1
    device_muster.check()


def test_devices_of_a_gang_that_does_not_start_are_given_back(
    device_cluster: Sandbox, device_muster: Server, recorder: Recorder
) -> None:
    """A member has devices allocated while it waits for another that never comes; others have them afterwards.

    kube-scheduler takes the allocation back when it next tries the member, which Muster refuses by then.
    """
    device_cluster.create(device_class())
    device_cluster.create(claim_template("eight", claim_spec(8)))
    with_gpus(device_cluster, 2)
    claims = claiming(template="eight")
    lacking = {**claims, "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}]}
    roles = [device_cluster.role("well", 1, spec=claims), device_cluster.role("ill", 1, spec=lacking)]
    broken = device_cluster.gang("broken", roles=roles, timeout_seconds=5)
    device_cluster.wait_until(lambda: bool(broken.condition()), "the gang is told why it waits")
    other = device_cluster.gang("other", members=2, spec=claims)
    other.wait_running(timeout=60)
    assert not broken.bound
    held = recorded(recorder)
    assert all(each.seconds < 30 for each in held if each.owner.startswith("broken"))
    assert not hands_changed(held)
    device_muster.check()
