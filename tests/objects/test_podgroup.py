"""A PodGroup is a gang's minimum and terms, whichever API it was written in."""

from __future__ import annotations

import pytest
from hypothesis import given

from extender.objects.keys import MIN_MEMBER, PLACEMENT, QUEUE, TOPOLOGY_PREFERRED, Options, Packing
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.reason import Problem
from extender.objects.sources.coscheduling import (
    COSCHEDULING,
    CoschedulingPodGroup,
    decode_coscheduling_pod_group,
    read_coscheduling,
)
from extender.objects.sources.native import (
    NATIVE,
    SOURCE,
    NativePodGroup,
    decode_native_pod_group,
    read_native,
)
from extender.objects.topology import TopologyTerms
from tests.builders import CREATED, GPU, Json, coscheduling_json, native_json, written
from tests.objects.documents import load, survivors


def coscheduling(document: Json) -> PodGroup:
    """Read a coscheduling PodGroup given as JSON."""
    return read_coscheduling(decode_coscheduling_pod_group(written(document)))


def native(document: Json) -> PodGroup:
    """Read a native PodGroup given as JSON."""
    return read_native(decode_native_pod_group(written(document)))


def test_labels_are_kept_for_those_who_ask() -> None:
    """They decide nothing: groups that differ in them alone are equal."""
    for read in (coscheduling, native):
        bare = read({"metadata": {"name": "train"}})
        labelled = read({"metadata": {"name": "train", "labels": {"team": "a"}}})
        assert dict(labelled.labels) == {"team": "a"}
        assert labelled == bare


def test_a_coscheduling_group_is_read_whole() -> None:
    """Identity, minimum, resources, timeout, generation and options are taken over."""
    document = coscheduling_json(
        "train",
        annotations={PLACEMENT: "binpack"},
        minMember=4,
        minResources={GPU: 32, "cpu": "500m"},
        scheduleTimeoutSeconds=30,
    )
    document["metadata"]["generation"] = 2
    assert coscheduling(document) == PodGroup(
        ref=GroupRef(COSCHEDULING, "default", "train"),
        uid="uid-train",
        min_member=4,
        min_resources={GPU: 32, "cpu": 500},
        schedule_timeout=30.0,
        created=CREATED,
        generation=2,
        options=Options(packing=Packing.BINPACK),
    )


@pytest.mark.parametrize(("condition", "told"), [("Scheduled", "Running"), ("Ready", "")])
def test_what_muster_told_is_known_by_its_condition(condition: str, told: str) -> None:
    """The coscheduling plugin writes phases too, and no condition; a status alone makes no other PodGroup."""
    document = coscheduling_json("train", minMember=2)
    before = coscheduling(document)
    document["status"] = {"phase": "Running", "conditions": [{"type": condition, "status": "True"}]}
    assert coscheduling(document).told == told
    assert coscheduling(document) == before


@pytest.mark.parametrize("spec", [{}, {"minMember": 0}, {"minMember": None}])
def test_a_group_without_minimum_is_a_gang_of_one(spec: Json) -> None:
    """The coscheduling API leaves out a zero minMember: each pod may start by itself."""
    group = coscheduling(coscheduling_json(**spec))
    assert (group.min_member, group.problem) == (1, None)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"minMember": -1}, Problem("spec.minMember", "-1 is negative")),
        ({"scheduleTimeoutSeconds": 0}, Problem("spec.scheduleTimeoutSeconds", "0 is not positive")),
        ({"scheduleTimeoutSeconds": -5}, Problem("spec.scheduleTimeoutSeconds", "-5 is not positive")),
        ({"minResources": {"cpu": "-1"}}, Problem("spec.minResources.cpu", "'-1' is negative")),
        ({"minResources": {"cpu": "-1"}, "minMember": -2}, Problem("spec.minMember", "-2 is negative")),
        ({"minMember": -2, "scheduleTimeoutSeconds": 0}, Problem("spec.minMember", "-2 is negative")),
    ],
)
def test_a_bad_field_is_a_problem(spec: Json, problem: Problem) -> None:
    """A group that cannot be used names the field, and has harmless values in place of the bad ones."""
    group = coscheduling(coscheduling_json(**spec))
    assert group.problem == problem
    assert (group.min_member, group.min_resources, group.schedule_timeout) == (1, {}, None)


def test_a_native_gang_is_read_whole() -> None:
    """Identity, minimum, priority and options are taken over."""
    document = native_json("train", annotations={MIN_MEMBER: "2"}, gang={"minCount": 4})
    document["spec"] |= {"priority": 10, "disruptionMode": {"all": {}}, "preemptionPolicy": "Never"}
    assert native(document) == PodGroup(
        ref=GroupRef(NATIVE, "default", "train"),
        uid="uid-train",
        min_member=4,
        priority=10,
        created=CREATED,
        options=Options(min_member=2),
        goes_whole=True,
        never_preempts=True,
    )


