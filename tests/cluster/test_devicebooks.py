"""Who holds devices: what pods ask for because of their claims, and what is allocated, on the nodes of an engine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.admission.events import (
    ClaimGone,
    ClaimSeen,
    ClaimTemplateSeen,
    Decide,
    DeviceClassGone,
    DeviceClassSeen,
    Outcome,
    PodGone,
    PodSeen,
    Rebuild,
    SliceGone,
    SliceSeen,
)
from extender.cluster.devicecolumns import DEVICES_PER_STEP, DeviceDemand
from extender.objects.pod import Phase
from extender.objects.reason import Reason
from extender.objects.resourceclaim import ClaimConsumer
from tests.devicevalues import CLASS, claim_of, class_of, product_is, slice_of, spec_of, template_of, uses
from tests.worlds import GPU, Job, World

COLUMN = DeviceDemand(CLASS).column
SIX = uses(template="six")


def with_devices(world: World, nodes: int, *, resource: str = "") -> list[str]:
    """Add nodes whose eight GPUs only slices tell of, the class of GPUs, and a template of claims of six."""
    world.tell(DeviceClassSeen(class_of(resource=resource)))
    names = world.nodes(nodes, gpus=0)
    for name in names:
        world.tell(SliceSeen(slice_of(name)))
    world.tell(ClaimTemplateSeen(template_of("six", spec_of(6))))
    return names


@pytest.fixture
def world() -> World:
    """Return an engine with two nodes of eight devices."""
    world = World()
    with_devices(world, 2)
    return world


def free(world: World, node: str, column: str = COLUMN) -> int:
    """Return how many devices of a column are left on a node."""
    return world.state.free_on(node).get(column, 0)


def made_for(job: Job, index: int, node: str = "", *, first: int = 0) -> None:
    """Let the claim of a member be made, and allocated on a node if one is given."""
    pod = job.pods[index]
    devices = range(first, first + 6)
    job.world.tell(ClaimSeen(claim_of(f"{pod.name}-six", spec_of(6), owner=pod.uid, node=node, devices=devices)))
    job.see(index, claims=replace(SIX, claims=(replace(SIX.claims[0], claim=f"{pod.name}-six"),)))


def test_a_promise_of_a_node_is_one_of_devices(world: World) -> None:
    """A gang is placed by its claims before they exist; another one waits for devices, with numbers."""
    first = world.gang("first", 2, gpus=0, claims=SIX)
    assert sorted(first.reserved.values()) == ["node-0", "node-1"]
    assert [free(world, name) for name in ("node-0", "node-1")] == [2, 2]
    second = world.gang("second", 2, gpus=0, claims=SIX)
    assert second.reason is Reason.INSUFFICIENT_CAPACITY
    assert second.wait is not None
    assert second.wait.numbers["fits"] == 0
    world.check_promises()


def test_an_allocation_is_counted_with_its_pod(world: World) -> None:
    """What kube-scheduler allocates for a member that is on its way changes nothing: it was promised."""
    job = world.gang("job", 2, gpus=0, claims=SIX)
    before = job.reserved
    for index in range(2):
        made_for(job, index, before[job.pods[index].name])
    assert job.reserved == before
    assert [free(world, name) for name in ("node-0", "node-1")] == [2, 2]
    job.run()
    assert [free(world, name) for name in ("node-0", "node-1")] == [2, 2]
    world.check_promises()


def test_a_claim_that_outlives_its_pod_holds_its_devices(world: World) -> None:
    """Devices of a pod that is gone, or has ended, are free when its claim has none any more."""
    job = world.gang("job", 2, gpus=0, claims=SIX)
    nodes = job.reserved
    for index in range(2):
        made_for(job, index, nodes[job.pods[index].name])
    job.run()
    world.tell(PodGone(job.pods[0].uid))
    job.see(1, phase=Phase.SUCCEEDED)
    assert [free(world, name) for name in ("node-0", "node-1")] == [2, 2]
    made_for(job, 1)
    world.tell(ClaimGone("default", "job-0-six"))
    assert [free(world, name) for name in ("node-0", "node-1")] == [8, 8]


def test_devices_of_a_reservation_that_expires_stay_counted_while_allocated(world: World) -> None:
    """A member that expires after its claim was allocated is planned where its devices are, and not charged twice."""
    job = world.gang("job", 2, gpus=0, claims=SIX)
    where = job.reserved["job-0"]
    made_for(job, 0, where)
    world.later(61)
    assert job.reserved == {}
    assert (free(world, where), free(world, "node-1" if where == "node-0" else "node-0")) == (2, 8)
    world.later(60)
    assert job.reserved["job-0"] == where
    assert free(world, where) == 2
    world.check_promises()


def test_who_keeps_devices_does_not_wait_behind_who_needs_them(world: World) -> None:
    """A member without a node may keep its devices: a gang of higher priority that waits for them lets its own pass."""
    low = world.gang("low", 2, gpus=0, claims=SIX)
    where = low.reserved["low-0"]
    made_for(low, 0, where)
    world.later(61)
    world.tell(ClaimTemplateSeen(template_of("all", spec_of(8))))
    high = world.gang("high", 2, gpus=0, claims=uses(template="all"), priority=10)
    assert (high.reserved, low.reserved) == ({}, {})
    world.later(60)
    assert low.reserved["low-0"] == where
    assert high.reason is Reason.INSUFFICIENT_CAPACITY
    world.check_promises()


def test_who_shares_devices_with_a_pod_that_runs_keeps_none(world: World) -> None:
    """A claim that another gang's pod uses is in use: to name it gives no precedence."""
    world.tell(ClaimSeen(claim_of("shared", spec_of(8), node="node-0", devices=range(8))))
    user = world.gang("user", 1, gpus=0, claims=uses(claim="shared"), cpu=20_000)
    user.run()
    users = (ClaimConsumer("", "pods", "user-0", user.pods[0].uid),)
    world.tell(ClaimSeen(replace(claim_of("shared", spec_of(8), node="node-0", devices=range(8)), reserved_for=users)))
    low = world.gang("low", 4, gpus=0, claims=uses(claim="shared"), cpu=100_000)
    assert not low.gang.census().keeping
    world.tell(ClaimSeen(claim_of("shared", spec_of(8), node="node-0", devices=range(8))))
    assert low.gang.census().keeping == 4


