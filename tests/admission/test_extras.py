"""Members beyond minMember share what is left."""

from __future__ import annotations

from extender.admission.events import Decide, HoldOff, PodSeen, QueueSeen
from extender.objects.keys import Options
from extender.objects.queue import Flavor, Queue, Quota
from extender.objects.reason import Reason, Wait
from extender.objects.topology import Slice, TopologyTerms
from tests.worlds import GPU, World, elastic


def test_equals_have_equally_many(world: World) -> None:
    """What is left over when all have the same goes to the oldest."""
    world.nodes(1)
    jobs = [elastic(world, name, 8) for name in ("a", "b", "c")]
    world.judge()
    assert [len(job.reserved) for job in jobs] == [3, 3, 2]


def test_what_a_small_gang_does_not_need_goes_to_others(world: World) -> None:
    """A gang has no more than it asks for."""
    world.nodes(1)
    jobs = [elastic(world, name, members) for name, members in (("a", 8), ("b", 2), ("c", 8))]
    world.judge()
    assert [len(job.reserved) for job in jobs] == [3, 2, 3]


def test_those_that_run_count(world: World) -> None:
    """Who has been given members before waits until the others have as many."""
    world.nodes(1)
    first = elastic(world, "first", 4)
    world.judge()
    first.run()
    later = elastic(world, "later", 8)
    first.pods += [world.pod(f"first-{index}", 1, group=first.ref) for index in range(4, 8)]
    for pod in first.pods[4:]:
        world.tell(PodSeen(pod))
    world.judge()
    assert (len(first.reserved), len(later.reserved)) == (0, 4)


def test_priority_comes_first(world: World) -> None:
    """A gang of higher priority has all that it asks for before others have more than their minimum."""
    world.nodes(1)
    low, high = elastic(world, "low", 8), elastic(world, "high", 5, priority=10)
    world.judge()
    assert (len(low.reserved), len(high.reserved)) == (3, 5)


def test_queues_have_their_weighted_parts(world: World) -> None:
    """The queue that has less of its part is next, whatever its gangs have beyond their minimums."""
    world.nodes(1)
    for name, weight in (("team", 1.0), ("other", 3.0)):
        flavors = (Flavor("all", {GPU: Quota(0)}),)
        world.tell(QueueSeen(Queue(name, uid=name, parent="root", flavors=flavors, weight=weight)))
    world.tell(QueueSeen(Queue("root", uid="root", flavors=(Flavor("all", {GPU: Quota(8)}),))))
    jobs = [elastic(world, name, 8, options=Options(queue=name)) for name in ("team", "other")]
    world.judge()
    assert [len(job.reserved) for job in jobs] == [2, 6]


def test_a_queue_without_quota_leaves_it_to_others(world: World) -> None:
    """Its gang has as many as the quota allows, and the other has the rest."""
    world.nodes(1)
    for name, gpus in (("small", 2), ("large", 8)):
        world.tell(QueueSeen(Queue(name, uid=name, flavors=(Flavor("all", {GPU: Quota(gpus)}),))))
    jobs = [elastic(world, name, 8, options=Options(queue=name)) for name in ("small", "large")]
    world.judge()
    assert [len(job.reserved) for job in jobs] == [2, 6]


def test_a_slice_is_one_unit(world: World) -> None:
    """Members of a slice come together, and a gang whose next slice has no room leaves the rest to others."""
    world.nodes(1)
    slices = TopologyTerms(slices=(Slice(3, "node"),))
    sliced, plain = elastic(world, "sliced", 6, options=Options(topology=slices)), elastic(world, "plain", 8)
    world.judge()
    assert [len(job.reserved) for job in (sliced, plain)] == [3, 5]


def test_shapes_without_room_do_not_stop_others(world: World) -> None:
    """A gang whose next member finds no room is asked for its others."""
    world.nodes(1)
    mixed = elastic(world, "mixed", 1)
    mixed.pods += [world.pod(f"mixed-{gpus}", gpus, group=mixed.ref) for gpus in (9, 2, 8, 3)]
    for pod in mixed.pods[1:]:
        world.tell(PodSeen(pod))
    world.judge()
    assert set(mixed.reserved) == {"mixed-0", "mixed-2", "mixed-3"}


def test_what_a_member_is_told_in_the_pass_that_placed_the_others(world: World) -> None:
    """It has no room, whatever its gang waits for: that the others reach bind would not help it."""
    world.nodes(1)
    job = elastic(world, "job", 9)
    world.tell(Decide())
    (left,) = (pod for pod in job.pods if pod.name not in job.reserved)
    assert world.filter(left).refusals[0].text == "gang waits: no room for members beyond minMember"


def test_a_member_is_not_told_of_quota_once_there_is_no_room(world: World) -> None:
    """More quota would not help it then: another scheduler has filled the node."""
    world.nodes(1)
    world.tell(QueueSeen(Queue("team", uid="team", flavors=(Flavor("all", {GPU: Quota(2)}),))))
    job = elastic(world, "job", 3, options=Options(queue="team"))
    world.judge()
    (left,) = (pod for pod in job.pods if pod.name not in job.reserved)
    assert "QuotaExceeded" in world.filter(left).refusals[0].text
    world.tell(PodSeen(world.pod("other", 6, scheduler_name="other", node_name="node-0")))
    world.judge()
    assert world.filter(left).refusals[0].text == "gang waits: no room for members beyond minMember"


def test_members_wait_for_writes_to_get_through(world: World) -> None:
    """They hear that while it is so, and of the room that they lack after it."""
    world.nodes(1)
    job = elastic(world, "job", 9)
    world.judge()
    (left,) = (pod for pod in job.pods if pod.name not in job.reserved)
    heard = []
    for obstacle in (Wait(Reason.WRITES_BACKLOGGED), None):
        world.tell(HoldOff(obstacle))
        world.judge()
        heard.append(world.filter(left).refusals[0].text)
    assert heard[0].startswith("gang waits: WritesBacklogged: ")
    assert heard[1] == "gang waits: no room for members beyond minMember"
