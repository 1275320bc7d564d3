"""Occupancy: who holds which GPUs and zones, which nodes are alike, and what they offer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cluster.model import ClusterModel
from extender.cluster.noderoom import gpu_problems
from extender.cluster.occupancy import NO_NODE, Held, HoldingScope
from extender.cluster.table import NodeTable
from extender.hardware.links import Partitions
from extender.hardware.products import Products
from extender.objects import holdings
from extender.objects.keys import GPU_LINKS, HAMI_REGISTER
from extender.objects.node import Node
from extender.objects.nodetopology import NodeTopology, TopologyPolicy, Zone
from extender.objects.pod import Shape
from tests.cluster.conftest import GPU, node, shape, table_of, up_to_date
from tests.hardware.machines import product
from tests.hardware.nodes import guaranteed, topology

H100 = "NVIDIA-H100-80GB-HBM3"
PAIRS = "X NV2 SYS SYS; NV2 X SYS SYS; SYS SYS X NV2; SYS SYS NV2 X; numa 0 0 1 1"


def hgx(name: str = "n", **fields: Any) -> Node:
    """Return an HGX H100 node."""
    return node(name, gpus=8, **({"labels": {"nvidia.com/gpu.product": H100}} | fields))


def aligned(policy: TopologyPolicy = TopologyPolicy.RESTRICTED, *names: str) -> NodeTable:
    """Return a table of HGX nodes with zones of 4 GPUs and 16 CPUs and this policy."""
    table = table_of([hgx(name) for name in names or ("n",)])
    for name in names or ("n",):
        table.occupancy.put_topology(replace(topology(policy), node=name))
    return table


def gpus(table: NodeTable, uid: str) -> tuple[int, ...]:
    """Return the GPUs that a claim holds."""
    held = up_to_date(table).held(uid)
    return () if held is None else held.gpus


def state(table: NodeTable, name: str = "n", holding: HoldingScope = HoldingScope.ALL) -> int:
    """Return the number of a node's state."""
    row = table.row(name)
    assert row is not None
    return int(up_to_date(table).states(holding)[row])


def test_claims_get_the_best_sets_and_keep_them() -> None:
    """Each claim gets the best GPUs that are free and keeps them while others come and go."""
    table = table_of([node("n", gpus=4, annotations={GPU_LINKS: PAIRS})])
    table.claim("a", "n", shape(1))
    table.claim("b", "n", shape(2))
    assert (gpus(table, "a"), gpus(table, "b")) == ((0,), (2, 3))
    table.release("a")
    table.claim("c", "n", shape(1))
    assert (gpus(table, "b"), gpus(table, "c")) == ((2, 3), (0,))
    assert up_to_date(table).held("b") == Held((2, 3), (1,), observed=False)


def test_a_bound_pod_keeps_what_its_reservation_had() -> None:
    """When the claim of a reservation becomes that of the bound pod, it keeps its GPUs."""
    table = table_of([hgx()])
    table.claim("a", "n", shape(2))
    table.claim("b", "n", shape(2))
    assert gpus(table, "b") == (2, 3)
    table.claim("b", "n", shape(2), predicted=holdings.DeviceHolding((2, 3)))
    table.release("a")
    assert gpus(table, "b") == (2, 3)


def test_saying_what_a_bound_pod_holds_changes_nothing() -> None:
    """A pod that is bound with its prediction takes what its promise took: nothing has to be worked out again."""
    table = table_of([hgx()])
    table.claim("a", "n", shape(2))
    table.claim("b", "n", shape(2))
    before, generation = state(table), table.generation
    assert not table.claim("a", "n", shape(2), predicted=holdings.DeviceHolding((0, 1)))
    assert (table.generation, table.occupancy.changed) == (generation, {})
    assert [claim.predicted for _, claim in table.claims_on("n")] == [holdings.DeviceHolding((0, 1)), None]
    assert state(table) == before
    # Of one that waits for the rest of its GPUs it matters.
    table.claim("c", "n", shape(6))
    assert state(table) != before
    assert table.claim("c", "n", shape(6), predicted=holdings.DeviceHolding((2, 3)))
    assert table.occupancy.changed == {"n": None}


