"""The parts of a gang as people see them: the counts are those by which it is judged, whatever has become of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.admission.events import GroupSeen, PodGone, PodSeen
from extender.cluster.gangs import role_gaps
from extender.explain.documents import PartRow, PartState
from extender.explain.explanation import Inspection, explanation
from extender.explain.views import gang_view, group_status
from extender.objects.branches import Branch
from extender.objects.keys import ROLE, ROLE_MINIMUMS, Options
from extender.objects.pod import Phase
from extender.objects.podgroup import GroupProgress, GroupRef
from extender.objects.reason import Reason
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.objects.sources.volcano import VOLCANO_ANNOTATIONS, decode_volcano_pod_group, read_volcano
from tests.builders import volcano_json, written
from tests.explain.conftest import racked
from tests.explain.hypothetical import asked, objects
from tests.worlds import Job, World


def replica(name: str) -> Branch:
    """Return a replica of one member of role NAME.p and two of NAME.d, in one rack."""
    return Branch(name, 2, (Branch(f"{name}.p", 1), Branch(f"{name}.d", 2)), "rack")


SERVE = Branch("", 2, tuple(map(replica, "abc")), preferred="block")


def serving(world: World, tree: Branch, members: Mapping[str, int], gpus: int = 8) -> Job:
    """Create a gang with so many members of each role, and judge it."""
    job = Job(world, GroupRef(COSCHEDULING, "default", "serve"))
    world.group(job.ref, 1, tree=tree)
    for role, count in members.items():
        for index in range(count):
            job.pods.append(world.pod(f"{role}-{index}", gpus, group=job.ref, role=role))
            world.tell(PodSeen(job.pods[-1]))
    world.judge()
    return job


def parts_of(job: Job) -> PartRow | None:
    """Return the parts of a gang as the API shows them."""
    return explanation(Inspection(job.world.admission, job.world.clock).explain(job.ref)).parts


def inside(part: PartRow) -> Iterator[PartRow]:
    """Iterate over a part and all that it consists of."""
    yield part
    for each in part.parts:
        yield from inside(each)


def told(job: Job) -> dict[str, str]:
    """Return of each part its state, with a * if it is needed, how much of it is bound, what it lacks, and where."""
    whole = parts_of(job)
    assert whole is not None
    return {
        part.name: f"{part.state}{'*' if part.needed else ''} {part.bound}/{part.minimum} -{part.lacks} {part.domain}"
        for part in inside(whole)
    }


def test_each_part_says_how_far_it_is_and_where() -> None:
    """One replica runs but for a pod, one has its places, and there is no room for the third."""
    job = serving(
        racked(2, 4), SERVE, dict.fromkeys(("a.p", "b.p", "c.p"), 1) | dict.fromkeys(("a.d", "b.d", "c.d"), 2)
    )
    for index, pod in enumerate(job.pods):
        if pod.role == "a.p" or pod.name == "a.d-0":
            job.bind(index)
            job.see(index, node_name=job.reserved[pod.name], phase=Phase.RUNNING)
    assert told(job) == {
        "": "reserved* 0/2 -0 b0",
        "a": "reserved* 1/2 -0 r0",
        "a.p": "running* 1/1 -0 r0-2",
        "a.d": "reserved* 1/2 -0 r0",
        "b": "reserved* 0/2 -0 r1",
        "b.p": "reserved* 0/1 -0 r1-2",
        "b.d": "reserved* 0/2 -0 r1",
        "c": "waiting 0/2 -3 None",
        "c.p": "waiting 0/1 -1 None",
        "c.d": "waiting 0/2 -2 None",
    }
    whole = parts_of(job)
    assert whole is not None
    assert [(part.required, part.preferred) for part in (whole, *whole.parts[:1])] == [(None, "block"), ("rack", None)]


def test_each_part_says_why_it_is_not_further() -> None:
    """Members that lack or are gated are the part's own affair; for room all that are needed wait together."""
    world = racked(1, 1)
    job = serving(world, SERVE, {"a.p": 1, "a.d": 2, "b.p": 1, "b.d": 1})
    whole = parts_of(job)
    assert whole is not None
    reasons = {part.name: part.reason for part in inside(whole)}
    assert (reasons[""], reasons["a"], reasons["b.d"], reasons["b.p"]) == (
        Reason.ROLE_MEMBERS_MISSING,
        None,
        Reason.ROLE_MEMBERS_MISSING,
        None,
    )
    world.tell(PodSeen(world.pod("b.d-1", 8, group=job.ref, role="b.d", gated=True, gates=("held",))))
    world.judge()
    whole = parts_of(job)
    assert whole is not None
    assert {part.name: part.reason for part in inside(whole)}["b.d"] == Reason.ROLE_MEMBERS_GATED
    full = serving(racked(1, 1), SERVE, {"a.p": 1, "a.d": 2, "b.p": 1, "b.d": 2})
    whole = parts_of(full)
    assert whole is not None
    assert {part.reason for part in inside(whole) if part.needed} == {full.reason}
    assert {part.reason for part in inside(whole) if not part.needed} == {Reason.ROLE_MEMBERS_MISSING}


