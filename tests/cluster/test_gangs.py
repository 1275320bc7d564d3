"""Gangs: which pods belong together, how many are in which state, whose word counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.cluster.gangs import Gang, needs_object
from extender.cluster.membership import Census
from extender.cluster.model import GangRegistry
from extender.objects import keys
from extender.objects.pod import Phase, Pod
from extender.objects.podgroup import POD, GroupProgress, PodGroup
from extender.objects.podoptions import RoleRank
from extender.objects.sources.jobset import JOBSET
from extender.objects.sources.kueue import KUEUE
from extender.objects.sources.leaderworkerset import LEADER_WORKER_SET
from extender.objects.sources.table import LABEL, SOURCE_OF
from extender.objects.topology import TopologyRequest, TopologyTerms
from tests.cluster.conftest import group_ref, pod

JOB = group_ref()


def gang_of(*members: Pod, group: PodGroup | None = None) -> Gang:
    """Return a gang with these members."""
    return Gang(JOB, uid="life", first_seen=0.0, group=group, members={member.uid: member for member in members})


def group(uid: str = "group-1", **fields: Any) -> PodGroup:
    """Return a PodGroup called `job`."""
    return PodGroup(JOB, uid, **fields)


def says(name: str, **options: Any) -> Pod:
    """Return a member with `muster.dev/` annotations."""
    return pod(name, group=JOB, options=keys.Options(**options))


# --------------------------------------------------------------------------------------------------------------- census


@pytest.mark.parametrize(
    ("member", "expected"),
    [
        ({}, Census(placeable=1)),
        ({"gated": True}, Census(gated=1)),
        ({"node_name": "n"}, Census(bound=1)),
        ({"node_name": "n", "phase": Phase.RUNNING}, Census(bound=1, running=1)),
        ({"node_name": "n", "phase": Phase.UNKNOWN}, Census(bound=1)),
        ({"node_name": "n", "phase": Phase.SUCCEEDED}, Census(succeeded=1)),
        ({"node_name": "n", "phase": Phase.SUCCEEDED, "deleting": True}, Census(succeeded=1)),
        ({"node_name": "n", "phase": Phase.FAILED}, Census(failed=1)),
        ({"phase": Phase.FAILED}, Census(failed=1)),
        ({"deleting": True}, Census(leaving=1)),
        ({"deleting": True, "gated": True}, Census(leaving=1)),
        ({"node_name": "n", "phase": Phase.RUNNING, "deleting": True}, Census(leaving=1)),
    ],
)
def test_state_of_a_member(member: dict[str, Any], expected: Census) -> None:
    """A member is in the state that says most about what it still contributes."""
    assert gang_of(pod("m", **member)).census() == expected


def test_terminating_members_are_not_secured() -> None:
    """Pods on their way out do not let their replacements start one by one: those must start together again."""
    outgoing = [pod(f"old-{i}", node_name="n", phase=Phase.RUNNING, deleting=True) for i in range(4)]
    incoming = [pod(f"new-{i}") for i in range(3)]
    census = gang_of(*outgoing, *incoming).census()
    assert (census.secured, census.exist) == (0, 3)


MEMBERS = st.fixed_dictionaries(
    {
        "node_name": st.sampled_from(["", "n"]),
        "phase": st.sampled_from(Phase),
        "gated": st.booleans(),
        "deleting": st.booleans(),
    }
)


@settings(deadline=None)
@given(st.lists(MEMBERS, max_size=8))
def test_census_counts_every_member_once(members: list[dict[str, Any]]) -> None:
    """The states add up to the members; what exists and what is secured are parts of them; `running` is of `bound`."""
    pods = [pod(f"m-{index}", **fields) for index, fields in enumerate(members)]
    census = gang_of(*pods).census()
    states = census.placeable, census.gated, census.bound, census.succeeded, census.failed, census.leaving
    assert sum(states) == len(members)
    assert census.secured <= census.exist <= len(members)
    assert census.running <= census.bound
    assert census.placeable == sum(each.placeable for each in pods)


def test_exist_and_secured() -> None:
    """Failed and leaving members do not count for minMember; bound and succeeded ones need not be waited for."""
    census = Census(placeable=1, gated=2, bound=4, running=3, succeeded=8, failed=16, leaving=32)
    assert (census.exist, census.secured) == (15, 12)


# ---------------------------------------------------------------------------------------------------- whose word counts


def test_min_member_is_the_pod_groups() -> None:
    """Where there is a PodGroup its minMember counts, whatever the members say."""
    assert gang_of(says("a", min_member=9), group=group(min_member=3)).min_member == 3


def test_min_member_without_pod_group() -> None:
    """Without a PodGroup the largest annotation counts, and a gang without any word is a gang of one."""
    assert gang_of(says("a", min_member=2), says("b", min_member=4), says("c")).min_member == 4
    assert gang_of(says("a")).min_member == 1
    assert gang_of().min_member == 1


def test_priority_is_the_pod_groups() -> None:
    """A PodGroup with a priority of its own decides, zero included."""
    assert gang_of(pod("a", priority=7), group=group(priority=0)).priority == 0


def test_priority_of_the_waiting_members() -> None:
    """Without one the highest of the unbound members counts; bound and finished ones only when nobody waits."""
    bound = pod("bound", priority=9, node_name="n")
    done = pod("done", priority=8, phase=Phase.FAILED)
    waiting = pod("low", priority=-3), pod("high", priority=-1)
    assert gang_of(bound, done, *waiting, group=group()).priority == -1
    assert gang_of(bound, done).priority == 9
    assert gang_of().priority == 0


def test_packing_is_the_pod_groups_then_the_first_members() -> None:
    """The PodGroup's placement counts, then that of the first member that names one, then binpack."""
    spread = group(options=keys.Options(packing=keys.Packing.SPREAD))
    assert gang_of(says("a", packing=keys.Packing.BINPACK), group=spread).packing is keys.Packing.SPREAD
    mixed = says("w-10", packing=keys.Packing.BINPACK), says("w-9", packing=keys.Packing.SPREAD), says("w-1")
    assert gang_of(*mixed, group=group()).packing is keys.Packing.SPREAD
    assert gang_of(says("a"), group=group()).packing is keys.Packing.BINPACK


