"""Running gangs that lose members: their places are kept for them, and in the end what is left is let go."""

from __future__ import annotations

from dataclasses import replace

from extender.admission.events import GroupGone, NodeGone, NodeSeen, PodGone, PodSeen
from extender.objects import keys
from extender.objects.pod import Phase
from extender.objects.podgroup import GroupProgress
from extender.objects.podspec import Taint
from extender.objects.reason import Reason
from extender.objects.sources.jobset import JOBSET
from tests.eviction.test_preemptions import evicted, running
from tests.worlds import Job, World

INTERRUPTED = Taint("aws-node-termination-handler/spot-itn", "", "NoSchedule")


def lose(world: World, job: Job, index: int) -> None:
    """Let a member be gone."""
    world.tell(PodGone(job.pods.pop(index).uid))
    world.judge()


def replacement(world: World, job: Job) -> None:
    """Create a member in place of a lost one."""
    job.pods.append(world.pod(f"again-{len(job.pods)}", 8, group=job.ref))
    world.tell(PodSeen(job.pods[-1]))
    world.judge()


class TestGrace:
    """As long as the grace lasts."""

    def test_the_place_of_a_lost_member_is_kept(self, world: World) -> None:
        """Nobody takes the node of a lost member before its replacement comes, which gets it."""
        world.nodes(2)
        job = running(world, "job", 2)
        lose(world, job, 0)
        filler = world.gang("filler", 1)
        single = world.pod("single", 8)
        world.tell(PodSeen(single))
        assert not filler.reserved
        assert not world.filter(single).accepted
        replacement(world, job)
        assert len(job.reserved) == 1
        assert not filler.reserved

    def test_a_failed_member_counts_as_lost(self, world: World) -> None:
        """The place of a member that failed is kept as well."""
        world.nodes(2)
        job = running(world, "job", 2)
        job.see(0, phase=Phase.FAILED)
        world.judge()
        assert not world.gang("filler", 1).reserved

    def test_nothing_is_kept_of_a_gang_that_ends(self, world: World) -> None:
        """When all members are being deleted their places are for others as they go."""
        world.nodes(2)
        job = running(world, "job", 2)
        for index in range(2):
            job.see(index, deleting=True)
        lose(world, job, 0)
        assert world.gang("filler", 1).reserved

    def test_nothing_is_kept_of_members_beyond_the_minimum(self, world: World) -> None:
        """A gang that still has its minimum runs on, and its lost member's place is for whoever is next."""
        world.nodes(3)
        job = running(world, "job", 3, min_member=2)
        lose(world, job, 2)
        assert world.gang("filler", 1).reserved

    def test_who_does_not_want_it_keeps_nothing(self, world: World) -> None:
        """With muster.dev/below-minimum ignore nothing is kept, and nobody evicted."""
        world.nodes(2)
        job = running(world, "job", 2, options=keys.Options(below_minimum=keys.BelowMinimum.IGNORE))
        lose(world, job, 0)
        assert world.gang("filler", 1).reserved
        world.later(1000)
        assert not evicted(world)


class TestEnd:
    """When the grace is over."""

    def test_what_is_left_is_evicted(self, world: World) -> None:
        """A gang that nobody joined holds nodes in vain: what is left of it is evicted, and says why."""
        world.nodes(2)
        job = running(world, "job", 2)
        lose(world, job, 0)
        world.effects()
        world.later(301)
        effects = world.effects()
        (evict,) = effects.evictions.values()
        assert evict.reason == "BelowMinimum"
        assert evict.message == "evicted because 1 of 2 members are left, and no others came in 300 s"

    def test_who_would_rather_wait_may(self, world: World) -> None:
        """With muster.dev/below-minimum repair the rest stays, but its lost place is for others."""
        world.nodes(2)
        job = running(world, "job", 2, options=keys.Options(below_minimum=keys.BelowMinimum.REPAIR))
        lose(world, job, 0)
        world.later(301)
        assert not evicted(world)
        assert world.gang("filler", 1).reserved

    def test_a_repaired_gang_stays(self, world: World) -> None:
        """A gang that has its minimum again in time runs on."""
        world.nodes(2)
        job = running(world, "job", 2)
        lose(world, job, 0)
        replacement(world, job)
        job.run()
        world.effects()
        world.later(1000)
        assert not evicted(world)
        assert job.reason is None


class TestNotice:
    """Nodes that are announced to go."""

    def test_the_grace_begins_with_the_announcement(self, world: World) -> None:
        """A gang whose node is interrupted has its grace from then on, whatever time its pods take to go."""
        world.nodes(3)
        job = running(world, "job", 2)
        node = world.state.node(job.pods[0].node_name)
        world.tell(NodeSeen(replace(node, taints=(INTERRUPTED,))))
        world.judge()
        world.later(200)
        lose(world, job, 0)
        world.effects()
        world.later(101)
        assert set(evicted(world)) == {"BelowMinimum"}

    def test_a_node_that_is_spared_after_all_threatens_nobody(self, world: World) -> None:
        """When the announcement is taken back, or the node is gone and its gang whole elsewhere, all is well."""
        world.nodes(3)
        job = running(world, "job", 2)
        world.tell(PodSeen(world.pod("single", 0, node_name=job.pods[0].node_name, phase=Phase.RUNNING)))
        node = world.state.node(job.pods[0].node_name)
        world.tell(NodeSeen(replace(node, taints=(INTERRUPTED,))))
        world.judge()
        world.tell(NodeSeen(node))
        job.see(0, labels={"changed": "yes"})
        world.judge()
        world.later(1000)
        assert not evicted(world)
        world.tell(NodeSeen(replace(node, taints=(INTERRUPTED,))))
        world.tell(NodeGone(node.name))
        world.judge()
        assert node.name not in {each.name for each in world.state.nodes()}

    def test_a_gang_that_is_gone_keeps_nothing(self, world: World) -> None:
        """Its PodGroup was deleted, and its pods are gone: nothing is kept, and nobody evicted."""
        world.nodes(2)
        job = running(world, "job", 2)
        uid = job.gang.uid
        lose(world, job, 0)
        world.tell(GroupGone(job.ref, uid))
        world.tell(PodGone(job.pods.pop().uid))
        world.judge()
        assert world.gang("filler", 2).reserved
        world.later(1000)
        assert not evicted(world)

    def test_the_place_on_such_a_node_is_not_kept(self, world: World) -> None:
        """A member's replacement goes to another node, even if it tolerates everything."""
        world.nodes(3)
        job = running(world, "job", 2)
        lost = job.pods[0].node_name
        node = world.state.node(lost)
        world.tell(NodeSeen(replace(node, taints=(INTERRUPTED,))))
        lose(world, job, 0)
        replacement(world, job)
        assert lost not in job.reserved.values()
        assert job.reason is Reason.AWAITING_MEMBERS


def test_a_gang_that_grows_by_a_step_is_not_taken_for_a_wounded_one(world: World) -> None:
    """What its controller makes later has not been lost, and what runs waits for it."""
    world.nodes(1)
    group = {"role_minimums": (("driver", 1),), "steps": (GroupProgress("worker", after=0, least=2),)}
    job = world.gang("a", 1, gpus=1, api=JOBSET, group=group, role="driver")
    job.run()
    for index in range(2):
        job.pods.append(world.pod(f"worker-{index}", 8, group=job.ref, role="worker"))
        world.tell(PodSeen(job.pods[-1]))
    world.judge()
    world.later(3600)
    assert not evicted(world)
    assert job.reason is Reason.EXCEEDS_CLUSTER