def test_claims_of_others_count(world: World) -> None:
    """Whatever holds devices, a pod of another scheduler or nobody that is known, they are not free."""
    world.tell(PodSeen(replace(world.pod("other", claims=SIX), scheduler_name="default-scheduler", node_name="node-0")))
    assert free(world, "node-0") == 2
    world.tell(ClaimSeen(claim_of("lone", spec_of(6), node="node-1", devices=range(6))))
    assert free(world, "node-1") == 2
    job = world.gang("job", 1, gpus=0, claims=SIX)
    assert job.reason is Reason.INSUFFICIENT_CAPACITY


def test_a_device_of_a_product_that_nobody_asked_for_is_taken(world: World) -> None:
    """Who asks for any device and is given one of a product takes it from those who ask for that product."""
    world.tell(SliceSeen(slice_of("node-0", ["H100", "A100"])))
    world.tell(ClaimTemplateSeen(template_of("h100", spec_of(1, product_is("H100")))))
    job = world.gang("h100", 1, gpus=0, claims=uses(template="h100"))
    column = DeviceDemand(CLASS, (product_is("H100"),)).column
    assert job.reserved
    where = job.reserved["h100-0"]
    taken = free(world, where, column)
    world.tell(PodSeen(other := replace(world.pod("any", claims=uses(template="one")), node_name=where)))
    world.tell(ClaimSeen(claim_of("any-one", spec_of(1), owner=other.uid, node=where, devices=[0])))
    assert free(world, where, column) == taken - 1


def test_a_shared_claim_is_charged_once_and_pins(world: World) -> None:
    """Pods of one gang that share a claim are planned together, and its devices are taken once."""
    world.tell(ClaimSeen(claim_of("shared", spec_of(8))))
    job = world.gang("job", 3, gpus=0, claims=uses(claim="shared"), cpu=20_000)
    (where,) = set(job.reserved.values())
    assert free(world, where) == 0
    planned = {uid: slot.promised_at for uid, slot in job.slots.items()}
    world.later(1)
    world.tell(ClaimSeen(claim_of("shared", spec_of(8), node=where, devices=range(8))))
    assert {uid: slot.promised_at for uid, slot in job.slots.items()} == planned  # kept, not planned again
    assert free(world, where) == 0
    job.run()
    assert free(world, where) == 0
    other = world.gang("other", 1, gpus=0, claims=uses(claim="shared"))
    assert set(other.reserved.values()) == {where}
    world.check_promises()


def test_what_does_not_exist_is_named(world: World) -> None:
    """A claim, template or class that is not there is why a gang waits; it goes on when it comes."""
    job = world.gang("job", 1, gpus=0, claims=uses(template="four"))
    assert job.reason is Reason.INVALID_MEMBER
    assert job.wait is not None
    assert "ResourceClaimTemplate default/four does not exist" in job.wait.message
    world.tell(ClaimTemplateSeen(template_of("four", spec_of(4, of="other"))))
    world.judge()
    assert job.wait is not None
    assert "DeviceClass other does not exist" in job.wait.message
    world.tell(DeviceClassSeen(class_of("other")))
    world.judge()
    assert job.reserved
    named = world.gang("named", 1, gpus=0, claims=uses(claim="mine"))
    assert named.wait is not None
    assert "ResourceClaim default/mine does not exist" in named.wait.message


