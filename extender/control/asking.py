"""Asking autoscalers for nodes, and saying on pods for whom these are, through the outbox."""

from __future__ import annotations

from functools import partial

import structlog

from extender.admission.admission import Admission
from extender.control.outbox import Outbox, Urgency
from extender.control.ports import ApiError, ClusterApi, ClusterEvent, PodKey
from extender.control.reports import about_gang
from extender.ledger.effects import NodeAsk, PodAnnotations
from extender.objects.meta import ObjectRef
from extender.objects.noderequest import NodeRequest

log = structlog.get_logger("muster.asking")


class Asking:
    """Make requests for nodes, and withdraw them; tell the gang whose request cannot be made."""

    def __init__(self, api: ClusterApi, outbox: Outbox, admission: Admission) -> None:
        """Write to `api`; of `admission` it is read to which object of a gang a request belongs."""
        self._api = api
        self._outbox = outbox
        self._admission = admission

    def put(self, key: str, wish: NodeAsk | NodeRequest) -> None:
        """Have a request made, or withdrawn."""
        call = partial(self._make if isinstance(wish, NodeAsk) else self._withdraw, wish)  # type: ignore[arg-type]  # each has its own
        self._outbox.put(Urgency.EVICTION, f"nodes/{key}", key, call)

    def annotate(self, wish: PodAnnotations) -> None:
        """Put annotations onto a pod."""
        pod = wish.pod
        call = partial(self._api.annotate, PodKey(pod.namespace, pod.name, pod.uid), wish.annotations)
        self._outbox.put(Urgency.EVICTION, f"annotations/{pod.uid}", pod.key, call)

    async def _make(self, ask: NodeAsk) -> None:
        gang = self._admission.model.gangs.get(ask.ref)
        owner = None if gang is None else about_gang(gang)
        if owner is None:
            return
        try:
            await self._api.request_nodes(ask, owner)
        except ApiError as error:
            if not error.transient and error.status != 409:  # noqa: PLR2004 - a conflict says that it is there
                self._tell(owner, ask, error.message)
            raise
        pods = sum(each.count for each in ask.pod_sets)
        log.info("asked for nodes", gang=str(ask.ref), request=ask.name, attempt=ask.attempt, pods=pods)

    async def _withdraw(self, request: NodeRequest) -> None:
        await self._api.withdraw_nodes(request)
        log.info("withdrew a request for nodes", gang=str(request.ref), request=request.name, phase=request.phase.value)

    def _tell(self, owner: ObjectRef, ask: NodeAsk, why: str) -> None:
        message = f"ProvisioningRequest {ask.ref.namespace}/{ask.name} cannot be made: {why}"
        event = ClusterEvent(owner, warning=True, reason="NodesNotRequested", message=message, action="Scheduling")
        key = f"event/{owner.uid}/NodesNotRequested"
        self._outbox.put(Urgency.EVENT, key, str(owner), partial(self._api.record_event, event))