def test_claims_without_gpus_hold_nothing() -> None:
    """A pod that asks for no GPUs holds none and leaves its node in the state of an empty one."""
    table = table_of([hgx()])
    table.claim("a", "n", shape(0))
    assert up_to_date(table).held("a") is None
    assert state(table) == state(table, holding=HoldingScope.NONE)
    assert up_to_date(table).held("nobody") is None


def test_equal_nodes_share_a_state() -> None:
    """Nodes with equal GPUs, equally free, are in one state; others, and other kinds, are not."""
    table = table_of([hgx("a"), hgx("b"), node("c", gpus=8), node("d")])
    assert state(table, "a") == state(table, "b")
    assert len({state(table, name) for name in "acd"}) == 3
    table.claim("pod", "a", shape(2))
    assert state(table, "a") != state(table, "b")
    table.claim("other", "b", shape(2))
    assert state(table, "a") == state(table, "b")


def test_one_claim_changes_one_state() -> None:
    """However many nodes are alike, they are in one state, and a claim takes its node alone out of it."""
    table = table_of([hgx(f"n{index}") for index in range(300)])
    before = up_to_date(table).states(HoldingScope.ALL).copy()
    table.claim("pod", "n150", shape(2))
    after = up_to_date(table).states(HoldingScope.ALL)
    assert len(set(before.tolist())) == 1
    assert np.flatnonzero(after != before).tolist() == [table.row("n150")]


def test_rows_without_node_have_no_state() -> None:
    """A row that a node has left is in no state until another one takes it."""
    table = table_of([hgx("a"), hgx("b")])
    before = state(table, "a")
    table.remove("a")
    assert up_to_date(table).states(HoldingScope.ALL).tolist() == [NO_NODE, before]
    table.upsert(hgx("c"))
    assert up_to_date(table).empty_states().tolist() == [before, before]


def test_only_lasting_claims_count_in_the_potential() -> None:
    """The lasting state is without what can end; lasting claims keep the GPUs that they have."""
    table = table_of([hgx("n"), hgx("other")])
    table.claim("job", "n", shape(2))
    table.claim("daemon", "n", shape(2), lasting=True)
    assert gpus(table, "daemon") == (2, 3)
    table.claim("same", "other", shape(2), lasting=True, observed=holdings.DeviceHolding((2, 3)))
    assert (
        state(table, holding=HoldingScope.LASTING)
        == state(table, "other", HoldingScope.LASTING)
        == state(table, "other")
    )
    assert state(table, holding=HoldingScope.NONE) == state(table, "other", HoldingScope.NONE)


def test_observed_gpus_go_before_predictions() -> None:
    """What a pod was seen to hold is its own; whoever was predicted to have it gets others."""
    table = table_of([hgx()])
    table.claim("a", "n", shape(2))
    assert gpus(table, "a") == (0, 1)
    table.claim("b", "n", shape(2), observed=holdings.DeviceHolding((1, 2)))
    assert up_to_date(table).held("b") == Held((1, 2), (), observed=True)
    assert not {1, 2} & set(gpus(table, "a"))
    assert len(gpus(table, "a")) == 2


def test_observed_uuids_are_looked_up_in_the_register() -> None:
    """GPUs that were seen by UUID are those that HAMi's register of the node has at that place."""
    register = ":".join(f"GPU-{letter},10,1,100,V100,{zone},true" for letter, zone in zip("wxyz", "0011", strict=True))
    table = table_of([node("n", gpus=4, annotations={HAMI_REGISTER: register})])
    table.claim("a", "n", shape(2), observed=holdings.DeviceHolding(uuids=("GPU-y", "GPU-z", "GPU-elsewhere")))
    assert up_to_date(table).held("a") == Held((2, 3), (1,), observed=True)


def test_observed_zones_narrow_the_guess() -> None:
    """Of a pod that was seen in a zone the GPUs are guessed there."""
    table = aligned()
    table.claim("a", "n", shape(2), observed=holdings.DeviceHolding(zones=(1,)))
    assert up_to_date(table).held("a") == Held((4, 5), (1,), observed=True)


