"""Nominations, on their way to the API server."""

from __future__ import annotations

from functools import partial

from extender.admission.effects import Nomination
from extender.control.metrics import Metrics
from extender.control.outbox import Outbox, Urgency
from extender.control.ports import ClusterApi, PodKey


class Nominations:
    """Write nominations through the outbox, the newest for each pod."""

    def __init__(self, api: ClusterApi, outbox: Outbox, metrics: Metrics) -> None:
        """Write to `api` through `outbox`."""
        self._api = api
        self._outbox = outbox
        self._metrics = metrics

    def put(self, nomination: Nomination) -> None:
        """Have a nomination written."""
        pod = nomination.pod
        if nomination.again:
            self._metrics.renominations.inc()
        key = PodKey(pod.namespace, pod.name, pod.uid)
        self._outbox.put(Urgency.NOMINATION, _key(pod.uid), pod.key, partial(self._write, key, nomination))

    def forget(self, uid: str) -> None:
        """Withdraw a pod's nomination that has not been sent."""
        self._outbox.forget(Urgency.NOMINATION, _key(uid))

    async def _write(self, pod: PodKey, nomination: Nomination) -> None:
        """Write one; a nomination that stands is cleared first, since only a change wakes kube-scheduler."""
        if nomination.again:
            await self._api.nominate(pod, "")
        await self._api.nominate(pod, nomination.node)


def _key(uid: str) -> str:
    return f"nomination/{uid}"
