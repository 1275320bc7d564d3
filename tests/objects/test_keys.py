"""Muster's own labels and annotations mean something or are complained about."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.objects.keys import (
    BELOW_MINIMUM,
    CHECKPOINT_INTERVAL,
    EXPECTED_DURATION,
    GANG,
    MIN_MEMBER,
    OBJECTIVE,
    PLACEMENT,
    PREEMPTIBLE,
    PREFIX,
    QUEUE,
    ROLE,
    ROLE_MINIMUMS,
    TOPOLOGY_PREFERRED,
    TOPOLOGY_REQUIRED,
    TOPOLOGY_ROLE_GROUPS,
    TOPOLOGY_SLICE,
    BelowMinimum,
    Options,
    Packing,
    parse_slices,
    read_options,
)
from extender.objects.reason import Problem, quoted
from extender.objects.topology import SILENT, Objective, RoleGroup, Slice, TopologyTerms
from tests.counting import calls


def test_options_are_read() -> None:
    """Minimum and placement come from annotations; gang and role are labels that others read."""
    options = read_options({GANG: "train", ROLE: "worker"}, {MIN_MEMBER: "4", PLACEMENT: "spread"})
    assert options == Options(min_member=4, packing=Packing.SPREAD)


def test_an_object_without_options_says_nothing() -> None:
    """Keys of others are no business of Muster's."""
    assert read_options({"app": "x", "kueue.x-k8s.io/queue-name": "y"}, {"notmuster.dev/gang": "z"}) == Options()


@pytest.mark.parametrize("text", ["0", "-1", "four", "", "4.0", "1_0", "+4", "2147483648", "9" * 5000])
def test_a_bad_minimum_is_a_problem(text: str) -> None:
    """A minimum is a whole number from 1 to 2^31 - 1, or it is ignored with a problem."""
    options = read_options({}, {MIN_MEMBER: text})
    field = "metadata.annotations[muster.dev/min-member]"
    assert options == Options(problems=(Problem(field, f"{quoted(text)} is not a whole number of at least 1"),))


def test_a_minimum_is_within_the_apis_bounds() -> None:
    """A minimum may be as small as one and as large as the field of a PodGroup."""
    assert read_options({}, {MIN_MEMBER: "1"}) == Options(min_member=1)
    assert read_options({}, {MIN_MEMBER: "2147483647"}).min_member == 2**31 - 1


@pytest.mark.parametrize(
    "text", ["", "Binpack", "BINPACK", "pack", "cpu=pack", "cpu", "=spread", "cpu=spread,cpu=spread"]
)
def test_a_bad_placement_is_a_problem(text: str) -> None:
    """A placement that does not exist is ignored, with a problem that names those that do."""
    options = read_options({}, {PLACEMENT: text})
    field = "metadata.annotations[muster.dev/placement]"
    message = f"{text!r} is not binpack or spread, or such as nvidia.com/gpu=binpack,cpu=spread"
    assert options == Options(problems=(Problem(field, message),))


def test_a_placement_may_be_that_of_resources() -> None:
    """Whoever asks for the first resource that is named spreads as it says; what says nothing of theirs is silent."""
    options = read_options({}, {PLACEMENT: "nvidia.com/gpu=binpack, cpu=spread"})
    assert options == Options(packings=(("nvidia.com/gpu", Packing.BINPACK), ("cpu", Packing.SPREAD)))
    assert options.packing_of({"cpu", "nvidia.com/gpu"}) is Packing.BINPACK
    assert options.packing_of({"cpu"}) is Packing.SPREAD
    assert options.packing_of({"memory"}) is None
    assert Options(packing=Packing.SPREAD).packing_of({"cpu"}) is Packing.SPREAD
    assert options.speaks_for_gang


def test_an_unknown_key_is_a_problem() -> None:
    """Every key under muster.dev/ that means nothing where it stands is named, in order, with those that would."""
    options = read_options({"muster.dev/rol": "x", PLACEMENT: "spread"}, {GANG: "y"})
    labels = (
        "unknown key; known here: muster.dev/gang, muster.dev/group, muster.dev/queue, muster.dev/role, muster.dev/user"
    )
    annotations = (
        "unknown key; known here: muster.dev/below-minimum, muster.dev/checkpoint-interval, "
        "muster.dev/eviction-acknowledged, muster.dev/eviction-notice, muster.dev/expected-duration, muster.dev/hold, "
        "muster.dev/last-checkpoint, muster.dev/max-member, muster.dev/max-runtime, muster.dev/min-member, "
        "muster.dev/objective, muster.dev/placement, muster.dev/preemptible, muster.dev/queue, "
        "muster.dev/role-minimums, muster.dev/topology-preferred, muster.dev/topology-required, "
        "muster.dev/topology-role-groups, muster.dev/topology-slice, muster.dev/tree"
    )
    assert options.problems == (
        Problem("metadata.labels[muster.dev/placement]", labels),
        Problem("metadata.labels[muster.dev/rol]", labels),
        Problem("metadata.annotations[muster.dev/gang]", annotations),
    )