def test_predictions_survive_a_restart() -> None:
    """A pod that carries its prediction gets that again, whoever else asks; one that cannot be true is dropped."""
    table = table_of([hgx()])
    table.claim("new", "n", shape(2))
    table.claim("old", "n", shape(2), predicted=holdings.DeviceHolding((0, 1)))
    table.claim("clash", "n", shape(2), predicted=holdings.DeviceHolding((1, 5)))
    table.claim("wrong", "n", shape(2), predicted=holdings.DeviceHolding((6,)))
    assert gpus(table, "old") == (0, 1)
    assert gpus(table, "new") == (2, 3)
    assert sorted(gpus(table, "clash") + gpus(table, "wrong")) == [4, 5, 6, 7]


def test_overcommitted_nodes_give_what_they_have() -> None:
    """Others may have put more on a node than it has: who is late gets what is left, and more when there is more."""
    table = table_of([hgx()])
    for uid, number in (("a", 1), ("b", 5), ("c", 4), ("d", 1)):
        table.claim(uid, "n", shape(number))
    assert [len(gpus(table, uid)) for uid in "abcd"] == [1, 5, 2, 0]
    had = set(gpus(table, "c"))
    table.release("a")
    assert [len(gpus(table, uid)) for uid in "bcd"] == [5, 3, 0]
    table.release("b")
    assert [len(gpus(table, uid)) for uid in "cd"] == [4, 1]
    assert had < set(gpus(table, "c"))


def test_nodes_come_after_their_pods() -> None:
    """Claims on a node that is not there yet hold GPUs once it appears, and none after it is gone."""
    table = NodeTable()
    table.claim("a", "n", shape(2))
    assert up_to_date(table).held("a") is None
    table.upsert(hgx())
    assert gpus(table, "a") == (0, 1)
    table.remove("n")
    assert up_to_date(table).held("a") is None


def test_offer_of_an_empty_board() -> None:
    """An empty HGX board takes eight pods of one GPU; every figure is there for each number of pods."""
    table = table_of([hgx()])
    offer = up_to_date(table).offer(state(table), shape(1), 20)
    assert (offer.pods, offer.gpus, offer.nvls) == (8, 1, True)
    assert offer.product == product(H100)
    assert list(offer.inner) == [inf, 365, 365, 365, 414, 436, 460, 475]
    assert offer.outer == pytest.approx([47 * pods for pods in range(1, 9)])
    assert offer.loss[0] == 365 + 365 + 475  # a pair, a quad and the eight
    assert offer.loss[-1] == 4 * 365 + 2 * 365 + 475
    assert up_to_date(table).offer(state(table), shape(1), 3).inner == (inf, 365, 365)


def test_offer_of_an_unknown_product_is_nominal() -> None:
    """GPUs that nobody knows are offered with nominal figures and without product, so that packing still counts."""
    table = table_of([node("n", gpus=4)])
    offer = up_to_date(table).offer(state(table), shape(2), 9)
    assert (offer.pods, offer.gpus, offer.nvls) == (2, 2, False)
    assert offer.product is None
    assert [*zip(offer.inner, offer.outer, offer.loss, strict=True)] == [(100, 25, 200), (100, 50, 300)]


def test_offer_without_gpus_is_no_limit() -> None:
    """A pod without GPUs is limited by columns alone; all nodes without alignment make the same offer."""
    table = table_of([hgx("n"), node("plain")])
    offer = up_to_date(table).offer(state(table), shape(0), 5)
    assert (offer.pods, offer.gpus, offer.inner, offer.outer, offer.loss) == (5, 0, (inf,) * 5, (inf,) * 5, (0.0,) * 5)
    assert up_to_date(table).offer(state(table, "plain"), shape(0), 5) is offer
    assert up_to_date(table).after(state(table), shape(0), 5) == state(table)


def test_shared_gpus_are_not_told_apart() -> None:
    """Where more GPUs are offered than any board has they are shared: they are counted by columns and nominal."""
    table = table_of([node("n", gpus=80)])
    table.claim("a", "n", shape(2))
    assert up_to_date(table).held("a") is None
    offer = up_to_date(table).offer(state(table), shape(2), 3)
    assert (offer.pods, offer.gpus, offer.inner, offer.loss) == (3, 2, (100, 100, 100), (0, 0, 0))


