"""PodGroups of KAI: their subgroups are the parts of a gang."""

from __future__ import annotations

from typing import Any

import pytest

from extender.objects.branches import Branch
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.podoptions import read_group, read_role
from extender.objects.podspec import PodSpec
from extender.objects.sources.kai import KAI, SOURCE, decode_kai_pod_group, read_kai
from tests.builders import Json, written


def subgroup(name: str, least: int | None = None, parent: str = "", **fields: Any) -> Json:
    """Return a subgroup."""
    return {"name": name, "minMember": least, **({"parent": parent} if parent else {}), **fields}


def within(**levels: str) -> Json:
    """Return a topology constraint with `required` and `preferred` levels."""
    constraint = {f"{term}TopologyLevel": level for term, level in levels.items()}
    return {"topologyConstraint": {"topology": "default", **constraint}}


def gang(*subgroups: Json, **spec: Any) -> PodGroup:
    """Read a PodGroup."""
    metadata = {"name": "serve", "namespace": "x", "uid": "u"}
    groups = {"subGroups": subgroups} if subgroups else {}
    return read_kai(decode_kai_pod_group(written({"metadata": metadata, "spec": {**groups, **spec}})))


def test_subgroups_inside_each_other_are_a_tree() -> None:
    """All subgroups are needed unless it is said how many; each has its levels, and the object's are the gang's."""
    group = gang(
        subgroup("ab", minSubGroup=1, **within(required="x/spine")),
        subgroup("a", 1, "ab", **within(required="x/rack", preferred="x/node")),
        subgroup("b", 2, "ab"),
        subgroup("c", 3),
        **within(required="x/zone"),
    )
    inner = Branch("ab", 1, (Branch("a", 1, (), "x/rack", "x/node"), Branch("b", 2)), "x/spine")
    assert group.tree == Branch("serve", 2, (inner, Branch("c", 3)))
    assert (group.ref, group.min_member, group.problem) == (GroupRef(KAI, "x", "serve"), 1, None)
    peers = group.options.peers
    assert (peers.required, [(sorted(each.roles), each.level) for each in peers.role_groups]) == (
        "x/zone",
        [(["a", "b"], "x/spine"), (["a"], "x/rack"), (["a"], "x/node")],
    )
    few = gang(subgroup("a", 1), subgroup("b", 1), minSubGroup=1)
    assert few.tree is not None
    assert few.tree.least == 1


def test_without_subgroups_it_counts_pods() -> None:
    """A flat PodGroup has a minimum, a queue, and may say that it is not to be evicted."""
    group = gang(minMember=4, queue="team", preemptibility="non-preemptible")
    assert (group.min_member, group.tree, group.options.peer_queue) == (4, None, "team")
    assert group.options.preemptible is False
    assert gang(preemptibility="preemptible").options.preemptible is None


@pytest.mark.parametrize(
    ("subgroups", "problem"),
    [
        ([subgroup("", 1)], "spec.subGroups[0].name: is missing"),
        ([subgroup("a", 1), subgroup("a", 1)], "spec.subGroups[1].name: 'a' is there twice"),
        ([subgroup("a", 1, "b")], "spec.subGroups[0].parent: 'b' leads to no subgroup without parent"),
        (
            [subgroup("a", parent="b"), subgroup("b", parent="a")],
            "spec.subGroups[0].parent: 'b' leads to no subgroup without parent",
        ),
        (
            [subgroup("a", 1, **within(required="no level"))],
            "spec.subGroups[0].topologyConstraint.requiredTopologyLevel: 'no level' is not the name of a level",
        ),
        ([subgroup("a", minSubGroup=3), subgroup("b", 1, "a")], "spec: 3 of a can never be: it has 1 parts"),
    ],
)
def test_subgroups_that_are_no_tree_are_a_problem(subgroups: list[Json], problem: str) -> None:
    """The gang waits with the field."""
    group = gang(*subgroups)
    assert (str(group.problem), group.tree) == (problem, None)


def test_pods_name_their_group_and_subgroup() -> None:
    """KAI's annotation names the PodGroup, its label the subgroup."""
    labels, annotations = {"kai.scheduler/subgroup-name": "a"}, {"pod-group-name": "serve"}
    assert read_group(PodSpec(), "x", labels, annotations) == GroupRef(KAI, "x", "serve")
    assert read_role(labels, annotations) == "a"
    (kind,) = SOURCE.kinds
    document = written({"spec": {"priorityClassName": "high", "minMember": 2}})
    assert kind.read(kind.decode(document), {"high": 7})[0].priority == 7
