"""Reading scenario files: every mistake in a file is named, with its place and value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

from extender.domain.quantity import QuantityError, amount, parse_quantity
from extender.simulation.problems import Problems
from extender.simulation.scenario import Member, Placed, Scenario, ScenarioGang, ScenarioNode
from extender.simulation.scenario_document import GangDocument, NodeDocument, ScenarioDocument
from extender.simulation.scenario_facts import LISTS, FactsReader
from extender.simulation.scenario_sharing import SharingReader, disruption_limit
from extender.simulation.template import Template, TemplateError
from extender.wire.documents import UNREADABLE, describe

#: Pods per node where a scenario says nothing. Source: the kubelet's default `maxPods`.
DEFAULT_PODS = "110"


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
        document = yaml.load(text, _UniqueKeysLoader)  # noqa: S506 - a SafeLoader that is stricter still
    except UNREADABLE as error:
        raise ScenarioError(source, [describe(error)]) from error
    if not isinstance(document, dict):
        found = "nothing" if document is None else type(document).__name__
        raise ScenarioError(source, [f"a mapping with `nodes` and `gangs` is expected, found {found}"])
    reader = _Reader()
    scenario = reader.scenario(document)
    if scenario is None or reader.problems.lines:
        raise ScenarioError(source, reader.problems.lines)
    return scenario


class _UniqueKeysLoader(yaml.SafeLoader):
    """Load plain values; refuse a mapping that gives the same key twice, of which YAML would keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - PyYAML's signature
        counts = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<")
        for key, _ in node.value:
            if counts.get(key.value, 0) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"key '{key.value}' is given twice", key.start_mark)
        return super().construct_mapping(node, deep)