def test_slices_are_counted_by_zone() -> None:
    """Slices of GPUs are devices of their zone: what does not fit into one is refused, none is told from another."""
    slices = "nvidia.com/mig-1g.10gb"
    table = table_of([Node("n", allocatable={"cpu": 32_000, slices: 14})])
    zones = tuple(Zone(zone, f"node-{zone}", {"cpu": 16_000, slices: 7}) for zone in (0, 1))
    table.occupancy.put_topology(NodeTopology("n", TopologyPolicy.SINGLE_NUMA_NODE, zones=zones))
    five = Shape((("cpu", 1000), (slices, 5)))
    assert up_to_date(table).offer(state(table), five, 9).pods == 2
    table.claim("a", "n", five)
    assert up_to_date(table).held("a") == Held((), (0,), observed=False)
    assert up_to_date(table).offer(state(table), five, 9).pods == 1
    assert up_to_date(table).offer(state(table), Shape(((slices, 8),)), 9).pods == 0


@pytest.mark.parametrize("policy", TopologyPolicy)
def test_after_is_where_claims_lead(policy: TopologyPolicy) -> None:
    """The state that `after` foretells is the one that the node is in once these pods are there."""
    table = aligned(policy)
    wanted = guaranteed(2, 6)
    foretold = up_to_date(table).after(state(table), wanted, 3)
    for index in range(3):
        table.claim(f"pod-{index}", "n", wanted)
    assert state(table) == foretold
    assert up_to_date(table).after(foretold, wanted, 9) == up_to_date(table).after(foretold, wanted, 1) != foretold


def test_restricted_nodes_refuse_scattered_gpus() -> None:
    """With two GPUs free in each zone a restricted node offers nothing to a pod of four, a best-effort node does."""
    for policy, pods in ((TopologyPolicy.RESTRICTED, 0), (TopologyPolicy.BEST_EFFORT, 1), (TopologyPolicy.NONE, 1)):
        table = aligned(policy)
        table.claim("a", "n", shape(2), observed=holdings.DeviceHolding((0, 1)))
        table.claim("b", "n", shape(2), observed=holdings.DeviceHolding((4, 5)))
        assert up_to_date(table).offer(state(table), shape(4), 9).pods == pods
        assert up_to_date(table).offer(state(table), shape(2), 9).pods == 2


def test_cpus_of_zones_count_on_aligned_nodes() -> None:
    """Guaranteed pods take CPUs of their zone: what is left there decides, though the node as a whole has enough."""
    table = aligned()
    assert up_to_date(table).concerns(shape(0))
    table.claim("a", "n", guaranteed(0, 12))
    assert up_to_date(table).held("a") == Held((), (0,), observed=False)
    assert up_to_date(table).offer(state(table), guaranteed(1, 8), 9).pods == 2  # both in zone 1
    table.claim("b", "n", guaranteed(2, 8))
    assert up_to_date(table).held("b") == Held((4, 5), (1,), observed=False)
    assert up_to_date(table).offer(state(table), guaranteed(4, 4), 9).pods == 1
    assert up_to_date(table).offer(state(table), guaranteed(0, 20), 9).pods == 0
    cpus = up_to_date(table).offer(state(table), guaranteed(0, 4), 9)
    assert (cpus.pods, cpus.gpus, set(cpus.inner), set(cpus.outer), set(cpus.loss)) == (3, 0, {inf}, {inf}, {0.0})


def test_pods_that_take_no_zone_are_no_limit() -> None:
    """A pod of which the kubelet aligns nothing changes nothing on an aligned node."""
    table = aligned()
    offer = up_to_date(table).offer(state(table), shape(0), 7)
    assert (offer.pods, offer.gpus) == (7, 0)
    table.claim("a", "n", shape(0))
    assert state(table) == state(table, holding=HoldingScope.NONE)
    assert up_to_date(table).held("a") is None


def test_pods_that_the_kubelet_should_have_refused_are_counted() -> None:
    """A pod that runs although the prediction refuses it holds what there is."""
    table = aligned()
    for uid, seen in (("a", (0, 1)), ("b", (4, 5))):
        table.claim(uid, "n", guaranteed(2, 4), observed=holdings.DeviceHolding(seen))
    table.claim("c", "n", guaranteed(4, 6))
    assert up_to_date(table).held("c") == Held((2, 3, 6, 7), (0, 1), observed=False)
    table.claim("d", "n", guaranteed(4, 60))
    assert up_to_date(table).held("d") is None
    assert up_to_date(table).offer(state(table), guaranteed(1, 1), 9).pods == 0


