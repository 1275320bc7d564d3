"""Claims that cannot be counted are tried on nodes, and what is in use there taken off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.admission.events import ClaimSeen, ClaimTemplateSeen, DeviceClassSeen, PodSeen, SliceSeen
from extender.objects.dradevices import NodeScope, PoolKey
from extender.objects.meta import key_places
from extender.objects.reason import Reason
from extender.objects.resourceclaim import ClaimRequest, ClaimSpec, DeviceConstraint, DeviceRequest
from extender.objects.resourceslice import AttributeSet, PoolDevice, ResourceSlice
from tests.devicevalues import CLASS, DRIVER, claim_of, class_of, product_is, spec_of, template_of, uses
from tests.worlds import World

ROOT = f"{DRIVER}/root"
NAMES = key_places((ROOT, f"{DRIVER}/productName"))
PAIR = ClaimSpec(
    (ClaimRequest("gpus", (DeviceRequest("gpus", CLASS, count=2),)),), (DeviceConstraint(ROOT, frozenset()),)
)
EITHER = ClaimSpec(
    (
        ClaimRequest(
            "gpus",
            (
                DeviceRequest("gpus/one", CLASS, (product_is("H100"),)),
                DeviceRequest("gpus/two", CLASS, (product_is("A100"),), 2),
            ),
        ),
    )
)
ALL = spec_of(None)


def board(node: str, roots: str, product: str = "H100") -> ResourceSlice:
    """Return a node's slice with a GPU on each of these PCIe roots."""
    devices = tuple(
        PoolDevice(f"gpu-{index}", AttributeSet(NAMES, (root, product))) for index, root in enumerate(roots)
    )
    return ResourceSlice(f"s-{node}", "u", PoolKey(DRIVER, node), 1, 1, NodeScope(name=node), devices=devices)


@pytest.fixture
def world() -> World:
    """Return an engine with a node of four GPUs on two roots."""
    world = World()
    world.tell(DeviceClassSeen(class_of()))
    for name, spec in (("pair", PAIR), ("either", EITHER), ("all", ALL), ("one", spec_of(1))):
        world.tell(ClaimTemplateSeen(template_of(name, spec)))
    world.nodes(1, gpus=0)
    world.tell(SliceSeen(board("node-0", "aabb")))
    return world


def test_devices_that_must_match_are_planned_together(world: World) -> None:
    """Two pairs fit on two roots, not a third; on the empty node, too, two fit at most."""
    job = world.gang("job", 2, gpus=0, claims=uses(template="pair"))
    assert len(job.reserved) == 2
    late = world.gang("late", 1, gpus=0, claims=uses(template="pair"))
    assert late.reason is Reason.INSUFFICIENT_CAPACITY
    more = world.gang("more", 3, gpus=0, claims=uses(template="pair"))
    assert more.reason is Reason.EXCEEDS_CLUSTER
    assert more.wait is not None
    assert more.wait.numbers["fits"] == 2
    job.run()
    job.finish()
    world.judge()
    assert late.reserved
    world.check_promises()


def test_what_others_are_promised_or_have_is_in_use(world: World) -> None:
    """A single GPU of another pod leaves one pair, whether it is promised or allocated; then none of three is left."""
    one = world.gang("one", 1, gpus=0, claims=uses(template="one"))
    assert one.reserved
    pairs = world.gang("pairs", 2, gpus=0, claims=uses(template="pair"))
    assert pairs.reason is Reason.INSUFFICIENT_CAPACITY
    assert pairs.wait is not None
    assert pairs.wait.numbers["fits"] == 1
    pod = one.pods[0]
    world.tell(ClaimSeen(claim_of("c", spec_of(1), owner=pod.uid, node="node-0", devices=[2])))
    one.see(0, claims=replace(pod.claims, claims=(replace(pod.claims.claims[0], claim="c"),)))
    world.judge()
    assert pairs.wait.numbers["fits"] == 1
    world.tell(ClaimSeen(claim_of("lone", spec_of(1), node="node-0", devices=[0])))
    world.judge()
    assert pairs.wait is not None
    assert pairs.wait.numbers["fits"] == 0


def test_alternatives_and_all_devices_are_tried(world: World) -> None:
    """One H100 or two A100; all devices of a node, of which no other pod may have any."""
    world.nodes(1, gpus=0, prefix="old")
    world.tell(SliceSeen(board("old-0", "aabb", "A100")))
    either = world.gang("either", 6, gpus=0, claims=uses(template="either"))
    assert sorted(either.reserved.values()) == ["node-0"] * 4 + ["old-0"] * 2
    whole = world.gang("whole", 1, gpus=0, claims=uses(template="all"))
    assert whole.reason is Reason.INSUFFICIENT_CAPACITY
    either.run()
    either.finish()
    world.judge()
    assert whole.reserved


def test_a_slice_that_changes_is_tried_again(world: World) -> None:
    """A board that loses a GPU has room for one pair; what runs there stays."""
    job = world.gang("job", 2, gpus=0, claims=uses(template="pair"), min_member=2)
    job.run()
    world.tell(SliceSeen(replace(board("node-0", "aab"))))
    world.tell(PodSeen(world.pod("other", claims=uses(template="pair"))))
    world.judge()
    pod = next(each for each in world.state.pods() if each.name == "other")
    assert pod.nominated_node == ""
