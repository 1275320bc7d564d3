"""Reservations through their life: made, repaired, expired, inherited by nobody."""

from __future__ import annotations

from dataclasses import replace

from extender.admission.events import BindingFailed, GroupGone, GroupSeen, NodeGone, NodeSeen, PodGone, PodSeen, Rebuild
from extender.ledger.effects import Nomination
from extender.ledger.reservations import Backoff
from extender.objects.keys import Options
from extender.objects.node import UNSCHEDULABLE_TAINT, Node
from extender.objects.pod import Phase
from extender.objects.reason import Problem, Reason
from tests.worlds import World

#: What kube-scheduler says of a pod that Muster was asked about.
SET_ASIDE = "0/1 nodes are available: 1 gang waits: it has not been planned yet."


def test_every_unbound_member_is_nominated_on_its_node(world: World) -> None:
    """A reservation orders one nomination per member."""
    world.nodes(2)
    job = world.gang("a", 2)
    nominations = world.effects().nominations
    assert {uid: n.node for uid, n in nominations.items()} == {pod.uid: job.reserved[pod.name] for pod in job.pods}


def test_a_reservation_that_does_not_start_is_released_whole_at_its_deadline(world: World) -> None:
    """After the timeout nothing stays reserved, held calls fail, nominations are cleared, and people are told."""
    world.nodes(2)
    job = world.gang("a", 2)
    job.see(1, nominated_node=job.reserved["a-1"])
    job.bind(0)
    world.effects()
    world.later(61)
    effects = world.effects()
    assert job.reserved == {}
    assert list(effects.refused) == [job.pods[0].uid]
    assert {n.node for n in effects.nominations.values()} == {""}
    assert [note.reason for note in effects.notes] == ["ReservationExpired"]
    assert effects.notes[0].message == "1 of 2 placed members reached bind in time; released all of them."
    assert job.reason is Reason.BACKING_OFF
    assert effects.expired == 1


def test_the_pod_groups_own_timeout_counts(world: World) -> None:
    """The field scheduleTimeoutSeconds overrides the default."""
    world.nodes(2)
    job = world.gang("a", 2, group={"schedule_timeout": 5.0})
    world.later(6)
    assert job.reserved == {}


def test_a_gang_of_thousands_has_time_to_be_brought_through_kube_scheduler(world: World) -> None:
    """Of members beyond the first thousand each has ten milliseconds more."""
    world.nodes(14)
    job = world.gang("a", 1_400, 0, cpu=100)
    world.later(63)
    assert len(job.reserved) == 1_400
    world.later(2)
    assert job.reserved == {}


def test_capacity_of_an_expired_reservation_goes_to_others_at_once(world: World) -> None:
    """While the expired gang backs off, the next one is reserved."""
    world.nodes(2)
    first, second = world.gang("a", 2), world.gang("b", 2)
    world.later(61)
    assert first.reserved == {}
    assert len(second.reserved) == 2


def test_backoff_grows_and_differs_between_gangs() -> None:
    """Each expiry doubles the pause, within jitter; two gangs fall out of step; starting forgets it."""
    backoff = Backoff(1.0, 60.0)
    pauses = [backoff.fail("a", now=0.0).until for _ in range(5)]
    for attempt, pause in enumerate(pauses):
        assert 2**attempt / 2 <= pause <= 2**attempt
    assert backoff.fail("b", now=0.0).until != pauses[0]
    backoff.forget("a")
    assert backoff.attempts("a") == 0


def test_a_gang_is_placed_again_after_its_pause(world: World) -> None:
    """The end of the pause is reason enough for a pass."""
    world.nodes(2)
    job = world.gang("a", 2)
    world.later(61)
    assert job.reserved == {}
    world.later(2)
    assert len(job.reserved) == 2


