"""The rows of nodes, and the islands of free GPUs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from extender.service.board.documents import (
    CapacityDocument,
    LevelCapacity,
    NodesDocument,
)
from tests.properties.truth.world import GPU, Recomputed, taken


class TrueNodes(Recomputed):
    """What is on each node, and what is left."""

    def nodes(self, document: NodesDocument) -> None:
        """Compare the rows of nodes."""
        assert {item.name for item in document.nodes} == set(self.objects.nodes)
        for item in document.nodes:
            allocatable = self.objects.nodes[item.name].allocatable
            promised = taken(self.objects.holding(item.name, promised=True))
            self.same("nodes.nodes[].gpus.allocatable", item.gpus.allocatable, self.objects.total(item.name))
            self.same("nodes.nodes[].gpus.reserved", item.gpus.reserved, promised)
            self.same("nodes.nodes[].gpus.used", item.gpus.used, taken(self.objects.holding(item.name, promised=False)))
            self.same("nodes.nodes[].gpus.free", item.gpus.free, self.objects.free(item.name, GPU))
            assert item.schedulable == self.objects.takes_pods(item.name)
            holders = Counter[str]()
            for pod in self.objects.holding(item.name):
                holders[pod.key if pod.group.is_pod else str(pod.group)] += taken([pod])
            assert Counter(filter(None, item.holders)) == +holders
            for resource, room in item.resources.items():
                where = "nodes.nodes[].resources{}"
                self.same(f"{where}.allocatable", room.allocatable, allocatable[resource])
                self.same(f"{where}.free", room.free, self.objects.free(item.name, resource))

    def capacity(self, document: CapacityDocument) -> None:
        """Compare the islands of free GPUs, and how many pods fit."""
        rooms = {
            name: self.objects.free(name, GPU) if self.objects.takes_pods(name) else 0
            for name in self.objects.nodes
            if self.objects.total(name)
        }
        for level in document.levels:
            own = {name: room for name, room in rooms.items() if (name in self.objects.devices) == bool(level.product)}
            self.level(level, own)
        for fitting in document.gangs:
            size = fitting.gpus_per_pod
            self.same("capacity.gangs[].pods", fitting.pods, sum(room // size for room in rooms.values()))
        self.same("capacity.gangs[].gpusPerPod", [each.gpus_per_pod for each in document.gangs], [1, 2, 4, 8])

    def level(self, level: LevelCapacity, rooms: Mapping[str, int]) -> None:
        """Compare the islands of one level."""
        domains: dict[str, int] = defaultdict(int)
        for name, room in rooms.items():
            labels = {"node": name, "cluster": "", **self.objects.nodes[name].labels}
            if level.level in labels:
                domains["b0/" * (level.level == "rack") + labels[level.level]] += room
        sizes = Counter(domains.values())
        where, largest = "capacity.levels[]", sorted(sizes, reverse=True)
        self.same(f"{where}.domains", level.domains, len(domains))
        self.same(f"{where}.islands[].freeGpus", [each.free_gpus for each in level.islands], largest)
        self.same(f"{where}.islands[].domains", [each.domains for each in level.islands], [sizes[n] for n in largest])
        self.same(f"{where}.largest.freeGpus", level.largest.free_gpus, max(sizes))
        assert domains[level.largest.domain] == max(sizes)
