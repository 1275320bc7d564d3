"""What scenario files say of sharing: queues, priority classes, namespaces, budgets and declared runtimes."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from extender.objects import keys
from extender.objects.meta import encode
from extender.objects.queue import decode_queue, read_queue
from muster_lab.simulation.scenario import DisruptionLimit, Scenario, ScenarioGang
from muster_lab.simulation.scenario_file import read_scenario
from tests.lab.simulation.test_scenario_file import outcome, problems

NODES = "nodes: [{name: n, allocatable: {nvidia.com/gpu: 8}}]\n"
GANGS = "gangs: [{name: g, minMember: 1}]\n"


def read(text: str) -> Scenario:
    """Read a scenario with a node."""
    return read_scenario(NODES + dedent(text), "s.yaml")


def only_gang(fields: str, top: str = "") -> ScenarioGang:
    """Return the gang of a scenario with one, which has more `fields`."""
    (gang,) = read(f"{top}\ngangs: [{{name: g, minMember: 1, {fields}}}]").gangs
    return gang


def flaws(fields: str, top: str = "") -> tuple[str, ...]:
    """Return what is wrong with a scenario whose only gang has more `fields`."""
    return problems(f"{NODES}{top}\ngangs: [{{name: g, minMember: 1, {fields}}}]")


def test_a_queue_is_written_as_its_crd_has_it() -> None:
    """Every field of the spec stands beside the name, and Muster reads it as it would read the object."""
    scenario = read(
        """
        gangs: [{name: g, minMember: 1}]
        queues:
          - name: research
          - name: team-a
            parent: research
            flavors:
              - name: reserved
                nodeSelector: {pool: reserved}
                resources: [{name: nvidia.com/gpu, nominalQuota: 16, borrowingLimit: 8, lendingLimit: "4"}]
              - name: spot
                resources: [{name: cpu, nominalQuota: 500m}]
            weight: 2.5
            priority: -1
            namespaceSelector: {matchLabels: {team: a}}
            default: true
            queueingStrategy: StrictFIFO
            preemption:
              withinQueue: LowerOrNewerEqualPriority
              reclaimWithinCohort: LowerPriority
              borrowWithinCohort: {policy: LowerPriority, maxPriorityThreshold: 10}
              minRuntime: 30m
              grace: 90s
            maxRunningGangs: 5
            stopPolicy: Hold
        """
    )
    root, team = (read_queue(decode_queue(encode(queue))) for queue in scenario.sharing.queues)
    assert (root.name, team.name, team.parent, team.problems) == ("research", "team-a", "research", ())
    assert [flavor.name for flavor in team.flavors] == ["reserved", "spot"]
    quota = team.flavors[0].quotas["nvidia.com/gpu"]
    assert (quota.nominal, quota.borrowing_limit, quota.lending_limit) == (16, 8, 4)
    assert team.flavors[1].quotas["cpu"].nominal == 500
    assert (team.weight, team.priority, team.default, team.strategy) == (2.5, -1, True, "StrictFIFO")
    assert team.namespaces is not None
    assert team.namespaces.matches({"team": "a"})
    preemption = team.preemption
    assert (preemption.within_queue, preemption.reclaim_within_cohort) == ("LowerOrNewerEqualPriority", "LowerPriority")
    assert (preemption.borrow_within_cohort, preemption.max_priority_threshold) == ("LowerPriority", 10)
    assert (preemption.min_runtime, preemption.grace) == (1800.0, 90.0)
    assert (team.max_running_gangs, team.stop_policy) == (5, "Hold")
    assert scenario.sharing.warnings == ()


@pytest.mark.parametrize(
    ("queue", "problem"),
    [
        ("{parent: x}", "queues[0].name: is missing"),
        (
            "{name: Q}",
            "queues[0].name: 'Q' is not a name: lower-case letters, digits, '-' and '.', quoted if it is a number",
        ),
        ("{name: q, wait: 1}", "queues[0].wait: unknown key; known here: "),
        ("{name: q, stopPolicy: Maybe}", "queues[0].stopPolicy: 'Maybe' is none of None, Hold, HoldAndDrain"),
        ("{name: q, weight: true}", "queues[0].weight: Expected `int | float | str | null`, got `bool`"),
        ("{name: q, weight: heavy}", "queues[0].weight: "),
        ("{name: q, weight: 0}", "queues[0].weight: "),
        ("7", "queues[0]: 7 is not a mapping"),
        ("{metadata: {name: q}, spec: {weight: 0}}", "queues[0].spec.weight: '0' is not a number above 0"),
        ("{metadata: {name: q}, spec: {wait: 1}}", "queues[0].spec.wait: unknown key; known here: parent, "),
        ("{name: q, preemption: {grace: 90}}", "queues[0].preemption.grace: Expected `str | null`, got `int`"),
        ("{name: q, preemption: {grace: soon}}", "queues[0].preemption.grace: 'soon' is not a duration"),
        (
            "{name: q, flavors: [{name: f, resources: [{name: gpus, nominalQuota: 1}]}]}",
            "queues[0].flavors[0].resources[0].name: 'gpus' is no resource: ",
        ),
        (
            "{name: q, flavors: [{name: f, resources: [{name: a/gpu, nominalQuota: -1}]}]}",
            "queues[0].flavors[0].resources[0].nominalQuota: '-1' is negative",
        ),
        ("{name: q, flavors: [{name: f}, {name: f}]}", "queues[0].flavors"),
        ("{name: q, parent: q}", "queues[0].parent: "),
    ],
)
def test_a_bad_queue_is_refused(queue: str, problem: str) -> None:
    """The grammar's mistakes and those that Muster finds in the object are told alike, with their place."""
    (line,) = problems(f"{NODES}{GANGS}queues: [{queue}]")
    assert line.startswith(f"s.yaml: {problem}")


