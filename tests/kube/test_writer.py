"""The writes: which requests they are, and which answers count as success."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.clock import ManualClock
from extender.control.ports import ApiError, BudgetError, ClusterEvent, PodKey
from extender.explain.views import GroupStatus, QueueReport
from extender.kube.transport import Transport
from extender.kube.writer import KubeClusterApi
from extender.objects.meta import ObjectRef
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.objects.workload import Suspendable
from tests.builders import queue_row
from tests.kube.apiscript import Answer, ApiScript, JsonObject, named, page, refuses, says, status_object

POD = PodKey("x", "p", "uid-p")
POD_PATH = "/api/v1/namespaces/x/pods/p"
JOB_PATH = "/apis/batch/v1/namespaces/x/jobs/j"
WORKLOAD = Suspendable(
    ObjectRef("batch/v1", "Job", "x", "j", "uid-j"),
    "jobs",
    "7",
    PodGroup(GroupRef("batch", "x", "j"), "uid-j"),
    (),
    2,
    suspended=True,
)
OK = says({"kind": "Status", "status": "Success"})
THERE = says(named("p", namespace="x"))
BOUND_ALREADY = refuses(
    409,
    "Conflict",
    'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n"',
)


@pytest.fixture
def api(transport: Transport, clock: ManualClock) -> KubeClusterApi:
    """Write to the scripted server as `muster-0`."""
    return KubeClusterApi(transport, clock, "muster-0")


class TestNominate:
    """Setting `status.nominatedNodeName`."""

    async def test_nomination_is_a_patch_of_the_status_with_the_uid(
        self, script: ApiScript, api: KubeClusterApi
    ) -> None:
        """The UID goes along, so that a namesake is refused by the server."""
        script.plan(f"{POD_PATH}/status", OK)
        await api.nominate(POD, "n")
        (request,) = script.requests
        assert request.method == "PATCH"
        assert request.headers["Content-Type"] == "application/merge-patch+json"
        assert request.body == {"metadata": {"uid": "uid-p"}, "status": {"nominatedNodeName": "n"}}

    async def test_empty_node_clears_the_nomination(self, script: ApiScript, api: KubeClusterApi) -> None:
        """In a merge patch, null deletes."""
        script.plan(f"{POD_PATH}/status", OK)
        await api.nominate(POD, "")
        body = script.requests[0].body
        assert body is not None
        assert body["status"] == {"nominatedNodeName": None}

    @pytest.mark.parametrize(
        "complaint",
        [
            'metadata.uid: Invalid value: "uid-p": field is immutable',
            "status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node",
        ],
        ids=["namesake", "bound"],
    )
    async def test_nomination_that_comes_too_late_is_a_conflict(
        self, script: ApiScript, api: KubeClusterApi, complaint: str
    ) -> None:
        """The server calls it invalid that the pod is another one or bound by now; for the caller it is a 409."""
        script.plan(f"{POD_PATH}/status", refuses(422, "Invalid", f'Pod "p" is invalid: {complaint}'))
        with pytest.raises(ApiError, match=f"409 Conflict: the nomination is outdated: .*{complaint}"):
            await api.nominate(POD, "n")

    @pytest.mark.parametrize(("status", "reason"), [(404, "NotFound"), (422, "Invalid"), (500, "InternalError")])
    async def test_refusal_is_the_callers(
        self, script: ApiScript, api: KubeClusterApi, status: int, reason: str
    ) -> None:
        """Any other answer comes out as it is, after one request."""
        script.plan(f"{POD_PATH}/status", refuses(status, reason, "status.nominatedNodeName: Invalid value"))
        with pytest.raises(ApiError) as refused:
            await api.nominate(POD, "n")
        assert (refused.value.status, refused.value.reason) == (status, reason)
        assert len(script.requests) == 1


class TestBind:
    """Creating Bindings."""

    async def test_binding_names_pod_uid_and_node(self, script: ApiScript, api: KubeClusterApi) -> None:
        """One POST to the pod's binding subresource, with the UID as precondition."""
        script.plan(f"{POD_PATH}/binding", OK)
        await api.bind(POD, "n")
        (request,) = script.requests
        assert request.method == "POST"
        assert request.body == {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": "x", "name": "p", "uid": "uid-p"},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
        }

    async def test_annotations_go_along_with_the_binding(self, script: ApiScript, api: KubeClusterApi) -> None:
        """What the pod is to be annotated with stands in the Binding's metadata: there is no second request."""
        script.plan(f"{POD_PATH}/binding", OK)
        await api.bind(POD, "n", {"muster.dev/predicted-gpus": "0,1"})
        (request,) = script.requests
        assert request.body is not None
        assert request.body["metadata"] == {
            "namespace": "x",
            "name": "p",
            "uid": "uid-p",
            "annotations": {"muster.dev/predicted-gpus": "0,1"},
        }

    async def test_pod_on_that_node_already_is_success(self, script: ApiScript, api: KubeClusterApi) -> None:
        """A conflict with a pod that is where it should be is no failure: an earlier answer was lost."""
        script.plan(f"{POD_PATH}/binding", BOUND_ALREADY)
        script.plan(POD_PATH, says(named("p", namespace="x", spec={"nodeName": "n"})))
        await api.bind(POD, "n")
        assert [request.method for request in script.requests] == ["POST", "GET"]

    @pytest.mark.parametrize(
        "found",
        [
            named("p", namespace="x", spec={"nodeName": "other"}),
            named("p", "uid-of-another", namespace="x", spec={"nodeName": "n"}),
            named("p", namespace="x", spec={"schedulingGates": [{"name": "wait"}]}),
            named("p", namespace="x"),
            {"spec": {"nodeName": "n"}},
            {"spec": 7},
        ],
        ids=["other node", "other pod", "gated", "no spec", "nobody", "unreadable"],
    )
    async def test_any_other_conflict_is_an_error(
        self, script: ApiScript, api: KubeClusterApi, found: JsonObject
    ) -> None:
        """A pod that is elsewhere, another one, or not bound at all is what the server said: a conflict."""
        script.plan(f"{POD_PATH}/binding", BOUND_ALREADY)
        script.plan(POD_PATH, says(found))
        with pytest.raises(ApiError, match="409 Conflict: Operation cannot be fulfilled"):
            await api.bind(POD, "n")

    async def test_doubt_about_a_conflict_may_pass(self, script: ApiScript, api: KubeClusterApi) -> None:
        """When it cannot be found out where the pod is, the error is one that is worth another attempt."""
        script.plan(f"{POD_PATH}/binding", BOUND_ALREADY)
        script.plan(POD_PATH, refuses(503, "ServiceUnavailable"))
        with pytest.raises(ApiError) as doubt:
            await api.bind(POD, "n")
        assert doubt.value.transient

    async def test_other_refusals_ask_nothing_more(self, script: ApiScript, api: KubeClusterApi) -> None:
        """A pod that does not exist is not looked for."""
        script.plan(f"{POD_PATH}/binding", refuses(404, "NotFound"))
        with pytest.raises(ApiError, match="404"):
            await api.bind(POD, "n")
        assert len(script.requests) == 1


