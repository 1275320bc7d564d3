"""Nodes that Queues keep for repairs: free or lent, and never for anybody else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from extender.admission.events import NodeSeen, PodGone, PodSeen
from extender.eviction.spares import SpareCount
from extender.objects.keys import Options
from extender.objects.node import UNSCHEDULABLE_TAINT
from extender.objects.queue import PreemptionPolicy, SparePolicy
from extender.objects.reason import Reason
from tests.eviction.test_losses import RACK, evicted, lose, racked, racks, repaired, replace_evicted
from tests.eviction.test_preemptions import running
from tests.queues.test_sharing import queue, tell
from tests.worlds import Job, World


def keeping(world: World, nodes: int = 1, level: str = "", **fields: Any) -> None:
    """Create Queue team, which keeps nodes and lends them below priority 0."""
    values = {"preemption": PreemptionPolicy(), "spares": SparePolicy(nodes, level)} | fields
    tell(world, queue("team", 800, **values))


def team(world: World, name: str, members: int, **fields: Any) -> Job:
    """Create a gang of Queue team."""
    return world.gang(name, members, group={"options": Options(queue="team")}, **fields)


def count(world: World) -> SpareCount:
    """Return how many spares there are after a pass."""
    world.judge()
    return world.state.spares("team")


def test_a_gang_does_not_start_on_a_spare(world: World) -> None:
    """It waits, with a reason of its own, whichever queue it is in; the rest of the cluster is for all."""
    world.nodes(3)
    keeping(world)
    job = team(world, "job", 2)
    job.run()
    late, other = team(world, "late", 1), world.gang("other", 1)
    for waiting in (late, other):
        assert waiting.reason is Reason.KEPT_FOR_REPAIRS
        assert waiting.wait is not None
        assert waiting.wait.message == "the free capacity is kept for repairs of gangs of Queue team"
    assert count(world) == SpareCount(1, free=1)


def test_a_place_that_is_being_cleared_is_no_spare(world: World) -> None:
    """Where all nodes are in use, the gang has the one that others have left for it; the spare comes after it."""
    world.nodes(2)
    tell(world, queue("team", 800, preemption=PreemptionPolicy()))
    low, other = team(world, "low", 1, priority=1), team(world, "other", 1, priority=9)
    low.run()
    other.run()
    keeping(world)
    high = team(world, "high", 1, priority=5)
    assert list(evicted(world)) == ["low-0"]
    world.tell(PodGone(low.pods[0].uid))
    world.judge()
    assert high.reserved
    assert count(world) == SpareCount(1)


def test_a_repair_uses_it(world: World) -> None:
    """A gang of the Queue that lost a node has the spare at once, and then none is left."""
    world.nodes(3)
    keeping(world)
    job = team(world, "job", 2)
    job.run()
    other = world.gang("other", 1)
    lose(world, job.pods[0].node_name)
    assert repaired(world, job)
    assert count(world) == SpareCount(1)
    assert count(world).missing == 1
    assert other.reason is Reason.INSUFFICIENT_CAPACITY


def test_a_member_that_failed_is_replaced_there(world: World) -> None:
    """However a member was lost, what comes in its stead may use it."""
    world.nodes(3)
    keeping(world)
    job = team(world, "job", 2)
    job.run()
    cordoned = replace(world.state.node(job.pods[0].node_name), taints=(UNSCHEDULABLE_TAINT,))
    world.tell(NodeSeen(cordoned))
    world.tell(PodGone(job.pods.pop(0).uid))
    job.pods.append(world.pod("again", 8, group=job.ref))
    world.tell(PodSeen(job.pods[-1]))
    world.judge()
    assert list(job.reserved) == ["again"]


def test_other_queues_repair_with_their_own(world: World) -> None:
    """What one Queue keeps is not for repairs of another's gangs."""
    world.nodes(3)
    keeping(world)
    other = running(world, "other", 2)
    lose(world, other.pods[0].node_name)
    assert not evicted(world)
    assert other.reason is Reason.NODES_LOST
    assert other.wait is not None
    assert "kept for repairs of gangs of Queue team" in other.wait.message


def test_it_is_lent_to_what_can_leave(world: World) -> None:
    """A gang of low priority runs on it, and is evicted when a repair needs it."""
    world.nodes(3)
    keeping(world)
    job = team(world, "job", 2)
    job.run()
    low = team(world, "low", 1, priority=-1)
    low.run()
    assert count(world) == SpareCount(1, lent=1)
    lose(world, job.pods[0].node_name)
    assert list(evicted(world)) == ["low-0"]
    assert job.reason is Reason.PREEMPTING
    world.tell(PodGone(low.pods[0].uid))
    world.judge()
    assert repaired(world, job)


def test_it_is_not_lent_to_what_stays(world: World) -> None:
    """Not to a gang that cannot be evicted, nor where the Queue's gangs evict none of their own."""
    world.nodes(1)
    keeping(world)
    kept = world.gang("kept", 1, priority=-1, group={"options": Options(queue="team", preemptible=False)})
    assert kept.reason is Reason.KEPT_FOR_REPAIRS
    tell(world, queue("team", 800, spares=SparePolicy(1)))
    assert team(world, "low", 1, priority=-1).reason is Reason.KEPT_FOR_REPAIRS


def test_there_are_some_in_each_domain() -> None:
    """As many as are asked for in each that has them; what is missing is counted."""
    world = racked()
    racks(world, 4, 1, 2)
    keeping(world, 2, RACK)
    assert count(world) == SpareCount(6, free=5)
    assert team(world, "job", 3).reason is Reason.KEPT_FOR_REPAIRS
    assert team(world, "fits", 2).reserved


def test_a_level_that_is_not_known_keeps_nothing(world: World) -> None:
    """Until there is one."""
    world.nodes(2)
    keeping(world, 1, "block")
    assert count(world) == SpareCount()
    assert team(world, "job", 2).reserved


def test_a_lost_spare_is_replaced(world: World) -> None:
    """By another node that is empty."""
    world.nodes(4)
    keeping(world)
    before = spare_of(world)
    lose(world, before)
    assert spare_of(world) not in {"", before}
    assert count(world) == SpareCount(1, free=1)


def spare_of(world: World) -> str:
    """Return the node that is kept."""
    world.judge()
    (keep,) = world.state.spare_earmarks()
    return next(iter(world.state.nodes_of(keep)), "")


def test_what_is_kept_stays_the_same(world: World) -> None:
    """As long as nothing about it changes: no verdict is given again for it."""
    world.nodes(3)
    keeping(world)
    (before,) = world.state.spare_earmarks()
    team(world, "job", 1).run()
    (after,) = world.state.spare_earmarks()
    assert after is before


def test_a_second_repair_finds_what_the_first_left(world: World) -> None:
    """Two gangs that lose a node each with one spare: one is repaired, the other waits."""
    world.nodes(5)
    keeping(world)
    jobs = [team(world, name, 2) for name in ("a", "b")]
    for job in jobs:
        job.run()
    lose(world, *(job.pods[0].node_name for job in jobs))
    world.judge()
    assert [job.reason for job in jobs].count(Reason.NODES_LOST) == 1
    for job in jobs:
        replace_evicted(world, job)
    world.check_promises()
