"""Muster's writes to the simulated API server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from extender.admission.events import WorkloadSeen
from extender.control.ports import ApiError, BudgetError, ClusterEvent, PodKey, WatchedKind
from extender.control.watched import Known
from extender.explain.documents import QueueRow, QuotaUse
from extender.explain.views import GroupStatus, QueueReport
from extender.objects.keys import QUEUE
from extender.objects.meta import ObjectRef
from extender.objects.podgroup import GroupRef
from extender.objects.sources.coscheduling import COSCHEDULING, COSCHEDULING_POD_GROUPS
from extender.objects.workload import Suspendable
from muster_lab.simulation.api import SimulatedApi
from muster_lab.simulation.cluster import Cluster
from muster_lab.simulation.objects import ROWS
from tests.builders import coscheduling_json, pod_json
from tests.lab.conftest import Virtually, loop_clock

GROUP = GroupRef(COSCHEDULING, "default", "g")
POD_SPEC = {"schedulerName": "muster", "containers": [{"name": "main"}]}


def status(condition: str, reason: str) -> GroupStatus:
    """Return a group's status of which only the condition matters."""
    return GroupStatus("Pending", 1, 2, 3, 4, condition, reason, "why", 7)


QUEUE_STATUS = QueueReport(
    QueueRow(
        name="q",
        parent="",
        active=True,
        reason="",
        message="",
        share=0.25,
        pending_gangs=2,
        admitted_gangs=3,
        flavors=(
            QuotaUse("reserved", "cpu", nominal=1000, used=1500, borrowed=500, lent=0),
            QuotaUse("reserved", "nvidia.com/gpu", nominal=16, used=24, borrowed=8, lent=0),
            QuotaUse("spot", "nvidia.com/gpu", nominal=16, used=0, borrowed=0, lent=4),
        ),
    ),
    generation=1,
)


class Setting:
    """A cluster with a pod and a group, and the API to it."""

    def __init__(self, latency: float = 0.0) -> None:
        """Start on the running loop."""
        clock = loop_clock()
        self.cluster = Cluster(clock)
        self.api = SimulatedApi(self.cluster, clock, latency)
        self.pod = self.cluster.create(WatchedKind.POD, pod_json("a"))
        self.group = self.cluster.create(COSCHEDULING_POD_GROUPS, coscheduling_json("g", minMember=2))
        self.queue = self.cluster.create(WatchedKind.QUEUE, {"metadata": {"name": "q"}, "spec": {}})
        self.key = PodKey("default", "a", self.pod.uid)

    def nominated(self) -> str:
        """Return the pod's nominated node."""
        return self.cluster.get(WatchedKind.POD, "default", "a").pod.nominated_node


def test_a_nomination_is_set_and_cleared(virtually: Virtually) -> None:
    """The pod's status has the node; an empty one takes it away."""

    async def story() -> list[str]:
        setting = Setting()
        seen = []
        for node in ("n", "m", ""):
            await setting.api.nominate(setting.key, node)
            seen.append(setting.nominated())
        return seen

    assert virtually(story()) == ["n", "m", ""]


def test_a_binding_is_made_once(virtually: Virtually) -> None:
    """The same binding twice is a success; another node is a conflict."""

    async def story() -> int:
        setting = Setting()
        await setting.api.bind(setting.key, "n")
        await setting.api.bind(setting.key, "n")
        with pytest.raises(ApiError) as refused:
            await setting.api.bind(setting.key, "m")
        return refused.value.status

    assert virtually(story()) == 409


def test_a_binding_annotates_its_pod(virtually: Virtually) -> None:
    """The annotations of a Binding are added to the pod's own; those of one that comes too late are not."""

    async def story() -> dict[str, str]:
        setting = Setting()
        await setting.api.bind(setting.key, "n", {"muster.dev/predicted-gpus": "0,1"})
        await setting.api.bind(setting.key, "n", {"muster.dev/predicted-gpus": "2,3"})
        annotations: dict[str, str] = setting.cluster.get(WatchedKind.POD, "default", "a").json["metadata"][
            "annotations"
        ]
        return annotations

    assert virtually(story())["muster.dev/predicted-gpus"] == "0,1"


@pytest.mark.parametrize(
    "write",
    [
        lambda api, key, _: api.nominate(key, "n"),
        lambda api, key, _: api.bind(key, "n"),
        lambda api, key, ref: api.update_group_status(ref, key.uid, status("True", "r")),
        lambda api, key, _: api.ungate(key, "gate"),
        lambda api, key, ref: api.update_queue_status("gone" if ref.name == "gone" else "q", key.uid, QUEUE_STATUS),
    ],
    ids=["nominate", "bind", "update_group_status", "ungate", "update_queue_status"],
)
@pytest.mark.parametrize(("name", "expected"), [("gone", 404), ("a", 409)])
def test_writes_to_what_is_gone_or_another_are_refused(
    virtually: Virtually, write: Callable[[SimulatedApi, PodKey, GroupRef], Any], name: str, expected: int
) -> None:
    """Every write carries a UID: a namesake is not written to."""

    async def story() -> int:
        setting = Setting()
        ref = GroupRef(GROUP.api, GROUP.namespace, "gone" if name == "gone" else "g")
        with pytest.raises(ApiError) as refused:
            await write(setting.api, PodKey("default", name, "another"), ref)
        return refused.value.status

    assert virtually(story()) == expected


