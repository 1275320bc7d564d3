"""Builders of what tests are about: each takes only what a test wants to say, and fills in the rest.

`*_json` build Kubernetes objects as the API server writes them, and `written` turns those into bytes as they would
arrive; `pod`, `node` and `shape` build domain values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import msgspec

from extender.explain.documents import ApiDocument, QueueRow
from extender.objects.meta import Selector
from extender.objects.node import Node
from extender.objects.pod import Pod, Shape
from extender.objects.podgroup import NO_GROUP, GroupRef
from extender.objects.podspec import Taint, Toleration
from extender.objects.sources.coscheduling import COSCHEDULING, COSCHEDULING_LABEL

GPU = "nvidia.com/gpu"
GI = 2**30

#: When every object of a test was created, unless it says otherwise.
CREATED = "2026-01-01T00:00:00Z"

#: A JSON object.
Json: TypeAlias = dict[str, Any]


def written(document: object) -> bytes:
    """Write a JSON document as bytes."""
    return json.dumps(document).encode()


def metadata_json(
    name: str,
    *,
    namespace: str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Json:
    """Build an object's metadata; its UID follows from its name."""
    meta: Json = {"name": name, "uid": f"uid-{name}", "creationTimestamp": CREATED, "resourceVersion": "1"}
    optional = {"namespace": namespace, "labels": labels, "annotations": annotations}
    return meta | {key: value for key, value in optional.items() if value}


def container_json(name: str = "main", requests: Mapping[str, object] | None = None, *, sidecar: bool = False) -> Json:
    """Build a container; as a sidecar it belongs among the init containers."""
    container: Json = {"name": name, "image": "example.com/train", "resources": {"requests": dict(requests or {})}}
    return container | ({"restartPolicy": "Always"} if sidecar else {})


def pod_json(
    name: str = "pod",
    *,
    gpus: int = 0,
    gang: str = "",
    node: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> Json:
    """Build a pod of namespace `default` that asks for one CPU and `gpus` GPUs, in the coscheduling gang `gang`.

    `spec` and `status` replace fields of theirs.
    """
    requests = {"cpu": "1"} | ({GPU: str(gpus)} if gpus else {})
    label = {COSCHEDULING_LABEL: gang} if gang else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata_json(
            name, namespace="default", labels=label | dict(labels or {}), annotations=annotations
        ),
        "spec": {"schedulerName": "muster", "containers": [container_json(requests=requests)]}
        | ({"nodeName": node} if node else {})
        | dict(spec or {}),
        "status": {"phase": "Running" if node else "Pending"} | dict(status or {}),
    }


def node_json(
    name: str = "node",
    *,
    gpus: int = 8,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Json] = (),
    unschedulable: bool = False,
    ready: str = "True",
) -> Json:
    """Build a node with 64 CPUs, 512 GiB, room for 110 pods and `gpus` GPUs; `ready` is its condition's status."""
    allocatable = {"cpu": "64", "memory": "512Gi", "pods": "110"} | ({GPU: str(gpus)} if gpus else {})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata_json(name, labels=labels),
        "spec": {"taints": list(taints), "unschedulable": unschedulable},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": ready}]},
    }


def coscheduling_json(name: str = "gang", *, annotations: Mapping[str, str] | None = None, **spec: object) -> Json:
    """Build a `scheduling.x-k8s.io/v1alpha1` PodGroup; keywords are fields of its spec."""
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": metadata_json(name, namespace="default", annotations=annotations),
        "spec": spec,
    }


def native_json(name: str = "gang", *, annotations: Mapping[str, str] | None = None, **policy: object) -> Json:
    """Build a `scheduling.k8s.io/v1beta1` PodGroup; keywords are its scheduling policy."""
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": metadata_json(name, namespace="default", annotations=annotations),
        "spec": {"schedulingPolicy": policy},
    }


def volcano_json(name: str = "gang", *, annotations: Mapping[str, str] | None = None, **spec: object) -> Json:
    """Build a `scheduling.volcano.sh/v1beta1` PodGroup; keywords are fields of its spec."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": metadata_json(name, namespace="default", annotations=annotations),
        "spec": spec,
    }


def shape(
    gpus: int = 0, *, cpu: int = 1000, selector: Selector | None = None, tolerations: tuple[Toleration, ...] = ()
) -> Shape:
    """Build a shape that takes `cpu` milli-CPU, one pod and `gpus` GPUs."""
    requests = {"cpu": cpu, "pods": 1} | ({GPU: gpus} if gpus else {})
    return Shape(tuple(sorted(requests.items())), selector or Selector(), tolerations)


def pod(name: str = "pod", gpus: int = 0, *, gang: str = "", node: str = "", **fields: Any) -> Pod:
    """Build a pod value; keywords are fields of Pod."""
    group = GroupRef(COSCHEDULING, "default", gang) if gang else NO_GROUP
    plain = Pod(f"uid-{name}", "default", name, shape(gpus), CREATED, group, node_name=node, scheduler_name="muster")
    return replace(plain, **fields)


def node(name: str = "node", gpus: int = 8, *, taints: tuple[Taint, ...] = (), **labels: str) -> Node:
    """Build a node value with 64 CPUs, 512 GiB, room for 110 pods and `gpus` GPUs; keywords are labels."""
    allocatable = {"cpu": 64_000, "memory": 512 * GI, "pods": 110} | ({GPU: gpus} if gpus else {})
    return Node(name, f"uid-{name}", allocatable, labels, taints)


def queue_row(name: str, **fields: Any) -> QueueRow:
    """Return how a Queue stands that nobody uses, with other values where `fields` has them."""
    idle: dict[str, Any] = {
        "parent": "",
        "active": True,
        "reason": "",
        "message": "",
        "share": 0.0,
        "pending_gangs": 0,
        "admitted_gangs": 0,
        "flavors": (),
    }
    return QueueRow(name, **(idle | fields))


def as_sent(document: ApiDocument) -> Any:
    """Return a document of the API as a client reads it."""
    return msgspec.json.decode(msgspec.json.encode(document))
