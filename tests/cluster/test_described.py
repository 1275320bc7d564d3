"""GPUs that ResourceSlices describe: what labels and annotations tell, where those do not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.admission.events import ClaimSeen, ClaimTemplateSeen, DeviceClassSeen, SliceGone, SliceSeen
from extender.cluster.noderoom import NodeFacts, NodeKinds, gpu_problems
from extender.hardware.links import Path
from extender.hardware.products import Products
from extender.objects.gpudescription import UNDESCRIBED, GpuDescription
from extender.objects.meta import key_places
from extender.objects.node import Node
from extender.objects.nodetopology import NodeTopology, TopologyPolicy, Zone
from extender.objects.podclaims import PodClaims
from extender.objects.resourceslice import AttributeSet
from tests.cluster.conftest import GPU
from tests.devicevalues import DRIVER, claim_of, class_of, slice_of, spec_of, template_of, uses
from tests.worlds import World

H100, L40S = "NVIDIA-H100-80GB-HBM3", "NVIDIA-L40S"
NAMES = tuple(f"gpu-{number}" for number in range(8))
UUIDS = tuple(f"GPU-{number}" for number in range(8))
FULL = GpuDescription(NAMES, H100, (0, 0, 0, 0, 1, 1, 1, 1), uuids=UUIDS)
LABEL = "nvidia.com/gpu.product"


def gpu_node(described: GpuDescription, labels: dict[str, str] | None = None, **annotations: str) -> Node:
    """Return a node of eight GPUs."""
    said = {f"muster.dev/{key.replace('_', '-')}": text for key, text in annotations.items()}
    return Node("n", "u", {GPU: 8}, labels or {}, annotations=said, described=described)


def facts(node: Node, topology: NodeTopology | None = None) -> NodeFacts:
    """Return what is known of a node."""
    return NodeKinds().facts(node, Products(), topology, None)


def test_described_gpus_are_as_good_as_labelled_ones() -> None:
    """Product, zones and UUIDs come from slices where nothing else says them."""
    found = facts(gpu_node(FULL))
    assert found.kind.product is not None
    assert (found.kind.product.name, found.kind.sets.layout.zones) == ("H100 SXM5 80GB", FULL.zones)
    assert (found.kind.zones_known, found.uuids) == (True, UUIDS)
    assert found.kind.sets.layout == facts(gpu_node(replace(FULL, uuids=()), {LABEL: H100})).kind.sets.layout


def test_labels_and_annotations_count_first_and_contradictions_are_told() -> None:
    """Who wrote a label or an annotation meant it; what slices say otherwise is a problem of the node."""
    links = ";".join(" ".join("X" if i == j else "PIX" for j in range(8)) for i in range(8))
    node = gpu_node(FULL, {LABEL: L40S}, gpu_links=f"{links}; numa 1 1 1 1 0 0 0 0")
    found = facts(node)
    assert found.kind.product is not None
    assert (found.kind.product.name, found.kind.sets.layout.zones) == ("L40S", (1, 1, 1, 1, 0, 0, 0, 0))
    assert [str(problem) for problem in gpu_problems(node)] == [
        f"metadata.labels[{LABEL}]: '{L40S}'; its ResourceSlices name '{H100}'. The label counts",
        "metadata.annotations: zones 1 1 1 1 0 0 0 0; its ResourceSlices say 0 0 0 0 1 1 1 1. The annotation counts",
    ]


@pytest.mark.parametrize("label", [H100, H100.lower(), f"{H100}-SHARED", f"{H100}-MIG-1g.10gb"])
def test_other_words_for_the_product_are_no_contradiction(label: str) -> None:
    """Sharing and slicing append something to the label; one product may have several names."""
    assert gpu_problems(gpu_node(FULL, {LABEL: label})) == ()


def test_what_slices_say_of_other_numbers_of_gpus_is_left_out() -> None:
    """Four described GPUs say nothing of which zone each of eight is in."""
    four = GpuDescription(NAMES[:4], H100, (0, 0, 1, 1), roots=("a",) * 4, uuids=UUIDS[:4])
    found = facts(gpu_node(four))
    assert (found.kind.zones_known, found.uuids, found.kind.sets.layout.links) == (False, (), None)


def test_gpus_of_one_pcie_root_are_nearer() -> None:
    """Without NVLink the root complex decides which GPUs are near; where no two share one it says nothing."""
    roots = tuple(f"pci0000:{number // 2}" for number in range(8))
    links = facts(gpu_node(GpuDescription(NAMES, L40S, roots=roots))).kind.sets.layout.links
    assert links is not None
    assert (links.scores[0][1], links.scores[0][2], links.scores[6][7]) == (Path.PHB, 0, Path.PHB)
    apart = tuple(f"pci0000:{number}" for number in range(8))
    assert facts(gpu_node(GpuDescription(NAMES, L40S, roots=apart))).kind.sets.layout.links is None
    assert facts(gpu_node(GpuDescription(NAMES, "NVIDIA-unheard-of", roots=roots))).kind.sets.layout.links is None


def test_described_zones_have_to_agree_with_a_reported_topology() -> None:
    """A NodeResourceTopology with other numbers of GPUs in its zones goes first."""
    zones = tuple(Zone(number, allocatable={GPU: gpus}) for number, gpus in ((0, 2), (1, 6)))
    topology = NodeTopology("n", TopologyPolicy.RESTRICTED, zones=zones)
    assert facts(gpu_node(FULL), topology).kind.sets.layout.zones == (0, 0, 1, 1, 1, 1, 1, 1)


def attributes(**said: Any) -> AttributeSet:
    """Return attributes of the driver."""
    names = tuple(f"{DRIVER}/{name}" for name in said)
    return AttributeSet(key_places(names), tuple(said.values()))


def test_nodes_are_described_as_slices_come_and_go(world: World) -> None:
    """A slice describes its node whichever is seen first; another product counts when it is published."""
    world.tell(DeviceClassSeen(class_of(resource=GPU)))
    empty = slice_of("node-0")
    described = replace(
        empty,
        devices=tuple(
            replace(each, attributes=attributes(type="gpu", productName="NVIDIA H100 80GB HBM3", uuid=UUIDS[at]))
            for at, each in enumerate(empty.devices)
        ),
    )
    world.tell(SliceSeen(described))
    world.nodes(1, gpus=0)
    assert world.state.node("node-0").described == GpuDescription(NAMES, H100, uuids=UUIDS)
    assert world.state.node("node-0").gpus == (GPU, 8)
    others = tuple(
        replace(each, attributes=attributes(type="gpu", productName="NVIDIA L40S")) for each in described.devices
    )
    world.tell(SliceSeen(replace(described, generation=2, devices=others)))
    assert world.state.node("node-0").described == GpuDescription(NAMES, L40S)
    world.tell(SliceGone(empty.name))
    assert world.state.node("node-0").described == UNDESCRIBED


@pytest.mark.parametrize("resource", [GPU, ""])
def test_claims_of_gpus_are_placed_by_what_slices_describe(world: World, resource: str) -> None:
    """Pods with claims hold GPUs, whether or not nvidia.com/gpu stands for them: those of one zone are together."""
    world.tell(DeviceClassSeen(class_of(resource=resource)))
    (name,) = world.nodes(1, gpus=0)
    item = slice_of(name)
    said = {"type": "gpu", "productName": "NVIDIA L40S"}
    gpus = tuple(
        replace(each, attributes=attributes(**said, numa=at % 2, uuid=UUIDS[at]))
        for at, each in enumerate(item.devices)
    )
    world.tell(SliceSeen(replace(item, devices=gpus)))
    world.tell(ClaimTemplateSeen(template_of("four", spec_of(4))))
    job = world.gang("job", 2, gpus=0, claims=uses(template="four"))
    assert [pod.shape.whole_gpus for pod in world.state.pods()] == [4, 4]
    held = [world.state.devices(pod) for pod in job.pods]
    assert sorted(each.gpus for each in held if each is not None) == [(0, 2, 4, 6), (1, 3, 5, 7)]


@pytest.mark.parametrize("resource", [GPU, ""])
def test_gpus_that_a_claim_was_given_are_known(world: World, resource: str) -> None:
    """Once kube-scheduler has allocated, it is known which GPUs a pod has; before it is predicted."""
    world.tell(DeviceClassSeen(class_of(resource=resource)))
    (name,) = world.nodes(1, gpus=0)
    item = slice_of(name)
    gpus = tuple(
        replace(each, attributes=attributes(type="gpu", uuid=UUIDS[at])) for at, each in enumerate(item.devices)
    )
    world.tell(SliceSeen(replace(item, devices=gpus)))
    world.tell(ClaimTemplateSeen(template_of("two", spec_of(2))))
    job = world.gang("job", 1, gpus=0, claims=uses(template="two"))
    held = world.state.devices(job.pods[0])
    assert held is not None
    assert (held.gpus, held.observed) == ((0, 1), False)
    claim = claim_of("job-0-two", spec_of(2), owner=job.pods[0].uid, node=name, devices=(3, 6))
    world.tell(ClaimSeen(claim))
    named = uses(template="two")
    named = replace(named, claims=(replace(named.claims[0], claim="job-0-two"),))
    job.see(0, claims=named, node_name=name)
    held = world.state.devices(job.pods[0])
    assert held is not None
    assert (held.gpus, held.observed) == ((3, 6), True)


def test_gpus_of_extended_resources_are_known_too(world: World) -> None:
    """kube-scheduler makes a claim for a pod that asks for nvidia.com/gpu, and writes its name on the pod."""
    world.tell(DeviceClassSeen(class_of(resource=GPU)))
    (name,) = world.nodes(1, gpus=0)
    item = slice_of(name)
    gpus = tuple(replace(each, attributes=attributes(type="gpu")) for each in item.devices)
    world.tell(SliceSeen(replace(item, devices=gpus)))
    job = world.gang("job", 1, gpus=2)
    world.tell(ClaimSeen(claim_of("made", spec_of(2), owner=job.pods[0].uid, node=name, devices=(4, 5), extended=True)))
    job.see(0, claims=PodClaims(extended="made"), node_name=name)
    held = world.state.devices(job.pods[0])
    assert held is not None
    assert (held.gpus, held.observed) == ((4, 5), True)
