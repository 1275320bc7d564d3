"""A pass over many gangs runs in steps, between which everything else may happen."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.admission.events import Decide, Filter, HoldOff, NodeSeen, Outcome, PodGone, PodSeen, Rebuild, StandDown
from extender.objects.keys import Options
from extender.objects.node import Node
from extender.objects.pod import Phase
from extender.objects.podgroup import GroupRef
from extender.objects.reason import Reason, Wait
from extender.objects.sources.coscheduling import COSCHEDULING
from tests.counting import calls
from tests.worlds import GPU, Job, TickingClock, World


def stepping(nodes: int = 4) -> World:
    """Return a world whose clock ends each step at the first look."""
    world = World(TickingClock())
    world.nodes(nodes)
    return world


def come(world: World, name: str, members: int, gpus: int = 8, **pod: Any) -> Job:
    """Create a gang without having it judged; each has members of a shape of its own."""
    job = Job(world, GroupRef(COSCHEDULING, "default", name))
    world.group(job.ref, members)
    first = world.pod(f"{name}-0", gpus, group=job.ref, **pod)
    cpu = 1000 + int(first.uid.removeprefix("uid-"))
    job.pods += [world.pod(f"{name}-{index}", gpus, cpu=cpu, group=job.ref, **pod) for index in range(members)]
    for each in job.pods:
        world.tell(PodSeen(each))
    return job


def judge(world: World) -> int:
    """Decide until nothing is left to be decided; return in how many steps."""
    for steps in itertools.count():
        if not world.tell(Decide()):
            return steps
        assert steps < 10_000
    raise AssertionError


def decided(world: World) -> tuple[dict[str, dict[str, str]], dict[str, Wait]]:
    """Return what is promised to whom (pod UID -> node), and why the others wait."""
    found = world.state.reservations()
    return {str(each.ref): {uid: slot.node for uid, slot in each.slots.items()} for each in found}, world.state.waits()


def assert_as_afresh(world: World) -> None:
    """Assert that all is as if everything had been judged again."""
    judge(world)
    before = decided(world)
    world.check_promises()
    world.state.forget_verdicts()
    judge(world)
    assert decided(world) == before


def test_a_pass_over_many_gangs_takes_many_steps() -> None:
    """Each evaluates one gang, if that takes so long; together they decide what one step would have."""
    worlds = stepping(), World()
    worlds[1].nodes(4)
    for world in worlds:
        for number in range(40):
            come(world, f"gang-{number}", 1 + number % 6)
    assert judge(worlds[0]) > 40
    assert judge(worlds[1]) == 1
    assert decided(worlds[0]) == decided(worlds[1])


def test_what_happens_between_two_steps_counts_in_the_next() -> None:
    """A node that comes has room for gangs that are yet to be evaluated, and then for the others."""
    world = stepping(1)
    jobs = [come(world, f"gang-{number}", 2) for number in range(40)]
    world.tell(Decide())
    world.nodes(4, prefix="late")
    judge(world)
    assert sum(len(job.reserved) for job in jobs) == 4
    assert jobs[0].reserved
    assert jobs[1].reserved


def test_a_gang_that_goes_between_two_steps_is_promised_nothing() -> None:
    """Its members are gone when its turn comes."""
    world = stepping()
    jobs = [come(world, f"gang-{number}", 5) for number in range(40)]
    last = come(world, "last", 1)
    world.tell(Decide())
    world.tell(PodGone(last.pods[0].uid))
    judge(world)
    assert last.reserved == {}
    assert last.wait == Wait(Reason.MEMBERS_MISSING, {"exist": 0, "minMember": 1})
    assert not any(job.reserved for job in jobs)


def test_a_pod_that_ends_between_two_searches_of_a_pass_is_no_longer_counted_on() -> None:
    """It was being deleted when the first search looked for who leaves anyway; the second finds its node free."""
    world = stepping(6)
    ending = world.gang("ending", 1, gpus=8)
    ending.run()
    low = world.gang("low", 5, gpus=8)
    low.run()
    for number in range(24):
        come(world, f"high-{number}", 1 + number % 2, priority=5)
    ending.see(0, deleting=True)
    assert calls(lambda: world.tell(Decide()), "find_evictions") == 1
    world.tell(PodGone(ending.pods[0].uid))
    assert calls(lambda: judge(world), "find_evictions") == 1
    evicted = world.effects().evictions.keys()
    assert set() < evicted <= {pod.uid for pod in low.pods}


def test_a_gang_that_changes_between_two_steps_is_placed_as_it_is_then() -> None:
    """It asks for more than when the pass began; the pass leaves it to the next one, which follows."""
    world = stepping()
    for number in range(40):
        come(world, f"gang-{number}", 5)
    last = come(world, "last", 1, gpus=1)
    world.tell(Decide())
    shape = world.pod("other", 64).shape
    last.see(0, shape=shape)
    judge(world)
    assert last.reserved == {}
    assert last.reason is Reason.EXCEEDS_CLUSTER


def test_filter_answers_while_a_pass_is_under_way() -> None:
    """A newcomer's first question costs a few steps; it is placed by the pass that follows."""
    world = stepping()
    for number in range(200):
        come(world, f"gang-{number}", 5)
    world.tell(Decide())
    job = come(world, "late", 1, gpus=1)
    answer = calls(lambda: world.tell(Filter(job.pods[0], ["node-0"])))
    rest = calls(lambda: judge(world))
    assert job.reserved
    assert answer < rest / 2


