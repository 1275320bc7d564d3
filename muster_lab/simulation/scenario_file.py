"""Reading scenario files: every mistake in a file is named, with its place and value."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from extender.admission.protection import KARPENTER_POOL
from extender.hardware.calibration import DATA_KEY, LIST_KEY, read_calibration
from extender.objects.levels import HOST_LABELS, RESERVED_NAMES
from extender.objects.queue import Queue
from extender.queues.tree import QueueTree
from extender.settings import Settings, TopologyLevel
from extender.strictyaml import DocumentError, load_documents
from muster_lab.simulation.manifests import calibration_data, namespace_manifest
from muster_lab.simulation.notation import Template, TemplateError
from muster_lab.simulation.objects import Json
from muster_lab.simulation.problems import DocumentProblems
from muster_lab.simulation.scenario import (
    Autoscaling,
    Facts,
    NodeFailure,
    NodeGroup,
    Scenario,
    ScenarioGang,
    ScenarioNode,
    ScenarioSharing,
)
from muster_lab.simulation.scenario_devices import DeviceReader
from muster_lab.simulation.scenario_document import (
    NamespaceDocument,
    NodeDocument,
    NodeFailureDocument,
    NodeGroupDocument,
    NodeTemplateDocument,
    ScenarioDocument,
    TopologyDocument,
)
from muster_lab.simulation.scenario_gangs import GangReader
from muster_lab.simulation.scenario_objects import ObjectReader

#: Pods per node where a scenario says nothing. Source: the kubelet's default `maxPods`.
DEFAULT_PODS = "110"

#: The highest value of a PriorityClass that is not the system's.
#: Source: k8s.io/kubernetes pkg/apis/scheduling, HighestUserDefinablePriority.
_HIGHEST_PRIORITY = 1_000_000_000


class ScenarioError(ValueError):
    """A scenario that cannot be read. `problems` are one line each: place, value and what is wrong with it."""

    def __init__(self, source: str, problems: Iterable[str]) -> None:
        """Prefix each problem with the file it is in."""
        self.problems = tuple(f"{source}: {problem}" for problem in problems)
        super().__init__("\n".join(self.problems))


def load_scenario(path: Path) -> Scenario:
    """Read a scenario file; raise ScenarioError listing everything that is wrong with it."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ScenarioError(str(path), [error.strerror or str(error)]) from error
    except UnicodeDecodeError as error:
        raise ScenarioError(str(path), [f"not UTF-8: {error.reason} at byte {error.start}"]) from error
    return read_scenario(text, str(path))


def read_scenario(text: str, source: str) -> Scenario:
    """Read a scenario from YAML; `source` names it in errors. Raises ScenarioError."""
    try:
        documents = load_documents(text)
    except DocumentError as error:
        raise ScenarioError(source, [str(error)]) from error
    if len(documents) > 1:
        raise ScenarioError(source, [f"one document is expected, found {len(documents)}"])
    document = documents[0] if documents else None
    if not isinstance(document, dict):
        found = "nothing" if document is None else type(document).__name__
        raise ScenarioError(source, [f"a mapping with `nodes` and `gangs` is expected, found {found}"])
    reader = _Reader()
    scenario = reader.scenario(document)
    if scenario is None or reader.problems.lines:
        raise ScenarioError(source, reader.problems.lines)
    return scenario


