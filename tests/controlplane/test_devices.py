"""Devices of Dynamic Resource Allocation on a real API server, with the real kube-scheduler and claim controller."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from localcluster.client import QUEUES
from localcluster.cluster import LocalCluster
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
from localcluster.metrics import read_metric
from localcluster.nodes import GPU
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from tests.controlplane.conftest import muster_starter
from tests.controlplane.holding import Holding, allocations, hands_changed

STATES = ("allocatable", "used", "reserved", "free")

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


def test_quota_by_a_name_for_classes(
    device_local_cluster: LocalCluster, device_cluster: Sandbox, device_muster_scheduler: Server, tmp_path: Path
) -> None:
    """A Queue bounds claims by the name that the settings give their class; its status, metrics and reasons use it.

    The GPUs of slices are counted, and what no device matches is told in the same words by status, Event and command.
    """
    device_muster_scheduler.check()
    mappings = [{"name": "whole-gpus", "deviceClassNames": ["gpu.nvidia.com", "later.example.com"]}]
    settings = tmp_path / "settings.yaml"
    settings.write_text(yaml.safe_dump({"device_class_mappings": mappings}))
    device_cluster.create(device_class())
    device_cluster.create(claim_template("three", claim_spec(3)))
    memory = "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('141Gi')) >= 0"
    device_cluster.create(claim_template("large", claim_spec(1, selectors=[memory])))
    with_gpus(device_cluster, 2)
    flavors = [{"name": "all", "resources": [{"name": "whole-gpus", "nominalQuota": 6}]}]
    about = {"apiVersion": "muster.dev/v1alpha1", "kind": "Queue", "metadata": {"name": "research"}}
    device_cluster.create({**about, "spec": {"flavors": flavors}})
    page = f"http://127.0.0.1:{device_local_cluster.muster_port}"
    labels = {"muster.dev/queue": "research"}
    with muster_starter(device_local_cluster) as start:
        muster = start("--config", str(settings))
        first = device_cluster.gang("first", members=2, labels=labels, spec=claiming(template="three"))
        first.wait_running()
        second = device_cluster.gang("second", members=1, labels=labels, spec=claiming(template="three"))
        told = second.wait_condition("False", "QuotaExceeded")["message"]
        assert told == "asks for 3 whole-gpus of all, of which Queue research has 0 left now"
        large = device_cluster.gang("large", members=1, spec=claiming(template="large"))
        told = large.wait_condition("False", "ExceedsCluster")["message"]
        why = "no device of class gpu.nvidia.com matches memory >= 141Gi: 2 nodes"
        assert told == f"0 of 1 members would fit on the empty cluster; {why}"
        large.wait_message(f"ExceedsCluster: {told}")
        explained = httpx.get(f"{page}/api/v1/gangs/default/large/explain", trust_env=False).json()
        assert explained["reason"]["message"] == told
        assert [step["detail"] for fall in explained["waterfall"] for step in fall["steps"]] == [why]
        used = 'muster_queue_used{flavor="all",queue="research",resource="whole-gpus"}'
        assert read_metric(f"{page}/metrics", used) == 6
        counts = {state: read_metric(f"{page}/metrics", f'muster_gpus{{state="{state}"}}') for state in STATES}
        assert counts == {"allocatable": 16, "used": 6, "reserved": 0, "free": 10}
        nodes = httpx.get(f"{page}/api/v1/nodes", trust_env=False).json()["nodes"]
        assert sorted(node["gpus"]["free"] for node in nodes) in ([2, 8], [5, 5])
        (use,) = device_cluster.api.get(QUEUES, "research")["status"]["flavors"][0]["resources"]
        assert (use["name"], use["used"], use["nominal"]) == ("whole-gpus", "6", "6")
        first.complete()
        second.wait_running(timeout=30)
        muster.check()