@pytest.mark.parametrize(
    ("spec", "priority"),
    [
        ({}, 0),
        ({"priority": 5, "priorityClassName": "high"}, 5),
        ({"priorityClassName": "high"}, 1000),
        ({"priorityClassName": "unknown"}, None),
    ],
)
def test_the_priority_of_a_native_group_is_its_own(spec: Json, priority: int | None) -> None:
    """Without any it is 0, as to kube-scheduler; the API server writes that of its class, which a file may lack."""
    document = native_json(gang={"minCount": 2})
    document["spec"] |= spec
    (group,) = SOURCE.kinds[0].read(decode_native_pod_group(written(document)), {"high": 1000})
    assert group.priority == priority


@pytest.mark.parametrize(
    ("spec", "goes_whole", "never_preempts"),
    [
        ({}, False, None),
        ({"disruptionMode": {"single": {}}, "preemptionPolicy": "PreemptLowerPriority"}, False, False),
        ({"disruptionMode": {}}, False, None),
        ({"disruptionMode": {"all": {}}}, True, None),
    ],
)
def test_a_native_group_says_how_it_is_disrupted(spec: Json, *, goes_whole: bool, never_preempts: bool | None) -> None:
    """By single members unless it says otherwise; its preemption policy is the pods' where it has none."""
    document = native_json(gang={"minCount": 2})
    document["spec"] |= spec
    group = native(document)
    assert (group.goes_whole, group.never_preempts) == (goes_whole, never_preempts)


def test_a_native_topology_constraint_is_required() -> None:
    """Its key is the level; of several the first counts, and an annotation that says otherwise is a problem."""
    document = native_json(
        "train", annotations={"kai.scheduler/topology-required-placement": "zone"}, gang={"minCount": 2}
    )
    document["spec"]["schedulingConstraints"] = {"topology": [{"key": "example.com/rack"}, {"key": "example.com/zone"}]}
    options = native(document).options
    assert options.peers == TopologyTerms(required="example.com/rack")
    assert [problem.field for problem in options.problems] == [
        "spec.schedulingConstraints.topology[1].key",
        "metadata.annotations[kai.scheduler/topology-required-placement]",
    ]


def test_other_schedulers_annotations_on_a_group_are_read() -> None:
    """What KAI or Kueue would read on a PodGroup stands beside Muster's own keys."""
    annotations = {TOPOLOGY_PREFERRED: "rack", "kai.scheduler/topology-required-placement": "zone"}
    options = coscheduling(coscheduling_json(annotations=annotations)).options
    assert options == Options(topology=TopologyTerms(preferred="rack"), peers=TopologyTerms(required="zone"))


def test_a_group_says_its_queue_in_label_or_annotation() -> None:
    """Muster's key counts as a label and as an annotation; Kueue's label is what another scheduler says."""
    annotated = coscheduling_json(annotations={QUEUE: "research"})
    assert coscheduling(annotated).options == Options(queue="research")
    labelled = coscheduling_json()
    labelled["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "theirs", QUEUE: "ours"}
    assert coscheduling(labelled).options == Options(queue="ours", peer_queue="theirs")


@pytest.mark.parametrize("policy", [{"basic": {}}, {}])
def test_a_basic_native_group_is_a_gang_of_one(policy: Json) -> None:
    """Without the gang policy each pod may start by itself."""
    group = native(native_json(**policy))
    assert (group.min_member, group.problem) == (1, None)


@pytest.mark.parametrize(("gang", "found"), [({}, "None"), ({"minCount": 0}, "0"), ({"minCount": -3}, "-3")])
def test_a_native_gang_without_minimum_is_a_problem(gang: Json, found: str) -> None:
    """A native gang must say how many pods it needs."""
    group = native(native_json(gang=gang))
    assert group.problem == Problem("spec.schedulingPolicy.gang.minCount", f"{found} is not at least 1")
    assert group.min_member == 1


def test_the_smallest_values_are_fine() -> None:
    """A minimum of one pod and a timeout of one second are no mistakes."""
    group = coscheduling(coscheduling_json(minMember=1, scheduleTimeoutSeconds=1))
    assert (group.min_member, group.schedule_timeout, group.problem) == (1, 1.0, None)
    assert native(native_json(gang={"minCount": 1})).problem is None


def test_an_empty_object_is_a_gang_of_one() -> None:
    """A group that says nothing asks for nothing."""
    assert coscheduling({}) == PodGroup(GroupRef(COSCHEDULING, "", ""), "")
    assert native({}) == PodGroup(GroupRef(NATIVE, "", ""), "", priority=0)


COSCHEDULING_GROUP = coscheduling_json(
    annotations={PLACEMENT: "spread"}, minMember=4, minResources={"cpu": "4", GPU: 8}, scheduleTimeoutSeconds=10
)


@given(group=survivors(decode_coscheduling_pod_group, COSCHEDULING_GROUP))
def test_any_coscheduling_group_can_be_read(group: CoschedulingPodGroup) -> None:
    """No group that can be decoded raises; its minimum is at least one and its amounts are int64."""
    value = read_coscheduling(group)
    assert 1 <= value.min_member < 2**31
    assert value.schedule_timeout is None or value.schedule_timeout > 0
    assert all(0 <= amount < 2**63 for amount in value.min_resources.values())


@given(group=survivors(decode_native_pod_group, load("objects/data/objects.json")["NativePodGroup"]))
def test_any_native_group_can_be_read(group: NativePodGroup) -> None:
    """No group that can be decoded raises; its minimum is at least one."""
    assert 1 <= read_native(group).min_member < 2**31
