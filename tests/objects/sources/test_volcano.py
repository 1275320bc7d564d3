"""Volcano's PodGroup is a gang's minimum and terms, as far as Muster can keep them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from extender.objects.branches import LabelParts
from extender.objects.keys import ROLE_MINIMUMS, TOPOLOGY_REQUIRED, Options
from extender.objects.levels import up_to_tier
from extender.objects.meta import Requirement
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.reason import Problem
from extender.objects.sources.volcano import (
    ROLE_LABELS,
    VOLCANO,
    VolcanoPodGroup,
    decode_volcano_pod_group,
    read_volcano,
)
from extender.objects.topology import LabelGroup, RoleGroup, Slice, TopologyTerms
from tests.builders import CREATED, GPU, Json, volcano_json, written
from tests.objects.documents import survivors

TASK = "volcano.sh/task-spec"
PARTITION = "volcano.sh/partition-id"
HARD = {"mode": "hard", "highestTierAllowed": 1}
BOUND = up_to_tier(1)
SOFT = {"mode": "soft", "highestTierAllowed": 1}


def read(document: Json, priority: int | None = None) -> PodGroup:
    """Read a PodGroup given as JSON."""
    return read_volcano(decode_volcano_pod_group(written(document)), priority)


def policy(**fields: Any) -> PodGroup:
    """Read a PodGroup with one policy of subgroups."""
    return read(volcano_json(minMember=8, subGroupPolicy=[{"name": "g"} | fields]))


def selecting(key: str, *values: str) -> Json:
    """Return a label selector."""
    if len(values) == 1:
        return {"matchLabels": {key: values[0]}}
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}


def test_a_volcano_group_is_read_whole() -> None:
    """Identity, minimums, resources, priority, queue, topology and Muster's own keys are taken over."""
    document = volcano_json(
        "train",
        annotations={ROLE_MINIMUMS: "worker=3", TOPOLOGY_REQUIRED: "block"},
        minMember=5,
        minTaskMember={"ps": 1, "worker": 4, "spare": 0},
        minResources={GPU: 32, "cpu": "500m"},
        queue="research",
        priorityClassName="high",
        networkTopology={"mode": "hard", "highestTierAllowed": 2},
    )
    document["metadata"]["generation"] = 2
    assert read(document, 1000) == PodGroup(
        ref=GroupRef(VOLCANO, "default", "train"),
        uid="uid-train",
        min_member=5,
        role_minimums=(("ps", 1), ("worker", 4)),
        min_resources={GPU: 32, "cpu": 500},
        priority=1000,
        created=CREATED,
        generation=2,
        options=Options(
            role_minimums=(("worker", 3),),
            topology=TopologyTerms(required="block"),
            peers=TopologyTerms(required=up_to_tier(2)),
            peer_queue="research",
        ),
    )


def test_the_queue_of_the_spec_counts_before_kueues_label() -> None:
    """A PodGroup of Volcano's has a field for its queue."""
    document = volcano_json(queue="field")
    document["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "label"}
    assert read(document).options.peer_queue == "field"
    del document["spec"]["queue"]
    assert read(document).options.peer_queue == "label"


@pytest.mark.parametrize("document", [{}, volcano_json(), volcano_json(minMember=0), volcano_json(minMember=None)])
def test_a_group_without_minimum_is_a_gang_of_one(document: Json) -> None:
    """Volcano leaves out a zero minMember: each pod may start by itself."""
    group = read(document)
    assert (group.min_member, group.role_minimums, group.problem, group.options) == (1, (), None, Options())


def test_task_minimums_count_only_within_min_member() -> None:
    """A Volcano Job that may start with fewer pods states its replicas there; Volcano disregards them then."""
    tasks = {"ps": 1, "worker": 4}
    assert read(volcano_json(minMember=4, minTaskMember=tasks)).role_minimums == ()
    assert read(volcano_json(minTaskMember=tasks)).role_minimums == ()
    assert read(volcano_json(minMember=6, minTaskMember=tasks)).role_minimums == (("ps", 1), ("worker", 4))


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"minMember": -1}, Problem("spec.minMember", "-1 is negative")),
        ({"minMember": 4, "minTaskMember": {"ps": 1, "w": -2}}, Problem("spec.minTaskMember[w]", "-2 is negative")),
        ({"minResources": {"cpu": "-1"}}, Problem("spec.minResources.cpu", "'-1' is negative")),
        ({"minMember": -2, "minResources": {"cpu": "-1"}}, Problem("spec.minMember", "-2 is negative")),
    ],
)
def test_a_bad_minimum_is_a_problem(spec: Json, problem: Problem) -> None:
    """A group that cannot be used names the field, and has harmless values in place of the bad ones."""
    group = read(volcano_json(**spec))
    assert group.problem == problem
    assert group.min_member >= 1
    assert (group.role_minimums, group.min_resources) == ((), {})


