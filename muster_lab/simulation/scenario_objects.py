"""The Kubernetes objects of a scenario, decoded by the structs by which Muster reads them in a cluster, and stricter.

A cluster's objects may have fields that Muster does not read; in a scenario an unknown key is a mistake, and so is
everything that Muster's own reader reports. What an API server sets itself may stand there, and is left out.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from extender.cluster.tree import NamePatternError, compile_pattern
from extender.control.ports import WatchedKind
from extender.objects.deviceclass import DeviceClassSpec
from extender.objects.devices import Device
from extender.objects.hypernodes import HyperNodeMember, HyperNodeObject, MemberSelector, read_hyper_node
from extender.objects.meta import DecodeError, Decoder, encode
from extender.objects.nodetopology import NodeResourceTopology, TopologyZone, read_node_topology
from extender.objects.queue import Queue, QueueObject, read_queue
from extender.objects.reason import Problem
from extender.objects.resourceclaim import DeviceClaimObject
from muster_lab.simulation.objects import ROWS, Json, value_of
from muster_lab.simulation.problems import DocumentProblems
from muster_lab.simulation.scenario_document import ObjectNameDocument, ResourceNameDocument

_S = TypeVar("_S", bound=msgspec.Struct)

#: Metadata that an API server sets. Source: metav1.ObjectMeta.
_SET_BY_SERVER = frozenset(
    {
        *("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences"),
        *("finalizers", "selfLink"),
    }
)

#: Keys of the APIs that Muster does not read.
_UNREAD: Mapping[type, frozenset[str]] = {
    TopologyZone: frozenset({"parent", "attributes"}),
    Device: frozenset({"spec"}),
    DeviceClassSpec: frozenset({"config"}),
    DeviceClaimObject: frozenset({"config"}),
}

#: Where msgspec says that something is wrong, at the end of its message.
_PLACE = re.compile(r"(?:cannot read \w+: )?(?P<what>.*?)(?: - at `(?:key in )?\$(?P<where>.*)`)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ObjectReader:
    """Check objects; what is wrong with them is added to `problems`.

    Each method returns JSON as an API server would have it, None or fewer objects where there are problems.
    """

    problems: DocumentProblems

    def queue(self, item: object, path: str) -> tuple[Json, Queue] | None:
        """Check a Queue: the object, or for short its name and beside it the fields of its spec."""
        problems, before = self.problems, len(self.problems.lines)
        short = isinstance(item, dict) and "metadata" not in item
        if isinstance(item, dict) and short:
            spec = {key: value for key, value in item.items() if key != "name"}
            item = {"metadata": {key: item[key] for key in item if key == "name"}, "spec": spec}
        found = self._object(WatchedKind.QUEUE, QueueObject, item, path)
        if found is not None:
            self._queue_spec(found[1], path)
        if short:
            told = (line.replace(f"{path}.metadata.", f"{path}.") for line in problems.lines[before:])
            problems.lines[before:] = [line.replace(f"{path}.spec.", f"{path}.") for line in told]
        return None if found is None else (found[0], read_queue(found[1]))

    def node_topologies(self, items: Sequence[object], nodes: Iterable[str]) -> list[Json]:
        """Check NodeResourceTopologies, whose names are those of nodes."""
        found: list[Json] = []
        for index, item in enumerate(items):
            path = f"nodeResourceTopology[{index}]"
            json = self._topology(item, path)
            if json is not None:
                self._named(json["metadata"]["name"], nodes, path)
                found.append(json)
        return found

    def topologies_of(self, names: Iterable[str], item: object, path: str) -> list[Json]:
        """Check a NodeResourceTopology without metadata; return one for each of the nodes `names`."""
        if isinstance(item, dict) and "metadata" in item:
            self.problems.add(f"{path}.metadata", "unknown key; the node's name is the object's")
            return []
        json = self._topology({"metadata": {"name": "node"}, **item} if isinstance(item, dict) else item, path)
        return [] if json is None else [json | {"metadata": {"name": name}} for name in names]

    def hyper_nodes(self, items: Sequence[object], nodes: Iterable[str]) -> tuple[Json, ...]:
        """Check HyperNodes; the members that they name are nodes, or HyperNodes of the scenario."""
        read = [
            self._object(WatchedKind.HYPER_NODE, HyperNodeObject, item, f"hyperNodes[{i}]")
            for i, item in enumerate(items)
        ]
        names = [found[0]["metadata"]["name"] for found in read if found is not None]
        self.problems.unique("hyperNodes", "HyperNode", names)
        known = {"Node": set(nodes), "HyperNode": set(names)}
        for index, found in enumerate(read):
            if found is not None:
                self._add(read_hyper_node(found[1]).problems, f"hyperNodes[{index}]")
                spec = found[1].spec
                for place, member in enumerate((spec and spec.members) or ()):
                    self._member(member, known, f"hyperNodes[{index}].spec.members[{place}].selector")
        return tuple(found[0] for found in read if found is not None)

    def devices(self, items: Sequence[object], nodes: Iterable[str]) -> tuple[Json, ...]:
        """Check Devices, whose names are those of nodes."""
        found: list[Json] = []
        for index, item in enumerate(items):
            read = self._object(WatchedKind.DEVICE, Device, item, f"devices[{index}]")
            if read is not None:
                self._named(read[0]["metadata"]["name"], nodes, f"devices[{index}]")
                found.append(read[0])
        self.problems.unique("devices", "the Device of node", (json["metadata"]["name"] for json in found))
        return tuple(found)

    def checked(self, kind: str, item: object, path: str) -> Json | None:
        """Check an object as its API has it, and that it is of use."""
        decoder: Any = ROWS[kind].decode
        found = self._object(kind, decoder.kind, item, path)
        if found is None:
            return None
        value: Any = value_of(kind, found[1])
        problem = getattr(value, "problem", None) or getattr(getattr(value, "spec", None), "problem", None)
        self._add([] if problem is None else [problem], path)
        return found[0]

    def spec(self, kind: str, struct: type[msgspec.Struct], spec: Mapping[str, Any], path: str) -> None:
        """Check a part of an object's spec, as it stands under `path`: that its keys are known, and their types."""
        problems, before = self.problems, len(self.problems.lines)
        self._object(kind, struct, {"metadata": {"name": "spec"}, "spec": dict(spec)}, path)
        problems.lines[before:] = [line.replace(f"{path}.spec", path, 1) for line in problems.lines[before:]]

    def _queue_spec(self, queue: QueueObject, path: str) -> None:
        self._add(read_queue(queue).problems, path)
        for index, flavor in enumerate((queue.spec and queue.spec.flavors) or ()):
            for number, quota in enumerate(flavor.resources or ()):
                where = f"{path}.spec.flavors[{index}].resources[{number}]"
                self.problems.parse(ResourceNameDocument, {"name": quota.name}, where)

    def _topology(self, item: object, path: str) -> Json | None:
        """Check a NodeResourceTopology, every amount given."""
        if isinstance(item, dict):
            item = _filled(item)
        found = self._object(WatchedKind.NODE_TOPOLOGY, NodeResourceTopology, item, path)
        if found is None:
            return None
        json, struct = found
        if struct.zones is None:
            self.problems.add(f"{path}.zones", "is missing")
        names = [zone.name for zone in struct.zones or ()]
        for index, zone in enumerate(struct.zones or ()):
            for number, cost in enumerate(zone.costs or ()):
                if cost.name not in names:
                    self.problems.add(
                        f"{path}.zones[{index}].costs[{number}].name", f"'{cost.name}' is no zone of the node"
                    )
        problem = read_node_topology(struct).problem
        self._add([] if problem is None else [problem], path)
        return json

    def _member(self, member: HyperNodeMember, known: Mapping[str, set[str]], path: str) -> None:
        selector = member.selector or MemberSelector()
        name = selector.exact_match and selector.exact_match.name
        if name and name not in known.get(member.type or "", {name}):
            kind = "node" if member.type == "Node" else "HyperNode"
            self.problems.add(f"{path}.exactMatch.name", f"'{name}' is no {kind} of the scenario")
        pattern = selector.regex_match and selector.regex_match.pattern
        if pattern:
            try:
                compile_pattern(pattern)
            except NamePatternError as error:
                self.problems.add(f"{path}.regexMatch.pattern", f"'{pattern}' {error}")

    def _named(self, name: str, nodes: Iterable[str], path: str) -> None:
        if name not in nodes:
            self.problems.add(f"{path}.metadata.name", f"'{name}' is no node of the scenario")

    def _add(self, found: Iterable[Problem], path: str) -> None:
        for problem in found:
            self.problems.add(f"{path}.{problem.field}", problem.message)

    def _object(self, kind: str, struct: type[_S], item: object, path: str) -> tuple[Json, _S] | None:
        """Check an object against its struct; return it as an API server has it, without what only one sets."""
        if not isinstance(item, dict):
            self.problems.add(path, f"{item!r} is not a mapping")
            return None
        before = len(self.problems.lines)
        version, name = ROWS[kind].api_version, ROWS[kind].kind
        for key, expected in (("apiVersion", version), ("kind", name)):
            if item.get(key, expected) != expected:
                self.problems.add(f"{path}.{key}", f"'{item[key]}' should be '{expected}'")
        metadata = item.get("metadata")
        if not isinstance(metadata, dict):
            self.problems.add(f"{path}.metadata", "is missing")
            return None
        self.problems.parse(
            ObjectNameDocument, {key: metadata[key] for key in metadata if key == "name"}, f"{path}.metadata"
        )
        body = {key: value for key, value in item.items() if key not in {"apiVersion", "kind", "metadata", "status"}}
        body["metadata"] = {key: value for key, value in metadata.items() if key not in _SET_BY_SERVER}
        for place, known in unknown_keys(struct, body):
            self.problems.add(f"{path}{place}", f"unknown key; known here: {', '.join(known)}")
        try:
            decoded = Decoder(struct)(encode(body))
        except (DecodeError, TypeError) as error:  # orjson's errors are TypeErrors
            told = _PLACE.fullmatch(str(error))
            self.problems.add(f"{path}{(told and told['where']) or ''}", (told and told["what"]) or str(error))
            return None
        if len(self.problems.lines) > before:
            return None
        return {"apiVersion": version, "kind": name, **body}, decoded