def test_the_schedulers_own_words_become_the_reason(world: World) -> None:
    """A member that kube-scheduler never offered explains itself by its PodScheduled condition."""
    world.nodes(2)
    job = world.gang("a", 2)
    words = 'running PreBind plugin "VolumeBinding": binding volumes: timed out'
    job.see(0, refusal=words)
    world.later(61)
    assert job.wait is not None
    assert job.wait.message == f"kube-scheduler refused: {words}"


def test_musters_own_words_are_not_taken_for_the_schedulers(world: World) -> None:
    """A condition that repeats Muster's refusal says nothing new."""
    world.nodes(2)
    job = world.gang("a", 2)
    job.see(0, refusal="0/2 nodes are available: 2 gang waits: 1 of 2 members exist.")
    world.later(61)
    assert job.reason is Reason.BACKING_OFF


def test_a_member_deleted_before_the_start_releases_the_whole_gang(world: World) -> None:
    """Without minMember members there is nothing to hold capacity for."""
    world.nodes(2)
    job = world.gang("a", 2)
    job.bind(0)
    world.effects()
    world.tell(PodGone(job.pods[1].uid))
    world.judge()
    assert job.reserved == {}
    assert job.reason is Reason.MEMBERS_MISSING
    assert world.effects().refused == {job.pods[0].uid: "1 of 2 members exist"}
    assert len(world.gang("b", 2).reserved) == 2


def test_a_deleted_held_member_fails_its_call(world: World) -> None:
    """The bind call of a pod that is gone is answered."""
    world.nodes(2)
    job = world.gang("a", 2)
    job.bind(0)
    world.effects()
    world.tell(PodGone(job.pods[0].uid))
    assert world.effects().refused == {job.pods[0].uid: "the pod was deleted"}


def test_a_replaced_member_takes_the_free_slot(world: World) -> None:
    """A member that is deleted and re-created at once keeps the others' reservations."""
    world.nodes(2)
    job = world.gang("a", 2)
    kept = job.reserved["a-0"]
    world.tell(PodGone(job.pods[1].uid))
    job.pods[1] = world.pod("a-1", 8, group=job.ref)
    world.tell(PodSeen(job.pods[1]))
    world.judge()
    assert job.reserved["a-0"] == kept
    assert len(set(job.reserved.values())) == 2


def test_a_closed_node_costs_only_its_slot(world: World) -> None:
    """When a planned node is cordoned, its member moves and the others stay."""
    world.nodes(3)
    job = world.gang("a", 2)
    lost, kept = job.reserved["a-0"], job.reserved["a-1"]
    node = world.state.node(lost)
    world.tell(NodeSeen(replace(node, taints=(UNSCHEDULABLE_TAINT,))))
    world.judge()
    assert job.reserved["a-1"] == kept
    assert job.reserved["a-0"] not in {lost, kept}


def test_a_deleted_node_without_replacement_releases_the_gang(world: World) -> None:
    """When the rest of the cluster cannot make up for a lost node, the gang waits and holds nothing."""
    world.nodes(2)
    job = world.gang("a", 2)
    world.tell(NodeGone(job.reserved["a-0"]))
    world.judge()
    assert job.reserved == {}
    assert job.reason is Reason.EXCEEDS_CLUSTER


def test_a_node_filled_by_a_foreign_pod_is_given_up(world: World) -> None:
    """Pods of other schedulers win the race for a node; the reservation moves."""
    world.nodes(2)
    job = world.gang("a", 1)
    planned = job.reserved["a-0"]
    thief = world.pod("thief", 8, scheduler_name="default-scheduler", node_name=planned, phase=Phase.RUNNING)
    world.tell(PodSeen(thief))
    world.judge()
    assert job.reserved["a-0"] != planned
    world.check_promises()


def test_a_shrunk_node_is_given_up(world: World) -> None:
    """A node that loses GPUs between plan and bind no longer holds its member."""
    world.nodes(2)
    job = world.gang("a", 1)
    planned = job.reserved["a-0"]
    world.tell(NodeSeen(Node(planned, allocatable={"cpu": 64_000, "pods": 110, "nvidia.com/gpu": 4})))
    world.judge()
    assert job.reserved["a-0"] != planned