@pytest.mark.parametrize(
    ("limit", "terms"),
    [
        ({"mode": "hard", "highestTierAllowed": 1}, TopologyTerms(required=BOUND)),
        ({"highestTierAllowed": 0}, TopologyTerms(required=up_to_tier(0))),
        ({"mode": "hard", "highestTierName": "rack"}, TopologyTerms(required="rack")),
        ({"mode": "soft", "highestTierAllowed": 3}, TopologyTerms(preferred=up_to_tier(3))),
        ({"mode": "soft", "highestTierName": "rack"}, TopologyTerms(preferred="rack")),
        ({"mode": "soft"}, TopologyTerms()),
        (None, TopologyTerms()),
    ],
)
def test_hard_is_required_and_soft_is_preferred(limit: Json | None, terms: TopologyTerms) -> None:
    """A tier is the level of that name, or a bound by number; soft without one asks for what Muster does anyway."""
    assert read(volcano_json(networkTopology=limit)).options == Options(peers=terms)


@pytest.mark.parametrize(
    ("limit", "problem"),
    [
        ({"mode": "firm", "highestTierAllowed": 1}, Problem("spec.networkTopology.mode", "'firm' is not hard or soft")),
        (
            {"mode": "hard"},
            Problem("spec.networkTopology", "says nothing without highestTierAllowed or highestTierName"),
        ),
        (
            {"highestTierName": "two racks"},
            Problem("spec.networkTopology.highestTierName", "'two racks' is not the name of a level"),
        ),
    ],
)
def test_a_limit_that_cannot_be_used_is_a_problem(limit: Json, problem: Problem) -> None:
    """It asks for nothing, and its owner is told."""
    assert read(volcano_json(networkTopology=limit)).options == Options(problems=(problem,))


def test_two_words_for_one_tier_contradict() -> None:
    """The name counts."""
    options = read(volcano_json(networkTopology={"highestTierAllowed": 1, "highestTierName": "rack"})).options
    assert options.peers == TopologyTerms(required="rack")
    assert [problem.field for problem in options.problems] == ["spec.networkTopology.highestTierAllowed"]


def test_a_field_contradicts_an_annotation() -> None:
    """The group's own field counts before another scheduler's annotation on it."""
    annotations = {"kai.scheduler/topology-required-placement": "zone"}
    options = read(volcano_json(annotations=annotations, networkTopology=HARD)).options
    assert options.peers == TopologyTerms(required=BOUND)
    assert [problem.field for problem in options.problems] == [
        "metadata.annotations[kai.scheduler/topology-required-placement]"
    ]


@pytest.mark.parametrize(
    ("fields", "terms"),
    [
        (
            {"subGroupSize": 4, "labelSelector": selecting(TASK, "worker"), "matchLabelKeys": [PARTITION]},
            TopologyTerms(slices=(Slice(4, BOUND, frozenset({"worker"})),)),
        ),
        ({"subGroupSize": 4}, TopologyTerms(required=BOUND)),
        (
            {"subGroupSize": 4, "labelSelector": selecting(TASK, "worker")},
            TopologyTerms(role_groups=(RoleGroup(frozenset({"worker"}), BOUND),)),
        ),
        (
            {"subGroupSize": 4, "matchPolicy": [{"labelKey": PARTITION}]},
            TopologyTerms(slices=(Slice(4, BOUND),)),
        ),
        (
            {"labelSelector": selecting(TASK, "ps", "worker")},
            TopologyTerms(role_groups=(RoleGroup(frozenset({"ps", "worker"}), BOUND),)),
        ),
        (
            {"labelSelector": selecting(TASK, "ps", "worker"), "matchLabelKeys": [TASK]},
            TopologyTerms(
                role_groups=(
                    RoleGroup(frozenset({"ps"}), BOUND),
                    RoleGroup(frozenset({"worker"}), BOUND),
                )
            ),
        ),
        ({"matchLabelKeys": [TASK]}, TopologyTerms(role_groups=(RoleGroup(frozenset(), BOUND),))),
        ({"labelSelector": {}}, TopologyTerms(required=BOUND)),
        ({"networkTopology": None, "subGroupSize": 4}, TopologyTerms()),
        (
            {"networkTopology": {"mode": "soft", "highestTierName": "rack"}, "labelSelector": selecting(TASK, "ps")},
            TopologyTerms(role_groups=(RoleGroup(frozenset({"ps"}), "rack", required=False),)),
        ),
    ],
)
def test_subgroups_are_slices_or_roles_that_share_a_domain(fields: Json, terms: TopologyTerms) -> None:
    """Subgroups of a size are slices in member order; those of a role are that role's; one of all is the gang."""
    assert policy(**({"networkTopology": HARD} | fields)).options == Options(peers=terms)


