"""Gangs of which kube-scheduler refuses a member by itself, before it asks Muster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.admission.events import Decide, Outcome, PodGone, PodSeen, Tick
from extender.objects.reason import Reason
from tests.worlds import Job, World

NO_CLAIM = '0/4 nodes are available: persistentvolumeclaim "data" not found. not found'
NO_PEER = "0/4 nodes are available: 4 node(s) didn't match pod affinity rules."
MIXED = "0/4 nodes are available: 1 node(s) didn't match pod affinity rules, 3 Insufficient nvidia.com/gpu."
FULL = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."
OWN = "0/4 nodes are available: 4 gang waits: 0 of 32 members fit now."

OTHERS = "0/4 nodes are available: 1 CardInsufficientMemory. preemption: none"


@pytest.fixture
def world() -> World:
    """Return a world with four nodes of eight GPUs."""
    world = World()
    world.nodes(4)
    return world


def nominated(job: Job) -> None:
    """Show the members as nominated to the nodes that are reserved for them."""
    nodes = job.reserved
    for index, pod in enumerate(job.pods):
        if pod.name in nodes:
            job.see(index, nominated_node=nodes[pod.name])


def nominate(job: Job) -> None:
    """Write the nominations that are called for; one that stands is cleared first."""
    for uid, wish in job.world.effects().nominations.items():
        index = next((index for index, pod in enumerate(job.pods) if pod.uid == uid), None)
        if index is not None:
            if wish.again:
                job.see(index, nominated_node="")
            job.see(index, nominated_node=wish.node)


@pytest.mark.parametrize("words", [NO_CLAIM, NO_PEER])
def test_a_refused_member_releases_its_gang_at_once(world: World, words: str) -> None:
    """The next gang has the room in the same pass, and the reason says who is refused and why."""
    bad = world.gang("bad", 32, gpus=1)
    good = world.gang("good", 2, gpus=1)
    assert (len(bad.reserved), len(good.reserved)) == (32, 0)
    bad.see(0, refusal=words)
    world.judge()
    assert (len(bad.reserved), len(good.reserved)) == (0, 2)
    assert bad.reason is Reason.REFUSED_BY_SCHEDULER
    assert bad.wait is not None
    assert bad.wait.message == f"kube-scheduler refused: default/bad-0: {words}"
    assert world.admission.heads == ()


def test_nothing_is_reserved_for_a_gang_whose_member_is_refused_already(world: World) -> None:
    """A nomination would not wake the member: its refusal stood before there was room."""
    running = world.gang("running", 4)
    running.run()
    bad = world.gang("bad", 4)
    bad.see(3, refusal=NO_CLAIM)
    running.finish()
    good = world.gang("good", 4)
    assert bad.reserved == {}
    assert len(good.reserved) == 4


def test_what_kube_scheduler_asks_about_is_placed_at_once(world: World) -> None:
    """The member passes kube-scheduler's own filters now, whatever it said before."""
    bad = world.gang("bad", 2)
    for index in range(2):
        bad.see(index, refusal=NO_CLAIM)
    world.judge()
    assert bad.reserved == {}
    assert world.filter(bad.pods[0]).outcome is Outcome.PINNED
    assert len(bad.reserved) == 2  # the other lacks the same, and has it now
    bad.see(0, nominated_node=bad.reserved["bad-0"])
    world.later(1)
    assert len(bad.reserved) == 2  # the words still stand, and say nothing new


def test_other_words_are_another_refusal(world: World) -> None:
    """kube-scheduler has tried the member again: it lacks only room, or was asked about."""
    for words in (FULL, OWN, ""):
        bad = world.gang(f"bad-{words[-9:-4]}", 1)
        bad.see(0, refusal=NO_CLAIM)
        world.judge()
        assert bad.reserved == {}
        bad.see(0, refusal=words)
        world.judge()
        assert len(bad.reserved) == 1


def test_a_gang_starts_without_a_refused_member_that_it_does_not_need(world: World) -> None:
    """Members beyond minMember that are refused hold nothing, and keep nobody waiting."""
    job = world.gang("job", 4, min_member=3)
    job.see(1, refusal=NO_CLAIM)
    world.judge()
    assert sorted(job.reserved) == ["job-0", "job-2", "job-3"]
    for index in (0, 2, 3):
        job.bind(index)
    for index in (0, 2, 3):
        job.see(index, node_name=f"node-{index}")
    world.judge()
    assert job.reserved == {}
    assert job.wait is None


def test_a_member_that_has_arrived_is_not_refused(world: World) -> None:
    """It passed kube-scheduler's filters; words that come late are about an earlier attempt."""
    job = world.gang("job", 2)
    job.bind(0)
    job.see(0, refusal=NO_CLAIM)
    world.judge()
    assert len(job.reserved) == 2


def test_what_is_said_behind_muster_releases_nothing(world: World) -> None:
    """Another extender refuses a member that Muster let pass: it is to have another node, and its gang keeps theirs."""
    job = world.gang("job", 2)
    job.bind(0)
    for words in (OTHERS, OTHERS.replace("preemption: none", "preemption: other")):
        assert world.filter(job.pods[1]).outcome is Outcome.PINNED
        job.see(1, refusal=words)
        world.judge()
        assert len(job.reserved) == 2