def test_a_recreated_group_inherits_nothing(world: World) -> None:
    """A PodGroup re-created under its name starts a new life: no reservation, no backoff, no reason."""
    world.nodes(2)
    job = world.gang("a", 2)
    before = job.gang.uid
    world.later(61)
    assert world.state.failures(before) == 1
    world.group(job.ref, 2)
    assert job.gang.uid != before
    assert world.state.failures(before) == 0
    world.judge()
    assert len(job.reserved) == 2


def test_an_outdated_delete_of_a_group_is_ignored(world: World) -> None:
    """The deletion of the former object does not take the new one away."""
    world.nodes(2)
    job = world.gang("a", 2)
    former = job.gang.uid
    world.group(job.ref, 2)
    world.tell(GroupGone(job.ref, former))
    world.judge()
    assert len(job.reserved) == 2


def test_a_deleted_group_releases_what_it_had_reserved(world: World) -> None:
    """Without its PodGroup a waiting gang holds nothing; a running one runs on."""
    world.nodes(4)
    waiting, running = world.gang("a", 2), world.gang("b", 2)
    running.run()
    world.tell(GroupGone(waiting.ref, waiting.gang.uid))
    world.tell(GroupGone(running.ref, running.gang.uid))
    world.judge()
    assert waiting.reserved == {}
    assert running.reason is None
    assert world.state.gang(running.ref) is not None


def test_a_gated_or_ended_member_loses_its_slot(world: World) -> None:
    """A member that can no longer be placed gives its node back."""
    world.nodes(2)
    job = world.gang("a", 2)
    job.see(0, phase=Phase.FAILED)
    world.judge()
    assert job.reserved == {}


def test_a_member_that_changes_its_gang_loses_its_slot(world: World) -> None:
    """A relabelled pod starts again under its new gang."""
    world.nodes(2)
    job = world.gang("a", 2)
    other = world.gang("b", 0, min_member=1)
    job.see(0, group=other.ref)
    world.judge()
    assert list(other.reserved) == ["a-0"]


def test_a_lost_nomination_is_repeated_at_once(world: World) -> None:
    """When kube-scheduler takes a planned nomination off, it is ordered again."""
    world.nodes(2)
    job = world.gang("a", 2)
    planned = job.reserved["a-0"]
    job.see(0, nominated_node=planned)
    world.effects()
    pod = job.see(0, nominated_node="")
    assert world.effects().nominations == {pod.uid: Nomination(pod, planned)}


def test_a_member_that_does_not_come_back_is_nudged_ever_more_rarely(world: World) -> None:
    """A nomination that stands without effect is cleared and set again, at doubling intervals."""
    world.nodes(1)
    job = world.gang("a", 1)
    planned = job.reserved["a-0"]
    pod = job.see(0, nominated_node=planned, refusal=SET_ASIDE)
    world.effects()
    nudges = []
    for tenth in range(1, 56):
        world.later(0.1)
        if world.effects().nominations:
            nudges.append(tenth)
    assert nudges == [5, 20, 40]
    world.later(10)
    assert world.effects().nominations[pod.uid].again


def test_a_member_that_kube_scheduler_has_not_tried_yet_is_not_nudged(world: World) -> None:
    """It stands in the queue behind many others: clearing its nomination would only have all of them tried again."""
    world.nodes(1)
    job = world.gang("a", 1)
    job.see(0, nominated_node=job.reserved["a-0"])
    world.effects()
    assert _nudges_while_busy(world, 300) == []
    world.later(2.1)
    assert list(world.effects().nominations) == [job.pods[0].uid]