def test_a_queue_may_be_the_whole_object() -> None:
    """As `kubectl get -o yaml` prints it: what the API server sets, and the status, are left out."""
    whole = """
        gangs: [{name: g, minMember: 1, queue: q}]
        queues:
          - apiVersion: muster.dev/v1alpha1
            kind: Queue
            metadata: {name: q, uid: x, resourceVersion: "7", creationTimestamp: "2026-01-01T00:00:00Z", labels: {a: b}}
            spec: {weight: 2}
            status: {share: "0.5"}
    """
    short = "gangs: [{name: g, minMember: 1, queue: q}]\nqueues: [{name: q, weight: 2}]"
    (queue,) = read(whole).sharing.queues
    assert queue["metadata"] == {"name": "q", "labels": {"a": "b"}}
    (plain,) = read(short).sharing.queues
    assert queue | {"metadata": {"name": "q"}} == plain


def test_two_queues_of_one_name_are_refused() -> None:
    """As an API server would."""
    assert problems(NODES + GANGS + "queues: [{name: q}, {name: q}]") == (
        "s.yaml: queues: queue 'q' is defined 2 times",
    )


@pytest.mark.parametrize(
    ("queues", "about"),
    [
        ("[{name: a, parent: b}, {name: b, parent: a}, {name: sound}]", {"a", "b"}),
        ("[{name: a, parent: nowhere}, {name: sound}]", {"a"}),
    ],
    ids=["cycle", "unknown-parent"],
)
def test_what_only_all_queues_together_tell_is_a_warning(queues: str, about: set[str]) -> None:
    """Muster must cope with it: the scenario is played, and its report says what is wrong."""
    scenario = read(f"queues: {queues}\ngangs: [{{name: g, minMember: 1, queue: a}}]")
    assert len(scenario.sharing.queues) == queues.count("name")
    assert {warning.split("'")[1] for warning in scenario.sharing.warnings} == about
    assert all(warning.startswith("queue '") and ": " in warning for warning in scenario.sharing.warnings)


