"""Quota for devices: by whichever name a Queue states it, claims are charged what they ask for, once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.admission.events import (
    ClaimSeen,
    ClaimTemplateSeen,
    DeviceClassGone,
    DeviceClassSeen,
    QueueSeen,
    SliceSeen,
)
from extender.explain.views import queue_reports
from extender.objects import keys
from extender.objects.pod import Phase
from extender.objects.podspec import Toleration
from extender.objects.queue import Flavor, PreemptionPolicy, Queue, Quota, Reclaim, WithinQueue
from extender.objects.reason import Reason
from extender.objects.resourceclaim import ClaimRequest, ClaimSpec, DeviceConstraint, DeviceRequest
from tests.devicevalues import CLASS, DRIVER, claim_of, class_of, product_is, slice_of, spec_of, template_of, uses
from tests.worlds import GPU, Job, World

NAME = "whole-gpus"
OWN = f"deviceclass.resource.kubernetes.io/{CLASS}"
MAPPINGS = [{"name": NAME, "deviceClassNames": [CLASS, "big"]}]
NEVER = PreemptionPolicy(within_queue=WithinQueue.NEVER, reclaim_within_cohort=Reclaim.NEVER)
THREE = spec_of(3)
TOLERANT = DeviceRequest("gpus", CLASS, (), 3, tolerations=(Toleration("", "", "", "Exists"),))
CLAIMS = {
    "plain": THREE,
    "of one product": spec_of(3, product_is("H100")),
    "two requests": ClaimSpec((*spec_of(1).requests, replace(spec_of(2, of="big").requests[0], name="others"))),
    "tolerant": ClaimSpec((ClaimRequest("gpus", (TOLERANT,)),)),
    "alternatives": ClaimSpec(
        (ClaimRequest("gpus", (DeviceRequest("a", CLASS, (), 2), DeviceRequest("b", "big", (), 3))),)
    ),
    "constrained": replace(THREE, constraints=(DeviceConstraint(attribute=f"{DRIVER}/productName"),)),
}


def world_of(quota: int, name: str, *, resource: str = GPU) -> World:
    """Return an engine with two nodes of eight devices, and a Queue with quota for them by a name."""
    world = World(device_class_mappings=MAPPINGS)
    world.tell(DeviceClassSeen(class_of(resource=resource)))
    world.tell(DeviceClassSeen(class_of("big", product_is("H100"))))
    for node in world.nodes(2, gpus=0):
        world.tell(SliceSeen(slice_of(node, whole=True)))
    world.tell(QueueSeen(Queue("research", uid="q", flavors=(Flavor("all", {name: Quota(quota)}),), preemption=NEVER)))
    world.judge()
    return world


def gang(world: World, name: str, members: int = 1, **fields: Any) -> Job:
    """Create a gang in the Queue."""
    return world.gang(name, members, **({"gpus": 0} | fields), options=keys.Options(queue="research"))


def used(world: World, name: str = NAME) -> int:
    """Return what the Queue says that it has used."""
    (report,) = queue_reports(world.admission)
    (use,) = [each for each in report.row.flavors if each.resource == name]
    return int(use.used)


#: Of some claims not all is of the class of GPUs.
OF_TWO_CLASSES = {"two requests", "alternatives"}


@pytest.mark.parametrize(
    ("name", "words"),
    [(name, words) for name in (NAME, OWN, GPU) for words in CLAIMS if name == NAME or words not in OF_TWO_CLASSES],
)
def test_a_claim_is_charged_by_each_name_of_its_class(name: str, words: str) -> None:
    """Who asks for three devices takes three of a quota by a mapping, by the class, or by its extended resource."""
    world = world_of(6, name)
    world.tell(ClaimTemplateSeen(template_of("three", CLAIMS[words])))
    first, second = (gang(world, each, count, claims=uses(template="three")) for each, count in (("a", 2), ("b", 1)))
    assert (len(first.reserved), used(world, name)) == (2, 6)
    assert second.wait is not None
    assert second.wait.reason is Reason.QUOTA_EXCEEDED
    assert second.wait.message == f"asks for 3 {name} of all, of which Queue research has 0 left now"
    first.run()
    assert used(world, name) == 6
    first.finish()
    world.judge()
    assert (len(second.reserved), used(world, name)) == (1, 3)
    world.check_promises()


def test_extended_resources_are_charged_by_the_mapping_too() -> None:
    """Pods that ask for nvidia.com/gpu are charged for its class, also those that were there before the class."""
    world = world_of(8, NAME)
    gang(world, "a", gpus=5).run()
    assert used(world) == 5
    world.tell(DeviceClassGone(CLASS))
    assert used(world) == 0
    world.tell(DeviceClassSeen(class_of(resource=GPU)))
    assert used(world) == 5
    assert gang(world, "b", gpus=4).reason is Reason.QUOTA_EXCEEDED


def test_a_mapping_may_have_the_name_of_the_extended_resource() -> None:
    """Then nothing is charged twice."""
    world = World(device_class_mappings=[{"name": GPU, "deviceClassNames": [CLASS]}])
    for resource in ("", GPU):
        world.tell(DeviceClassSeen(class_of(resource=resource)))
        for node in world.nodes(2, gpus=0):
            world.tell(SliceSeen(slice_of(node, whole=True)))
        world.tell(ClaimTemplateSeen(template_of("three", THREE)))
        world.tell(QueueSeen(Queue("research", uid="q", flavors=(Flavor("all", {GPU: Quota(8)}),), preemption=NEVER)))
        job = gang(world, f"a{resource[:1]}", 2, claims=uses(template="three"))
        assert (len(job.reserved), used(world, GPU)) == (2, 6)
        job.run()
        job.finish()


def test_a_shared_claim_is_charged_once_before_and_after_it_is_allocated() -> None:
    """The first of the gang's pods has the charge; when it has ended the next has."""
    world = world_of(8, NAME)
    world.tell(ClaimSeen(claim_of("shared", spec_of(5))))
    job = gang(world, "a", 3, claims=uses(claim="shared"))
    (node,) = set(job.reserved.values())
    assert used(world) == 5
    world.tell(ClaimSeen(claim_of("shared", spec_of(5), node=node, devices=range(5))))
    world.judge()
    assert (len(job.reserved), used(world)) == (3, 5)
    job.run()
    assert used(world) == 5
    job.see(0, phase=Phase.SUCCEEDED)
    assert used(world) == 5
    job.finish()
    assert used(world) == 0


def test_a_member_whose_claim_is_allocated_already_is_charged_when_it_is_planned_again() -> None:
    """After a reservation has expired a claim keeps its devices: whoever is promised their node is charged for them."""
    world = world_of(6, NAME)
    world.tell(ClaimTemplateSeen(template_of("three", THREE)))
    job = gang(world, "a", 2, claims=uses(template="three"))
    pod = job.pods[0]
    node = job.reserved[pod.name]
    world.tell(ClaimSeen(claim_of("made", THREE, owner=pod.uid, node=node, devices=range(3))))
    job.see(0, claims=replace(pod.claims, claims=(replace(pod.claims.claims[0], claim="made"),)))
    world.later(61)
    assert (job.reserved, used(world)) == ({}, 0)
    world.later(60)
    assert (job.reserved[pod.name], used(world)) == (node, 6)


def test_without_a_mapping_its_name_is_not_charged() -> None:
    """A Queue with quota for a name that no class has bounds nothing."""
    world = world_of(6, "other-gpus")
    world.tell(ClaimTemplateSeen(template_of("three", THREE)))
    assert len(gang(world, "a", 4, claims=uses(template="three")).reserved) == 4
    assert used(world, "other-gpus") == 0
