"""The smallest changes that would help, each of which does when it is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender import judge
from extender.admission.events import BudgetSeen, QueueSeen
from extender.explain import suggestions
from extender.explain.account import explain_gang
from extender.explain.documents import SuggestedChange
from extender.explain.evictable import Evictable
from extender.explain.inquiry import inquire
from extender.explain.suggestions import MOST_TRIALS, grain_of, suggest, with_less
from extender.objects.budget import DisruptionBudget
from extender.objects.keys import Options
from extender.objects.meta import LabelSelector, time_text
from extender.objects.pod import Phase, Shape
from extender.objects.queue import Flavor, PreemptionPolicy, Queue, Quota, StopPolicy, WithinQueue
from extender.objects.reason import Reason
from extender.objects.topology import TopologyTerms
from tests.builders import shape
from tests.examples import share
from tests.explain.hypothetical import asked, objects, submit
from tests.worlds import GPU, Job, World

LEVELS = [{"name": name, "nodeLabel": name} for name in ("block", "rack")]


def suggested(world: World, job: Job) -> dict[str, SuggestedChange]:
    """Return what is suggested for a gang that exists, by what it changes."""
    inquiry = inquire(world.admission, job.gang, world.now)
    evictable = Evictable(world.admission, inquiry.live.queue, world.now)
    return {each.change: each for each in suggest(inquiry, evictable, explain_gang(inquiry).holdings)}


def asking(world: World, **what: Any) -> dict[str, SuggestedChange]:
    """Return what is suggested for a gang that does not exist, by what it changes."""
    before = world.state.everything()
    found = asked(world, objects(**what)).suggestions
    assert world.state.everything() == before
    return {each.change: each for each in found}


@pytest.fixture
def racks() -> World:
    """Return a world of two blocks with two racks of two nodes each."""
    world = World(topology_levels=LEVELS)
    for rack in range(4):
        world.nodes(2, prefix=f"r{rack}", labels={"block": f"b{rack // 2}", "rack": f"r{rack}"})
    return world


class TestFewerMembers:
    """The largest minimum that fits."""

    def test_it_starts_with_that(self, world: World) -> None:
        """As many as there is room for, and no one more would do; of a gang that can do with fewer than it has."""
        world.nodes(3)
        assert "minMember" not in asking(world, pods=5)
        found = asking(world, pods=6, min_member=5)["minMember"]
        assert (found.before, found.after) == (5, 3)
        assert found.message == "minMember 3 instead of 5: so many members would be placed now"
        assert submit(world, objects(6, min_member=cast("int", found.after))).reason is Reason.AWAITING_MEMBERS

    def test_members_that_are_missing_are_not_waited_for(self, world: World) -> None:
        """Nothing else helps a gang that is not there."""
        world.nodes(3)
        job = world.gang("train", 2, min_member=4, group={"options": Options(max_member=6)})
        assert job.reason is Reason.MEMBERS_MISSING
        assert {name: each.after for name, each in suggested(world, job).items()} == {"minMember": 2}

    def test_a_role_keeps_its_minimum(self, world: World) -> None:
        """What each role needs at least is not given up."""
        world.nodes(1)
        group = {"options": Options(role_minimums=(("worker", 2),))}
        job = world.gang("train", 3, group=group, role="worker")
        assert job.reason is Reason.EXCEEDS_CLUSTER
        assert "minMember" not in suggested(world, job)

    def test_quota_bounds_it_too(self, world: World) -> None:
        """As many as the queue has quota for."""
        world.tell(QueueSeen(Queue("team", flavors=(Flavor("any", {GPU: Quota(16)}),), default=True)))
        world.nodes(5)
        assert asking(world, pods=5, min_member=4)["minMember"].after == 2


class TestWiderLevels:
    """A level around the one that is required, or none."""

    def test_the_next_wider_level_that_fits(self, racks: World) -> None:
        """Three nodes of one rack are not there, of one block they are."""
        what: dict[str, Any] = {"pods": 3, "annotations": {"muster.dev/topology-required": "rack"}}
        found = asking(racks, **what)["topologyLevel"]
        assert (found.before, found.after) == ("rack", "block")
        what["annotations"] = {"muster.dev/topology-required": str(found.after)}
        assert submit(racks, objects(**what)).reason is Reason.AWAITING_MEMBERS

    def test_none_if_no_level_is_wide_enough(self, racks: World) -> None:
        """It would be placed as close as there is room."""
        found = asking(racks, pods=5, annotations={"muster.dev/topology-required": "rack"})["topologyLevel"]
        assert (found.before, found.after) == ("rack", None)
        assert submit(racks, objects(5)).reason is Reason.AWAITING_MEMBERS

    def test_a_level_that_nobody_knows(self, racks: World) -> None:
        """The nearest that is known and has room does in its place."""
        found = asking(racks, pods=2, annotations={"muster.dev/topology-required": "cell"})["topologyLevel"]
        assert (found.before, found.after) == ("cell", "rack")

    def test_slices(self) -> None:
        """What keeps members together is left out as a whole."""
        world = World(topology_levels=LEVELS)
        for rack in range(4):
            world.nodes(1, prefix=f"r{rack}", labels={"block": "b0", "rack": f"r{rack}"})
        found = asking(world, pods=4, annotations={"muster.dev/topology-slice": "rack=2"})
        assert (found["topologyLevel"].before, found["topologyLevel"].after) == ("slices", None)
        assert submit(world, objects(4)).reason is Reason.AWAITING_MEMBERS


class TestSmallerRequests:
    """What of a request keeps GPUs idle."""

    @pytest.mark.parametrize(("cpu", "less"), [("40", "32"), ("33", "32")])
    def test_cpus_that_strand_gpus(self, world: World, cpu: str, less: str) -> None:
        """Two pods of four GPUs would share a node of 64 CPUs if they asked for no more than half of those."""
        world.nodes(1)
        found = asking(world, pods=2, gpus=4, cpu=cpu)["resources"]
        assert (found.before, found.after) == ({"cpu": cpu}, {"cpu": less})
        assert submit(world, objects(2, 4, cpu=less)).reason is Reason.AWAITING_MEMBERS

    def test_gpus_are_never_given_up(self, world: World) -> None:
        """With fewer of them it is another program."""
        world.nodes(1, gpus=4)
        assert "resources" not in asking(world, pods=1, gpus=8)

    def test_what_people_would_write(self) -> None:
        """Multiples of whole CPUs and GiB, or of something finer if there are only a few of these."""
        assert [grain_of("cpu", each) for each in (8000, 7900, 79)] == [1000, 100, 1]
        assert [grain_of("memory", each) for each in (2**33, 2**33 - 1, 7)] == [2**30, 2**20, 1]

    def test_less_of_one_resource(self) -> None:
        """The others stay; nothing of it at all is no request."""
        whole = shape(8, cpu=4000)
        assert dict(with_less(whole, "cpu", 1500).requests) == {"cpu": 1500, GPU: 8, "pods": 1}
        assert dict(with_less(whole, "cpu", 0).requests) == {GPU: 8, "pods": 1}
        assert with_less(whole, "cpu", 4000) is whole


class TestFewerGpus:
    """The most GPUs per pod with which there is room."""

    @pytest.mark.parametrize(("gpus", "asks", "fewer"), [(8, 8, "4"), (12, 8, "6"), (10, 10, "5")])
    def test_what_shares_a_node_out(self, world: World, gpus: int, asks: int, fewer: str) -> None:
        """Two pods on one node: not powers of two alone."""
        world.nodes(1, gpus=gpus)
        found = asking(world, pods=2, gpus=asks)["gpus"]
        assert found.after == {GPU: fewer}
        assert submit(world, objects(2, int(fewer))).reason is Reason.AWAITING_MEMBERS

    def test_devices_that_no_node_has(self, world: World) -> None:
        """With fewer of them it waits as well."""
        world.nodes(1, gpus=0)
        assert "gpus" not in asking(world, pods=1, gpus=6)


class TestMoreNodes:
    """How many nodes more of the kind of which there are most."""

    def test_as_many_as_are_missing(self, world: World) -> None:
        """And with one less it waits."""
        world.nodes(2)
        found = asking(world, pods=5)["nodes"]
        assert (found.before, found.after) == (2, 5)
        assert found.message == "3 more empty nodes like node-0 (8 nvidia.com/gpu each)"
        world.nodes(2, prefix="more")
        job = submit(world, objects(5))
        reasons = [job.reason]
        world.nodes(1, prefix="last")
        world.judge()
        reasons.append(job.reason)
        assert reasons == [Reason.EXCEEDS_CLUSTER, Reason.AWAITING_MEMBERS]

    def test_in_the_domain_that_has_most_room(self, racks: World) -> None:
        """Where all have to be in one."""
        racks.gang("other", 1, group={"options": Options(topology=TopologyTerms(required="rack"))}).run()
        found = asking(racks, pods=3, annotations={"muster.dev/topology-required": "rack"})["nodes"]
        assert found.message == "1 more empty node like r1-0 (8 nvidia.com/gpu each) in rack r1"

    def test_none_helps_who_has_to_be_on_one(self, racks: World) -> None:
        """A gang that no node could hold."""
        assert "nodes" not in asking(racks, pods=2, annotations={"muster.dev/topology-required": "node"})

    def test_none_helps_where_no_node_would_take_it(self, world: World) -> None:
        """A selector that no node matches."""
        world.nodes(2)
        assert not asking(world, pods=1, nodeSelector={"zone": "nowhere"})


class TestHigherPriority:
    """The lowest priority that goes before those in the way, or has them evicted."""

    def test_those_for_whom_room_is_kept(self, world: World) -> None:
        """One more than the head's is enough, and nobody is evicted."""
        world.nodes(2)
        world.gang("old", 1, priority=9).run()
        world.gang("head", 2, priority=3)
        found = asking(world, pods=1)["priority"]
        assert (found.before, found.after) == (0, 4)
        assert found.message == "priority 4 instead of 0: it goes before those for whom room is kept now"
        assert submit(world, objects(1, priority=4)).reason is Reason.AWAITING_MEMBERS

    def test_those_that_run(self, world: World) -> None:
        """One more than the lowest of which enough runs."""
        world.nodes(3)
        for index, priority in enumerate((1, 5, 7)):
            world.gang(f"old-{index}", 1, priority=priority).run()
        found = asking(world, pods=2)["priority"]
        assert found.after == 6
        assert found.message.endswith("2 pods of default/old-0, default/old-1 would be evicted for it")
        assert submit(world, objects(2, priority=6)).reason is Reason.PREEMPTING

    def test_those_that_may_not_be_evicted(self, world: World) -> None:
        """Gangs that do not let themselves be preempted, and everybody where the queue's policy says so."""
        world.nodes(1)
        world.gang("old", 1, group={"options": Options(preemptible=False)}).run()
        assert "priority" not in asking(world, pods=1)
        never = PreemptionPolicy(within_queue=WithinQueue.NEVER)
        other = World()
        other.tell(QueueSeen(Queue("team", flavors=(Flavor("any", {GPU: Quota(64)}),), default=True, preemption=never)))
        other.nodes(1)
        other.gang("old", 1).run()
        assert "priority" not in asking(other, pods=1)


