"""From nodes and pods to a picture."""

from __future__ import annotations

from dataclasses import replace

from extender.explain.drawing.tree import Survey, draw
from extender.objects.holdings import DeviceHolding
from extender.objects.levels import Level, Levels
from extender.objects.node import Node
from extender.objects.pod import Phase, Pod, Shape
from extender.objects.podgroup import NO_GROUP, GroupRef
from extender.objects.sources.coscheduling import COSCHEDULING

GANG = GroupRef(COSCHEDULING, "default", "train")
LEVELS = Levels((Level("block", "b"), Level("rack", "r")))


def pod(
    name: str,
    gpus: int,
    group: GroupRef = NO_GROUP,
    observed: DeviceHolding | None = None,
    predicted: DeviceHolding | None = None,
) -> Pod:
    """Return a pod."""
    shape = Shape((("cpu", 1000), ("nvidia.com/gpu", gpus)))
    return Pod(f"{name}-uid", "default", name, shape, group=group, observed=observed, predicted=predicted)


def gpu_node(name: str, gpus: int = 4, **labels: str) -> Node:
    """Return a node."""
    return Node(name, allocatable={"cpu": 64000, "nvidia.com/gpu": gpus}, labels=labels)


def test_nodes_stand_in_their_domains_with_who_holds_their_gpus() -> None:
    """A gang is called by its name, a pod on its own by that of the pod; nodes without GPUs are left out."""
    survey = Survey(
        LEVELS,
        (gpu_node("n0", b="b0", r="r0"), gpu_node("n1", b="b0"), Node("cpu", allocatable={"cpu": 1})),
        (
            replace(pod("alone", 1), node_name="n0"),
            replace(pod("cpu", 0), node_name="n0"),
            replace(pod("lost", 1), node_name="gone"),
            replace(pod("over", 1), node_name="n0", phase=Phase.SUCCEEDED),
            pod("waits", 1),
        ),
        ((pod("train-0", 2, GANG), "n0"),),
        zones={"n0": (0, 0, 1, 1)},
    )
    picture = draw(survey, "default/train", "title", ("line",))
    first, second = picture.nodes
    assert (picture.title, picture.lines, picture.levels) == ("title", ("line",), ("block", "rack"))
    assert first.domains == ("b0", "r0")
    assert first.cells == ("default/alone", "default/train", "default/train", "")
    assert first.zones == (0, 0, 1, 1)
    assert (second.domains, second.cells, second.zones) == (("b0", ""), ("", "", "", ""), ())


def test_the_gpus_are_those_known_best() -> None:
    """What the caller knows comes first, then what was observed, then what was predicted."""
    pods = (
        pod("told", 1, predicted=DeviceHolding(gpus=(0,))),
        pod("seen", 1, observed=DeviceHolding(gpus=(2,)), predicted=DeviceHolding(gpus=(0,))),
        pod("zoned", 1, observed=DeviceHolding(zones=(0,)), predicted=DeviceHolding(gpus=(1,))),
    )
    survey = Survey(
        Levels(), (gpu_node("n"),), tuple(replace(pod, node_name="n") for pod in pods), held={"told-uid": (3,)}
    )
    (node,) = draw(survey, "default/train", "", ()).nodes
    assert node.cells == ("", "default/zoned", "default/seen", "default/told")
