"""Queues as gangs meet them: quota, borrowing, turns, stops, and what is said to those that wait."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from extender.admission.events import Arrive, NamespaceGone, NamespaceSeen, NodeSeen, PodSeen, QueueGone, QueueSeen
from extender.objects import keys
from extender.objects.meta import LabelSelector, Requirement
from extender.objects.queue import (
    Flavor,
    PreemptionPolicy,
    Queue,
    QueueingStrategy,
    Quota,
    Reclaim,
    StopPolicy,
    WithinQueue,
)
from extender.objects.reason import Reason
from extender.queues.charges import Charges
from tests.counting import calls
from tests.worlds import GPU, Job, World

NEVER = PreemptionPolicy(within_queue=WithinQueue.NEVER, reclaim_within_cohort=Reclaim.NEVER)


def queue(name: str, gpus: int | None = None, **fields: Any) -> Queue:
    """Return a Queue that nobody is evicted for, with quota for GPUs on all nodes if a number of them is given."""
    quota = Quota(gpus or 0, fields.pop("borrowing", None), fields.pop("lending", None))
    flavors = () if gpus is None else (Flavor("all", {GPU: quota}),)
    return Queue(name, **({"uid": f"queue-{name}", "flavors": flavors, "preemption": NEVER} | fields))


def tell(world: World, *queues: Queue) -> None:
    """Let the admission see Queues, and judge."""
    for each in queues:
        world.tell(QueueSeen(each))
    world.judge()


def gang(world: World, name: str, members: int, to: str, gpus: int = 8, **fields: Any) -> Job:
    """Create a gang in a queue."""
    return world.gang(name, members, gpus, options=keys.Options(queue=to), **fields)


class TestQuota:
    """What a queue may have."""

    def test_members_that_come_one_by_one_have_the_same_charge(self, world: World) -> None:
        """Of fifty thousand pods that run a charge is kept for each gang, in whatever steps they are listed."""
        world.nodes(8)
        tell(world, queue("research", 64))
        gang(world, "gang", 8, "research")
        model, sharing = world.admission.model, world.admission.sharing
        charges = Charges(model, sharing.queue_of_pod)
        for uid in list(model.pods):
            charges.look_at([uid])
        (charge,) = {id(charge): charge for charge in map(charges.of, model.pods)}.values()
        assert charge is not None
        assert (charge.queue, charge.gpus) == ("research", 8)

    def test_what_is_charged_together_is_what_is_charged_one_by_one(self, world: World) -> None:
        """Members that are alike are charged in one step, others by themselves; the queues hold the same."""
        world.nodes(8)
        tell(world, queue("research", 64), queue("other", 64))
        for number, (to, gpus) in enumerate([("research", 1), ("research", 2), ("other", 3)]):
            gang(world, f"gang-{number}", 8, to, gpus, priority=number)
        model, sharing = world.admission.model, world.admission.sharing
        charges = Charges(model, sharing.queue_of_pod)
        for uid in model.pods:
            charges.look_at([uid])
        for name in ("research", "other"):
            assert charges.tree.usage(name) == sharing.tree.usage(name)
            assert charges.holders(name) == sharing.charges.holders(name)
            assert charges.lowest_priority(name) == sharing.charges.lowest_priority(name)
        charges.look_at(model.pods)
        assert charges.tree.usage("research") == sharing.tree.usage("research")
        assert sharing.tree.usage("research")[GPU] == 8 + 16

    def test_a_gang_within_its_quota_is_placed_and_the_next_waits(self, world: World) -> None:
        """Quota is charged when a gang is placed; who does not find enough of it waits although nodes are free."""
        world.nodes(4)
        tell(world, queue("research", 16))
        first, second = gang(world, "first", 2, "research"), gang(world, "second", 1, "research")
        assert len(first.reserved) == 2
        assert second.reason is Reason.QUOTA_EXCEEDED
        assert second.wait is not None
        assert second.wait.message == "asks for 8 nvidia.com/gpu of all, of which Queue research has 0 left now"

    def test_quota_comes_back_with_the_pods(self, world: World) -> None:
        """When a gang has finished, the next of its queue has its quota."""
        world.nodes(4)
        tell(world, queue("research", 16))
        first = gang(world, "first", 2, "research")
        first.run()
        second = gang(world, "second", 2, "research")
        assert not second.reserved
        first.finish()
        world.judge()
        assert len(second.reserved) == 2

    def test_what_never_fits_the_quota_says_so(self, world: World) -> None:
        """A gang that asks for more than its queue can ever have is told how much that is, whatever is used now."""
        world.nodes(4)
        tell(world, queue("research", 16))
        gang(world, "small", 1, "research").run()
        job = gang(world, "large", 4, "research")
        assert job.reason is Reason.EXCEEDS_QUOTA
        assert job.wait is not None
        assert job.wait.message.endswith("of which Queue research can never have more than 16")
        assert job.wait.numbers == {"asked": 32, "available": 16}

    def test_a_queue_borrows_what_its_siblings_leave(self, world: World) -> None:
        """Siblings lend each other what they do not use, up to the borrowing limit."""
        world.nodes(8)
        tell(world, queue("all"), queue("red", 16, parent="all", borrowing=8), queue("blue", 16, parent="all"))
        jobs = [gang(world, f"job-{index}", 1, "red") for index in range(4)]
        assert [bool(job.reserved) for job in jobs] == [True, True, True, False]
        assert jobs[3].reason is Reason.QUOTA_EXCEEDED

    def test_a_gang_runs_in_the_first_flavor_that_has_room(self, world: World) -> None:
        """Flavors are tried in order, quota first and then nodes, and a gang stays whole in one."""
        world.nodes(1, prefix="spot", labels={"kind": "spot"})
        world.nodes(4, prefix="own", labels={"kind": "own"})
        flavors = (
            Flavor("spot", {GPU: Quota(32)}, (("kind", "spot"),)),
            Flavor("own", {GPU: Quota(16)}, (("kind", "own"),)),
        )
        tell(world, queue("research", flavors=flavors))
        large, small = gang(world, "large", 2, "research"), gang(world, "small", 1, "research")
        assert {node[:3] for node in large.reserved.values()} == {"own"}
        assert set(small.reserved.values()) == {"spot-0"}
        last = gang(world, "last", 1, "research")
        assert last.reason is Reason.INSUFFICIENT_CAPACITY

    def test_resources_without_quota_are_not_limited(self, world: World) -> None:
        """A gang that asks for nothing of which there is quota is placed wherever there is room."""
        world.nodes(2)
        tell(world, queue("research", 0))
        assert len(gang(world, "cpu", 2, "research", gpus=0).reserved) == 2

    def test_elastic_members_stop_at_the_quota(self, world: World) -> None:
        """Members beyond minMember are placed one by one as far as quota goes."""
        world.nodes(4)
        tell(world, queue("research", 24))
        job = gang(world, "elastic", 4, "research", min_member=2)
        assert len(job.reserved) == 3

    def test_pods_without_gang_are_charged_and_checked(self, world: World) -> None:
        """A single pod is planned as long as its queue has quota, and is told when it has none, as any gang is."""
        world.nodes(2)
        tell(world, queue("research", 8))
        options = keys.Options(queue="research")
        first, second = (world.pod(name, 8, options=options) for name in ("first", "second"))
        assert world.ask(first).accepted
        answer = world.ask(second)
        assert not answer.accepted
        assert "Queue research" in answer.text
        assert world.state.waits()[f"pod:{second.uid}"].reason is Reason.QUOTA_EXCEEDED

    def test_what_moves_to_another_queue_is_charged_there(self, world: World) -> None:
        """A running gang that is put into another queue takes its usage with it."""
        world.nodes(4)
        tell(world, queue("red", 16), queue("blue", 16))
        job = gang(world, "job", 2, "red")
        job.run()
        for index in range(2):
            job.see(index, options=keys.Options(queue="blue"))
        world.judge()
        assert (world.state.used("red", "all", GPU), world.state.used("blue", "all", GPU)) == (0, 16)

    def test_quota_that_a_gang_leaves_behind_is_had_at_once(self, world: World) -> None:
        """When a running gang is put into another queue, one that waits for quota in the old one starts."""
        world.nodes(4)
        tell(world, queue("red", 16), queue("blue", 16))
        job = gang(world, "job", 2, "red")
        job.run()
        waiting = gang(world, "waiting", 2, "red")
        assert waiting.reason is Reason.QUOTA_EXCEEDED
        for index in range(2):
            job.see(index, options=keys.Options(queue="blue"))
        world.judge()
        assert waiting.reserved


class TestWhichQueue:
    """Which queue a gang is in."""

    def test_a_queue_that_does_not_exist_is_named_with_those_that_do(self, world: World) -> None:
        """A gang that names an unknown queue waits, and starts when somebody creates it."""
        world.nodes(1)
        tell(world, queue("research", 8))
        job = gang(world, "job", 1, "search")
        assert job.wait is not None
        assert job.wait.message == "no Queue is called search; known: research"
        tell(world, queue("search", 8))
        assert job.reserved

    def test_without_a_word_it_is_the_default_of_the_namespace(self, world: World) -> None:
        """A gang that names no queue is in the default queue that takes its namespace."""
        world.nodes(2)
        world.tell(NamespaceSeen("default", {"team": "a"}))
        team = LabelSelector((Requirement("team", "In", ("a",)),))
        tell(world, queue("a", 8, default=True, namespaces=team))
        first, second = world.gang("first", 1), world.gang("second", 1)
        assert first.reserved
        assert second.reason is Reason.QUOTA_EXCEEDED

    def test_without_a_default_nothing_limits_it(self, world: World) -> None:
        """A gang that names no queue where none is the default is placed without quota."""
        world.nodes(1)
        tell(world, queue("research", 0))
        assert world.gang("job", 1).reserved

    def test_another_schedulers_queue_counts_only_where_there_is_such_a_queue(self, world: World) -> None:
        """Volcano's PodGroups all name a queue: nobody waits for one that Muster has no Queue for."""
        world.nodes(4)
        words = keys.Options(peer_queue="default")
        assert world.gang("first", 1, options=words).reserved
        tell(world, queue("other", 0))
        assert world.gang("second", 1, options=words).reserved
        single = world.pod("single", 8, options=words)
        world.tell(PodSeen(single))
        assert world.filter(single).accepted
        tell(world, queue("default", 0))
        assert world.gang("third", 1, options=words).reason is Reason.EXCEEDS_QUOTA
        assert not world.ask(world.pod("late", 8, options=words)).accepted

    def test_of_many_queues_some_are_named(self, world: World) -> None:
        """A gang that names none of them is told the first few."""
        tell(world, *(queue(f"queue-{index:02}", 8) for index in range(10)))
        job = gang(world, "job", 1, "nowhere")
        assert job.wait is not None
        assert job.wait.message.endswith("queue-06, queue-07 and 2 more")

    def test_a_queue_takes_gangs_of_the_namespaces_that_it_selects(self, world: World) -> None:
        """Others wait, pods without gang too, and start when the namespace gets the label."""
        world.nodes(2)
        tell(world, queue("a", 16, namespaces=LabelSelector((Requirement("team", "In", ("a",)),))))
        job, single = gang(world, "job", 1, "a"), world.pod("single", 8, options=keys.Options(queue="a"))
        world.tell(PodSeen(single))
        assert job.reason is Reason.NAMESPACE_NOT_ALLOWED
        assert (
            world.filter(single).text == "pod waits: NamespaceNotAllowed: Queue a takes no gangs from namespace default"
        )
        world.tell(NamespaceSeen("default", {"team": "a"}))
        world.tell(NamespaceSeen("default", {"team": "a"}))
        world.judge()
        assert job.reserved
        assert world.filter(single).accepted
        world.tell(NamespaceGone("default"))
        world.judge()
        assert job.reserved

    def test_a_status_decides_nothing(self, world: World) -> None:
        """What Muster has written itself comes back with the watch, and nobody is judged for it."""
        tell(world, queue("team", 8))
        before = world.admission.passes
        tell(world, queue("team", 8, history={GPU: 1.0}, history_at="2026-01-01T00:00:00Z"))
        assert world.admission.passes == before

    def test_a_broken_queue_says_what_is_wrong_with_it(self, world: World) -> None:
        """Gangs of a queue that cannot be used wait with its problem; others go on."""
        world.nodes(2)
        tell(world, queue("orphan", 8, parent="nobody"), queue("sound", 8))
        broken, sound = gang(world, "broken", 1, "orphan"), gang(world, "sound", 1, "sound")
        assert broken.reason is Reason.INVALID_QUEUE
        assert broken.wait is not None
        assert "nobody" in broken.wait.message
        assert sound.reserved

    def test_a_deleted_queue_starts_nothing_and_stops_nothing(self, world: World) -> None:
        """After its queue was deleted a running gang runs on, and a new one waits."""
        world.nodes(2)
        tell(world, queue("research", 16))
        running = gang(world, "running", 1, "research")
        running.run()
        world.tell(QueueGone("research"))
        world.judge()
        assert not world.effects().evictions
        assert gang(world, "new", 1, "research").reason is Reason.UNKNOWN_QUEUE


