"""The pass: who gets a reservation, who waits, and why."""

from __future__ import annotations

from dataclasses import replace

from extender.admission.events import GroupGone, GroupSeen, NodeSeen, PodGone, PodSeen
from extender.objects.keys import Options, Packing
from extender.objects.meta import Selector
from extender.objects.node import UNSCHEDULABLE_TAINT
from extender.objects.pod import Phase
from extender.objects.reason import Problem, Reason
from extender.objects.sources.table import LABEL
from tests.worlds import World


def test_two_gangs_that_share_the_cluster_do_not_split_it(world: World) -> None:
    """Of two gangs that each need all nodes exactly one is reserved whole; the other waits and holds nothing."""
    world.nodes(4)
    first, second = world.gang("a", 4), world.gang("b", 4)
    assert sorted(first.reserved.values()) == ["node-0", "node-1", "node-2", "node-3"]
    assert second.reserved == {}
    assert second.wait is not None
    assert second.wait.reason is Reason.INSUFFICIENT_CAPACITY
    assert second.wait.message == "0 of 4 members fit now"
    world.check_promises()


def test_capacity_that_becomes_free_goes_to_the_waiting_gang(world: World) -> None:
    """When the running gang finishes, the next pass reserves its nodes for the one that waited."""
    world.nodes(4)
    first, second = world.gang("a", 4), world.gang("b", 4)
    first.run()
    first.finish()
    world.judge()
    assert len(second.reserved) == 4
    assert second.reason is Reason.AWAITING_MEMBERS


def test_nothing_is_planned_before_min_member_members_exist(world: World) -> None:
    """A gang that lacks members waits with their count and reserves nothing."""
    world.nodes(4)
    job = world.gang("a", 3, min_member=4)
    assert job.reserved == {}
    assert job.wait is not None
    assert job.wait.message == "3 of 4 members exist"


def test_the_oldest_gang_goes_first_whatever_the_arrival_order(world: World) -> None:
    """Between equal priorities the older PodGroup wins, even if its pods come later."""
    young = world.gang("young", 0, min_member=4, group={"created": "2026-01-02T00:00:00Z"})
    old = world.gang("old", 4, group={"created": "2026-01-01T00:00:00Z"})
    for index in range(4):
        young.pods.append(world.pod(f"young-{index}", 8, group=young.ref))
        world.tell(PodSeen(young.pods[-1]))
    world.nodes(4)
    world.judge()
    assert len(old.reserved) == 4
    assert young.reserved == {}


def test_higher_priority_goes_first(world: World) -> None:
    """Priority beats age."""
    old = world.gang("old", 4)
    urgent = world.gang("urgent", 4, priority=100)
    world.nodes(4)
    world.judge()
    assert old.reserved == {}
    assert len(urgent.reserved) == 4


def test_a_blocked_head_keeps_what_it_waits_for(world: World) -> None:
    """Smaller gangs behind the head get only what it cannot use, so they cannot starve it."""
    world.nodes(4)
    running = world.gang("running", 2)
    running.run()
    head = world.gang("head", 4)
    small = world.gang("small", 2)
    assert head.reason is Reason.INSUFFICIENT_CAPACITY
    assert small.wait is not None
    assert small.wait.reason is Reason.BEHIND_HEAD
    assert small.wait.message == "the free capacity is held for default/head, which is ahead in the queue"
    running.finish()
    world.judge()
    assert len(head.reserved) == 4
    assert small.reserved == {}


def test_a_head_that_can_never_run_blocks_nobody(world: World) -> None:
    """A gang larger than the cluster says so, and those behind it pass."""
    world.nodes(4)
    giant = world.gang("giant", 5)
    small = world.gang("small", 2)
    assert giant.wait is not None
    assert giant.wait.message == "4 of 5 members would fit on the empty cluster"
    assert len(small.reserved) == 2


def test_the_rest_of_the_cluster_is_free_for_those_behind_the_head(world: World) -> None:
    """Capacity that the head cannot use is not kept from others."""
    world.nodes(4)
    world.nodes(2, gpus=0, prefix="cpu")
    world.gang("running", 2).run()
    head = world.gang("head", 4)
    light = world.gang("light", 2, gpus=0)
    assert head.reason is Reason.INSUFFICIENT_CAPACITY
    assert set(light.reserved.values()) <= {"cpu-0", "cpu-1"}
    assert len(light.reserved) == 2


def test_extras_come_after_everybodys_minimum(world: World) -> None:
    """Members beyond minMember are placed when the minimum of every gang has been."""
    world.nodes(4)
    elastic = world.gang("elastic", 4, min_member=2)
    rigid = world.gang("rigid", 2)
    elastic.run()
    world.judge()
    assert len(rigid.reserved) == 2 or rigid.reason is not None
    world.check_promises()


