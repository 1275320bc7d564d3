"""Reading what a scenario says of the hardware: levels of the network, and objects of other APIs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from extender.domain.levels import HOST_LABELS, RESERVED_NAMES
from extender.fabric.calibration import DATA_KEY, LIST_KEY, read_calibration
from extender.numa.nodetopology import read_node_topology
from extender.settings import Settings, TopologyLevel
from extender.simulation.manifests import calibration_data
from extender.simulation.object_document import (
    DeviceDocument,
    HyperNodeDocument,
    NodeResourceTopologyDocument,
    NodeTopologyDocument,
)
from extender.simulation.objects import Json
from extender.simulation.problems import Problems
from extender.simulation.scenario import Facts
from extender.simulation.scenario_document import Document, LevelDocument, TopologyDocument
from extender.wire.codec import decode_node_resource_topology, encode

#: The lists of a scenario that are read here.
LISTS = ("nodeResourceTopology", "hyperNodes", "devices", "calibration")


@dataclass(slots=True)
class FactsReader:
    """Turn parts of a document into facts; what is wrong with them is added to `problems`."""

    problems: Problems
    _given: list[Json] = field(default_factory=list)

    def of_nodes(self, names: Iterable[str], item: object, path: str) -> None:
        """Take in what a node's own entry says of its zones, once for each node that the entry stands for."""
        document = None if item is None else self.problems.parse(NodeTopologyDocument, item, path)
        if document is None:
            return
        self._zones(document, path)
        self._given += [_node_topology(document, name) for name in names]

    def read(self, topology: TopologyDocument | None, lists: Mapping[str, Sequence[Any]], nodes: set[str]) -> Facts:
        """Return everything; `lists` are the document's own by their keys, `nodes` the names of those there are."""
        facts = Facts(
            levels=None if topology is None else self._levels(topology),
            node_topologies=(*self._given, *self._node_topologies(lists["nodeResourceTopology"], nodes)),
            hyper_nodes=self._hyper_nodes(lists["hyperNodes"], nodes),
            devices=self._devices(lists["devices"], nodes),
            calibration=self._calibration(lists["calibration"]),
        )
        said = (topology["metadata"]["name"] for topology in facts.node_topologies)
        self.problems.unique("nodeResourceTopology", "the topology of node", said)
        return facts

    def _levels(self, topology: TopologyDocument) -> tuple[TopologyLevel, ...]:
        """Return the levels without the node itself, which may be listed as the innermost and goes without saying."""
        path, problems, before = "topology.levels", self.problems, len(self.problems.lines)
        problems.unique(path, "level", (level.name for level in topology.levels))
        problems.unique(path, "node label", (level.node_label for level in topology.levels))
        levels: list[LevelDocument] = []
        for index, level in enumerate(topology.levels):
            if level.node_label not in HOST_LABELS:
                if level.name in RESERVED_NAMES:
                    problems.add(f"{path}[{index}].name", f"'{level.name}' is a level by itself: give another name")
                levels.append(level)
            elif index < len(topology.levels) - 1:
                problems.add(f"{path}[{index}].nodeLabel", f"'{level.node_label}' names single nodes: it goes last")
        if len(problems.lines) > before:
            return ()
        try:
            return Settings.model_validate({"topology_levels": [_json(level) for level in levels]}).topology_levels
        except ValidationError as error:
            problems.add(path, error.errors()[0]["msg"].removeprefix("Value error, "))
            return ()

    def _node_topologies(self, items: Sequence[object], nodes: set[str]) -> list[Json]:
        found: list[Json] = []
        for index, item in enumerate(items):
            path = f"nodeResourceTopology[{index}]"
            document = self.problems.parse(NodeResourceTopologyDocument, item, path)
            if document is not None:
                self._named(document.metadata.name, nodes, path)
                self._zones(document, path)
                found.append(_node_topology(document, document.metadata.name))
        return found

    def _zones(self, topology: NodeTopologyDocument, path: str) -> None:
        """Check what only the whole tells, in the end by Muster's own reading."""
        problems, before = self.problems, len(self.problems.lines)
        names = [zone.name for zone in topology.zones]
        problems.unique(f"{path}.zones", "zone", names)
        for index, zone in enumerate(topology.zones):
            place = f"{path}.zones[{index}]"
            for number, cost in enumerate(zone.costs):
                if cost.name not in names:
                    problems.add(f"{place}.costs[{number}].name", f"'{cost.name}' is no zone of the node")
            problems.unique(f"{place}.resources", "resource", (resource.name for resource in zone.resources))
        seen = decode_node_resource_topology(encode(_node_topology(topology, "node")))
        problem = read_node_topology(seen).problem
        if problem is not None and len(problems.lines) == before:
            problems.add(f"{path}.{problem.field}", problem.message)

    def _hyper_nodes(self, items: Sequence[object], nodes: set[str]) -> tuple[Json, ...]:
        read = [self.problems.parse(HyperNodeDocument, item, f"hyperNodes[{i}]") for i, item in enumerate(items)]
        names = [document.metadata.name for document in read if document is not None]
        self.problems.unique("hyperNodes", "HyperNode", names)
        for index, document in enumerate(read):
            for place, member in enumerate([] if document is None else document.spec.members):
                exact = member.selector.exact_match
                known, kind = (nodes, "node") if member.type == "Node" else (set(names), "HyperNode")
                if exact is not None and exact.name not in known:
                    path = f"hyperNodes[{index}].spec.members[{place}].selector.exactMatch.name"
                    self.problems.add(path, f"'{exact.name}' is no {kind} of the scenario")
        return tuple(_json(document) for document in read if document is not None)

    def _devices(self, items: Sequence[object], nodes: set[str]) -> tuple[Json, ...]:
        read = [self.problems.parse(DeviceDocument, item, f"devices[{index}]") for index, item in enumerate(items)]
        for index, document in enumerate(read):
            if document is not None:
                self._named(document.metadata.name, nodes, f"devices[{index}]")
        names = [document.metadata.name for document in read if document is not None]
        self.problems.unique("devices", "the Device of node", names)
        return tuple(_json(document) for document in read if document is not None)

    def _calibration(self, items: Sequence[Any]) -> tuple[Json, ...]:
        where = f"data[{DATA_KEY}].{LIST_KEY}"
        for problem in read_calibration(calibration_data(items)).problems:
            self.problems.add(problem.field.replace(where, "calibration"), problem.message)
        return tuple(items)

    def _named(self, name: str, nodes: set[str], path: str) -> None:
        if name not in nodes:
            self.problems.add(f"{path}.metadata.name", f"'{name}' is no node of the scenario")


def _node_topology(document: NodeTopologyDocument, node: str) -> Json:
    """Return the whole object, every amount given."""
    json = _json(document)
    for zone in json["zones"]:
        for resource in zone["resources"]:
            resource.setdefault("allocatable", resource.get("capacity"))
            resource.setdefault("capacity", resource["allocatable"])
            resource.setdefault("available", resource["allocatable"])
    head = {"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology"}
    return {**head, "metadata": {"name": node}, **json}


def _json(document: Document) -> Json:
    return document.model_dump(by_alias=True, exclude_none=True)
