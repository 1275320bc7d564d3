"""The scheduler's four questions."""

from __future__ import annotations

from dataclasses import replace

from extender.admission.answers import BindVerdict, Outcome, Refusal
from extender.admission.ledger import SlotState
from extender.domain.pod import Phase
from tests.admission.conftest import GPU, World


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
    assert answer.refusals == (Refusal(["node-0", "node-1", "node-2", "node-3"], "gang waits: 3 of 4 members exist"),)


def test_filter_judges_at_once_what_changed_since_the_last_pass(world: World) -> None:
    """The last member's own call starts the gang: no pass has to run in between."""
    world.nodes(4)
    job = world.gang("a", 3, min_member=4)
    job.pods.append(world.pod("a-3", 8, group=job.ref))
    world.admission.pod_seen(job.pods[3])
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
    assert world.admission.decide()
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


def test_single_pods_go_where_there_is_room_beside_reservations(world: World) -> None:
    """A pod without gang is offered only nodes with room; eviction may help on the others."""
    world.nodes(3)
    job = world.gang("a", 2)
    (free,) = {"node-0", "node-1", "node-2"} - set(job.reserved.values())
    answer = world.filter(world.pod("single", 8))
    assert answer.accepted == [free]
    (refusal,) = answer.refusals
    assert set(refusal.names) == set(job.reserved.values())
    assert refusal.resolvable


def test_single_pods_leave_alone_what_is_kept_for_the_head(world: World) -> None:
    """A younger single pod cannot take what the blocked head waits for; an older one may."""
    world.nodes(2)
    older = world.pod("older", 8)
    world.gang("running", 1).run()
    world.gang("head", 2)
    younger = world.pod("younger", 8)
    assert world.filter(younger).accepted == []
    assert world.filter(older).accepted == ["node-1"]


def test_an_unknown_node_is_not_accepted_for_a_single_pod(world: World) -> None:
    """What is reserved on a node that has not been observed cannot be known."""
    world.nodes(1)
    assert world.filter(world.pod("single", 8), ["node-0", "ghost"]).accepted == ["node-0"]


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
    arrival = world.verbs.arrive(job.pods[0].uid, wrong)
    assert arrival.verdict is BindVerdict.REFUSE
    assert "planned on" in arrival.message


def test_bind_refuses_unknown_pods_and_members_without_reservation(world: World) -> None:
    """Nothing is bound that nobody decided."""
    world.nodes(1)
    job = world.gang("a", 1, min_member=2)
    assert world.verbs.arrive("nobody", "node-0").verdict is BindVerdict.REFUSE
    assert world.verbs.arrive(job.pods[0].uid, "node-0").message == "gang waits: 1 of 2 members exist"


def test_bind_of_a_bound_pod_succeeds_only_for_its_node(world: World) -> None:
    """Repeating a successful bind is success; another node is not."""
    world.nodes(2)
    job = world.gang("a", 2)
    job.run()
    node = job.pods[0].node_name
    other = job.pods[1].node_name
    assert world.verbs.arrive(job.pods[0].uid, node).verdict is BindVerdict.ALREADY
    assert world.verbs.arrive(job.pods[0].uid, other).verdict is BindVerdict.REFUSE


def test_a_single_pod_cannot_bind_what_was_reserved_since_filter(world: World) -> None:
    """Between filter and bind a gang may get the node; then the pod has to look again."""
    world.nodes(1)
    single = world.pod("single", 8)
    world.admission.pod_seen(single)
    assert world.filter(single).accepted == ["node-0"]
    world.gang("a", 1)
    assert world.verbs.arrive(single.uid, "node-0").verdict is BindVerdict.REFUSE


def test_a_single_pods_binding_claims_its_node_at_once(world: World) -> None:
    """Before the API server shows the Binding, nobody else is promised the room."""
    world.nodes(1)
    single = world.pod("single", 8)
    world.admission.pod_seen(single)
    assert world.verbs.arrive(single.uid, "node-0").verdict is BindVerdict.WRITE
    assert world.verbs.arrive(single.uid, "node-0").verdict is BindVerdict.WRITE
    assert world.gang("a", 1).reserved == {}
    world.check_promises()


def test_a_failed_binding_of_a_single_pod_gives_the_room_back(world: World) -> None:
    """A final failure releases; an unknown outcome keeps the room."""
    world.nodes(1)
    single = world.pod("single", 8)
    world.admission.pod_seen(single)
    world.verbs.arrive(single.uid, "node-0")
    world.verbs.binding_failed(single.uid, "timeout", final=False)
    assert world.admission.model.table.claim_of(single.uid) is not None
    world.verbs.binding_failed(single.uid, "conflict", final=True)
    assert world.admission.model.table.claim_of(single.uid) is None