class TestOrder:
    """Whose turn it is."""

    def test_queues_without_quota_share_by_weight(self, world: World) -> None:
        """With more waiting than fits, a queue of twice the weight gets twice as much."""
        node = world.nodes(9, gpus=0)
        tell(world, queue("heavy", weight=2.0), queue("light"))
        heavy = [gang(world, f"heavy-{index}", 1, "heavy") for index in range(9)]
        light = [gang(world, f"light-{index}", 1, "light") for index in range(9)]
        for name in node:
            found = world.state.node(name)
            world.tell(NodeSeen(type(found)(name, uid=name, allocatable={**found.allocatable, GPU: 8})))
        world.judge()
        assert sum(bool(job.reserved) for job in heavy) == 6
        assert sum(bool(job.reserved) for job in light) == 3

    def test_in_strict_order_nobody_passes(self, world: World) -> None:
        """In a StrictFIFO queue a small gang waits behind a large one that has no quota."""
        world.nodes(4)
        tell(world, queue("strict", 16, strategy=QueueingStrategy.STRICT_FIFO))
        first = gang(world, "first", 1, "strict")
        large, small = gang(world, "large", 2, "strict"), gang(world, "small", 1, "strict")
        assert first.reserved
        assert large.reason is Reason.QUOTA_EXCEEDED
        assert small.reason is Reason.BEHIND_IN_QUEUE
        assert small.wait is not None
        assert small.wait.message == "default/large is ahead in Queue strict, and no gang may pass it"
        world.judge()
        assert small.reason is Reason.BEHIND_IN_QUEUE

    def test_who_is_old_goes_before_who_is_important(self) -> None:
        """A gang that has waited for longer than anybody should goes before higher priorities."""
        world = World(ageing_seconds=3600)
        created = {"created": "2026-01-01T00:00:00Z"}
        world.nodes(1)
        running = world.gang("running", 1)
        running.run()
        old = world.gang("old", 1, group=created)
        world.later(3000)
        recent = (world.clock.now() - dt.timedelta(seconds=10)).isoformat()
        important = world.gang("important", 1, group={"created": recent, "priority": 5}, never_preempts=True)
        world.later(700)
        running.finish()
        world.judge()
        assert old.reserved
        assert not important.reserved

    def test_an_old_gang_ends_borrowing(self) -> None:
        """While an old gang lacks quota, nobody in its tree borrows; who stays within its own is not held up."""
        world = World(ageing_seconds=60)
        world.nodes(8)
        tell(world, queue("all"), queue("red", 8, parent="all"), queue("blue", 24, parent="all"))
        held = [gang(world, f"blue-{index}", 1, "blue") for index in range(2)]
        for job in held:
            job.run()
        old = gang(world, "old", 3, "red", group={"created": "2026-01-01T00:00:00Z"})
        assert old.reason is Reason.QUOTA_EXCEEDED
        world.later(100)
        borrower = gang(world, "borrower", 2, "red")
        assert borrower.reason is Reason.BEHIND_HEAD
        assert gang(world, "owner", 1, "blue").reserved


