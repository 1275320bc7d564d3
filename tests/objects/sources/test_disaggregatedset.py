"""Each slice of a DisaggregatedSet is a gang, whichever revision its pods are of."""

from __future__ import annotations

import pytest
from hypothesis import given

from extender.objects.branches import LabelParts
from extender.objects.manifest import SubmissionError
from extender.objects.meta import Requirement
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.priority import Priorities
from extender.objects.reason import Problem
from extender.objects.sources.disaggregatedset import (
    DISAGGREGATED_SET,
    SET_ROLE,
    DisaggregatedSet,
    decode_disaggregated_set,
    read_disaggregated_set,
)
from extender.objects.sources.leaderworkerset import EXCLUSIVE_TOPOLOGY, LWS_GROUP
from extender.objects.submission import read_submission
from extender.objects.topology import LabelGroup
from tests.builders import CREATED, Json, metadata_json, written
from tests.objects.documents import survivors


def role(name: str, size: int | None, annotations: Json | None = None, **spec: object) -> Json:
    """Return a role of groups of so many pods."""
    template = {} if size is None else {"size": size}
    return {
        "name": name,
        "metadata": {"annotations": annotations or {}},
        "spec": {"leaderWorkerTemplate": template, **spec},
    }


def read(*roles: Json, annotations: dict[str, str] | None = None, **spec: object) -> tuple[PodGroup, ...]:
    """Read a DisaggregatedSet called team/llm."""
    meta = metadata_json("llm", namespace="team", annotations=annotations or {})
    document = {"metadata": meta, "spec": {"roles": roles, **spec}}
    return read_disaggregated_set(decode_disaggregated_set(written(document)))


def part(name: str, size: int) -> LabelParts:
    """Return the groups of a role, of which one is needed."""
    return LabelParts(name, LabelGroup((LWS_GROUP,), "", selector=(Requirement(SET_ROLE, "In", (name,)),)), 1, size)


def test_a_slice_needs_a_group_of_each_role() -> None:
    """All pods of that group, however many groups the set has; there is a gang for each slice."""
    first, second = read(role("prefill", 4, replicas=6), role("decode", None, replicas=2), slices=2)
    assert first.ref == GroupRef(DISAGGREGATED_SET, "team", "llm-0-*")
    assert (second.ref.name, second.uid) == ("llm-1-*", "uid-llm/1")
    assert first.label_parts == second.label_parts == (part("prefill", 4), part("decode", 1))
    assert str(first.about) == "DisaggregatedSet team/llm"
    assert [group.ref.name for group in read(role("a", 1), role("b", 1))] == ["llm-0-*"]


@pytest.mark.parametrize(
    "first", [role("a", 4, startupPolicy="LeaderReady"), role("a", 4, {EXCLUSIVE_TOPOLOGY: "rack"})]
)
def test_of_groups_that_begin_with_a_leader_the_leader_is_needed(first: Json) -> None:
    """Its workers are made when it is bound, or ready."""
    assert read(first, role("b", 2))[0].label_parts == (part("a", 1), part("b", 2))


def test_people_may_say_otherwise() -> None:
    """Roles with minimums of their own count in place of the groups."""
    (group,) = read(role("a", 4), annotations={"muster.dev/role-minimums": "leader=1", "muster.dev/min-member": "3"})
    assert (group.label_parts, group.min_member, group.options.role_minimums) == ((), 3, (("leader", 1),))


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"slices": -1}, Problem("spec.slices", "-1 is negative")),
        ({"bad": -2}, Problem("spec.roles[1].spec.leaderWorkerTemplate.size", "-2 is negative")),
    ],
)
def test_a_negative_count_is_the_problem(spec: Json, problem: Problem) -> None:
    """The field is named once."""
    (group,) = read(role("a", 1), role("b", spec.pop("bad", 1)), **spec)
    assert (group.problem, group.label_parts) == (problem, ())


BUSY = {
    "metadata": metadata_json("llm", namespace="team", annotations={"muster.dev/topology-required": "rack"}),
    "spec": {"slices": 2, "roles": [role("prefill", 2, startupPolicy="LeaderReady"), role("decode", 1)]},
}


@given(workload=survivors(decode_disaggregated_set, BUSY))
def test_any_set_can_be_read(workload: DisaggregatedSet) -> None:
    """No set that can be decoded raises."""
    assert all(group.min_member >= 1 for group in read_disaggregated_set(workload))


def test_what_if_knows_the_pods_of_every_slice() -> None:
    """Of each group its leader and its workers, of a revision that is not known yet; a bad number is refused."""
    template = {"spec": {"schedulerName": "muster", "containers": [{"name": "main"}]}}
    roles = [role("prefill", 2, replicas=2), role("decode", 1)]
    for each in roles:
        each["spec"]["leaderWorkerTemplate"]["workerTemplate"] = template
    meta = metadata_json("llm", namespace="team")
    document = {"apiVersion": f"{DISAGGREGATED_SET}/v1", "kind": "DisaggregatedSet", "metadata": meta}
    document["spec"] = {"slices": 2, "roles": roles}
    first, second = read_submission([document], Priorities(), CREATED).gangs
    assert (first.ref.name, second.ref.name) == ("llm-0-*", "llm-1-*")
    names = ["llm-0-decode-0", "llm-0-prefill-0", "llm-0-prefill-0-1", "llm-0-prefill-1", "llm-0-prefill-1-1"]
    assert sorted(pod.name for pod in first.pods) == names
    assert first.group is not None
    told = {first.group.role_of(pod.role, pod.labels) for pod in first.pods}
    assert told == {"prefill,group-index=0", "prefill,group-index=1", "decode,group-index=0"}
    document["spec"] = {"slices": -1, "roles": roles}
    with pytest.raises(SubmissionError, match=r"spec\.slices: -1 is negative"):
        list(read_submission([document], Priorities(), CREATED).gangs)
