"""ProvisioningRequests and their PodTemplates, as Muster writes them.

Source: kubernetes/autoscaler cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1 types.go.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from extender.control.ports import ApiError
from extender.kube.api import CONFLICT, NOT_FOUND, UNREADABLE, ApiServer, JsonObject
from extender.ledger.effects import NodeAsk, PodSetAsk
from extender.objects.meta import ObjectRef
from extender.objects.noderequest import ASKED_BY_MUSTER, ASKED_FOR, ATTEMPT, NodeRequest, write_ref

#: What of a pod decides which nodes hold it. Of its containers' environment, commands and secrets nothing is copied.
_OF_POD: Final = (
    *("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "hostNetwork", "priorityClassName"),
    *("overhead", "runtimeClassName", "schedulerName", "resourceClaims", "os"),
)
_OF_CONTAINER: Final = ("name", "image", "resources", "ports", "restartPolicy")


class NodeRequestWriter:
    """Write requests for nodes to the API server."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api

    async def make(self, ask: NodeAsk, owner: ObjectRef) -> None:
        """Create a request after its templates; what is there already was created by an attempt before this one."""
        namespace = ask.ref.namespace
        refers = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
        meta: JsonObject = {"namespace": namespace, "labels": {ASKED_BY_MUSTER: "true"}, "ownerReferences": [refers]}
        pod_sets: list[JsonObject] = []
        for index, pod_set in enumerate(ask.pod_sets):
            name = _template_name(ask.name, index)
            template = await self._template(pod_set, ask.selector)
            body = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": meta | {"name": name}, "template": template}
            with _there_already():
                await self._api.post(_templates(namespace), body)
            pod_sets.append({"podTemplateRef": {"name": name}, "count": pod_set.count})
        said = {ASKED_FOR: write_ref(ask.ref), ATTEMPT: str(ask.attempt)}
        spec: JsonObject = {"provisioningClassName": ask.provisioning_class, "podSets": pod_sets}
        if ask.parameters:
            spec["parameters"] = dict(ask.parameters)
        body = {"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest", "spec": spec}
        with _there_already():
            await self._api.post(
                _requests(namespace), body | {"metadata": meta | {"name": ask.name, "annotations": said}}
            )

    async def withdraw(self, request: NodeRequest) -> None:
        """Delete a request, and then its templates."""
        namespace = request.ref.namespace
        with _gone_already():
            options = {"preconditions": {"uid": request.uid}}
            await self._api.delete(f"{_requests(namespace)}/{request.name}", options)
        for index in range(len(request.counts)):
            with _gone_already():
                await self._api.delete(f"{_templates(namespace)}/{_template_name(request.name, index)}", {})

    async def _template(self, pod_set: PodSetAsk, selector: Mapping[str, str]) -> JsonObject:
        """Return what an autoscaler has to know of such pods: of a pod that is there, or of a Job's template."""
        source = pod_set.source
        version = f"/api/{source.api_version}" if source.group == "" else f"/apis/{source.api_version}"
        plural = f"{source.kind.lower()}s"
        path = f"{version}/namespaces/{source.namespace}/{plural}/{source.name}"
        found = _decoded(await self._api.get(path, {}))
        found = found if source.kind == "Pod" else _part(_part(found, "spec"), "template")
        spec, labels = _part(found, "spec"), _part(_part(found, "metadata"), "labels")
        kept = {field: spec[field] for field in _OF_POD if spec.get(field)}
        for field in ("containers", "initContainers"):
            if spec.get(field):
                kept[field] = [{name: each[name] for name in _OF_CONTAINER if each.get(name)} for each in spec[field]]
        if selector:
            kept["nodeSelector"] = kept.get("nodeSelector", {}) | dict(selector)
        return {"metadata": {"labels": labels}, "spec": kept | {"restartPolicy": "Never"}}


def _decoded(body: bytes) -> JsonObject:
    try:
        found = orjson.loads(body)
    except ValueError as error:
        raise ApiError(0, UNREADABLE, str(error)) from error
    return found if isinstance(found, dict) else {}


def _part(found: Mapping[str, Any], field: str) -> JsonObject:
    return found.get(field) or {}


def _templates(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/podtemplates"


def _requests(namespace: str) -> str:
    return f"/apis/autoscaling.x-k8s.io/v1/namespaces/{namespace}/provisioningrequests"


def _template_name(request: str, index: int) -> str:
    return f"{request}-{index}"


@contextlib.contextmanager
def _passing(status: int) -> Iterator[None]:
    """Take an error of that status for success."""
    try:
        yield
    except ApiError as error:
        if error.status != status:
            raise


def _there_already() -> contextlib.AbstractContextManager[None]:
    return _passing(CONFLICT)


def _gone_already() -> contextlib.AbstractContextManager[None]:
    return _passing(NOT_FOUND)