class _Reader:
    """Turn a document into a scenario, collecting problems instead of stopping at the first."""

    def __init__(self) -> None:
        self.problems = DocumentProblems()
        self._objects = ObjectReader(self.problems)
        self._devices = DeviceReader(self.problems)
        self._topologies: list[Json] = []

    def scenario(self, document: Mapping[Any, Any]) -> Scenario | None:
        """Return the scenario; it is complete only if no problems were found."""
        problems = self.problems
        head = problems.parse(ScenarioDocument, document, "")
        nodes: list[ScenarioNode] = []
        for index, item in enumerate(_items(document, "nodes")):
            nodes += self._nodes(item, f"nodes[{index}]")
        groups = [self._group(item, f"nodeGroups[{i}]") for i, item in enumerate(_items(document, "nodeGroups"))]
        autoscaling = self._autoscaling(head, [group for group in groups if group is not None])
        problems.unique(
            "nodes", "node", (node.name for node in chain(nodes, *(each.nodes for each in autoscaling.groups)))
        )
        always = {node.name for node in nodes}
        nodes += chain.from_iterable(group.nodes[: group.least] for group in autoscaling.groups)
        known = {node.name for node in nodes}
        classes = {} if head is None else head.priority_classes
        for name, value in classes.items():
            if value > _HIGHEST_PRIORITY:
                problems.add(f"priorityClasses.{name}", f"'{value}' is above {_HIGHEST_PRIORITY}")
        labels = self._namespaces(_items(document, "namespaces"))
        queues = self._queues(_items(document, "queues"))
        declares = head is not None and head.declare_duration
        reader = GangReader(problems, known, [queue.name for _, queue in queues], classes, declares, self._devices)
        read = [reader.gang(item, f"gangs[{index}]") for index, item in enumerate(_items(document, "gangs"))]
        singles = (reader.singles(item, f"pods[{index}]") for index, item in enumerate(_items(document, "pods")))
        gangs = (*(gang for gang in read if gang is not None), *chain.from_iterable(singles))
        problems.unique("gangs", "gang", (gang.key for gang in gangs))
        problems.unique("gangs", "pod", _pod_names(gangs))
        self._devices.read(document, known)
        claimable = self._devices.complete()
        facts = self._facts(document, None if head is None else head.topology, known)
        if head is None:
            return None
        names = dict.fromkeys([*labels, *(gang.namespace for gang in gangs)])
        sharing = ScenarioSharing(
            queues=tuple(json for json, _ in queues),
            priority_classes=classes,
            namespaces=tuple(namespace_manifest(name, labels.get(name, {})) for name in names),
            warnings=tuple(
                f"queue '{name}': {problem}"
                for name, found in QueueTree(queue for _, queue in queues).problems.items()
                for problem in found
            ),
        )
        failures = self._failures(_items(document, "nodeFailures"), always, known - always)
        return Scenario(
            tuple(nodes), gangs, head.until, head.gpu_hour_price, facts, sharing, failures, claimable, autoscaling
        )

    def _failures(self, items: list[Any], nodes: set[str], grouped: set[str]) -> tuple[NodeFailure, ...]:
        """Return the failures of nodes; no node fails while it is away, or if it is one of a group."""
        read = [self.problems.parse(NodeFailureDocument, item, f"nodeFailures[{i}]") for i, item in enumerate(items)]
        found = [(index, failure) for index, failure in enumerate(read) if failure is not None]
        away: dict[str, float] = {}
        for index, failure in sorted(found, key=lambda each: each[1].at):
            if failure.node in grouped:
                said = f"'{failure.node}' is one of a group: only nodes that are always there fail"
                self.problems.add(f"nodeFailures[{index}].node", said)
            elif failure.node not in nodes:
                self.problems.add(f"nodeFailures[{index}].node", f"'{failure.node}' is no node of the scenario")
            elif failure.at <= away.get(failure.node, -1.0):
                self.problems.add(f"nodeFailures[{index}].at", f"node '{failure.node}' is away at that time already")
            away[failure.node] = math.inf if failure.back is None else failure.back
        failures = (failure for _, failure in found)
        return tuple(NodeFailure(each.node, each.at, each.back, each.gone) for each in failures)

    def _namespaces(self, items: list[Any]) -> dict[str, Mapping[str, str]]:
        """Return the labels of the namespaces that are listed."""
        read = [self.problems.parse(NamespaceDocument, item, f"namespaces[{i}]") for i, item in enumerate(items)]
        listed = [document for document in read if document is not None]
        self.problems.unique("namespaces", "namespace", (document.name for document in listed))
        return {document.name: document.labels for document in listed}

    def _queues(self, items: list[Any]) -> list[tuple[Json, Queue]]:
        read = [self._objects.queue(item, f"queues[{index}]") for index, item in enumerate(items)]
        queues = [found for found in read if found is not None]
        self.problems.unique("queues", "queue", (queue.name for _, queue in queues))
        return queues

    def _facts(self, document: Mapping[Any, Any], topology: TopologyDocument | None, nodes: set[str]) -> Facts:
        objects = self._objects
        levels = None if topology is None else self._levels(topology)
        listed = objects.node_topologies(_items(document, "nodeResourceTopology"), nodes)
        facts = Facts(
            levels=levels,
            node_topologies=(*self._topologies, *listed),
            hyper_nodes=objects.hyper_nodes(_items(document, "hyperNodes"), nodes),
            devices=objects.devices(_items(document, "devices"), nodes),
            calibration=self._calibration(_items(document, "calibration")),
        )
        named = (json["metadata"]["name"] for json in facts.node_topologies)
        self.problems.unique("nodeResourceTopology", "the topology of node", named)
        return facts

    def _nodes(self, item: object, path: str) -> list[ScenarioNode]:
        document = self.problems.parse(NodeDocument, item, path)
        if document is None:
            return []
        names = [document.name] if document.count == 1 else [f"{document.name}-{i}" for i in range(document.count)]
        self._devices.of_nodes(names, document.devices, f"{path}.devices")
        nodes = self._made(document, names, path)
        return [replace(node, unschedulable=document.unschedulable) for node in nodes]

    def _group(self, item: object, path: str) -> NodeGroup | None:
        """Return what an autoscaler may make, None if it cannot be read."""
        document = self.problems.parse(NodeGroupDocument, item, path)
        if document is None:
            return None
        names = [f"{document.name}-{i}" for i in range(document.max)]
        nodes = tuple(self._made(document, names, path))
        ready, removed = document.ready_after, document.remove_after
        return NodeGroup(document.name, nodes, document.min, ready, removed, document.consolidate)

    def _autoscaling(self, head: ScenarioDocument | None, groups: list[NodeGroup]) -> Autoscaling:
        """Return what the autoscaler does: nodes of Karpenter's groups say that they are."""
        if head is None:
            return Autoscaling(tuple(groups))
        if head.provisioning_parameters and head.provisioning_class is None:
            self.problems.add("provisioningParameters", "there is no provisioningClass that takes them")
        if head.provisioning_class is None:
            groups = [replace(each, nodes=tuple(map(partial(_of_pool, each.name), each.nodes))) for each in groups]
        return Autoscaling(tuple(groups), head.provisioning_class, head.provisioning_parameters)

    def _made(self, document: NodeTemplateDocument, names: list[str], path: str) -> list[ScenarioNode]:
        """Return equal nodes with these names."""
        self.problems.amounts(document.allocatable, f"{path}.allocatable")
        if document.node_resource_topology is not None:
            where = f"{path}.nodeResourceTopology"
            self._topologies += self._objects.topologies_of(names, document.node_resource_topology, where)
        labels = self._columns(document.labels_from, document.labels, len(names), f"{path}.labelsFrom")
        notes = self._columns(document.annotations_from, document.annotations, len(names), f"{path}.annotationsFrom")
        return [
            ScenarioNode(
                name=name,
                allocatable={"pods": DEFAULT_PODS} | document.allocatable,
                labels={"kubernetes.io/hostname": name, **document.labels, **_row(labels, index)},
                annotations={**document.annotations, **_row(notes, index)},
                taints=tuple(taint.model_dump(exclude_defaults=True) for taint in document.taints),
            )
            for index, name in enumerate(names)
        ]

    def _columns(
        self, templates: Mapping[str, Template], plain: Mapping[str, str], count: int, path: str
    ) -> dict[str, list[str]]:
        """Return what each template says for each of `count` nodes."""
        columns: dict[str, list[str]] = {}
        for key, template in templates.items():
            if key in plain:
                self.problems.add(f"{path}.{key}", f"'{template.text}': {path.removesuffix('From')}.{key} is there too")
            try:
                columns[key] = [template.render(index) for index in range(count)]
            except TemplateError as error:
                self.problems.add(f"{path}.{key}", str(error))
        return columns

    def _levels(self, topology: TopologyDocument) -> tuple[TopologyLevel, ...]:
        """Return the levels without the node itself, which may be listed as the innermost and goes without saying."""
        path, problems, before = "topology.levels", self.problems, len(self.problems.lines)
        problems.unique(path, "level", (level.name for level in topology.levels))
        problems.unique(path, "node label", (level.node_label for level in topology.levels))
        levels: list[TopologyLevel] = []
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
            return Settings(topology_levels=tuple(levels)).topology_levels
        except ValidationError as error:
            problems.add(path, error.errors()[0]["msg"].removeprefix("Value error, "))
            return ()

    def _calibration(self, items: list[Any]) -> tuple[Json, ...]:
        where = f"data[{DATA_KEY}].{LIST_KEY}"
        for problem in read_calibration(calibration_data(items)).problems:
            self.problems.add(problem.field.replace(where, "calibration"), problem.message)
        return tuple(items)


def _of_pool(name: str, node: ScenarioNode) -> ScenarioNode:
    return replace(node, labels={**node.labels, KARPENTER_POOL: name})


def _row(columns: Mapping[str, list[str]], index: int) -> dict[str, str]:
    return {key: texts[index] for key, texts in columns.items()}


def _items(document: Mapping[Any, Any], key: str) -> list[Any]:
    """Return a list of the document, empty where the grammar has found something else there."""
    items = document.get(key)
    return items if isinstance(items, list) else []


def _pod_names(gangs: Iterable[ScenarioGang]) -> list[str]:
    """Return the names of all pods, once per gang name: what namesakes share is no problem of its own."""
    distinct = {gang.key: gang for gang in gangs}.values()
    return [name for gang in distinct for name in dict.fromkeys(f"{gang.namespace}/{pod.name}" for pod in gang.members)]