def test_observed_pods_take_the_cpus_of_their_zone() -> None:
    """A pod that was seen in zone 1 takes its CPUs there, even if it was predicted elsewhere."""
    table = aligned()
    table.claim("a", "n", guaranteed(2, 12))
    assert up_to_date(table).held("a") == Held((0, 1), (0,), observed=False)
    table.claim("a", "n", guaranteed(2, 12), observed=holdings.DeviceHolding((4, 5), (1,)))
    table.claim("b", "n", guaranteed(2, 12))
    assert up_to_date(table).held("b") == Held((0, 1), (0,), observed=False)


def test_zones_that_do_not_add_up_are_distrusted() -> None:
    """Zones whose GPUs are not the node's are left out for GPUs, and the reason can be asked for."""
    table = table_of([hgx()])
    table.occupancy.put_topology(replace(topology(TopologyPolicy.RESTRICTED, gpus=(4, 0)), node="n"))
    assert "the zones have 4+0, the node 8" in up_to_date(table).distrust("n")
    assert up_to_date(table).offer(state(table), shape(8), 9).pods == 1
    table.occupancy.drop_topology("n")
    table.occupancy.drop_topology("n")
    assert up_to_date(table).distrust("n") == ""
    assert up_to_date(table).distrust("nobody") == ""
    assert up_to_date(table).topology("n") is None


def test_zones_may_come_after_the_pods() -> None:
    """When zones become known, running pods keep their GPUs, and their CPUs are counted in these GPUs' zones."""
    table = table_of([hgx()])
    table.claim("a", "n", guaranteed(4, 4), observed=holdings.DeviceHolding((4, 5, 6, 7)))
    table.claim("b", "n", guaranteed(2, 10))
    assert gpus(table, "b") == (0, 1)
    table.occupancy.put_topology(replace(topology(TopologyPolicy.RESTRICTED), node="n"))
    assert up_to_date(table).held("b") == Held((0, 1), (0,), observed=False)
    assert up_to_date(table).offer(state(table), guaranteed(2, 8), 9).pods == 0
    assert up_to_date(table).offer(state(table), guaranteed(2, 6), 9).pods == 1
    assert up_to_date(table).topology("n") is not None


def test_zones_of_gpus_come_from_whoever_knows_best() -> None:
    """An annotation that agrees with the zones' counts says which GPU is where; otherwise they are numbered through."""
    crossed = node(
        "n", gpus=4, annotations={GPU_LINKS: "X PIX PIX PIX; PIX X PIX PIX; PIX PIX X PIX; PIX PIX PIX X; numa 1 0 1 0"}
    )
    for counts, expected in (((2, 2), (1, 3)), ((3, 1), (0, 1)), ((4, 4), (1, 3))):
        table = table_of([crossed])
        table.occupancy.put_topology(replace(topology(TopologyPolicy.NONE, gpus=counts), node="n"))
        table.claim("a", "n", shape(2), observed=holdings.DeviceHolding(zones=(0,)))
        assert gpus(table, "a") == expected


def test_partitions_bound_what_is_offered() -> None:
    """Where the fabric manager's partitions are honoured, broken ones take no pod that needs them whole."""
    labels = {"nvidia.com/gpu.product": H100, "node.koordinator.sh/gpu-partition-policy": "Honor"}
    table = table_of([hgx(labels=labels)])
    pairs = Partitions(tuple(frozenset((first, first + 1)) for first in (0, 2, 4, 6)))
    table.occupancy.put_partitions("n", pairs)
    for gpu in (0, 2, 4):
        table.claim(f"single-{gpu}", "n", shape(1), observed=holdings.DeviceHolding((gpu,)))
    assert up_to_date(table).offer(state(table), shape(2), 9).pods == 1
    table.claim("pair", "n", shape(2))
    table.claim("forced", "n", shape(2))
    assert (gpus(table, "pair"), gpus(table, "forced")) == ((6, 7), (1, 3))
    table.occupancy.drop_partitions("n")
    table.occupancy.drop_partitions("n")
    table.release("forced")
    assert up_to_date(table).offer(state(table), shape(2), 9).pods == 1


