"""Small random clusters, and what every placement on them must satisfy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hypothesis import strategies as st

from extender.cluster.table import NodeTable
from extender.cluster.tree import build
from extender.objects.levels import Levels
from extender.objects.meta import Selector
from extender.objects.node import Node
from extender.objects.pod import Pod, Shape
from extender.objects.podspec import Taint, Toleration
from extender.placement.candidates import Candidates, Eligibility
from tests.cluster.conftest import GPU, node, shape, table_of
from tests.examples import share

#: What decides where gangs go draws more examples than others.
THOROUGH = share(1.5)

ZONE_A, ZONE_B = Selector(equals=(("zone", "a"),)), Selector(equals=(("zone", "b"),))
DEDICATED = Taint("dedicated", "gpu", "NoSchedule")
TOLERATES = (Toleration("dedicated", "Exists", "", ""),)

#: Names in an order that is neither that of the alphabet nor that of insertion, two of them with equal numbers.
NAMES = ("node-10", "node-9", "node-2", "node-02", "edge", "node-1")


@st.composite
def nodes(draw: st.DrawFn, *, max_gpus: int = 4, max_cpu: int = 6, plain: bool = False) -> list[Node]:
    """Draw up to six nodes of a few GPUs and CPUs; unless `plain`, with zones and taints."""
    found = []
    for name in draw(st.permutations(NAMES))[: draw(st.integers(1, len(NAMES)))]:
        labels = {} if plain else {"zone": draw(st.sampled_from("ab"))}
        taints = (DEDICATED,) if not plain and draw(st.integers(0, 3)) == 0 else ()
        cpu = 1000 * draw(st.integers(1, max_cpu))
        found.append(node(name, draw(st.integers(0, max_gpus)), cpu=cpu, pods=20, labels=labels, taints=taints))
    return found


@st.composite
def tables(draw: st.DrawFn) -> NodeTable:
    """Draw a table of such nodes, partly taken by others, overcommitted nodes included."""
    table = table_of(draw(nodes()))
    for index, each in enumerate(table.nodes()):
        taken = {"cpu": 1000 * draw(st.integers(0, 4)), GPU: draw(st.integers(0, 3)), "pods": 1}
        table.claim(f"other-{index}", each.name, Shape(tuple(taken.items())), lasting=draw(st.booleans()))
    return table


SHAPES = st.builds(
    shape,
    st.integers(0, 2),
    cpu=st.sampled_from([1000, 2000]),
    selector=st.sampled_from([Selector(), Selector(), ZONE_A, ZONE_B]),
    tolerations=st.sampled_from([(), TOLERATES]),
)


def ground_of(table: NodeTable, levels: Levels | None = None) -> Candidates:
    """Return the ground that a table is, with the levels of a network if any are given."""
    return Candidates(build(table, levels or Levels()), Eligibility(table).mask)


def admits(table: NodeTable, name: str, wanted: Shape) -> bool:
    """Tell by the nodes themselves whether pods of a shape may go to the node called `name`."""
    found = table.find(name)
    assert found is not None
    tolerated = all(any(t.tolerates(taint) for t in wanted.tolerations) for taint in found.taints)
    return tolerated and wanted.selector.matches(found.name, found.labels)


def room(table: NodeTable, name: str, wanted: Shape) -> int:
    """Count by the nodes and claims themselves how many pods of a shape the node called `name` still takes."""
    found = table.find(name)
    assert found is not None
    claims = [claim for _, claim in table.claims_on(name)]
    taken: Counter[str] = Counter()
    for claim in claims:
        taken.update(dict(claim.shape.requests))
    return max(min((found.allocatable.get(r, 0) - taken[r]) // amount for r, amount in wanted.requests), 0)


def check_placement(table: NodeTable, pods: Sequence[Pod], chosen: dict[str, str]) -> None:
    """Assert that every pod has one node that admits it, and that no node gives more than it has."""
    assert chosen.keys() == {pod.uid for pod in pods}
    for name in set(chosen.values()):
        guests = [pod for pod in pods if chosen[pod.uid] == name]
        assert all(admits(table, name, pod.shape) for pod in guests)
        row = table.row(name)
        for index, resource in enumerate(table.resources):
            asked = sum(pod.shape.request(resource) for pod in guests)
            assert asked == 0 or asked <= table.free()[index, row]