def unknown_keys(struct: type[msgspec.Struct], value: object) -> Iterator[tuple[str, Iterable[str]]]:
    """Yield each place of a key that neither a struct nor the CRD that it reads knows, with the keys that it knows."""
    return _unknown(_type_of(struct), value, "")


@lru_cache
def _type_of(struct: type[msgspec.Struct]) -> inspect.Type:
    return inspect.type_info(struct)


def _unknown(kind: inspect.Type, value: object, place: str) -> Iterator[tuple[str, Iterable[str]]]:
    match kind, value:
        case inspect.StructType(cls=struct, fields=fields), dict():
            known = {field.encode_name: field.type for field in fields}
            for key, inner in value.items():
                if key in known:
                    yield from _unknown(known[key], inner, f"{place}.{key}")
                elif key not in _UNREAD.get(struct, ()):
                    yield f"{place}.{key}", known
        case inspect.ListType(item_type=item), list():
            for index, inner in enumerate(value):
                yield from _unknown(item, inner, f"{place}[{index}]")
        case inspect.UnionType(types=types), _:
            for each in types:
                yield from _unknown(each, value, place)
        case _:
            pass


def _filled(item: Mapping[str, Any]) -> Json:
    """Return an object whose zones give all amounts: `allocatable` is `capacity`, `available` is `allocatable`."""
    filled = copy.deepcopy(dict(item))
    for zone in _mappings(filled.get("zones")):
        for resource in _mappings(zone.get("resources")):
            amount = resource.get("allocatable", resource.get("capacity"))
            if amount is not None:
                resource.update({"capacity": amount, "allocatable": amount, "available": amount} | resource)
    return filled


def _mappings(items: object) -> Iterator[Json]:
    """Yield the mappings of a list, nothing of what is no list."""
    return (each for each in items if isinstance(each, dict)) if isinstance(items, list) else iter(())
