"""The writes that Muster makes, as requests."""

from __future__ import annotations

from collections.abc import Mapping

from extender.clock import Clock
from extender.control.ports import NO_ANNOTATIONS, ApiError, ClusterEvent, GroupStatus, PodKey
from extender.domain.membership import GroupRef
from extender.kube.api import CONFLICT, ApiServer, JsonObject
from extender.kube.events import EventRecorder
from extender.kube.groupstatus import GroupStatusWriter
from extender.wire.codec import DecodeError, decode_pod

_INVALID = 422

#: What the API server finds invalid about a nomination that comes too late: it takes the UID of a namesake for an
#: attempt to change it, and lets nobody nominate a pod that is bound.
_OUTDATED = ("metadata.uid: Invalid value", "status.nominatedNodeName: Forbidden")


class KubeClusterApi:
    """Write to the API server; implements `extender.control.ports.ClusterApi`.

    Args:
        api: the connection.
        clock: tells when an Event happened and a condition changed.
        instance: which Muster this is, for Events; the pod's name, say.
    """

    def __init__(self, api: ApiServer, clock: Clock, instance: str) -> None:
        """Remember nothing yet."""
        self._api = api
        self._events = EventRecorder(api, clock, instance)
        self._group_statuses = GroupStatusWriter(api, clock)

    async def nominate(self, pod: PodKey, node: str) -> None:
        """Set the pod's `status.nominatedNodeName`, or clear it with an empty `node`."""
        body = {"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node or None}}
        try:
            await self._api.patch(f"{_path(pod)}/status", body)
        except ApiError as error:
            if error.status == _INVALID and any(field in error.message for field in _OUTDATED):
                raise ApiError(CONFLICT, "Conflict", f"the nomination is outdated: {error.message}") from error
            raise

    async def bind(self, pod: PodKey, node: str, annotations: Mapping[str, str] = NO_ANNOTATIONS) -> None:
        """Create the pod's Binding; that the pod is on that node already is success.

        The API server copies the annotations of a Binding to the pod in the write that gives it its node. Source:
        k8s.io/kubernetes pkg/registry/core/pod/storage, setPodNodeAndMetadata, release 1.37.
        """
        metadata: JsonObject = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        if annotations:
            metadata["annotations"] = dict(annotations)
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self._api.post(f"{_path(pod)}/binding", body)
        except ApiError as error:
            if error.status != CONFLICT or not await self._is_on(pod, node):
                raise

    async def record_event(self, event: ClusterEvent) -> None:
        """Write an Event, or raise the count of the same one written before."""
        await self._events.record(event)

    async def update_group_status(self, group: GroupRef, uid: str, status: GroupStatus) -> None:
        """Write a coscheduling PodGroup's status subresource."""
        await self._group_statuses.write(group, uid, status)

    async def _is_on(self, pod: PodKey, node: str) -> bool:
        """Ask where the pod is: a conflict can mean that it is bound, another one now, gated, or being deleted."""
        try:
            found = decode_pod(await self._api.get(_path(pod), {}))
        except DecodeError:
            return False
        uid = found.metadata.uid if found.metadata else None
        return uid == pod.uid and found.spec is not None and found.spec.node_name == node


def _path(pod: PodKey) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
