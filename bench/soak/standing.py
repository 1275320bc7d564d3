"""Pods that are there before a soak and stay until its end: what churns is a small part of a large cluster."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from localcluster.client import PODS, ApiClient, JsonObject
from localcluster.errors import LocalClusterError
from localcluster.nodes import NodeShape, numbered_nodes
from localcluster.workloads import GangSpec, PodTemplate, Role

#: Pods of a node: its kubelet's default limit is 110, and some room is left.
PODS_PER_NODE: Final = 100

#: Half of the pods are members of gangs of this size, the other half are other schedulers'.
GANG_SIZE: Final = 10

#: Pods of one namespace. What churns has a namespace of its own, so that listing it costs no more in a large cluster.
_PODS_PER_NAMESPACE: Final = 5_000

#: Objects that are created between two lines of progress.
_BATCH: Final = 2_500

#: How often is looked whether all run, as a look lists thousands, and how long that may take for each pod (seconds):
#: kwok starts some hundred pods a second.
_LOOK_SECONDS: Final = 2.0
_SECONDS_PER_POD, _LEAST_SECONDS = 0.02, 60.0

#: What each asks for.
_POD: Final = PodTemplate(cpu="100m", memory="100Mi")

#: Keeps what churns on the nodes that change.
_TAINT: Final = {"key": "soak", "value": "standing", "effect": "NoSchedule"}


def create_standing(api: ApiClient, pods: int, say: Callable[[str], None]) -> None:
    """Create so many pods on nodes of their own, and wait until all run; raise LocalClusterError if they do not."""
    namespaces = [_namespace(number) for number in range(math.ceil(pods / _PODS_PER_NAMESPACE))]
    shape = NodeShape(gpus=0, taints=(_TAINT,))
    api.create_all({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in namespaces)
    api.create_all(numbered_nodes(math.ceil(pods / PODS_PER_NODE), shape, prefix="standing"))
    objects = list(standing_objects(pods))
    for first in range(0, len(objects), _BATCH):
        api.create_all(objects[first : first + _BATCH])
        say(f"{min(first + _BATCH, len(objects)):7} of {len(objects)} objects of standing pods created")
    _wait_until_all_run(api, namespaces, max(_LEAST_SECONDS, _SECONDS_PER_POD * pods))


def standing_objects(pods: int) -> Iterator[JsonObject]:
    """Iterate over the pods, each bound to its node already, and over the PodGroup of each gang before its members."""
    gangs = pods // (2 * GANG_SIZE)
    for number in range(gangs):
        at = number * GANG_SIZE
        spec = GangSpec(f"standing-{number}", _namespace_of(at), GANG_SIZE, roles=(Role("", GANG_SIZE, _POD),))
        yield spec.pod_group()
        for place, pod in enumerate(spec.pods(), at):
            pod["spec"]["nodeName"] = _node_of(place)
            yield pod
    for place in range(gangs * GANG_SIZE, pods):
        other = replace(_POD, scheduler="default-scheduler", node_name=_node_of(place))
        yield other.pod(f"other-{place}", _namespace_of(place))


def _wait_until_all_run(api: ApiClient, namespaces: list[str], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    for namespace in namespaces:
        while left := len(api.list_items(PODS, namespace, fieldSelector="status.phase!=Running")):
            if time.monotonic() > deadline:
                raise LocalClusterError(f"{left} pods of {namespace} do not run after {seconds:.0f} s")
            time.sleep(_LOOK_SECONDS)


def _namespace_of(place: int) -> str:
    return _namespace(place // _PODS_PER_NAMESPACE)


def _namespace(number: int) -> str:
    return f"standing-{number}"


def _node_of(place: int) -> str:
    return f"standing-{place // PODS_PER_NODE}"
