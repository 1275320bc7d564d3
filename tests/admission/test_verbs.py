"""The scheduler's four questions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.admission.events import (
    Arrive,
    BindingFailed,
    BindVerdict,
    Decide,
    Leave,
    NodeGone,
    Outcome,
    PodGone,
    PodSeen,
    Preempt,
    Prioritize,
    Refusal,
)
from extender.ledger.slots import SlotState
from extender.objects.pod import Phase, Pod
from extender.objects.reason import Reason
from tests.worlds import GPU, World


def foreign(world: World) -> Pod:
    """Return a pod of another scheduler."""
    return world.pod("foreign", 8, priority=100, scheduler_name="default-scheduler")


def test_filter_pins_a_member_to_its_planned_node(world: World) -> None:
    """A member with a reservation is sent to exactly the node planned for it, every time it asks."""
    names = world.nodes(4)
    job = world.gang("a", 4)
    planned = job.reserved["a-2"]
    answers = [world.filter(job.pods[2], names) for _ in range(2)]
    assert [answer.accepted for answer in answers] == [[planned], [planned]]
    assert answers[0].outcome is Outcome.PINNED
    assert answers[0].decision == answers[1].decision != ""


def test_filter_accepts_the_planned_node_offered_alone(world: World) -> None:
    """The one-node call for a nominated pod is answered with that node."""
    world.nodes(4)
    job = world.gang("a", 4)
    planned = job.reserved["a-0"]
    assert world.filter(replace(job.pods[0], nominated_node=planned), [planned]).accepted == [planned]


def test_filter_refuses_a_waiting_member_everywhere_without_preemption(world: World) -> None:
    """A waiting member is refused on every node, unresolvably, with the gang's one reason."""
    world.nodes(4)
    job = world.gang("a", 3, min_member=4)
    answer = world.filter(job.pods[0])
    assert answer.accepted == []
    assert answer.refusals == (
        Refusal(["node-0", "node-1", "node-2", "node-3"], "gang waits: MembersMissing: 3 of 4 members exist"),
    )


def test_filter_judges_at_once_what_changed_since_the_last_pass(world: World) -> None:
    """The last member's own call starts the gang: no pass has to run in between."""
    world.nodes(4)
    job = world.gang("a", 3, min_member=4)
    job.pods.append(world.pod("a-3", 8, group=job.ref))
    world.tell(PodSeen(job.pods[3]))
    assert world.filter(job.pods[3]).outcome is Outcome.PINNED


def test_a_change_elsewhere_costs_a_waiting_members_call_no_pass(world: World) -> None:
    """Every change of the cluster wakes all refused members; their calls are answered from the last pass."""
    world.nodes(1)
    job = world.gang("a", 2)
    refused = world.filter(job.pods[0], ["node-0"])
    world.nodes(1, prefix="late")
    passes = world.admission.passes
    assert world.filter(job.pods[0], ["node-0"]) == refused
    assert world.admission.passes == passes
    assert world.tell(Decide())
    assert world.filter(job.pods[0]).outcome is Outcome.PINNED


def test_an_unobserved_member_is_refused(world: World) -> None:
    """A member that the watch has not delivered is not decided about."""
    world.nodes(1)
    job = world.gang("a", 1)
    stranger = world.pod("a-9", 8, group=job.ref)
    assert world.filter(stranger).text == "gang waits: this pod has not been observed yet"


def test_foreign_pods_pass_untouched(world: World) -> None:
    """Pods of other schedulers get every offered node, even reserved ones."""
    names = world.nodes(2)
    world.gang("a", 2)
    answer = world.filter(world.pod("other", 8, scheduler_name="default-scheduler"), names)
    assert answer.accepted == names
    assert answer.outcome is Outcome.PASSED


def test_a_single_pod_is_pinned_to_its_planned_node_within_the_call(world: World) -> None:
    """A pod that names no group is planned in the filter call that asks for it, beside what others have reserved."""
    names = world.nodes(3)
    job = world.gang("a", 2)
    single = world.pod("single", 8)
    world.tell(PodSeen(single))
    answer = world.filter(single)
    assert (answer.outcome, set(answer.accepted)) == (Outcome.PINNED, set(names) - set(job.reserved.values()))
    assert world.filter(single) == answer
    late = world.pod("late", 8)
    world.tell(PodSeen(late))
    assert world.filter(late).text == "pod waits: InsufficientCapacity: not enough room now, minMember is 1"


