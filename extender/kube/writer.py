"""The writes that Muster makes, as requests."""

from __future__ import annotations

from collections.abc import Mapping

from extender.clock import Clock
from extender.control.ports import (
    NO_ANNOTATIONS,
    ApiError,
    BudgetError,
    ClusterEvent,
    GroupStatus,
    PodKey,
    QueueStatus,
)
from extender.domain.membership import GroupRef
from extender.kube.api import CONFLICT, NOT_FOUND, ApiServer, JsonObject, PatchForm
from extender.kube.events import EventRecorder
from extender.kube.groupstatus import GroupStatusWriter
from extender.kube.queuestatus import QueueStatusWriter
from extender.wire.codec import DecodeError, decode_metadata, decode_pod

_INVALID, _TOO_MANY_REQUESTS, _INTERNAL_ERROR, _SERVICE_UNAVAILABLE = 422, 429, 500, 503

#: How the API server says that it evicts no pod with two budgets, which to it is an internal error, whatever they say.
#: Source: k8s.io/kubernetes pkg/registry/core/pod/storage/eviction.go, release 1.37.
_TWO_BUDGETS = "more than one PodDisruptionBudget"

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
        self._queue_statuses = QueueStatusWriter(api, clock)

    async def nominate(self, pod: PodKey, node: str) -> None:
        """Set the pod's `status.nominatedNodeName`, or clear it with an empty `node`."""
        body = {"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node or None}}
        try:
            await self._api.patch(f"{_path(pod)}/status", body)
        except ApiError as error:
            if _comes_too_late(error):
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

    async def evict(self, pod: PodKey, *, dry_run: bool = False) -> None:
        """Ask that the pod be evicted, or only whether it could be; that it is gone already is success.

        It is looked for first, since the API server takes ten seconds to say that the UID is another one: to it that is
        one more conflict with somebody else's change. Source: EvictionsRetry in k8s.io/kubernetes
        pkg/registry/core/pod/storage/eviction.go, release 1.37.
        """
        if await self._is_gone(pod):
            return
        options: JsonObject = {"preconditions": {"uid": pod.uid}}
        if dry_run:
            options["dryRun"] = ["All"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": pod.namespace, "name": pod.name},
            "deleteOptions": options,
        }
        try:
            await self._api.post(f"{_path(pod)}/eviction", body)
        except ApiError as error:
            if error.status == NOT_FOUND or (error.status == CONFLICT and await self._is_gone(pod)):
                return
            if error.status == CONFLICT:  # the pod or its budget has just changed, which says nothing about later
                raise ApiError(_SERVICE_UNAVAILABLE, error.reason, error.message) from error
            if _forbids(error):
                raise BudgetError(_TOO_MANY_REQUESTS, error.reason, error.message, error.retry_after) from error
            raise

    async def ungate(self, pod: PodKey, gate: str) -> None:
        """Take one scheduling gate off the pod, whatever others do to its gates; that it is not there is success."""
        gates = [{"$patch": "delete", "name": gate}]
        body = {"metadata": {"uid": pod.uid}, "spec": {"schedulingGates": gates}}
        try:
            await self._api.patch(_path(pod), body, PatchForm.STRATEGIC)
        except ApiError as error:
            if _comes_too_late(error):
                raise ApiError(CONFLICT, "Conflict", f"the pod is another one now: {error.message}") from error
            raise

    async def record_event(self, event: ClusterEvent) -> None:
        """Write an Event, or raise the count of the same one written before."""
        await self._events.record(event)

    async def update_group_status(self, group: GroupRef, uid: str, status: GroupStatus) -> None:
        """Write a coscheduling PodGroup's status subresource."""
        await self._group_statuses.write(group, uid, status)

    async def update_queue_status(self, name: str, uid: str, status: QueueStatus) -> None:
        """Write a Queue's status subresource."""
        await self._queue_statuses.write(name, uid, status)

    async def _is_gone(self, pod: PodKey) -> bool:
        """Ask whether the pod is there no more, or another one: a conflict can mean that, or that something changed."""
        try:
            found = decode_metadata(await self._api.get(_path(pod), {}))
        except DecodeError:
            return False
        except ApiError as error:
            if error.status == NOT_FOUND:
                return True
            raise
        return found.metadata is not None and found.metadata.uid != pod.uid

    async def _is_on(self, pod: PodKey, node: str) -> bool:
        """Ask where the pod is: a conflict can mean that it is bound, another one now, gated, or being deleted."""
        try:
            found = decode_pod(await self._api.get(_path(pod), {}))
        except DecodeError:
            return False
        uid = found.metadata.uid if found.metadata else None
        return uid == pod.uid and found.spec is not None and found.spec.node_name == node


def _comes_too_late(error: ApiError) -> bool:
    """Tell whether the pod is not what it was when the write was decided, which the API server only calls invalid."""
    return error.status == _INVALID and any(field in error.message for field in _OUTDATED)


def _forbids(error: ApiError) -> bool:
    """Tell whether an eviction is refused for the sake of a budget."""
    return isinstance(error, BudgetError) or (error.status == _INTERNAL_ERROR and _TWO_BUDGETS in error.message)


def _path(pod: PodKey) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
