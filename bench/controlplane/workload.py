"""What is created in a measurement: gangs or single pods, as requests with their bodies encoded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from bench.controlplane.client import Request
from localcluster.client import NATIVE_POD_GROUPS, POD_GROUPS, PODS, JsonObject, Resource
from localcluster.workloads import GangSpec, PodTemplate, Role

NAMESPACE = "default"
MERGE_PATCH = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class Workload:
    """Some gangs of equal size, all pods alike; with `grouped=False` the same pods belong to no gang.

    `missing` members of each gang are never created, so that it waits for ever. `gates` are scheduling gates of its
    pods. `prefix` tells its names from those of another workload.
    """

    gangs: int
    size: int
    gpus: int = 1
    missing: int = 0
    grouped: bool = True
    prefix: str = "gang"
    gates: tuple[str, ...] = ()

    @property
    def pods(self) -> int:
        """Return the number of pods that are created."""
        return self.gangs * (self.size - self.missing)

    @property
    def title(self) -> str:
        """Return what people call it."""
        if not self.grouped:
            return f"{self.pods:,} single pods"
        gangs = "1 gang" if self.gangs == 1 else f"{self.gangs:,} gangs"
        return f"{gangs} of {self.size:,}"

    @property
    def least_nodes(self) -> int:
        """Return on how many nodes it fits at least."""
        return -(-self.pods // (GPUS_PER_NODE // self.gpus))

    def pod_names(self) -> Iterator[str]:
        """Yield the names of the pods, gang by gang."""
        for gang in range(self.gangs):
            for member in range(self.size - self.missing):
                yield f"{self.prefix}-{gang}-{member}"

    def creations(self, scheduler: str, groups: Resource | None) -> list[Request]:
        """Return what creates it: each PodGroup, then its pods. Without `groups` no PodGroup is made."""
        return [
            Request("POST", resource.path(NAMESPACE), orjson.dumps(item))
            for resource, item in self._objects(scheduler, groups if self.grouped else None)
        ]

    def running(self, groups: Resource, nodes: list[str]) -> list[Request]:
        """Return what creates it placed already: gang by gang, each node in `nodes` full before the next is used.

        No scheduler is asked. Nodes have eight GPUs.
        """
        per_node = GPUS_PER_NODE // self.gpus
        pods = iter(range(self.pods))
        requests = []
        for resource, item in self._objects("default-scheduler", groups):
            if resource is PODS:
                item["spec"]["nodeName"] = nodes[next(pods) // per_node]
            requests.append(Request("POST", resource.path(NAMESPACE), orjson.dumps(item)))
        return requests

    def nominations(self, nodes: list[str]) -> list[Request]:
        """Return what nominates a node for each pod: each node in `nodes` full before the next is used."""
        per_node = GPUS_PER_NODE // self.gpus
        return [
            Request(
                "PATCH",
                PODS.path(NAMESPACE, name, "status"),
                orjson.dumps({"status": {"nominatedNodeName": nodes[number // per_node]}}),
                MERGE_PATCH,
            )
            for number, name in enumerate(self.pod_names())
        ]

    def completions(self, gang: int) -> list[Request]:
        """Return what ends the pods of one gang well, as their kubelets would say it."""
        body = orjson.dumps({"status": {"phase": "Succeeded"}})
        names = [f"{self.prefix}-{gang}-{member}" for member in range(self.size)]
        return [Request("PATCH", PODS.path(NAMESPACE, name, "status"), body, MERGE_PATCH) for name in names]

    def _objects(self, scheduler: str, groups: Resource | None) -> Iterator[tuple[Resource, JsonObject]]:
        template = PodTemplate(gpus=self.gpus, cpu="4", memory="32Gi", scheduler=scheduler, gates=self.gates)
        for number in range(self.gangs):
            name = f"{self.prefix}-{number}"
            if groups is None:
                for member in range(self.size - self.missing):
                    yield PODS, template.pod(f"{name}-{member}", NAMESPACE)
                continue
            created = Role("", self.size - self.missing, template)
            gang = GangSpec(name, NAMESPACE, self.size, (created,), native=groups is NATIVE_POD_GROUPS)
            yield groups, gang.pod_group()
            for pod in gang.pods():
                yield PODS, pod


#: Nodes of a measurement have as many.
GPUS_PER_NODE = 8

#: What `Workload.creations` may be asked for.
GROUP_RESOURCES = (POD_GROUPS, NATIVE_POD_GROUPS)