def test_of_a_member_that_was_let_pass_once_one_word_is_another_extenders(world: World) -> None:
    """What follows without a question to Muster in between is kube-scheduler's own again."""
    job = world.gang("job", 2)
    world.filter(job.pods[1])
    job.see(1, refusal=OWN)
    job.see(1, refusal=OTHERS)
    world.judge()
    assert len(job.reserved) == 2
    job.see(1, refusal=NO_CLAIM)
    world.judge()
    assert job.reserved == {}


def test_a_pod_of_its_own_is_not_reserved_for_either(world: World) -> None:
    """A pod without a group is a gang of one."""
    pod = world.pod("alone", 8, refusal=NO_CLAIM)
    world.tell(PodSeen(pod))
    world.tell(Decide())
    assert world.state.slot(pod) is None
    world.tell(PodGone(pod.uid))
    again = world.pod("alone", 8)
    world.tell(PodSeen(again))
    world.tell(Decide())
    assert world.state.slot(again) is not None


def test_room_may_end_a_mixed_refusal(world: World) -> None:
    """It stood before the nomination, and kube-scheduler is busy: the reservation is kept."""
    other = world.gang("other", 1)
    job = world.gang("job", 2)
    job.see(0, refusal=MIXED)
    world.judge()
    nominated(job)
    for _ in range(10):
        world.clock.advance(1)
        world.filter(replace(other.pods[0]))
        world.tell(Tick())
        world.tell(Decide())
        assert len(job.reserved) == 2


def test_a_mixed_refusal_that_stands_beside_a_nomination_counts(world: World) -> None:
    """kube-scheduler is idle, and does not try the nominated member: its gang holds nothing any longer."""
    job = world.gang("job", 2)
    job.see(0, refusal=MIXED)
    world.judge()
    nominated(job)
    world.later(1.9)
    assert len(job.reserved) == 2
    world.later(0.2)
    assert job.reserved == {}
    assert job.reason is Reason.REFUSED_BY_SCHEDULER
    assert world.filter(job.pods[0]).outcome is Outcome.PINNED


def test_lack_of_room_alone_is_no_refusal(world: World) -> None:
    """Muster sees room that kube-scheduler is about to see, too."""
    job = world.gang("job", 2)
    job.see(0, refusal=FULL)
    world.judge()
    nominated(job)
    world.later(10)
    assert len(job.reserved) == 2


def test_a_member_that_loses_its_nomination_each_time_is_refused(world: World) -> None:
    """kube-scheduler takes nominations off when it tries a pod in vain: three in a row are no accident."""
    job = world.gang("job", 2)
    job.see(0, refusal=MIXED)
    world.judge()
    rounds = 0
    while node := job.reserved.get("job-0"):
        job.see(0, nominated_node=node)
        job.see(0, nominated_node="")
        world.judge()
        rounds += 1
        assert rounds <= 4
    assert job.reserved == {}
    assert job.reason is Reason.REFUSED_BY_SCHEDULER


def test_a_role_that_lacks_refused_members_keeps_its_gang_waiting(world: World) -> None:
    """Enough members of other roles do not make up for one that the role cannot do without."""
    job = world.gang("job", 0, min_member=2, group={"role_minimums": (("leader", 1),)})
    job.pods += [
        world.pod("leader", 1, group=job.ref, role="leader", refusal=NO_CLAIM),
        *(world.pod(f"worker-{index}", 1, group=job.ref, role="worker") for index in range(3)),
    ]
    for pod in job.pods:
        world.tell(PodSeen(pod))
    world.judge()
    assert job.reserved == {}
    assert job.wait is not None
    assert "default/leader" in job.wait.message


def test_room_that_kube_scheduler_does_not_see_is_given_back(world: World) -> None:
    """It tries the member on the promised node, seconds later too, and finds no room: it knows who is there."""
    bad = world.gang("bad", 32, gpus=1)
    good = world.gang("good", 2, gpus=1)
    nominated(bad)
    bad.see(0, refusal=FULL, nominated_node="")
    nominate(bad)
    assert len(bad.reserved) == 32  # as long as room may just have come free
    world.later(2.1)
    nominate(bad)
    bad.see(0, nominated_node="")
    world.judge()
    assert (len(bad.reserved), len(good.reserved)) == (0, 2)
    assert bad.reason is Reason.REFUSED_BY_SCHEDULER
    good.run()
    assert world.filter(bad.pods[0]).outcome is Outcome.REFUSED  # it sees room now, and asks
    assert bad.reason is not Reason.REFUSED_BY_SCHEDULER


def test_an_older_lack_of_room_says_nothing_of_room_that_has_come_free(world: World) -> None:
    """The members waited for those that leave now: they keep what is promised until kube-scheduler tries them."""
    running = world.gang("running", 4)
    running.run()
    waiting = world.gang("waiting", 4)
    for index in range(4):
        waiting.see(index, refusal=FULL)
    running.finish()
    world.judge()
    nominated(waiting)
    for _ in range(20):
        world.later(1)
        nominate(waiting)
    assert len(waiting.reserved) == 4