def test_a_member_that_is_refused_behind_its_nomination_is_nudged_soon(world: World) -> None:
    """From the refusal on it is known to be set aside."""
    world.nodes(1)
    job = world.gang("a", 1)
    job.see(0, nominated_node=job.reserved["a-0"])
    world.later(5)
    job.see(0, refusal=SET_ASIDE)
    world.effects()
    world.later(2.1)
    assert list(world.effects().nominations) == [job.pods[0].uid]


def test_refusals_of_others_show_that_kube_scheduler_is_busy(world: World) -> None:
    """Those that its own filters refuse it does not ask about."""
    world.nodes(1)
    job = world.gang("a", 1)
    job.see(0, nominated_node=job.reserved["a-0"], refusal=SET_ASIDE)
    others = world.gang("b", 60)
    world.later(0.6)
    world.effects()
    for index in range(60):
        world.later(0.1)
        others.see(index, refusal="0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")
    assert world.effects().nominations == {}


def _nudges_while_busy(world: World, tenths: int) -> list[int]:
    """Let kube-scheduler ask about some other pod every tenth of a second; return when members were nudged."""
    other = world.pod("other", 8)
    nudges = []
    for tenth in range(1, tenths + 1):
        world.later(0.1)
        if world.effects().nominations:
            nudges.append(tenth)
        world.filter(other)
    return nudges


def test_a_nomination_that_stands_is_left_alone_while_kube_scheduler_is_busy(world: World) -> None:
    """Clearing it wakes every waiting pod, so a busy kube-scheduler is bothered once in 16 s, an idle one again."""
    world.nodes(1)
    job = world.gang("a", 1)
    job.see(0, nominated_node=job.reserved["a-0"], refusal=SET_ASIDE)
    world.effects()
    first, second = _nudges_while_busy(world, 200)
    assert first == 5
    assert 160 <= second - first <= 161
    world.later(1.9)
    assert world.effects().nominations == {}
    world.later(0.2)
    assert list(world.effects().nominations) == [job.pods[0].uid]


def test_a_nomination_that_was_lost_is_written_again_however_busy_kube_scheduler_is(world: World) -> None:
    """Setting one wakes nobody else."""
    world.nodes(1)
    world.gang("a", 1, refusal=SET_ASIDE)
    world.effects()
    assert _nudges_while_busy(world, 40) == [5, 15, 35]


def test_a_member_without_nomination_that_has_not_been_tried_yet_is_nominated_once_kube_scheduler_is_idle(
    world: World,
) -> None:
    """It comes by itself, as late as others are before it; if nobody is, it should have come."""
    world.nodes(1)
    job = world.gang("a", 1)
    world.effects()
    assert _nudges_while_busy(world, 300) == []
    world.later(2.1)
    nomination = world.effects().nominations[job.pods[0].uid]
    assert nomination.overdue
    assert not nomination.again


def test_a_stray_nomination_is_cleared(world: World) -> None:
    """A member without reservation that still carries a nomination would mislead kube-scheduler."""
    world.nodes(1)
    job = world.gang("a", 1, min_member=2)
    pod = job.see(0, nominated_node="node-0")
    assert world.effects().nominations == {pod.uid: Nomination(pod, "")}


def test_restart_reads_the_reservations_back_from_the_nominations(world: World) -> None:
    """A new process finds every nominated member reserved where it was."""
    world.nodes(4)
    job = world.gang("a", 4)
    nodes = job.reserved
    successor = world.restart()
    successor.admission.rebuilt = False
    successor.nodes(4)
    assert job.gang.group is not None
    successor.tell(GroupSeen(job.gang.group))
    for pod in job.pods:
        successor.tell(PodSeen(replace(pod, nominated_node=nodes[pod.name])))
    successor.tell(Rebuild())
    job.world = successor
    assert job.reserved == nodes
    assert successor.effects().nominations == {}


