"""Evictions through the API server, PodDisruptionBudgets, and what is written down of evictions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from extender.control.ports import ApiError, BudgetError, ClusterEvent, PodKey, WatchedKind
from muster_lab.simulation.cluster import Cluster
from muster_lab.simulation.disruption import DisruptionController
from muster_lab.simulation.evictions import EvictionCause, EvictionRecord, causes, evict
from muster_lab.simulation.kubelet import Kubelet
from muster_lab.simulation.scenario import DisruptionLimit
from muster_lab.simulation.workload import Workload, WorkloadSite
from tests.builders import node_json, pod_json
from tests.lab.conftest import Virtually, loop_clock, reach
from tests.lab.simulation.test_workload import gang


class Setting:
    """A cluster with kubelets, a disruption controller, and a gang of three on node n."""

    def __init__(self, **fields: Any) -> None:
        """Start on the running loop; `fields` are the gang's."""
        self.clock = loop_clock()
        self.cluster = Cluster(self.clock)
        self.record = EvictionRecord(self.cluster, self.clock)
        self.cluster.create(WatchedKind.NODE, node_json("n"))
        Kubelet(self.cluster, self.clock)
        self.workload = Workload(WorkloadSite(self.cluster, self.clock, "muster"))
        DisruptionController(self.cluster, self.workload.scale)
        self.workload.add([gang(size=3, gpus=2, **fields)])

    async def start(self) -> None:
        """Bind the gang's pods and let them run."""
        for index in range(3):
            self.cluster.bind("default", f"g-{index}", "n")
        await self.settle()

    async def settle(self) -> None:
        """Let everything happen that takes no time."""
        await reach(self.clock.elapsed())

    def key(self, name: str) -> PodKey:
        """Return the key of a pod as it stands."""
        return PodKey("default", name, self.cluster.get(WatchedKind.POD, "default", name).uid)

    def evict(self, name: str, *, dry_run: bool = False) -> None:
        """Evict a pod."""
        evict(self.cluster, self.clock, self.key(name), dry_run=dry_run)

    def budget(self, name: str = "g") -> dict[str, Any]:
        """Return the status of a budget."""
        status: dict[str, Any] = self.cluster.get(WatchedKind.DISRUPTION_BUDGET, "default", name).json["status"]
        return status


def test_an_evicted_pod_is_marked_and_deleted_when_its_grace_period_is_over(virtually: Virtually) -> None:
    """It is the target of a disruption, and its controller makes another one in its place."""

    async def story() -> tuple[dict[str, Any], bool, bool]:
        setting = Setting(grace_period=30)
        await setting.start()
        key = setting.key("g-1")
        await reach(10)
        setting.evict("g-1")
        leaving = setting.cluster.get(WatchedKind.POD, "default", "g-1")
        (condition,) = [c for c in leaving.json["status"]["conditions"] if c["type"] == "DisruptionTarget"]
        await reach(41)
        again = setting.cluster.get(WatchedKind.POD, "default", "g-1")
        return condition, leaving.pod.deleting, again.uid != key.uid

    assert virtually(story()) == (
        {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
            "lastTransitionTime": "2026-01-01T00:00:10Z",
        },
        True,
        True,
    )


@pytest.mark.parametrize(
    ("limit", "status"),
    [
        (DisruptionLimit(min_available=2), {"desiredHealthy": 2, "disruptionsAllowed": 1}),
        (DisruptionLimit(max_unavailable=1), {"desiredHealthy": 2, "disruptionsAllowed": 1}),
        (DisruptionLimit(min_available=0), {"desiredHealthy": 0, "disruptionsAllowed": 3}),
        (DisruptionLimit(max_unavailable=9), {"desiredHealthy": 0, "disruptionsAllowed": 3}),
    ],
    ids=["minAvailable", "maxUnavailable", "none", "all"],
)
def test_the_status_of_a_budget_says_how_many_pods_may_go(
    virtually: Virtually, limit: DisruptionLimit, status: dict[str, int]
) -> None:
    """What runs and stays is healthy; before anything runs nothing may go."""

    async def story() -> tuple[int, dict[str, Any]]:
        setting = Setting(disruption_budget=limit)
        await setting.settle()
        before = setting.budget()["disruptionsAllowed"]
        await setting.start()
        return before, setting.budget()

    before, after = virtually(story())
    assert before == 0
    assert after == {"observedGeneration": 1, "expectedPods": 3, "currentHealthy": 3, **status}


