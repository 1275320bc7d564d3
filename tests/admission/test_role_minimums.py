"""Gangs whose roles have minimums of their own: nobody starts before every role can."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from extender.admission.events import Decide, PodSeen, Rebuild
from extender.objects.keys import Options
from extender.objects.pod import Phase, Pod
from extender.objects.podgroup import GroupRef
from extender.objects.reason import Reason
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.objects.sources.volcano import VOLCANO
from extender.objects.topology import RoleGroup, Slice, TopologyTerms
from extender.placement.capacityview import PodSet, PodSetRequest
from extender.queues.order import position
from tests.worlds import Job, World

PAIR = frozenset({"leader", "worker"})


def team(world: World, members: list[tuple[str, dict[str, Any]]], min_member: int = 1, **minimums: int) -> Job:
    """Create a gang of (role, fields of the pod) with these minimums, and judge it."""
    ref = GroupRef(VOLCANO, "default", "team")
    world.group(ref, min_member, role_minimums=tuple(sorted(minimums.items())))
    job = Job(world, ref)
    for index, (role, fields) in enumerate(members):
        job.pods.append(world.pod(f"{role}-{index}", 8, group=ref, role=role, **fields))
        world.tell(PodSeen(job.pods[-1]))
    world.tell(Decide())
    return job


def plain(**roles: int) -> list[tuple[str, dict[str, Any]]]:
    """Return so many members of each role."""
    return [(role, {}) for role, count in roles.items() for _ in range(count)]


def test_a_role_that_is_missing_keeps_the_gang_waiting(world: World) -> None:
    """Workers alone reserve nothing; the reason names the role, and the leader's arrival lets the gang be placed."""
    world.nodes(4)
    job = team(world, plain(worker=3), min_member=2, leader=1, worker=2)
    assert (job.reason, job.reserved) == (Reason.ROLE_MEMBERS_MISSING, {})
    assert job.wait is not None
    assert job.wait.message == "0 of 1 members of role leader exist"
    leader = world.pod("leader", 8, group=job.ref, role="leader")
    world.tell(PodSeen(leader))
    world.judge()
    assert len(job.reserved) == 4


def test_the_roles_minimums_are_placed_before_other_members(world: World) -> None:
    """On a full cluster the core is what the roles need, though others come first in member order."""
    world.nodes(3)
    job = team(world, plain(ps=3, worker=2), min_member=3, worker=2)
    assert {name.split("-")[0] for name in job.reserved} == {"ps", "worker"}
    assert sum(name.startswith("worker") for name in job.reserved) == 2


def test_a_gang_whose_roles_do_not_fit_holds_nothing(world: World) -> None:
    """Room for minMember is not room for every role."""
    world.nodes(2)
    job = team(world, plain(leader=1, worker=2), min_member=2, leader=1, worker=2)
    assert (job.reason, job.reserved) == (Reason.EXCEEDS_CLUSTER, {})


def test_the_barrier_waits_for_every_role(world: World) -> None:
    """Arrived members of one role do not let go while another role's minimum is on its way."""
    world.nodes(5)
    job = team(world, plain(leader=1, worker=4), min_member=3, leader=1, worker=2)
    world.effects()
    for index in (1, 2, 3, 4):
        job.bind(index)
    assert world.effects().released == []
    assert job.reason is Reason.AWAITING_MEMBERS
    job.bind(0)
    assert len(world.effects().released) == 5


def test_bound_members_count_for_their_role(world: World) -> None:
    """The barrier adds up those that run and those that arrive, role by role."""
    world.nodes(4)
    running = {"node_name": "node-0", "phase": Phase.RUNNING}
    job = team(world, [("leader", running), *plain(worker=2)], min_member=3, leader=1, worker=2)
    world.effects()
    job.bind(1)
    assert world.effects().released == []
    job.bind(2)
    assert len(world.effects().released) == 2


def test_a_gang_that_lost_its_leader_goes_first(world: World) -> None:
    """It holds nodes and cannot work, however many workers it has."""
    world.nodes(1)
    running = {"node_name": "node-0", "phase": Phase.RUNNING}
    broken = team(world, [("worker", running)] * 3 + plain(leader=1), min_member=2, leader=1, worker=2)
    assert not position(broken.gang).not_partial
    assert position(world.gang("other", 1).gang).not_partial


def test_a_restart_keeps_only_reservations_with_every_role(world: World) -> None:
    """Nominations that lack a role are withdrawn and placed anew; those that have all stay as they are."""
    world.nodes(3)
    nominated: list[tuple[str, dict[str, Any]]] = [
        (role, {"nominated_node": f"node-{index}"}) for index, role in enumerate(["leader", "worker", "worker"])
    ]
    for members, kept in ((nominated, 3), (nominated[1:], 0)):
        successor = world.restart()
        successor.nodes(3)
        ref = GroupRef(VOLCANO, "default", "team")
        successor.group(ref, 2, role_minimums=(("leader", 1),))
        for index, (role, fields) in enumerate(members):
            successor.tell(PodSeen(successor.pod(f"{role}-{index}", 8, group=ref, role=role, **fields)))
        successor.tell(Rebuild())
        gang = successor.state.gang(ref)
        assert gang is not None
        reservation = successor.state.reservation(gang.uid)
        assert (0 if reservation is None else len(reservation.slots)) == kept


