"""Moves that make a waiting gang fit: shown on request, made on request, and never without a place to go to."""

from __future__ import annotations

from typing import Any

from extender.admission.defragment import Defragmentation
from extender.admission.events import BudgetSeen, Defragment, HoldOff, PodGone, PodSeen
from extender.eviction.moves import Move
from extender.objects import keys
from extender.objects.budget import DisruptionBudget
from extender.objects.meta import LabelSelector, Selector
from extender.objects.pod import Phase, Shape
from extender.objects.queue import Flavor, Quota
from extender.objects.reason import Reason
from tests.eviction.test_preemptions import evicted
from tests.queues.test_sharing import queue, tell
from tests.worlds import GPU, Job, World


def small(world: World, name: str, node: str, gpus: int = 4, **fields: Any) -> Job:
    """Return a gang of one pod that runs on half a node."""
    return world.gang(name, 1, gpus, node_name=node, phase=Phase.RUNNING, **fields)


def fragmented(world: World, **fields: Any) -> Job:
    """Return a gang that wants a whole node, of which there are only two halves."""
    world.nodes(2)
    small(world, "a", "node-0")
    small(world, "b", "node-1")
    waiting = world.gang("waiting", 1, **fields)
    assert not waiting.reserved
    world.effects()
    return waiting


def ask(world: World, job: Job, *, apply: bool = False) -> Defragmentation:
    """Ask for moves."""
    found = world.tell(Defragment(job.ref, apply=apply))
    world.judge()
    return found


class TestPlan:
    """What would have to move."""

    def test_it_says_who_would_go_where(self, world: World) -> None:
        """Of two halves one is moved beside the other; nothing is done."""
        waiting = fragmented(world)
        found = ask(world, waiting)
        assert found.fits
        (move,) = found.moves
        assert move in {
            Move("default/a", 1, ("node-0",), ("node-1",)),
            Move("default/b", 1, ("node-1",), ("node-0",)),
        }
        assert not evicted(world)
        assert waiting.reason is Reason.INSUFFICIENT_CAPACITY

    def test_priority_does_not_matter(self, world: World) -> None:
        """Whoever moves loses nothing but time: the more important may be asked to."""
        world.nodes(2)
        small(world, "a", "node-0", priority=9)
        small(world, "b", "node-1", priority=9)
        assert ask(world, world.gang("waiting", 1)).fits

    def test_pods_without_gang_move_too(self, world: World) -> None:
        """They are named like gangs."""
        world.nodes(2)
        for index in range(2):
            pod = world.pod(f"single-{index}", 4, node_name=f"node-{index}", phase=Phase.RUNNING)
            world.tell(PodSeen(pod))
        found = ask(world, world.gang("waiting", 1))
        assert found.fits
        assert found.moves[0].name in {"default/single-0", "default/single-1"}

    def test_whoever_cannot_go_anywhere_stays(self, world: World) -> None:
        """The gang that would be cheapest to move fits only where it is; so the other one moves."""
        world.nodes(2)
        now = world.clock.now().timestamp()
        bound = Selector(equals=(("kubernetes.io/hostname", "node-0"),))
        shape = Shape((("cpu", 1000), (GPU, 4), ("pods", 1)), bound)
        world.nodes(1, prefix="other", labels={"kubernetes.io/hostname": "other-0"})
        full = small(world, "full", "other-0", 8)
        small(world, "stuck", "node-0", shape=shape, started_at=now)
        small(world, "old", "node-1", started_at=now - 3600)
        full.see(0, options=keys.Options(preemptible=False))
        found = ask(world, world.gang("waiting", 1))
        assert found.moves == (Move("default/old", 1, ("node-1",), ("node-0",)),)

    def test_a_gang_that_fits_needs_no_moves(self, world: World) -> None:
        """What runs has its place; what has a reservation is there already."""
        world.nodes(1)
        job = world.gang("job", 1)
        job.run()
        assert ask(world, job) == Defragmentation(fits=True)

    def test_a_gang_with_room_elsewhere_needs_none_either(self, world: World) -> None:
        """If it would fit as things are, nobody moves, even if it is asked to be done."""
        waiting = fragmented(world)
        world.tell(HoldOff(waiting.wait))
        world.nodes(1, prefix="new")
        found = ask(world, waiting, apply=True)
        assert found == Defragmentation(fits=True)
        assert not evicted(world)