def test_policies_add_up() -> None:
    """Each policy speaks for the pods that it selects."""
    numbered = {"matchLabelKeys": [PARTITION], "networkTopology": HARD}
    policies = [
        {"subGroupSize": 4, "labelSelector": selecting(TASK, "worker")} | numbered,
        {"subGroupSize": 2, "labelSelector": selecting(TASK, "ps")} | numbered,
    ]
    slices = (Slice(4, BOUND, frozenset({"worker"})), Slice(2, BOUND, frozenset({"ps"})))
    assert read(volcano_json(subGroupPolicy=policies)).options.peers.slices == slices


@pytest.mark.parametrize(
    ("fields", "group"),
    [
        ({"matchLabelKeys": ["ring-id"], "subGroupSize": 4}, LabelGroup(("ring-id",), BOUND)),
        ({"matchLabelKeys": [PARTITION]}, LabelGroup((PARTITION,), BOUND)),
        (
            {"matchLabelKeys": ["ring-id", TASK], "labelSelector": selecting(TASK, "worker")},
            LabelGroup(("ring-id", TASK), BOUND, frozenset({"worker"})),
        ),
        (
            {"matchLabelKeys": ["ring-id"], "labelSelector": selecting("app", "train")},
            LabelGroup(("ring-id",), BOUND, selector=(Requirement("app", "In", ("train",)),)),
        ),
        (
            {"labelSelector": {"matchExpressions": [{"key": TASK, "operator": "Exists"}]}},
            LabelGroup((), BOUND, selector=(Requirement(TASK, "Exists"),)),
        ),
        (
            {"networkTopology": SOFT, "subGroupSize": 4, "matchLabelKeys": [PARTITION]},
            LabelGroup((PARTITION,), BOUND, required=False),
        ),
    ],
)
def test_subgroups_are_told_apart_by_the_values_of_any_label(fields: Json, group: LabelGroup) -> None:
    """Whichever labels select pods and tell them apart; those that number subgroups of a size are counted off."""
    assert policy(**({"networkTopology": HARD} | fields)).options == Options(peers=TopologyTerms(label_groups=(group,)))


def test_the_least_number_of_subgroups_is_a_minimum() -> None:
    """So many whole subgroups of a role are so many pods of it; of all pods, of the gang; without number one."""
    three = {"subGroupSize": 4, "minSubGroups": 3, "matchLabelKeys": [PARTITION]}
    assert policy(**three, labelSelector=selecting(TASK, "worker")).role_minimums == (("worker", 12),)
    assert policy(**three).min_member == 12
    assert policy(**three, networkTopology=SOFT).min_member == 12
    assert policy(subGroupSize=12, minSubGroups=1).min_member == 12
    both = {"subGroupSize": 2, "minSubGroups": 2, "matchLabelKeys": [TASK]}
    assert policy(**both, labelSelector=selecting(TASK, "ps", "worker")).role_minimums == (("ps", 2), ("worker", 2))
    assert policy(subGroupSize=4).min_member == 8


def test_the_least_number_of_subgroups_by_labels_is_that_of_parts() -> None:
    """So many whole ones of those that members' labels tell; whom policies select is told by labels then, too."""
    rings = {"name": "a,b", "subGroupSize": 4, "minSubGroups": 2, "matchLabelKeys": ["ring-id"]}
    (part,) = policy(**rings, networkTopology=HARD).label_parts
    assert part == LabelParts("a-b", LabelGroup(("ring-id",), ""), 2, 4)
    assert part.role_of({"ring-id": "7"}) == "a-b,ring-id=7"
    assert part.role_of({}) == ""
    known = frozenset({"a-b,ring-id=10", "a-b,ring-id=9", "other"})
    assert [each.name for each in part.branch(known).parts] == ["a-b,ring-id=9", "a-b,ring-id=10"]
    assert [each.name for each in part.branch(frozenset()).parts] == ["a-b (part 1)", "a-b (part 2)"]
    both = selecting(TASK, "ps", "worker")
    group = policy(minSubGroups=2, matchLabelKeys=[PARTITION], labelSelector=both, networkTopology=HARD)
    (part,) = group.label_parts
    selector = (Requirement(TASK, "In", ("ps", "worker")),)
    assert (part.group, part.size) == (LabelGroup((PARTITION,), "", selector=selector), 1)
    assert group.options.peers.label_groups == (LabelGroup((PARTITION,), BOUND, selector=selector),)
    assert policy(**rings | {"matchLabelKeys": [], "minSubGroups": 1}).label_parts == ()
    only = selecting("example.com/side", "left")
    assert policy(minSubGroups=1, subGroupSize=3, labelSelector=only).label_parts[0].least == 1