def test_a_gang_says_how_it_shares() -> None:
    """Queue, preemption and what becomes of a rest come from whoever speaks for the gang, and follow its changes."""
    gang = gang_of(says("a", queue="research", preemptible=False, below_minimum=keys.BelowMinimum.IGNORE), pod("b"))
    assert (gang.queue, gang.preemptible, gang.below_minimum) == ("research", False, keys.BelowMinimum.IGNORE)
    gang.join(says("a", queue="other"))
    assert (gang.queue, gang.preemptible, gang.below_minimum) == ("other", True, keys.BelowMinimum.EVICT)
    gang.leave("uid-a")
    assert gang.queue == ""


def test_who_waits_says_whether_the_gang_may_preempt() -> None:
    """One waiting member with preemptionPolicy Never is enough; those that have a node count where nobody waits."""
    assert gang_of(pod("a"), pod("b", never_preempts=True)).never_preempts
    assert not gang_of(pod("a"), pod("b", node_name="n", never_preempts=True)).never_preempts
    assert gang_of(pod("a", node_name="n"), pod("b", node_name="n", never_preempts=True)).never_preempts
    assert not gang_of(pod("a")).never_preempts
    assert not gang_of().never_preempts


def test_a_gang_without_word_lasts_as_long_as_its_members_may() -> None:
    """The longest deadline counts, and none at all if a member has none; what the gang says itself counts first."""
    short, long, endless = (pod(n, active_deadline=t) for n, t in (("a", 60.0), ("b", 90.0), ("c", None)))
    assert gang_of(short, long).expected_duration == 90.0
    assert gang_of(short, endless).expected_duration is None
    assert gang_of().expected_duration is None
    assert gang_of(short, says("d", expected_duration=30.0)).expected_duration == 30.0


def test_a_gang_runs_since_its_first_member_does() -> None:
    """Members without a node, and those that have ended, do not count; it is known once a kubelet has said so."""
    gang = gang_of(pod("a"), pod("b", node_name="n"), pod("z", started_at=5.0, node_name="n", phase=Phase.SUCCEEDED))
    assert [gang.started_at] == [None]
    gang.join(pod("b", node_name="n", started_at=20.0))
    gang.join(pod("c", node_name="n", started_at=10.0))
    assert gang.started_at == 10.0
    gang.leave("uid-c")
    assert gang.started_at == 20.0


def test_members_are_ordered_by_rank_then_by_natural_name() -> None:
    """Rank decides where a controller gave one; otherwise numbers in names compare as numbers; UID breaks ties."""
    ranked = (pod(name, rank=RoleRank(indices=(index,))) for name, index in (("z", 0), ("a", 10), ("m", 9)))
    assert [p.name for p in gang_of(*ranked).ordered()] == ["z", "m", "a"]
    named = pod("w-10"), pod("w-9"), pod("launcher")
    assert [p.name for p in gang_of(*named).ordered()] == ["launcher", "w-9", "w-10"]
    twins = pod("w-01"), pod("w-1")
    assert [p.name for p in gang_of(*twins).ordered()] == [p.name for p in gang_of(*reversed(twins)).ordered()]