class TestStops:
    """Queues that start nothing."""

    def test_a_held_queue_starts_nothing_new(self, world: World) -> None:
        """A queue on hold lets what runs run, and starts again when the hold ends."""
        world.nodes(2)
        tell(world, queue("research", 16))
        running = gang(world, "running", 1, "research")
        running.run()
        tell(world, queue("research", 16, stop_policy=StopPolicy.HOLD))
        waiting = gang(world, "waiting", 1, "research")
        assert waiting.reason is Reason.QUEUE_STOPPED
        assert not world.effects().evictions
        tell(world, queue("research", 16))
        assert waiting.reserved

    def test_a_drained_queue_evicts_what_runs(self, world: World) -> None:
        """HoldAndDrain evicts the gangs of a queue, each pod once, and says so."""
        world.nodes(2)
        tell(world, queue("research", 16))
        running = gang(world, "running", 2, "research")
        running.run()
        world.effects()
        tell(world, queue("research", 16, stop_policy=StopPolicy.HOLD_AND_DRAIN))
        world.judge()
        effects = world.effects()
        assert {each.pod.name for each in effects.evictions.values()} == {"running-0", "running-1"}
        assert any(note.reason == "QueueDrained" for note in effects.notes)

    def test_only_so_many_gangs_run_at_once(self, world: World) -> None:
        """A queue with maxRunningGangs starts the next when one has finished."""
        world.nodes(4)
        tell(world, queue("research", 32, max_running_gangs=1))
        first = gang(world, "first", 1, "research")
        first.run()
        second = gang(world, "second", 1, "research")
        assert second.reason is Reason.TOO_MANY_RUNNING
        first.finish()
        world.judge()
        assert second.reserved

    def test_those_of_its_children_count_for_a_parent(self, world: World) -> None:
        """The limit of a parent is for all below it, and names the parent; a pod without a group counts as a gang."""
        world.nodes(4)
        tell(world, queue("all", max_running_gangs=1), queue("red", 16, parent="all"), queue("blue", 16, parent="all"))
        first = gang(world, "first", 1, "red")
        first.run()
        second = gang(world, "second", 1, "blue")
        assert second.reason is Reason.TOO_MANY_RUNNING
        assert second.wait is not None
        assert second.wait.message == "Queue all runs 1 of at most 1 gangs"
        single = world.pod("single", 8, options=keys.Options(queue="blue"))
        assert world.ask(single).text == "pod waits: TooManyRunningGangs: Queue all runs 1 of at most 1 gangs"
        first.finish()
        world.judge()
        assert second.reserved

    def test_pods_without_gang_start_in_no_stopped_queue(self, world: World) -> None:
        """They are told which queue it is, at filter and at bind."""
        world.nodes(1)
        tell(world, queue("team", 8, stop_policy=StopPolicy.HOLD))
        single = world.pod("single", 8, options=keys.Options(queue="team"))
        world.tell(PodSeen(single))
        words = "pod waits: QueueStopped: Queue team starts nothing: its stopPolicy is Hold"
        assert world.filter(single).text == words
        assert words in world.tell(Arrive(single.uid, "node-0")).message

    def test_quota_that_filter_promised_is_taken(self, world: World) -> None:
        """Of two pods that ask for what is left of the quota one passes filter, and the other cannot bind."""
        world.nodes(2)
        tell(world, queue("team", 8))
        first, second = (world.pod(name, 8, options=keys.Options(queue="team")) for name in ("first", "second"))
        assert [bool(world.ask(pod).accepted) for pod in (first, second)] == [True, False]
        assert world.tell(Arrive(first.uid, "node-0")).message == ""
        assert "Queue team" in world.tell(Arrive(second.uid, "node-1")).message


