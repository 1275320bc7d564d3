"""Counting members as they come and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from extender.cluster.gangs import Gang
from extender.cluster.membership import Census, Tally
from extender.cluster.model import GangRegistry
from extender.objects.keys import Options, Packing
from extender.objects.pod import Phase, Pod, Shape
from extender.objects.podgroup import GroupRef
from tests.cluster.conftest import group_ref, pod
from tests.examples import share

JOB = group_ref()
SHAPES = (Shape((("cpu", 1000),)), Shape((("cpu", 2000),)))
MEMBER = st.fixed_dictionaries(
    {
        "name": st.sampled_from("abc"),
        "shape": st.sampled_from(SHAPES),
        "node_name": st.sampled_from(["", "n"]),
        "phase": st.sampled_from(Phase),
        "gated": st.booleans(),
        "deleting": st.booleans(),
        "priority": st.integers(0, 1),
        "role": st.sampled_from(["", "worker"]),
        "options": st.sampled_from([Options(), Options(min_member=2), Options(packing=Packing.SPREAD)]),
    }
)
STEP = st.one_of(
    st.tuples(st.just("join"), MEMBER),
    st.tuples(st.sampled_from(["leave", "promise", "withdraw"]), st.sampled_from("abc")),
)


def _recount(gang: Gang, promised: set[str]) -> Tally:
    """Count the members of a gang from nothing."""
    tally = Tally()
    for member in gang.members.values():
        tally.add(member)
        if member.uid in promised:
            tally.place(member)
    return tally


@share(2)
@given(st.lists(STEP, max_size=20))
def test_counts_are_those_of_the_members_that_there_are(steps: list[tuple[str, Any]]) -> None:
    """Whatever came, changed, went, was promised a node or lost it: the counts are as if made anew."""
    gang, promised = Gang(JOB, uid="life", first_seen=0.0), set[str]()
    for what, about in steps:
        if what == "join":
            gang.join(pod(**about, group=JOB))
        elif what == "leave":
            gang.leave(_uid(about))
            promised.discard(_uid(about))
        elif what == "promise":
            gang.promise([_uid(about)])
            promised |= {_uid(about)} & gang.members.keys()
        else:
            gang.withdraw(_uid(about))
            promised.discard(_uid(about))
        fresh = _recount(gang, promised)
        assert dict(gang.kinds) == fresh.kinds
        assert (dict(gang.held), dict(gang.wanted)) == (fresh.held, fresh.wanted)
        assert dict(gang.gated) == fresh.gated
        assert sum(gang.gated.values()) == gang.census().gated
        assert dict(gang.wanted_roles) == fresh.wanted_roles == Counter(member.role for member in gang.unplaced())
        spread = {member.role for member in gang.members.values() if member.options.packing is not None}
        assert {voice.role for voice in fresh.voices} == spread
        assert gang.packing is (Packing.SPREAD if spread else Packing.BINPACK)
        assert {member.uid for member in gang.unplaced()} == fresh.unplaced.keys()
        assert gang.unplaced_count == len(fresh.unplaced)


def _uid(name: str) -> str:
    return pod(name).uid


def _registry(*members: Pod) -> tuple[GangRegistry, GroupRef]:
    registry = GangRegistry()
    for member in members:
        registry.put_pod(member, 0.0)
    registry.changed = {}
    return registry, JOB


def test_a_gang_changes_with_what_happens_to_its_members() -> None:
    """Every event of a member, and every promise to one, is taken in as a change of its gang."""
    member = pod("a", group=JOB)
    registry, ref = _registry(member, pod("b", group=JOB))
    events: list[Callable[[], object]] = [
        lambda: registry.put_pod(member, 0.0),
        lambda: registry.promise(ref, [member.uid]),
        lambda: registry.withdraw(ref, member.uid),
        lambda: registry.drop_pod(member),
    ]
    for happen in events:
        registry.changed = {}
        happen()
        assert list(registry.changed) == [ref]


def test_gangs_are_found_by_uid_and_by_name() -> None:
    """Single pods have no name that others share; a gang is found as long as its object or a member is there."""
    alone, member = pod("alone"), pod("a", group=JOB)
    registry, ref = _registry(alone, member)
    gang, single = registry.get(ref), registry.get(alone.group)
    assert gang is not None
    assert single is not None
    assert registry.named == {ref: gang}
    assert list(registry.of([single.uid, "gone", gang.uid])) == [single, gang]
    registry.drop_pod(member)
    assert registry.named == {}
    assert list(registry.of([gang.uid])) == []


def test_a_life_that_is_over_does_not_change() -> None:
    """What is remembered of a former life of a gang concerns nobody."""
    registry, ref = _registry(pod("a", group=JOB))
    gang = registry.get(ref)
    assert gang is not None
    registry.touch("another life")
    assert registry.changed == {}
    registry.touch(gang.uid)
    assert list(registry.changed) == [ref]


def test_a_gang_that_went_is_among_those_that_changed() -> None:
    """Its last member's deletion is news, also when everybody else counts as changed."""
    member = pod("a", group=JOB)
    registry, ref = _registry(member)
    gang = registry.get(ref)
    registry.drop_pod(member)
    registry.touch_all()
    assert registry.get(ref) is None
    assert registry.changed == {ref: gang}
    registry.promise(ref, [member.uid])
    registry.withdraw(ref, member.uid)
    assert registry.changed == {ref: gang}


def test_gangs_of_one_pod_that_runs_are_counted_once_for_all() -> None:
    """Tens of thousands of pods that name no group run; what becomes of one concerns no other."""
    first, second = (Gang(group_ref(name), uid=name, first_seen=0.0) for name in "ab")
    for gang in (first, second):
        gang.join(pod("p", node_name="n", phase=Phase.RUNNING))
    assert first.kinds is second.kinds
    first.join(pod("q", node_name="n"))
    first.leave(_uid("p"))
    assert (first.census().running, second.census().running) == (0, 1)
    second.join(pod("p", node_name="n", phase=Phase.SUCCEEDED))
    assert (first.census().bound, second.census().succeeded) == (1, 1)
    second.leave(_uid("p"))
    assert second.census() == Census()
