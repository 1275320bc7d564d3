"""The objects of a workload: pods that ask for GPUs, and the PodGroups that make gangs of them."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field

from localcluster.client import NATIVE_POD_GROUPS, POD_GROUPS, JsonObject
from localcluster.nodes import GPU

#: The label by which a pod names its coscheduling PodGroup.
POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
ROLE_LABEL = "muster.dev/role"

#: kwok ends a running pod that carries this after the given whole number of seconds (`kwok/stages.yaml`).
RUN_SECONDS_ANNOTATION = "kwok.muster.dev/run-seconds"

#: Nothing pulls it: kwok only pretends to run pods.
IMAGE = "registry.example/trainer:1"


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """What one pod asks for. `cpu` and `memory` are Kubernetes quantities, `gpus` is a count.

    `run_seconds` makes kwok end the pod by itself; without it the pod runs until the story completes or deletes it.
    `node_name` puts the pod on a node without asking any scheduler. `spec` is added to the pod's spec as it is.
    """

    gpus: int = 0
    cpu: str = "1"
    memory: str = "1Gi"
    scheduler: str = "muster"
    priority_class: str | None = None
    run_seconds: int | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    gates: tuple[str, ...] = ()
    node_name: str | None = None
    host_port: int | None = None
    finalizers: tuple[str, ...] = ()
    spec: JsonObject = field(default_factory=dict)

    def pod(self, name: str, namespace: str) -> JsonObject:
        """Return a Pod of this shape that belongs to no gang."""
        amounts = {"cpu": self.cpu, "memory": self.memory}
        if self.gpus:
            amounts[GPU] = str(self.gpus)
        annotations = dict(self.annotations)
        if self.run_seconds is not None:
            annotations[RUN_SECONDS_ANNOTATION] = str(self.run_seconds)
        spec: JsonObject = {
            "schedulerName": self.scheduler,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": IMAGE, "resources": {"requests": amounts, "limits": amounts}}],
        }
        if self.priority_class is not None:
            spec["priorityClassName"] = self.priority_class
        if self.node_selector:
            spec["nodeSelector"] = dict(self.node_selector)
        if self.gates:
            spec["schedulingGates"] = [{"name": gate} for gate in self.gates]
        if self.node_name is not None:
            spec["nodeName"] = self.node_name
        if self.host_port is not None:
            spec["containers"][0]["ports"] = [{"containerPort": self.host_port, "hostPort": self.host_port}]
        spec.update(copy.deepcopy(self.spec))
        metadata: JsonObject = {
            "name": name,
            "namespace": namespace,
            "labels": dict(self.labels),
            "annotations": annotations,
        }
        if self.finalizers:
            metadata["finalizers"] = list(self.finalizers)
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@dataclass(frozen=True, slots=True)
class Role:
    """A part of a gang whose pods are alike, such as one launcher or eight workers. An unnamed role has no label."""

    name: str
    count: int
    template: PodTemplate


@dataclass(frozen=True, slots=True)
class GangSpec:
    """A PodGroup and the pods that belong to it.

    `native` chooses `scheduling.k8s.io/v1beta1` instead of coscheduling's API. `timeout_seconds` is coscheduling's
    scheduleTimeoutSeconds.
    """

    name: str
    namespace: str
    min_member: int
    roles: tuple[Role, ...]
    native: bool = False
    timeout_seconds: int | None = None
    min_resources: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    def pod_group(self) -> JsonObject:
        """Return the PodGroup."""
        metadata = {"name": self.name, "namespace": self.namespace, "annotations": dict(self.annotations)}
        if self.native:
            return {
                "apiVersion": NATIVE_POD_GROUPS.api_version,
                "kind": NATIVE_POD_GROUPS.kind,
                "metadata": metadata,
                "spec": {"schedulingPolicy": {"gang": {"minCount": self.min_member}}},
            }
        spec: JsonObject = {"minMember": self.min_member}
        if self.timeout_seconds is not None:
            spec["scheduleTimeoutSeconds"] = self.timeout_seconds
        if self.min_resources:
            spec["minResources"] = dict(self.min_resources)
        return {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind, "metadata": metadata, "spec": spec}

    def pods(self) -> list[JsonObject]:
        """Return the members, role by role, named after gang, role and number."""
        return [
            self._member(role, "-".join(part for part in (self.name, role.name, str(number)) if part))
            for role in self.roles
            for number in range(role.count)
        ]

    def _member(self, role: Role, name: str) -> JsonObject:
        pod = role.template.pod(name, self.namespace)
        if role.name:
            pod["metadata"]["labels"][ROLE_LABEL] = role.name
        if self.native:
            pod["spec"]["schedulingGroup"] = {"podGroupName": self.name}
        else:
            pod["metadata"]["labels"][POD_GROUP_LABEL] = self.name
        return pod