def test_the_conditions_transition_time_changes_with_its_status_only(virtually: Virtually) -> None:
    """A new reason alone leaves it; the counters are written every time."""

    async def story() -> list[tuple[str, str]]:
        setting = Setting()
        seen = []
        for seconds, condition, reason in ((0, "False", "r1"), (10, "False", "r2"), (20, "True", "r3")):
            await asyncio.sleep(seconds)
            await setting.api.update_group_status(GROUP, setting.group.uid, status(condition, reason))
            written = setting.cluster.get(COSCHEDULING_POD_GROUPS, "default", "g").json["status"]
            assert (written["phase"], written["scheduled"], written["failed"]) == ("Pending", 1, 4)
            (said,) = written["conditions"]
            seen.append((said["reason"], said["lastTransitionTime"]))
        return seen

    assert virtually(story()) == [
        ("r1", "2026-01-01T00:00:00Z"),
        ("r2", "2026-01-01T00:00:00Z"),
        ("r3", "2026-01-01T00:00:30Z"),
    ]


def test_a_preempted_gang_says_so_until_it_is_scheduled_again(virtually: Virtually) -> None:
    """Whoever was not preempted has no such condition; one that was keeps it while it waits."""

    async def story() -> list[list[tuple[str, str, str]]]:
        setting = Setting()
        seen = []
        for condition, preempted in (("True", ""), ("False", "for default/p: reclaims"), ("False", ""), ("True", "")):
            said = replace(status(condition, "r"), preempted=preempted)
            await setting.api.update_group_status(GROUP, setting.group.uid, said)
            written = setting.cluster.get(COSCHEDULING_POD_GROUPS, "default", "g").json["status"]
            told = [c for c in written["conditions"] if c["type"] == "Preempted"]
            seen.append([(c["status"], c["reason"], c["message"]) for c in told])
        return seen

    stands = [("True", "Preempted", "for default/p: reclaims")]
    assert virtually(story()) == [[], stands, stands, [("False", "r", "why")]]


def test_an_eviction_of_what_is_gone_or_another_is_a_success(virtually: Virtually) -> None:
    """Nobody is there any more who should go; the namesake stays."""

    async def story() -> bool:
        setting = Setting()
        await setting.api.evict(PodKey("default", "gone", "u"))
        await setting.api.evict(PodKey("default", "a", "another"))
        return setting.cluster.find(WatchedKind.POD, "default", "a") is not None

    assert virtually(story())


def test_an_eviction_deletes_the_pod_unless_a_budget_forbids_it(virtually: Virtually) -> None:
    """A dry run deletes nothing; the refusal of a budget is told as such, and so is that there are two."""

    async def story() -> tuple[bool, bool, list[int]]:
        setting = Setting()
        await setting.api.evict(setting.key, dry_run=True)
        still = setting.cluster.find(WatchedKind.POD, "default", "a") is not None
        await setting.api.evict(setting.key)
        gone = setting.cluster.find(WatchedKind.POD, "default", "a") is None
        running = setting.cluster.create(WatchedKind.POD, pod_json("b", node="n"))
        setting.cluster.create(
            WatchedKind.DISRUPTION_BUDGET,
            {
                "metadata": {"name": "all"},
                "spec": {"selector": {}},
                "status": {"observedGeneration": 1, "disruptionsAllowed": 0, "desiredHealthy": 1, "currentHealthy": 1},
            },
        )
        statuses = []
        for name in ("second", "third"):
            with pytest.raises(BudgetError) as refused:
                await setting.api.evict(PodKey("default", "b", running.uid))
            statuses.append(refused.value.status)
            setting.cluster.create(
                WatchedKind.DISRUPTION_BUDGET, {"metadata": {"name": name}, "spec": {"selector": {}}}
            )
        return still, gone, statuses

    assert virtually(story()) == (True, True, [429, 429])


def test_a_gate_is_taken_off_and_others_stay(virtually: Virtually) -> None:
    """One that is not there, or not any more, is no error."""

    async def story() -> list[tuple[str, ...]]:
        setting = Setting()

        def gate(json: dict[str, Any]) -> None:
            json["spec"]["schedulingGates"] = [{"name": "x"}, {"name": "y"}]

        setting.cluster.update(WatchedKind.POD, ("default", "a"), gate)
        seen = []
        for name in ("x", "x", "y", "y"):
            await setting.api.ungate(setting.key, name)
            seen.append(setting.cluster.get(WatchedKind.POD, "default", "a").pod.gates)
        return seen

    assert virtually(story()) == [("y",), ("y",), (), ()]


