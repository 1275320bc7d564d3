"""Kubernetes objects as an API server sends them, `managedFields` and all, rendered without a JSON encoder.

They are made up, but carry what such objects carry: a pod has 5.6 kB, a node 8.3 kB and a name of 41 characters.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from bench.service.documents import CREATED, NAMESPACE, JsonObject, node_document, pod_document, slice_document

_FIELD = re.compile(rb"@([A-Z]+)@")


class Template:
    """JSON with gaps: the text between them is encoded once."""

    def __init__(self, document: JsonObject) -> None:
        """Take every string `@NAME@` in the document for a gap."""
        parts = _FIELD.split(json.dumps(document, separators=(",", ":")).encode())
        self._texts, self._names = parts[::2], [name.decode() for name in parts[1::2]]

    def render(self, values: Mapping[str, str]) -> bytes:
        """Fill the gaps; the values need no escaping."""
        parts = [self._texts[0]]
        for name, text in zip(self._names, self._texts[1:], strict=True):
            parts += (values[name].encode(), text)
        return b"".join(parts)


@dataclass(slots=True)
class PodRecord:
    """What tells one pod from another, and what changes while Muster runs; `version` is its resourceVersion."""

    name: str
    uid: str
    scheduler: str = "muster"
    group: str = ""
    node: str = ""
    nominated: str = ""
    gpus: int = 1
    cpu: str = "500m"
    version: int = 1

    def encode(self) -> bytes:
        """Return the pod as the API server sends it."""
        template = _pod_template(bool(self.group), bool(self.node), bool(self.nominated), self.gpus, self.cpu)
        return template.render(
            {
                "NAME": self.name,
                "UID": self.uid,
                "SCHEDULER": self.scheduler,
                "GROUP": self.group,
                "NODE": self.node,
                "NOMINATED": self.nominated,
                "VERSION": str(self.version),
            }
        )


@dataclass(slots=True)
class NodeRecord:
    """What tells one node from another; `version` is its resourceVersion. Are its GPUs in a ResourceSlice: `sliced`."""

    name: str
    uid: str
    zone: str
    version: int = 1
    sliced: bool = False

    def encode(self) -> bytes:
        """Return the node as the API server sends it."""
        values = {"NAME": self.name, "UID": self.uid, "ZONE": self.zone, "VERSION": str(self.version)}
        return _node_template(self.sliced).render(values)

    def encode_slice(self) -> bytes:
        """Return its ResourceSlice as the API server sends it."""
        return _slice_template().render({"NAME": self.name, "UID": self.uid, "VERSION": "1"})


def uid(kind: int, number: int) -> str:
    """Return the UID of the object of that kind and number."""
    return f"{kind:08x}-5eed-4c0d-9b1e-{number:012x}"


def node_name(number: int) -> str:
    """Return a node's name, of 41 characters."""
    return f"gke-research-gpu-a100-80g-pool-3-{number:08x}"


def node_names(count: int) -> list[str]:
    """Return the names of the first nodes."""
    return [node_name(number) for number in range(count)]


def caller_pod(pod: PodRecord) -> bytes:
    """Return the pod as kube-scheduler sends it to an extender: it drops `managedFields` from what it watches."""
    document: JsonObject = json.loads(pod.encode())
    del document["metadata"]["managedFields"]
    return json.dumps(document, separators=(",", ":")).encode()


def queue(name: str, parent: str, uid: str, gpus: int = 160) -> JsonObject:
    """Return a Queue with quota for GPUs, CPU and memory, with a `parent` or without."""
    quota = (("nvidia.com/gpu", str(gpus)), ("cpu", "4k"), ("memory", "32Ti"))
    resources = [{"name": name, "nominalQuota": amount} for name, amount in quota]
    return {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "Queue",
        "metadata": {"name": name, "uid": uid, "resourceVersion": "1", "generation": 1, "creationTimestamp": CREATED},
        "spec": {
            "flavors": [{"name": "default", "resources": resources}],
            "namespaceSelector": {},
            **({"parent": parent} if parent else {}),
        },
    }


def pod_group(name: str, uid: str, min_member: int, queue: str, version: int) -> JsonObject:
    """Return a coscheduling PodGroup, in a Queue if it has the name of one."""
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": uid,
            "resourceVersion": str(version),
            "generation": 1,
            "creationTimestamp": CREATED,
            "labels": {"muster.dev/queue": queue} if queue else {},
        },
        "spec": {"minMember": min_member},
    }


@functools.cache
def _pod_template(grouped: bool, bound: bool, nominated: bool, gpus: int, cpu: str) -> Template:  # noqa: FBT001 - the cache's key
    return Template(pod_document(grouped=grouped, bound=bound, nominated=nominated, gpus=gpus, cpu=cpu))


@functools.cache
def _node_template(sliced: bool) -> Template:  # noqa: FBT001 - the cache's key
    return Template(node_document(sliced=sliced))


@functools.cache
def _slice_template() -> Template:
    return Template(slice_document())
