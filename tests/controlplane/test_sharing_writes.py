"""Evictions, scheduling gates and the status of Queues on a real API server, under Muster's own ServiceAccount."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from extender.clock import ManualClock, SystemClock
from extender.control.ports import ApiError, BudgetError, PodKey
from extender.explain.documents import PayerUse, QueueRow, QuotaUse
from extender.explain.views import QueueReport
from extender.kube.credentials import KubeConfig
from extender.kube.transport import Transport
from extender.kube.writer import KubeClusterApi
from extender.objects.budget import decode_disruption_budget, read_budget
from extender.objects.keys import ADMISSION_GATE
from extender.objects.queue import decode_queue, read_queue
from localcluster.client import POD_DISRUPTION_BUDGETS, PODS, QUEUES, JsonObject
from localcluster.cluster import LocalCluster
from localcluster.sandbox import Sandbox
from localcluster.story import Pod
from tests.builders import GPU, written

pytestmark = pytest.mark.controlplane

#: Pods of this scheduler stay where they are.
NOBODY = "nobody"
#: Keeps what was deleted in sight.
FINALIZER = "example.com/look"
TEAM = {"team": "red"}


@pytest.fixture
async def api(local_cluster: LocalCluster, cluster: Sandbox, tmp_path: Path) -> AsyncIterator[KubeClusterApi]:
    """Write to the emptied cluster as Muster."""
    assert cluster.empty
    kubeconfig = local_cluster.service_account("muster").write_kubeconfig(tmp_path / "kubeconfig")
    async with await Transport.connect(KubeConfig((kubeconfig,)), SystemClock()) as transport:
        yield KubeClusterApi(transport, ManualClock(), "muster-0")


def key_of(pod: Pod) -> PodKey:
    """Return the key of a pod."""
    return PodKey(pod.namespace, pod.name, pod.uid)


def stored(cluster: Sandbox, pod: Pod) -> JsonObject:
    """Return a pod as it stands."""
    return cluster.api.get(PODS, pod.name, pod.namespace)


def running(cluster: Sandbox, name: str = "one") -> Pod:
    """Run a pod of the team on a node; budgets are about such pods alone."""
    (node,) = cluster.node_names or cluster.nodes(1)
    pod = cluster.pod(name, scheduler=NOBODY, node_name=node, labels=TEAM)
    pod.wait_phase("Running")
    return pod


def protect(cluster: Sandbox, name: str, *, allowed: int, observed: int = 1) -> None:
    """Protect the team's pods by a budget, with the status that kube-controller-manager would give it."""
    cluster.disruption_budget(name, min_available=1, labels=TEAM)
    status = {
        "disruptionsAllowed": allowed,
        "currentHealthy": 1 + allowed,
        "desiredHealthy": 1,
        "expectedPods": 1 + allowed,
        "observedGeneration": observed,
    }
    patch = {"status": status}
    cluster.api.patch(POD_DISRUPTION_BUDGETS, name, patch, namespace="default", subresource="status")


