"""What objects say of hardware, handed on and kept apart from what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from extender.cluster.model import ClusterModel
from extender.cluster.occupancy import HoldingScope
from extender.hardware.calibration import DATA_KEY
from extender.objects.devices import DeviceReport
from extender.objects.hypernodes import HyperNode
from extender.objects.levelobjects import LevelList
from extender.objects.levels import Level
from extender.objects.meta import ObjectRef
from extender.objects.node import Node
from extender.objects.nodetopology import NodeTopology, TopologyPolicy, Zone
from extender.objects.pod import Shape
from tests.cluster.conftest import GPU, up_to_date

H100 = "NVIDIA-H100-80GB-HBM3"
FACTS = ObjectRef("v1", "ConfigMap", "muster-system", "muster-calibration", "u")
ZONES = tuple(Zone(number, allocatable={GPU: 4}) for number in range(2))
TOPOLOGY = NodeTopology("a", TopologyPolicy.RESTRICTED, zones=ZONES)


@pytest.fixture
def model() -> ClusterModel:
    """Return a model of two nodes with eight H100 each."""
    model = ClusterModel(["muster"])
    for name in ("a", "b"):
        model.put_node(Node(name, f"uid-{name}", {GPU: 8, "pods": 110, "cpu": 64_000}, {f"{GPU}.product": H100}))
    return model


def states(model: ClusterModel) -> list[int]:
    """Return the state of each node."""
    return [int(state) for state in up_to_date(model.table).states(HoldingScope.ALL)]


def bandwidth(model: ClusterModel) -> float:
    """Return the GB/s that eight GPUs of a node are said to have."""
    state = states(model)[0]
    return up_to_date(model.table).offer(state, Shape(requests=((GPU, 8),)), 1).inner[0]


def calibration(gbps: str) -> dict[str, str]:
    """Return the data of a ConfigMap that has measured so much on one node."""
    entry = f"{{product: {H100}, gpusPerNode: 8, nodes: 1, level: node, busBandwidthGBps: {gbps}}}"
    return {DATA_KEY: f"measurements:\n- {entry}\n"}


def test_zones_of_a_node_count_from_when_they_are_known(model: ClusterModel) -> None:
    """A node with zones is in another state than one without, until they are gone; verdicts on it are made anew."""
    before = model.table.generation
    model.table.touched.clear()
    assert model.hardware.put_topology(TOPOLOGY)
    assert len(set(states(model))) == 2
    known = up_to_date(model.table).topology("a")
    assert known is not None
    assert (known.policy, known.zones) == (TopologyPolicy.RESTRICTED, ZONES)
    assert (model.table.generation > before, list(model.table.touched)) == (True, ["a"])
    assert not model.hardware.put_topology(TOPOLOGY)
    assert model.hardware.drop_topology("a")
    assert not model.hardware.drop_topology("a")
    assert len(set(states(model))) == 1


def test_partitions_of_a_node_count_from_when_they_are_known(model: ClusterModel) -> None:
    """What Koordinator says of a node's GPUs counts, and counts no more when it says nothing."""
    about = ObjectRef("scheduling.koordinator.sh/v1alpha1", "Device", "", "a", "u")
    report = DeviceReport(about, '{"4":[{"minors":[0,1,2,3]},{"minors":[4,5,6,7]}]}')
    assert model.hardware.put_report(report)
    assert not model.hardware.put_report(report)
    assert len(set(states(model))) == 2
    assert model.hardware.put_report(DeviceReport(about))
    assert len(set(states(model))) == 1
    assert model.hardware.drop_report("a")
    assert not model.hardware.drop_report("a")


def test_a_table_of_partitions_that_cannot_be_read_is_a_problem(model: ClusterModel) -> None:
    """The object and the annotation are named, until somebody mends it."""
    about = ObjectRef("scheduling.koordinator.sh/v1alpha1", "Device", "", "a", "u")
    model.hardware.put_report(DeviceReport(about, '{"4":[{"minors":[0]}]}'))
    ((named, (problem,)),) = model.problems().items()
    assert (named, problem.field) == (about, "metadata.annotations[scheduling.koordinator.sh/gpu-partitions]")
    model.hardware.put_report(DeviceReport(about, '{"2":[{"minors":[0,1]}]}'))
    assert model.problems() == {}