def test_extras_are_placed_one_by_one_as_room_appears(world: World) -> None:
    """With room for three of four members and minMember 2, three are reserved."""
    world.nodes(3)
    elastic = world.gang("elastic", 4, min_member=2)
    assert len(elastic.reserved) == 3


def test_the_launcher_without_gpu_is_a_member_like_any_other(world: World) -> None:
    """A gang of a CPU-only launcher and GPU workers is planned whole."""
    world.nodes(2)
    job = world.gang("mpi", 0, min_member=3)
    for index, gpus in enumerate((0, 8, 8)):
        job.pods.append(world.pod(f"mpi-{index}", gpus, group=job.ref))
        world.tell(PodSeen(job.pods[-1]))
    world.judge()
    assert len(job.reserved) == 3


def test_gated_members_exist_but_cannot_be_placed(world: World) -> None:
    """Scheduling gates keep a gang waiting with a reason of its own."""
    world.nodes(4)
    job = world.gang("a", 4, gated=True)
    assert job.wait is not None
    assert job.wait.message == "4 of 4 members have scheduling gates, 4 must be free of them"
    for index in range(4):
        job.see(index, gated=False)
    world.judge()
    assert len(job.reserved) == 4


def test_succeeded_members_count_towards_min_member(world: World) -> None:
    """A gang of which one member has succeeded needs only the others."""
    world.nodes(3)
    job = world.gang("a", 4, phase=Phase.SUCCEEDED)
    for index in range(1, 4):
        job.see(index, phase=Phase.PENDING)
    world.judge()
    assert len(job.reserved) == 3


def test_failed_members_do_not_count(world: World) -> None:
    """A failed member has to be replaced before the gang can start."""
    world.nodes(4)
    job = world.gang("a", 4, phase=Phase.FAILED)
    for index in range(1, 4):
        job.see(index, phase=Phase.PENDING)
    world.judge()
    assert job.reason is Reason.MEMBERS_MISSING


def test_a_gang_without_its_pod_group_waits_for_it(world: World) -> None:
    """Pods that name a PodGroup which does not exist wait, and are placed once it does."""
    world.nodes(2)
    job = world.gang("a", 2)
    group = job.gang.group
    assert group is not None
    world.tell(GroupGone(job.ref, group.uid))
    world.judge()
    assert job.reason is Reason.POD_GROUP_MISSING
    assert job.reserved == {}
    world.group(job.ref, 2)
    world.judge()
    assert len(job.reserved) == 2


def test_an_invalid_pod_group_is_named_with_its_field(world: World) -> None:
    """The reason carries the field and what is wrong with it."""
    world.nodes(2)
    job = world.gang("a", 2, group={"problem": Problem("spec.minMember", "-1 is negative")})
    assert job.wait is not None
    assert job.wait.message == "PodGroup default/a is invalid: spec.minMember: -1 is negative"


def test_members_of_different_priorities_wait(world: World) -> None:
    """A gang has one place in the queue, so its members must agree on the priority."""
    world.nodes(2)
    job = world.gang("a", 2)
    job.see(0, priority=7)
    world.judge()
    assert job.wait is not None
    assert job.wait.message == "members have different priorities: 0, 7"


def test_members_of_different_schedulers_wait(world: World) -> None:
    """A member that names another scheduler would never reach Muster."""
    world.nodes(2)
    job = world.gang("a", 2)
    job.see(0, scheduler_name="default-scheduler")
    world.judge()
    assert job.wait is not None
    assert job.wait.message == "members name different schedulers: default-scheduler, muster"


def test_a_gang_of_another_scheduler_is_not_judged(world: World) -> None:
    """Pods of other schedulers are theirs, gang or not."""
    world.nodes(2)
    job = world.gang("a", 2, scheduler_name="volcano")
    assert job.reserved == {}
    assert job.wait is None


def test_a_label_gang_needs_no_object(world: World) -> None:
    """Label and annotation alone make a gang."""
    world.nodes(2)
    assert len(world.gang("a", 2, api=LABEL).reserved) == 2


def test_a_label_gang_without_min_member_says_so(world: World) -> None:
    """The annotation is not guessed."""
    world.nodes(2)
    job = world.gang("a", 2, api=LABEL, options=Options())
    assert job.reason is Reason.INVALID_MEMBER


def test_min_resources_are_checked_against_the_whole_cluster(world: World) -> None:
    """A minResources beyond what is free in sum is a reason of its own."""
    world.nodes(2)
    job = world.gang("a", 2, group={"min_resources": {"nvidia.com/gpu": 17}})
    assert job.wait is not None
    assert job.wait.reason is Reason.MIN_RESOURCES_UNMET
    assert job.wait.numbers == {"needed": 17, "free": 16}


