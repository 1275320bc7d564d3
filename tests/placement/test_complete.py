"""Completeness: pods are placed whenever a placement exists, and it is never said otherwise without proof."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from extender.admission.attempts import MOST_SEARCHES
from extender.cluster.table import NodeTable
from extender.cluster.whatif import WhatIf
from extender.objects.levels import Level, Levels
from extender.objects.nodetopology import NodeTopology, TopologyPolicy, Zone
from extender.objects.pod import Pod, Shape
from extender.objects.topology import RoleGroup, Slice, TopologyRequest
from extender.placement.candidates import PlacementTerms
from extender.placement.complete.bundles import Bundle, gather, vocabularies
from extender.placement.complete.completesearch import GaveUp, SeatPlan
from extender.placement.complete.lastresort import place_completely
from extender.placement.complete.regions import NONE, RegionSum, Steps, combinations, holds
from extender.placement.plan import Plan, Shortfall, plan
from tests.cluster.conftest import GPU, node, pod, table_of, up_to_date
from tests.placement.conftest import ground_of
from tests.placement.exhaustive import LEVELS, TooManyWaysError, drawn
from tests.placement.planted import Planted, planted

RACKS = Levels((Level("rack", "rack"),))
#: Clusters in one test.
SHARE = 100


def compared(seeds: Iterable[int]) -> tuple[int, list[int], list[int]]:
    """Return how many of the clusters hold their gang, those of which the planner misses it, and illegal plans."""
    feasible, missed, illegal = 0, [], []
    for seed in seeds:
        question = drawn(seed)
        try:
            exists = question.exists()
        except TooManyWaysError:
            continue
        found = question.planned()
        feasible += exists
        if isinstance(found, Plan):
            illegal += [seed] if not exists or question.problems(found.nodes) else []
        else:
            missed += [seed] if exists or found.gave_up is not None else []
    return feasible, missed, illegal


@pytest.mark.parametrize("first", range(0, 5 * SHARE, SHARE))
def test_no_place_is_missed(first: int) -> None:
    """On small random clusters the planner says what trying every assignment says."""
    feasible, missed, illegal = compared(range(first, first + SHARE))
    assert (missed, illegal) == ([], [])
    assert feasible > SHARE // 5


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(1_000, 21_000, 1_000))
def test_no_place_is_missed_at_length(first: int) -> None:
    """The same of 20,000 clusters."""
    feasible, missed, illegal = compared(range(first, first + 1_000))
    assert (missed, illegal) == ([], [])
    assert feasible > 200


def looked_for(question: Planted) -> Plan | Shortfall:
    """Return what the planner says once the search has gone on for as long as it does."""
    candidates = replace(ground_of(question.table, LEVELS), memory={})
    for _ in range(MOST_SEARCHES - 1):
        found = plan(question.pods, WhatIf(question.table), candidates, question.terms)
        if isinstance(found, Plan) or found.gave_up is None:
            return found
    return plan(question.pods, WhatIf(question.table), candidates, question.terms)


def gave_up(seeds: Iterable[int]) -> int:
    """Return for how many of the gangs, all of which have a place, the search gives up; it misses none."""
    found = {seed: looked_for(question) for seed in seeds if (question := planted(seed)).pods}
    without = {seed: answer for seed, answer in found.items() if isinstance(answer, Shortfall)}
    assert [seed for seed, answer in without.items() if answer.gave_up is None] == []
    return len(without)


def test_no_place_is_missed_on_large_clusters() -> None:
    """A gang that nearly fills 40 to 200 nodes is placed, as it can be, or told that the search for a place gave up."""
    assert gave_up(range(25)) <= 2


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(100, 600, 100))
def test_no_place_is_missed_on_many_large_clusters(first: int) -> None:
    """The same of 500 clusters."""
    assert gave_up(range(first, first + 100)) <= 10


def of_role(role: str, count: int, gpus: int = 0, cpu: int = 1000) -> list[Pod]:
    """Return members with one role."""
    return [replace(pod(f"{role}-{index}", gpus, cpu=cpu), role=role) for index in range(count)]


def planned(table: NodeTable, pods: list[Pod], topology: TopologyRequest | None = None) -> Plan | Shortfall:
    """Plan on what is free."""
    return plan(pods, WhatIf(table), ground_of(table, RACKS), PlacementTerms(topology=topology or TopologyRequest()))


class TestWhatWasMissed:
    """Gangs for which the quick ways find no place."""

    def test_the_most_demanding_fill_a_node(self) -> None:
        """Two workers would go to one node, and leave the other to one of two servers."""
        table = table_of(node(f"n{index}", 8, cpu=32_000) for index in range(2))
        pods = [*of_role("worker", 2, gpus=4, cpu=14_000), *of_role("server", 2, cpu=18_000)]
        found = planned(table, pods)
        assert isinstance(found, Plan)
        nodes = {each.name: found.nodes[each.uid] for each in pods}
        assert nodes["worker-0"] != nodes["worker-1"]
        assert nodes["server-0"] != nodes["server-1"]

    def test_what_is_taken_is_what_is_planned(self) -> None:
        """The room of a plan stays taken, as of any other; where there is none nothing is."""
        table = table_of(node(f"n{index}", 8, cpu=32_000) for index in range(2))
        for servers in (2, 3):
            pods = [*of_role("worker", 2, gpus=4, cpu=14_000), *of_role("server", servers, cpu=18_000)]
            whatif = WhatIf(table)
            found = plan(pods, whatif, ground_of(table), PlacementTerms())
            taken = (table.free() - whatif.free).sum(axis=1)
            asked = [sum(each.shape.request(r) for each in pods) for r in table.resources]
            assert taken.tolist() == (asked if isinstance(found, Plan) else [0] * len(asked))

    def test_a_leader_breaks_slices(self) -> None:
        """The leader goes where the workers, two to a node, leave room."""
        nodes = [node("h1", cpu=2000, labels={"rack": "a"}), node("h2", cpu=3000, labels={"rack": "a"})]
        slices = (Slice(2, "node", frozenset({"worker"})),)
        pods = [*of_role("leader", 1), *of_role("worker", 4)]
        found = planned(table_of(nodes), pods, TopologyRequest(slices=slices))
        assert isinstance(found, Plan)
        assert found.nodes["uid-leader-0"] == "h2"

    def test_the_rest_of_a_slice(self) -> None:
        """What is left of the last slice may need the node that the first would take."""
        nodes = [node("a", cpu=3000), node("b", cpu=2000)]
        found = planned(table_of(nodes), of_role("w", 5), TopologyRequest(slices=(Slice(3, "node"),)))
        assert isinstance(found, Plan)

    def test_half_used_domains_before_a_free_one(self) -> None:
        """However many racks hold each role by itself, the one that holds both is found."""
        racks = [node(f"n{index}", cpu=4000, labels={"rack": f"r{index}"}) for index in range(40)]
        table = table_of([*racks, node("large", cpu=8000, labels={"rack": "large"})])
        pods = [*of_role("leader", 1, cpu=2000), *of_role("worker", 1, cpu=3000)]
        found = planned(table, pods, TopologyRequest(required="rack"))
        assert isinstance(found, Plan)
        assert set(found.nodes.values()) == {"large"}

    def test_a_node_without_a_domain_holds_no_slice(self) -> None:
        """Slices go to racks, and a node without one is in none."""
        table = table_of([node("stray", cpu=2000), node("n", cpu=2000, labels={"rack": "a"})])
        found = planned(table, of_role("w", 4), TopologyRequest(slices=(Slice(2, "rack"),)))
        assert isinstance(found, Shortfall)

    def test_the_order_in_which_a_kubelet_admits(self) -> None:
        """Zones of four GPUs take 3 + 1 and 2 + 2, if the kubelet may not split any pod between zones."""
        table = table_of([node("n", 8)])
        zones = tuple(Zone(index, f"node-{index}", {GPU: 4}, {GPU: 4}, {GPU: 4}) for index in range(2))
        table.occupancy.put_topology(NodeTopology("n", TopologyPolicy.SINGLE_NUMA_NODE, zones=zones))
        up_to_date(table)
        for threes, twos, ones, fits in ((1, 2, 1, True), (2, 1, 0, False), (1, 1, 2, True), (0, 4, 0, True)):
            pods = [*of_role("a", threes, gpus=3), *of_role("b", twos, gpus=2), *of_role("c", ones, gpus=1)]
            assert isinstance(planned(table, pods), Plan) == fits, (threes, twos, ones)


class TestGivingUp:
    """A search may do only so much at once."""

    def site(self, servers: int) -> tuple[NodeTable, list[Pod]]:
        """Return nodes of several kinds, and a gang of which the last server decides whether it fits."""
        table = table_of(node(f"n{index}", 8, cpu=24_000 + 8_000 * (index % 5)) for index in range(20))
        pods = [*of_role("worker", 40, gpus=3, cpu=11_000), *of_role("server", servers, cpu=5_000)]
        return table, pods

    @pytest.mark.parametrize(("servers", "fits"), [(64, True), (65, False)])
    def test_it_goes_on_where_it_gave_up(self, servers: int, *, fits: bool) -> None:
        """With few steps it says how far it came, and the next time it comes farther, until it knows."""
        table, pods = self.site(servers)
        candidates = replace(ground_of(table), memory={})
        answers = []
        for _ in range(500):
            found = place_completely(pods, WhatIf(table), candidates, PlacementTerms(), most=40_000)
            answers.append(found)
            if not isinstance(found, GaveUp):
                break
        assert isinstance(answers[0], GaveUp)
        assert 0 <= answers[0].nodes < answers[0].of == 20
        assert isinstance(answers[-1], SeatPlan) == fits
        assert not isinstance(answers[-1], GaveUp)

    def test_work_counts_and_not_time(self) -> None:
        """Equal questions get equal answers, with whatever steps."""
        table, pods = self.site(40)
        for most in (10_000, 100_000, 10_000_000):
            first, second = (
                place_completely(pods, WhatIf(table), ground_of(table), PlacementTerms(), most=most) for _ in range(2)
            )
            assert first == second


class TestRegions:
    """What nodes hold together."""

    def test_example(self) -> None:
        """`regions.py`: two nodes that each hold two servers, one of each or two workers."""
        one = np.array([2, 1, 0], dtype=np.int64)
        both = RegionSum(one, one, (2, 2)).finish(Steps(1 << 40))
        assert both.tolist() == [2, 2, 2]
        assert holds(both, (2, 2))
        assert combinations(both, 2) == [(2, 2)]

    @pytest.mark.parametrize("seed", range(40))
    def test_sums(self, seed: int) -> None:
        """What two regions hold together is every sum of a combination of the one and of the other, up to the caps."""
        random = np.random.default_rng(seed)
        kinds = int(random.integers(1, 4))
        caps = tuple(random.integers(1, 5, kinds).tolist())
        regions = []
        for _ in range(2):
            corner = random.integers(0, 4, kinds)
            cells = [c for c in product(*(range(int(each) + 1) for each in corner[:-1])) if c or kinds == 1]
            table = np.full([int(each) + 1 for each in corner[:-1]] or [1], NONE, dtype=np.int64)
            for cell in cells:
                table[cell or (0,)] = max(int(corner[-1]) - sum(cell), 0)
            regions.append(np.minimum(table, caps[-1])[tuple(slice(0, cap + 1) for cap in caps[:-1]) or (slice(0, 1),)])
        found = RegionSum(regions[0], regions[1], caps).finish(Steps(1 << 40))
        for wanted in product(*(range(cap + 1) for cap in caps)):
            sums = any(
                holds(regions[0], part)
                and holds(regions[1], tuple(each - own for each, own in zip(wanted, part, strict=True)))
                for part in product(*(range(each + 1) for each in wanted))
            )
            assert holds(found, wanted) == sums


class TestBundles:
    """What has to share a domain."""

    def test_example(self) -> None:
        """`bundles.py`: a leader, and workers in slices of two by node, all in one rack."""
        tree = ground_of(table_of([node("n", labels={"rack": "a"})]), RACKS).tree
        pods = [*of_role("leader", 1, cpu=500), *of_role("worker", 4)]
        for level, bundles in (("node", 2), ("rack", 0)):
            topology = TopologyRequest("rack", slices=(Slice(2, level, frozenset({"worker"})),))
            parcel, beside = gather(pods, topology, tree, within=0)
            assert sum(map(len, parcel.parcels.values())) == bundles
            assert sum(map(len, parcel.pods.values())) == 5 - 2 * bundles
            assert beside == (frozenset() if bundles else {0})

    def test_what_is_counted(self) -> None:
        """Outside a role's rack that is one bundle; in it its slices; in these its pods."""
        tree = ground_of(table_of([node("n", labels={"rack": "a"})]), RACKS).tree
        topology = TopologyRequest(slices=(Slice(2, "node"),), role_groups=(RoleGroup(frozenset({"worker"}), "rack"),))
        parcel, _ = gather([*of_role("worker", 4), *of_role("server", 2, cpu=500)], topology, tree, within=-1)
        outer, middle, inner = vocabularies(parcel, [0, 1])
        assert sorted(outer.caps) == [1, 1]
        assert sorted(middle.caps) == [1, 2]
        assert sorted(inner.caps) == [2, 4]
        assert all(isinstance(kind, Bundle) for kind in (*outer.kinds, *middle.kinds))
        assert all(isinstance(kind, Shape) for kind in inner.kinds)
