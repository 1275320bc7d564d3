"""Those who use the cluster: owners of gangs, their controllers, other schedulers, and administrators of nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import orjson

from extender.control.ports import ApiError, WatchedKind
from extender.objects import keys
from extender.objects.pod import Phase, Pod
from extender.objects.sources.coscheduling import COSCHEDULING_POD_GROUPS
from localcluster.devices import claim_spec, claim_template, claiming, device_class, gpus_of, resource_slice
from muster_lab.simulation.cluster import Cluster
from muster_lab.simulation.manifests import (
    disruption_budget_manifest,
    node_manifest,
    pod_manifest,
    priority_class_manifest,
    queue_manifest,
)
from muster_lab.simulation.podgroups import pod_group_manifest
from muster_lab.simulation.scenario import DisruptionLimit, ScenarioGang, ScenarioMember, ScenarioNode
from tests.properties.faults.jobs import JobController, job_manifest, namespace_manifest

Json: TypeAlias = dict[str, Any]

GPU = "nvidia.com/gpu"
GPUS = 8
NAMESPACE = "default"
_CPUS = 16
#: Rules that the model of kube-scheduler takes for "nowhere".
_TERM = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
_PICKY = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_TERM]}}
PICKY_STEM = "picky-"
_UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_TAINT = {"key": "maintenance", "effect": "NoSchedule"}
_UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
_READY = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
_SPOT_NOTICE = {"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule"}

#: The PriorityClasses that there are, by the priority they stand for.
_CLASSES = {10: "urgent"}


@dataclass(frozen=True, slots=True)
class Gang:
    """A gang as its owner wants it: `members` pods of `gpus` GPUs, of which `minimum` must start together.

    With `claims` these are not GPUs of a device plugin but devices, which each pod claims.
    `grace` is how long its pods take to stop, `timeout` its scheduleTimeoutSeconds, 0 for none. The pods of a `picky`
    one have rules of their own that no node meets, unknown to Muster. It is in `queue`, and says that it runs for
    `duration` seconds, "" and 0 where it says nothing; one that `never_preempts` has nobody evicted. With `parts` it
    consists of so many of equal size, of which it needs as many as have `minimum` members. A `job` is one without
    PodGroup, whose pods come when Muster resumes it.
    """

    name: str
    minimum: int
    members: int
    gpus: int
    priority: int = 0
    grace: int = 0
    timeout: int = 0
    picky: bool = False
    queue: str = ""
    duration: int = 0
    never_preempts: bool = False
    claims: bool = False
    parts: int = 0
    job: bool = False

    @property
    def tree(self) -> str:
        """Return what its PodGroup says of its parts."""
        size = self.members // self.parts
        parts = [{"name": f"part-{number}", "roles": {_role(number): size}} for number in range(self.parts)]
        return orjson.dumps({"minimum": self.minimum // size, "parts": parts}).decode()

    def names(self) -> list[str]:
        """Return the names of its pods."""
        return [f"{self.name}-{index}" for index in range(self.members)]


class Population:
    """Act on a cluster as people and controllers do; what is not there (any more) is passed over.

    Attributes:
        gangs: the gangs that somebody still wants.
        nodes: the nodes that there should be.
        claims_devices: whether nodes have devices, too, which some gangs claim.
        jobs: the controller that makes the pods of Jobs.
    """

    def __init__(self, cluster: Cluster, nodes: int, *, claims_devices: bool = False) -> None:
        """Create the nodes."""
        self._cluster = cluster
        self.claims_devices = claims_devices
        self.nodes = [f"node-{index}" for index in range(nodes)]
        self.gangs: dict[str, Gang] = {}
        self._serial = self._generation = 0
        self.jobs = JobController(cluster)
        cluster.create(WatchedKind.NAMESPACE, namespace_manifest(NAMESPACE))
        for value, name in _CLASSES.items():
            cluster.create(WatchedKind.PRIORITY_CLASS, priority_class_manifest(name, value))
        if claims_devices:
            cluster.create(WatchedKind.DEVICE_CLASS, device_class())
            for count in range(1, GPUS + 1):
                template = claim_template(f"some-{count}", claim_spec(count))
                cluster.create(WatchedKind.RESOURCE_CLAIM_TEMPLATE, template)
        for name in self.nodes:
            self.add_node(name)

    # Gangs and pods.

    def next_name(self, stem: str) -> str:
        """Return a name that nothing has had yet."""
        self._serial += 1
        return f"{stem}{self._serial}"

    def create_gang(self, gang: Gang, *, gated: bool = False, group_last: bool = False) -> None:
        """Create a PodGroup and its pods."""
        self.gangs[gang.name] = gang
        if not group_last:
            self.create_group(gang)
        for name in gang.names():
            self.create_member(gang, name, gated=gated)
        if group_last:
            self.create_group(gang)

    def create_group(self, gang: Gang) -> None:
        """Create a gang's PodGroup, or the Job that it is."""
        if gang.job:
            with suppress(ApiError):
                job = job_manifest(gang.name, self._member(gang, gang.names()[0]), gang.members)
                self._cluster.create(WatchedKind.JOB, job)
            return
        manifest = pod_group_manifest(_scenario(gang))
        if gang.timeout:
            manifest["spec"]["scheduleTimeoutSeconds"] = gang.timeout
        if gang.parts:
            manifest["metadata"]["annotations"][keys.TREE] = gang.tree
        if gang.duration:
            manifest["metadata"]["annotations"][keys.EXPECTED_DURATION] = f"{gang.duration}s"
        with suppress(ApiError):
            self._cluster.create(COSCHEDULING_POD_GROUPS, manifest)

    def create_member(self, gang: Gang, name: str, *, gated: bool = False) -> None:
        """Create one pod of a gang; those of a Job its controller makes."""
        if gang.job:
            return
        manifest = self._member(gang, name)
        if gated:
            manifest["spec"]["schedulingGates"] = [{"name": "quota"}]
        self._create(manifest)

    def _member(self, gang: Gang, name: str) -> Json:
        """Return one pod of a gang."""
        requests = _requests(0 if gang.claims else gang.gpus)
        manifest = pod_manifest(_scenario(gang), ScenarioMember(name, requests), "muster", placed=False)
        if gang.claims and gang.gpus:
            manifest["spec"] |= claiming(template=f"some-{gang.gpus}")
        manifest["spec"]["terminationGracePeriodSeconds"] = gang.grace
        if gang.queue:
            manifest["metadata"]["labels"][keys.QUEUE] = gang.queue
        if gang.parts:
            part = gang.names().index(name) * gang.parts // gang.members
            manifest["metadata"]["labels"][keys.ROLE] = _role(part)
        if gang.duration % 2:
            manifest["spec"]["activeDeadlineSeconds"] = gang.duration
        if gang.never_preempts:
            manifest["spec"]["preemptionPolicy"] = "Never"
        if gang.priority in _CLASSES:
            del manifest["spec"]["priority"]
            manifest["spec"]["priorityClassName"] = _CLASSES[gang.priority]
        if gang.picky:
            manifest["spec"]["affinity"] = _PICKY
        return manifest

    def create_single(self, gpus: int, priority: int, queue: str = "") -> None:
        """Create a pod without gang for Muster's scheduler."""
        name = self.next_name("single-")
        manifest = pod_manifest(
            _scenario(Gang(name, 1, 1, gpus, priority)), ScenarioMember(name, _requests(gpus)), "muster", placed=False
        )
        manifest["metadata"]["labels"] = {keys.QUEUE: queue} if queue else {}
        self._create(manifest)

    def create_foreign(self, node: str, gpus: int) -> None:
        """Let another scheduler put a pod on a node, if what runs there leaves room by its reckoning."""
        found = self._cluster.find(WatchedKind.NODE, "", node)
        if found is None or found.node.taints:
            return
        used: Counter[str] = Counter()
        for pod in self.pods():
            if pod.bound and pod.node_name == node:
                used.update(dict(pod.shape.requests))
        if used[GPU] + gpus > found.node.allocatable.get(GPU, 0) or used["cpu"] + 1000 > found.node.allocatable["cpu"]:
            return
        name = self.next_name("foreign-")
        manifest = pod_manifest(
            _scenario(Gang(name, 1, 1, gpus)), ScenarioMember(name, _requests(gpus)), "default-scheduler", placed=False
        )
        manifest["metadata"]["labels"] = {}
        manifest["spec"]["nodeName"] = node
        self._create(manifest)

    def delete_pod(self, name: str) -> None:
        """Delete a pod."""
        with suppress(ApiError):
            self._cluster.delete(WatchedKind.POD, NAMESPACE, name)

    def delete_group(self, name: str) -> None:
        """Delete a PodGroup, or a Job with its pods."""
        for kind in (COSCHEDULING_POD_GROUPS, WatchedKind.JOB):
            with suppress(ApiError):
                self._cluster.delete(kind, NAMESPACE, name)

    def suspend_job(self, name: str, *, suspended: bool) -> None:
        """Suspend a Job by hand, or resume it."""
        self._update(WatchedKind.JOB, name, lambda json: json["spec"].update(suspend=suspended))

    def delete_gang(self, name: str) -> None:
        """Delete a gang with everything that belongs to it."""
        gang = self.gangs.pop(name)
        self.delete_group(name)
        for member in gang.names():
            self.delete_pod(member)

    def edit_group(self, name: str, minimum: int) -> None:
        """Change a gang's minMember, unless its parts say what it needs, or its Job."""
        if self.gangs[name].parts or self.gangs[name].job:
            return
        self.gangs[name] = replace(self.gangs[name], minimum=minimum)

        def patch(json: Json) -> None:
            json["spec"]["minMember"] = minimum
            json["metadata"]["generation"] = json["metadata"].get("generation", 1) + 1

        self._update(COSCHEDULING_POD_GROUPS, name, patch)

    def open_gates(self, name: str) -> None:
        """Take the scheduling gates off a gang's pods."""

        def patch(json: Json) -> None:
            json["spec"].pop("schedulingGates", None)

        for member in self.gangs[name].names():
            self._update(WatchedKind.POD, member, patch)

    def end_pod(self, name: str, phase: Phase) -> None:
        """Let a pod end that is on a node."""

        def patch(json: Json) -> None:
            if json["spec"].get("nodeName") and json["status"]["phase"] in {"Pending", "Running"}:
                json["status"]["phase"] = phase.value

        self._update(WatchedKind.POD, name, patch)

    def clear_nomination(self, name: str) -> None:
        """Take a nomination off a pod, as kube-scheduler does after an attempt that fails."""

        def patch(json: Json) -> None:
            json["status"].pop("nominatedNodeName", None)

        self._update(WatchedKind.POD, name, patch)

    def has_minimum(self, name: str) -> bool:
        """Tell whether minMember members of a gang are on nodes or have succeeded."""
        gang = self.gangs[name]
        pods = {
            pod.name for pod in self.members(gang) if not pod.deleting and (pod.bound or pod.phase is Phase.SUCCEEDED)
        }
        job = self._cluster.find(WatchedKind.JOB, NAMESPACE, name)
        if gang.job and job is not None:
            pods |= {f"{name}-{index}" for index in self.jobs.succeeded(job)}
        return len(pods) >= gang.minimum

    def finish_gang(self, name: str) -> None:
        """Let a gang that has its minimum succeed, and withdraw its other pods."""
        if not self.has_minimum(name):
            return
        for pod in self.members(self.gangs[name]):
            if pod.bound:
                self.end_pod(pod.name, Phase.SUCCEEDED)
            elif not pod.done:
                self.delete_pod(pod.name)

    def replace_lost(self, name: str) -> None:
        """Create what a gang lacks, as its controller does: pods that are gone or failed, and the PodGroup."""
        gang = self.gangs[name]
        for pod in self.members(gang):
            if pod.phase is Phase.FAILED:
                self.delete_pod(pod.name)
        for member in gang.names():
            if self._cluster.find(WatchedKind.POD, NAMESPACE, member) is None:
                self.create_member(gang, member)
        self.create_group(gang)

    def recreate(self, name: str) -> None:
        """Delete the member or PodGroup called so, and create another one under its name."""
        for gang in list(self.gangs.values()):
            if name == gang.name:
                self.delete_group(name)
                self.create_group(gang)
            elif name in gang.names():
                self.delete_pod(name)
                self.create_member(gang, name)

    def pods(self) -> list[Pod]:
        """Return all pods, in order of creation."""
        return [version.pod for version in self._cluster.list(WatchedKind.POD)]

    def members(self, gang: Gang) -> list[Pod]:
        """Return the pods of a gang that exist."""
        found = (self._cluster.find(WatchedKind.POD, NAMESPACE, name) for name in gang.names())
        return [version.pod for version in found if version is not None]

    # How they share.

    def put_queue(self, name: str, spec: Json) -> None:
        """Create a Queue, or give it this spec."""

        def patch(json: Json) -> None:
            if json["spec"] != spec:
                json["spec"] = spec
                json["metadata"]["generation"] += 1

        try:
            self._cluster.create(WatchedKind.QUEUE, queue_manifest(name, spec))
        except ApiError:
            self._cluster.update(WatchedKind.QUEUE, ("", name), patch)

    def delete_queue(self, name: str) -> None:
        """Delete a Queue."""
        with suppress(ApiError):
            self._cluster.delete(WatchedKind.QUEUE, "", name)

    def create_budget(self, gang: Gang, limit: DisruptionLimit) -> None:
        """Limit how many of a gang's pods may be evicted, with a PodDisruptionBudget of the gang's name."""
        with suppress(ApiError):
            self._cluster.create(WatchedKind.DISRUPTION_BUDGET, disruption_budget_manifest(_scenario(gang), limit))

    def delete_budgets(self) -> None:
        """Delete all PodDisruptionBudgets."""
        for version in self._cluster.list(WatchedKind.DISRUPTION_BUDGET):
            self._cluster.delete(WatchedKind.DISRUPTION_BUDGET, version.key.namespace, version.key.name)

    def scale(self, pod: Pod) -> tuple[str, int] | None:
        """Return the gang of a pod and how many members it wants; None for a pod without."""
        gang = None if pod.group.is_pod else self.gangs.get(pod.group.name)
        return None if gang is None else (gang.name, gang.members)

    # Nodes.

    def add_node(self, name: str) -> None:
        """Create a node as it should be, or put it right."""
        allocatable = {"cpu": str(_CPUS), "memory": "64Gi", "pods": "20", GPU: str(GPUS)}
        try:
            self._cluster.create(WatchedKind.NODE, node_manifest(ScenarioNode(name, allocatable)))
        except ApiError:
            self._node(name, lambda json: json["status"].update(allocatable=allocatable, conditions=[_READY]))
            self._node(name, lambda json: json["spec"].update(taints=[], unschedulable=False))
        if self.claims_devices:
            self.publish(name, GPUS)

    def publish(self, name: str, devices: int) -> None:
        """Publish so many devices of a node, which are the next generation of its pool."""
        if self._cluster.find(WatchedKind.NODE, "", name) is None:
            return
        self._generation += 1
        piece = resource_slice(name, gpus_of(devices), generation=self._generation)

        def patch(json: Json) -> None:
            if json["spec"]["devices"] != piece["spec"]["devices"]:
                json["spec"] = piece["spec"]

        try:
            self._cluster.create(WatchedKind.RESOURCE_SLICE, piece)
        except ApiError:
            self._cluster.update(WatchedKind.RESOURCE_SLICE, ("", piece["metadata"]["name"]), patch)

    def cordon(self, name: str) -> None:
        """Cordon a node."""
        self._node(name, lambda json: json["spec"].update(unschedulable=True, taints=[_UNSCHEDULABLE]))

    def taint(self, name: str) -> None:
        """Taint a node."""
        self._node(name, lambda json: json["spec"].update(taints=[_TAINT]))

    def announce_end(self, name: str) -> None:
        """Taint a node as an agent does that was told that the node will be taken away."""
        self._node(name, lambda json: json["spec"].update(taints=[_SPOT_NOTICE]))

    def silence(self, name: str, since: str) -> None:
        """Say of a node that its kubelet does not answer, as the node lifecycle controller does, `since` a time."""
        unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": since}
        self._node(name, lambda json: json["status"].update(conditions=[unknown]))
        self._node(name, lambda json: json["spec"].update(taints=[_UNREACHABLE]))

    def shrink(self, name: str, gpus: int) -> None:
        """Leave a node with fewer GPUs, as a device plugin does that finds some broken."""
        self._node(name, lambda json: json["status"]["allocatable"].update({GPU: str(gpus)}))

    def drain(self, name: str) -> None:
        """Cordon a node and delete what runs there."""
        self.cordon(name)
        for pod in self.pods():
            if pod.node_name == name:
                self.delete_pod(pod.name)

    def remove_node(self, name: str) -> None:
        """Delete a node; the pods that were on it are collected."""
        with suppress(ApiError):
            self._cluster.delete(WatchedKind.NODE, "", name)
            self._cluster.delete(WatchedKind.RESOURCE_SLICE, "", resource_slice(name, ())["metadata"]["name"])
        for pod in self.pods():
            if pod.node_name == name:
                self.delete_pod(pod.name)

    def _node(self, name: str, patch: Callable[[Json], None]) -> None:
        with suppress(ApiError):
            self._cluster.update(WatchedKind.NODE, ("", name), patch)

    def _update(self, kind: str, name: str, patch: Callable[[Json], None]) -> None:
        with suppress(ApiError):
            self._cluster.update(kind, (NAMESPACE, name), patch)

    def _create(self, manifest: Json) -> None:
        with suppress(ApiError):
            self._cluster.create(WatchedKind.POD, manifest)


def _role(part: int) -> str:
    return f"role-{part}"


def _requests(gpus: int) -> dict[str, str]:
    return {"cpu": "1"} | ({GPU: str(gpus)} if gpus else {})


def _scenario(gang: Gang) -> ScenarioGang:
    return ScenarioGang(gang.name, NAMESPACE, gang.minimum, (), gang.priority, queue=gang.queue)
