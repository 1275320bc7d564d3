"""ProvisioningRequests and their templates, as they are written."""

from __future__ import annotations

from typing import Any

import pytest

from extender.clock import ManualClock
from extender.control.ports import ApiError, PodKey
from extender.kube.transport import Transport
from extender.kube.writer import KubeClusterApi
from extender.ledger.effects import NodeAsk, PodSetAsk
from extender.objects.meta import ObjectRef
from extender.objects.noderequest import NodeRequest
from extender.objects.podgroup import GroupRef
from tests.kube.apiscript import ApiScript, refuses, says

REF = GroupRef("scheduling.x-k8s.io", "x", "train")
OWNER = ObjectRef("scheduling.x-k8s.io/v1alpha1", "PodGroup", "x", "train", "uid-g")
POD = PodSetAsk(ObjectRef("v1", "Pod", "x", "train-0", "uid-p"), 4)
JOB = PodSetAsk(ObjectRef("batch/v1", "Job", "x", "train", "uid-j"), 2)
POD_PATH, JOB_PATH = "/api/v1/namespaces/x/pods/train-0", "/apis/batch/v1/namespaces/x/jobs/train"
TEMPLATES = "/api/v1/namespaces/x/podtemplates"
REQUESTS = "/apis/autoscaling.x-k8s.io/v1/namespaces/x/provisioningrequests"
OK = says({"kind": "Status", "status": "Success"})
SPEC: dict[str, Any] = {
    "schedulerName": "muster",
    "nodeName": "",
    "nodeSelector": {"zone": "a"},
    "schedulingGates": [{"name": "g"}],
    "volumes": [{"name": "token"}],
    "containers": [{"name": "main", "image": "i", "env": [{"name": "SECRET"}], "resources": {"limits": {"cpu": "1"}}}],
}


@pytest.fixture
def api(transport: Transport, clock: ManualClock) -> KubeClusterApi:
    """Write to the scripted server."""
    return KubeClusterApi(transport, clock, "muster-0")


def ask(*pod_sets: PodSetAsk, **fields: Any) -> NodeAsk:
    """Return what is asked for."""
    values: dict[str, Any] = {"parameters": {}, "attempt": 1, "selector": {}} | fields
    return NodeAsk(REF, "train-1", "class", values["parameters"], values["attempt"], pod_sets, values["selector"])


async def test_a_request_comes_after_its_templates(script: ApiScript, api: KubeClusterApi) -> None:
    """Of a pod only what decides where it fits is copied, and the labels of the flavor are added."""
    script.plan(POD_PATH, says({"metadata": {"labels": {"app": "a"}}, "spec": SPEC}))
    script.plan(TEMPLATES, OK)
    script.plan(REQUESTS, OK)
    await api.request_nodes(ask(POD, parameters={"k": "v"}, attempt=2, selector={"gpu": "h100"}), OWNER)
    read, template, request = script.requests
    assert (read.method, template.method, request.method) == ("GET", "POST", "POST")
    assert template.body is not None
    assert template.body["template"] == {
        "metadata": {"labels": {"app": "a"}},
        "spec": {
            "schedulerName": "muster",
            "restartPolicy": "Never",
            "nodeSelector": {"zone": "a", "gpu": "h100"},
            "containers": [{"name": "main", "image": "i", "resources": {"limits": {"cpu": "1"}}}],
        },
    }
    assert request.body is not None
    owner = {"apiVersion": OWNER.api_version, "kind": "PodGroup", "name": "train", "uid": "uid-g"}
    assert request.body["metadata"] == {
        "namespace": "x",
        "name": "train-1",
        "labels": {"muster.dev/asks-for-nodes": "true"},
        "annotations": {"muster.dev/asked-for": "scheduling.x-k8s.io/train", "muster.dev/attempt": "2"},
        "ownerReferences": [owner],
    }
    assert request.body["spec"] == {
        "provisioningClassName": "class",
        "parameters": {"k": "v"},
        "podSets": [{"podTemplateRef": {"name": "train-1-0"}, "count": 4}],
    }


async def test_of_a_job_the_template_counts(script: ApiScript, api: KubeClusterApi) -> None:
    """It has no pods yet. What is there already was written by an attempt whose answer was lost."""
    script.plan(JOB_PATH, says({"spec": {"template": {"spec": SPEC}}}))
    script.plan(TEMPLATES, refuses(409, "AlreadyExists", "it is there"))
    script.plan(REQUESTS, refuses(409, "AlreadyExists", "it is there"))
    await api.request_nodes(ask(JOB), OWNER)
    assert script.requests[1].body is not None
    assert script.requests[1].body["template"]["spec"]["nodeSelector"] == {"zone": "a"}
    assert script.requests[2].body is not None
    assert "parameters" not in script.requests[2].body["spec"]


async def test_a_server_without_the_api_says_so(script: ApiScript, api: KubeClusterApi) -> None:
    """The caller is to tell people."""
    script.plan(POD_PATH, says({"spec": SPEC}))
    script.plan(TEMPLATES, OK)
    script.plan(REQUESTS, refuses(404, "NotFound", "the server could not find the requested resource"))
    with pytest.raises(ApiError, match="could not find"):
        await api.request_nodes(ask(POD), OWNER)


@pytest.mark.parametrize(("body", "complaint"), [("[]", "Required value"), ("no object", "no answer: ")])
async def test_what_is_no_pod_asks_for_nothing(
    script: ApiScript, api: KubeClusterApi, body: str, complaint: str
) -> None:
    """A template without containers is the API server's to refuse."""
    script.plan(POD_PATH, says(body))
    script.plan(TEMPLATES, refuses(422, "Invalid", "containers: Required value"))
    with pytest.raises(ApiError, match=complaint):
        await api.request_nodes(ask(POD), OWNER)


async def test_a_request_goes_with_its_templates(script: ApiScript, api: KubeClusterApi) -> None:
    """By its UID; what is gone already is no failure."""
    script.plan(f"{REQUESTS}/train-1", OK)
    script.plan(f"{TEMPLATES}/train-1-0", OK)
    script.plan(f"{TEMPLATES}/train-1-1", refuses(404, "NotFound", "gone"))
    await api.withdraw_nodes(NodeRequest(REF, "train-1", "uid-r", "class", (1, 2)))
    assert [each.method for each in script.requests] == ["DELETE"] * 3
    assert script.requests[0].body == {"preconditions": {"uid": "uid-r"}}


async def test_annotations_are_patched_with_the_uid(script: ApiScript, api: KubeClusterApi) -> None:
    """A namesake is a conflict."""
    path = "/api/v1/namespaces/x/pods/p"
    script.plan(path, OK)
    await api.annotate(PodKey("x", "p", "uid-p"), {"a": "b"})
    assert script.requests[0].body == {"metadata": {"uid": "uid-p", "annotations": {"a": "b"}}}
    script.plan(path, refuses(422, "Invalid", "metadata.uid: Invalid value"))
    with pytest.raises(ApiError, match="409 Conflict: the pod is another one now"):
        await api.annotate(PodKey("x", "p", "uid-p"), {"a": "b"})
    script.plan(path, refuses(403, "Forbidden", "no"))
    with pytest.raises(ApiError, match="403"):
        await api.annotate(PodKey("x", "p", "uid-p"), {"a": "b"})