@pytest.mark.parametrize(
    ("queue", "top", "problem"),
    [
        (
            "team-q",
            "queues: [{name: team-a}, {name: x}]",
            "'team-q' is no queue of the scenario; did you mean 'team-a'?",
        ),
        ("zzz", "queues: [{name: team-a}, {name: x}]", "'zzz' is no queue of the scenario; there are team-a, x"),
        ("team-a", "", "'team-a' is no queue: there are none under queues"),
    ],
)
def test_a_gang_in_a_queue_that_is_not_defined_is_refused(queue: str, top: str, problem: str) -> None:
    """With what could be meant."""
    assert flaws(f"queue: {queue}", top) == (f"s.yaml: gangs[0].queue: {problem}",)


def test_priorities_are_numbers_or_classes() -> None:
    """A class has the value that the scenario gives it; the same number beside it does no harm."""
    top = "priorityClasses: {high: 1000, low: -5}"
    assert only_gang("priority: 7", top).priority == 7
    for fields in ("priorityClassName: high", "priorityClassName: high, priority: 1000"):
        gang = only_gang(fields, top)
        assert (gang.priority, gang.priority_class) == (1000, "high")
    assert read(GANGS + top).sharing.priority_classes == {"high": 1000, "low": -5}


@pytest.mark.parametrize(
    ("fields", "top", "problem"),
    [
        (
            "priorityClassName: hihg",
            "priorityClasses: {high: 1}",
            "gangs[0].priorityClassName: 'hihg' is no priority class of the scenario; did you mean 'high'?",
        ),
        (
            "priorityClassName: high",
            "",
            "gangs[0].priorityClassName: 'high' is no priority class: there are none under priorityClasses",
        ),
        (
            "priorityClassName: high, priority: 2",
            "priorityClasses: {high: 1}",
            "gangs[0].priority: '2' is not 1, the value of 'high'",
        ),
        (
            "priority: 1",
            "priorityClasses: {high: 1000000001}",
            "priorityClasses.high: '1000000001' is above 1000000000",
        ),
        ("priority: 1", "priorityClasses: {high: much}", "priorityClasses.high: 'much' is not a whole number"),
        (
            "disruptionBudget: {}",
            "",
            "gangs[0].disruptionBudget: exactly one of minAvailable and maxUnavailable is needed",
        ),
        (
            "disruptionBudget: {minAvailable: 1, maxUnavailable: 1}",
            "",
            "gangs[0].disruptionBudget: exactly one of minAvailable and maxUnavailable is needed",
        ),
        (
            "disruptionBudget: {minAvailable: 50%}",
            "",
            "gangs[0].disruptionBudget.minAvailable: '50%' is not a whole number",
        ),
        ("preemptible: maybe", "", "gangs[0].preemptible: 'maybe' should be a valid boolean"),
        ("belowMinimum: wait", "", "gangs[0].belowMinimum: 'wait' should be 'evict', 'repair' or 'ignore'"),
        ("terminationGracePeriod: 1.5", "", "gangs[0].terminationGracePeriod: '1.5' is not in whole seconds"),
        ("declareDuration: true", "", "gangs[0].declareDuration: there is no duration to declare"),
        (
            "declareDuration: true, expectedDuration: 5, duration: 5",
            "",
            "gangs[0].declareDuration: expectedDuration says how long, right or wrong: leave one out",
        ),
        (
            "preemptible: false, annotations: {muster.dev/preemptible: 'true'}",
            "",
            "gangs[0].annotations.muster.dev/preemptible: 'true': preemptible says it too",
        ),
    ],
)
def test_what_a_gang_says_wrongly_of_sharing_is_named(fields: str, top: str, problem: str) -> None:
    """With its place and value."""
    assert flaws(fields, top) == (f"s.yaml: {problem}",)