def test_a_budget_allows_so_many_evictions_until_the_pods_are_back(virtually: Virtually) -> None:
    """Each takes one away at once; when another pod runs in its place the next one may go."""

    async def story() -> tuple[int, str, int, list[str]]:
        setting = Setting(disruption_budget=DisruptionLimit(max_unavailable=1))
        await setting.start()
        setting.evict("g-0")
        with pytest.raises(BudgetError) as at_once:
            setting.evict("g-1")
        await reach(5)
        with pytest.raises(BudgetError) as later:
            setting.evict("g-1")
        setting.cluster.bind("default", "g-0", "n")
        await reach(10)
        setting.evict("g-1")
        evicted = [eviction.pod.name for eviction in setting.record.evictions]
        return (
            at_once.value.status,
            later.value.message.partition(". ")[2],
            setting.budget()["disruptionsAllowed"],
            evicted,
        )

    assert virtually(story()) == (
        429,
        "The disruption budget g needs 2 healthy pods and has 2 currently",
        0,
        ["g-0", "g-1"],
    )


def test_a_dry_run_only_asks(virtually: Virtually) -> None:
    """It is refused as the eviction would be, and takes nothing from the budget."""

    async def story() -> tuple[int, int, bool, int]:
        setting = Setting(disruption_budget=DisruptionLimit(min_available=2))
        await setting.start()
        setting.evict("g-0", dry_run=True)
        setting.evict("g-1", dry_run=True)
        allowed = setting.budget()["disruptionsAllowed"]
        setting.evict("g-0")
        with pytest.raises(BudgetError) as refused:
            setting.evict("g-1", dry_run=True)
        there = setting.cluster.find(WatchedKind.POD, "default", "g-1") is not None
        return allowed, refused.value.status, there, len(setting.record.evictions)

    assert virtually(story()) == (1, 429, True, 1)


def test_pods_that_do_not_run_need_no_budget(virtually: Virtually) -> None:
    """One that waits, has ended or is being deleted may always go; what never had a node was not evicted from one."""

    async def story() -> list[str]:
        setting = Setting(disruption_budget=DisruptionLimit(min_available=3), grace_period=60)
        await setting.settle()
        setting.evict("g-2")
        await setting.settle()
        await setting.start()
        setting.cluster.delete(WatchedKind.POD, "default", "g-0")
        setting.evict("g-0")

        def succeed(json: dict[str, Any]) -> None:
            json["status"]["phase"] = "Succeeded"

        setting.cluster.update(WatchedKind.POD, ("default", "g-1"), succeed)
        setting.evict("g-1")
        return [eviction.pod.name for eviction in setting.record.evictions]

    assert virtually(story()) == ["g-0"]


def test_a_pod_with_two_budgets_cannot_be_evicted(virtually: Virtually) -> None:
    """The API server does not know which of them counts."""

    async def story() -> int:
        setting = Setting(disruption_budget=DisruptionLimit(min_available=0))
        await setting.start()
        other = setting.cluster.get(WatchedKind.DISRUPTION_BUDGET, "default", "g").json
        setting.cluster.create(
            WatchedKind.DISRUPTION_BUDGET, {**other, "metadata": {"name": "other", "namespace": "default"}}
        )
        with pytest.raises(BudgetError) as refused:
            setting.evict("g-0")
        return refused.value.status

    assert virtually(story()) == 500


def test_a_budget_that_its_controller_has_not_seen_allows_nothing_yet(virtually: Virtually) -> None:
    """The API server asks to come again."""

    async def story() -> tuple[int, float | None]:
        setting = Setting()
        await setting.start()
        selector = {"matchLabels": {"scheduling.x-k8s.io/pod-group": "g"}}
        setting.cluster.create(
            WatchedKind.DISRUPTION_BUDGET,
            {"metadata": {"name": "new"}, "spec": {"minAvailable": 0, "selector": selector}},
        )
        with pytest.raises(BudgetError) as refused:
            setting.evict("g-0")
        await setting.settle()
        setting.evict("g-0")
        return refused.value.status, refused.value.retry_after

    assert virtually(story()) == (429, 10.0)