def test_no_matching_node_names_the_pod(world: World) -> None:
    """When no node admits a member, the reason names the member and the number of nodes."""
    world.nodes(3)
    job = world.gang("a", 2)
    shape = replace(job.pods[0].shape, selector=Selector(equals=(("gpu", "h100"),)))
    for index in range(2):
        job.see(index, shape=shape)
    world.judge()
    assert job.wait is not None
    assert job.wait.message == "none of 3 nodes matches the selectors and tolerations of default/a-0"


def test_spread_uses_a_node_per_member(world: World) -> None:
    """The placement annotation reaches the plan."""
    world.nodes(4)
    job = world.gang("a", 4, gpus=1, options=Options(packing=Packing.SPREAD))
    assert len(set(job.reserved.values())) == 4


def test_binpack_is_the_default(world: World) -> None:
    """Four single-GPU members share a node."""
    world.nodes(4)
    assert len(set(world.gang("a", 4, gpus=1).reserved.values())) == 1


def test_min_member_raised_while_waiting_is_honoured(world: World) -> None:
    """Editing minMember changes what a gang waits for."""
    world.nodes(4)
    job = world.gang("a", 3)
    assert len(job.reserved) == 3
    assert job.gang.group is not None
    world.tell(GroupSeen(replace(job.gang.group, min_member=4)))
    world.judge()
    assert job.reason is Reason.MEMBERS_MISSING
    assert job.reserved == {}


def test_a_partially_bound_gang_goes_before_everybody(world: World) -> None:
    """A gang that holds nodes but lacks members is completed before higher priorities start."""
    world.nodes(4)
    job = world.gang("a", 4)
    job.run()
    lost = job.pods.pop()
    world.tell(PodGone(lost.uid))
    urgent = world.gang("urgent", 1, priority=1000, never_preempts=True)
    replacement = world.pod("a-3", 8, group=job.ref)
    world.tell(PodSeen(replacement))
    world.tell(PodGone(urgent.pods[0].uid))
    urgent.pods[0] = world.pod("urgent-0", 8, group=urgent.ref, priority=1000, never_preempts=True)
    world.tell(PodSeen(urgent.pods[0]))
    world.judge()
    assert "a-3" in job.reserved
    assert urgent.reserved == {}


def test_equal_gangs_are_told_of_themselves(world: World) -> None:
    """Of gangs of one shape only one is examined, but each reads its own pods and numbers."""
    world.nodes(3)
    shape = replace(world.pod("x", 8).shape, selector=Selector(equals=(("gpu", "h100"),)))
    first, second = (world.gang(name, 2, shape=shape) for name in ("a", "b"))
    assert first.wait is not None
    assert second.wait is not None
    assert "default/a-0" in first.wait.message
    assert "default/b-0" in second.wait.message


def test_a_pod_without_creation_time_does_not_jump_the_queue(world: World) -> None:
    """What was never created is younger than every gang."""
    world.nodes(2)
    world.gang("running", 1).run()
    world.gang("head", 2)
    assert world.filter(world.pod("probe", 8, created="")).accepted == []


def test_room_given_back_behind_a_gang_is_offered_to_it(world: World) -> None:
    """A gang that gives up its places behind one that waits for room leaves it nothing to wait for: it is placed."""
    world.nodes(3)
    low = world.gang("low", 2)
    high = world.gang("high", 2, priority=10)
    assert high.reserved == {}
    closed = world.state.node(low.reserved["low-1"])
    world.tell(NodeSeen(replace(closed, taints=(UNSCHEDULABLE_TAINT,))))
    world.judge()
    assert low.reserved == {}
    assert world.admission.pending
    world.judge()
    assert len(high.reserved) == 2
    assert not world.admission.pending


def test_a_gang_that_its_last_member_left_for_another_is_forgotten(world: World) -> None:
    """Nothing is known any more of a gang without object whose only pod has been relabelled."""
    world.nodes(1)
    job = world.gang("a", 1, min_member=2, api=LABEL)
    other = world.gang("b", 0, min_member=2)
    life = job.gang.uid
    assert world.state.wait(life) is not None
    job.see(0, group=other.ref)
    world.judge()
    assert world.state.wait(life) is None


def test_forgotten_verdicts_are_found_again(world: World) -> None:
    """Judging everybody anew, with nothing changed, decides as before."""
    world.nodes(2)
    placed, waiting = world.gang("a", 2), world.gang("b", 2)
    before = placed.reserved, waiting.wait
    world.state.forget_verdicts()
    world.judge()
    assert (placed.reserved, waiting.wait) == before
    assert [keep.gang for keep in world.admission.heads] == [waiting.gang]