class TestEvict:
    """Creating Evictions."""

    PATH = f"{POD_PATH}/eviction"

    async def test_eviction_names_the_uid(self, script: ApiScript, api: KubeClusterApi) -> None:
        """The UID is a precondition of the deletion, so that a namesake is spared."""
        script.plan(POD_PATH, THERE)
        script.plan(self.PATH, OK)
        await api.evict(POD)
        assert [request.method for request in script.requests] == ["GET", "POST"]
        assert script.requests[1].body == {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": "x", "name": "p"},
            "deleteOptions": {"preconditions": {"uid": "uid-p"}},
        }

    async def test_dry_run_is_the_servers(self, script: ApiScript, api: KubeClusterApi) -> None:
        """The server says what it would do, and does not do it."""
        script.plan(POD_PATH, THERE)
        script.plan(self.PATH, OK)
        await api.evict(POD, dry_run=True)
        body = script.requests[1].body
        assert body is not None
        assert body["deleteOptions"] == {"preconditions": {"uid": "uid-p"}, "dryRun": ["All"]}

    @pytest.mark.parametrize(
        "found",
        [says(named("p", "uid-of-another", namespace="x")), refuses(404, "NotFound")],
        ids=["another", "gone"],
    )
    async def test_pod_that_is_gone_is_success(self, script: ApiScript, api: KubeClusterApi, found: Answer) -> None:
        """Nobody holds its place any more; its namesake is not even asked about."""
        script.plan(POD_PATH, found)
        await api.evict(POD)
        assert len(script.requests) == 1

    @pytest.mark.parametrize(
        "found",
        [says(named("p", "uid-of-another", namespace="x")), refuses(404, "NotFound")],
        ids=["another", "gone"],
    )
    async def test_pod_that_goes_meanwhile_is_success(
        self, script: ApiScript, api: KubeClusterApi, found: Answer
    ) -> None:
        """A conflict may mean that the UID is another one by now; the pod itself tells."""
        script.plan(POD_PATH, THERE, found, THERE)
        script.plan(self.PATH, refuses(409, "Conflict"), refuses(404, "NotFound"))
        for _ in range(2):
            await api.evict(POD)
        assert [request.method for request in script.requests] == ["GET", "POST", "GET", "GET", "POST"]

    @pytest.mark.parametrize("found", [THERE, says({"metadata": 7}), says({}), refuses(503, "Unavailable")])
    async def test_other_conflicts_may_pass(self, script: ApiScript, api: KubeClusterApi, found: Answer) -> None:
        """Where the pod is there still, or nobody can tell, another attempt is worth making."""
        script.plan(POD_PATH, THERE, found)
        script.plan(self.PATH, refuses(409, "Conflict"))
        with pytest.raises(ApiError) as conflict:
            await api.evict(POD)
        assert conflict.value.transient
        assert not isinstance(conflict.value, BudgetError)

    @pytest.mark.parametrize(("code", "headers", "wait"), [(429, {"Retry-After": "10"}, 10.0), (403, {}, None)])
    async def test_budget_says_no(
        self, script: ApiScript, api: KubeClusterApi, code: int, headers: dict[str, str], wait: float | None
    ) -> None:
        """A refusal for the sake of a PodDisruptionBudget is told as that, with the time that the server asks for."""
        cause = {"reason": "DisruptionBudget", "message": "The disruption budget b needs 2 healthy pods and has 2"}
        status = status_object(code, "TooManyRequests", "Cannot evict pod") | {"details": {"causes": [cause]}}
        script.plan(POD_PATH, THERE)
        script.plan(self.PATH, says(status, code, headers))
        with pytest.raises(BudgetError, match="Cannot evict pod") as refused:
            await api.evict(POD)
        assert (refused.value.status, refused.value.retry_after) == (429, wait)

    async def test_two_budgets_are_a_no(self, script: ApiScript, api: KubeClusterApi) -> None:
        """The server calls it an internal error, which it stays until somebody deletes one of the budgets."""
        two = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        script.plan(POD_PATH, THERE)
        script.plan(self.PATH, refuses(500, "InternalError", two))
        with pytest.raises(BudgetError, match="more than one PodDisruptionBudget") as refused:
            await api.evict(POD)
        assert refused.value.status == 429

    @pytest.mark.parametrize(("code", "transient"), [(429, True), (500, True), (403, False)])
    async def test_other_refusals_are_the_callers(
        self, script: ApiScript, api: KubeClusterApi, code: int, *, transient: bool
    ) -> None:
        """A server that is busy or broken says nothing about budgets."""
        script.plan(POD_PATH, THERE)
        script.plan(self.PATH, refuses(code, "Reason"))
        with pytest.raises(ApiError) as refused:
            await api.evict(POD)
        assert type(refused.value) is ApiError
        assert (refused.value.status, refused.value.transient) == (code, transient)