def test_an_extended_resource_is_had_from_devices_and_from_plugins() -> None:
    """Pods that ask for nvidia.com/gpu go to nodes of either kind, claims only to those with devices."""
    world = World()
    world.nodes(1, prefix="plugin")
    with_devices(world, 1, resource=GPU)
    job = world.gang("job", 2, gpus=8)
    assert sorted(job.reserved.values()) == ["node-0", "plugin-0"]
    claiming = world.gang("claiming", 1, gpus=0, claims=SIX)
    assert claiming.reason is Reason.INSUFFICIENT_CAPACITY
    job.run()
    world.check_promises()
    job.finish()
    world.judge()
    assert claiming.reserved == {"claiming-0": "node-0"}
    world.check_promises()


def test_devices_that_come_and_go_are_seen() -> None:
    """A slice that comes makes room; without class or slice no node has any devices."""
    world = World()
    names = with_devices(world, 1)
    job = world.gang("job", 2, gpus=0, claims=SIX)
    assert job.reason is Reason.EXCEEDS_CLUSTER
    world.nodes(1, gpus=0, prefix="new")
    world.tell(SliceSeen(slice_of("new-0")))
    world.judge()
    assert job.reserved
    world.tell(SliceGone(f"slice-{names[0]}"))
    world.judge()
    assert job.reason is Reason.EXCEEDS_CLUSTER
    world.tell(DeviceClassGone(CLASS))
    world.judge()
    assert str(job.reason) == Reason.INVALID_MEMBER


def test_what_was_promised_is_read_back_after_a_crash(world: World) -> None:
    """A new process finds the same devices promised and allocated from what the API server has."""
    job = world.gang("job", 2, gpus=0, claims=SIX)
    nodes = job.reserved
    made_for(job, 0, nodes["job-0"])
    successor = world.restart()
    with_devices(successor, 2)
    successor.group(job.ref, 2)
    pod = job.pods[0]
    successor.tell(ClaimSeen(claim_of("job-0-six", spec_of(6), owner=pod.uid, node=nodes["job-0"], devices=range(6))))
    for pod in job.pods:
        successor.tell(PodSeen(replace(pod, nominated_node=nodes[pod.name])))
    successor.tell(Rebuild())
    assert [free(successor, name) for name in ("node-0", "node-1")] == [2, 2]
    successor.check_promises()
    answer = successor.filter(job.pods[0])
    assert answer.outcome is Outcome.PINNED
    assert answer.accepted == [nodes["job-0"]]


def crowded(world: World) -> None:
    """Add so many nodes that their devices are looked at in steps, and a template for devices of one product."""
    world.tell(ClaimTemplateSeen(template_of("product", spec_of(6, product_is("H100")))))
    for name in world.nodes(6 * DEVICES_PER_STEP // 8, gpus=0, prefix="more"):
        world.tell(SliceSeen(slice_of(name)))


def test_a_gang_that_asks_in_new_words_is_placed_when_all_devices_have_been_looked_at(world: World) -> None:
    """Until then it waits and says for what."""
    crowded(world)
    pods = [world.pod(f"new-{index}", claims=uses(template="product")) for index in range(2)]
    for pod in pods:
        world.tell(PodSeen(pod))
    world.tell(Decide())
    messages = [wait.message for wait in world.state.waits().values()]
    assert len(messages) == 2
    assert all("are still being compared with its selectors" in each for each in messages)
    world.judge()
    world.judge()
    assert world.filter(pods[0]).outcome is Outcome.PINNED
    world.check_promises()


def test_what_was_promised_in_new_words_is_read_back_on_a_large_cluster(world: World) -> None:
    """A new process knows what pods ask for before it reads back what they were promised."""
    crowded(world)
    job = world.gang("job", 2, gpus=0, claims=uses(template="product"))
    world.judge()
    nodes = job.reserved
    successor = world.restart()
    with_devices(successor, 2)
    crowded(successor)
    successor.group(job.ref, 2)
    for pod in job.pods:
        successor.tell(PodSeen(replace(pod, nominated_node=nodes[pod.name])))
    successor.tell(Rebuild())
    column = DeviceDemand(CLASS, (product_is("H100"),)).column
    assert [free(successor, name, column) for name in nodes.values()] == [2, 2]
    successor.check_promises()