def test_restart_puts_partially_bound_gangs_first(world: World) -> None:
    """Where two gangs' nominations collide after a crash, the one that holds nodes already wins."""
    world.nodes(2)
    partial, other = world.gang("z", 2), world.gang("a", 1)
    nodes = partial.reserved
    successor = world.restart()
    successor.admission.rebuilt = False
    successor.nodes(2)
    for job in (partial, other):
        assert job.gang.group is not None
        successor.tell(GroupSeen(job.gang.group))
    successor.tell(PodSeen(replace(other.pods[0], nominated_node=nodes["z-1"], priority=100)))
    successor.tell(PodSeen(replace(partial.pods[0], node_name=nodes["z-0"], phase=Phase.RUNNING)))
    successor.tell(PodSeen(replace(partial.pods[1], nominated_node=nodes["z-1"])))
    successor.tell(Rebuild())
    for job in (partial, other):
        job.world = successor
    assert partial.reserved == {"z-1": nodes["z-1"]}
    assert other.reserved == {}
    assert successor.effects().nominations[other.pods[0].uid].node == ""


def test_restart_goes_on_with_what_stands_of_a_plan(world: World) -> None:
    """Members that have lost their nominations are placed beside those that have them, and nothing is withdrawn."""
    successor = world.restart()
    successor.admission.rebuilt = False
    successor.nodes(4)
    job = successor.gang("a", 4)
    for index in (0, 2):
        job.see(index, nominated_node=f"node-{3 - index}")
    successor.tell(Rebuild())
    assert job.reserved == {"a-0": "node-3", "a-2": "node-1"}
    assert successor.effects().nominations == {}
    successor.judge()
    assert len(job.reserved) == 4
    assert job.reserved["a-0"] == "node-3"
    assert job.reserved["a-2"] == "node-1"


def test_restart_withdraws_nominations_that_cannot_start_a_gang(world: World) -> None:
    """Where the others have no room beside what stands of a plan, it keeps nothing from the gangs behind."""
    successor = world.restart()
    successor.admission.rebuilt = False
    successor.nodes(3)
    job = successor.gang("a", 4)
    job.see(0, nominated_node="node-2")
    successor.tell(Rebuild())
    assert job.reserved == {"a-0": "node-2"}
    successor.judge()
    assert job.reserved == {}
    assert successor.effects().nominations == {job.pods[0].uid: Nomination(job.pods[0], "")}


def test_restart_keeps_nothing_for_a_gang_that_lacks_members(world: World) -> None:
    """Where a member is missing, nominations are withdrawn, though they stand."""
    successor = world.restart()
    successor.admission.rebuilt = False
    successor.nodes(4)
    job = successor.gang("a", 3, min_member=4)
    job.see(0, nominated_node="node-2")
    successor.tell(Rebuild())
    assert job.reserved == {}
    assert successor.effects().nominations == {job.pods[0].uid: Nomination(job.pods[0], "")}


def test_problems_are_told_once(world: World) -> None:
    """An unknown key or bad value makes one note, not one per update."""
    world.nodes(1)
    problem = Problem("metadata.annotations[muster.dev/pack]", "unknown key")
    job = world.gang("a", 1)
    options = replace(job.pods[0].options, problems=(problem,))
    job.see(0, options=options)
    job.see(0, refusal="x")
    job.see(0, options=replace(options, min_member=3))
    notes = world.effects().notes
    assert [note.message for note in notes] == [str(problem)]


def test_problems_of_foreign_pods_are_not_told(world: World) -> None:
    """Pods of other schedulers are none of Muster's business."""
    pod = world.pod("other", scheduler_name="x")
    options = replace(pod.options, problems=(Problem("a", "b"),))
    world.tell(PodSeen(replace(pod, options=options)))
    assert world.effects().notes == []


def test_replacing_members_does_not_put_off_the_deadline(world: World) -> None:
    """A gang whose members keep being replaced still has to start within its time."""
    world.nodes(2)
    job = world.gang("a", 2)
    for _ in range(3):
        world.later(25)
        world.tell(PodGone(job.pods[1].uid))
        job.pods[1] = world.pod("a-1", 8, group=job.ref)
        world.tell(PodSeen(job.pods[1]))
        world.judge()
    assert world.state.failures(job.gang.uid) == 1