def test_a_failed_binding_of_a_member_has_it_placed_anew(world: World) -> None:
    """A Binding that fails for good costs the member its slot, not the gang its start."""
    world.nodes(3)
    job = world.gang("a", 2)
    nodes = job.reserved
    for index in range(2):
        job.bind(index)
    job.see(0, node_name=nodes["a-0"], phase=Phase.RUNNING)
    world.verbs.binding_failed(job.pods[1].uid, "404 NotFound: nodes gone", final=True)
    world.judge()
    assert job.reserved.keys() == {"a-1"}
    assert job.bind(1).verdict is BindVerdict.WRITE


def test_an_unanswered_binding_keeps_its_slot(world: World) -> None:
    """When nobody knows whether the Binding was made, the slot stays and the member may come again."""
    world.nodes(2)
    job = world.gang("a", 2)
    job.bind(0)
    job.bind(1)
    before = job.reserved
    world.verbs.binding_failed(job.pods[1].uid, "no answer", final=False)
    assert job.reserved == before
    assert job.bind(1).verdict is BindVerdict.WRITE


def test_a_member_whose_held_call_was_answered_long_ago_must_arrive_again(world: World) -> None:
    """Leaving the barrier takes the arrival back, unless kube-scheduler brings the member again soon."""
    world.nodes(2)
    job = world.gang("a", 2)
    job.bind(0)
    world.verbs.leave(job.pods[0].uid)
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
        world.verbs.leave(job.pods[index].uid)
    world.clock.advance(1.0)
    assert job.bind(2).verdict is BindVerdict.WRITE
    assert [job.bind(index).verdict for index in range(2)] == [BindVerdict.WRITE] * 2


def test_a_member_that_was_sent_back_does_not_count_on_a_lost_node(world: World) -> None:
    """What passed kube-scheduler's filters on a node that is gone has passed nothing."""
    world.nodes(3)
    job = world.gang("a", 2)
    job.bind(0)
    world.verbs.leave(job.pods[0].uid)
    world.admission.node_gone(job.reserved["a-0"])
    world.admission.decide()
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


def test_a_veto_ends(world: World) -> None:
    """A gang that only fits on a vetoed node waits until the veto is over."""
    world.nodes(2)
    job = world.gang("a", 2)
    planned = job.reserved["a-0"]
    (other,) = {"node-0", "node-1"} - {planned}
    assert world.filter(replace(job.pods[0], nominated_node=planned), [other]).outcome is Outcome.REFUSED
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
    assert world.verbs.prioritize(job.pods[0], names) == [10 * (name == job.reserved["a-0"]) for name in names]


def test_prioritize_packs_single_pods(world: World) -> None:
    """A pod without gang goes to the fuller node; a foreign pod is not ranked."""
    names = world.nodes(2)
    world.gang("a", 1, gpus=4).run()
    scores = world.verbs.prioritize(world.pod("single", 4), names)
    assert max(scores) == 10
    assert min(scores) == 0
    assert world.verbs.prioritize(world.pod("other", 4, scheduler_name="x"), names) == [0, 0]


def test_preempt_allows_nothing_for_a_gang_member(world: World) -> None:
    """kube-scheduler never evicts for one member of a waiting gang."""
    world.nodes(1)
    victim = world.gang("running", 1)
    victim.run()
    job = world.gang("urgent", 2, priority=100)
    assert world.verbs.preempt(job.pods[0], {"node-0": [victim.pods[0].uid]}) == []


def test_preempt_spares_gangs_that_would_fall_below_their_minimum(world: World) -> None:
    """Of two candidates, the one whose eviction would break a running gang is struck out."""
    world.nodes(2)
    gang = world.gang("gang", 1, gpus=8)
    gang.run()
    solo = world.pod("solo", 8)
    world.admission.pod_seen(solo)
    (free,) = {"node-0", "node-1"} - {gang.pods[0].node_name}
    world.admission.pod_seen(replace(solo, node_name=free, phase=Phase.RUNNING))
    urgent = world.pod("urgent", 8, priority=100)
    world.admission.pod_seen(urgent)
    victims = {gang.pods[0].node_name: [gang.pods[0].uid], free: [solo.uid]}
    assert world.verbs.preempt(urgent, victims) == [free]


def test_preempt_may_take_members_beyond_the_minimum(world: World) -> None:
    """A gang above minMember can lose an extra."""
    world.nodes(2)
    gang = world.gang("gang", 2, min_member=1)
    gang.run()
    world.judge()
    victim = gang.pods[1]
    urgent = world.pod("urgent", 8, priority=100)
    world.admission.pod_seen(urgent)
    assert world.verbs.preempt(urgent, {victim.node_name: [victim.uid]}) == [victim.node_name]


def test_preempt_strikes_out_nodes_where_the_pod_would_not_fit(world: World) -> None:
    """Evicting is useless where reservations take the room, on unknown nodes, and without victims."""
    world.nodes(1)
    solo = world.pod("solo", 4)
    world.admission.pod_seen(replace(solo, node_name="node-0", phase=Phase.RUNNING))
    world.gang("a", 1, gpus=4)
    urgent = world.pod("urgent", 8, priority=100)
    world.admission.pod_seen(urgent)
    assert world.verbs.preempt(urgent, {"node-0": [solo.uid], "ghost": [solo.uid], "empty": []}) == []
    smaller = world.pod("smaller", 4, priority=100)
    world.admission.pod_seen(smaller)
    assert world.verbs.preempt(smaller, {"node-0": [solo.uid]}) == ["node-0"]