def test_parts_that_no_more_members_may_join_say_so() -> None:
    """The third replica has room, but not within the gang's maximum."""
    world = racked(2, 5)
    job = Job(world, GroupRef(COSCHEDULING, "default", "serve"))
    world.group(job.ref, 1, tree=Branch("", 1, (Branch("a", 2), Branch("b", 2))), options=Options(max_member=3))
    for name in ("a-0", "a-1", "b-0", "b-1"):
        world.tell(PodSeen(world.pod(name, 8, group=job.ref, role=name[0])))
    world.judge()
    whole = parts_of(job)
    assert whole is not None
    assert [(part.state, part.reason) for part in whole.parts] == [
        (PartState.RESERVED, None),
        (PartState.WAITING, Reason.MAX_MEMBER_REACHED),
    ]


def test_minimums_of_roles_are_parts_and_a_flat_gang_has_none() -> None:
    """A step that has begun is one more."""
    world = racked()
    assert parts_of(world.gang("flat", 2)) is None
    job = Job(world, GroupRef(COSCHEDULING, "default", "steps"))
    world.group(job.ref, 1, role_minimums=(("leader", 1),), steps=(GroupProgress("worker", 0, 2),))
    world.tell(PodSeen(world.pod("leader", 1, group=job.ref, role="leader")))
    assert list(told(job)) == ["", "leader"]
    world.tell(PodSeen(world.pod("worker", 1, group=job.ref, role="worker")))
    assert told(job) | {"leader": ""} == {"": "missing* 0/2 -3 None", "leader": "", "worker": "missing* 0/2 -2 None"}


def test_the_status_of_a_gang_that_has_started_tells_of_parts_that_it_does_without() -> None:
    """Of one that needs all of its parts there is nothing more to say."""
    job = serving(racked(2, 4), SERVE, {"a.p": 1, "a.d": 2, "b.p": 1, "b.d": 2})
    job.run()
    seen = gang_view(job.world.admission, job.gang)
    message = "6 members are bound or have succeeded, minMember is 6; 2 of 3 parts are whole, 2 are needed"
    assert group_status(seen, 1).message == message
    needed = replace(SERVE, parts=SERVE.parts[:2])
    job = serving(racked(2, 4), needed, {"a.p": 1, "a.d": 2, "b.p": 1, "b.d": 2})
    job.run()
    assert ";" not in group_status(gang_view(job.world.admission, job.gang), 1).message


TREES = st.recursive(
    st.integers(1, 2).map(lambda least: Branch("", least)),
    lambda inner: st.lists(inner, min_size=1, max_size=3).flatmap(
        lambda parts: st.integers(1, len(parts)).map(lambda least: Branch("", least, tuple(parts)))
    ),
    max_leaves=5,
).filter(lambda tree: bool(tree.parts))


def named(tree: Branch, path: str = "r") -> Branch:
    """Return a tree whose parts are called by where they are."""
    return Branch(path, tree.least, tuple(named(part, f"{path}{at}") for at, part in enumerate(tree.parts)))


