"""PodGangs of Grove: what they say of a gang, and what Muster reads of the pods."""

from __future__ import annotations

from typing import Any

import pytest

from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.podoptions import RoleRank, read_group, read_rank, read_role
from extender.objects.podspec import PodSpec
from extender.objects.reason import Problem
from extender.objects.sources.grove import GROVE, SOURCE, decode_pod_gang, read_pod_gang
from extender.objects.topology import RoleGroup
from tests.builders import Json, written

LABELS = {"grove.io/podgang": "llm-0", "grove.io/podclique": "llm-0-decode", "grove.io/podclique-pod-index": "2"}


def podgroup(name: str, least: int, **fields: object) -> Json:
    """Return the part of a PodGang that stands for a PodClique."""
    return {"name": name, "podReferences": [], "minReplicas": least, **fields}


def packed(**levels: str) -> Json:
    """Return a topology constraint."""
    return {"topologyConstraint": {"packConstraint": levels}}


def gang(*podgroups: Json, annotations: dict[str, str] | None = None, **spec: Any) -> PodGroup:
    """Read a PodGang."""
    metadata = {"name": "llm-0", "namespace": "x", "uid": "u", "generation": 2, "annotations": annotations or {}}
    return read_pod_gang(decode_pod_gang(written({"metadata": metadata, "spec": {"podgroups": podgroups, **spec}})))


def test_a_gang_needs_the_minimum_of_each_clique() -> None:
    """Each PodClique is a role with its own minimum, and the gang's is their sum; the object is what people know."""
    group = gang(podgroup("llm-0-prefill", 2), podgroup("llm-0-decode", 4), podgroup("llm-0-router", 0))
    assert (group.ref, group.uid, group.generation) == (GroupRef(GROVE, "x", "llm-0"), "u", 2)
    assert (group.min_member, group.role_minimums) == (6, (("llm-0-decode", 4), ("llm-0-prefill", 2)))
    assert (group.kind, str(group.about)) == ("PodGang", "PodGang x/llm-0")
    assert (group.problem, group.priority) == (None, None)


def test_an_annotation_states_another_minimum() -> None:
    """What people write onto the object counts before the minimums of the PodCliques."""
    group = gang(podgroup("a", 2), podgroup("b", 4), annotations={"muster.dev/min-member": "3"})
    assert (group.min_member, group.role_minimums) == (3, ())


def test_a_negative_minimum_is_a_problem() -> None:
    """No PodClique can need fewer than no pods."""
    group = gang(podgroup("a", 1), podgroup("b", -1))
    assert group.problem == Problem("spec.podgroups[1].minReplicas", "-1 is negative")
    assert (group.min_member, group.role_minimums) == (1, ())


def test_the_levels_of_a_gang_are_those_of_its_pods() -> None:
    """What the PodGang must and should share are the gang's required and preferred level."""
    terms = gang(podgroup("a", 1), **packed(required="x/block", preferred="x/rack")).options.peers
    assert (terms.required, terms.preferred, terms.role_groups) == ("x/block", "x/rack", ())


def test_cliques_may_have_to_be_together() -> None:
    """The PodCliques of a scaling group's replica share a domain, and so do the pods of one PodClique."""
    config = {"name": "0", "podGroupNames": ["leader", "worker"], **packed(required="x/rack")}
    group = gang(
        podgroup("leader", 1),
        podgroup("worker", 4, **packed(required="x/host", preferred="x/numa")),
        topologyConstraintGroupConfigs=[config, {"podGroupNames": [], **packed(required="x/rack")}],
    )
    assert group.options.peers.role_groups == (
        RoleGroup(frozenset({"leader", "worker"}), "x/rack", required=True),
        RoleGroup(frozenset({"worker"}), "x/host", required=True),
        RoleGroup(frozenset({"worker"}), "x/numa", required=False),
    )


def test_what_cannot_be_a_level_is_a_problem() -> None:
    """A constraint that cannot be kept does not pass in silence."""
    group = gang(podgroup("a", 1, **packed(preferred="no level")), **packed(required="?"))
    assert [problem.field for problem in group.options.problems] == [
        "spec.topologyConstraint.packConstraint.required",
        "spec.podgroups[0].topologyConstraint.packConstraint.preferred",
    ]
    assert group.options.peers.role_groups == ()


def test_its_priority_class_counts() -> None:
    """The gang has the priority of its class; one that is not known yet leaves it to the pods."""
    (kind,) = SOURCE.kinds
    item = decode_pod_gang(written({"metadata": {"name": "g"}, "spec": {"priorityClassName": "high"}}))
    assert [group.priority for known in ({"high": 7}, {}) for group in kind.read(item, known)] == [7, None]


def test_an_empty_object_is_a_gang_of_one() -> None:
    """Nothing is required of the object."""
    group = read_pod_gang(decode_pod_gang(b"{}"))
    assert (group.min_member, group.role_minimums, group.problem) == (1, (), None)


@pytest.mark.parametrize("others", [{}, {"kueue.x-k8s.io/pod-group-name": "g", "muster.dev/gang": "h"}])
def test_pods_name_their_gang_and_role(others: dict[str, str]) -> None:
    """The PodGang counts before other operators' labels; the PodClique is the role, the index is the pod's number."""
    labels = LABELS | others
    role = read_role(labels, {})
    assert read_group(PodSpec(), "x", labels, {}) == GroupRef(GROVE, "x", "llm-0")
    assert (role, read_rank(labels, {}, role)) == (
        "llm-0-decode",
        RoleRank(follows=True, role="llm-0-decode", indices=(2,)),
    )