def test_budgets_come_and_go(virtually: Virtually) -> None:
    """A deleted one forbids nothing, pods of nobody count each for itself, and other pods do not count."""

    async def story() -> tuple[int, int]:
        setting = Setting(disruption_budget=DisruptionLimit(max_unavailable=0))
        setting.cluster.create(WatchedKind.POD, pod_json("alone", labels={"app": "x"}, node="n"))
        setting.cluster.create(WatchedKind.POD, pod_json("other", labels={"app": "y"}, node="n"))
        setting.cluster.create(
            WatchedKind.DISRUPTION_BUDGET,
            {"metadata": {"name": "x"}, "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "x"}}}},
        )
        await setting.start()
        expected = setting.budget("x")["expectedPods"]
        with pytest.raises(BudgetError):
            setting.evict("g-0")
        setting.cluster.delete(WatchedKind.DISRUPTION_BUDGET, "default", "g")
        setting.evict("g-0")
        setting.cluster.delete(WatchedKind.POD, "default", "alone")
        setting.cluster.delete(WatchedKind.DISRUPTION_BUDGET, "default", "x")
        await setting.settle()
        return expected, len(setting.record.evictions)

    assert virtually(story()) == (1, 1)


def test_a_budget_that_is_deleted_before_its_status_is_written_does_no_harm(virtually: Virtually) -> None:
    """What cannot be written any more is not written."""

    async def story() -> int:
        setting = Setting(disruption_budget=DisruptionLimit(min_available=3))
        await setting.start()
        spec = {"minAvailable": 0, "selector": {}}
        setting.cluster.create(WatchedKind.DISRUPTION_BUDGET, {"metadata": {"name": "brief"}, "spec": spec})
        await asyncio.sleep(0)  # its controller has heard of it
        setting.cluster.delete(WatchedKind.DISRUPTION_BUDGET, "default", "brief")
        await setting.settle()
        return len(list(setting.cluster.list(WatchedKind.DISRUPTION_BUDGET)))

    assert virtually(story()) == 1


def test_evicting_what_is_gone_or_another_is_refused(virtually: Virtually) -> None:
    """As by the API server: the UID is a precondition."""

    async def story() -> list[int]:
        setting = Setting()
        statuses = []
        for key in (PodKey("default", "gone", "u"), PodKey("default", "g-0", "u")):
            with pytest.raises(ApiError) as refused:
                evict(setting.cluster, setting.clock, key)
            statuses.append(refused.value.status)
        return statuses

    assert virtually(story()) == [404, 409]


def test_events_say_for_whom_and_why_a_pod_was_evicted(virtually: Virtually) -> None:
    """Muster's about the pod, kube-scheduler's own list, and nobody where neither knows."""

    async def story() -> tuple[dict[str, EvictionCause], list[str]]:
        setting = Setting()
        await setting.start()
        uids = []
        for index, (reason, message) in enumerate(
            (
                ("Reclaimed", "evicted for research/big: reclaims 8 nvidia.com/gpu"),
                ("Killing", "Stopping container main"),
                ("Scheduled", "evicted for nobody"),
            )
        ):
            version = setting.cluster.get(WatchedKind.POD, "default", f"g-{index}")
            uids.append(version.uid)
            setting.cluster.record(ClusterEvent(version.ref, warning=False, reason=reason, message=message, action="x"))
            setting.evict(f"g-{index}")
        return causes(setting.cluster.events, {uids[2]: "default/p", "else": "default/q"}, uids), uids

    found, uids = virtually(story())
    assert found == {
        uids[0]: EvictionCause("research/big", "Reclaimed"),
        uids[1]: EvictionCause("", "Evicted"),
        uids[2]: EvictionCause("default/p", "Preempted"),
    }


def test_an_eviction_is_written_down_once_and_with_its_time(virtually: Virtually) -> None:
    """However often the pod changes while it terminates."""

    async def story() -> list[tuple[float, str, str]]:
        setting = Setting(grace_period=30)
        await setting.start()
        await asyncio.sleep(7)
        setting.evict("g-0")
        setting.evict("g-0")
        await reach(100)
        return [(eviction.at, eviction.pod.name, eviction.pod.node_name) for eviction in setting.record.evictions]

    assert virtually(story()) == [(7.0, "g-0", "n")]