class TestWhoMayBeEvicted:
    """What is said of evictions is what the rules of evictions allow."""

    @pytest.fixture
    def full(self, world: World) -> Job:
        """Return a gang of two pods that runs and fills the nodes."""
        world.nodes(2)
        job = world.gang("old", 2)
        job.run()
        return job

    @staticmethod
    def nobody(world: World, priority: int = 5) -> None:
        """Check that no gang is said to be evicted for one of a high priority, and that none is."""
        assert "priority" not in asking(world, pods=1)
        assert asked(world, objects(1, priority=priority)).outcome.evictions is None
        world.effects()
        job = submit(world, objects(1, priority=priority))
        assert job.reason is not Reason.PREEMPTING
        assert not world.effects().evictions

    def test_they_are_named(self, world: World, full: Job) -> None:
        """With how many pods, for the priority that is asked about and for the one that is suggested."""
        assert full.reason is None
        who = "2 pods of default/old would be evicted for it"
        assert asking(world, pods=1)["priority"].message == f"priority 1 instead of 0: {who}"
        answer = asked(world, objects(1, priority=5))
        assert answer.assumptions == (f"{who}, as policies and disruption budgets allow now",)

    def test_a_pod_that_says_preemptible_false(self, world: World, full: Job) -> None:
        """It keeps its gang where it is, whichever member it is."""
        full.see(1, options=Options(preemptible=False))
        self.nobody(world)

    def test_a_gang_that_is_being_bound(self, world: World) -> None:
        """One of its members runs, the other has its node promised."""
        world.nodes(2)
        job = world.gang("old", 2)
        job.bind(0)
        job.bind(1)
        job.see(0, node_name=job.reserved["old-0"], phase=Phase.RUNNING)
        self.nobody(world)

    def test_a_disruption_budget(self, world: World, full: Job) -> None:
        """None of the pods may be disrupted."""
        assert full.reason is None
        world.tell(BudgetSeen(DisruptionBudget("default", "keep", LabelSelector(), allowed=0)))
        self.nobody(world)

    def test_min_runtime(self, world: World) -> None:
        """A gang that has just begun is safe."""
        policy = PreemptionPolicy(min_runtime=600.0)
        world.tell(
            QueueSeen(Queue("team", flavors=(Flavor("any", {GPU: Quota(64)}),), default=True, preemption=policy))
        )
        world.nodes(1)
        job = world.gang("old", 1)
        job.run()
        job.see(0, started_at=world.clock.now().timestamp())
        self.nobody(world)

    @pytest.mark.parametrize(("lent", "evicted"), [(8, True), (0, False)])
    def test_nominal_quota_of_another_queue(self, world: World, lent: int, evicted: bool) -> None:
        """What another queue has borrowed is reclaimed, whatever the priority; its own quota is not."""
        never = PreemptionPolicy(within_queue=WithinQueue.NEVER)
        for name, gpus in (("all", 0), ("red", 8), ("blue", 16 - lent)):
            parent = "" if name == "all" else "all"
            flavors = (Flavor("any", {GPU: Quota(gpus)}),)
            world.tell(QueueSeen(Queue(name, uid=name, flavors=flavors, parent=parent, preemption=never)))
        world.nodes(2)
        for index in range(2):
            world.gang(f"blue-{index}", 1, options=Options(queue="blue"), priority=9).run()
        what = objects(1, annotations={"muster.dev/queue": "red"})
        answer = asked(world, what)
        assert (answer.outcome.evictions is not None) == evicted
        assert (submit(world, what).reason is Reason.PREEMPTING) == evicted


