"""How much work a pass and an event cost, counted in calls of functions: the same on every machine."""

from __future__ import annotations

from dataclasses import replace

from extender.admission.events import Arrive, Decide, Filter, NodeSeen, PodSeen, Tick
from extender.objects.pod import Phase, Pod
from tests.counting import calls
from tests.worlds import Job, World


def _full(waiting: int, *, lacking: int = 0) -> tuple[World, Job]:
    """Return a world where everything is taken, many gangs wait for room or for members, and the last of those."""
    world = World()
    world.nodes(4)
    world.gang("running", 4).run()
    for index in range(waiting):
        world.gang(f"waiting-{index}", 2 + index % 3)
    for index in range(lacking):
        world.gang(f"lacking-{index}", 1, min_member=2)
    job = world.gang("last", 1, min_member=4)
    world.judge()
    return world, job


def _pass_after_a_member_came(world: World, job: Job) -> int:
    world.tell(PodSeen(world.pod("last-1", 8, group=job.ref)))
    return calls(world.admission.decide)


def test_gangs_that_lack_members_cost_a_pass_nothing() -> None:
    """A pass after a change of one gang is as much work beside 200 others that lack members as beside two."""
    assert _pass_after_a_member_came(*_full(2, lacking=200)) == _pass_after_a_member_came(*_full(2, lacking=2))


def test_gangs_that_wait_for_room_cost_a_pass_nothing_unless_room_changed() -> None:
    """A pass after a change of one gang judges none of those that wait for room."""
    assert _pass_after_a_member_came(*_full(200)) == _pass_after_a_member_came(*_full(20))


def test_members_that_are_placed_cost_a_pass_nothing() -> None:
    """A pass after a change of another gang does not look at the slots of a reservation."""

    def work(members: int) -> int:
        world = World()
        world.nodes(members // 8 + 1)
        world.gang("placed", members, gpus=1)
        job = world.gang("last", 1, min_member=4)
        world.judge()
        return _pass_after_a_member_came(world, job)

    assert work(400) == work(8)


def test_equal_gangs_are_examined_once_when_room_changed() -> None:
    """After room was given back three sizes of gangs are judged; who waits for another reason then is told so."""

    def work(waiting: int) -> int:
        world, _ = _full(waiting)
        world.tell(NodeSeen(replace(world.state.nodes()[0], allocatable={"cpu": 1})))
        return calls(world.admission.decide)

    few, many = work(30), work(230)
    assert (many - few) / 200 < 3


def test_a_crowd_that_waits_costs_others_nothing() -> None:
    """A gang is placed with as much work beside 2,000 pods of another tenant that wait as beside 20 of them."""

    def work(crowd: int) -> int:
        world = World()
        world.nodes(4)
        world.gang("running", 4).run()
        for index in range(crowd):
            world.tell(PodSeen(world.pod(f"crowd-{index}", 8)))
        world.judge()
        world.tell(PodSeen(world.pod("small")))
        return calls(world.admission.decide)

    few, many = work(20), work(2000)
    assert many <= few


class TestLife:
    """One gang from its first pod to the last one running."""

    @staticmethod
    def life(members: int) -> int:
        """Count the calls of all that happens to a gang whose pods arrive one by one."""
        world = World()
        world.nodes(members // 8)
        job = world.gang("job", 0, min_member=members)
        pods = [world.pod(f"job-{index}", 1, group=job.ref) for index in range(members)]
        admission = world.admission

        def play() -> None:
            def tell(pod: Pod) -> None:
                world.tell(PodSeen(pod))
                world.tell(Tick())
                while world.tell(Decide()) and admission.deciding:
                    pass
                admission.next_tick()

            for pod in pods:
                tell(pod)
            nodes = {uid: order.node for uid, order in world.effects().nominations.items()}
            nominated = [replace(pod, nominated_node=nodes[pod.uid]) for pod in pods]
            for pod in nominated:
                tell(pod)
            for pod in nominated:
                assert world.tell(Filter(pod, [pod.nominated_node])).accepted == [pod.nominated_node]
                world.tell(Arrive(pod.uid, pod.nominated_node))
            for pod in nominated:
                tell(replace(pod, node_name=pod.nominated_node, phase=Phase.RUNNING))

        work = calls(play)
        assert job.gang.census().running == members
        return work

    def test_work_per_member_does_not_grow_with_the_gang(self) -> None:
        """A member of a gang of 400 costs what one of a gang of 40 costs."""
        small, large = self.life(40) / 40, self.life(400) / 400
        assert large < 1.1 * small

    def test_an_arrival_is_as_much_work_in_a_large_gang(self) -> None:
        """Filter and bind of one member look at no other."""

        def work(members: int) -> int:
            world = World()
            world.nodes(members // 8)
            job = world.gang("job", members, gpus=1)
            for index in range(members // 2):
                job.bind(index)
            pod = replace(job.pods[-1], nominated_node=job.reserved[job.pods[-1].name])
            return calls(
                lambda: (world.filter(pod, [pod.nominated_node]), world.tell(Arrive(pod.uid, pod.nominated_node)))
            )

        assert work(400) == work(40)
