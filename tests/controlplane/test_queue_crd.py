"""The Queue CRD on a real API server: what it takes, what it refuses, and that its words name the field."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from extender.objects.meta import encode
from extender.objects.queue import Queue, decode_queue, format_usage, read_queue
from localcluster.client import QUEUES, ApiClient, JsonObject
from localcluster.cluster import LocalCluster
from localcluster.errors import ApiError
from localcluster.programs import Binary
from tests.patience import HANGS

pytestmark = pytest.mark.controlplane

GPU = "nvidia.com/gpu"

#: A Queue with every field set.
FULL: JsonObject = {
    "parent": "research",
    "flavors": [
        {
            "name": "h100",
            "nodeSelector": {"gpu": "h100"},
            "resources": [
                {"name": GPU, "nominalQuota": 16, "borrowingLimit": "8", "lendingLimit": 4},
                {"name": "cpu", "nominalQuota": "1500m"},
            ],
        },
        {"name": "spot", "nodeSelector": {}, "resources": [{"name": GPU, "nominalQuota": 0}]},
    ],
    "weight": "0.5",
    "priority": -3,
    "namespaceSelector": {
        "matchLabels": {"team": "vision"},
        "matchExpressions": [
            {"key": "stage", "operator": "In", "values": ["dev", "prod"]},
            {"key": "frozen", "operator": "DoesNotExist"},
        ],
    },
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
        "grace": "1.5m",
        "maxNotice": "20m",
    },
    "maxRunningGangs": 20,
    "perUser": {"maxRunningGangs": 4, "maxRunningGPUs": 32},
    "perGroup": {"maxRunningGPUs": 128},
    "maxRuntime": "36h",
    "spares": {"nodes": 2, "level": "rack", "lendBelow": -5},
    "stopPolicy": "Hold",
}


def quota(**fields: object) -> JsonObject:
    """Return a spec with a parent and a quota of 16 GPUs, in which `fields` replace some of the quota's."""
    resource = {"name": GPU, "nominalQuota": 16} | fields
    return {"parent": "org", "flavors": [{"name": "h100", "resources": [resource]}]}


def selector(**expression: object) -> JsonObject:
    """Return a spec whose namespace selector has one expression."""
    return {"namespaceSelector": {"matchExpressions": [{"key": "team"} | expression]}}


@pytest.fixture(scope="module")
def api(local_cluster: LocalCluster) -> ApiClient:
    """Return the API server, which has the CRD."""
    return local_cluster.admin


def create(api: ApiClient, spec: JsonObject, *, name: str = "team") -> JsonObject:
    """Have the API server judge a Queue, without keeping it."""
    item = {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind, "metadata": {"name": name}, "spec": spec}
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    return api.request("POST", QUEUES.path(), body=item, query=query)


def read(item: JsonObject) -> Queue:
    """Read a Queue as the API server gives it."""
    return read_queue(decode_queue(encode(item)))


def test_every_field_is_taken(api: ApiClient) -> None:
    """The API server keeps all that is written, and Muster finds nothing wrong with it."""
    stored = create(api, FULL)
    assert stored["spec"] == FULL
    assert read(stored).problems == ()


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"flavors": [{"name": "any"}]},
        {"weight": 3},
        {"preemption": {"minRuntime": "0", "grace": "90s"}},
        {"preemption": {"reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "Never"}}},
        {"namespaceSelector": {}},
        quota(nominalQuota="1e3", borrowingLimit=0, lendingLimit="64Gi"),
    ],
)
def test_what_is_left_out_has_a_default(api: ApiClient, spec: JsonObject) -> None:
    """Both the API server and Muster take a Queue that says little."""
    assert read(create(api, spec)).problems == ()