def _demand(world: World, terms: TopologyTerms, roles: list[str], pods: int) -> tuple[PodSetRequest, list[Pod]]:
    """Return what members with these roles, in this order, demand, and who is placed."""
    name = f"job-{len(world.state.gangs())}"
    ref = GroupRef(COSCHEDULING, "default", name)
    world.group(ref, pods, options=Options(topology=terms))
    for index, role in enumerate(roles):
        world.tell(PodSeen(world.pod(f"{name}-{index}", 4 if role == "ps" else 8, group=ref, role=role)))
    gang = world.state.gang(ref)
    assert gang is not None
    demand = PodSetRequest.of_gang(gang, pods)
    return demand, PodSet(gang, demand).pods


def test_equal_requests_make_equal_demands(world: World) -> None:
    """What a gang asks of the topology is part of its demand; where order decides nothing it is left out."""
    rack = TopologyTerms(required="rack")
    one, _ = _demand(world, rack, ["worker", "ps"], 2)
    other, _ = _demand(world, rack, ["ps", "worker"], 2)
    assert one == other
    assert (one.topology.required, one.sequence) == ("rack", ())
    assert one != _demand(world, TopologyTerms(), ["worker", "ps"], 2)[0]


def test_order_and_roles_are_part_of_a_demand_where_they_decide(world: World) -> None:
    """Slices cut the members in their order, and role groups tell roles apart."""
    sliced = TopologyTerms(slices=(Slice(2, "rack"),))
    one, pods = _demand(world, sliced, ["worker", "ps", "ps"], 3)
    assert [(role, count) for role, _, count in one.sequence] == [("worker", 1), ("ps", 2)]
    assert [pod.role for pod in pods] == ["worker", "ps", "ps"]
    assert one != _demand(world, sliced, ["ps", "worker", "ps"], 3)[0]
    grouped = TopologyTerms(role_groups=(RoleGroup(PAIR, "rack"),))
    assert _demand(world, grouped, ["worker"] * 2, 2)[0] != _demand(world, grouped, ["leader", "worker"], 2)[0]


ROLES = st.sampled_from(["leader", "ps", "worker"])


@given(
    roles=st.lists(ROLES, min_size=1, max_size=7),
    minimums=st.dictionaries(ROLES, st.integers(1, 3), max_size=3),
    min_member=st.integers(1, 6),
    nodes=st.integers(0, 7),
    order=st.randoms(use_true_random=False),
)
def test_nobody_is_let_go_before_every_minimum_is_there(
    roles: list[str], minimums: dict[str, int], min_member: int, nodes: int, order: Any
) -> None:
    """P1 with roles: in whatever order members arrive, those that are let go make up all minimums at once."""
    world = World()
    world.nodes(nodes)
    job = team(world, [(role, {}) for role in roles], min_member, **minimums)
    arriving = [index for index, pod in enumerate(job.pods) if pod.name in job.reserved]
    core = Counter(job.pods[index].role for index in arriving)
    needed = max(min_member, sum(minimums.values()))
    assert not arriving or (core.total() >= needed and all(core[role] >= least for role, least in minimums.items()))
    order.shuffle(arriving)
    there: Counter[str] = Counter()
    gone: set[str] = set()
    for index in arriving:
        job.bind(index)
        there[job.pods[index].role] += 1
        gone.update(world.effects().released)
        enough = there.total() >= needed and all(there[role] >= least for role, least in minimums.items())
        assert len(gone) == (there.total() if enough else 0)
    world.check_promises()


def test_too_many_roles_are_refused_with_a_reason() -> None:
    """Each event of each pod would ask for all of them; the gang says how many it may have, and holds nothing."""
    world = World()
    world.nodes(4)
    minimums = {f"role-{number}": 1 for number in range(20_000)}
    job = team(world, [("role-0", {}), ("role-1", {})], **minimums)
    assert job.reserved == {}
    assert job.wait is not None
    assert job.wait.message == (
        "PodGroup default/team is invalid: spec: 20000 roles have a minimum of their own; a gang may have 64 such roles"
    )
    assert job.gang.role_minimums == {}


def test_as_many_roles_as_are_allowed_start_together() -> None:
    """The last one that is allowed counts as the first does."""
    world = World()
    world.nodes(64)
    roles = [f"role-{number}" for number in range(64)]
    job = team(world, plain(**dict.fromkeys(roles, 1)), **dict.fromkeys(roles, 1))
    assert len(job.reserved) == 64