def test_topology_is_read() -> None:
    """Required and preferred level, slices, roles that share a domain and the objective may stand together."""
    annotations = {
        TOPOLOGY_REQUIRED: "block",
        TOPOLOGY_PREFERRED: "topology.example.com/rack",
        TOPOLOGY_SLICE: "rack=4",
        TOPOLOGY_ROLE_GROUPS: "leader+worker=rack",
        OBJECTIVE: "alltoall",
    }
    terms = TopologyTerms(
        required="block",
        preferred="topology.example.com/rack",
        slices=(Slice(4, "rack"),),
        role_groups=(RoleGroup(frozenset({"leader", "worker"}), "rack"),),
        objective=Objective.ALLTOALL,
    )
    assert read_options({}, annotations) == Options(topology=terms)


@pytest.mark.parametrize(
    ("text", "slices"),
    [
        ("rack=4", [(4, "rack")]),
        ("rack=4,node=2", [(4, "rack"), (2, "node")]),
        (" node=2 , rack=4 ", [(4, "rack"), (2, "node")]),
        ("block=16,rack=8,kubernetes.io/hostname=2", [(16, "block"), (8, "rack"), (2, "kubernetes.io/hostname")]),
    ],
)
def test_slices_are_outermost_first(text: str, slices: list[tuple[int, str]]) -> None:
    """Layers of slices are read in any order, and the larger go around the smaller."""
    assert read_options({}, {TOPOLOGY_SLICE: text}).topology.slices == tuple(Slice(*each) for each in slices)


@pytest.mark.parametrize(
    "text",
    [
        *("", "rack", "rack=", "=4", "rack=0", "rack=-4", "rack=4.0", "rack=4,", "rack 4=2", "rack=4;node=2"),
        *("rack=4,node=3", "rack=4,node=4", "rack=4,rack=2", "block=12,rack=4,node=3"),
    ],
)
def test_slices_that_cannot_be_are_a_problem(text: str) -> None:
    """Each layer has a level of its own and a size that divides the one around it."""
    options = read_options({}, {TOPOLOGY_SLICE: text})
    message = f"{text!r} is not levels with sizes that divide each other, such as rack=4,node=2"
    assert options.problems == (Problem(f"metadata.annotations[{TOPOLOGY_SLICE}]", message),)
    assert options.topology.slices == ()


@given(st.lists(st.tuples(st.sampled_from(["block", "rack", "node"]), st.integers(1, 24)), max_size=4))
def test_slices_nest(sizes: list[tuple[str, int | None]]) -> None:
    """Whatever is made into slices keeps its levels and sizes, and each size is a true divisor of the one before it."""
    slices = parse_slices(sizes)
    assert not slices or sorted(sizes) == sorted((each.level, each.size) for each in slices)
    chain = [each.size for each in slices]
    assert all(outer > inner and outer % inner == 0 for outer, inner in pairwise(chain))


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("leader+worker=rack", [({"leader", "worker"}, "rack")]),
        ("leader + worker = rack, ps=node", [({"leader", "worker"}, "rack"), ({"ps"}, "node")]),
    ],
)
def test_roles_that_share_a_domain_are_read(text: str, groups: list[tuple[set[str], str]]) -> None:
    """Each group names roles and the level of their domain."""
    read = read_options({}, {TOPOLOGY_ROLE_GROUPS: text}).topology.role_groups
    assert read == tuple(RoleGroup(frozenset(roles), level) for roles, level in groups)


@pytest.mark.parametrize(
    "text", ["", "leader", "leader=", "=rack", "leader+=rack", "a=rack,b", "a b=rack", "a=rack rack"]
)
def test_bad_role_groups_are_a_problem(text: str) -> None:
    """A group without roles, without a level or with something that is neither is ignored, with a problem."""
    options = read_options({}, {TOPOLOGY_ROLE_GROUPS: text})
    message = f"{text!r} is not roles with a level, such as leader+worker=rack"
    assert options.problems == (Problem(f"metadata.annotations[{TOPOLOGY_ROLE_GROUPS}]", message),)
    assert options.topology.role_groups == ()