def test_single_pods_leave_alone_what_is_kept_for_the_head(world: World) -> None:
    """A younger single pod cannot take what the blocked head waits for; an older one may."""
    world.nodes(2)
    older = world.pod("older", 8)
    world.gang("running", 1).run()
    world.gang("head", 2)
    younger = world.pod("younger", 8)
    for pod in (younger, older):
        world.tell(PodSeen(pod))
    assert world.filter(younger).accepted == []
    assert world.filter(older).accepted == ["node-1"]


def test_an_unknown_node_is_not_accepted_for_a_single_pod(world: World) -> None:
    """What is reserved on a node that has not been observed cannot be known."""
    world.nodes(1)
    single = world.pod("single", 8)
    world.tell(PodSeen(single))
    assert world.filter(single, ["node-0", "ghost"]).accepted == ["node-0"]


def test_a_single_pod_that_is_created_again_inherits_nothing(world: World) -> None:
    """A pod of the same name has no slot, no reason and no veto of the one before it, whatever is heard of first."""
    world.nodes(1)
    first = world.pod("single", 8)
    world.tell(PodSeen(first))
    assert world.filter(first).accepted == ["node-0"]
    second = replace(first, uid="again")
    world.tell(PodSeen(second))
    assert world.filter(second).text == "pod waits: InsufficientCapacity: not enough room now, minMember is 1"
    world.tell(PodGone(first.uid))
    world.judge()
    assert world.filter(second).accepted == ["node-0"]


def test_the_barrier_opens_for_all_when_the_last_member_arrives(world: World) -> None:
    """All held members go in the same moment in which minMember is reached, and not before."""
    world.nodes(4)
    job = world.gang("a", 4)
    world.effects()
    assert [job.bind(index).verdict for index in range(3)] == [BindVerdict.HOLD] * 3
    assert world.effects().released == []
    assert job.bind(3).verdict is BindVerdict.WRITE
    assert sorted(world.effects().released) == sorted(pod.uid for pod in job.pods)


def test_members_beyond_min_member_bind_without_waiting(world: World) -> None:
    """Once a gang has started, whoever comes binds at once."""
    world.nodes(3)
    job = world.gang("a", 3, min_member=2)
    job.bind(0)
    job.bind(1)
    assert job.bind(2).verdict is BindVerdict.WRITE


def test_bound_members_count_at_the_barrier(world: World) -> None:
    """After a restart in the middle, the missing members go as soon as they arrive."""
    world.nodes(2)
    job = world.gang("a", 2)
    nodes = job.reserved
    job.see(0, node_name=nodes["a-0"], phase=Phase.RUNNING)
    assert job.bind(1).verdict is BindVerdict.WRITE


def test_bind_refuses_another_node_than_the_planned_one(world: World) -> None:
    """A bind call that does not match the reservation is refused."""
    world.nodes(2)
    job = world.gang("a", 2)
    wrong = job.reserved["a-1"]
    arrival = world.tell(Arrive(job.pods[0].uid, wrong))
    assert arrival.verdict is BindVerdict.REFUSE
    assert "planned on" in arrival.message


def test_bind_refuses_unknown_pods_and_members_without_reservation(world: World) -> None:
    """Nothing is bound that nobody decided."""
    world.nodes(1)
    job = world.gang("a", 1, min_member=2)
    assert world.tell(Arrive("nobody", "node-0")).verdict is BindVerdict.REFUSE
    assert world.tell(Arrive(job.pods[0].uid, "node-0")).message == "gang waits: MembersMissing: 1 of 2 members exist"


def test_bind_of_a_bound_pod_succeeds_only_for_its_node(world: World) -> None:
    """Repeating a successful bind is success; another node is not."""
    world.nodes(2)
    job = world.gang("a", 2)
    job.run()
    node = job.pods[0].node_name
    other = job.pods[1].node_name
    assert world.tell(Arrive(job.pods[0].uid, node)).verdict is BindVerdict.ALREADY
    assert world.tell(Arrive(job.pods[0].uid, other)).verdict is BindVerdict.REFUSE


def test_what_filter_promises_a_single_pod_is_its_own(world: World) -> None:
    """Between filter and bind nobody else is given the node; whoever was not planned cannot bind there."""
    world.nodes(1)
    single, other = world.pod("single", 8), world.pod("other", 8)
    for pod in (single, other):
        world.tell(PodSeen(pod))
    assert world.filter(single).accepted == ["node-0"]
    assert world.gang("a", 1).reserved == {}
    assert world.tell(Arrive(other.uid, "node-0")).verdict is BindVerdict.REFUSE
    assert world.tell(Arrive(single.uid, "node-0")).verdict is BindVerdict.WRITE
    assert world.tell(Arrive(single.uid, "node-0")).verdict is BindVerdict.WRITE
    world.check_promises()