@given(TREES.map(named), st.data())
def test_the_numbers_are_those_of_the_judge(tree: Branch, data: st.DataObject) -> None:
    """Whatever members come, are bound, run, end, go or are gated: what holds, is needed, and lacks is the same."""
    world, count = racked(2, data.draw(st.integers(1, 4))), st.integers(0, 3)
    job = serving(world, tree, {role: data.draw(count) for role in sorted(tree.roles)})
    for index, pod in enumerate(job.pods):
        fate = data.draw(st.sampled_from(("stays", "gated", "gone", "bound", "runs", "done", "failed")))
        if fate == "gone":
            world.tell(PodGone(pod.uid))
        elif fate == "gated":
            job.see(index, gated=True, gates=("held",)) if pod.name not in job.reserved else None
        elif fate != "stays" and pod.name in job.reserved:
            job.bind(index)
            node = job.reserved.get(pod.name, "")
            phases = {"runs": Phase.RUNNING, "done": Phase.SUCCEEDED, "failed": Phase.FAILED}
            job.see(index, node_name=node, phase=phases.get(fate, Phase.PENDING))
        if data.draw(st.booleans()):
            world.judge()
    gang, whole = job.gang, parts_of(job)
    if gang.tree is None:
        return
    assert whole is not None
    rows, branches, have = list(inside(whole)), [tree, *tree.inside], gang.have({})
    assert [row.name for row in rows] == [branch.name for branch in branches]
    for row, branch in zip(rows, branches, strict=True):
        assert (row.bound >= row.minimum) is branch.holds(have)
        assert (row.placed >= row.minimum) is branch.holds(lambda role: gang.standing(role).placed)
        assert row.exist >= row.placed >= row.bound >= row.running
        assert (row.placed >= row.minimum) is (not row.lacks)
        if not branch.parts:
            census = gang.census_of(branch.name)
            assert (row.exist, row.bound, row.minimum) == (census.exist, census.secured, branch.least)
    assert {row.name: row.minimum for row in rows if row.needed and not row.parts} == gang.tree.needs(gang.standing)
    assert gang.role_minimums == gang.tree.needs(gang.standing)
    assert whole.lacks == sum(role_gaps(gang).values())
    assert whole.lacks == sum(row.lacks for row in rows if row.needed and not row.parts)
    assert torn(whole) == gang.torn({})
    seen = gang_view(world.admission, gang)
    assert seen.parts is not None
    assert (whole.bound, whole.minimum, len(whole.parts)) == (seen.parts.bound, seen.parts.minimum, seen.parts.total)
    assert (whole.bound >= whole.minimum) is seen.has_minimum
    if gang.unplaced_count and not any(pod.gated for pod in gang.members.values()):
        world.judge()
        assert (whole.state is PartState.MISSING) is (job.reason is Reason.ROLE_MEMBERS_MISSING)


def torn(part: PartRow) -> set[str]:
    """Return the roles of parts inside that lack their minimum."""
    found = set[str]()
    for each in part.parts:
        leaves = {row.name for row in inside(each) if not row.parts}
        found |= torn(each) if each.bound >= each.minimum else leaves
    return found


@pytest.mark.parametrize(("nodes", "expected"), [(4, "reserved* 0/2 -0 r0"), (1, "waiting* 0/2 -2 None")])
def test_a_gang_that_is_only_asked_about_has_its_parts_where_they_would_go(nodes: int, expected: str) -> None:
    """With the places that it would be promised; nothing is kept of them."""
    what = objects(2, annotations={ROLE_MINIMUMS: "worker=2"})
    what[1]["spec"]["template"]["metadata"]["labels"][ROLE] = "worker"
    parts = asked(racked(1, nodes), what).facts.parts
    assert parts is not None
    (worker,) = parts.parts
    assert f"{worker.state}* {worker.bound}/{worker.minimum} -{worker.lacks} {worker.domain}" == expected


def test_parts_that_labels_tell_are_known_of_a_gang_that_is_only_asked_about() -> None:
    """Whether its PodGroup is in the file, or in the cluster already."""
    policy = {"name": "rings", "matchLabelKeys": ["ring"], "minSubGroups": 1, "subGroupSize": 2}
    group = volcano_json("new", minMember=1, subGroupPolicy=[policy])
    _, pods = objects(2)
    pods["spec"]["template"]["metadata"] = {"annotations": {VOLCANO_ANNOTATIONS[0]: "new"}, "labels": {"ring": "a"}}
    world = racked(1, 2)
    from_file = asked(world, [group, pods])
    world.tell(GroupSeen(read_volcano(decode_volcano_pod_group(written(group)))))
    for answer in (from_file, asked(world, [pods])):
        assert answer.facts.parts is not None
        assert [(part.name, part.placed) for part in answer.facts.parts.parts] == [("rings,ring=a", 2)]
