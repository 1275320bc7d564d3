"""A node is what the scheduler may still put pods on."""

from __future__ import annotations

import pytest
from hypothesis import given

from extender.objects.node import (
    CLIQUE_LABEL,
    NOT_READY_TAINT,
    UNREACHABLE_TAINT,
    UNSCHEDULABLE_TAINT,
    Node,
    NodeObject,
    clique_of,
    decode_node,
    read_node,
)
from extender.objects.podspec import Taint
from extender.objects.reason import Problem
from tests.builders import GI, GPU, Json, node_json, written
from tests.objects.documents import load, survivors

TAINT: Json = {"key": GPU, "value": "present", "effect": "NoSchedule"}


def read(document: Json) -> Node:
    """Read a node given as JSON."""
    return read_node(decode_node(written(document)))


def test_a_node_is_its_name_labels_and_allocatable() -> None:
    """Name, UID, labels and allocatable are taken over, amounts in the model's units."""
    node = read(node_json("a", gpus=8, labels={"zone": "z"}))
    allocatable = {"cpu": 64_000, "memory": 512 * GI, "pods": 110, GPU: 8}
    assert node == Node("a", "uid-a", allocatable, {"zone": "z"})


def test_an_empty_object_is_a_node_without_anything() -> None:
    """A node that says nothing has nothing and is closed to nobody."""
    assert read({}) == Node("")


def test_hard_taints_are_kept() -> None:
    """A node keeps the taints that keep pods away, in order."""
    soft = TAINT | {"effect": "PreferNoSchedule"}
    assert read(node_json(taints=[soft, TAINT])).taints == (Taint(GPU, "present", "NoSchedule"),)


def test_a_node_that_is_announced_to_go_is_doomed() -> None:
    """A taint that says so, or a deletion that waits for a finalizer; the reason is told."""
    spot: Json = {"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule"}
    assert read(node_json(taints=[TAINT])).doomed == ""
    assert "spot instance is taken back" in read(node_json(taints=[TAINT, spot])).doomed
    leaving = node_json()
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert read(leaving).doomed == "it is being deleted"


def test_conditions_that_say_that_something_is_wrong_are_kept() -> None:
    """By their names it is True or False that is bad; what is unknown is not said, but of Ready."""
    document = node_json(ready="Unknown")
    since = {"lastTransitionTime": "2026-01-01T00:00:10Z"}
    document["status"]["conditions"] += [
        {"type": "MemoryPressure", "status": "False"},
        {"type": "GpuMemWatch", "status": "True"} | since,
        {"type": "KernelDeadlock", "status": "Unknown"},
        {"type": "AcceleratedHardwareReady", "status": "False", "lastTransitionTime": "yesterday"},
        {"type": "KernelReady", "status": "True"},
    ]
    assert [each.type for each in read(document).ailments] == ["Ready", "GpuMemWatch", "AcceleratedHardwareReady"]
    assert [each.since for each in read(document).ailments] == [None, 1767225610.0, None]
    assert read(node_json()).ailments == ()


def test_a_cordon_is_a_taint() -> None:
    """An unschedulable node carries the taint that a cordon amounts to, once, even before anyone wrote it."""
    written_out: Json = {"key": UNSCHEDULABLE_TAINT.key, "effect": "NoSchedule"}
    assert read(node_json(unschedulable=True)).taints == (UNSCHEDULABLE_TAINT,)
    assert read(node_json(unschedulable=True, taints=[written_out])).taints == (UNSCHEDULABLE_TAINT,)
    assert read(node_json(unschedulable=False)).taints == ()


@pytest.mark.parametrize(
    ("ready", "taint"), [("False", NOT_READY_TAINT), ("Unknown", UNREACHABLE_TAINT), ("", NOT_READY_TAINT)]
)
def test_a_node_that_is_not_ready_is_tainted(ready: str, taint: Taint) -> None:
    """A node that is not ready carries the taint of the node lifecycle controller before that has added it."""
    assert read(node_json(ready=ready)).taints == (taint,)


def test_a_taint_for_unreadiness_is_not_doubled() -> None:
    """Where the controller has already tainted the node, its own taint is the one that counts."""
    known: Json = {"key": UNREACHABLE_TAINT.key, "effect": "NoExecute"}
    assert read(node_json(ready="Unknown", taints=[known])).taints == (Taint(UNREACHABLE_TAINT.key, "", "NoExecute"),)


def test_other_conditions_do_not_close_a_node() -> None:
    """Only the Ready condition counts; a node without one counts as ready."""
    document = node_json()
    document["status"]["conditions"] = [
        {"type": "MemoryPressure", "status": "True"},
        {"type": "Ready", "status": "True"},
    ]
    assert read(document).taints == ()
    document["status"]["conditions"] = None
    assert read(document).taints == ()


def test_an_unreadable_allocatable_is_a_problem() -> None:
    """A node whose allocatable cannot be read offers nothing, and says which field is to blame."""
    document = node_json()
    document["status"]["allocatable"]["cpu"] = "many"
    node = read(document)
    assert node.allocatable == {}
    assert node.problem == Problem("status.allocatable.cpu", "'many' is not a quantity (examples: 8, 500m, 64Gi)")


@given(node=survivors(decode_node, node_json(labels={"a": "b"}, taints=[TAINT], unschedulable=True, ready="False")))
def test_any_node_can_be_read(node: NodeObject) -> None:
    """No node that can be decoded raises; its amounts are int64 or there is a problem."""
    value = read_node(node)
    assert all(0 <= amount < 2**63 for amount in value.allocatable.values())
    assert value.problem is None or not value.allocatable


@given(node=survivors(decode_node, load("objects/data/objects.json")["Node"]))
def test_any_full_node_can_be_read(node: NodeObject) -> None:
    """The same holds for a node with every field set."""
    assert read_node(node).name == ((node.metadata and node.metadata.name) or "")


def test_of_annotations_only_those_that_mean_something_are_kept() -> None:
    """A node carries many annotations of others, some of which change every few seconds; they are not kept."""
    document = node_json("a")
    document["metadata"]["annotations"] = {"muster.dev/gpu-links": "X NV2;NV2 X", "hami.io/node-handshake": "now"}
    assert read(document).annotations == {"muster.dev/gpu-links": "X NV2;NV2 X"}


NOBODY = "00000000-0000-0000-0000-000000000000"
CLUSTER = "7f3c2a10-5b4e-4d6a-9c1e-2b8f0e6d4a91"


def test_nodes_with_the_same_label_are_one_island() -> None:
    """The value names cluster and clique, and both count: a rack may be split into several cliques."""
    assert clique_of({CLIQUE_LABEL: f"{CLUSTER}.1"}) == f"{CLUSTER}.1"
    assert clique_of({CLIQUE_LABEL: f"{CLUSTER}.1"}) != clique_of({CLIQUE_LABEL: f"{CLUSTER}.2"})


@pytest.mark.parametrize("value", ["", f"{NOBODY}.0", f"{NOBODY}.7", NOBODY])
def test_a_value_that_names_no_fabric_is_none(value: str) -> None:
    """The zero UUID that boards without such a fabric report joins nobody."""
    assert clique_of({CLIQUE_LABEL: value}) == ""
    assert clique_of({}) == ""


def test_people_may_name_it() -> None:
    """Whoever labels nodes by hand need not invent UUIDs."""
    assert clique_of({CLIQUE_LABEL: "rack-7"}) == "rack-7"
