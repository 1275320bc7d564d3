"""Minimums of roles in preemption, in a reservation that is made anew, and in what people are told."""

from __future__ import annotations

from dataclasses import replace

from extender.admission.events import Decide, PodSeen, Preempt
from extender.explain.documents import GangPhase
from extender.explain.views import view
from extender.objects.pod import Phase
from extender.objects.reason import Reason
from tests.admission.test_role_minimums import plain, team
from tests.worlds import World

RUNNING = {"phase": Phase.RUNNING}


def test_preempt_spares_the_last_of_a_role(world: World) -> None:
    """A gang with workers to spare has no leader to spare."""
    world.nodes(4)
    members = [(role, RUNNING | {"node_name": f"node-{i}"}) for i, role in enumerate(["leader", *["worker"] * 3])]
    job = team(world, members, min_member=3, leader=1, worker=2)
    urgent = world.pod("urgent", 8, priority=1000, scheduler_name="default-scheduler")
    victims = {f"node-{index}": [pod.uid] for index, pod in enumerate(job.pods)}
    assert world.tell(Preempt(urgent, victims)) == ["node-1", "node-2", "node-3"]


def test_a_gang_without_its_leader_has_not_started(world: World) -> None:
    """Whoever looks is told that it waits, though minMember members run."""
    world.nodes(3)
    members = [("worker", RUNNING | {"node_name": f"node-{i}"}) for i in range(3)]
    job = team(world, members, min_member=3, leader=1, worker=2)
    seen = view(job.gang, 0, job.wait, managed=True)
    assert (seen.has_minimum, seen.phase) == (False, GangPhase.SCHEDULING)


def test_a_member_beyond_the_minimum_makes_room_for_another_role(world: World) -> None:
    """A role's minimum goes before what is only reserved for members that nobody waits for."""
    world.nodes(4)
    members = [("worker", RUNNING | {"node_name": f"node-{i}"}) for i in range(3)]
    job = team(world, [*members, *plain(worker=1)], min_member=2, worker=2)
    assert job.reserved == {"worker-3": "node-3"}
    world.group(job.ref, 2, uid=job.gang.uid, role_minimums=(("worker", 2), ("zookeeper", 1)))
    other = world.pod("zookeeper", 8, group=job.ref, role="zookeeper")
    world.tell(PodSeen(other))
    world.judge()
    assert job.reserved == {"zookeeper": "node-3"}


def test_a_changed_role_is_judged_at_once(world: World) -> None:
    """Whoever labels a pod as the leader that is missing need not wait for something else to happen."""
    world.nodes(3)
    job = team(world, plain(worker=3), min_member=3, leader=1)
    assert job.reason is Reason.ROLE_MEMBERS_MISSING
    world.tell(PodSeen(replace(job.pods[0], role="leader")))
    world.tell(Decide())
    assert len(job.reserved) == 3
