"""Zones of pods that follow from what an exporter saw left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from extender.cluster.claims import reseat
from extender.cluster.model import ClusterModel
from extender.cluster.noderoom import NodeKind, NodeKinds, Taking
from extender.hardware.fingerprint import fingerprint
from extender.hardware.products import Products
from extender.objects import holdings
from extender.objects.nodetopology import NodeTopology
from extender.objects.pod import Pod
from tests.cluster.conftest import GPU, node, pod, up_to_date
from tests.hardware.nodes import guaranteed, topology


def left(gpus: Sequence[int], cpus: Sequence[int] = (16, 16), pods: Sequence[Pod] = ()) -> NodeTopology:
    """Return the report of an exporter that saw so much left in zones of 4 GPUs and 16 CPUs, and these pods."""
    known = topology()
    zones = tuple(replace(zone, available={GPU: gpus[zone.id], "cpu": 1000 * cpus[zone.id]}) for zone in known.zones)
    return replace(known, node="n", zones=zones, fingerprint=fingerprint((p.namespace, p.name) for p in pods))


def kind() -> NodeKind:
    """Return the kind of such nodes."""
    return NodeKinds().facts(node("n", gpus=8), Products(), topology(), None).kind


TWO_BELOW = {"a": Taking(0b11, {0: {"cpu": 4000}}, (0,)), "b": Taking(0b1100, {0: {"cpu": 6000}}, (0,))}


def test_pods_are_where_something_is_missing() -> None:
    """If GPUs and CPUs are missing from both zones, one pod is in each: the one whose CPUs are missing there."""
    assert reseat(kind(), left((2, 2), (10, 12)), TWO_BELOW, ["a", "b"]) == {"a": 1, "b": 0}
    assert reseat(kind(), left((4, 0), (16, 6)), TWO_BELOW, ["a", "b"]) == {"a": 1, "b": 1}


def test_what_is_so_already_stays() -> None:
    """If the zones have left what was expected, nobody moves."""
    assert reseat(kind(), left((0, 4), (6, 16)), TWO_BELOW, ["a", "b"]) == {}


def test_pods_that_were_seen_stay() -> None:
    """Only pods move whose zone nobody has seen, and if they cannot explain it alone, nobody does."""
    assert reseat(kind(), left((2, 2), (12, 10)), TWO_BELOW, ["b"]) == {"b": 1}
    assert reseat(kind(), left((2, 2), (10, 12)), TWO_BELOW, ["b"]) == {}
    assert reseat(kind(), left((4, 0), (16, 6)), TWO_BELOW, ["b"]) == {}


def test_what_cannot_be_explained_is_left_alone() -> None:
    """A report that no seating explains, be there too much or too little, moves nobody; pods over two zones stay."""
    assert reseat(kind(), left((1, 2), (10, 12)), TWO_BELOW, ["a", "b"]) == {}
    assert reseat(kind(), left((3, 3), (16, 16)), TWO_BELOW, ["a", "b"]) == {}
    wide = {"a": Taking(0b11, {}, (0,)), "wide": Taking(0b111100, {}, (0, 1))}
    assert reseat(kind(), left((2, 0)), wide, ["a", "wide"]) == {"a": 1}
    assert reseat(kind(), left((4, 4)), {}, []) == {}


def test_too_many_ways_are_given_up() -> None:
    """The search ends after a while, though it might have found a way."""
    many = {f"pod-{index}": Taking(0, {0: {"cpu": 300 + index}}, (0,)) for index in range(30)}
    odd = left((4, 4), (12, 12))
    assert reseat(kind(), odd, many, list(many)) == {}


def test_reports_correct_predictions() -> None:
    """When an exporter has seen the very pods that are bound, predicted zones are corrected; GPUs follow."""
    model = ClusterModel(["muster"])
    model.put_node(node("n", gpus=8))
    pods = [pod(name, shape=guaranteed(2, cpus), node_name="n") for name, cpus in (("a", 4), ("b", 6))]
    model.hardware.put_topology(topology_of("n"))
    for each in pods:
        model.put_pod(each, 0)
    assert held(model) == {"a": (0, 1), "b": (2, 3)}
    model.hardware.put_topology(left((2, 2), (10, 12), pods[:1]))
    assert held(model) == {"a": (0, 1), "b": (2, 3)}
    model.hardware.put_topology(left((2, 2), (10, 12), pods))
    assert held(model) == {"a": (4, 5), "b": (2, 3)}
    model.hardware.put_topology(left((4, 4), (16, 16), pods))
    assert held(model) == {"a": (4, 5), "b": (2, 3)}


def test_observations_go_before_reports() -> None:
    """Where all zones were seen on the pods themselves, a report changes nothing."""
    model = ClusterModel(["muster"])
    model.put_node(node("n", gpus=8))
    seen = pod("a", shape=guaranteed(2, 4), node_name="n", observed=holdings.DeviceHolding((0, 1), (0,)))
    model.put_pod(seen, 0)
    model.hardware.put_topology(left((4, 2), (16, 12), [seen]))
    assert held(model) == {"a": (0, 1)}


def topology_of(name: str) -> NodeTopology:
    """Return zones of 4 GPUs and 16 CPUs of a node, without fingerprint."""
    return replace(topology(), node=name)


def held(model: ClusterModel) -> Mapping[str, tuple[int, ...]]:
    """Return the GPUs of each pod, by name."""
    found = {each.name: up_to_date(model.table).held(uid) for uid, each in model.pods.items()}
    return {name: () if each is None else each.gpus for name, each in found.items()}