def test_tasks_and_subgroups_by_labels_are_not_both_counted() -> None:
    """A pod is of one part: what cannot be kept beside the other is named; Muster's own words count before both."""
    rings = {"minSubGroups": 1, "matchLabelKeys": ["ring-id"]}
    spec: Json = {"minMember": 2, "minTaskMember": {"worker": 2}, "subGroupPolicy": [rings]}
    group = read(volcano_json(**spec))
    assert group.problem is not None
    assert group.problem.field == "spec.minTaskMember"
    del spec["minTaskMember"]
    own = volcano_json(annotations={"muster.dev/role-minimums": "worker=2"}, **spec)
    assert read(own).label_parts == ()


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        (
            {"labelSelector": {"matchExpressions": [{"key": TASK, "operator": "In"}]}},
            "labelSelector.matchExpressions[0].values",
        ),
        ({"networkTopology": {"mode": "firm", "highestTierAllowed": 1}}, "networkTopology.mode"),
        ({"networkTopology": {"mode": "hard", "highestTierName": "a b"}}, "networkTopology.highestTierName"),
        ({"minSubGroups": 2, "subGroupSize": 4}, "minSubGroups"),
        ({"minSubGroups": 257, "subGroupSize": 4, "matchLabelKeys": ["ring-id"]}, "minSubGroups"),
    ],
)
def test_what_is_required_and_cannot_be_kept_is_a_problem_of_the_group(fields: Json, field: str) -> None:
    """The gang does not start without it: the problem names the field, and is told as an event as well."""
    group = policy(**({"networkTopology": HARD} | fields))
    assert group.problem is not None
    assert group.problem.field == f"spec.subGroupPolicy[0].{field}"
    assert group.options.problems == (group.problem,)


def test_a_hard_limit_without_a_tier_says_nothing() -> None:
    """In Volcano it limits nothing; the owner is told."""
    group = policy(subGroupSize=4, networkTopology={"mode": "hard"})
    assert (group.problem, group.options.peers) == (None, TopologyTerms())
    assert [problem.field for problem in group.options.problems] == ["spec.subGroupPolicy[0].networkTopology"]


def test_a_preference_that_cannot_be_read_keeps_no_gang_waiting() -> None:
    """It is told as an event alone."""
    group = policy(networkTopology={"mode": "soft", "highestTierName": "a b"})
    assert (group.problem, len(group.options.problems)) == (None, 1)


def test_every_label_of_a_role_selects_one() -> None:
    """Whichever framework made the pods, their roles can be selected by its label."""
    for label in ROLE_LABELS:
        group = policy(networkTopology=HARD, labelSelector=selecting(label, "worker"))
        assert group.options.peers.role_groups == (RoleGroup(frozenset({"worker"}), BOUND),)


BUSY = volcano_json(
    annotations={TOPOLOGY_REQUIRED: "block"},
    minMember=8,
    minTaskMember={"worker": 8},
    minResources={"cpu": "4", GPU: 8},
    networkTopology=HARD,
    subGroupPolicy=[
        {
            "name": "workers",
            "subGroupSize": 4,
            "minSubGroups": 2,
            "labelSelector": selecting(TASK, "worker"),
            "matchLabelKeys": [PARTITION],
            "networkTopology": HARD,
        },
        {"name": "roles", "matchPolicy": [{"labelKey": TASK}], "networkTopology": {"highestTierName": "rack"}},
    ],
)


@given(group=survivors(decode_volcano_pod_group, BUSY))
def test_any_volcano_group_can_be_read(group: VolcanoPodGroup) -> None:
    """No group that can be decoded raises; its minimums are at least one and its amounts are int64."""
    value = read_volcano(group)
    assert value.min_member >= 1
    assert all(minimum >= 1 for _, minimum in value.role_minimums)
    assert all(0 <= amount < 2**63 for amount in value.min_resources.values())
    assert read_volcano(group) == value
