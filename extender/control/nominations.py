"""Nominations, on their way to the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Sized
from functools import partial

from extender.control.metrics import Metrics
from extender.control.outbox import Outbox, Urgency
from extender.control.ports import ClusterApi, PodKey
from extender.ledger.effects import Nomination
from extender.objects.pod import Pod

#: From how many nodes on a nomination ahead of a pod's first attempt saves more than it costs. Measured with
#: kube-scheduler 1.37: an attempt that looks at every node takes it 2.8 us of CPU for each of them, and the write costs
#: 2.6 ms, of the API server, etcd and all that watch pods.
WORTHWHILE_NODES = 1_000
#: How long the nomination of a pod that kube-scheduler has yet to try is held back (seconds), for those whose turn is
#: about to come.
FIRST_ATTEMPT_SECONDS = 0.02
_GLANCE_SECONDS = 0.005


class Nominations:
    """Write nominations through the outbox, the newest for each pod, and first for those that wait for nothing else.

    A pod that was rejected is set aside by kube-scheduler until something changes: its nomination wakes it. A pod
    that was not gets its attempt anyway; its nomination makes that attempt a cheap one, on one node instead of all.
    On a small cluster that is not worth a write, unless the pod is overdue.
    """

    def __init__(
        self, api: ClusterApi, outbox: Outbox, metrics: Metrics, nodes: Sized, *, ranked: bool = False
    ) -> None:
        """Write to `api` through `outbox`; `nodes` is as long as the cluster has nodes.

        With `ranked`, gangs of one are nominated only to wake them: kube-scheduler is to look at all nodes for them.
        """
        self._api = api
        self._outbox = outbox
        self._metrics = metrics
        self._nodes = nodes
        self._ranked = ranked
        self._set_aside: set[str] = set()

    def put(self, nomination: Nomination) -> None:
        """Have a nomination written."""
        pod = nomination.pod
        if nomination.again:
            self._metrics.renominations.inc()
        call = partial(self._write, PodKey(pod.namespace, pod.name, pod.uid), nomination)
        urgency, delay = Urgency.NOMINATION, 0.0
        if nomination.again or nomination.overdue or pod.refusal or pod.uid in self._set_aside:
            urgency = Urgency.WAKING
        elif nomination.node:
            if not pod.nominated_node and self._comes_by_itself(pod):
                self._outbox.forget(_key(pod.uid))
                return
            delay = FIRST_ATTEMPT_SECONDS
        self._outbox.put(urgency, _key(pod.uid), pod.key, call, delay=delay)

    def rejected(self, uid: str) -> None:
        """Take in that filter or bind has refused a pod: kube-scheduler sets it aside."""
        self._set_aside.add(uid)

    def forget(self, uid: str) -> None:
        """Withdraw a pod's nomination that has not been sent: it is on its way to its node, or gone."""
        self._set_aside.discard(uid)
        self._outbox.forget(_key(uid))

    async def get_ahead(self, seconds: float) -> None:
        """Wait, while nominations worth their cost are on their way, until all are sent or `seconds` have passed.

        kube-scheduler is about to try pods faster than they are nominated, and looks at every node for each of them.
        """
        if not self._worthwhile:
            return
        for _ in range(int(seconds / _GLANCE_SECONDS)):
            if not self._outbox.nominations_wait:
                return
            await asyncio.sleep(_GLANCE_SECONDS)

    def _comes_by_itself(self, pod: Pod) -> bool:
        """Tell whether a pod that kube-scheduler has yet to try needs no nomination."""
        return not self._worthwhile or (self._ranked and pod.group.is_pod)

    @property
    def _worthwhile(self) -> bool:
        return len(self._nodes) >= WORTHWHILE_NODES

    async def _write(self, pod: PodKey, nomination: Nomination) -> None:
        """Write one; a nomination that stands is cleared first, since only a change wakes kube-scheduler."""
        if nomination.again:
            await self._api.nominate(pod, "")
        await self._api.nominate(pod, nomination.node)


def _key(uid: str) -> str:
    return f"nomination/{uid}"
