"""The kubelets: a pod on a node runs, unless its NUMA zones cannot serve it."""

from __future__ import annotations

from extender.clock import Clock
from extender.control.ports import WatchedKind
from extender.objects.holdings import OBSERVED_GPUS, OBSERVED_ZONES, DeviceHolding
from extender.objects.meta import write_timestamp
from extender.objects.nodetopology import NodeTopology
from extender.objects.pod import Phase, Pod
from muster_lab.simulation.cluster import Cluster
from muster_lab.simulation.hints import AdmissionError
from muster_lab.simulation.objects import Json, ObjectChange
from muster_lab.simulation.topology_manager import TopologyManager


class Kubelet:
    """Start every pod as soon as it is on a node, on all nodes.

    On a node with a NodeResourceTopology the pod is given devices, CPUs and memory by a Topology Manager of that
    policy. What it got is written onto the pod, as an agent on the node would; a pod that cannot be aligned fails. One
    that runs from the start holds what its annotations say, as far as they do.
    The managers are set up when the first pod arrives after the object, and what they manage stays as it was then.
    """

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._managers: dict[str, tuple[str, TopologyManager]] = {}
        self._admitted: dict[str, TopologyManager] = {}
        self._stalled: set[str] = set()  # nodes that did not answer when a pod came
        cluster.watch(self._take_in)

    def _take_in(self, change: ObjectChange) -> None:
        if change.object.key.kind is WatchedKind.NODE and change.object.key.name in self._stalled:
            self._resume(change.object.key.name)
        if change.object.key.kind is not WatchedKind.POD:
            return
        if change.after is None or change.after.pod.done:
            self._release(change.object.uid)
            return
        # What is news here may be old by now: a pod that has just been rejected must not be tried again.
        version = self._cluster.find(WatchedKind.POD, change.after.key.namespace, change.after.key.name)
        if version is None or version.uid != change.after.uid:
            return
        pod = version.pod
        if not pod.node_name or pod.deleting or pod.uid in self._admitted:
            return
        self._look(pod)

    def _resume(self, node: str) -> None:
        """Look at the pods of a node that answers again."""
        if node in self._cluster.unreachable:
            return
        self._stalled.discard(node)
        for version in list(self._cluster.list(WatchedKind.POD)):
            if version.pod.bound and version.pod.node_name == node and version.uid not in self._admitted:
                self._look(version.pod)

    def _look(self, pod: Pod) -> None:
        """Do with a pod on a node that has not ended what its kubelet does."""
        if pod.node_name in self._cluster.unreachable:
            self._stalled.add(pod.node_name)
            return
        manager = self._manager(pod.node_name)
        if pod.phase is Phase.PENDING:
            self._start(pod, manager)
        elif pod.phase is Phase.RUNNING and manager is not None:
            known = pod.observed or pod.predicted or DeviceHolding()
            manager.adopt(pod.uid, pod.shape, known.gpus, known.zones)
            self._write(pod, {}, self._admitted_by(manager, pod))

    def _start(self, pod: Pod, manager: TopologyManager | None) -> None:
        """Run a pod, or fail it if its node's managers cannot serve it."""
        status: Json = {"phase": Phase.RUNNING.value, "startTime": write_timestamp(self._clock.now())}
        annotations: dict[str, str] = {}
        try:
            if manager is not None:
                manager.admit(pod.uid, pod.shape)
                annotations = self._admitted_by(manager, pod)
        except AdmissionError as error:
            # Source: k8s.io/kubernetes pkg/kubelet/kubelet.go rejectPod.
            message = f"Pod was rejected: {error.message}"
            status |= {"phase": Phase.FAILED.value, "reason": error.reason, "message": message}
        self._write(pod, status, annotations)

    def _admitted_by(self, manager: TopologyManager, pod: Pod) -> dict[str, str]:
        """Remember who serves a pod; return the annotations that tell what it got."""
        self._admitted[pod.uid] = manager
        numbers = {OBSERVED_GPUS: manager.gpus(pod.uid, pod.shape), OBSERVED_ZONES: sorted(manager.held(pod.uid))}
        return {key: ",".join(map(str, several)) for key, several in numbers.items() if several}

    def _manager(self, node: str) -> TopologyManager | None:
        """Return the managers of a node, None if nothing says that it aligns."""
        found = self._cluster.find(WatchedKind.NODE_TOPOLOGY, "", node)
        if found is None or not isinstance(found.value, NodeTopology) or not found.value.zones:
            return None
        if self._managers.get(node, ("",))[0] != found.uid:
            self._managers[node] = (found.uid, TopologyManager(found.value))
        return self._managers[node][1]

    def _release(self, uid: str) -> None:
        manager = self._admitted.pop(uid, None)
        if manager is not None:
            manager.release(uid)

    def _write(self, pod: Pod, status: Json, annotations: dict[str, str]) -> None:
        def update(json: Json) -> None:
            json["status"].update(status)
            if annotations:
                json["metadata"]["annotations"] = {**(json["metadata"].get("annotations") or {}), **annotations}

        self._cluster.update(WatchedKind.POD, (pod.namespace, pod.name), update, pod.uid)
