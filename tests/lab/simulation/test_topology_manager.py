"""The simulated Topology Manager merges hints as the kubelet does, in the kubelet's own cases."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.objects.nodetopology import Managers, TopologyPolicy
from extender.objects.pod import Shape
from muster_lab.simulation.hints import AdmissionError, Hint
from muster_lab.simulation.topology_manager import TopologyManager, merge
from tests.builders import GPU
from tests.hardware.nodes import GIB, burstable, guaranteed, topology

EVERYWHERE = frozenset(range(4))


def yes(*zones: int) -> Hint:
    """Return a preferred hint."""
    return Hint(frozenset(zones), preferred=True)


def no(*zones: int) -> Hint:
    """Return a hint that is not preferred."""
    return Hint(frozenset(zones), preferred=False)


ANY = Hint(None, preferred=True)
NONE = Hint(None, preferred=False)


@pytest.mark.parametrize(
    ("providers", "expected"),
    [
        pytest.param([[ANY]], yes(0, 1, 2, 3), id="nobody cares"),
        pytest.param([[NONE]], no(0, 1, 2, 3), id="nobody can"),
        pytest.param([[yes(0)], [yes(0)]], yes(0), id="same mask, both preferred"),
        pytest.param([[yes(0)], [yes(1)]], no(0, 1, 2, 3), id="nothing in common"),
        pytest.param([[yes(0), yes(1)], [yes(1)]], yes(1), id="one in common"),
        pytest.param([[yes(1)], [no(1)]], no(1), id="same mask, one preferred"),
        pytest.param([[yes(1)], [yes(0, 1)]], no(1), id="one wider, both preferred"),
        pytest.param([[yes(0), yes(1)], [ANY]], yes(0), id="one without preference"),
        pytest.param([[yes(0), yes(1)], [NONE]], no(0), id="one without possibility"),
        pytest.param([[yes(0, 1), yes(2)], [yes(0, 1), yes(2)]], yes(2), id="the narrower of two"),
        pytest.param([[no(0, 1, 2, 3), no(0, 1)], [no(0, 1)]], no(0, 1), id="aim (1)"),
        pytest.param([[no(0, 1, 2, 3), no(0, 1)], [no(0, 3)]], no(0, 3), id="aim (2)"),
        pytest.param([[no(0, 1, 2, 3), no(0, 1)], [no(1, 2)]], no(1, 2), id="aim (3)"),
        pytest.param([[no(0, 1, 2, 3), no(0, 1)], [no(2, 3)]], no(2, 3), id="aim (4)"),
        pytest.param([[no(0, 1, 2, 3), no(0, 1)], [no(1, 2), no(2, 3)]], no(1, 2), id="aim (5)"),
        pytest.param([[no(0, 1, 2, 3), no(0, 1)], [no(1, 2, 3), no(1, 2), no(1, 3), no(2, 3)]], no(1, 2), id="aim (6)"),
        pytest.param([[no(0, 1), no(2)], [no(0, 1, 2), no(2, 3)]], no(0, 1), id="wider than one, up to the aim"),
        pytest.param([[no(0, 1, 2)], [no(0, 1, 3), no(0, 2, 3)]], no(0, 1), id="lowest of those below the aim"),
    ],
)
def test_hints_are_merged_as_the_kubelet_does(providers: list[list[Hint]], expected: Hint) -> None:
    """Cases of the kubelet's policy tests, bestNonPreferredAffinityCount (1) to (6) among them."""
    assert merge(providers, EVERYWHERE) == expected


_hints = st.builds(
    Hint, st.none() | st.frozensets(st.integers(0, 3), min_size=1).map(frozenset), preferred=st.booleans()
)


@given(st.lists(st.lists(_hints, min_size=1, max_size=4), min_size=1, max_size=3))
def test_the_merged_hint_is_one_of_the_combinations(providers: list[list[Hint]]) -> None:
    """It is what one combination has in common, preferred only if that combination is of one preferred mask."""
    combined = set()
    for combination in product(*providers):
        masks = [hint.mask for hint in combination if hint.mask is not None]
        common = EVERYWHERE.intersection(*masks)
        combined.add(Hint(common, preferred=all(h.preferred for h in combination) and len(set(masks)) <= 1))
    best = merge(providers, EVERYWHERE)
    possible = {hint for hint in combined if hint.mask}
    assert best in (possible or {Hint(EVERYWHERE, preferred=False)})
    assert best.preferred is any(hint.preferred for hint in possible)


def test_a_failed_pod_leaves_nothing_behind() -> None:
    """What the first managers gave is taken back when a later one cannot follow."""
    node = topology(TopologyPolicy.NONE, gib=(8, 8), managers=Managers(memory_static=True))
    kubelet = TopologyManager(node)
    with pytest.raises(AdmissionError, match=r"UnexpectedAdmissionError: .*\[memorymanager\] failed"):
        kubelet.admit("a", guaranteed(4, 4, 17))
    assert kubelet.held("a") == {}
    kubelet.admit("b", guaranteed(8, 32, 16))
    assert kubelet.held("b") == {zone: {GPU: 4, "cpu": 16_000, "memory": 8 * GIB} for zone in range(2)}


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (burstable(9), "requested number of devices unavailable for nvidia.com/gpu. Requested: 9, Available: 8"),
        (guaranteed(1, 33), "not enough cpus available to satisfy request"),
    ],
)
def test_what_is_not_there_is_an_error_of_allocation(shape: Shape, message: str) -> None:
    """Without a policy the managers themselves say no."""
    with pytest.raises(AdmissionError) as refused:
        TopologyManager(topology(TopologyPolicy.NONE)).admit("a", shape)
    assert refused.value.reason == "UnexpectedAdmissionError"
    assert refused.value.message == f"Allocate failed due to {message}, which is unexpected"


def test_indices_count_through_the_zones() -> None:
    """The second pod's GPUs are those after the first one's; a pod without GPUs holds none."""
    kubelet = TopologyManager(topology())
    kubelet.admit("a", burstable(3))
    kubelet.admit("b", burstable(4))
    kubelet.admit("c", guaranteed(0, 2))
    held = [kubelet.gpus("a", burstable(3)), kubelet.gpus("b", burstable(4)), kubelet.gpus("c", guaranteed(0, 2))]
    assert held == [(0, 1, 2), (4, 5, 6, 7), ()]


def test_a_running_pod_keeps_what_it_is_known_to_hold() -> None:
    """Named GPUs and zones are taken as they are, across zones too, unnamed ones as they come, and none twice."""
    kubelet = TopologyManager(topology())
    kubelet.adopt("a", guaranteed(2, 4), (3, 5), (1,))
    kubelet.adopt("b", guaranteed(2, 40), (), ())
    kubelet.adopt("c", guaranteed(2, 0), (5, 6), ())
    assert kubelet.held("a") == {0: {GPU: 1}, 1: {GPU: 1, "cpu": 4_000}}
    assert kubelet.held("b") == {0: {GPU: 2}}
    assert kubelet.gpus("c", guaranteed(2)) == (6,)