def test_a_failed_binding_of_a_single_pod_gives_the_room_back(world: World) -> None:
    """A final failure releases, so that others may have the node; an unknown outcome keeps the room for the pod."""
    world.nodes(1)
    single = world.pod("single", 8)
    world.tell(PodSeen(single))
    world.judge()
    assert world.tell(Arrive(single.uid, "node-0")).verdict is BindVerdict.WRITE
    world.tell(BindingFailed(single.uid, "timeout", final=False))
    assert world.state.has_room(single)
    assert world.filter(single).accepted == ["node-0"]
    world.tell(BindingFailed(single.uid, "conflict", final=True))
    assert not world.state.has_room(single)


def test_a_failed_binding_of_a_member_has_it_placed_anew(world: World) -> None:
    """A Binding that fails for good costs the member its slot, not the gang its start."""
    world.nodes(3)
    job = world.gang("a", 2)
    nodes = job.reserved
    for index in range(2):
        job.bind(index)
    job.see(0, node_name=nodes["a-0"], phase=Phase.RUNNING)
    world.tell(BindingFailed(job.pods[1].uid, "404 NotFound: nodes gone", final=True))
    world.judge()
    assert job.reserved.keys() == {"a-1"}
    assert job.bind(1).verdict is BindVerdict.WRITE


def test_a_gang_whose_bindings_are_refused_gives_its_nodes_back_and_says_why(world: World) -> None:
    """Once no Binding is under way and none was made, others have the nodes; its pauses grow until it is bound."""
    world.nodes(2)
    job = world.gang("a", 2)
    text = '403 Forbidden: admission webhook "audit" denied the request'
    for attempt in range(2):
        assert len(job.reserved) == 2
        assert job.bind(0).verdict is BindVerdict.HOLD
        assert job.bind(1).verdict is BindVerdict.WRITE
        world.tell(BindingFailed(job.pods[0].uid, text, final=True, refused=True))
        assert job.reason is Reason.BINDING_REFUSED
        world.tell(BindingFailed(job.pods[1].uid, text, final=True, refused=True))
        world.judge()
        assert not job.reserved
        assert job.reason is Reason.BINDING_REFUSED
        assert job.wait is not None
        assert text in job.wait.message
        assert world.state.attempts(job.gang.uid) == attempt + 1
        world.later(10)
    for index in range(2):
        job.bind(index)
        job.see(index, node_name=f"node-{index}", phase=Phase.RUNNING)
    world.judge()
    assert job.wait is None


def test_what_is_bound_of_a_gang_whose_other_bindings_are_refused_is_completed(world: World) -> None:
    """A gang that holds nodes in part does not pause: the member is placed again at once, and the reason is told."""
    world.nodes(2)
    job = world.gang("a", 2)
    for index in range(2):
        job.bind(index)
    job.see(0, node_name=job.reserved["a-0"], phase=Phase.RUNNING)
    world.tell(BindingFailed(job.pods[1].uid, "403 Forbidden: no", final=True, refused=True))
    assert job.reason is Reason.BINDING_REFUSED
    world.judge()
    assert job.reserved.keys() == {"a-1"}
    assert job.bind(1).verdict is BindVerdict.WRITE


def test_bindings_that_keep_failing_hold_nodes_no_longer_than_the_deadline(world: World) -> None:
    """It is not put off by a Binding that happens to be under way when it passes."""
    world.nodes(1)
    job = world.gang("a", 1)
    job.bind(0)
    world.tell(BindingFailed(job.pods[0].uid, "500 InternalError: no", final=False))
    assert job.reason is Reason.BINDING_REFUSED
    assert job.reserved
    job.bind(0)
    world.later(61)
    assert job.reserved
    world.tell(BindingFailed(job.pods[0].uid, "500 InternalError: no", final=False))
    assert not job.reserved
    assert job.reason is Reason.BINDING_REFUSED


def test_an_unanswered_binding_keeps_its_slot(world: World) -> None:
    """When nobody knows whether the Binding was made, the slot stays and the member may come again."""
    world.nodes(2)
    job = world.gang("a", 2)
    job.bind(0)
    job.bind(1)
    before = job.reserved
    world.tell(BindingFailed(job.pods[1].uid, "no answer", final=False))
    assert job.reserved == before
    assert job.bind(1).verdict is BindVerdict.WRITE


