"""Muster's prediction against a kubelet that was written independently, on random nodes and pods."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from extender.hardware.topologymanager import TopologyRefusal, admit
from extender.objects.nodetopology import Managers, NodeTopology, TopologyPolicy, TopologyScope, Zone
from extender.objects.pod import Shape
from extender.objects.requests import Stage
from muster_lab.simulation.hints import AdmissionError
from muster_lab.simulation.topology_manager import TopologyManager
from tests.examples import share
from tests.hardware.nodes import of, requests, topology

_containers = st.tuples(
    st.builds(
        requests,
        st.sampled_from((0, 0, 1, 2, 3, 4, 6)),
        st.sampled_from((0, 0.5, 1, 2, 3, 5, 9)),
        st.sampled_from((0, 1, 2, 5, 9)),
    ),
    st.sampled_from(Stage),
)


@dataclass(frozen=True)
class Arrival:
    """A pod that comes to a node, after which so many of those before it may end (None: none does)."""

    shape: Shape
    ends: int | None


@st.composite
def nodes(draw: st.DrawFn) -> NodeTopology:
    """Draw a node of up to four zones, with some CPUs reserved."""
    count = draw(st.integers(1, 4))
    some = st.lists(st.integers(0, 4), min_size=count, max_size=count)
    node = topology(
        draw(st.sampled_from(TopologyPolicy)),
        gpus=draw(some),
        cpus=[2 * cpus for cpus in draw(some)],
        gib=[2 * gib for gib in draw(some)],
        scope=draw(st.sampled_from(TopologyScope)),
        managers=Managers(draw(st.sampled_from((None, True, False))), draw(st.booleans())),
    )
    reserved = 1000 * draw(st.integers(0, 1))
    zones = tuple(_with_capacity(zone, reserved) for zone in node.zones)
    return replace(node, zones=zones)


def _with_capacity(zone: Zone, reserved: int) -> Zone:
    return replace(zone, capacity={**zone.allocatable, "cpu": zone.allocatable["cpu"] + reserved})


@st.composite
def arrivals(draw: st.DrawFn) -> list[Arrival]:
    """Draw a history of pods."""
    shapes = st.lists(_containers, min_size=1, max_size=3).map(lambda containers: of(*containers))
    history = []
    for _ in range(draw(st.integers(1, 6))):
        shape = replace(draw(shapes), guaranteed=draw(st.booleans()))
        history.append(Arrival(shape, draw(st.none() | st.integers(0, 5))))
    return history


@share(2)
@given(nodes(), arrivals())
def test_the_prediction_is_what_the_kubelet_does(node: NodeTopology, history: list[Arrival]) -> None:
    """Admitted or not, and how much from which zone: for every pod of a history, with ends in between."""
    kubelet = TopologyManager(node)
    free = node.allocatable()
    running: list[str] = []
    for number, arrival in enumerate(history):
        uid = f"pod-{number}"
        verdict = admit(node, free, arrival.shape)
        error = _error(kubelet, uid, arrival.shape)
        if isinstance(verdict, TopologyRefusal):
            assert (error is not None, bool(verdict.message), kubelet.held(uid)) == (True, True, {})
            continue
        assert (error, kubelet.held(uid)) == (None, verdict.taken)
        _move(free, kubelet.held(uid), -1)
        running.append(uid)
        if arrival.ends is not None:
            ended = running.pop(arrival.ends % len(running))
            _move(free, kubelet.held(ended), 1)
            kubelet.release(ended)


def _error(kubelet: TopologyManager, uid: str, shape: Shape) -> AdmissionError | None:
    try:
        kubelet.admit(uid, shape)
    except AdmissionError as error:
        return error
    return None


def _move(free: dict[int, dict[str, int]], held: dict[int, dict[str, int]], sign: int) -> None:
    for zone, amounts in held.items():
        for resource, amount in amounts.items():
            free[zone][resource] += sign * amount
