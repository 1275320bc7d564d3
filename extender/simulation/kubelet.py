"""The kubelets: a pod on a node runs."""

from __future__ import annotations

from extender.clock import Clock
from extender.control.ports import ApiError, Kind
from extender.domain.pod import Phase
from extender.simulation.cluster import Cluster, timestamp
from extender.simulation.objects import Change, Json


class Kubelet:
    """Start every pod as soon as it is on a node, on all nodes."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        """Watch `cluster`."""
        self._cluster = cluster
        self._clock = clock
        cluster.watch(self._take_in)

    def _take_in(self, change: Change) -> None:
        version = change.after
        if version is None or version.key.kind is not Kind.POD:
            return
        pod = version.pod
        if not pod.node_name or pod.deleting or pod.phase is not Phase.PENDING:
            return

        def run(json: Json) -> None:
            json["status"].update(phase=Phase.RUNNING.value, startTime=timestamp(self._clock.now()))

        try:
            self._cluster.update(Kind.POD, (pod.namespace, pod.name), run, version.uid)
        except ApiError:
            return  # deleted since: there is nothing to start