def test_a_member_whose_held_call_was_answered_long_ago_must_arrive_again(world: World) -> None:
    """Leaving the barrier takes the arrival back, unless kube-scheduler brings the member again soon."""
    world.nodes(2)
    job = world.gang("a", 2)
    job.bind(0)
    world.tell(Leave(job.pods[0].uid))
    world.clock.advance(16.0)
    assert job.bind(1).verdict is BindVerdict.HOLD
    assert job.bind(0).verdict is BindVerdict.WRITE


def test_members_that_were_sent_back_count_while_they_are_expected(world: World) -> None:
    """A gang whose members come together over a longer time than a call is held starts all the same."""
    world.nodes(3)
    job = world.gang("a", 3)
    for index in range(2):
        assert job.bind(index).verdict is BindVerdict.HOLD
        world.clock.advance(10.0)
        world.tell(Leave(job.pods[index].uid))
    world.clock.advance(1.0)
    assert job.bind(2).verdict is BindVerdict.WRITE
    assert [job.bind(index).verdict for index in range(2)] == [BindVerdict.WRITE] * 2


def test_members_of_a_gang_of_thousands_are_expected_back_for_longer(world: World) -> None:
    """kube-scheduler has more of them to bring before it comes to one again."""
    world.nodes(20)
    job = world.gang("a", 2_000, 0, cpu=100)
    assert job.bind(0).verdict is BindVerdict.HOLD
    world.tell(Leave(job.pods[0].uid))
    world.clock.advance(24.0)
    for index in range(1, 1_999):
        assert job.bind(index).verdict is BindVerdict.HOLD
    assert job.bind(1_999).verdict is BindVerdict.WRITE


def test_a_member_that_was_sent_back_does_not_count_on_a_lost_node(world: World) -> None:
    """What passed kube-scheduler's filters on a node that is gone has passed nothing."""
    world.nodes(3)
    job = world.gang("a", 2)
    job.bind(0)
    world.tell(Leave(job.pods[0].uid))
    world.tell(NodeGone(job.reserved["a-0"]))
    world.tell(Decide())
    assert job.bind(1).verdict is BindVerdict.HOLD


def test_a_second_call_for_a_held_pod_is_held_too(world: World) -> None:
    """kube-scheduler may call again for a pod that is held; the gang does not count it twice."""
    world.nodes(3)
    job = world.gang("a", 3)
    assert [job.bind(0).verdict, job.bind(0).verdict, job.bind(1).verdict] == [BindVerdict.HOLD] * 3
    assert job.bind(2).verdict is BindVerdict.WRITE


def test_a_refused_planned_node_is_vetoed_and_the_member_placed_elsewhere(world: World) -> None:
    """When kube-scheduler knows the nomination and still leaves the node out, the plan moves on in the same call."""
    world.nodes(3)
    job = world.gang("a", 2)
    planned = job.reserved["a-0"]
    others = [f"node-{index}" for index in range(3) if f"node-{index}" != planned]
    answer = world.filter(replace(job.pods[0], nominated_node=planned), others)
    assert answer.outcome is Outcome.PINNED
    assert answer.accepted[0] in others
    assert len(world.admission.vetoes) == 1
    assert len(set(job.reserved.values())) == 2


def test_a_member_whose_next_node_is_not_offered_hears_that_it_has_one(world: World) -> None:
    """The answer is about its own node, whatever its gang waits for besides, such as room for more members."""
    world.nodes(3)
    job = world.gang("a", 1)
    first, *others = (f"node-{number}" for number in range(3))
    assert job.reserved == {"a-0": first}
    answer = world.filter(replace(job.pods[0], nominated_node=first), others[1:])
    assert job.reserved == {"a-0": others[0]}
    assert answer.refusals[0].text == "gang waits: planned on a node that this attempt does not offer"


def test_a_refused_member_changes_places_with_one_that_is_alike(world: World) -> None:
    """Where kube-scheduler offers but nodes of the plan, the member takes one of them, and the other one its own."""
    world.nodes(2)
    job = world.gang("a", 2)
    planned, other = job.reserved["a-0"], job.reserved["a-1"]
    answer = world.filter(replace(job.pods[0], nominated_node=planned), [other])
    assert (answer.outcome, answer.accepted) == (Outcome.PINNED, [other])
    assert job.reserved == {"a-0": other, "a-1": planned}
    assert {n.pod.name: n.node for n in world.effects().nominations.values()} == job.reserved
    assert not len(world.admission.vetoes)


