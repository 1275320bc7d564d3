"""Whom a search evicts: the domain decides, then priorities, GPU-time and gangs; nobody in vain."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from extender.eviction.search.search import FoundPreemption, search
from extender.hardware.links import HONOR, POLICY_LABEL, Partitions
from extender.objects.node import CLIQUE_LABEL
from extender.objects.topology import RoleGroup, Slice, TopologyRequest
from extender.placement.candidates import PlacementTerms
from extender.placement.capacityview import Capacity
from extender.queues.sharing import FlavorOffer, Option
from tests.cluster.conftest import GPU, node, pod, table_of, up_to_date
from tests.eviction.search.clusters import PodBudget, ShortQuota, Site, align, gang, gpus, racks, required


def names(found: FoundPreemption | None) -> list[str]:
    """Return who is evicted, and of whom only extras go."""
    assert found is not None
    return [
        each.victim.name.removeprefix("default/") + ("" if set(each.victim.core) <= set(each.pods) else "*")
        for each in found.evictions
    ]


class TestWhetherAnybodyHasToGo:
    """A search that finds nothing, or nothing to do."""

    def test_nobody_goes_where_there_is_room(self) -> None:
        """A gang that fits as it is gets its plan, and nobody is evicted."""
        site = Site(racks(1, 2))
        site.run("job", [("r0-0", 8)])
        found = site.search(gang(2, 4))
        assert names(found) == []
        assert found is not None
        assert set(found.plan.nodes.values()) == {"r0-1"}

    def test_nobody_goes_in_vain(self) -> None:
        """Where the gang would not fit though everybody went, nobody does."""
        site = Site(racks(1, 2))
        site.run("job", [("r0-0", 8)])
        assert site.search(gang(3, 8)) is None
        assert site.search(gang(1, 8), required("zone")) is None
        assert site.search([pod("head", shape=replace(pod("any").shape, requests=(("example.com/chip", 1),)))]) is None

    def test_nothing_stays_taken(self) -> None:
        """What is free is after the search what it was before, found or not."""
        site = Site(racks(2, 2))
        site.run("job", [("r0-0", 8), ("r1-0", 8)])
        for pods, found in ((4, True), (5, False)):
            case = site.case(gang(pods, 8))
            free = case.view(Option()).snapshot(Capacity.FREE)
            before = free.free.copy(), free.states.copy()
            assert (search(case, Option(), site.victims, site.budgets) is not None) == found
            assert np.array_equal(free.free, before[0])
            assert np.array_equal(free.states, before[1])

    def test_what_is_kept_for_others_is_not_free(self) -> None:
        """Room that somebody else waits for is not counted, and what the plan takes is returned to be kept."""
        site = Site(racks(1, 2))
        site.run("job", [("r0-0", 8)])
        kept = np.zeros_like(site.table.free())
        kept[site.table.resources.index(GPU), 1] = 8
        found = search(site.case(gang(2, 4), kept=kept), Option(), site.victims, site.budgets)
        assert names(found) == ["job"]
        assert found is not None
        assert found.kept[site.table.resources.index(GPU)].tolist() == [8, 0]
        assert found.kept[site.table.resources.index("pods")].tolist() == [2, 0]


class TestWhoGoes:
    """What is compared."""

    def test_the_lowest_priority_that_suffices(self) -> None:
        """Nobody of a higher priority goes where those of lower ones suffice, however much these lose."""
        site = Site(racks(1, 3))
        site.run("low", [("r0-0", 8)], priority=1, seconds=90_000.0)
        site.run("middle", [("r0-1", 8)], priority=2, seconds=5.0)
        site.run("high", [("r0-2", 8)], priority=3, seconds=0.0)
        assert names(site.search(gang(1, 8))) == ["low"]
        assert names(site.search(gang(2, 8))) == ["low", "middle"]

    def test_the_least_gpu_time_then_the_fewest_gangs(self) -> None:
        """Of equal priorities those go who lose least; of equal losses, the fewest gangs."""
        site = Site(racks(1, 4))
        site.run("old", [("r0-0", 8)], seconds=1_000.0)
        site.run("young", [("r0-1", 8)], seconds=100.0)
        for name in ("one", "two"):
            site.run(name, [("r0-2", 4)], seconds=100.0)
        site.run("spread", [("r0-3", 1)] * 8, seconds=5_000.0)
        assert names(site.search(gang(1, 8))) == ["young"]
        assert names(site.search(gang(2, 8))) == ["one", "two", "young"]

    def test_a_gang_on_many_nodes_frees_all_of_them(self) -> None:
        """One gang whose pods are spread over many nodes goes instead of one gang of each node."""
        site = Site(racks(1, 8, each=2))
        site.run("spread", [(f"r0-{number}", 1) for number in range(8)], seconds=100.0)
        for number in range(8):
            site.run(f"local-{number}", [(f"r0-{number}", 1)], seconds=110.0)
        assert names(site.search(gang(8, 1))) == ["spread"]
        assert names(site.search(gang(1, 1))) == ["local-0"]

    def test_extras_before_gangs(self) -> None:
        """Elastic extras go before any gang goes whole, only as many as needed, and their gang keeps its minimum."""
        site = Site(racks(1, 2))
        elastic = site.run("elastic", [("r0-0", 2)] * 4, extras=2, seconds=9_000.0)
        site.run("young", [("r0-1", 8)], seconds=1.0)
        found = site.search(gang(1, 2))
        assert names(found) == ["elastic*"]
        assert found is not None
        assert found.evictions[0].pods == elastic.extras[:1]
        assert names(site.search(gang(2, 2))) == ["elastic*"]
        assert names(site.search(gang(3, 2))) == ["young"]

    def test_whoever_goes_whole_takes_its_extras_along(self) -> None:
        """No extras are left of a gang that is evicted."""
        site = Site(racks(1, 2))
        victim = site.run("elastic", [("r0-0", 8), ("r0-1", 1)], extras=1)
        found = site.search(gang(1, 8))
        assert names(found) == ["elastic*"]  # without its extra r0-1 is free
        assert names(site.search(gang(2, 8))) == ["elastic"]
        whole = site.search(gang(2, 8))
        assert whole is not None
        assert set(whole.evictions[0].pods) == {*victim.core, *victim.extras}

    def test_the_order_of_victims_does_not_matter(self) -> None:
        """Equal input gives equal answers, in whatever order the victims come."""
        site = Site(racks(2, 4))
        for number in range(8):
            site.run(f"job-{number}", [(f"r{number // 4}-{number % 4}", 4)] * 2, seconds=60.0)
        first = site.search(gang(5, 4))
        site.victims.reverse()
        second = site.search(gang(5, 4))
        assert first is not None
        assert second is not None
        assert (first.evictions, first.plan) == (second.evictions, second.plan)

    def test_gangs_without_gpus_are_counted(self) -> None:
        """Where nobody loses GPU-time the fewest gangs go."""
        site = Site(table_of([node("a", cpu=8_000), node("b", cpu=8_000)]))
        for number in range(2):
            site.run(f"small-{number}", [("a", 0)] * 4)
        site.run("large", [("b", 0)] * 8)
        assert names(site.search([pod("head", cpu=8_000)])) == ["large"]


class TestWhere:
    """The domain that the gang will be in decides who goes."""

    def test_all_victims_are_in_the_way(self) -> None:
        """A gang that needs a rack has victims in one rack only, though cheaper ones are scattered over all racks."""
        site = Site(racks(3, 4))
        for rack in range(3):
            for number in range(4):
                cheap = number < 2 and rack != 1
                site.run(f"job-{rack}-{number}", [(f"r{rack}-{number}", 8)], seconds=10.0 if cheap else 100.0)
        found = site.search(gang(4, 8), required("rack"))
        assert names(found) == [f"job-0-{number}" for number in range(4)]
        assert names(site.search(gang(4, 8))) == ["job-0-0", "job-0-1", "job-2-0", "job-2-1"]

    def test_one_rack_of_many(self) -> None:
        """So it is where more may be evicted than can be tried in all ways."""
        site = Site(racks(6, 4))
        for number in range(48):
            rack, seconds = number // 8, 60.0 - number % 8 * 5
            site.run(f"job-{number:02}", [(f"r{rack}-{number % 8 // 2}", 4)], seconds=40.0 if rack == 4 else seconds)
        found = site.search(gang(8, 4), required("rack"))
        assert names(found) == [f"job-{number}" for number in range(32, 40)]
        assert found is not None
        assert {name.split("-")[0] for name in found.plan.nodes.values()} == {"r4"}

    def test_a_whole_nvlink_domain(self) -> None:
        """A gang that needs all 72 GPUs of an NVLink domain has it cleared, where it costs least."""
        table = table_of(
            node(f"c{clique}-{number:02}", 4, labels={CLIQUE_LABEL: f"5a7e0000-0000-4000-8000-{clique:012}.1"})
            for clique in range(3)
            for number in range(18)
        )
        site = Site(table)
        for clique in range(3):
            for number in range(0, 18, 3):
                nodes = [f"c{clique}-{number + more:02}" for more in range(3)]
                seconds = 50.0 if clique == 1 else 60.0
                site.run(f"job-{clique}-{number:02}", [(each, 4) for each in nodes], seconds=seconds)
        found = site.search(gang(18, 4), required("clique"))
        assert names(found) == [f"job-1-{number:02}" for number in range(0, 18, 3)]
        assert found is not None
        assert set(found.plan.nodes.values()) == {f"c1-{number:02}" for number in range(18)}

    def test_beside_the_members_that_run(self) -> None:
        """Members that have a node already keep the others in their rack, and so the victims."""
        site = Site(racks(2, 2))
        site.run("near", [("r1-0", 8), ("r1-1", 4)], seconds=9_000.0)
        site.run("far", [("r0-0", 8), ("r0-1", 8)], seconds=1.0)
        site.settled = {3: 4}
        assert names(site.search(gang(2, 4), required("rack"))) == ["near"]
        assert names(site.search(gang(2, 4))) == ["far"]

    def test_slices_need_racks_of_their_own(self) -> None:
        """Members counted off in fours have room cleared for four in a rack, not one here and three there."""
        site = Site(racks(3, 2, each=4))
        for rack in range(3):
            for number in range(2):
                seconds = 1.0 if number == 0 else 50.0 + rack
                site.run(f"job-{rack}-{number}", [(f"r{rack}-{number}", 4)], seconds=seconds)
        terms = PlacementTerms(topology=TopologyRequest(slices=(Slice(2, "rack"),)))
        assert names(site.search(gang(4, 4), terms)) == ["job-0-0", "job-0-1", "job-1-0", "job-1-1"]
        assert names(site.search(gang(3, 4))) == ["job-0-0", "job-1-0", "job-2-0"]

    def test_roles_that_share_a_rack(self) -> None:
        """Members with a role that has to share a rack have it cleared; the others go wherever it is cheapest."""
        site = Site(racks(2, 2, each=4))
        for number, seconds in enumerate((10.0, 90.0, 30.0, 40.0)):
            site.run(f"job-{number}", [(f"r{number // 2}-{number % 2}", 4)], seconds=seconds)
        pods = [*gang(2, 4, "trainer", role="trainer"), *gang(1, 4, "actor", role="actor")]
        terms = PlacementTerms(topology=TopologyRequest(role_groups=(RoleGroup(frozenset({"trainer"}), "rack"),)))
        assert names(site.search(pods, terms)) == ["job-0", "job-2", "job-3"]


class TestHardware:
    """Columns are not all: zones and GPU sets have to be free too."""

    def test_zones_decide_who_goes(self) -> None:
        """Where the kubelet wants all of a pod in one zone, those go who are in one zone; the ledger then agrees."""
        table = racks(1, 1)
        align(table)
        site = Site(table)
        for number in range(4):
            site.run(f"job-{number}", [("r0-0", 2)], seconds=(10.0, 90.0, 10.0, 95.0)[number])
        held = [up_to_date(table).held(f"uid-job-{number}-0") for number in range(4)]
        assert [each.zones for each in held if each] == [(0,), (0,), (1,), (1,)]
        head = gang(1, 4)
        found = site.search(head)
        assert names(found) == ["job-0", "job-1"]
        _let_run(site, found)
        here = up_to_date(table).held(head[0].uid)
        assert here is not None
        assert (len(here.gpus), here.zones) == (4, (0,))

    def test_partitions_decide_who_goes(self) -> None:
        """Where only some sets of GPUs may be given out, those go who hold one of them."""
        labels = {POLICY_LABEL: HONOR, "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
        table = table_of([node("n", 8, labels=labels)])
        halves = (frozenset(range(4)), frozenset(range(4, 8)))
        pairs = tuple(frozenset({first, first + 1}) for first in range(0, 8, 2))
        table.occupancy.put_partitions("n", Partitions((*pairs, *halves)))
        site = Site(table)
        for number in range(4):
            site.run(f"job-{number}", [("n", 2)], seconds=(10.0, 90.0, 10.0, 95.0)[number])
        head = gang(1, 4)
        found = site.search(head)
        assert names(found) == ["job-0", "job-1"]
        _let_run(site, found)
        here = up_to_date(table).held(head[0].uid)
        assert here is not None
        assert frozenset(here.gpus) in halves

    def test_zones_on_many_nodes(self) -> None:
        """So it is where more may be evicted than can be tried in all ways."""
        table = racks(2, 4)
        align(table)
        site = Site(table)
        for rack in range(2):
            for at in range(4):
                for number in range(4):
                    name = f"job-{rack}{at}{number}"
                    site.run(name, [(f"r{rack}-{at}", 2)], seconds=10.0 + (number % 2) * 80 + at)
        found = site.search(gang(4, 4), required("rack"))
        assert found is not None
        assert len(found.evictions) == 8
        assert site.suffices(gang(4, 4), required("rack"), found.evictions)
        _let_run(site, found)
        zones = [up_to_date(site.table).held(uid) for uid in found.plan.nodes]
        assert all(each is not None and len(each.zones) == 1 for each in zones)


class TestWhatForbidsIt:
    """Budgets that refuse, and quotas that want more."""

    def test_a_budget_is_hard(self) -> None:
        """Choices that a budget refuses are not used, dearer ones are; without any, nobody goes."""
        site = Site(racks(1, 2), budgets=PodBudget("cheap", 1))
        site.run("cheap", [("r0-0", 4)] * 2, seconds=1.0)
        site.run("dear", [("r0-1", 4)] * 2, seconds=900.0)
        assert names(site.search(gang(1, 8))) == ["dear"]
        assert site.search(gang(2, 8)) is None

    def test_a_budget_where_there_are_many(self) -> None:
        """So it is where more may be evicted than can be tried in all ways; a higher priority goes if it must."""
        site = Site(racks(1, 8), budgets=PodBudget("cheap", 3))
        for number in range(16):
            name = "cheap" if number < 10 else "dear"
            priority = 5 if number >= 14 else 0
            seconds = 1.0 if number < 10 else 900.0
            site.run(f"{name}-{number:02}", [(f"r0-{number // 2}", 4)], seconds=seconds, priority=priority)
        assert names(site.search(gang(3, 4))) == ["cheap-00", "cheap-01", "cheap-02"]
        found = names(site.search(gang(8, 4)))
        assert [name for name in found if name.startswith("dear")] == [f"dear-{number}" for number in range(10, 15)]
        assert sum(name.startswith("cheap") for name in found) == 3
        assert site.search(gang(10, 4)) is None

    def test_quota_without_need_of_room(self) -> None:
        """Where the nodes suffice and the quota does not, the cheapest go that the quota counts."""
        site = Site(racks(1, 4), quota=ShortQuota("other", 4))
        for number, (queue, seconds) in enumerate((("own", 1.0), ("other", 50.0), ("other", 40.0))):
            site.run(f"job-{number}", [(f"r0-{number}", 4)], seconds=seconds, queue=queue)
        assert names(site.search(gang(1, 4))) == ["job-2"]
        site.quota = ShortQuota("other", 9)
        assert site.search(gang(1, 4)) is None

    def test_quota_and_room_where_there_are_many(self) -> None:
        """The same victims serve room and quota if they can."""
        site = Site(racks(2, 8), quota=ShortQuota("other", 16))
        for number in range(32):
            queue, seconds = ("own", 10.0) if number % 2 else ("other", 12.0)
            site.run(f"{queue}-{number:02}", [(f"r{number // 16}-{number % 16 // 2}", 4)], seconds=seconds, queue=queue)
        found = names(site.search(gang(4, 4)))
        assert found == ["other-00", "other-02", "other-04", "other-06"]
        assert len(names(site.search(gang(2, 8)))) == 6
        site.quota = ShortQuota("other", 65)
        assert site.search(gang(4, 4)) is None

    def test_quota_is_asked_for_nobody_first(self) -> None:
        """A quota that is within its bounds already is not asked about every choice."""

        @dataclass(frozen=True)
        class Counting(ShortQuota):
            asked: list[int] = field(default_factory=list)

            def offer(self, option: Option, leaving: Iterable[str] = ()) -> FlavorOffer:
                self.asked.append(len(list(leaving)))
                return FlavorOffer(option)

        quota = Counting("", 0)
        site = Site(racks(1, 2), quota=quota)
        site.run("job", [("r0-0", 8)])
        assert names(site.search(gang(2, 8))) == ["job"]
        assert quota.asked == [0]

    def test_quota_is_asked_once_for_what_comes_to_the_same(self) -> None:
        """Of a few pieces all 4,096 choices may be looked at; the quota says of each number of GPUs once what it is."""
        asked: list[int] = []

        @dataclass(frozen=True)
        class Counting(ShortQuota):
            def offer(self, option: Option, leaving: Iterable[str] = ()) -> FlavorOffer:
                gone = list(leaving)
                asked.append(len(gone))
                return super().offer(option, gone)

        site = Site(racks(1, 4), quota=Counting("other", 20))
        for number in range(12):
            queue = "own" if number < 6 else "other"
            site.run(f"job-{number:02}", [(f"r0-{number // 4}", 2)], queue=queue, seconds=float(number < 6))
        assert site.search(gang(1, 8)) is None  # the other queue has twelve GPUs
        site.quota = Counting("other", 12)
        assert len(names(site.search(gang(1, 8)))) == 6
        assert len(asked) < 40


def _let_run(site: Site, found: FoundPreemption | None) -> None:
    """Give back what the evicted hold and let the gang have its nodes: as the ledger will."""
    assert found is not None
    for eviction in found.evictions:
        for each in eviction.pods:
            assert site.table.release(each.uid)
    size = next(iter({gpus(victim.core) for victim in site.victims}))
    assert size
    for uid, name in found.plan.nodes.items():
        site.table.claim(uid, name, gang(1, 4)[0].shape)
        assert site.table.short_of(name) == frozenset()