@pytest.mark.parametrize(("before", "answered"), [(2, True), (40, False)])
def test_a_newcomer_that_is_asked_about_has_its_turn_behind_a_few_others(before: int, *, answered: bool) -> None:
    """A refusal would cost it a second; behind many it is refused, as the loop has others to serve."""
    world = stepping()
    for number in range(before):
        come(world, f"gang-{number}", 1, gpus=0)
    (newcomer,) = come(world, "newcomer", 1, gpus=0).pods
    answer = world.tell(Filter(newcomer, ["node-0", "node-1", "node-2", "node-3"]))
    assert (answer.outcome is Outcome.PINNED) is answered


def test_a_question_is_answered_in_the_step_that_places_the_pod() -> None:
    """What is left to do of the pass is done afterwards: here, to place the other gang."""
    world = stepping()
    first, second = come(world, "first", 2, gpus=1), come(world, "second", 2, gpus=1)
    answer = world.tell(Filter(first.pods[0], ["node-0", "node-1", "node-2", "node-3"]))
    assert answer.outcome is Outcome.PINNED
    assert not second.reserved
    judge(world)
    assert len(second.reserved) == 2


def test_an_obstacle_ends_the_placing_of_gangs_at_once() -> None:
    """What is left of the pass places nobody, and says why."""
    world = stepping()
    for number in range(40):
        come(world, f"gang-{number}", 5)
    last = come(world, "last", 1)
    world.tell(Decide())
    world.tell(HoldOff(Wait(Reason.WRITES_BACKLOGGED)))
    judge(world)
    assert last.reserved == {}
    assert last.reason is Reason.WRITES_BACKLOGGED
    world.tell(HoldOff(None))
    judge(world)
    assert last.reserved


def test_a_replica_that_stands_down_leaves_its_pass_unfinished() -> None:
    """Nothing is pending any more, and nothing promised."""
    world = stepping()
    for number in range(40):
        come(world, f"gang-{number}", 1, gpus=1)
    world.tell(Decide())
    world.tell(StandDown())
    assert judge(world) == 0
    assert decided(world)[0] == {}


def test_members_beyond_the_minimum_are_placed_in_steps_too() -> None:
    """A gang of hundreds that runs with one of them holds up the loop no longer than others."""
    world = stepping(40)
    job = Job(world, GroupRef(COSCHEDULING, "default", "job"))
    world.group(job.ref, 1)
    for index in range(100):
        job.pods.append(world.pod(f"job-{index}", 1, cpu=1000 + index, group=job.ref))
        world.tell(PodSeen(job.pods[-1]))
    assert judge(world) > 100
    assert len(job.reserved) == 100