def test_bad_annotations_are_problems_of_the_node() -> None:
    """Links that cannot be read, or are of another number of GPUs, are said and left out."""
    bad = node("bad", gpus=4, annotations={GPU_LINKS: "X"})
    assert [str(problem) for problem in gpu_problems(bad)] == ["metadata.annotations: links of 1 GPUs; the node has 4"]
    assert "row 0, column 0" in str(gpu_problems(node("worse", gpus=4, annotations={GPU_LINKS: "Y"}))[0])
    assert gpu_problems(node("good", gpus=4)) == ()
    model = ClusterModel(["muster"])
    model.put_node(bad)
    assert [str(about) for about in model.problems()] == ["Node bad"]
    model.put_node(node("bad", gpus=1, annotations={GPU_LINKS: "X"}))
    assert model.problems() == {}


def test_new_products_change_the_offers() -> None:
    """With another table of products offers are made anew, and what is held stays."""
    table = table_of([hgx()])
    table.claim("a", "n", shape(2), observed=holdings.DeviceHolding((6, 7)))
    before = state(table)
    products = Products()
    table.occupancy.products = products
    assert table.occupancy.products is products
    assert state(table) != before
    assert gpus(table, "a") == (6, 7)
    assert up_to_date(table).offer(before, shape(2), 9) == up_to_date(table).offer(state(table), shape(2), 9)