def test_preempt_for_foreign_pods_only_protects_gangs(world: World) -> None:
    """Room is not Muster's business for a pod of another scheduler; a running gang is."""
    world.nodes(1)
    gang = world.gang("gang", 1, gpus=4)
    gang.run()
    other = world.pod("other", 64, scheduler_name="x")
    assert world.verbs.preempt(other, {"node-0": [gang.pods[0].uid]}) == []
    assert world.verbs.preempt(other, {"node-0": ["unknown"]}) == ["node-0"]


def test_held_members_show_as_held(world: World) -> None:
    """The ledger tells reserved from held."""
    world.nodes(2)
    job = world.gang("a", 2)
    job.bind(0)
    entry = world.admission.reservations.ledger.of_pod(job.pods[0].uid)
    assert entry is not None
    assert entry[1].state is SlotState.HELD
    assert dict(entry[1].pod.shape.requests)[GPU] == 8


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
    world.filter(replace(first.pods[0], nominated_node=planned), [other])
    assert first.wait is not None
    assert first.wait.message.startswith("kube-scheduler refused: it left out planned nodes")
    second = world.gang("b", 2)
    assert len(second.reserved) == 2


def test_a_pod_without_gang_whose_binding_failed_may_have_its_node_again(world: World) -> None:
    """The promise that a failed Binding leaves behind does not keep out the very pod that it was made to."""
    world.nodes(1)
    pod = world.pod("single", 8)
    world.admission.pod_seen(pod)
    assert world.verbs.arrive(pod.uid, "node-0").verdict is BindVerdict.WRITE
    world.verbs.binding_failed(pod.uid, "the API server did not answer", final=False)
    assert world.filter(pod).accepted == ["node-0"]
    assert world.verbs.arrive(pod.uid, "node-0").verdict is BindVerdict.WRITE


def test_a_promise_to_a_pod_without_gang_ends(world: World) -> None:
    """What a failed Binding leaves behind is given back after the reservation timeout, and not a moment before."""
    world.nodes(1)
    pod, other = world.pod("single", 8), world.pod("other", 8)
    for seen in (pod, other):
        world.admission.pod_seen(seen)
    world.verbs.arrive(pod.uid, "node-0")
    world.verbs.binding_failed(pod.uid, "the API server did not answer", final=False)
    assert world.filter(other).accepted == []
    assert world.admission.next_tick() == world.clock.monotonic() + 60
    world.clock.advance(60)
    world.admission.tick()
    assert world.filter(other).accepted == ["node-0"]


def test_bind_for_a_pod_of_another_scheduler_is_written(world: World) -> None:
    """kube-scheduler hands every bind to its extender: a pod of a profile that is not Muster's could not start else."""
    world.nodes(1)
    other = world.pod("other", 8, scheduler_name="default-scheduler")
    world.admission.pod_seen(other)
    assert world.verbs.arrive(other.uid, "node-0").verdict is BindVerdict.WRITE


def test_a_bind_call_whose_uid_is_another_pods_is_mistaken(world: World) -> None:
    """Name, namespace and UID must be those of one pod; an unknown UID is for `arrive` to refuse."""
    world.nodes(1)
    pod = world.pod("single", 8)
    world.admission.pod_seen(pod)
    assert world.verbs.mistaken(pod.uid, "default", "single") == ""
    assert world.verbs.mistaken("unknown", "default", "single") == ""
    for namespace, name in (("default", "other"), ("other", "single")):
        message = world.verbs.mistaken(pod.uid, namespace, name)
        assert message == f"the pod with UID {pod.uid} is default/single, not {namespace}/{name}"


def test_bind_is_refused_on_a_node_that_does_not_exist(world: World) -> None:
    """A node that nobody has seen has no room."""
    pod = world.pod("single", 8)
    world.admission.pod_seen(pod)
    assert world.verbs.arrive(pod.uid, "ghost").verdict is BindVerdict.REFUSE


def test_preempt_allows_nothing_for_a_pod_that_does_not_wait(world: World) -> None:
    """A pod that is unknown, or bound already, has nobody evicted for it."""
    world.nodes(2)
    solo = world.pod("solo", 8)
    world.admission.pod_seen(replace(solo, node_name="node-0", phase=Phase.RUNNING))
    urgent = world.pod("urgent", 8, priority=100)
    assert world.verbs.preempt(urgent, {"node-0": [solo.uid]}) == []
    world.admission.pod_seen(urgent)
    assert world.verbs.preempt(urgent, {"node-0": [solo.uid]}) == ["node-0"]
    for phase in (Phase.RUNNING, Phase.SUCCEEDED):
        world.admission.pod_seen(replace(urgent, node_name="node-1", phase=phase))
        assert world.verbs.preempt(urgent, {"node-0": [solo.uid]}) == []