class TestLargeGang:
    """A gang of hundreds, which is promised its nodes in one step and nominated in those that follow."""

    @staticmethod
    def placed() -> tuple[World, Job]:
        """Return a world in which one has just been placed."""
        world = World()
        world.nodes(75)
        job = Job(world, GroupRef(COSCHEDULING, "default", "job"))
        world.group(job.ref, 600)
        for index in range(600):
            job.pods.append(world.pod(f"job-{index}", 1, group=job.ref))
            world.tell(PodSeen(job.pods[-1]))
        world.effects()
        world.tell(Decide())
        return world, job

    def test_each_member_is_nominated_where_it_was_promised_a_node(self) -> None:
        """There are so many steps that none of them orders more than some hundred writes."""
        world, job = self.placed()
        nominated: dict[str, str] = {}
        for step in range(4):
            found = world.effects().nominations
            assert len(found) <= 250
            nominated |= {each.pod.name: each.node for each in found.values()}
            assert world.tell(Decide()) == (step < 2)
        assert nominated == job.reserved
        assert len(nominated) == 600

    def test_a_member_is_answered_before_it_is_nominated(self) -> None:
        """All have their nodes from the first step on; one that comes to bind by itself needs no nomination."""
        world, job = self.placed()
        last = job.pods[-1]
        planned = job.reserved[last.name]
        assert world.filter(last).accepted == [planned]
        job.bind(599)
        judge(world)
        assert len(job.reserved) == 600
        assert last.uid not in world.effects().nominations

    def test_a_member_that_goes_is_not_nominated(self) -> None:
        """Nothing is written for it: its nomination had not been ordered yet."""
        world, job = self.placed()
        gone, changed = job.pods[-1], replace(job.pods[-2], deleting=True)
        world.tell(PodGone(gone.uid))
        world.tell(PodSeen(changed))
        judge(world)
        assert not {gone.uid, changed.uid} & world.effects().nominations.keys()

    def test_a_pass_that_is_begun_anew_nominates_those_that_are_left(self) -> None:
        """What was promised before stands."""
        world, job = self.placed()
        world.state.forget_verdicts()
        judge(world)
        assert len(world.effects().nominations) == len(job.reserved) == 600


class TestHopeless:
    """Gangs that would not fit on the empty cluster."""

    @staticmethod
    def world(hopeless: int, **options: Any) -> World:
        """Return a world where some of them wait, and one gang runs."""
        world = World()
        world.nodes(4)
        world.gang("running", 2, **options).run()
        for number in range(hopeless):
            come(world, f"gang-{number}", 2, gpus=9, **options)
        return world

    @pytest.mark.parametrize("options", [{}, {"options": Options(expected_duration=3600.0)}], ids=["", "declared"])
    def test_a_pass_is_linear_in_their_number(self, options: dict[str, Any]) -> None:
        """For none of them room is looked for that could be kept: waiting would not help."""
        few, many = self.world(100, **options), self.world(400, **options)
        assert calls(lambda: many.tell(Decide())) < 4.2 * calls(lambda: few.tell(Decide()))

    def test_they_cost_nothing_when_room_comes_back(self) -> None:
        """Only nodes that come or change can make them fit."""

        def work(hopeless: int) -> int:
            world = self.world(hopeless)
            world.judge()
            pod = next(each for each in world.state.pods() if each.bound)
            world.tell(PodSeen(replace(pod, phase=Phase.SUCCEEDED)))
            return calls(lambda: world.tell(Decide()))

        few, many = work(20), work(220)
        assert (many - few) / 200 < 5

    def test_a_node_that_has_room_for_them_ends_it(self) -> None:
        """Then they are evaluated again."""
        world = self.world(3)
        world.judge()
        allocatable = {"cpu": 64_000, "memory": 2**40, "pods": 110, GPU: 32}
        world.tell(NodeSeen(Node("large", uid="large", allocatable=allocatable)))
        world.judge()
        assert len(decided(world)[0]) == 1