class TestNoPlan:
    """Why no moves help."""

    def test_without_room_for_those_who_move(self, world: World) -> None:
        """A full cluster has nowhere to move anybody."""
        world.nodes(1)
        small(world, "a", "node-0")
        small(world, "b", "node-0")
        found = ask(world, world.gang("waiting", 1))
        assert found == Defragmentation(
            fits=False, reason="no moves make it fit such that every gang that moves has another place"
        )

    def test_who_is_not_preemptible_is_not_moved(self, world: World) -> None:
        """With muster.dev/preemptible false a gang, or a pod, stays where it is."""
        world.nodes(2)
        fixed = keys.Options(preemptible=False)
        small(world, "a", "node-0", options=fixed)
        pod = world.pod("single", 4, node_name="node-1", phase=Phase.RUNNING, options=fixed)
        world.tell(PodSeen(pod))
        assert not ask(world, world.gang("waiting", 1)).fits

    def test_budgets_are_respected(self, world: World) -> None:
        """Whom a PodDisruptionBudget protects is not moved."""
        waiting = fragmented(world)
        world.tell(BudgetSeen(DisruptionBudget("default", "all", LabelSelector(), 0)))
        assert not ask(world, waiting).fits

    def test_quota_is_not_made_by_moving(self, world: World) -> None:
        """A gang that lacks quota is told the reason for which it waits."""
        world.nodes(2)
        tell(world, queue("team", 4))
        waiting = world.gang("waiting", 1, options=keys.Options(queue="team"))
        assert waiting.reason is Reason.EXCEEDS_QUOTA
        assert waiting.wait is not None
        assert ask(world, waiting).reason == waiting.wait.message

    def test_quota_is_told_as_people_write_it(self, world: World) -> None:
        """Memory in powers of 1024."""
        world.nodes(2)
        tell(world, queue("team", flavors=(Flavor("all", {"memory": Quota(2**30)}),)))
        shape = Shape((("memory", 2**31), ("pods", 1)))
        waiting = world.gang("waiting", 1, options=keys.Options(queue="team"), shape=shape)
        reason = "asks for 2Gi memory of all, of which Queue team can never have more than 1Gi"
        assert ask(world, waiting).reason == reason

    def test_a_queue_that_cannot_be_used_is_named(self, world: World) -> None:
        """So is one that does not exist."""
        world.nodes(1)
        waiting = world.gang("waiting", 1, options=keys.Options(queue="team"))
        assert ask(world, waiting).reason == "no Queue is called team; known: none"

    def test_a_queue_without_flavor_for_it_says_so(self, world: World) -> None:
        """No flavor has quota for all that it asks for."""
        world.nodes(1)
        flavors = (Flavor("cpu", {"cpu": Quota(8000)}), Flavor("gpu", {GPU: Quota(8)}))
        tell(world, queue("team", flavors=flavors))
        waiting = world.gang("waiting", 1, options=keys.Options(queue="team"))
        assert waiting.reason is Reason.INVALID_QUEUE
        assert waiting.wait is not None
        assert ask(world, waiting).reason == waiting.wait.message

    def test_members_that_nobody_can_place_make_no_plan(self, world: World) -> None:
        """A gang all of whose members are gated waits for no node."""
        world.nodes(1)
        waiting = world.gang("waiting", 1, gated=True)
        assert ask(world, waiting) == Defragmentation(fits=False, reason="no member waits for a node")


class TestApply:
    """What is done when asked for."""

    def test_who_has_to_move_is_evicted_and_the_place_kept(self, world: World) -> None:
        """The victims are told that it is to defragment; the gang gets the room, the moved go beside it."""
        waiting = fragmented(world)
        found = ask(world, waiting, apply=True)
        effects = world.effects()
        (evict,) = effects.evictions.values()
        assert str(evict.pod.group) == found.moves[0].name
        assert evict.reason == "Defragmented"
        assert evict.message == "evicted for default/waiting: to defragment, as was asked for"
        assert waiting.reason is Reason.PREEMPTING
        world.tell(PodGone(evict.pod.uid))
        world.judge()
        assert set(waiting.reserved.values()) == set(found.moves[0].origins)

    def test_asked_twice_it_is_done_once(self, world: World) -> None:
        """Who is leaving already is not chosen again: what is under way is taken up anew."""
        waiting = fragmented(world)
        ask(world, waiting, apply=True)
        first = evicted(world)
        found = ask(world, waiting, apply=True)
        assert found.fits
        assert found.reason == "its place is being cleared; pods of others that are still there: 1"
        assert set(first) == {"Defragmented"}
        assert waiting.reason is Reason.PREEMPTING

    def test_what_is_kept_for_others_is_not_given_away(self, world: World) -> None:
        """A gang behind one for which a place is kept is not said to fit there: the cycle would not place it."""
        world.nodes(1)
        small(world, "a", "node-0")
        first = world.gang("first", 1)
        behind = world.gang("behind", 1, 4)
        world.judge()
        assert first.reason is Reason.INSUFFICIENT_CAPACITY
        assert behind.reason is Reason.BEHIND_HEAD
        assert not ask(world, behind).fits