def test_only_gangs_whose_pods_say_their_number_live_without_an_object() -> None:
    """A gang made of labels needs no PodGroup, nor one of Kueue or of a LeaderWorkerSet, nor a pod."""
    without = [api for api in SOURCE_OF if not needs_object(group_ref(api=api))]
    assert without == [KUEUE, LEADER_WORKER_SET, LABEL, POD]


def test_a_step_counts_from_its_first_pod_on() -> None:
    """Pods that are made when others run are no reason to wait before, and must start together then."""
    ref = group_ref(api=JOBSET)
    gang = Gang(ref, "u", 0.0)
    gang.group = PodGroup(ref, "u", 1, role_minimums=(("init", 1),), steps=(GroupProgress("worker", after=0, least=2),))
    gang.join(pod("init", role="init", node_name="n"))
    assert (gang.min_member, gang.has_minimum, gang.is_complete) == (1, True, True)
    gang.join(pod("worker-0", role="worker"))
    assert (gang.min_member, dict(gang.role_minimums)) == (3, {"init": 1, "worker": 2})
    assert (gang.has_minimum, gang.is_complete) == (False, False)
    gang.join(pod("worker-1", role="worker"))
    assert (gang.has_minimum, gang.is_complete) == (False, True)


def test_a_gang_that_grows_by_a_step_has_lost_nothing() -> None:
    """What comes later is no loss; one of those that started first would be."""
    ref = group_ref(api=JOBSET)
    gang = Gang(ref, "u", 0.0)
    gang.group = PodGroup(
        ref, "u", 1, role_minimums=(("driver", 1),), steps=(GroupProgress("worker", after=0, least=2),)
    )
    gang.join(pod("driver", role="driver", node_name="n"))
    assert not gang.is_growing
    for number in range(2):
        gang.join(pod(f"worker-{number}", role="worker"))
    assert (gang.has_minimum, gang.is_growing) == (False, True)
    gang.join(pod("driver", role="driver", node_name="n", phase=Phase.FAILED))
    assert not gang.is_growing
    gang.group = None
    assert not gang.is_growing


def test_a_step_of_the_same_role_counts_from_one_more_pod_on() -> None:
    """First pods that start alone are not taken for the beginning of the step that follows them."""
    ref = group_ref(api=JOBSET)
    gang = Gang(ref, "u", 0.0)
    gang.group = PodGroup(
        ref, "u", 2, role_minimums=(("worker", 2),), steps=(GroupProgress("worker", after=2, least=6),)
    )
    for number in range(2):
        gang.join(pod(f"first-{number}", role="worker", node_name="n"))
    assert (gang.min_member, gang.has_minimum) == (2, True)
    gang.join(pod("later", role="worker"))
    assert (gang.min_member, gang.has_minimum) == (6, False)


# -------------------------------------------------------------------------------------------------------- role minimums


def trio(**roles: int) -> list[Pod]:
    """Return so many members of each role."""
    return [pod(f"{role}-{index}", group=JOB, role=role) for role, count in roles.items() for index in range(count)]


def bound(*members: Pod) -> list[Pod]:
    """Return members that run on a node."""
    return [replace(member, node_name="n", phase=Phase.RUNNING) for member in members]


def test_role_minimums_raise_the_gangs_minimum() -> None:
    """The members that must start together are minMember, and at least those of all roles."""
    minimums = (("leader", 1), ("worker", 4))
    assert gang_of(group=group(min_member=3, role_minimums=minimums)).min_member == 5
    assert gang_of(group=group(min_member=8, role_minimums=minimums)).min_member == 8
    assert gang_of(says("a", role_minimums=minimums)).min_member == 5


def test_a_gang_is_complete_when_each_role_is() -> None:
    """Members of another role do not make up for one that is missing."""
    described = group(min_member=3, role_minimums=(("leader", 1), ("worker", 2)))
    assert not gang_of(*trio(worker=5), group=described).is_complete
    assert gang_of(*trio(leader=1, worker=2), group=described).is_complete
    assert not gang_of(*trio(leader=1, worker=1), group=described).is_complete


def test_a_gang_has_its_minimum_when_each_role_has() -> None:
    """Bound members of another role do not make up for one that is not bound."""
    described = group(min_member=3, role_minimums=(("leader", 1), ("worker", 2)))
    workers = bound(*trio(worker=3))
    assert not gang_of(*workers, *trio(leader=1), group=described).has_minimum
    assert gang_of(*workers, *bound(*trio(leader=1)), group=described).has_minimum