class _Reader:
    """Turn a document into a scenario, collecting problems instead of stopping at the first."""

    def __init__(self) -> None:
        self.problems = Problems()
        self._facts = FactsReader(self.problems)
        self._sharing = SharingReader(self.problems)

    def scenario(self, document: Mapping[Any, Any]) -> Scenario | None:
        """Return the scenario; it is complete only if no problems were found."""
        problems = self.problems
        head = problems.parse(ScenarioDocument, document, "")
        nodes: list[ScenarioNode] = []
        for index, item in enumerate(_items(document, "nodes")):
            nodes += self._nodes(item, f"nodes[{index}]")
        problems.unique("nodes", "node", (node.name for node in nodes))
        known = {node.name for node in nodes}
        queues, labels = self._sharing.read(head, _items(document, "queues"), _items(document, "namespaces"))
        gangs = [
            gang
            for index, item in enumerate(_items(document, "gangs"))
            if (gang := self._gang(item, f"gangs[{index}]", known)) is not None
        ]
        problems.unique("gangs", "gang", (gang.key for gang in gangs))
        problems.unique("gangs", "pod", _pod_names(gangs))
        lists = {key: _items(document, key) for key in LISTS}
        facts = self._facts.read(None if head is None else head.topology, lists, known)
        if head is None:
            return None
        sharing = self._sharing.sharing(queues, labels, gangs)
        return Scenario(tuple(nodes), tuple(gangs), head.until, head.gpu_hour_price, facts, sharing)

    def _nodes(self, item: object, path: str) -> list[ScenarioNode]:
        document = self.problems.parse(NodeDocument, item, path)
        if document is None:
            return []
        self._amounts(document.allocatable, f"{path}.allocatable")
        names = [document.name] if document.count == 1 else [f"{document.name}-{i}" for i in range(document.count)]
        self._facts.of_nodes(names, document.node_resource_topology, f"{path}.nodeResourceTopology")
        labels = self._columns(document.labels_from, document.labels, len(names), f"{path}.labelsFrom")
        notes = self._columns(document.annotations_from, document.annotations, len(names), f"{path}.annotationsFrom")
        return [
            ScenarioNode(
                name=name,
                allocatable={"pods": DEFAULT_PODS} | document.allocatable,
                labels={"kubernetes.io/hostname": name, **document.labels, **_row(labels, index)},
                annotations={**document.annotations, **_row(notes, index)},
                taints=tuple(taint.model_dump(exclude_defaults=True) for taint in document.taints),
                unschedulable=document.unschedulable,
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

    def _gang(self, item: object, path: str, nodes: set[str]) -> ScenarioGang | None:
        document = self.problems.parse(GangDocument, item, path)
        if document is None:
            return None
        members = self._members(document, path)
        if not members:
            return None
        sharing = self._sharing
        return ScenarioGang(
            name=document.name,
            namespace=document.namespace,
            # More than there are pods is no mistake: it is how a gang looks whose controller has not created them all.
            min_member=document.min_member or len(members),
            members=members,
            priority=sharing.priority(document, path),
            arrival=document.arrival,
            rendezvous=document.rendezvous,
            duration=document.duration,
            annotations=sharing.annotations(document, path),
            node_selector=document.node_selector,
            guaranteed=document.guaranteed,
            queue=sharing.queue_of(document, path),
            priority_class=document.priority_class_name or "",
            disruption_budget=disruption_limit(document),
            checkpoint_interval=document.checkpoint_interval,
            grace_period=sharing.grace_period(document, path),
            tolerations=tuple(t.model_dump(exclude_defaults=True) for t in document.tolerations),
            placed=self._placed(document, path, {member.name for member in members}, nodes),
        )

    def _members(self, gang: GangDocument, path: str) -> tuple[Member, ...]:
        """Return the gang's pods: `NAME-0`, `NAME-1`, ... or, with roles, `NAME-ROLE-0`, `NAME-ROLE-1`, ..."""
        self._amounts(gang.requests, f"{path}.requests")
        annotations = gang.pod_annotations
        if not gang.roles:
            replicas = gang.replicas or gang.min_member
            if replicas is None:
                self.problems.add(path, "one of minMember, replicas and roles is needed")
                return ()
            return tuple(Member(f"{gang.name}-{i}", gang.requests, annotations=annotations) for i in range(replicas))
        members: list[Member] = []
        for index, role in enumerate(gang.roles):
            requests = gang.requests if role.requests is None else role.requests
            if role.requests is not None:
                self._amounts(role.requests, f"{path}.roles[{index}].requests")
            said = annotations | role.annotations
            members += (
                Member(f"{gang.name}-{role.name}-{i}", requests, role.name, role.labels, said)
                for i in range(role.replicas)
            )
        self.problems.unique(f"{path}.roles", "role", (role.name for role in gang.roles))
        if gang.replicas is not None and gang.replicas != len(members):
            self.problems.add(f"{path}.replicas", f"'{gang.replicas}' is not the sum over the roles, {len(members)}")
        return tuple(members)

    def _placed(self, gang: GangDocument, path: str, members: set[str], nodes: set[str]) -> dict[str, Placed]:
        self.problems.unique(f"{path}.pods", "pod", (pod.name for pod in gang.pods))
        for index, pod in enumerate(gang.pods):
            if pod.name not in members:
                self.problems.add(f"{path}.pods[{index}].name", f"'{pod.name}' is no pod of the gang")
            if pod.node not in nodes:
                self.problems.add(f"{path}.pods[{index}].node", f"'{pod.node}' is no node of the scenario")
        return {pod.name: Placed(pod.node, pod.state, pod.annotations) for pod in gang.pods}

    def _amounts(self, resources: Mapping[str, str], path: str) -> None:
        """Check what only resource and quantity together tell: size, and that what is counted is whole."""
        for resource, text in resources.items():
            try:
                amount(resource, text)
            except QuantityError:
                self.problems.add(f"{path}.{resource}", f"'{text}' exceeds 2^63 - 1")
                continue
            value: Decimal = parse_quantity(text)
            if ("/" in resource or resource == "pods") and value != value.to_integral_value():
                self.problems.add(f"{path}.{resource}", f"'{text}' is not a whole number")


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
