"""Whose word counts where a PodGroup and its members say different things."""

from __future__ import annotations

from extender.cluster import membership
from extender.cluster.gangs import member_order
from extender.cluster.membership import Voice
from extender.objects.branches import of_roles
from extender.objects.keys import BelowMinimum, Options, Packing
from extender.objects.pod import Pod
from extender.objects.podgroup import PodGroup
from extender.objects.topology import RoleGroup, Slice, TopologyRequest, TopologyTerms
from tests.cluster.conftest import GPU, group_ref, pod, shape

RACK, BLOCK = TopologyTerms(required="rack"), TopologyTerms(required="block")
WORKER = frozenset({"worker"})


def heard(*members: Pod) -> tuple[Voice, ...]:
    """Return what members say, as their gang hears it."""
    said = {Voice(member.role, member.options) for member in members if member.options.speaks_for_gang}
    return membership.in_order(said, members, member_order)


def speaker(name: str, role: str = "", **options: object) -> Pod:
    """Return a member with options."""
    return pod(name, role=role, options=Options(**options))  # type: ignore[arg-type]  # fields of Options


def group(field: tuple[tuple[str, int], ...] = (), **options: object) -> PodGroup:
    """Return a PodGroup with options, and minimums of roles in a field of its own."""
    said = Options(**options)  # type: ignore[arg-type]  # fields of Options
    return PodGroup(group_ref(), "uid", role_minimums=field, options=said)


def test_leading_roles_speak_first() -> None:
    """Of several roles the one whose members come first has the first word."""
    members = speaker("a", "ps", topology=RACK), speaker("z", "launcher", topology=BLOCK), pod("b", role="leader")
    assert [voice.role for voice in heard(*members)] == ["launcher", "ps"]


def test_members_of_one_role_speak_in_member_order() -> None:
    """Where they disagree, the first member that says anything is heard first; what is said twice is heard once."""
    members = [speaker(f"w-{number}", packing=packing) for number, packing in enumerate([None, *Packing, *Packing])]
    expected = [Voice("", Options(packing=packing)) for packing in Packing]
    assert list(heard(*members)) == list(heard(*reversed(members))) == expected


def test_who_says_nothing_is_not_heard() -> None:
    """Silent members cost nothing."""
    assert heard(pod("a"), speaker("b", min_member=2)) == ()


def test_packing_is_the_pod_groups_then_the_first_members() -> None:
    """Nobody's word is binpack."""
    said = heard(speaker("a", packing=Packing.SPREAD))
    assert membership.packing(group(packing=Packing.BINPACK), said, ()) is Packing.BINPACK
    assert membership.packing(group(), said, ()) is Packing.SPREAD
    assert membership.packing(None, said, ()) is Packing.SPREAD
    assert membership.packing(None, (), ()) is Packing.BINPACK


def test_packing_may_be_that_of_a_resource() -> None:
    """Of the resources that are named, the first that any member asks for decides; else the next word counts."""
    described = group(packings=((GPU, Packing.SPREAD), ("memory", Packing.BINPACK)))
    said = heard(speaker("a", packings=(("cpu", Packing.SPREAD),)))
    assert membership.packing(described, (), [shape(), shape(8)]) is Packing.SPREAD
    assert membership.packing(described, (), [shape()]) is Packing.BINPACK
    assert membership.packing(described, said, [shape()]) is Packing.SPREAD


def test_role_minimums_are_the_pod_groups_annotation_then_the_members_then_its_fields() -> None:
    """Muster's own key counts before Volcano's field, wherever it stands; the first word counts as a whole."""
    field, own, members = (("a", 1),), (("b", 2), ("c", 3)), (("d", 4),)
    said = heard(speaker("m", role_minimums=members))
    assert membership.tree(group(field, role_minimums=own), said) == of_roles(own)
    assert membership.tree(group(field), said) == of_roles(members)
    assert membership.tree(group(field), ()) == of_roles(field)
    assert membership.tree(None, said) == of_roles(members)
    assert membership.tree(None, ()) is None