class TestNoPlaceForCertain:
    """Gangs that were told that there is no room, when nothing was given back that could help them."""

    @staticmethod
    def world(waiting: int = 40) -> World:
        """Return a world in steps where so many wait for all GPUs of the only node; gangs of one pod have one each."""
        world = stepping(1)
        for number in range(8):
            world.gang(f"running-{number}", 1, gpus=1).run()
        for number in range(waiting):
            come(world, f"waiting-{number}", 1)
        judge(world)
        return world

    @staticmethod
    def steps_until_promised(world: World, job: Job) -> int:
        """Decide until a gang has its nodes; return in how many steps."""
        for steps in itertools.count():
            if job.reserved:
                return steps
            assert world.tell(Decide())
        raise AssertionError

    def test_a_newcomer_need_not_wait_until_they_are_judged_again(self) -> None:
        """Whatever was taken before it came made nothing better for them."""
        world = self.world()
        judge_again = judge(world)
        first = come(world, "first", 1, gpus=0)
        assert self.steps_until_promised(world, first) <= 2
        second = come(world, "second", 1, gpus=0)
        assert self.steps_until_promised(world, second) <= 3
        assert judge(world) > judge_again

    def test_nor_where_what_was_given_back_is_too_little_for_them(self) -> None:
        """One GPU is free, and each of them asks for eight."""
        world = self.world()
        ended = next(pod for pod in world.state.pods() if pod.bound)
        world.tell(PodSeen(replace(ended, phase=Phase.SUCCEEDED)))
        assert self.steps_until_promised(world, come(world, "small", 1, gpus=0)) <= 3

    def test_what_is_enough_for_one_of_them_is_not_for_a_newcomer(self) -> None:
        """The older one goes first."""
        world = self.world()
        for pod in [pod for pod in world.state.pods() if pod.bound]:
            world.tell(PodSeen(replace(pod, phase=Phase.SUCCEEDED)))
        newcomer = come(world, "newcomer", 1)
        judge(world)
        assert not newcomer.reserved
        assert list(decided(world)[0]) == ["default/waiting-0"]

    @pytest.mark.parametrize("alike", [True, False])
    def test_a_pass_that_ends_in_peace_asks_for_no_other(self, *, alike: bool) -> None:
        """All are judged again in the pass after something was taken, whether one verdict is that on several or not.

        It has a step more: who has been placed is told before.
        """
        world = World()
        world.nodes(1)
        world.gang("running", 1).run()
        for number in range(6):
            if alike:
                world.gang(f"waiting-{number}", 2, gpus=4)
            else:
                job = come(world, f"waiting-{number}", 1)
                world.tell(PodSeen(world.pod(f"other-{number}", 1, group=job.ref)))
        judge(world)
        before = world.state.judged_at()
        for name, steps in (("first", 1), ("second", 2)):
            come(world, name, 1, gpus=0)
            assert judge(world) == steps
        after = world.state.judged_at()
        assert before
        assert all(after[uid] > generation for uid, generation in before.items())

    def test_while_others_come_and_go_each_is_judged_again(self) -> None:
        """Those first who were judged longest ago, some in each pass."""
        world = self.world(30)
        before = world.state.judged_at()
        for number in range(12):
            come(world, f"comes-{number}", 1, gpus=0)
            for _ in range(10):
                world.tell(Decide())
        after = world.state.judged_at()
        assert len(before) == 30
        assert not [uid for uid, generation in before.items() if after[uid] <= generation]

    @settings(deadline=None)
    @given(
        st.lists(
            st.one_of(
                st.tuples(st.just("comes"), st.integers(1, 3), st.integers(0, 8)),
                st.tuples(st.just("ends"), st.integers(0, 5), st.just(0)),
                st.tuples(st.just("node"), st.integers(0, 3), st.just(0)),
            ),
            max_size=30,
        )
    )
    def test_all_are_told_what_they_would_be_if_everything_were_judged_afresh(
        self, events: list[tuple[str, int, int]]
    ) -> None:
        """Whatever came, ended or changed before, and whoever went first for it."""
        world = stepping(3)
        for number, (what, which, gpus) in enumerate(events):
            runs = [pod for pod in world.state.pods() if pod.bound and pod.phase is Phase.RUNNING]
            match what:
                case "comes":
                    come(world, f"gang-{number}", which, gpus).run()
                case "ends" if runs:
                    world.tell(PodSeen(replace(runs[which % len(runs)], phase=Phase.SUCCEEDED)))
                case "node":
                    world.nodes(1, prefix=f"late-{which}", gpus=which)
            judge(world)
        assert_as_afresh(world)