class TestEvict:
    """Evictions."""

    async def test_pod_is_deleted_as_the_target_of_a_disruption(self, api: KubeClusterApi, cluster: Sandbox) -> None:
        """Its controllers see that it was evicted; to evict it again, or a pod that is long gone, is success too."""
        pod = cluster.pod("one", scheduler=NOBODY, finalizers=(FINALIZER,))
        await api.evict(key_of(pod))
        found = stored(cluster, pod)
        assert found["metadata"]["deletionTimestamp"]
        (target,) = (c for c in found["status"]["conditions"] if c["type"] == "DisruptionTarget")
        assert (target["status"], target["reason"]) == ("True", "EvictionByEvictionAPI")
        await api.evict(key_of(pod))
        cluster.api.patch(PODS, pod.name, {"metadata": {"finalizers": None}}, namespace=pod.namespace)
        await api.evict(PodKey("default", "nobody", "uid"))

    async def test_dry_run_changes_nothing(self, api: KubeClusterApi, cluster: Sandbox) -> None:
        """Not even the condition is set; a budget that allows one disruption allows it afterwards."""
        pod = running(cluster)
        protect(cluster, "budget", allowed=1)
        await api.evict(key_of(pod), dry_run=True)
        found = stored(cluster, pod)
        assert "deletionTimestamp" not in found["metadata"]
        assert "DisruptionTarget" not in [c["type"] for c in found["status"]["conditions"]]
        budget = cluster.api.get(POD_DISRUPTION_BUDGETS, "budget", "default")
        assert budget["status"]["disruptionsAllowed"] == 1

    async def test_namesake_is_spared(self, api: KubeClusterApi, cluster: Sandbox) -> None:
        """A pod with another UID is not the one that was meant, which is gone: that is success."""
        pod = cluster.pod("one", scheduler=NOBODY)
        old = key_of(pod)
        pod.recreate()
        await api.evict(old)
        assert "deletionTimestamp" not in stored(cluster, pod)["metadata"]

    async def test_budget_is_respected(self, api: KubeClusterApi, cluster: Sandbox) -> None:
        """A budget that allows nothing refuses both eviction and dry run; one that allows one pays for it."""
        pod, other = running(cluster, "one"), running(cluster, "two")
        protect(cluster, "budget", allowed=0)
        for dry_run in (True, False):
            with pytest.raises(BudgetError, match="would violate the pod's disruption budget") as refused:
                await api.evict(key_of(pod), dry_run=dry_run)
            assert (refused.value.status, refused.value.transient) == (429, True)
        assert "deletionTimestamp" not in stored(cluster, pod)["metadata"]
        allowed = {"status": {"disruptionsAllowed": 1}}
        cluster.api.patch(POD_DISRUPTION_BUDGETS, "budget", allowed, namespace="default", subresource="status")
        await api.evict(key_of(pod))
        with pytest.raises(BudgetError):
            await api.evict(key_of(other))

    async def test_what_stands_in_the_budget_is_what_the_server_goes_by(
        self, api: KubeClusterApi, cluster: Sandbox
    ) -> None:
        """A budget nobody has looked at yet allows nothing, and the server says how long to wait."""
        pod = running(cluster)
        protect(cluster, "budget", allowed=5, observed=0)
        document = cluster.api.get(POD_DISRUPTION_BUDGETS, "budget", "default")
        budget = read_budget(decode_disruption_budget(written(document)))
        assert budget.matches("default", TEAM)
        assert budget.allowed == 0
        with pytest.raises(BudgetError) as refused:
            await api.evict(key_of(pod))
        assert refused.value.retry_after == 10.0

    async def test_two_budgets_forbid_it(self, api: KubeClusterApi, cluster: Sandbox) -> None:
        """The server evicts no pod that two budgets are about, whatever they allow, and calls it its own fault."""
        pod = running(cluster)
        for name in ("one", "two"):
            protect(cluster, name, allowed=5)
        with pytest.raises(BudgetError, match="more than one PodDisruptionBudget") as refused:
            await api.evict(key_of(pod))
        assert refused.value.status == 429


class TestUngate:
    """Scheduling gates."""

    async def test_one_gate_is_taken_off(self, api: KubeClusterApi, cluster: Sandbox) -> None:
        """Other gates stay, and taking it off twice is success."""
        pod = cluster.pod("one", scheduler=NOBODY, gates=("example.com/wait", ADMISSION_GATE))
        for _ in range(2):
            await api.ungate(key_of(pod), ADMISSION_GATE)
            assert stored(cluster, pod)["spec"]["schedulingGates"] == [{"name": "example.com/wait"}]
        await api.ungate(key_of(pod), "example.com/wait")
        assert not stored(cluster, pod)["spec"].get("schedulingGates")

    async def test_namesake_keeps_its_gates(self, api: KubeClusterApi, cluster: Sandbox) -> None:
        """Another UID is a conflict; a pod that is gone is not found."""
        pod = cluster.pod("one", scheduler=NOBODY, gates=(ADMISSION_GATE,))
        old = key_of(pod)
        pod.recreate()
        for key, status in ((old, 409), (PodKey("default", "nobody", "uid"), 404)):
            with pytest.raises(ApiError) as refused:
                await api.ungate(key, ADMISSION_GATE)
            assert refused.value.status == status
        assert stored(cluster, pod)["spec"]["schedulingGates"] == [{"name": ADMISSION_GATE}]