def test_what_would_be_with_more_or_fewer_members() -> None:
    """Members on their way are added role by role, and those that would be lost are taken away."""
    described = group(min_member=3, role_minimums=(("leader", 1), ("worker", 2)))
    gang = gang_of(*bound(*trio(leader=1, worker=1)), *trio(worker=0), group=described)
    assert not gang.would_have_minimum({})
    assert gang.would_have_minimum({"worker": 1})
    assert not gang.would_have_minimum({"leader": 1})
    assert not gang.would_have_minimum({"worker": 2, "leader": -1})


def test_the_census_of_a_role_counts_its_members_alone() -> None:
    """The censuses of all roles add up to that of the gang."""
    gang = gang_of(*trio(leader=1, worker=2), *bound(pod("ps-0", role="ps")))
    assert (gang.census_of("worker"), gang.census_of("nobody")) == (Census(placeable=2), Census())
    assert gang.census_of("ps") == Census(bound=1, running=1)


def test_topology_is_the_pod_groups_then_the_members() -> None:
    """Each term is the PodGroup's, else that of the first member that has it; it follows the members as they change."""
    described = group(options=keys.Options(topology=TopologyTerms(required="block")))
    member = says("a", topology=TopologyTerms(required="rack", preferred="node"))
    gang = gang_of(member, group=described)
    assert gang.topology == TopologyRequest(required="block", preferred="node")
    gang.join(replace(member, options=keys.Options()))
    assert gang.topology == TopologyRequest(required="block")
    gang.join(member)
    gang.leave(member.uid)
    assert gang.topology == TopologyRequest(required="block")


# ------------------------------------------------------------------------------------------------------------- registry


def test_a_pod_that_names_no_group_is_a_gang_of_one() -> None:
    """It needs no object, and one member; what it says of minMember and of roles does not count."""
    options = keys.Options(min_member=4, role_minimums=(("worker", 2),))
    registry, single = GangRegistry(), pod("single", options=options)
    gang = registry.put_pod(single, 0)
    assert (str(gang.ref), gang.min_member, gang.role_minimums) == (single.key, 1, {})
    assert gang.is_complete
    assert registry.drop_pod(single) is gang
    assert len(registry) == 0


@pytest.mark.parametrize("size", [1, 3])
def test_a_member_that_is_seen_again_is_to_be_placed_as_it_is_now(size: int) -> None:
    """What does not count, as a nomination does not, is as it was last seen; one that is promised a node stays out."""
    gang, members = Gang(JOB, "uid", 0), [pod(f"p-{index}") for index in range(size)]
    for member in members:
        gang.join(member)
    nominated = replace(members[0], nominated_node="n")
    gang.join(nominated)
    assert gang.unplaced() == [nominated, *members[1:]]
    gang.promise([nominated.uid])
    gang.join(members[0])
    assert gang.unplaced() == members[1:]
    gang.withdraw(nominated.uid)
    assert gang.unplaced() == members


def test_a_pod_that_is_created_again_is_another_gang() -> None:
    """Of two pods of one name each is a gang of its own, in whatever order they are heard of."""
    registry, first = GangRegistry(), pod("single")
    second = replace(first, uid="again")
    before, after = registry.put_pod(first, 0), registry.put_pod(second, 1)
    assert before is not after
    assert (before.uid, after.uid, after.first_seen) == (f"pod:{first.uid}", "pod:again", 1)
    registry.drop_pod(first)
    assert [gang.uid for gang in registry] == ["pod:again"]


def test_a_pod_group_of_the_name_of_a_pod_is_another_gang() -> None:
    """What a pod is called collides with the name of no group."""
    registry, single = GangRegistry(), pod("job")
    registry.put_group(group(), 0)
    registry.put_pod(single, 0)
    assert len(registry) == 2
    assert {str(gang.ref) for gang in registry} == {"default/job"}


def test_pods_and_pod_group_meet_in_any_order() -> None:
    """The gang is the same whether its PodGroup or its pods are heard of first."""
    member = pod("a", group=JOB)
    group_first, pod_first = GangRegistry(), GangRegistry()
    group_first.put_group(group(), 0)
    group_first.put_pod(member, 0)
    pod_first.put_pod(member, 0)
    pod_first.put_group(group(), 0)
    for registry in (group_first, pod_first):
        gang = registry.get(JOB)
        assert gang is not None
        assert list(registry) == [gang]
        assert (gang.uid, gang.group, gang.members) == ("group-1", group(), {"uid-a": member})


