"""Gangs that move by themselves to make room for others, where their Queue says that they may."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.admission.events import BudgetSeen, EvictionRefused, PodGone, PodSeen, QueueSeen
from extender.objects.budget import DisruptionBudget
from extender.objects.keys import Options
from extender.objects.meta import LabelSelector
from extender.objects.pod import Phase, Pod
from extender.objects.queue import ConsolidationPolicy, Flavor, PreemptionPolicy, Queue, Quota
from extender.objects.reason import Reason
from extender.objects.sources.table import LABEL
from tests.worlds import GPU, Job, World

MINUTE, HOUR = 60.0, 3600.0
MOVES = ConsolidationPolicy()


def team(world: World, policy: ConsolidationPolicy | None = MOVES, gpus: int = 64, **preemption: Any) -> None:
    """Create the queue that all of these gangs are in."""
    flavors = (Flavor("all", {GPU: Quota(gpus)}),)
    preemption_policy = PreemptionPolicy(consolidation=policy, **preemption)
    world.tell(QueueSeen(Queue("team", uid="team", flavors=flavors, preemption=preemption_policy)))


def runs(world: World, name: str, node: str, gpus: int = 4, age: float = 2 * HOUR, **fields: Any) -> Job:
    """Create a gang of one pod that runs on a node since some time (seconds)."""
    options = Options(**({"queue": "team", "checkpoint_interval": 10 * MINUTE} | fields.pop("options", {})))
    values: dict[str, Any] = {"node_name": node, "phase": Phase.RUNNING, "started_at": world.now - age}
    values["controller"] = f"{name}-job"
    return world.gang(name, 1, gpus, options=options, **(values | fields))


def waits(world: World, name: str = "big", gpus: int = 8, members: int = 1, **fields: Any) -> Job:
    """Create a gang that was created just now."""
    created = world.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    return world.gang(name, members, gpus, options=Options(queue="team"), created=created, **fields)


def halves(world: World, **fields: Any) -> Job:
    """Return a gang that wants a whole node, of which two gangs have taken a half each."""
    world.nodes(2)
    runs(world, "a", "node-0", **fields)
    runs(world, "b", "node-1", **fields)
    return waits(world)


def moved(world: World) -> list[Pod]:
    """Return the pods that were asked to move since last time."""
    evictions = world.effects().evictions.values()
    assert {each.reason for each in evictions} <= {"Consolidated"}
    return [each.pod for each in evictions]


def node_of(world: World, pod: Pod) -> str | None:
    """Return the node that a pod has been promised."""
    slot = world.state.slot(pod)
    return None if slot is None else slot.node


def again(pod: Pod, **changes: Any) -> Pod:
    """Return the pod that a controller makes when another has gone."""
    return replace(pod, uid=f"{pod.uid}-again", node_name="", phase=Phase.PENDING, started_at=None, **changes)


class TestMoves:
    """What happens."""

    def test_one_moves_beside_the_other_and_its_place_is_kept(self, world: World) -> None:
        """The gang that waits has the node to itself; a third gang does not get where the one moves to."""
        team(world)
        big = halves(world)
        world.later(11 * MINUTE)
        (pod,) = moved(world)
        other = {"a": "node-1", "b": "node-0"}[pod.group.name]
        assert big.reason is Reason.PREEMPTING
        third = waits(world, "third", 4)
        assert not third.reserved
        world.tell(PodGone(pod.uid))
        world.judge()
        assert big.reserved == {"big-0": pod.node_name}
        assert not third.reserved
        back = again(pod)
        world.tell(PodSeen(back))
        world.judge()
        assert node_of(world, back) == other
        assert third.reason is Reason.INSUFFICIENT_CAPACITY

    def test_without_the_policy_none_moves(self, world: World) -> None:
        """It is for those who move to say that they may."""
        team(world, None)
        big = halves(world)
        world.later(24 * HOUR)
        assert not moved(world)
        assert big.reason is Reason.INSUFFICIENT_CAPACITY

    def test_who_may_not_be_evicted_does_not_move(self, world: World) -> None:
        """Nor does one that no controller makes again, nor one of higher priority."""
        team(world)
        world.nodes(2)
        runs(world, "a", "node-0", options={"preemptible": False})
        runs(world, "b", "node-1", controller="")
        big = waits(world)
        world.later(11 * MINUTE)
        assert not moved(world)
        world.nodes(1, prefix="more")
        world.judge()
        assert big.reserved

    def test_one_of_higher_priority_does_not_move(self, world: World) -> None:
        """What is more important is not disturbed."""
        team(world)
        halves(world, priority=5)
        world.later(11 * MINUTE)
        assert not moved(world)

    def test_a_budget_protects_pods(self, world: World) -> None:
        """As from every eviction."""
        team(world)
        halves(world)
        world.tell(BudgetSeen(DisruptionBudget("default", "all", LabelSelector(), 0)))
        world.later(11 * MINUTE)
        assert not moved(world)

    def test_preemption_goes_first(self, world: World) -> None:
        """A gang of lower priority leaves, and none moves."""
        team(world)
        world.nodes(2)
        runs(world, "a", "node-0", priority=1)
        runs(world, "b", "node-1", priority=1)
        waits(world, priority=2)
        assert {each.reason for each in world.effects().evictions.values()} == {"Preempted"}

    def test_notice_is_given(self, world: World) -> None:
        """For as long as the Queue says."""
        team(world, grace=MINUTE)
        halves(world)
        world.later(11 * MINUTE)
        assert not moved(world)
        world.later(MINUTE)
        assert len(moved(world)) == 1

    def test_the_gang_says_what_is_gained_and_lost(self, world: World) -> None:
        """In GPUs, GPU-hours and nodes."""
        team(world)
        halves(world, options={"checkpoint_interval": 15 * MINUTE})
        world.later(11 * MINUTE)
        (note,) = (note for note in world.effects().notes if note.reason == "Consolidating")
        assert note.message in {
            "1 pods move, so that 8 GPUs start for at most 1.0 GPU-hours lost: default/a from node-0 to node-1",
            "1 pods move, so that 8 GPUs start for at most 1.0 GPU-hours lost: default/b from node-1 to node-0",
        }


class TestWhen:
    """How long is waited, and what that may cost."""

    def test_a_gang_waits_for_the_delay(self, world: World) -> None:
        """Room may come by itself."""
        team(world, replace(MOVES, delay=HOUR))
        halves(world)
        world.later(59 * MINUTE)
        assert not moved(world)
        world.later(2 * MINUTE)
        assert len(moved(world)) == 1

    def test_who_has_just_started_stays_for_the_cool_down(self, world: World) -> None:
        """So none moves again and again."""
        team(world)
        halves(world, age=0.0)
        world.later(59 * MINUTE)
        assert not moved(world)
        world.later(2 * MINUTE)
        assert len(moved(world)) == 1

    def test_no_more_pods_move_in_an_hour_than_the_queue_says(self, world: World) -> None:
        """The next one moves when the hour is over."""
        team(world, replace(MOVES, evictions=1, lost_gpu_hours=1000.0))
        world.nodes(4)
        for index, name in enumerate("abcd"):
            runs(world, name, f"node-{index}")
        waits(world, members=2)
        world.later(11 * MINUTE)
        assert not moved(world)
        waits(world, "small")
        world.later(11 * MINUTE)
        assert len(moved(world)) == 1

    @pytest.mark.parametrize(("interval", "moves"), [(None, 0), (HOUR, 1)], ids=["all is lost", "an hour is lost"])
    def test_no_more_work_is_lost_in_an_hour_than_the_queue_says(
        self, world: World, interval: float | None, moves: int
    ) -> None:
        """Work counts that was not saved: of 4 GPUs for 5 hours, or since the last checkpoint."""
        team(world, replace(MOVES, lost_gpu_hours=5.0))
        halves(world, options={"checkpoint_interval": interval})
        world.later(3 * HOUR)
        assert len(moved(world)) == moves

    @pytest.mark.parametrize(("ends", "moves"), [(30 * MINUTE, 0), (40 * HOUR, 1)], ids=["soon", "late"])
    def test_none_moves_for_a_gang_that_starts_soon_anyway(self, world: World, ends: float, moves: int) -> None:
        """Moves may lose 8.7 GPU-hours for it if it would wait for hours otherwise."""
        team(world)
        halves(world, options={"expected_duration": 2 * HOUR + ends, "checkpoint_interval": None})
        world.later(11 * MINUTE)
        assert len(moved(world)) == moves

    def test_moves_lose_no_more_than_a_gang_has_waited(self, world: World) -> None:
        """Where nobody knows how long it will wait: 8 GPUs for an hour are worth 8 GPU-hours."""
        team(world)
        halves(world, age=1.5 * HOUR, options={"checkpoint_interval": 2 * HOUR})
        world.later(55 * MINUTE)
        assert not moved(world)
        for _ in range(20):
            world.later(MINUTE)
        assert len(moved(world)) == 1

    def test_a_search_that_finds_nothing_is_repeated_ever_less_often(self, world: World) -> None:
        """And finds moves when there are some."""
        team(world)
        world.nodes(2)
        runs(world, "a", "node-0", 5)
        stays = runs(world, "b", "node-1", 5)
        waits(world)
        for _ in range(30):
            world.later(MINUTE)
        assert not moved(world)
        stays.see(0, phase=Phase.SUCCEEDED)
        world.judge()
        runs(world, "c", "node-1", 2)
        gone: list[Pod] = []
        for _ in range(70):
            world.later(MINUTE)
            gone += moved(world)
        assert {pod.group.name for pod in gone} == {"c"}


class TestPlaces:
    """What is kept for those who move."""

    def single(self, world: World, name: str, node: str, **fields: Any) -> Pod:
        """Return a pod without gang that runs on half a node."""
        values: dict[str, Any] = {"node_name": node, "phase": Phase.RUNNING, "started_at": world.now - 2 * HOUR}
        values["controller"] = "web"
        options = Options(queue="team", checkpoint_interval=10 * MINUTE)
        pod = world.pod(name, 4, options=options, **(values | fields))
        world.tell(PodSeen(pod))
        return pod

    def test_a_pod_without_gang_is_followed_by_another_of_its_controller(self, world: World) -> None:
        """It has another name and UID; a pod of another controller does not get the place."""
        team(world)
        world.nodes(2)
        self.single(world, "web-1", "node-0")
        self.single(world, "web-2", "node-1")
        waits(world)
        world.later(11 * MINUTE)
        (pod,) = moved(world)
        fresh = {"node_name": "", "phase": Phase.PENDING, "started_at": None}
        stranger = self.single(world, "stranger", "", **(fresh | {"controller": "other"}))
        world.tell(PodSeen(replace(pod, deleting=True)))
        back = self.single(world, "web-3", "", **fresh)
        world.judge()
        assert node_of(world, stranger) is None
        assert node_of(world, back) == {"web-1": "node-1", "web-2": "node-0"}[pod.name]

    def test_a_gang_without_podgroup_gets_the_place_in_its_next_life(self, world: World) -> None:
        """It begins one when its last pod has gone."""
        team(world)
        world.nodes(2)
        for index, name in enumerate("ab"):
            runs(world, name, f"node-{index}", api=LABEL, options={"min_member": 1})
        big = waits(world)
        world.later(11 * MINUTE)
        (pod,) = moved(world)
        world.tell(PodGone(pod.uid))
        world.judge()
        big.run()
        third = waits(world, "third", 4)
        world.later(MINUTE)
        assert not third.reserved
        back = again(pod)
        world.tell(PodSeen(back))
        world.judge()
        assert node_of(world, back) == {"a": "node-1", "b": "node-0"}[pod.group.name]

    def test_quota_is_kept_as_well(self, world: World) -> None:
        """A gang that came meanwhile does not take it."""
        team(world, gpus=16)
        halves(world)
        world.later(11 * MINUTE)
        (pod,) = moved(world)
        world.nodes(1, prefix="new")
        third = waits(world, "third", 4)
        world.tell(PodGone(pod.uid))
        world.judge()
        assert third.reason is Reason.QUOTA_EXCEEDED
        back = again(pod)
        world.tell(PodSeen(back))
        world.judge()
        assert node_of(world, back) is not None

    def test_a_place_for_which_nobody_comes_is_given_up(self, world: World) -> None:
        """After a quarter of an hour."""
        team(world)
        big = halves(world)
        world.later(11 * MINUTE)
        (pod,) = moved(world)
        world.tell(PodGone(pod.uid))
        world.judge()
        big.run()
        third = waits(world, "third", 4)
        world.later(14 * MINUTE)
        assert not third.reserved
        world.later(2 * MINUTE)
        assert third.reserved

    def test_a_place_is_not_kept_for_who_stays_after_all(self, world: World) -> None:
        """The API server refuses the eviction: the pod stays where it is, and its new place is free."""
        team(world)
        big = halves(world)
        world.later(11 * MINUTE)
        (pod,) = moved(world)
        world.tell(EvictionRefused(pod.uid, "a budget"))
        world.tell(PodGone(big.pods[0].uid))
        assert waits(world, "third", 4, members=2).reserved

    def test_members_beyond_the_minimum_move_alone(self, world: World) -> None:
        """The rest of the gang runs on, and they come back where they were to go."""
        team(world)
        world.nodes(3)
        options = Options(queue="team", checkpoint_interval=10 * MINUTE)
        spare = world.gang("elastic", 2, 4, min_member=1, options=options, controller="job")
        for index, node in enumerate(("node-0", "node-1")):
            spare.see(index, node_name=node, phase=Phase.RUNNING, started_at=world.now - 2 * HOUR)
        runs(world, "full", "node-2", 8, options={"preemptible": False})
        waits(world)
        world.later(11 * MINUTE)
        (pod,) = moved(world)
        assert pod.name == "elastic-1"
        world.tell(PodGone(pod.uid))
        third = waits(world, "third", 4)
        back = again(pod)
        world.tell(PodSeen(back))
        world.judge()
        assert node_of(world, back) == "node-0"
        assert not third.reserved