class TestGates:
    """Gangs whose pods are gated until there is quota."""

    def test_gates_open_when_there_is_quota(self, world: World) -> None:
        """Pods with Muster's gate alone are let go once their queue has quota for the gang, whatever nodes are free."""
        tell(world, queue("research", 16))
        fields: dict[str, Any] = {"gated": True, "gates": (keys.ADMISSION_GATE,)}
        first = gang(world, "first", 2, "research", **fields)
        assert {each.pod.name for each in world.effects().ungates.values()} == {"first-0", "first-1"}
        large = gang(world, "large", 3, "research", **fields)
        assert large.reason is Reason.EXCEEDS_QUOTA
        assert not world.effects().ungates
        assert first.reason is Reason.MEMBERS_GATED

    def test_gates_of_others_stay(self, world: World) -> None:
        """Pods that somebody else gates too wait for that one."""
        tell(world, queue("research", 16))
        job = gang(world, "job", 1, "research", gated=True, gates=(keys.ADMISSION_GATE, "example.com/other"))
        assert job.reason is Reason.MEMBERS_GATED
        assert not world.effects().ungates


class TestManyQueues:
    """What Queues cost in which nothing waits and nothing runs."""

    @pytest.mark.parametrize("half_life", [None, 3600.0])
    def test_a_pass_costs_the_same_beside_idle_queues(self, half_life: float | None) -> None:
        """With gangs that run, wait, borrow and look for victims a pass takes as many calls beside 500 as beside 5."""

        def work(idle: int) -> tuple[int, int]:
            world = World(fair_share_half_life_seconds=half_life)
            world.nodes(6)
            tell(world, Queue("root"), *(queue(name, 16, parent="root") for name in ("red", "blue", "green")))
            tell(world, *(queue(f"idle-{number}", 0, parent="root") for number in range(idle)))
            for name in ("red", "blue"):
                gang(world, f"{name}-runs", 3, name).run()
            for name in ("red", "blue", "green"):
                for number in range(3):
                    gang(world, f"{name}-waits-{number}", 2, name)
            world.clock.advance(60)

            def change_and_judge() -> None:
                world.tell(QueueSeen(queue("red", 8, parent="root")))
                world.judge()

            return calls(change_and_judge), calls(lambda: gang(world, "late", 2, "green"))

        few, many = work(5), work(500)
        assert all(more <= 1.2 * less + 50 for less, more in zip(few, many, strict=True)), (few, many)

    def test_a_new_queue_has_the_gangs_of_its_tree_evaluated_alone(self, world: World) -> None:
        """Whatever waits in other trees, and whatever runs, is left as it is."""
        world.nodes(1)
        tell(world, queue("red", 0), queue("blue", 0), Queue("green"))
        for name in ("red", "blue"):
            for number in range(50):
                gang(world, f"{name}-{number}", 1, name)
        elsewhere = calls(lambda: tell(world, queue("green-1", 0, parent="green")))
        inside = calls(lambda: tell(world, queue("red-1", 0, parent="red")))
        assert inside > 50 * 50
        assert elsewhere < 1200