def test_a_veto_ends(world: World) -> None:
    """A gang that only fits on a vetoed node waits until the veto is over."""
    world.nodes(2)
    job = world.gang("a", 2)
    planned, other = job.reserved["a-0"], job.reserved["a-1"]
    world.filter(replace(job.pods[0], nominated_node=planned), [other])
    assert world.filter(replace(job.pods[1], nominated_node=planned), [other]).outcome is Outcome.REFUSED
    assert job.reserved == {}
    world.later(31)
    assert len(job.reserved) == 2


def test_an_attempt_that_does_not_know_the_nomination_vetoes_nothing(world: World) -> None:
    """A list without the planned node from before the nomination says nothing about the node."""
    world.nodes(2)
    job = world.gang("a", 2)
    (other,) = {"node-0", "node-1"} - {job.reserved["a-0"]}
    assert world.filter(job.pods[0], [other]).outcome is Outcome.REFUSED
    assert len(world.admission.vetoes) == 0
    assert len(job.reserved) == 2


def test_prioritize_ranks_the_planned_node_first(world: World) -> None:
    """Should a member come to be ranked, only its node scores."""
    names = world.nodes(2)
    job = world.gang("a", 2)
    assert world.tell(Prioritize(job.pods[0], names)) == [10 * (name == job.reserved["a-0"]) for name in names]


def test_prioritize_ranks_the_planned_node_of_a_single_pod_first(world: World) -> None:
    """A pod without a group goes to the fuller node, as planned; a foreign pod is not ranked."""
    names = world.nodes(2)
    running = world.gang("a", 1, gpus=4)
    running.run()
    single = world.pod("single", 4)
    world.tell(PodSeen(single))
    assert world.filter(single).accepted == [running.pods[0].node_name]
    assert world.tell(Prioritize(single, names)) == [10 * (name == running.pods[0].node_name) for name in names]
    assert world.tell(Prioritize(world.pod("other", 4, scheduler_name="x"), names)) == [0, 0]


def test_preempt_allows_nothing_for_a_managed_pod(world: World) -> None:
    """Muster decides who is evicted: kube-scheduler evicts nobody for a gang's member or for a single pod."""
    world.nodes(1)
    victim = world.gang("running", 1)
    victim.run()
    job, single = world.gang("urgent", 2, priority=100), world.pod("single", 8, priority=100)
    world.tell(PodSeen(single))
    for pod in (job.pods[0], single, world.pod("unseen", 8, priority=100)):
        assert world.tell(Preempt(pod, {"node-0": [victim.pods[0].uid]})) == []


def test_preempt_spares_gangs_that_would_fall_below_their_minimum(world: World) -> None:
    """Of two candidates of a foreign pod the one that would break a gang is struck out; a gang of one goes whole."""
    world.nodes(2)
    gang = world.gang("gang", 1, gpus=8)
    gang.run()
    solo = world.pod("solo", 8)
    world.tell(PodSeen(solo))
    (free,) = {"node-0", "node-1"} - {gang.pods[0].node_name}
    world.tell(PodSeen(replace(solo, node_name=free, phase=Phase.RUNNING)))
    victims = {gang.pods[0].node_name: [gang.pods[0].uid], free: [solo.uid], "empty": []}
    assert world.tell(Preempt(foreign(world), victims)) == [free]


def test_preempt_never_touches_a_gang_that_is_being_bound(world: World) -> None:
    """With one of two members bound, evicting it would leave the other to start alone."""
    world.nodes(2)
    job = world.gang("a", 2)
    nodes = job.reserved
    for index in range(2):
        job.bind(index)
    job.see(0, node_name=nodes["a-0"])
    assert world.tell(Preempt(foreign(world), {nodes["a-0"]: [job.pods[0].uid]})) == []


def test_preempt_does_not_take_apart_a_gang_that_lost_a_member(world: World) -> None:
    """What is left of a gang below its minimum waits for its repair, and is nobody's to evict one by one."""
    world.nodes(3)
    job = world.gang("a", 3)
    job.run()
    job.see(0, phase=Phase.FAILED)
    world.judge()
    for pod in job.pods[1:]:
        assert world.tell(Preempt(foreign(world), {pod.node_name: [pod.uid]})) == []


def test_preempt_may_take_members_beyond_the_minimum(world: World) -> None:
    """A gang above minMember can lose an extra."""
    world.nodes(2)
    gang = world.gang("gang", 2, min_member=1)
    gang.run()
    world.judge()
    victim = gang.pods[1]
    assert world.tell(Preempt(foreign(world), {victim.node_name: [victim.uid]})) == [victim.node_name]


