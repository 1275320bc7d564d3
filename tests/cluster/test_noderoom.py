"""What is free of one node, and what pods take of it that are there without having been let in."""

from __future__ import annotations

from collections.abc import Mapping

from extender.cluster.noderoom import NodeKinds, Room, Taking, gpus_asked
from extender.hardware.links import Partitions
from extender.hardware.products import Products
from extender.objects.nodetopology import NodeTopology, TopologyPolicy
from tests.cluster.conftest import GPU, node, shape
from tests.hardware.nodes import guaranteed, topology


def room(
    zones: NodeTopology | None = None, partitions: Partitions | None = None, labels: Mapping[str, str] | None = None
) -> Room:
    """Return an empty node with eight GPUs."""
    facts = NodeKinds().facts(node("n", gpus=8, labels=labels or {}), Products(), zones, partitions)
    return Room.empty(facts.kind)


def test_room_without_zones_is_gpus_alone() -> None:
    """Where nothing is aligned, a pod takes GPUs and no amounts, and a pod without GPUs takes nothing."""
    empty = room()
    assert empty.serve(shape(2)) == Taking(0b11)
    assert empty.serve(shape(0)) == Taking()
    assert empty.serve(shape(9)) is None


def test_known_gpus_are_taken_even_if_others_have_them() -> None:
    """A pod that is known to hold GPUs holds them, free or not; what is free never becomes negative."""
    some = room(topology())
    some.take(Taking(0b11, {0: {"cpu": 12_000}, 7: {"cpu": 1}}))
    taking = some.suppose(guaranteed(2, 8), 0b110)
    assert taking == Taking(0b110, {1: {"cpu": 8000}}, (0,))
    assert not some.fits(taking)
    some.take(Taking(taking.gpus, {0: {"cpu": 99_000, "rdma/hca": 1}}))
    assert (some.gpus, some.zones[0]["cpu"]) == (0xF8, 0)


def test_gpus_of_full_zones_are_taken_elsewhere() -> None:
    """A pod that was seen in a zone without free GPUs gets them from another one, as many as there are."""
    some = room(topology())
    some.take(Taking(0xF0))
    assert some.suppose(guaranteed(2), zones=(1,)).gpus == 0b11
    some.take(Taking(0x0E))
    assert some.suppose(guaranteed(2), zones=(1,)).gpus == 1
    some.take(Taking(1))
    assert some.suppose(guaranteed(2), zones=(1,)) == Taking(0, {}, (1,))


def test_cpus_that_its_zones_do_not_have_come_from_all() -> None:
    """CPUs of a pod whose zone has not enough are counted where there are some; if nowhere, not at all."""
    some = room(topology())
    some.take(Taking(0, {0: {"cpu": 10_000}}))
    assert some.suppose(guaranteed(0, 8), zones=(0,)).amounts == {1: {"cpu": 8000}}
    assert some.suppose(guaranteed(0, 60), zones=(0,)).amounts == {}
    assert some.suppose(guaranteed(0, 60)).amounts == {}


def test_sets_that_must_not_be_given_out_are_supposed_all_the_same() -> None:
    """Where only whole partitions are given out and none is free, a pod that runs holds the lowest free GPUs."""
    honoured = {"node.koordinator.sh/gpu-partition-policy": "Honor"}
    pairs = Partitions((frozenset({0, 1}), frozenset({2, 3})))
    some = room(partitions=pairs, labels=honoured)
    some.take(Taking(0b0101))
    assert some.serve(shape(2)) is None
    assert some.suppose(shape(2)).gpus == 0b1010
    aligned = room(topology(TopologyPolicy.RESTRICTED), pairs, honoured)
    aligned.take(Taking(0b0101))
    assert aligned.serve(guaranteed(2)) is None


def test_gpus_that_zones_do_not_list_come_from_anywhere() -> None:
    """If zones list CPUs alone, GPUs are chosen freely and CPUs by zone."""
    some = room(topology(TopologyPolicy.SINGLE_NUMA_NODE, gpus=()))
    taking = some.serve(guaranteed(8, 4))
    assert taking is not None
    assert (taking.gpus, taking.amounts, taking.zones) == (0xFF, {0: {"cpu": 4000}}, (0,))


def test_no_resource_is_asked_of_nodes_without_gpus() -> None:
    """On a node without GPUs a pod asks for none of them."""
    assert (gpus_asked(shape(2), ""), gpus_asked(shape(2), GPU), gpus_asked(shape(0), GPU)) == (0, 2, 0)
