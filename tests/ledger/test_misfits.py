"""Members that are refused on their planned node, and who changes places with them."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.ledger.misfits import Misfits
from extender.objects.keys import Options
from extender.objects.topology import RoleGroup, Slice, TopologyTerms
from tests.builders import shape
from tests.worlds import Job, World

NODES = ("node-0", "node-1", "node-2")


@pytest.fixture
def misfits() -> Misfits:
    """Return an empty memory."""
    return Misfits()


def arranged(misfits: Misfits, job: Job) -> list[str]:
    """Return the nodes of the members, in their order, for whom the plan has one node after the other."""
    pods = {pod.uid: pod for pod in job.pods}
    places = misfits.arrange(job.gang, pods, dict(zip(pods, NODES, strict=False)))
    return [places[pod.uid] for pod in job.pods]


def test_a_plan_is_as_it_was_if_nothing_was_refused(misfits: Misfits, world: World) -> None:
    """Who was refused nowhere keeps the place that the plan gives it."""
    assert arranged(misfits, world.gang("a", 3)) == list(NODES)


def test_a_member_that_was_refused_changes_places(misfits: Misfits, world: World) -> None:
    """It gets the place of the first that may take its own, and that it may take."""
    job = world.gang("a", 3)
    misfits.add(job.gang.uid, job.pods[0].uid, "node-0")
    assert arranged(misfits, job) == ["node-1", "node-0", "node-2"]
    misfits.add(job.gang.uid, job.pods[1].uid, "node-0")
    assert arranged(misfits, job) == ["node-2", "node-1", "node-0"]


def test_a_member_that_no_other_can_help_stays(misfits: Misfits, world: World) -> None:
    """Where all were refused on a node, one of them has it still: what is remembered keeps a gang from nothing."""
    job = world.gang("a", 3)
    for pod in job.pods:
        misfits.add(job.gang.uid, pod.uid, "node-0")
    assert arranged(misfits, job) == list(NODES)


def test_members_that_ask_for_something_else_do_not_change(misfits: Misfits, world: World) -> None:
    """A place is good for members of one shape."""
    job = world.gang("a", 2)
    job.see(1, shape=shape(4))
    misfits.add(job.gang.uid, job.pods[0].uid, "node-0")
    assert arranged(misfits, job) == ["node-0", "node-1"]


def test_refusals_are_the_gang_s_and_end_with_it(misfits: Misfits, world: World) -> None:
    """What is remembered of one gang is nothing to another, nor to the next of its UID."""
    job, other = world.gang("a", 2), world.gang("b", 2)
    misfits.add(job.gang.uid, job.pods[0].uid, "node-0")
    assert arranged(misfits, other) == ["node-0", "node-1"]
    misfits.forget(job.gang.uid)
    assert arranged(misfits, job) == ["node-0", "node-1"]


def test_the_oldest_refusals_are_forgotten(misfits: Misfits, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded for each gang."""
    monkeypatch.setattr(Misfits, "REFUSALS", 1)
    job = world.gang("a", 2)
    misfits.add(job.gang.uid, job.pods[0].uid, "node-0")
    misfits.add(job.gang.uid, job.pods[1].uid, "node-5")
    assert arranged(misfits, job) == ["node-0", "node-1"]


def test_members_that_are_counted_off_in_slices_keep_their_places(misfits: Misfits, world: World) -> None:
    """Their numbers say who belongs together."""
    sliced = Options(topology=TopologyTerms(slices=(Slice(2, "node"),)))
    job = world.gang("a", 2, gpus=4, group={"options": sliced})
    misfits.add(job.gang.uid, job.pods[0].uid, "node-0")
    assert arranged(misfits, job) == ["node-0", "node-1"]


def test_roles_that_must_be_together_change_places_among_themselves(misfits: Misfits, world: World) -> None:
    """A place is good for another role of one shape, unless roles are asked to share a domain."""
    grouped = Options(peers=TopologyTerms(role_groups=(RoleGroup(frozenset({"one", "other"}), "node"),)))
    free, kept = world.gang("a", 3, role="one"), world.gang("b", 3, role="one", group={"options": grouped})
    for job in (free, kept):
        job.see(1, role="other")
        misfits.add(job.gang.uid, job.pods[0].uid, "node-0")
    assert arranged(misfits, free) == ["node-1", "node-0", "node-2"]
    assert arranged(misfits, kept) == ["node-2", "node-1", "node-0"]


def test_another_arrangement_is_tried_once_for_what_is_new(misfits: Misfits, world: World) -> None:
    """A refusal that was known before is no reason to try again."""
    job = world.gang("a", 2)
    for node, news in (("node-0", True), ("node-0", False), ("node-1", True)):
        misfits.add(job.gang.uid, job.pods[0].uid, node)
        assert [misfits.may_do_better(job.gang), misfits.may_do_better(job.gang)] == [news, False]
    misfits.add(job.gang.uid, job.pods[1].uid, "node-0")
    assert not misfits.may_do_better(job.gang)  # no other is left to have that node


def test_members_of_which_each_has_one_node_find_them(world: World) -> None:
    """kube-scheduler offers each its own node alone, and that only while no other is nominated there."""
    names = world.nodes(4)
    job = world.gang("a", 4)
    own = dict(zip(sorted(job.reserved), names[1:] + names[:1], strict=True))
    for _ in range(16):
        if job.reserved == own:
            break
        for pod in job.pods:
            place = job.reserved.get(pod.name)
            if place is not None and place != own[pod.name]:
                # Nothing is offered but a node that is none of its plan's: its own is taken by who is nominated there.
                world.filter(replace(pod, nominated_node=place), ["elsewhere"])
                world.judge()
    assert job.reserved == own


@given(st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3))), st.lists(st.integers(0, 3), min_size=4, max_size=4))
def test_as_many_have_places_as_in_any_arrangement(pairs: set[tuple[int, int]], planned: list[int]) -> None:
    """Beside every order of the places; each place is given once."""
    misfits, world = Misfits(), World()
    job = world.gang("a", 4)
    uids, nodes = [pod.uid for pod in job.pods], [f"node-{number}" for number in planned]
    refused = {(uids[member], f"node-{number}") for member, number in pairs}
    for uid, node in refused:
        misfits.add(job.gang.uid, uid, node)
    places = misfits.arrange(job.gang, {pod.uid: pod for pod in job.pods}, dict(zip(uids, nodes, strict=True)))
    best = max(sum(each not in refused for each in zip(uids, order, strict=True)) for order in permutations(nodes))
    assert sorted(places.values()) == sorted(nodes)
    assert sum(each not in refused for each in places.items()) == best
