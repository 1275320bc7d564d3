"""The writes: which requests they are, and which answers count as success."""

from __future__ import annotations

import pytest

from extender.clock import ManualClock
from extender.control.ports import ApiError, ClusterEvent, GroupStatus, PodKey
from extender.domain.membership import GroupApi, GroupRef
from extender.domain.objectref import ObjectRef
from extender.kube.transport import Transport
from extender.kube.writer import KubeClusterApi
from tests.kube.apiscript import ApiScript, JsonObject, named, page, refuses, says

POD = PodKey("x", "p", "uid-p")
POD_PATH = "/api/v1/namespaces/x/pods/p"
OK = says({"kind": "Status", "status": "Success"})
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


async def test_events_and_group_status_go_through(script: ApiScript, api: KubeClusterApi) -> None:
    """The writer knows all writes of `ClusterApi`; each arrives at its path."""
    events = "/apis/events.k8s.io/v1/namespaces/x/events"
    groups = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/x/podgroups"
    script.plan(events, OK)
    script.plan(groups, says(page(named("job", namespace="x"), version=7)))
    script.plan(f"{groups}/job/status", says(named("job", namespace="x")))
    about = ObjectRef("v1", "Pod", "x", "p", "uid-p")
    await api.record_event(ClusterEvent(about, warning=False, reason="Started", message="m", action="Scheduling"))
    status = GroupStatus("Pending", 0, 0, 0, 0, "False", "BehindHead", "m", 1)
    await api.update_group_status(GroupRef(GroupApi.COSCHEDULING, "x", "job"), "uid-job", status)
    assert [request.path for request in script.requests] == [events, groups, f"{groups}/job/status"]
