"""Queues as they are read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from extender.objects.meta import LabelSelector, Requirement
from extender.objects.queue import (
    BorrowWithin,
    ConsolidationPolicy,
    FairSharingStrategy,
    Flavor,
    FlavorQuotasObject,
    NonPreemptible,
    PreemptionPolicy,
    Queue,
    QueueingStrategy,
    QueueObject,
    QueueSpec,
    QueueStatusObject,
    Quota,
    Reclaim,
    ResourceQuotaObject,
    RunningLimit,
    SparePolicy,
    StopPolicy,
    WithinQueue,
    decode_queue,
    format_usage,
    read_queue,
)
from tests.builders import CREATED, GI, GPU, Json, metadata_json, written
from tests.objects.documents import survivors
from tests.objects.schemas import crd_schema, declared, properties

FULL: Json = {
    "metadata": metadata_json("team") | {"generation": 7},
    "spec": {
        "parent": "org",
        "flavors": [
            {
                "name": "h100",
                "nodeSelector": {"gpu": "h100", "az": "1"},
                "resources": [
                    {"name": GPU, "nominalQuota": 16, "borrowingLimit": "8", "lendingLimit": 4},
                    {"name": "cpu", "nominalQuota": "1500m"},
                    {"name": "memory", "nominalQuota": "64Gi"},
                ],
            },
            {"name": "spot", "nodeSelector": {}},
        ],
        "weight": "1500m",
        "priority": -3,
        "namespaceSelector": {"matchLabels": {"team": "vision"}},
        "default": True,
        "queueingStrategy": "StrictFIFO",
        "preemption": {
            "withinQueue": "LowerOrNewerEqualPriority",
            "reclaimWithinCohort": "LowerPriority",
            "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 100},
            "fairSharing": {"strategy": "LessThanInitialShare", "delay": "10m"},
            "consolidation": {
                "policy": "WhenGangsWait",
                "delay": "5m",
                "coolDown": "2h",
                "maxEvictionsPerHour": 3,
                "maxLostGPUHoursPerHour": "1500m",
            },
            "nonPreemptible": "Anywhere",
            "minRuntime": "1h30m",
            "grace": "90s",
            "maxNotice": "20m",
        },
        "maxRunningGangs": 20,
        "perUser": {"maxRunningGangs": 4, "maxRunningGPUs": 32},
        "perGroup": {"maxRunningGPUs": 128},
        "maxRuntime": "36h",
        "spares": {"nodes": 2, "level": "rack", "lendBelow": -5},
        "stopPolicy": "HoldAndDrain",
    },
    "status": {
        "history": [{"resource": GPU, "usage": "12.5"}, {"resource": "cpu", "usage": "1500m"}],
        "historyAt": CREATED,
    },
}


def queue(**spec: object) -> Queue:
    """Read a Queue with this spec."""
    return read_queue(decode_queue(written({"metadata": {"name": "team"}, "spec": spec})))


def problems(**spec: object) -> dict[str, str]:
    """Return what is wrong with a Queue of this spec, by field."""
    return {problem.field: problem.message for problem in queue(**spec).problems}


def test_every_field_is_read() -> None:
    """Quantities become amounts, durations seconds, and words the values that they stand for."""
    assert read_queue(decode_queue(written(FULL))) == Queue(
        name="team",
        uid="uid-team",
        generation=7,
        created=CREATED,
        parent="org",
        flavors=(
            Flavor(
                "h100",
                {GPU: Quota(16, 8, 4), "cpu": Quota(1500), "memory": Quota(64 * GI)},
                (("az", "1"), ("gpu", "h100")),
            ),
            Flavor("spot", {}, ()),
        ),
        weight=1.5,
        priority=-3,
        namespaces=LabelSelector((Requirement("team", "In", ("vision",)),)),
        default=True,
        strategy=QueueingStrategy.STRICT_FIFO,
        preemption=PreemptionPolicy(
            WithinQueue.LOWER_OR_NEWER,
            Reclaim.LOWER_PRIORITY,
            BorrowWithin.LOWER_PRIORITY,
            max_priority_threshold=100,
            fair_sharing=FairSharingStrategy.INITIAL_SHARE,
            fair_sharing_delay=600.0,
            consolidation=ConsolidationPolicy(300.0, 7200.0, 3, 1.5),
            non_preemptible=NonPreemptible.ANYWHERE,
            min_runtime=5400.0,
            grace=90.0,
            max_notice=1200.0,
        ),
        max_running_gangs=20,
        limits=(RunningLimit("muster.dev/user", 4, 32), RunningLimit("muster.dev/group", None, 128)),
        max_runtime=36 * 3600.0,
        spares=SparePolicy(2, "rack", -5),
        stop_policy=StopPolicy.HOLD_AND_DRAIN,
        history={GPU: 12.5, "cpu": 1500.0},
        history_at=CREATED,
    )


def test_a_queue_that_says_nothing_has_the_defaults() -> None:
    """Lower priority gives way within the queue, borrowers give way to nominal quota, and nobody is held up."""
    empty = read_queue(QueueObject())
    assert empty == Queue("")
    assert queue() == Queue("team")
    assert empty.preemption == PreemptionPolicy(WithinQueue.LOWER_PRIORITY, Reclaim.ANY, BorrowWithin.NEVER)
    assert empty.strategy is QueueingStrategy.BEST_EFFORT_FIFO


def test_a_flavor_without_selector_differs_from_one_for_every_node() -> None:
    """{} is every node; nothing is what the ancestors say."""
    silent, every = queue(flavors=[{"name": "a"}, {"name": "b", "nodeSelector": {}}]).flavors
    assert (silent.node_selector, every.node_selector) == (None, ())


def limits(**fields: object) -> dict[str, Any]:
    """Return the spec of a Queue below another with one quota, some fields of which are these."""
    return {"parent": "org", "flavors": [{"name": "a", "resources": [{"name": GPU, "nominalQuota": 1} | fields]}]}


RESOURCE = "spec.flavors[0].resources[0]"


@pytest.mark.parametrize(
    ("spec", "field", "words"),
    [
        ({"parent": "team"}, "spec.parent", "is the Queue itself"),
        (limits(nominalQuota=-1), f"{RESOURCE}.nominalQuota", "'-1' is negative"),
        (limits(nominalQuota=None), f"{RESOURCE}.nominalQuota", "is missing"),
        (limits(nominalQuota="1e30"), f"{RESOURCE}.nominalQuota", "2^63"),
        (limits(borrowingLimit="lots"), f"{RESOURCE}.borrowingLimit", "is not a quantity"),
        (limits(lendingLimit="-1"), f"{RESOURCE}.lendingLimit", "is negative"),
        (limits(name=""), f"{RESOURCE}.name", "is missing"),
        (limits(borrowingLimit=1) | {"parent": ""}, f"{RESOURCE}.borrowingLimit", "needs spec.parent"),
        ({"flavors": [{"name": "a"}, {"name": "a"}]}, "spec.flavors[1].name", "'a' is there twice"),
        ({"flavors": [{}]}, "spec.flavors[0].name", "is missing"),
        ({"weight": 0}, "spec.weight", "is not a number above 0"),
        ({"weight": "1e999"}, "spec.weight", "is not a number above 0"),
        ({"weight": "heavy"}, "spec.weight", "is not a quantity"),
        ({"queueingStrategy": "LIFO"}, "spec.queueingStrategy", "none of StrictFIFO, BestEffortFIFO"),
        ({"stopPolicy": ""}, "spec.stopPolicy", "none of None, Hold, HoldAndDrain"),
        ({"preemption": {"withinQueue": "Any"}}, "spec.preemption.withinQueue", "none of Never"),
        ({"preemption": {"minRuntime": "-1m"}}, "spec.preemption.minRuntime", "is not a duration of at least 0"),
        ({"preemption": {"grace": "9" * 400 + "h"}}, "spec.preemption.grace", "is not a duration"),
        ({"preemption": {"grace": "soon"}}, "spec.preemption.grace", "such as 90s, 30m or 1h30m"),
        (
            {"preemption": {"reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "LowerPriority"}}},
            "spec.preemption.borrowWithinCohort.policy",
            "must be Never where reclaimWithinCohort is Never",
        ),
        (
            {"preemption": {"reclaimWithinCohort": "Never", "fairSharing": {"strategy": "LessThanInitialShare"}}},
            "spec.preemption.fairSharing.strategy",
            "must be Never where reclaimWithinCohort is Never",
        ),
        (
            {"preemption": {"fairSharing": {"strategy": "Always"}}},
            "spec.preemption.fairSharing.strategy",
            "LessThanOrEqualToFinalShare",
        ),
        (
            {"preemption": {"consolidation": {"policy": "Always"}}},
            "spec.preemption.consolidation.policy",
            "'Always' is none of Never, WhenGangsWait",
        ),
        (
            {"preemption": {"consolidation": {"maxEvictionsPerHour": 0}}},
            "spec.preemption.consolidation.maxEvictionsPerHour",
            "0 is not at least 1; policy Never moves no pods",
        ),
        (
            {"preemption": {"consolidation": {"maxLostGPUHoursPerHour": -1}}},
            "spec.preemption.consolidation.maxLostGPUHoursPerHour",
            "'-1' is not a number above 0",
        ),
        (
            {"preemption": {"consolidation": {"coolDown": "soon"}}},
            "spec.preemption.consolidation.coolDown",
            "'soon' is not a duration",
        ),
        ({"preemption": {"fairSharing": {"delay": "-5m"}}}, "spec.preemption.fairSharing.delay", "not a duration"),
        ({"maxRunningGangs": 0}, "spec.maxRunningGangs", "stopPolicy holds a Queue"),
        ({"perUser": {"maxRunningGangs": 0}}, "spec.perUser.maxRunningGangs", "0 is not at least 1"),
        ({"perGroup": {"maxRunningGPUs": -1}}, "spec.perGroup.maxRunningGPUs", "-1 is not at least 1"),
        ({"perUser": {}}, "spec.perUser", "says nothing"),
        ({"maxRuntime": "0s"}, "spec.maxRuntime", "is not above 0"),
        ({"maxRuntime": "long"}, "spec.maxRuntime", "is not a duration"),
        ({"preemption": {"maxNotice": "-1s"}}, "spec.preemption.maxNotice", "is not a duration"),
        ({"spares": {}}, "spec.spares.nodes", "0 is not at least 1"),
        ({"spares": {"nodes": 1, "level": "node"}}, "spec.spares.level", "name a level of several"),
        (
            {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}},
            "spec.namespaceSelector.matchExpressions[0].operator",
            "'Like' is none of",
        ),
    ],
)
def test_what_makes_no_sense_is_a_problem_of_its_field(spec: dict[str, Any], field: str, words: str) -> None:
    """The problem names the field and says what is wrong with it."""
    assert words in problems(**spec)[field]


def test_the_default_stands_in_for_what_cannot_be_used() -> None:
    """A Queue with problems is a value all the same; the rest of it is as written."""
    read = queue(weight="heavy", priority=5, stopPolicy="Pause", preemption={"grace": "soon"}, namespaceSelector={})
    assert (read.weight, read.priority, read.stop_policy, read.preemption.grace) == (1.0, 5, StopPolicy.NONE, 0.0)
    assert read.namespaces == LabelSelector()
    assert [problem.field for problem in read.problems] == ["spec.weight", "spec.preemption.grace", "spec.stopPolicy"]


def test_a_history_that_somebody_spoiled_is_left_out() -> None:
    """Only what Muster can have written counts, and it is no problem of the Queue's."""
    history = [{"resource": GPU, "usage": "2"}, {"resource": "", "usage": "1"}, {"resource": "cpu"}, {"usage": "x"}]
    history += [{"resource": "memory", "usage": "-1"}, {"resource": "pods", "usage": "1e999"}]
    read = read_queue(decode_queue(written({"status": {"history": history}})))
    assert read.history == {GPU: 2.0}
    assert read.problems == ()


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [(GPU, 12.5, "12.5"), ("cpu", 1500.0, "1.5"), ("memory", 3 * GI, str(3 * GI)), (GPU, 1e-9, "0"), (GPU, 0.0, "0")],
)
def test_a_mean_usage_is_written_as_a_quantity(resource: str, value: float, text: str) -> None:
    """CPU in cores, the rest in bytes and counts, to the millionth."""
    assert format_usage(resource, value) == text