def test_life_of_a_gang_without_object() -> None:
    """The first pod's UID names the life; after the last pod went, the same name is a new life."""
    registry = GangRegistry()
    for life in ("one", "two"):
        gang = registry.put_pod(pod(life, group=JOB), 5.0)
        assert gang is not None
        assert (gang.uid, gang.first_seen) == (f"pod:uid-{life}", 5.0)
        assert registry.put_pod(pod("more", group=JOB), 6.0) is gang
        assert registry.drop_pod(pod(life, group=JOB)) is gang
        assert registry.get(JOB) is gang
        registry.drop_pod(pod("more", group=JOB))
        assert registry.get(JOB) is None


def test_created_anew() -> None:
    """A PodGroup with a new UID ends the former life: its UID is reported, and the wait is counted from now."""
    registry = GangRegistry()
    gang, ended = registry.put_group(group("group-1"), 1.0)
    assert (gang.uid, gang.first_seen, ended) == ("group-1", 1.0, None)
    again, ended = registry.put_group(group("group-1", min_member=4), 2.0)
    assert (again.min_member, again.first_seen, ended) == (4, 1.0, None)
    anew, ended = registry.put_group(group("group-2"), 3.0)
    assert (anew.uid, anew.first_seen, ended) == ("group-2", 3.0, "group-1")


def test_pod_group_ends_the_life_without_object() -> None:
    """When the PodGroup of pods that came first arrives, the gang goes by the PodGroup's UID."""
    registry = GangRegistry()
    registry.put_pod(pod("a", group=JOB), 0)
    _, ended = registry.put_group(group(), 1.0)
    assert ended == "pod:uid-a"


def test_late_deletion_of_a_former_pod_group_is_ignored() -> None:
    """Only the PodGroup that is there can be dropped."""
    registry = GangRegistry()
    assert registry.drop_group(JOB, "group-1") is None
    gang, _ = registry.put_group(group("group-2"), 0)
    assert registry.drop_group(JOB, "group-1") is None
    assert gang.group is not None
    assert registry.drop_group(JOB, "group-2") is gang
    assert registry.drop_group(JOB, "group-2") is None
    assert len(registry) == 0


def test_gang_outlives_its_pod_group_while_it_has_pods() -> None:
    """Pods whose PodGroup was deleted stay a gang under the old UID, so that a new PodGroup starts a new life."""
    registry = GangRegistry()
    registry.put_group(group("group-1"), 0)
    registry.put_pod(pod("a", group=JOB), 0)
    gang = registry.drop_group(JOB, "group-1")
    assert gang is registry.get(JOB)
    assert gang is not None
    assert (gang.group, gang.uid) == (None, "group-1")
    assert registry.drop_group(JOB, "group-1") is None
    assert registry.put_group(group("group-2"), 1)[1] == "group-1"


def test_dropping_an_unknown_member_keeps_the_gang() -> None:
    """A deletion heard of twice changes nothing."""
    registry = GangRegistry()
    registry.put_group(group(), 0)
    gang = registry.drop_pod(pod("never-seen", group=JOB))
    assert gang is registry.get(JOB)
    assert registry.drop_pod(pod("other", group=group_ref("other"))) is None


def test_created_is_the_pod_groups_or_the_oldest_pods() -> None:
    """Age is the PodGroup's; without one it is that of the oldest pod there ever was: a lost pod costs no place."""
    registry = GangRegistry()
    for name, created in (("b", "2026-01-02"), ("a", "2026-01-01"), ("c", "2026-01-03")):
        registry.put_pod(pod(name, group=JOB, created=created), 0)
    gang = registry.get(JOB)
    assert gang is not None
    assert gang.created == "2026-01-01"
    registry.drop_pod(pod("a", group=JOB))
    assert gang.created == "2026-01-01"
    registry.put_group(group(created="2025-12-31"), 0)
    assert gang.created == "2025-12-31"


def test_who_can_be_spared_is_found_again_only_if_others_have_a_place() -> None:
    """A member that is bound where it was promised changes nothing; one that is new, or says something else, does."""
    first, second, third = says("a", preemptible=False), says("b"), says("c")
    gang = gang_of(first, second, third, group=group(min_member=1))
    for each in (first, second):
        gang.promise([each.uid])
    before = gang.spare
    assert before == {second.uid}
    bound = replace(second, node_name="n")
    gang.join(bound)
    gang.withdraw(second.uid)
    gang.join(replace(bound, phase=Phase.RUNNING))
    assert gang.spare is before
    gang.promise([third.uid])
    assert gang.spare == {second.uid, third.uid}
    gang.join(replace(bound, options=keys.Options(preemptible=False)))
    assert gang.spare == {third.uid}
    gang.withdraw(third.uid)
    gang.leave(first.uid)
    assert not gang.spare