def test_problems_with_fields_of_a_peer_are_told_once_there_are_members_of_musters(world: World) -> None:
    """A PodGroup without a key of Muster's that another scheduler looks after is left alone."""
    problem = Problem("spec.subGroupPolicy", "cannot be kept")
    options = {"options": Options(problems=(problem,))}
    world.gang("theirs", 1, group=options, scheduler_name="volcano")
    assert world.effects().notes == []
    world.gang("ours", 2, group=options)
    assert [(str(note.about), note.message) for note in world.effects().notes] == [("default/ours", str(problem))]


def test_a_node_short_of_gpus_keeps_members_that_ask_for_none(world: World) -> None:
    """When a GPU fails under a foreign pod, a CPU-only member planned there stays instead of moving for ever."""
    world.nodes(1)
    thief = world.pod("thief", 8, scheduler_name="default-scheduler", node_name="node-0", phase=Phase.RUNNING)
    world.tell(PodSeen(thief))
    job = world.gang("a", 1, gpus=0)
    decision = world.filter(job.pods[0]).decision
    world.tell(NodeSeen(Node("node-0", allocatable={"cpu": 64_000, "pods": 110, "nvidia.com/gpu": 7})))
    world.judge()
    assert world.filter(job.pods[0]).decision == decision != ""


def test_a_binding_that_fails_after_the_deadline_does_not_hold_for_ever(world: World) -> None:
    """A reservation whose members all arrived outlives its deadline; should a Binding fail, the clock runs again."""
    world.nodes(2)
    job = world.gang("a", 2)
    nodes = job.reserved
    job.bind(0)
    job.bind(1)
    job.see(0, node_name=nodes["a-0"], phase=Phase.RUNNING)
    world.later(61)
    world.tell(BindingFailed(job.pods[1].uid, "no answer", final=False))
    world.judge()
    assert job.reserved == {"a-1": nodes["a-1"]}
    world.later(61)
    assert job.reserved == {}


def test_nobody_is_nudged_while_others_of_the_gang_arrive(world: World) -> None:
    """A large gang is taken by kube-scheduler member by member; the last ones are not late while it does."""
    world.nodes(4)
    job = world.gang("a", 4)
    world.effects()
    for index in range(3):
        world.later(0.4)
        job.bind(index)
    assert world.effects().nominations == {}
    world.later(0.6)
    assert list(world.effects().nominations) == [job.pods[3].uid]


def test_of_a_large_gang_some_members_are_nudged_at_a_time(world: World) -> None:
    """The others follow at once, when what happened meanwhile has been taken in."""
    world.nodes(6)
    job = world.gang("a", 600, 0, cpu=100)
    world.effects()
    world.later(0.6)
    nudged = [list(world.effects().nominations)]
    while nudged[-1]:
        assert len(nudged[-1]) <= 250
        world.later(0)
        nudged.append(list(world.effects().nominations))
    assert sorted(uid for each in nudged for uid in each) == sorted(pod.uid for pod in job.pods)


def test_members_of_a_large_gang_that_did_not_come_back_are_nudged_after_a_rest(world: World) -> None:
    """While others arrive all come up again and again; how late they are grows with the gang, 0.2 ms a member."""
    world.nodes(6)
    job = world.gang("a", 600, 0, cpu=100)
    world.effects()
    world.later(0.4)
    job.bind(0)
    world.later(0.2)
    world.later(0)
    world.later(0)
    assert world.effects().nominations == {}
    world.later(0.45)
    nudged = list(world.effects().nominations)
    world.later(0)
    world.later(0)
    assert sorted([*nudged, *world.effects().nominations]) == sorted(pod.uid for pod in job.pods[1:])