class TestUngate:
    """Taking a scheduling gate off."""

    async def test_gate_is_deleted_by_its_name(self, script: ApiScript, api: KubeClusterApi) -> None:
        """A strategic merge patch finds it, whatever other gates there are; the UID goes along."""
        script.plan(POD_PATH, OK)
        await api.ungate(POD, "muster.dev/admission")
        (request,) = script.requests
        assert request.method == "PATCH"
        assert request.headers["Content-Type"] == "application/strategic-merge-patch+json"
        assert request.body == {
            "metadata": {"uid": "uid-p"},
            "spec": {"schedulingGates": [{"$patch": "delete", "name": "muster.dev/admission"}]},
        }

    async def test_namesake_is_a_conflict(self, script: ApiScript, api: KubeClusterApi) -> None:
        """The server calls another UID invalid; for the caller it is a 409."""
        complaint = 'Pod "p" is invalid: metadata.uid: Invalid value: "uid-p": field is immutable'
        script.plan(POD_PATH, refuses(422, "Invalid", complaint))
        with pytest.raises(ApiError, match="409 Conflict: the pod is another one now"):
            await api.ungate(POD, "muster.dev/admission")

    @pytest.mark.parametrize(("code", "reason"), [(404, "NotFound"), (422, "Invalid")])
    async def test_refusal_is_the_callers(self, script: ApiScript, api: KubeClusterApi, code: int, reason: str) -> None:
        """Any other answer comes out as it is."""
        script.plan(POD_PATH, refuses(code, reason))
        with pytest.raises(ApiError) as refused:
            await api.ungate(POD, "muster.dev/admission")
        assert (refused.value.status, refused.value.reason) == (code, reason)