class TestMoreQuota:
    """What the queue lacks, where nodes have room."""

    def test_as_much_as_is_short(self, world: World) -> None:
        """Of the flavor and the resource that is short."""
        world.tell(QueueSeen(Queue("team", flavors=(Flavor("any", {GPU: Quota(12)}),), default=True)))
        world.nodes(4)
        found = asking(world, pods=3)["quota"]
        assert (found.before, found.after) == ("12", "24")
        assert found.message == ("12 more nvidia.com/gpu of flavor any for Queue team: there is room on nodes")
        world.tell(QueueSeen(Queue("team", flavors=(Flavor("any", {GPU: Quota(24)}),), default=True)))
        assert submit(world, objects(3)).reason is Reason.AWAITING_MEMBERS

    def test_no_quota_helps_without_nodes(self, world: World) -> None:
        """It is not suggested where it would not be enough."""
        world.tell(QueueSeen(Queue("team", flavors=(Flavor("any", {GPU: Quota(8)}),), default=True)))
        world.nodes(2)
        assert set(asking(world, pods=4, min_member=3)) == {"minMember", "gpus"}

    def test_all_that_is_short_is_named(self, world: World) -> None:
        """Beside the first resource the others."""
        quotas = {GPU: Quota(8), "cpu": Quota(1000)}
        world.tell(QueueSeen(Queue("team", flavors=(Flavor("any", quotas),), default=True)))
        world.nodes(4)
        assert ", and more " in asking(world, pods=3)["quota"].message