def test_own_keys_count_before_other_schedulers() -> None:
    """A member's own annotation is before the PodGroup's Volcano field; the rest of that field still counts."""
    described = group(peers=TopologyTerms(required="tier-2", preferred="tier-1"))
    said = heard(speaker("a", topology=RACK, peers=TopologyTerms(slices=(Slice(2, "node"),))))
    request = TopologyRequest(required="rack", preferred="tier-1", slices=(Slice(2, "node"),))
    assert membership.topology(described, said, frozenset({""})) == request
    assert membership.topology(group(topology=BLOCK), said, frozenset({""})).required == "block"
    assert membership.topology(None, said, frozenset({""})).required == "rack"


def test_sets_of_pods_are_those_of_a_role() -> None:
    """What Kueue's workers ask for is not asked of the launcher, which says nothing."""
    said = heard(speaker("w-0", "worker", peers=TopologyTerms(required="rack", podset="")))
    roles = frozenset({"launcher", "worker"})
    assert membership.topology(group(), said, roles) == TopologyRequest(role_groups=(RoleGroup(WORKER, "rack"),))
    assert membership.topology(group(), said, WORKER) == TopologyRequest(required="rack")


def test_nobodys_word_asks_for_nothing() -> None:
    """A gang without words is a plain request."""
    assert membership.topology(group(), (), WORKER) == membership.topology(None, (), WORKER) == TopologyRequest()


def test_own_queue_and_that_of_other_schedulers_are_told_apart() -> None:
    """Of Muster's key and of what other schedulers' words say the PodGroup's counts first, then the members'."""
    own, peer = heard(speaker("a", queue="own")), heard(speaker("a", peer_queue="kueue"))
    assert membership.queue(group(queue="object", peer_queue="volcano"), own) == "object"
    assert membership.queue(group(peer_queue="volcano"), own) == "own"
    assert membership.queue(group(peer_queue="volcano"), peer) == ""
    assert membership.peer_queue(group(peer_queue="volcano"), peer) == "volcano"
    assert membership.peer_queue(group(), peer) == "kueue"
    assert membership.peer_queue(None, peer) == "kueue"
    assert membership.peer_queue(None, ()) == membership.queue(None, ()) == ""


def test_who_shares_says_how() -> None:
    """Durations and what becomes of a rest: the PodGroup's word, the first member's, then the default."""
    said = heard(speaker("a", expected_duration=60.0, checkpoint_interval=6.0, below_minimum=BelowMinimum.REPAIR))
    stated = group(expected_duration=30.0, checkpoint_interval=3.0, below_minimum=BelowMinimum.IGNORE)
    for described, duration, rest in (
        (stated, 30.0, BelowMinimum.IGNORE),
        (group(), 60.0, BelowMinimum.REPAIR),
        (None, 60.0, BelowMinimum.REPAIR),
    ):
        assert membership.expected_duration(described, said) == duration
        assert membership.checkpoint_interval(described, said) == duration / 10
        assert membership.below_minimum(described, said) is rest
    assert membership.expected_duration(group(), ()) is None
    assert membership.checkpoint_interval(group(), ()) is None
    assert membership.below_minimum(None, ()) is BelowMinimum.EVICT


def test_who_may_be_evicted_says_so_for_itself() -> None:
    """The PodGroup's word counts for all members; without one that of each; who says nothing may be."""
    kept, free, silent = (speaker("a", preemptible=word).options for word in (False, True, None))
    for described, expected in (
        (group(preemptible=True), (True, True, True)),
        (group(preemptible=False), (False, False, False)),
        (group(), (False, True, True)),
        (None, (False, True, True)),
    ):
        assert tuple(membership.preemptible(described, each) for each in (kept, free, silent)) == expected