class TestNotify:
    """A pod is told that it is to be evicted."""

    @pytest.mark.parametrize(("planned", "status"), [("FROM/UNTIL", "True"), ("", "False")])
    async def test_annotation_and_condition_are_one_patch(
        self, script: ApiScript, api: KubeClusterApi, planned: str, status: str
    ) -> None:
        """Other conditions stay as they are: the patch is a strategic one."""
        script.plan(f"{POD_PATH}/status", OK)
        await api.notify(POD, planned, "Preempted", "for others")
        (request,) = script.requests
        assert request.headers["Content-Type"] == "application/strategic-merge-patch+json"
        assert request.body is not None
        assert request.body["metadata"] == {
            "uid": "uid-p",
            "annotations": {"muster.dev/eviction-planned": planned or None},
        }
        (condition,) = request.body["status"]["conditions"]
        assert condition.pop("lastTransitionTime")
        assert condition == {
            "type": "muster.dev/EvictionPlanned",
            "status": status,
            "reason": "Preempted",
            "message": "for others",
        }

    async def test_a_namesake_is_a_conflict(self, script: ApiScript, api: KubeClusterApi) -> None:
        """It is told nothing."""
        complaint = 'Pod "p" is invalid: metadata.uid: Invalid value: "uid-p": field is immutable'
        script.plan(f"{POD_PATH}/status", refuses(422, "Invalid", complaint))
        with pytest.raises(ApiError, match="409 Conflict: the pod is another one now"):
            await api.notify(POD, "", "Withdrawn", "")


class TestSuspending:
    """Jobs are suspended and resumed by one patch each."""

    async def test_a_job_is_resumed_in_the_version_that_was_planned(
        self, script: ApiScript, api: KubeClusterApi
    ) -> None:
        """UID and version go along, and the place is written with it."""
        script.plan(JOB_PATH, OK)
        await api.suspend(WORKLOAD, "node-0*2")
        (request,) = script.requests
        assert request.method == "PATCH"
        meta = {"uid": "uid-j", "annotations": {"muster.dev/place": "node-0*2"}, "resourceVersion": "7"}
        assert request.body == {"metadata": meta, "spec": {"suspend": False}}

    async def test_a_job_is_suspended_in_any_version(self, script: ApiScript, api: KubeClusterApi) -> None:
        """It has no place then."""
        script.plan(JOB_PATH, OK)
        await api.suspend(WORKLOAD)
        (request,) = script.requests
        meta = {"uid": "uid-j", "annotations": {"muster.dev/place": None}}
        assert request.body == {"metadata": meta, "spec": {"suspend": True}}

    async def test_other_kinds_are_suspended_by_fields_of_their_own(
        self, script: ApiScript, api: KubeClusterApi
    ) -> None:
        """Kubeflow's is in the run policy."""
        script.plan(JOB_PATH, OK)
        await api.suspend(replace(WORKLOAD, field=("spec", "runPolicy", "suspend")))
        (request,) = script.requests
        assert request.body is not None
        assert request.body["spec"] == {"runPolicy": {"suspend": True}}

    async def test_namesake_is_a_conflict(self, script: ApiScript, api: KubeClusterApi) -> None:
        """The server calls another UID invalid; for the caller it is a 409."""
        complaint = 'Job "j" is invalid: metadata.uid: Invalid value: "uid-j": field is immutable'
        script.plan(JOB_PATH, refuses(422, "Invalid", complaint))
        with pytest.raises(ApiError, match="409 Conflict: Job x/j is another one now"):
            await api.suspend(WORKLOAD)


async def test_events_and_statuses_go_through(script: ApiScript, api: KubeClusterApi) -> None:
    """The writer knows all writes of `ClusterApi`; each arrives at its path."""
    events = "/apis/events.k8s.io/v1/namespaces/x/events"
    groups = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/x/podgroups"
    script.plan(events, OK)
    script.plan(groups, says(page(named("job", namespace="x"), version=7)))
    script.plan(f"{groups}/job/status", says(named("job", namespace="x")))
    about = ObjectRef("v1", "Pod", "x", "p", "uid-p")
    await api.record_event(ClusterEvent(about, warning=False, reason="Started", message="m", action="Scheduling"))
    status = GroupStatus("Pending", 0, 0, 0, 0, "False", "BehindHead", "m", 1)
    await api.update_group_status(GroupRef(COSCHEDULING, "x", "job"), "uid-job", status)
    queues = "/apis/muster.dev/v1alpha1/queues"
    script.plan(queues, says(page(named("q"), version=7)))
    script.plan(f"{queues}/q/status", says(named("q")))
    usage = QueueReport(queue_row("q"))
    await api.update_queue_status("q", "uid-q", usage)
    written = [events, groups, f"{groups}/job/status", queues, f"{queues}/q/status"]
    assert [request.path for request in script.requests] == written