REFUSED: list[tuple[JsonObject, str]] = [
    ({"parent": "team"}, "spec.parent"),
    ({"parent": "No Name"}, "spec.parent"),
    (quota(nominalQuota=-1), "spec.flavors[0].resources[0].nominalQuota"),
    (quota(nominalQuota="-500m"), "spec.flavors[0].resources[0].nominalQuota"),
    (quota(nominalQuota="many"), "spec.flavors[0].resources[0].nominalQuota"),
    (quota(borrowingLimit=-1), "spec.flavors[0].resources[0].borrowingLimit"),
    (quota(lendingLimit="-1"), "spec.flavors[0].resources[0].lendingLimit"),
    ({"flavors": [{"name": "a", "resources": [{"name": GPU, "lendingLimit": 1}]}]}, "resources[0].nominalQuota"),
    ({"flavors": quota(borrowingLimit=8)["flavors"]}, "borrowingLimit needs spec.parent"),
    ({"flavors": [{"name": "a"}, {"name": "b"}, {"name": "a"}]}, "spec.flavors[2]"),
    ({"flavors": [{"name": "a", "resources": [{"name": GPU, "nominalQuota": 1}] * 2}]}, "spec.flavors[0].resources[1]"),
    ({"flavors": [{"resources": []}]}, "spec.flavors[0].name"),
    ({"weight": 0}, "spec.weight"),
    ({"weight": "-0.5"}, "spec.weight"),
    ({"weight": "heavy"}, "spec.weight"),
    ({"queueingStrategy": "LIFO"}, "spec.queueingStrategy"),
    ({"stopPolicy": "Pause"}, "spec.stopPolicy"),
    ({"preemption": {"withinQueue": "Any"}}, "spec.preemption.withinQueue"),
    ({"preemption": {"reclaimWithinCohort": "Always"}}, "spec.preemption.reclaimWithinCohort"),
    ({"preemption": {"borrowWithinCohort": {"policy": "Any"}}}, "spec.preemption.borrowWithinCohort.policy"),
    (
        {"preemption": {"reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "LowerPriority"}}},
        "spec.preemption.borrowWithinCohort.policy",
    ),
    ({"preemption": {"minRuntime": "-1m"}}, "spec.preemption.minRuntime"),
    ({"preemption": {"grace": "soon"}}, "spec.preemption.grace"),
    ({"maxRunningGangs": 0}, "spec.maxRunningGangs"),
    ({"perUser": {"maxRunningGangs": 0}}, "spec.perUser.maxRunningGangs"),
    ({"perGroup": {"maxRunningGPUs": -1}}, "spec.perGroup.maxRunningGPUs"),
    ({"perUser": {}}, "spec.perUser"),
    ({"maxRuntime": "0s"}, "spec.maxRuntime"),
    ({"maxRuntime": "long"}, "spec.maxRuntime"),
    ({"preemption": {"maxNotice": "-1s"}}, "spec.preemption.maxNotice"),
    ({"spares": {}}, "spec.spares.nodes"),
    ({"spares": {"nodes": 0}}, "spec.spares.nodes"),
    ({"spares": {"nodes": 1, "level": "host"}}, "spec.spares.level"),
    (selector(operator="In"), "spec.namespaceSelector.matchExpressions[0].values"),
    (selector(operator="Exists", values=["a"]), "spec.namespaceSelector.matchExpressions[0].values"),
    (selector(operator="Like", values=["a"]), "spec.namespaceSelector.matchExpressions[0].operator"),
]


@pytest.mark.parametrize(
    ("spec", "field"), REFUSED, ids=[f"{index}-{field}" for index, (_, field) in enumerate(REFUSED)]
)
def test_what_makes_no_sense_is_refused(api: ApiClient, spec: JsonObject, field: str) -> None:
    """The API server refuses it with a message that names the field, and so would Muster if it were let through."""
    with pytest.raises(ApiError) as refused:
        create(api, spec)
    assert refused.value.status == 422
    assert field in str(refused.value)
    if spec != {"parent": "No Name"}:  # to Muster no more than a name that no Queue has
        problems = read({"metadata": {"name": "team"}, "spec": spec}).problems
        assert any(field.partition(" ")[0] in problem.field for problem in problems)


def test_a_status_is_kept_shown_and_read_again(local_cluster: LocalCluster, api: ApiClient) -> None:
    """What Muster writes there fits the schema, kubectl lists it, and the history comes back as it was."""
    name = "team-status"
    stored = api.create(
        {
            "apiVersion": QUEUES.api_version,
            "kind": QUEUES.kind,
            "metadata": {"name": name},
            "spec": {"parent": "org", "weight": 2},
        }
    )
    amounts: dict[str, Any] = {"nominal": "16", "used": "24", "reserved": "8", "borrowed": "8", "lent": "0"}
    status = {
        "flavors": [{"name": "h100", "resources": [{"name": GPU, **amounts}]}],
        "share": "0.25",
        "pendingGangs": 3,
        "admittedGangs": 2,
        "history": [{"resource": each, "usage": format_usage(each, 12.5)} for each in (GPU, "cpu")],
        "historyAt": "2026-01-01T00:00:00Z",
        "observedGeneration": stored["metadata"]["generation"],
        "conditions": [
            {
                "type": "Active",
                "status": "True",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "reason": "Ready",
                "message": "the Queue can be used",
            }
        ],
    }
    try:
        api.patch(QUEUES, name, {"status": status}, subresource="status")
        written = api.get(QUEUES, name)
        command = [str(local_cluster.binaries[Binary.KUBECTL]), f"--kubeconfig={local_cluster.admin_kubeconfig}"]
        listed = subprocess.run([*command, "get", "queues"], check=True, capture_output=True, text=True, timeout=HANGS)
    finally:
        api.delete(QUEUES, name)
    assert written["status"] == status
    header, row = (line.split() for line in listed.stdout.splitlines())
    assert header == ["NAME", "PARENT", "SHARE", "PENDING", "ADMITTED", "ACTIVE", "AGE"]
    assert row[:-1] == [name, "org", "0.25", "3", "2", "True"]
    queue = read(written)
    assert (queue.history, queue.history_at) == ({GPU: 12.5, "cpu": 12.5}, "2026-01-01T00:00:00Z")
    assert queue.weight == 2.0