STATUS = QueueReport(
    QueueRow(
        name="research",
        parent="",
        active=True,
        reason="",
        message="",
        share=0.25,
        pending_gangs=1,
        admitted_gangs=3,
        flavors=(
            QuotaUse("a100", GPU, nominal=16, used=24, borrowed=8, lent=0),
            QuotaUse("a100", "cpu", nominal=0, used=1500, borrowed=0, lent=0),
        ),
        running=(
            PayerUse("user", "jane", gpus=16, gangs=2, most_gpus=32, most_gangs=None),
            PayerUse("group", "", gpus=0, gangs=1, most_gpus=None, most_gangs=4),
        ),
    ),
    generation=1,
    history=((GPU, 20.25), ("cpu", 1250.5)),
    history_at="2026-01-01T00:00:00Z",
)


class TestUpdateQueueStatus:
    """The status of a Queue."""

    async def test_status_is_stored_and_history_read_again(self, api: KubeClusterApi, cluster: Sandbox) -> None:
        """Everything is there afterwards as the CRD has it, and what Muster remembered comes back."""
        uid = self._create(cluster)
        await api.update_queue_status("research", uid, STATUS)
        document = cluster.api.get(QUEUES, "research")
        status = document["status"]
        amounts = {"used": "24", "reserved": "0", "borrowed": "8", "lent": "0", "nominal": "16"}
        assert status["flavors"][0]["resources"][0] == {"name": GPU, **amounts}
        assert (status["share"], status["pendingGangs"], status["admittedGangs"]) == ("0.25", 1, 3)
        assert status["running"] == [
            {"kind": "user", "name": "jane", "gpus": 16, "gangs": 2, "mostGpus": 32},
            {"kind": "group", "name": "", "gpus": 0, "gangs": 1, "mostGangs": 4},
        ]
        (condition,) = status["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == ("Active", "True", "Ready")
        queue = read_queue(decode_queue(written(document)))
        assert (dict(queue.history), queue.history_at) == (dict(STATUS.history), STATUS.history_at)
        await api.update_queue_status("research", uid, dataclasses.replace(STATUS, history=(), history_at=""))
        assert "historyAt" not in cluster.api.get(QUEUES, "research")["status"]

    async def test_namesake_is_not_written_to(self, api: KubeClusterApi, cluster: Sandbox) -> None:
        """A Queue that was made again since has a status of its own."""
        uid = self._create(cluster)
        await api.update_queue_status("research", uid, STATUS)
        cluster.api.delete(QUEUES, "research")
        cluster.api.create(_queue())
        with pytest.raises(ApiError) as refused:
            await api.update_queue_status("research", uid, STATUS)
        assert refused.value.status == 409
        assert "status" not in cluster.api.get(QUEUES, "research")

    @staticmethod
    def _create(cluster: Sandbox) -> str:
        """Create the Queue, which goes away with the story; return its UID."""
        cluster.create(_queue())
        uid: str = cluster.api.get(QUEUES, "research")["metadata"]["uid"]
        return uid


def _queue() -> JsonObject:
    return {
        "apiVersion": QUEUES.api_version,
        "kind": QUEUES.kind,
        "metadata": {"name": "research"},
        "spec": {"flavors": [{"name": "a100", "resources": [{"name": GPU, "nominalQuota": 16}]}]},
    }