class TestTakingUp:
    """A replica that begins to decide looks at the whole cluster, most of which runs."""

    @staticmethod
    def world(nodes: int, *, full: bool) -> World:
        """Return a world of which every node is full or every node empty."""
        world = World()
        for number, node in enumerate(world.nodes(nodes)):
            if full:
                world.tell(PodSeen(replace(world.pod(f"running-{number}", 8), node_name=node, phase=Phase.RUNNING)))
        return world

    def test_pods_that_run_are_not_looked_at_closely(self) -> None:
        """There are tens of thousands of them, without nominations and without problems."""
        few, many = self.world(20, full=True), self.world(220, full=True)
        assert calls(lambda: many.tell(Rebuild())) <= calls(lambda: few.tell(Rebuild())) + 200 * 5

    def test_nor_are_nodes_without_reservations(self) -> None:
        """Of each it is asked whether it has any."""
        few, many = self.world(20, full=False), self.world(220, full=False)
        assert calls(lambda: many.tell(Decide())) <= calls(lambda: few.tell(Decide())) + 200 * 5


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["come", "go", "end", "node", "cordon", "wait"]), st.integers(0, 7))))
def test_steps_and_events_in_any_order_end_where_one_pass_would(story: list[tuple[str, int]]) -> None:
    """At every moment no node is promised twice; in the end nobody waits who would be placed by a pass over all."""
    world = stepping()
    names = [f"node-{index}" for index in range(4)]
    jobs = [come(world, f"first-{number}", 1 + number % 5, gpus=4) for number in range(12)]
    for serial, (what, number) in enumerate(story):
        job = jobs[number % len(jobs)]
        match what:
            case "come":
                jobs.append(come(world, f"late-{serial}", 1 + number, gpus=1 + number))
            case "go":
                for pod in job.pods:
                    world.tell(PodGone(pod.uid))
                job.pods.clear()
            case "end":
                if job.pods and len(job.reserved) == len(job.pods):
                    job.run()
                    job.finish()
            case "node":
                names += world.nodes(1, prefix=f"more-{serial}")
            case "cordon":
                known = world.state.node(names[number % 4])
                world.tell(NodeSeen(replace(known, allocatable={"cpu": 64_000, "pods": 110, GPU: number})))
            case _:
                world.tell(Decide())
        world.tell(Decide())
    assert_as_afresh(world)


class TestThoseThatWait:
    """What a decision for others costs beside gangs that wait."""

    @staticmethod
    def world(waiting: int) -> World:
        """Return a world whose GPUs are all taken, and where so many gangs of one pod wait for some."""
        world = World()
        for number, node in enumerate(world.nodes(8)):
            world.tell(PodSeen(replace(world.pod(f"running-{number}", 8), node_name=node, phase=Phase.RUNNING)))
        for number in range(waiting):
            world.gang(f"waiting-{number}", 1)
        return world

    @staticmethod
    def decide_on_newcomers(world: World) -> int:
        """Let gangs without GPUs come and be placed, one after the other; return how many calls that takes."""
        count = 0
        for number in range(6):
            job = come(world, f"newcomer-{number}", 4, gpus=0)
            while not job.reserved:
                count += calls(lambda: world.tell(Decide()))
            judge(world)
        return count

    def test_a_decision_for_others_costs_no_more(self) -> None:
        """What is kept for the first of them stands meanwhile: nothing was given back that it could have instead."""
        alone = self.decide_on_newcomers(self.world(0))
        assert self.decide_on_newcomers(self.world(1)) < 1.1 * alone
        assert self.decide_on_newcomers(self.world(300)) < 1.1 * alone

    def test_the_first_is_evaluated_afterwards(self) -> None:
        """In the end it waits with what is kept for it, on the node that it was kept on."""
        world = self.world(3)
        (before,) = world.state.keeps()
        come(world, "first", 4, gpus=0)
        judge(world)
        job = come(world, "second", 4, gpus=0)
        assert world.tell(Decide())
        assert len(job.reserved) == 4
        assert calls(lambda: judge(world), "earmark") == 1
        (after,) = world.state.keeps()
        assert after is before

    def test_room_that_is_given_back_is_for_the_first(self) -> None:
        """It is evaluated in its turn then, before those that came after it."""
        world = self.world(2)
        ending = next(pod for pod in world.state.pods() if pod.bound)
        newcomer = come(world, "newcomer", 1)
        world.tell(PodGone(ending.uid))
        world.tell(Decide())
        assert [str(each.ref) for each in world.state.reservations()] == ["default/waiting-0"]
        assert not newcomer.reserved

    def test_room_that_comes_back_between_two_steps_is_had_in_turn(self) -> None:
        """Who was evaluated longest ago is the first in the second step, but not where there is room for others."""
        world = self.world(1)
        middle, late = world.gang("middle", 1, cpu=2000), world.gang("late", 1, cpu=3000)
        come(world, "first", 4, gpus=0)
        judge(world)
        late.see(0, labels={"changed": "yes"})
        come(world, "second", 4, gpus=0)
        judge(world)
        at = world.state.judged_at()
        assert at[late.gang.uid] < at[middle.gang.uid]
        come(world, "third", 4, gpus=0)
        assert world.tell(Decide())
        for name in ("running-0", "running-1"):
            world.tell(PodGone(next(pod for pod in world.state.pods() if pod.name == name).uid))
        judge(world)
        assert middle.reserved
        assert not late.reserved
