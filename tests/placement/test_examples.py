"""The worked examples in the comments of `placement` and `placement.backfill`: the code does what they say."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import numpy as np
import pytest
from numpy.typing import NDArray

from extender.cluster.table import NodeTable
from extender.cluster.tree import build
from extender.cluster.whatif import WhatIf
from extender.objects.levels import Level, Levels
from extender.objects.topology import Objective, TopologyRequest
from extender.placement.bags import Bag, Bags, Score, Wanted
from extender.placement.block import Block
from extender.placement.candidates import Candidates, Eligibility, PlacementTerms
from extender.placement.capacityview import Capacity, CapacityViews
from extender.placement.earmark import CapacityProfile
from extender.placement.ranking import best_single
from extender.placement.room import Field, field_of
from extender.placement.search import Search, assign
from tests.cluster.conftest import node, pod, shape, table_of
from tests.placement.backfill.conftest import found, site, workers
from tests.placement.conftest import ground_of

RACKS = Levels((Level("block", "block"), Level("rack", "rack")))
H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
#: GPUs that are free on each node of the example that most of the package shares.
FREE = {"aa0": 8, "aa1": 4, "ab0": 8, "ab1": 8}
RACK = 1
#: What the racks aa and ab of it consist of.
AA: Bag = (1, ((0, 1), (1, 1)), ())
AB: Bag = (1, ((0, 2),), ())


def cluster(free: Mapping[str, int]) -> NodeTable:
    """Return H100 nodes with so many GPUs free; the first two letters of a name are its rack, the first its block."""
    table = table_of(node(name, 8, labels=H100 | {"block": name[0], "rack": name[:2]}) for name in free)
    for name, gpus in free.items():
        if gpus < 8:
            table.claim(f"other-{name}", name, shape(8 - gpus))
    return table


def search_of(free: Mapping[str, int], pods: int, gpus: int) -> Search:
    """Return the search for so many pods of so many GPUs."""
    field = field_on(cluster(free), gpus)
    wanted = Wanted(pods, pods * gpus, Objective.ALLREDUCE)
    return Search(field, wanted, [], np.full(field.rows.shape[0], -1))


def field_on(table: NodeTable, gpus: int) -> Field:
    """Return where pods of so many GPUs can go."""
    candidates, asked = ground_of(table, RACKS), shape(gpus)
    return field_of(WhatIf(table), candidates.tree, asked, candidates.eligible(asked), {})


def everywhere(search: Search) -> NDArray[np.bool_]:
    """Return the mask of all nodes."""
    return np.ones(search.field.rows.shape[0], dtype=np.bool_)


def test_what_islands_do_with_pods() -> None:
    """`room.py`: the tables of a node with 8 GPUs free, and of one with 4."""
    field = field_on(cluster(FREE), 4)
    assert field.kinds.tolist() == [0, 1, 0, 0]
    whole, half = field.units
    assert (whole.cap, whole.inner, whole.outer, whole.loss) == (2, (inf, 365, 475), (inf, 188, 376), (0, 1570, 2665))
    assert (half.cap, half.inner, half.outer, half.loss) == (1, (inf, 365), (inf, 188), (0, 1095))


@pytest.mark.parametrize(
    ("level", "score"),
    [(1, (11_294_312, -119, 3760)), (0, (11_464_040, -118, 3760)), (-1, (12_025_860, -115, 3760))],
)
def test_the_best_domain_of_each_level(level: int, score: tuple[int, int, int]) -> None:
    """`search.py`: rack, block and cluster for 3 pods of 4 GPUs; no node has the room, and the rack is the best."""
    search = search_of(FREE, 3, 4)
    (best,) = search.best([level], everywhere(search))
    assert best.score == score
    assert not search.best([2], everywhere(search))
    assert search.best(range(-1, 3), everywhere(search))[0].level == RACK


def test_racks_are_bags() -> None:
    """`bags.py`: two islands for 2 + 1 pods are faster than three or more would be, and lose less in rack aa."""
    search = search_of(FREE, 3, 4)
    bags = Bags(search.units, search.wanted, search.field.tree)
    assert bags.pair(AA, RACK) == Score(11_294_312, -119, 3760)
    assert bags.pair(AB, RACK) == Score(12_292_287, -119, 4235)
    assert [bags.steps_of(0, 2, RACK)[1:], bags.steps_of(1, 2, RACK)[1:]] == [(119, 126), (119,)]
    assert [bags.steps_of(0, 3, RACK)[1:], bags.steps_of(1, 3, RACK)[1:]] == [(107, 121), (107,)]
    assert bags.many(AA, RACK, None) == (Score(13_995_888, -107, 3760), 3)


def test_pods_are_shared_out_in_the_chosen_rack() -> None:
    """`assign.py`: 5 pods of 2 GPUs are 2 and 3, on the nodes that lose least by it."""
    search = search_of({"aa0": 8, "aa1": 8, "aa2": 6, "ab0": 8, "ab1": 4}, 5, 2)
    (choice,) = search.best([RACK], everywhere(search))
    assert [search.allowed(kind, choice) for kind in (0, 1)] == [[2, 3, 4], [2, 3]]
    assert (search.units[0].loss[2], search.units[1].loss[3]) == (1570, 1460)
    assert (search.units[0].loss[4] + search.units[1].loss[1], choice.score.loss) == (3030, 3030)
    assert assign(search, choice) == [(0, 2), (2, 3)]


def test_a_block_tries_one_rack_after_the_other() -> None:
    """`block.py`: the rack that is best for the workers has no room for the launcher then, the next one has."""
    table = cluster(FREE)
    table.upsert(node("ab2", labels={"block": "a", "rack": "ab"}))
    whatif = WhatIf(table)
    block = Block(whatif, ground_of(table, RACKS), PlacementTerms(topology=TopologyRequest(required="rack")))
    gang, launcher = [pod(f"w{number}", 4, cpu=8000) for number in range(3)], pod("launcher", cpu=60_000)
    assert block.place({gang[0].shape: gang, launcher.shape: [launcher]})
    places = {uid: table.node(row).name for uid, row in block.rows.items()}
    assert places == {"uid-w0": "ab0", "uid-w1": "ab0", "uid-w2": "ab1", "uid-launcher": "ab2"}
    assert block.fragmentation == 4235


def test_starts_follow_from_ends() -> None:
    """`backfill/start.py`: 3 pods start when the first work ends, 5 when the second does."""
    here = site(3)
    here.run("one", 100, a_0=8)
    here.run("two", 300, a_1=8)
    here.run("three", None, a_2=4)
    soon, later = found(here.start(workers(3, 4))), found(here.start(workers(5, 4)))
    assert (soon.at, soon.because, here.gpus(soon.kept)) == (100, "one", {"a-2": 4})
    assert soon.nodes == {"uid-w-0": "a-0", "uid-w-1": "a-0", "uid-w-2": "a-2"}
    assert (later.at, later.because) == (300, "two")


def test_starts_leave_each_other_alone() -> None:
    """`backfill/gap.py`: one gang starts before the first and one after it, and other work leaves them their room."""
    here = site(2)
    here.run("job", 100, a_0=8)
    waiting = [("first", 2, 300), ("before", 1, 100), ("after", 1, 200)]
    blocked = [here.blocked(name, workers(count, name=name), seconds) for name, count, seconds in waiting]
    profile = CapacityProfile(blocked, WhatIf(here.table), here.calendar(), margin=0)
    starts = {name: (start.at, start.because) for name, start in profile.starts.items()}
    assert starts == {"first": (100, "before"), "before": (0, ""), "after": (400, "first")}
    assert [profile.reach(seconds) for seconds in (100, 101, 400, 401, None)] == [1, 2, 2, 3, 3]
    assert here.gpus(profile.kept(100)) == {"a-1": 8}
    assert here.gpus(profile.kept(100, "before")) == {}
    assert here.gpus(profile.kept(101, "before")) == {"a-1": 8}


def test_what_compares_nodes_for_one_pod_follows_the_pods_before_it() -> None:
    """The second pod finds the first one's node in another state, with less room on it and around it."""
    racks = {"n1": "aa", "n2": "aa", "n3": "ab"}
    table = table_of(node(name, 8, labels=H100 | {"rack": rack}) for name, rack in racks.items())
    table.claim("other", "n1", shape(2))
    view = CapacityViews(table, build(table, RACKS), Eligibility(table)).view()
    ground, wanted = Candidates(view.tree, view.admitted), shape(2)
    rooms, found = view.snapshot(Capacity.FREE).rooms(wanted), []
    for name in ("first", "second"):
        best = best_single(view.snapshot(Capacity.FREE), ground, PlacementTerms(), pod(name, shape=wanted))
        assert best is not None
        rooms = view.snapshot(Capacity.FREE).rooms(wanted)
        found.append((best.loss, rooms.kinds.tolist(), rooms.counts.tolist()))
        table.claim(name, table.node(best.row).name, wanted)
        assert view.follow()
    assert found == [(365, [1, 0, 0], [3, 4, 4]), (730, [2, 0, 0], [2, 4, 4])]
    assert [(each.state, each.pods) for each in rooms.known] == [(0, 4), (1, 3), (2, 2)]