def test_the_status_of_a_queue_is_what_its_crd_has(virtually: Virtually) -> None:
    """Quantities as text by flavor and resource, the condition Active, and the history where one is kept."""

    async def story() -> list[dict[str, Any]]:
        setting = Setting()
        written = []
        past = replace(
            QUEUE_STATUS,
            row=structs.replace(QUEUE_STATUS.row, active=False),
            history=(("cpu", 2500.0),),
            history_at="2026-01-01T00:00:00Z",
        )
        for said in (QUEUE_STATUS, past):
            await setting.api.update_queue_status("q", setting.queue.uid, said)
            written.append(setting.cluster.get(WatchedKind.QUEUE, "", "q").json["status"])
        return written

    first, second = virtually(story())
    (condition,) = first.pop("conditions")
    assert (condition["type"], condition["status"], condition["reason"]) == ("Active", "True", "Ready")
    assert first == {
        "flavors": [
            {
                "name": "reserved",
                "resources": [
                    {"name": "cpu", "used": "1500m", "borrowed": "500m", "lent": "0", "nominal": "1", "reserved": "0"},
                    {
                        "name": "nvidia.com/gpu",
                        "used": "24",
                        "borrowed": "8",
                        "lent": "0",
                        "nominal": "16",
                        "reserved": "0",
                    },
                ],
            },
            {
                "name": "spot",
                "resources": [
                    {
                        "name": "nvidia.com/gpu",
                        "used": "0",
                        "borrowed": "0",
                        "lent": "4",
                        "nominal": "16",
                        "reserved": "0",
                    }
                ],
            },
        ],
        "share": "0.25",
        "pendingGangs": 2,
        "admittedGangs": 3,
        "history": [],
        "observedGeneration": 1,
    }
    assert second["conditions"][0]["status"] == "False"
    assert (second["history"], second["historyAt"]) == ([{"resource": "cpu", "usage": "2.5"}], "2026-01-01T00:00:00Z")


def test_events_are_recorded(virtually: Virtually) -> None:
    """An Event ends up in the cluster's log."""

    async def story() -> int:
        setting = Setting()
        about = ObjectRef("v1", "Pod", "default", "a", setting.pod.uid)
        await setting.api.record_event(ClusterEvent(about, warning=False, reason="r", message="m", action="x"))
        return len(setting.cluster.events.about("a", "r"))

    assert virtually(story()) == 1


def test_a_write_takes_its_time(virtually: Virtually) -> None:
    """With latency a write is made that much later."""

    async def story() -> tuple[str, float]:
        setting = Setting(latency=0.25)
        writing = asyncio.create_task(setting.api.nominate(setting.key, "n"))
        await asyncio.sleep(0.2)
        before = setting.nominated()
        await writing
        assert setting.nominated() == "n"
        return before, asyncio.get_running_loop().time()

    assert virtually(story()) == ("", 0.25)


@pytest.mark.parametrize(
    ("kind", "api_version", "field", "spec"),
    [
        (WatchedKind.JOB, "batch/v1", ("spec", "suspend"), {"parallelism": 2, "template": {"spec": POD_SPEC}}),
        (
            "pytorchjobs.kubeflow.org",
            "kubeflow.org/v1",
            ("spec", "runPolicy", "suspend"),
            {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": POD_SPEC}}}},
        ),
    ],
)
def test_any_object_is_suspended_and_resumed_by_its_own_field(
    virtually: Virtually, kind: str, api_version: str, field: tuple[str, ...], spec: dict[str, Any]
) -> None:
    """With the place of its pods as an annotation; not in a version that has changed since."""

    async def story() -> list[tuple[bool, str]]:
        setting = Setting()
        meta = {"name": "j", "labels": {QUEUE: "q"}}
        spec_of = spec | ({"suspend": True} if len(field) == 2 else {"runPolicy": {"suspend": True}})
        body = {"apiVersion": api_version, "kind": ROWS[kind].kind, "metadata": meta, "spec": spec_of}
        found = []
        setting.cluster.create(kind, body)

        def seen() -> Suspendable:
            news = ROWS[kind].seen(setting.cluster.get(kind, "default", "j").item, Known())
            return next(each.workload for each in news if isinstance(each, WorkloadSeen))

        for place in ("n*2", None):
            before = seen()
            await setting.api.suspend(before, place)
            after = seen()
            found.append((after.suspended, after.place))
            with pytest.raises(ApiError, match="has changed since"):
                await setting.api.suspend(before, "n*2")
            assert after.field == field
        return found

    assert virtually(story()) == [(False, "n*2"), (True, "")]