class TestElsewhere:
    """Queues that take the gang and have quota for it."""

    def test_a_queue_with_room(self, world: World) -> None:
        """It is named, and the gang starts there."""
        world.tell(QueueSeen(Queue("team", flavors=(Flavor("any", {GPU: Quota(8)}),), default=True)))
        world.tell(QueueSeen(Queue("spare", flavors=(Flavor("any", {GPU: Quota(32)}),))))
        world.nodes(4)
        found = asking(world, pods=3)["queue"]
        assert (found.before, found.after, found.later) == ("team", "spare", False)
        assert found.message == "Queue spare instead of team: it takes gangs of namespace default and has room"
        again = submit(world, objects(3, annotations={"muster.dev/queue": "spare"}))
        assert again.reason is Reason.AWAITING_MEMBERS

    def test_not_one_that_holds_its_gangs_or_has_no_quota(self, world: World) -> None:
        """Nor one that does not take the namespace's gangs."""
        world.tell(QueueSeen(Queue("team", flavors=(Flavor("any", {GPU: Quota(8)}),), default=True)))
        held = Queue("held", flavors=(Flavor("any", {GPU: Quota(32)}),), stop_policy=StopPolicy.HOLD)
        for queue in (held, Queue("small", flavors=(Flavor("any", {GPU: Quota(16)}),))):
            world.tell(QueueSeen(queue))
        world.nodes(4)
        assert "queue" not in asking(world, pods=3)