@pytest.mark.parametrize(
    ("fields", "annotations"),
    [
        ("duration: 30m, rendezvous: 10s", {}),
        ("preemptible: false", {keys.PREEMPTIBLE: "false"}),
        ("preemptible: true, annotations: {x: y}", {keys.PREEMPTIBLE: "true", "x": "y"}),
        ("belowMinimum: repair", {keys.BELOW_MINIMUM: "repair"}),
        ("expectedDuration: 90m, duration: 1h", {keys.EXPECTED_DURATION: "5400s"}),
        ("declareDuration: true, duration: 30m, rendezvous: 0.5", {keys.EXPECTED_DURATION: "1800.5s"}),
    ],
)
def test_what_a_gang_says_of_itself_becomes_annotations(fields: str, annotations: dict[str, str]) -> None:
    """As a user would write them; how long it really takes is declared only where the scenario says so."""
    assert only_gang(fields).annotations == annotations


def test_all_durations_can_be_declared_at_once() -> None:
    """A gang may still keep its own to itself, or declare a wrong one; one that goes on to the end has none."""
    scenario = read(
        """
        declareDuration: true
        gangs:
          - {name: told, minMember: 1, duration: 60}
          - {name: silent, minMember: 1, duration: 60, declareDuration: false}
          - {name: wrong, minMember: 1, duration: 60, expectedDuration: 30}
          - {name: endless, minMember: 1}
        """
    )
    declared = {gang.name: gang.annotations.get(keys.EXPECTED_DURATION) for gang in scenario.gangs}
    assert declared == {"told": "60s", "silent": None, "wrong": "30s", "endless": None}


def test_budgets_checkpoints_and_grace_periods_reach_the_gang() -> None:
    """Each is optional."""
    gang = only_gang("disruptionBudget: {maxUnavailable: 1}, checkpointInterval: 5m, terminationGracePeriod: 30s")
    assert gang.disruption_budget == DisruptionLimit(max_unavailable=1)
    assert (gang.checkpoint_interval, gang.grace_period) == (300.0, 30)
    plain = only_gang("priority: 0")
    assert (plain.disruption_budget, plain.checkpoint_interval, plain.grace_period) == (None, None, 0)


def test_every_namespace_with_a_gang_is_there() -> None:
    """Those that are listed have labels; each has the one with its name."""
    scenario = read(
        """
        namespaces: [{name: blue, labels: {team: b}}, {name: empty}]
        gangs: [{name: g, minMember: 1}, {name: h, namespace: blue, minMember: 1}]
        """
    )
    found: dict[str, Any] = {n["metadata"]["name"]: n["metadata"]["labels"] for n in scenario.sharing.namespaces}
    assert found == {
        "blue": {"team": "b", "kubernetes.io/metadata.name": "blue"},
        "empty": {"kubernetes.io/metadata.name": "empty"},
        "default": {"kubernetes.io/metadata.name": "default"},
    }
    assert problems(NODES + GANGS + "namespaces: [{name: a}, {name: a}]") == (
        "s.yaml: namespaces: namespace 'a' is defined 2 times",
    )


_SCALARS = st.none() | st.booleans() | st.integers(-5, 10**12) | st.text(max_size=8) | st.floats(allow_nan=True)
_KEYS = st.sampled_from(
    [
        *("name", "parent", "flavors", "resources", "nodeSelector", "nominalQuota", "borrowingLimit", "weight"),
        *("namespaceSelector", "matchLabels", "matchExpressions", "preemption", "minRuntime", "default", "labels"),
    ]
)
_TREES = st.recursive(
    _SCALARS | st.sampled_from(["q", "nvidia.com/gpu", "8", "30m"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=5),
    max_leaves=12,
)


@given(queue=_TREES, namespace=_TREES, classes=_TREES)
def test_no_document_about_sharing_makes_anything_but_a_scenario_or_a_scenario_error(
    queue: object, namespace: object, classes: object
) -> None:
    """Whatever stands there is read or refused, with lines that name the file."""
    document = {
        "nodes": [],
        "gangs": [{"name": "g", "minMember": 1, "queue": "q"}],
        "queues": [queue],
        "namespaces": [namespace],
        "priorityClasses": classes,
    }
    result = outcome(yaml.safe_dump(document, allow_unicode=True))
    assert isinstance(result, Scenario) or all(line.startswith("s.yaml: ") for line in result)
