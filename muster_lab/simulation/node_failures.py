"""Nodes that fail and come back: what the control plane makes of them and of their pods."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from extender.control.ports import WatchedKind
from extender.objects.pod import Pod
from extender.objects.podspec import Taint, first_untolerated
from muster_lab.simulation.cluster import Cluster, set_condition
from muster_lab.simulation.manifests import node_manifest
from muster_lab.simulation.objects import Json
from muster_lab.simulation.scenario import NodeFailure, ScenarioNode
from muster_lab.simulation.virtual_time import LoopClock

#: How long pods stay on a node that does not answer (seconds). Source: k8s.io/kubernetes
#: plugin/pkg/admission/defaulttolerationseconds, default-unreachable-toleration-seconds.
UNREACHABLE_SECONDS: Final = 300.0
#: How long pods of a node that is gone are left alone (seconds). Source: k8s.io/kubernetes pkg/controller/podgc,
#: quarantineTime.
QUARANTINE_SECONDS: Final = 40.0

_KEY: Final = "node.kubernetes.io/unreachable"
_TAINTS: Final = ({"key": _KEY, "effect": "NoSchedule"}, {"key": _KEY, "effect": "NoExecute"})
_EVICTING: Final = (Taint(_KEY, "", "NoExecute"),)


class NodeFailures:
    """Let nodes fail and come back at their time.

    A node that does not answer is tainted, and its pods are deleted five minutes later unless they tolerate that; they
    are there until its kubelet, which is back, has ended them. Pods of a node that is gone are removed by the garbage
    collection of pods.
    """

    def __init__(self, cluster: Cluster, clock: LoopClock, nodes: Iterable[ScenarioNode]) -> None:
        self._cluster = cluster
        self._clock = clock
        self._nodes = {node.name: node for node in nodes}
        self._slices: dict[str, list[Json]] = {}  # of nodes that are gone

    def add(self, failures: Iterable[NodeFailure]) -> None:
        """Have nodes fail, each `at` so many seconds after the start."""
        for failure in failures:
            self._after(failure.at - self._clock.elapsed(), partial(self._fail, failure))

    def _fail(self, failure: NodeFailure) -> None:
        node = failure.node
        self._cluster.unreachable.add(node)
        if failure.gone:
            self._cluster.delete(WatchedKind.NODE, "", node)
            self._slices[node] = self._withdraw(node)
            evicting = self._after(QUARANTINE_SECONDS, partial(self._remove, node))
        else:
            self._cluster.update(WatchedKind.NODE, ("", node), self._silence)
            evicting = self._after(UNREACHABLE_SECONDS, partial(self._evict, node))
        if failure.back is not None:
            self._after(failure.back - self._clock.elapsed(), partial(self._return, failure, evicting))

    def _return(self, failure: NodeFailure, evicting: asyncio.TimerHandle) -> None:
        """Have a node answer again: what has not been evicted yet stays, and what has been ends now."""
        evicting.cancel()
        self._cluster.regain(failure.node)
        if failure.gone:
            self._cluster.create(WatchedKind.NODE, node_manifest(self._nodes[failure.node]))
            for piece in self._slices.pop(failure.node):
                self._cluster.create(WatchedKind.RESOURCE_SLICE, piece)
        else:
            self._cluster.update(WatchedKind.NODE, ("", failure.node), self._answer)

    def _withdraw(self, node: str) -> list[Json]:
        """Delete the ResourceSlices that a node owns, which go with it; return them."""
        owned = [
            each for each in self._cluster.list(WatchedKind.RESOURCE_SLICE) if each.json["spec"].get("nodeName") == node
        ]
        for each in owned:
            self._cluster.delete(WatchedKind.RESOURCE_SLICE, "", each.key.name)
        return [each.json for each in owned]

    def _evict(self, node: str) -> None:
        """Delete the pods of a node that has not answered for long, but those that tolerate it."""
        for pod in self._pods(node):
            if first_untolerated(_EVICTING, pod.shape.tolerations) is not None:
                self._cluster.delete(WatchedKind.POD, pod.namespace, pod.name, pod.uid)

    def _remove(self, node: str) -> None:
        """Remove the pods of a node that is gone, without a grace period."""
        for pod in self._pods(node):
            self._cluster.delete(WatchedKind.POD, pod.namespace, pod.name, pod.uid, left=0)

    def _silence(self, json: Json) -> None:
        """Write what the node controller writes of a node that has not been heard of."""
        message = "Kubelet stopped posting node status."
        ready = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": message}
        set_condition(json, ready, self._clock)
        json["spec"]["taints"] = [*(json["spec"].get("taints") or ()), *_TAINTS]

    def _answer(self, json: Json) -> None:
        """Take back what was written of a node that is heard of again."""
        set_condition(json, {"type": "Ready", "status": "True", "reason": "KubeletReady"}, self._clock)
        json["spec"]["taints"] = [taint for taint in json["spec"].get("taints") or () if taint not in _TAINTS]

    def _pods(self, node: str) -> list[Pod]:
        """Return the pods on a node that have not ended."""
        return [version.pod for version in self._cluster.list(WatchedKind.POD) if _is_on(version.pod, node)]

    @staticmethod
    def _after(seconds: float, then: Callable[[], None]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(max(seconds, 0.0), then)


def _is_on(pod: Pod, node: str) -> bool:
    return pod.bound and pod.node_name == node