def test_role_minimums_are_read() -> None:
    """Each role has its own minimum, in order of the roles."""
    assert read_options({}, {ROLE_MINIMUMS: "worker=4, leader=1"}).role_minimums == (("leader", 1), ("worker", 4))


@pytest.mark.parametrize("text", ["", "worker", "worker=", "worker=0", "worker=-1", "=1", "worker=2147483648", "a b=1"])
def test_bad_role_minimums_are_a_problem(text: str) -> None:
    """A minimum that is no number of pods, or of no role, is ignored, with a problem."""
    options = read_options({}, {ROLE_MINIMUMS: text})
    message = f"{text!r} is not at most 64 roles with whole numbers of at least 1, such as leader=1,worker=4"
    assert options == Options(problems=(Problem(f"metadata.annotations[{ROLE_MINIMUMS}]", message),))


@pytest.mark.parametrize("key", [ROLE_MINIMUMS, TOPOLOGY_ROLE_GROUPS, TOPOLOGY_SLICE, PLACEMENT, TOPOLOGY_REQUIRED])
def test_a_value_too_long_is_not_read(key: str) -> None:
    """What would be read for longer than it takes to write 64 roles is a problem by its length."""
    sound = {ROLE_MINIMUMS: "a=1", TOPOLOGY_ROLE_GROUPS: "a+b=rack", TOPOLOGY_SLICE: "rack=2", PLACEMENT: "spread"}
    text = sound.get(key, "rack")
    assert read_options({}, {key: text}).problems == ()
    (problem,) = read_options({}, {key: text + "," * 9_000}).problems
    assert len(str(problem)) < 300


def test_reading_roles_costs_no_more_the_more_there_are() -> None:
    """Of thousands of roles, which a PodGroup may name, none is read: each of its events would take 30 ms."""

    def work(roles: int) -> int:
        text = ",".join(f"x{role}=1" for role in range(roles))
        return calls(lambda: read_options({}, {ROLE_MINIMUMS: text}))

    assert work(20_000) <= work(65) <= work(64)


def test_two_minimums_for_one_role_are_a_problem() -> None:
    """Which of two counts would be a guess."""
    assert read_options({}, {ROLE_MINIMUMS: "worker=4,worker=5"}).role_minimums == ()


@pytest.mark.parametrize("key", [TOPOLOGY_REQUIRED, TOPOLOGY_PREFERRED])
@pytest.mark.parametrize("text", ["", "two racks", "-rack", "rack,block", "rack=4", "r" * 317])
def test_a_bad_level_is_a_problem(key: str, text: str) -> None:
    """What cannot be the name of a level or a label key is ignored, with a problem."""
    options = read_options({}, {key: text})
    message = f"{quoted(text)} is not the name of a level or a node label key"
    assert options.problems == (Problem(f"metadata.annotations[{key}]", message),)
    assert (options.topology.required, options.topology.preferred) == ("", "")


def test_a_bad_objective_is_a_problem() -> None:
    """An objective that does not exist is ignored, with a problem that names those that do."""
    message = "'allgather' is not allreduce, alltoall or none"
    problem = Problem(f"metadata.annotations[{OBJECTIVE}]", message)
    assert read_options({}, {OBJECTIVE: "allgather"}).problems == (problem,)


def test_options_compare_by_content() -> None:
    """Equal options have equal hashes, and other schedulers' words are part of them."""
    plain = Options(min_member=2)
    assert plain == Options(min_member=2)
    assert len({plain, Options(min_member=2), Options(min_member=3)}) == 2
    assert plain.with_peers(SILENT, ()) is plain
    assert plain.with_peers(TopologyTerms(required="rack"), ()) == Options(2, peers=TopologyTerms(required="rack"))


def test_who_asks_for_nothing_is_silent() -> None:
    """Only what members of one gang could disagree about makes them speak for it; minMember has its own rule."""
    assert not Options(min_member=2).speaks_for_gang
    spoken = [
        Options(packing=Packing.SPREAD),
        Options(role_minimums=(("a", 1),)),
        Options(topology=TopologyTerms(required="rack")),
        Options(peers=TopologyTerms(required="rack")),
    ]
    assert all(options.speaks_for_gang for options in spoken)


OWN_KEYS = st.sampled_from([GANG, ROLE, MIN_MEMBER, PLACEMENT, ROLE_MINIMUMS, TOPOLOGY_SLICE, OBJECTIVE]) | st.text(
    max_size=5
).map(lambda text: PREFIX + text)