def test_preempt_for_foreign_pods_only_protects_gangs(world: World) -> None:
    """Room is not Muster's business for a pod of another scheduler; a running gang is."""
    world.nodes(1)
    gang = world.gang("gang", 1, gpus=4)
    gang.run()
    other = world.pod("other", 64, scheduler_name="x")
    assert world.tell(Preempt(other, {"node-0": [gang.pods[0].uid]})) == []
    assert world.tell(Preempt(other, {"node-0": ["unknown"]})) == ["node-0"]


def test_held_members_show_as_held(world: World) -> None:
    """The ledger tells reserved from held."""
    world.nodes(2)
    job = world.gang("a", 2)
    job.bind(0)
    slot = world.state.slot(job.pods[0])
    assert slot is not None
    assert slot.state is SlotState.HELD
    assert dict(slot.pod.shape.requests)[GPU] == 8


def test_a_veto_spares_members_that_have_arrived_on_the_node(world: World) -> None:
    """With anti-affinity among members one per node passes: who has arrived stays, the others move on."""
    names = world.nodes(2)
    job = world.gang("a", 2, gpus=1)
    assert len(set(job.reserved.values())) == 1
    shared = job.reserved["a-0"]
    job.bind(0)
    answer = world.filter(replace(job.pods[1], nominated_node=shared), [name for name in names if name != shared])
    assert answer.outcome is Outcome.PINNED
    assert job.reserved["a-0"] == shared
    assert job.reserved["a-1"] != shared
    assert job.bind(1).verdict is BindVerdict.WRITE


def test_a_veto_counts_for_the_gang_that_met_it(world: World) -> None:
    """What a gang's pods were refused for (anti-affinity, say) is not in their shape: others may use the node."""
    names = world.nodes(2)
    first = world.gang("a", 2)
    planned = first.reserved["a-0"]
    (other,) = set(names) - {planned}
    for pod in first.pods:
        world.filter(replace(pod, nominated_node=planned), [other])
    assert first.wait is not None
    assert first.wait.message.startswith("kube-scheduler refused: it left out planned nodes")
    second = world.gang("b", 2)
    assert len(second.reserved) == 2


def test_a_promise_to_a_single_pod_ends(world: World) -> None:
    """What a failed Binding leaves behind is given back after the reservation timeout, and not a moment before."""
    world.nodes(1)
    pod, other = world.pod("single", 8), world.pod("other", 8)
    for seen in (pod, other):
        world.tell(PodSeen(seen))
    world.judge()
    world.tell(Arrive(pod.uid, "node-0"))
    world.tell(BindingFailed(pod.uid, "the API server did not answer", final=False))
    world.later(59)
    assert world.filter(other).accepted == []
    world.later(1)
    assert world.filter(other).accepted == ["node-0"]


@pytest.mark.parametrize("node", ["", "node-0"])
def test_bind_for_a_pod_of_another_scheduler_is_refused(world: World, node: str) -> None:
    """What was not judged is not bound with Muster's rights; the answer says which setting it is about."""
    world.nodes(1)
    other = world.pod("other", 8, scheduler_name="default-scheduler", node_name=node)
    world.tell(PodSeen(other))
    arrival = world.tell(Arrive(other.uid, "node-0"))
    assert arrival.verdict is BindVerdict.REFUSE
    assert (
        arrival.message
        == "pod default/other has schedulerName default-scheduler, which is not in the setting scheduler_names"
    )


def test_a_bind_call_whose_uid_is_another_pods_is_mistaken(world: World) -> None:
    """Name, namespace and UID must be those of one pod; an unknown UID is for `arrive` to refuse."""
    world.nodes(1)
    pod = world.pod("single", 8)
    world.tell(PodSeen(pod))
    assert world.engine.mistaken(pod.uid, "default", "single") == ""
    assert world.engine.mistaken("unknown", "default", "single") == ""
    for namespace, name in (("default", "other"), ("other", "single")):
        message = world.engine.mistaken(pod.uid, namespace, name)
        assert message == f"the pod with UID {pod.uid} is default/single, not {namespace}/{name}"


def test_bind_is_refused_on_a_node_that_does_not_exist(world: World) -> None:
    """A node that nobody has seen has no room."""
    pod = world.pod("single", 8)
    world.tell(PodSeen(pod))
    assert world.tell(Arrive(pod.uid, "ghost")).verdict is BindVerdict.REFUSE