def test_measured_bandwidths_take_the_place_of_the_tables(model: ClusterModel) -> None:
    """What was measured is predicted, until the ConfigMap is gone."""
    table = bandwidth(model)
    before = model.table.generation
    assert model.hardware.put_calibration(FACTS, calibration("401.5"))
    assert not model.hardware.put_calibration(FACTS, calibration("401.5"))
    assert bandwidth(model) == pytest.approx(401.5)
    assert model.table.generation > before
    assert model.hardware.drop_calibration()
    assert not model.hardware.drop_calibration()
    assert bandwidth(model) == pytest.approx(table)


def test_a_measurement_that_cannot_be_read_is_a_problem(model: ClusterModel) -> None:
    """The ConfigMap is named, and the entry; the table stands."""
    table = bandwidth(model)
    model.hardware.put_calibration(FACTS, calibration("fast"))
    ((named, (problem,)),) = model.problems().items()
    assert named == FACTS
    assert problem.field.endswith("measurements[0].busBandwidthGBps")
    assert bandwidth(model) == pytest.approx(table)
    model.hardware.drop_calibration()
    assert model.problems() == {}


def test_links_that_cannot_be_read_are_a_problem_of_the_node(model: ClusterModel) -> None:
    """The node and the annotation are named, until it is mended or the node is gone."""
    odd = Node("c", "uid-c", annotations={"muster.dev/gpu-links": "X ?; ? X"})
    model.put_node(odd)
    ((named, (problem,)),) = model.problems().items()
    assert (str(named), named.uid, problem.field) == ("Node c", "uid-c", "metadata.annotations[muster.dev/gpu-links]")
    model.put_node(Node("c", "uid-c", annotations={"muster.dev/gpu-links": "X NV2; NV2 X"}))
    assert model.problems() == {}
    model.put_node(odd)
    model.drop_node("c")
    assert model.problems() == {}


def test_news_of_the_network_outdates_every_verdict(model: ClusterModel) -> None:
    """Who was judged by other levels is judged again; what says nothing new outdates nothing."""
    levels = LevelList(ObjectRef("kueue.x-k8s.io/v1", "Topology", "", "t", "u"), (Level("rack", "x/rack"),))
    hyper_node = HyperNode(
        ObjectRef("topology.volcano.sh/v1alpha1", "HyperNode", "", "s", "u"), 1, nodes=frozenset("a")
    )
    generations = [model.table.generation]
    changes: list[Callable[[], bool]] = [
        lambda: model.network.put_list(levels),
        lambda: model.network.drop_list("kueue.x-k8s.io", "t"),
        lambda: model.network.put_hyper_node(hyper_node),
        lambda: model.network.drop_hyper_node("s"),
    ]
    for change in changes:
        assert change()
        generations.append(model.table.generation)
    assert generations == sorted(set(generations))
    assert not model.network.drop_list("kueue.x-k8s.io", "t")
    assert not model.network.drop_hyper_node("s")
    assert model.table.generation == generations[-1]


def test_the_model_says_what_the_network_is(model: ClusterModel) -> None:
    """The levels are those of nodes and objects together."""
    assert model.levels.source == "no node has labels of a known preset"
    model.network.put_hyper_node(
        HyperNode(ObjectRef("topology.volcano.sh/v1alpha1", "HyperNode", "", "s", "u"), 1, nodes=frozenset("a"))
    )
    assert model.levels.domain(0, Node("a")) == "s"


def test_what_fits_on_the_empty_cluster_is_asked_again_after_any_news(model: ClusterModel) -> None:
    """Whoever remembers that a gang can never fit remembers it for the nodes as they are known."""
    before = model.table.last_node_change
    model.hardware.put_topology(TOPOLOGY)
    between = model.table.last_node_change
    model.hardware.put_calibration(FACTS, calibration("401.5"))
    assert before < between < model.table.last_node_change