@given(
    labels=st.dictionaries(OWN_KEYS | st.text(max_size=5), st.text(max_size=5)),
    annotations=st.dictionaries(OWN_KEYS | st.text(max_size=5), st.text(max_size=5) | st.integers().map(str)),
)
def test_no_own_key_is_met_with_silence(labels: dict[str, str], annotations: dict[str, str]) -> None:
    """Whatever is written under muster.dev/ is either taken or a problem."""
    options = read_options(labels, annotations)
    own = sum(key.startswith(PREFIX) for key in (*labels, *annotations))
    taken: list[object] = [
        options.min_member,
        options.packing or options.packings or None,
        labels.get(GANG),
        labels.get(ROLE),
    ]
    taken += [options.role_minimums or None, options.topology.slices or None, options.topology.objective]
    assert len(options.problems) == own - sum(value is not None for value in taken)


def test_sharing_is_read() -> None:
    """Queue, durations, whether it may be preempted, and what becomes of the rest of a gang."""
    annotations = {EXPECTED_DURATION: "1h30m", PREEMPTIBLE: "false", BELOW_MINIMUM: "repair"}
    options = read_options({QUEUE: "research"}, annotations | {CHECKPOINT_INTERVAL: "20m"})
    assert options == Options(
        queue="research",
        expected_duration=5400.0,
        preemptible=False,
        below_minimum=BelowMinimum.REPAIR,
        checkpoint_interval=1200.0,
    )
    assert options.speaks_for_gang
    assert hash(options) != hash(Options())


@pytest.mark.parametrize(
    ("text", "seconds"), [("90m", 5400.0), ("90", 90.0), ("0.5", 0.5), ("1.5h", 5400.0), ("250ms", 0.25)]
)
def test_a_duration_is_gos_or_seconds(text: str, seconds: float) -> None:
    """How long a gang runs may be said as Go writes durations, or in seconds."""
    assert read_options({}, {EXPECTED_DURATION: text}).expected_duration == seconds


@pytest.mark.parametrize("text", ["", "0", "0s", "-5m", "90 m", "soon", "1e3", "99999999999", "9999999h", "9" * 400])
def test_a_bad_duration_is_a_problem(text: str) -> None:
    """What is no duration, or none that can be waited for, counts as unsaid."""
    problem = f"{quoted(text)} is not a duration such as 90m or 1h30m, or a number of seconds"
    field = "metadata.annotations[muster.dev/expected-duration]"
    assert read_options({}, {EXPECTED_DURATION: text}) == Options(problems=(Problem(field, problem),))


def test_bad_choices_are_problems() -> None:
    """Whoever writes something else than the words that there are is told those words."""
    options = read_options({}, {PREEMPTIBLE: "no", BELOW_MINIMUM: "kill"})
    assert options == Options(
        problems=(
            Problem("metadata.annotations[muster.dev/preemptible]", "'no' is not true or false"),
            Problem("metadata.annotations[muster.dev/below-minimum]", "'kill' is not evict, repair or ignore"),
        )
    )


def test_the_queue_may_stand_in_an_annotation() -> None:
    """A label counts before an annotation that says otherwise, which is a problem; one that says the same is none."""
    assert read_options({}, {QUEUE: "research"}) == Options(queue="research")
    assert read_options({QUEUE: "research"}, {QUEUE: "research"}) == Options(queue="research")
    problem = Problem(
        "metadata.annotations[muster.dev/queue]", "contradicts metadata.labels[muster.dev/queue], which counts"
    )
    assert read_options({QUEUE: "research"}, {QUEUE: "other"}) == Options(queue="research", problems=(problem,))


@pytest.mark.parametrize("name", ["Research", "a_b", "-a", "a.", "a" * 254])
def test_a_name_that_no_queue_can_have_stays_and_is_a_problem(name: str) -> None:
    """It is not forgotten, or the gang would run on the quota of another queue."""
    options = read_options({}, {QUEUE: name})
    assert options.queue == name
    (problem,) = options.problems
    assert problem.message == f"{quoted(name)} cannot be the name of a Queue: lower-case letters, digits, - and ."


def test_a_pod_alone_keeps_apart_what_its_own_queue_is_and_what_others_call_one() -> None:
    """Another scheduler's word counts only where there is such a Queue, also for a pod without gang."""
    alone = Options(queue="b", peer_queue="a").alone({})
    assert (alone.queue, alone.peer_queue) == ("b", "a")