def test_whose_ends_make_room_is_told_with_when(world: World) -> None:
    """The first ends that are enough, of those who hold what it lacks."""
    world.nodes(3)
    for name, seconds in (("long", 5000.0), ("short", 600.0), ("middle", 700.0)):
        old = world.gang(name, 1, 8, group={"options": Options(expected_duration=seconds)})
        old.run()
        old.see(0, started_at=world.now)
    found = asking(world, pods=2)["end"]
    assert (found.after, found.later, found.starts_at) == (
        "default/short, default/middle",
        True,
        time_text(world.now + 700),
    )
    assert found.message.endswith(" there is room, unless another that waits goes first")


def test_a_gang_that_fits_needs_nothing(world: World) -> None:
    """Nor does one that runs, or whose queue does not exist."""
    world.nodes(2)
    assert not asking(world, pods=2)
    job = world.gang("train", 1)
    job.run()
    assert not suggested(world, job)
    assert not asking(world, pods=9, annotations={"muster.dev/queue": "nobodys"})


def test_a_gang_that_exists_is_told_the_same(world: World) -> None:
    """As one that is only asked about."""
    world.nodes(3)
    world.gang("old", 1).run()
    new = asking(world, pods=3)
    found = suggested(world, world.gang("train", 3))
    assert {name: each.after for name, each in found.items()} == {name: each.after for name, each in new.items()}


def test_the_smallest_change_comes_first(world: World) -> None:
    """What the owner can do alone before what others have to agree to."""
    world.nodes(3)
    world.gang("old", 1, priority=1).run()
    found = asked(world, objects(4, min_member=3)).suggestions
    assert [each.change for each in found] == ["minMember", "priority", "gpus", "nodes"]
    assert (found[0].change, found[0].before, found[0].after) == ("minMember", 3, 2)