def test_many_states_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a bound states are worked out anew; held GPUs stay, and numbers in use before still mean the same."""
    monkeypatch.setattr("extender.cluster.occupancy._STATES_BYTES", 1500)
    table = table_of([hgx()])
    numbers = []
    for index in range(8):
        table.claim(f"pod-{index}", "n", shape(1))
        numbers.append(state(table))
    assert len(set(numbers)) == 8
    assert [gpus(table, f"pod-{index}") for index in range(8)] == [(index,) for index in range(8)]
    assert up_to_date(table).offer(numbers[-2], shape(1), 9).pods == 1


def test_share_of_several_pods() -> None:
    """What pods have of a node together is that of the union of their GPUs, and what it would be worth to others."""
    table = table_of([hgx(), node("plain")])
    for uid in "abc":
        table.claim(uid, "n", shape(2))
    share = up_to_date(table).share("n", ["a", "b", "nobody"])
    assert share is not None
    assert (share.gpus, share.inner, share.outer, share.others) == (4, 365, 188, True)
    assert share.lost == 2 * 365 + 365
    assert share.product == product(H100)
    alone = up_to_date(table).share("n", "abc")
    assert alone is not None
    assert (alone.gpus, alone.others) == (6, False)
    assert up_to_date(table).share("plain", "abc") is up_to_date(table).share("gone", "abc") is None


def test_amd_gpus_are_gpus() -> None:
    """Whole GPUs of AMD's device plugin are told apart as NVIDIA's are."""
    table = table_of(
        [Node("n", allocatable={"amd.com/gpu": 8}, labels={"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"})]
    )
    table.claim("a", "n", Shape((("amd.com/gpu", 2),)))
    assert gpus(table, "a") == (0, 1)
    offer = up_to_date(table).offer(state(table), Shape((("amd.com/gpu", 2),)), 9)
    assert (offer.pods, offer.gpus) == (3, 2)


def test_claims_without_gpus_touch_nothing() -> None:
    """Pods without GPUs on nodes that align nothing do not make their nodes be looked at again."""
    table = table_of([hgx()])
    before = up_to_date(table).states(HoldingScope.ALL)
    for index in range(100):
        table.claim(f"pod-{index}", "n", shape(0))
    assert np.shares_memory(up_to_date(table).states(HoldingScope.ALL), before)
    assert not up_to_date(table).concerns(shape(0))
    assert up_to_date(table).concerns(shape(1))


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["claim", "release", "observe", "predict", "ask"]),
        st.sampled_from("abcdef"),
        st.sampled_from(["n", "m"]),
        st.integers(0, 5),
        st.booleans(),
    ),
    max_size=25,
)


def play(table: NodeTable, steps: Sequence[tuple[str, str, str, int, bool]]) -> Mapping[str, tuple[str, Shape, bool]]:
    """Let a history happen; return the claims that stand."""
    standing: dict[str, tuple[str, Shape, bool]] = {}
    for what, uid, name, number, lasting in steps:
        if what == "ask":
            up_to_date(table).states(HoldingScope.ALL)
        elif what == "release":
            table.release(uid)
            standing.pop(uid, None)
        elif what == "predict":
            if uid in standing:
                there, wanted, lasts = standing[uid]
                said, known = holdings.DeviceHolding((number, number + 1)), table.claim_of(uid)
                seen = None if known is None else known.observed
                table.claim(uid, there, wanted, lasting=lasts, observed=seen, predicted=said)
        else:
            seen = holdings.DeviceHolding((number, number + 1)) if what == "observe" else None
            wanted = guaranteed(2 if what == "observe" else number, 1 + number)
            table.claim(uid, name, wanted, lasting=lasting, observed=seen)
            standing[uid] = (name, wanted, lasting)
    return standing


@given(
    STEPS,
    st.sampled_from([None, TopologyPolicy.RESTRICTED, TopologyPolicy.BEST_EFFORT, TopologyPolicy.SINGLE_NUMA_NODE]),
)
def test_held_sets_never_overlap(
    steps: Sequence[tuple[str, str, str, int, bool]], policy: TopologyPolicy | None
) -> None:
    """Whatever happens, no GPU is predicted for two pods, and every pod gets its number while there are enough."""
    table = table_of([hgx("n"), hgx("m")]) if policy is None else aligned(policy, "n", "m")
    standing = play(table, steps)
    for name in ("n", "m"):
        here = {uid: wanted for uid, (where, wanted, _) in standing.items() if where == name}
        held = [each for uid in here if (each := up_to_date(table).held(uid)) is not None]
        seen = {gpu for each in held if each.observed for gpu in each.gpus}
        predicted = [gpu for each in held if not each.observed for gpu in each.gpus]
        assert len(predicted) == len(set(predicted))
        assert not seen & set(predicted)
        if sum(wanted.request(GPU) for wanted in here.values()) <= 8:
            assert all(len(gpus(table, uid)) == wanted.request(GPU) for uid, wanted in here.items())


@given(STEPS)
def test_states_follow_from_what_is_held(steps: Sequence[tuple[str, str, str, int, bool]]) -> None:
    """A node's states are those of a fresh node whose pods were seen to hold the same GPUs, however it came to that."""
    table = table_of([hgx("n"), hgx("m"), hgx("like-n"), hgx("like-m")])
    for uid, (name, wanted, lasting) in play(table, steps).items():
        if held := gpus(table, uid):
            table.claim(f"like-{uid}", f"like-{name}", wanted, lasting=lasting, observed=holdings.DeviceHolding(held))
    for name in ("n", "m"):
        for holding in HoldingScope:
            assert state(table, name, holding) == state(table, f"like-{name}", holding)


def test_the_worked_example_of_occupancy() -> None:
    """What claims hold, which nodes are in one state, and what a state offers, as `occupancy.py` shows it."""
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    table = table_of([node("n1", 8, labels=labels), node("n2", 8, labels=labels), node("cpu")])
    occupancy = table.occupancy

    def look(*pods: str) -> tuple[list[int], list[tuple[int, ...]]]:
        occupancy.refresh()
        states = occupancy.states(HoldingScope.ALL).tolist()
        return states, [held.gpus for pod in pods if (held := occupancy.held(pod)) is not None]

    table.claim("x", "n1", shape(4))
    table.claim("y", "n2", shape(2))
    table.claim("z", "n2", shape(2))
    assert look("x", "y", "z") == ([1, 1, 3], [(0, 1, 2, 3), (0, 1), (2, 3)])
    table.release("y")
    after, gpus = look("x", "z")
    assert (after[0], after[2], gpus) == (1, 3, [(0, 1, 2, 3), (2, 3)])
    table.claim("v", "n2", shape(4))
    last, gpus = look("z", "v")
    assert gpus == [(2, 3), (4, 5, 6, 7)]
    assert (after[1], last[1]) == (4, 5)
    offer = occupancy.offer(1, shape(2), 4)
    assert (offer.pods, offer.inner, offer.outer, offer.loss) == (2, (365, 365), (94, 188), (730, 1095))