@given(survivors(decode_queue, FULL))
def test_reading_never_fails(spoiled: QueueObject) -> None:
    """Whatever a Queue holds, the result is a value, and what cannot be used is a problem that says where."""
    read = read_queue(spoiled)
    assert read.weight > 0
    assert all(problem.field.startswith("spec.") and problem.message for problem in read.problems)
    quotas = [quota for flavor in read.flavors for quota in flavor.quotas.values()]
    assert all(quota.nominal >= 0 for quota in quotas)


SCHEMA = crd_schema("queue-crd.yaml")


def test_every_field_that_is_read_is_in_the_crd() -> None:
    """The structs read no field of spec and status that the shipped CRD lacks."""
    read = set(declared(QueueSpec, ".spec")) | set(declared(QueueStatusObject, ".status"))
    assert ".spec.flavors.resources.nominalQuota" in read
    assert read - set(properties(SCHEMA, "")) == set()


def test_every_field_that_users_may_write_is_read() -> None:
    """Nothing in the CRD's spec is without effect."""
    written = set(properties(SCHEMA["properties"]["spec"], ".spec"))
    assert written - set(declared(QueueSpec, ".spec")) == set()


def test_an_empty_object_is_a_struct_of_nones() -> None:
    """Nothing is required: absent and null fields both read as None."""
    assert decode_queue(b"{}") == QueueObject()
    assert decode_queue(b'{"metadata":null,"spec":null,"status":null}') == QueueObject()


def test_amounts_are_numbers_or_text() -> None:
    """Quotas and weights may be whole numbers, fractions and quantities."""
    body = b'{"spec":{"weight":0.5,"flavors":[{"resources":[{"nominalQuota":16,"lendingLimit":"64Gi"}]}]}}'
    spec = decode_queue(body).spec
    assert spec == QueueSpec(
        weight=0.5,
        flavors=[FlavorQuotasObject(resources=[ResourceQuotaObject(nominal_quota=16, lending_limit="64Gi")])],
    )
