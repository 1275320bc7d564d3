"""The Kubernetes objects that a scenario's nodes and gangs amount to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import yaml

from extender.hardware.calibration import DATA_KEY, LIST_KEY
from extender.objects import keys
from muster_lab.simulation.objects import Json
from muster_lab.simulation.podgroups import membership, merged, pods_of
from muster_lab.simulation.scenario import DisruptionLimit, ScenarioGang, ScenarioMember, ScenarioNode


def node_manifest(node: ScenarioNode) -> Json:
    """Return a ready Node."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": dict(node.labels), "annotations": dict(node.annotations)},
        "spec": {
            **({"taints": [dict(taint) for taint in node.taints]} if node.taints else {}),
            **({"unschedulable": True} if node.unschedulable else {}),
        },
        "status": {
            "capacity": dict(node.allocatable),
            "allocatable": dict(node.allocatable),
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def disruption_budget_manifest(gang: ScenarioGang, limit: DisruptionLimit) -> Json:
    """Return the PodDisruptionBudget of a gang's pods, which is called as the gang is."""
    limits = {"minAvailable": limit.min_available, "maxUnavailable": limit.max_unavailable}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": gang.name, "namespace": gang.namespace},
        "spec": {
            **{key: number for key, number in limits.items() if number is not None},
            "selector": {"matchLabels": pods_of(gang)},
        },
    }


def queue_manifest(name: str, spec: Json) -> Json:
    """Return a Queue."""
    return {"apiVersion": "muster.dev/v1alpha1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def namespace_manifest(name: str, labels: Mapping[str, str]) -> Json:
    """Return a Namespace with the label that the API server gives it. Source: the label kubernetes.io/metadata.name."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {**labels, "kubernetes.io/metadata.name": name}},
    }


def priority_class_manifest(name: str, value: int) -> Json:
    """Return a PriorityClass that is not the default."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def pod_manifest(gang: ScenarioGang, member: ScenarioMember, scheduler_name: str, *, placed: bool) -> Json:
    """Return one of the gang's pods, `placed` where the scenario says that it is already, or without a node."""
    place = gang.placed.get(member.name) if placed else None
    role = {keys.ROLE: member.role} if member.role else {}
    labels = {**role, **member.labels, **pods_of(gang)}
    annotations = dict(member.annotations)
    spec: Json = {
        "schedulerName": scheduler_name,
        "restartPolicy": "Never",
        "priority": gang.priority,
        "containers": [{"name": "main", "image": "training", "resources": _resources(gang, member)}],
        "terminationGracePeriodSeconds": gang.grace_period,
    }
    if gang.priority_class:
        spec["priorityClassName"] = gang.priority_class
    if member.claims:
        spec["resourceClaims"] = [dict(claim) for claim in member.claims]
    if gang.node_selector:
        spec["nodeSelector"] = dict(gang.node_selector)
    if gang.tolerations:
        spec["tolerations"] = [dict(toleration) for toleration in gang.tolerations]
    status: Json = {"phase": "Pending"}
    if place is not None:
        annotations |= place.annotations
        spec["nodeName"] = place.node
        status["phase"] = place.state.value
        status["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": None}]
    pod: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": member.name,
            "namespace": gang.namespace,
            "labels": labels,
            **({"annotations": annotations} if annotations else {}),
            "ownerReferences": [_job(gang)],
        },
        "spec": spec,
        "status": status,
    }
    return merged(pod, membership(gang))


def _job(gang: ScenarioGang) -> Json:
    """Return the reference to the object that makes the gang's pods, and makes them again."""
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": gang.name, "uid": f"job:{gang.namespace}/{gang.name}"}
    return {**job, "controller": True, "blockOwnerDeletion": True}


def calibration_manifest(name: str, measurements: Sequence[Json]) -> Json:
    """Return the ConfigMap called `name` (`namespace/name`) that holds measurements."""
    namespace, _, own = name.partition("/")
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": own, "namespace": namespace},
        "data": calibration_data(measurements),
    }


def calibration_data(measurements: Sequence[Json]) -> dict[str, str]:
    """Return measurements as the data of their ConfigMap."""
    return {DATA_KEY: yaml.safe_dump({LIST_KEY: list(measurements)})}


def _resources(gang: ScenarioGang, member: ScenarioMember) -> Json:
    """Return requests, and limits: of extended resources, which Kubernetes wants to be equal, or of all."""
    requests = member.requests
    limits = {resource: quantity for resource, quantity in requests.items() if gang.guaranteed or "/" in resource}
    return {"requests": dict(requests), **({"limits": limits} if limits else {})}
