"""Reading the devices of a scenario, in its own words or as objects of Dynamic Resource Allocation.

In its own words a node has so many devices of a class, and pods claim so many. What that amounts to are the objects
that there would be in a cluster:

    nodes:  devices: [{class: gpu.nvidia.com, count: 8}]      a DeviceClass, and a ResourceSlice for each node
    gangs:  devices: [{class: gpu.nvidia.com, count: 6}]      a ResourceClaimTemplate, which the pods name
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from extender.control.ports import WatchedKind
from extender.devices.selectors import Selectors
from muster_lab.simulation.objects import ROWS, Json
from muster_lab.simulation.problems import DocumentProblems
from muster_lab.simulation.scenario_document import ClaimedDevicesDocument, NodeDevicesDocument, PodClaimDocument
from muster_lab.simulation.scenario_objects import ObjectReader

#: What a claim of the scenario's own words is called in its pod, and how its template's name ends.
_CLAIM: Final = "devices"


#: Where a scenario lists objects, what they are, and what these are called.
_LISTS: Final = {
    "deviceClasses": WatchedKind.DEVICE_CLASS,
    "resourceSlices": WatchedKind.RESOURCE_SLICE,
    "resourceClaimTemplates": WatchedKind.RESOURCE_CLAIM_TEMPLATE,
    "resourceClaims": WatchedKind.RESOURCE_CLAIM,
}


@dataclass(slots=True)
class DeviceReader:
    """Collect the objects of Dynamic Resource Allocation of a scenario; what is wrong is added to `problems`.

    Attributes:
        found: the objects, each with its kind, in the order in which they are to be created.
    """

    problems: DocumentProblems
    found: list[tuple[str, Json]] = field(default_factory=list)
    _own_classes: dict[str, None] = field(default_factory=dict)
    _named: list[tuple[str, str, str, str]] = field(default_factory=list)  # path, kind, namespace, name

    def read(self, document: Mapping[Any, Any], nodes: Iterable[str]) -> None:
        """Read the objects that a scenario lists."""
        objects, known = ObjectReader(self.problems), set(nodes)
        for key, kind in _LISTS.items():
            items = document.get(key)
            for index, item in enumerate(items if isinstance(items, list) else ()):
                path = f"{key}[{index}]"
                found = objects.checked(kind, item, path)
                if found is not None:
                    self._check(kind, found.get("spec", {}), path, known)
                    self.found.append((kind, found))

    def of_nodes(self, names: Sequence[str], items: Sequence[NodeDevicesDocument], path: str) -> None:
        """Add what equal nodes have: a slice of each driver for each of them."""
        by_class: dict[str, list[NodeDevicesDocument]] = {}
        for item in items:
            by_class.setdefault(item.device_class, []).append(item)
        self._own_classes |= dict.fromkeys(by_class)
        for driver, sets in by_class.items():
            if sum(each.count for each in sets) > _MOST_OF_SLICE:
                self.problems.add(path, f"more than {_MOST_OF_SLICE} devices of class '{driver}' on one node")
            devices = _devices(sets)
            self.found += [(WatchedKind.RESOURCE_SLICE, _slice(name, driver, devices)) for name in names]

    def of_pods(
        self,
        owner: tuple[str, str],
        items: Sequence[ClaimedDevicesDocument],
        claims: Sequence[PodClaimDocument],
        path: str,
    ) -> tuple[Json, ...]:
        """Return what the spec of pods says of their claims; `owner` is the namespace and name of what makes them."""
        namespace, name = owner
        said = [claim.model_dump(by_alias=True, exclude_none=True) for claim in claims]
        for index, claim in enumerate(claims):
            named = claim.resource_claim_name or claim.resource_claim_template_name or ""
            shared = claim.resource_claim_name is not None
            kind = WatchedKind.RESOURCE_CLAIM if shared else WatchedKind.RESOURCE_CLAIM_TEMPLATE
            key = "resourceClaimName" if shared else "resourceClaimTemplateName"
            self._named.append((f"{path}.resourceClaims[{index}].{key}", kind, namespace, named))
        if items:
            template = f"{name}-{_CLAIM}"
            for index, item in enumerate(items):
                where = f"{path}.devices[{index}].class"
                self._named.append((where, WatchedKind.DEVICE_CLASS, "", item.device_class))
            self.found.append((WatchedKind.RESOURCE_CLAIM_TEMPLATE, _template(namespace, template, items)))
            said.append({"name": _CLAIM, "resourceClaimTemplateName": template})
        self.problems.unique(f"{path}.resourceClaims", "claim", (claim["name"] for claim in said))
        return tuple(said)

    def complete(self) -> tuple[tuple[str, Json], ...]:
        """Return all objects, with the classes that no object describes; what is named must be among them."""
        listed = {item["metadata"]["name"] for kind, item in self.found if kind is WatchedKind.DEVICE_CLASS}
        own = [_class(name) for name in self._own_classes if name not in listed]
        everything = [*((WatchedKind.DEVICE_CLASS, item) for item in own), *self.found]
        names: dict[str, list[tuple[str, str]]] = {kind: [] for kind in _LISTS.values()}
        for kind, item in everything:
            names[kind].append(_identity(item))
        for kind, called in names.items():
            self.problems.unique(ROWS[kind].kind, ROWS[kind].kind, ("/".join(filter(None, each)) for each in called))
        for path, kind, namespace, name in self._named:
            if (namespace, name) not in names[kind]:
                self.problems.add(path, f"'{name}' is no {ROWS[kind].kind} of the scenario")
        order = list(names)
        return tuple(sorted(everything, key=lambda each: order.index(each[0])))

    def _check(self, kind: str, spec: Json, path: str, nodes: set[str]) -> None:
        """Check what Muster's readers do not: what is named, and selectors."""
        if kind is WatchedKind.RESOURCE_SLICE and spec.get("nodeName", "") not in {"", *nodes}:
            self.problems.add(f"{path}.spec.nodeName", f"'{spec['nodeName']}' is no node of the scenario")
        if kind is WatchedKind.DEVICE_CLASS and spec.get("extendedResourceName"):
            said = "is not played: kube-scheduler's claims for extended resources are no part of the simulation"
            self.problems.add(f"{path}.spec.extendedResourceName", f"'{spec['extendedResourceName']}' {said}")
        for place, expression in _expressions(spec, f"{path}.spec"):
            error = _SELECTORS.problem(expression)
            if error is not None:
                self.problems.add(place, f"'{expression}': {error.message}")