def test_the_work_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many ways there are to try."""
    tried = []
    fits = judge.fits

    def counted(*arguments: Any) -> bool:
        tried.append(1)
        return fits(*arguments)

    monkeypatch.setattr(suggestions, "fits", counted)
    world.nodes(2, gpus=4)
    for index in range(60):
        world.gang(f"old-{index}", 1, gpus=0, cpu=1000, priority=index).run()
    asking(world, pods=1000, gpus=2, cpu="9")
    assert 0 < len(tried) <= MOST_TRIALS


_GANG = st.tuples(st.integers(1, 3), st.sampled_from([2, 4, 8]), st.integers(0, 2))


@dataclass
class Crowd:
    """Three nodes and gangs for some of which there is room, made anew for each change that is tried."""

    world: World
    jobs: dict[str, Job]

    @classmethod
    def of(cls, gangs: list[tuple[int, int, int]], quota: int = 0) -> Crowd:
        """Let gangs come, each of so many members of so many GPUs and of a priority; those run that fit.

        With `quota` all are in a Queue of so many GPUs, beside which another one has some that nobody uses.
        """
        world = World(topology_levels=LEVELS)
        for rack, nodes in (("r0", 2), ("r1", 1)):
            world.nodes(nodes, prefix=rack, labels={"block": "b0", "rack": rack})
        for name, gpus in (("team", quota), ("spare", 16)) if quota else ():
            flavors = (Flavor("any", {GPU: Quota(gpus)}),)
            world.tell(QueueSeen(Queue(name, uid=name, flavors=flavors, default=name == "team")))
        jobs: dict[str, Job] = {}
        for index, (members, gpus, priority) in enumerate(gangs):
            job = world.gang(f"g{index}", members, gpus, priority=priority)
            job.run()
            jobs[str(job.ref)] = job
        return cls(world, jobs)

    def change(self, suggested: SuggestedChange) -> dict[str, Any]:
        """Do what is suggested here; return what is to be asked otherwise."""
        before: Any = suggested.before
        after: Any = suggested.after
        match suggested.change:
            case "gpus":
                return {"gpus": int(after[GPU])}
            case "resources":
                return dict(after)
            case "priority":
                return {"priority": after}
            case "topologyLevel":
                return {"annotations": {"muster.dev/topology-required": after} if after else None}
            case "queue":
                return {"queue": after}
            case "quota":
                flavors = (Flavor("any", {GPU: Quota(64)}),)
                self.world.tell(QueueSeen(Queue("team", uid="team", flavors=flavors, default=True)))
            case "nodes":
                rack = suggested.message.partition(" in rack ")[2].partition(",")[0].rpartition("/")[2]
                self.world.nodes(after - before, prefix="more", labels={"block": "b0", "rack": rack or "r1"})
            case "end":
                for name in after.split(", "):
                    self.jobs[name].finish()
                self.world.judge()
        return {}


@given(
    st.lists(_GANG, max_size=4),
    st.fixed_dictionaries(
        {
            "pods": st.integers(1, 5),
            "gpus": st.sampled_from([2, 8]),
            "cpu": st.sampled_from(["4", "30", "50"]),
            "annotations": st.sampled_from([None, {"muster.dev/topology-required": "rack"}]),
        }
    ),
    st.sampled_from([0, 16, 64]),
)
@share(0.5)
def test_each_suggestion_helps(running: list[tuple[int, int, int]], what: dict[str, Any], quota: int) -> None:
    """Whoever makes the change has the gang start, or others evicted for it, unless somebody else takes the nodes."""
    for each in asked(Crowd.of(running, quota).world, objects(**what)).suggestions:
        crowd = Crowd.of(running, quota)
        others_wait = any(job.reason is not None for job in crowd.jobs.values())
        if "that wait" in each.message or (each.change in {"end", "quota"} and others_wait):
            continue
        changed = what | crowd.change(each)
        queue = changed.pop("queue", "")
        if queue:
            changed["annotations"] = (what["annotations"] or {}) | {"muster.dev/queue": queue}
        job = submit(crowd.world, objects(**changed))
        helped = {Reason.AWAITING_MEMBERS, *([Reason.PREEMPTING] if each.change == "priority" else [])}
        assert job.reason in helped, each


@pytest.mark.parametrize(("pods", "least", "elastic"), [(3, 3, False), (4, 3, True)])
def test_fewer_members_are_suggested_to_elastic_gangs_alone(pods: int, least: int, elastic: bool) -> None:
    """What needs all of its pods cannot do with fewer."""
    crowd = Crowd.of([(1, 8, 0)])
    found = {each.change: each for each in asked(crowd.world, objects(pods, min_member=least)).suggestions}
    assert ("minMember" in found) is elastic
    if elastic:
        again = submit(crowd.world, objects(pods, min_member=cast("int", found["minMember"].after)))
        assert again.reason is Reason.AWAITING_MEMBERS


def test_shapes_with_nothing_left_to_yield(world: World) -> None:
    """A pod that asks for CPUs alone is not told to ask for none."""
    world.nodes(1)
    assert "resources" not in asking(world, pods=3, gpus=0, cpu="60")
    assert isinstance(shape(), Shape)