#: Compiles expressions; what it remembers of them is bounded.
_SELECTORS: Final = Selectors()

#: How many devices a slice has at most. Source: k8s.io/api/resource/v1 ResourceSliceMaxDevices.
_MOST_OF_SLICE: Final = 128


def _identity(item: Json) -> tuple[str, str]:
    """Return namespace and name, as pods name claims and templates; other objects have no namespace."""
    return (item["metadata"].get("namespace", "default") if "Claim" in item["kind"] else "", item["metadata"]["name"])


def _expressions(value: object, path: str) -> Iterable[tuple[str, str]]:
    """Yield every CEL expression of an object, and where it is."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "expression" and isinstance(inner, str):
                yield f"{path}.{key}", inner
            else:
                yield from _expressions(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _expressions(inner, f"{path}[{index}]")


def _class(name: str) -> Json:
    """Return the class of all devices of the driver that is called as it is."""
    selectors = [{"cel": {"expression": f"device.driver == {json.dumps(name)}"}}]
    return _object(WatchedKind.DEVICE_CLASS, {"name": name}, {"selectors": selectors})


def _devices(sets: Iterable[NodeDevicesDocument]) -> list[Json]:
    """Return devices as NVIDIA's driver describes whole GPUs, `gpu-0` and up; two of one product share a PCIe root."""
    devices: list[Json] = []
    for each in sets:
        for _ in range(each.count):
            number = len(devices)
            attributes = {
                "type": {"string": "gpu"},
                "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{number // 2:02}"},
            }
            if each.product:
                attributes["productName"] = {"string": each.product}
            device: Json = {"name": f"gpu-{number}", "attributes": attributes}
            if each.memory is not None:
                device["capacity"] = {"memory": {"value": each.memory}}
            devices.append(device)
    return devices


def _slice(node: str, driver: str, devices: list[Json]) -> Json:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": devices}
    return _object(WatchedKind.RESOURCE_SLICE, {"name": f"{node}-{driver}"}, spec)


def _template(namespace: str, name: str, items: Sequence[ClaimedDevicesDocument]) -> Json:
    requests = []
    for index, item in enumerate(items):
        asked: Json = {"deviceClassName": item.device_class, "allocationMode": "ExactCount", "count": item.count}
        if item.product:
            attribute = f"device.attributes[{json.dumps(item.device_class)}].productName"
            asked["selectors"] = [{"cel": {"expression": f"{attribute} == {json.dumps(item.product)}"}}]
        requests.append({"name": f"{_CLAIM}-{index}", "exactly": asked})
    metadata = {"name": name, "namespace": namespace}
    return _object(WatchedKind.RESOURCE_CLAIM_TEMPLATE, metadata, {"spec": {"devices": {"requests": requests}}})


def _object(kind: str, metadata: Json, spec: Json) -> Json:
    return {"apiVersion": ROWS[kind].api_version, "kind": ROWS[kind].kind, "metadata": metadata, "spec": spec}
