"""A storm of objects of every watched kind: valid by their schemas, extreme, created, changed and deleted.

Which kinds there are follows from Muster's own table of what it watches, and what they look like from the schemas that
the running API server tells. What it takes becomes what further objects are made from.
"""

from __future__ import annotations

import contextlib
import copy
import json
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from extender.control.watched import WATCHED, Known, Watched
from extender.objects.meta import DecodeError
from extender.objects.reason import Problem
from localcluster.client import NAMESPACES, ApiClient, JsonObject, Resource
from localcluster.errors import ApiError
from localcluster.nodes import GPU, NodeShape, numbered_nodes
from localcluster.workloads import POD_GROUP_LABEL
from tests.controlplane.drawing import NAMES, Drawer, Schema, schema_of, schemas_of
from tests.controlplane.test_adapters import OBJECTS as ADAPTED
from tests.controlplane.test_facts import OBJECTS as FACTS
from tests.fuzz.subject import submitted

#: What the good gangs need, and no object of the storm offers or asks for.
GOOD_RESOURCE = "good.example.com/gpu"

_RESOURCES: JsonObject = {"requests": {"cpu": "1", GPU: "1"}, "limits": {GPU: "1"}}
_POD_SPEC: JsonObject = {
    "schedulerName": "muster",
    "containers": [
        {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", GPU: "1"}, "limits": {GPU: "1"}}}
    ],
}
_REQUEST: JsonObject = {"name": "gpu", "exactly": {"deviceClassName": NAMES[0], "count": 1}}
_DEVICE: JsonObject = {
    "name": "d",
    "attributes": {"x": {"int": 1}},
    "capacity": {"memory": {"value": "80Gi"}},
}
#: What objects of a kind are made from at first, besides `metadata`; of others their schemas alone.
_SEEDS: dict[str, JsonObject] = {
    **{each["kind"]: each for each in (*ADAPTED, *FACTS, *submitted())},
    "Pod": {"spec": _POD_SPEC},
    "Node": {key: numbered_nodes(1, NodeShape())[0][key] for key in ("spec", "status")},
    "PriorityClass": {"value": 7},
    "Namespace": {"spec": {}},
    "Queue": {"spec": {"flavors": [{"name": "all", "resources": [{"name": GPU, "nominalQuota": 4}]}]}},
    "PodDisruptionBudget": {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}},
    "Job": {
        "spec": {
            "suspend": True,
            "completions": 2,
            "parallelism": 2,
            "template": {"spec": {**_POD_SPEC, "restartPolicy": "Never"}},
        }
    },
    "DeviceClass": {"spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]}},
    "ResourceSlice": {
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": NAMES[0],
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [_DEVICE],
        }
    },
    "ResourceClaim": {"spec": {"devices": {"requests": [_REQUEST]}}},
    "ResourceClaimTemplate": {"spec": {"spec": {"devices": {"requests": [_REQUEST]}}}},
}
#: Objects that further ones are made from, by kind.
_REMEMBERED = 30
#: Of what is done, the share that is a change of a status, and a deletion.
_STATUSES, _DELETIONS = 0.15, 0.2


@dataclass(slots=True)
class HostileKind:
    """One kind of the storm, its schema, and what there is of it."""

    row: Watched[Any]
    resource: Resource
    schema: Schema
    has_status: bool
    bases: list[JsonObject] = field(default_factory=list)
    alive: dict[str, JsonObject] = field(default_factory=dict)
    taken: int = 0
    refused: Counter[int] = field(default_factory=Counter)

    def __str__(self) -> str:
        """Return how many objects and changes the server took, and how many it refused."""
        return f"{self.row.name} {self.taken}+{sum(self.refused.values())}"


@dataclass(frozen=True, slots=True)
class Refused:
    """An object that Muster finds something wrong with: in which fields, or why it cannot be read; and its status."""

    kind: str
    name: str
    uid: str
    fields: tuple[str, ...]
    status: str = ""


class HostileStorm:
    """Objects that come from a seed, one after the other."""

    def __init__(self, api: ApiClient, namespace: str, seed: int) -> None:
        """Ask the server which of the watched kinds it has, and what they look like."""
        self._api = api
        self._home = namespace
        self._random = Random(seed)
        self.missing: list[str] = []
        found = list(self._served())
        schemas = schemas_of(api, {resource.api_version for _, resource, _ in found})
        self._drawer = Drawer(schemas, self._random)
        self.kinds = [
            HostileKind(row, resource, schema_of(schemas, resource), status) for row, resource, status in found
        ]
        self.strange: list[str] = []

    def _served(self) -> Iterator[tuple[Watched[Any], Resource, bool]]:
        """Yield the watched kinds that the server has, and whether their status is written by itself."""
        listed: dict[str, dict[str, JsonObject]] = {}
        for row in WATCHED:
            for path in row.paths:
                root, _, plural = path.rpartition("/")
                api_version = root.removeprefix("/apis/").removeprefix("/api/")
                if root not in listed:
                    try:
                        answer = self._api.request("GET", root)
                    except ApiError:
                        answer = {"resources": []}
                    listed[root] = {each["name"]: each for each in answer["resources"]}
                if (entry := listed[root].get(plural)) is not None and row.kind != "ConfigMap":
                    resource = Resource(api_version, row.kind, plural, namespaced=entry["namespaced"])
                    yield row, resource, f"{plural}/status" in listed[root]
                    break
            else:
                self.missing.append(row.name)

    def run(self, stopping: threading.Event) -> None:
        """Do one thing after the other until told to stop."""
        while not stopping.is_set():
            self.step()

    def step(self) -> None:
        """Create, change or delete one object."""
        random = self._random
        kind = random.choice(self.kinds)
        chance = random.random()
        try:
            if kind.alive and chance < _STATUSES and kind.has_status:
                self._change_status(kind)
            elif kind.alive and (chance > 1 - _DELETIONS or len(kind.alive) == len(NAMES)):
                self._delete(kind, random.choice(sorted(kind.alive)))
            else:
                self._put(kind)
            kind.taken += 1
        except ApiError as error:
            kind.refused[error.status] += 1
            if error.status in {404, 409}:  # others write too: kube-scheduler, kwok, Muster
                kind.alive = {item["metadata"]["name"]: item for item in self._there(kind)}
            if error.status >= 500:
                self.strange.append(f"{kind.row.name}: {error}")

    def _put(self, kind: HostileKind) -> None:
        """Create an object, or change the one of its name."""
        random = self._random
        name = random.choice(NAMES)
        before = kind.alive.get(name)
        if before is not None and kind.row.kind == "Pod" and random.random() < 0.7:
            self._delete(kind, name)  # hardly anything of a pod may change
            before = None
        item = self._object(kind, name, before)
        if before is None:
            stored = self._api.create(item)
        else:
            item["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"]
            stored = self._api.request("PUT", kind.resource.path(self._namespace(kind), name), body=item)
        kind.alive[name] = stored
        kind.bases = [
            *kind.bases[-30:],
            {key: value for key, value in item.items() if key != "metadata"} | {"metadata": item["metadata"]},
        ]

    def _object(self, kind: HostileKind, name: str, before: JsonObject | None) -> JsonObject:
        random, drawer = self._random, self._drawer
        seed = _SEEDS.get(kind.row.kind)
        if before is not None and random.random() < 0.7:
            item = before
        elif kind.bases and random.random() < 0.7:
            item = random.choice(kind.bases)
        elif seed is not None:
            item = copy.deepcopy(seed)
        else:
            item = drawer.draw(kind.schema)
        for _ in range(random.choice((0, 1, 1, 2, 4, 8))):
            item = drawer.graft(item, kind.schema)
        drawn: JsonObject = item.get("metadata") or {}
        metadata: JsonObject = {"name": name}
        metadata |= {
            key: drawn[key]
            for key in ("labels", "annotations", "ownerReferences")
            if isinstance(drawn.get(key), dict | list)
        }
        if kind.resource.namespaced:
            metadata["namespace"] = self._home
        if kind.row.kind == "Pod" and random.random() < 0.7:
            metadata["labels"] = {**(metadata.get("labels") or {}), POD_GROUP_LABEL: random.choice(NAMES[:4])}
        if kind.row.selector:
            metadata["labels"] = {
                **(metadata.get("labels") or {}),
                kind.row.selector["labelSelector"]: random.choice(NAMES),
            }
        rest = {key: value for key, value in item.items() if key not in {"apiVersion", "kind", "metadata"}}
        return {"apiVersion": kind.resource.api_version, "kind": kind.row.kind, "metadata": metadata, **rest}

    def _change_status(self, kind: HostileKind) -> None:
        name = self._random.choice(sorted(kind.alive))
        drawn = self._drawer.graft({"status": kind.alive[name].get("status") or {}}, kind.schema)
        path = kind.resource.path(self._namespace(kind), name, "status")
        body = {"status": drawn.get("status")}
        kind.alive[name] = self._api.request("PATCH", path, body=body, content_type="application/merge-patch+json")

    def _delete(self, kind: HostileKind, name: str) -> None:
        kind.alive.pop(name, None)
        self._api.delete(kind.resource, name, self._namespace(kind), grace_seconds=0)
        if kind.resource == NAMESPACES:
            finalize_namespace(self._api, name)

    def _namespace(self, kind: HostileKind) -> str | None:
        return self._home if kind.resource.namespaced else None

    def _there(self, kind: HostileKind) -> list[JsonObject]:
        """Return the objects of the storm that there are now."""
        items = self._api.list_items(kind.resource, self._namespace(kind))
        whole = {"apiVersion": kind.resource.api_version, "kind": kind.row.kind}
        return [whole | item for item in items if item["metadata"]["name"] in NAMES]

    def clean_up(self) -> None:
        """Delete whatever there is of the storm."""
        change: JsonObject = {"metadata": {"finalizers": None}}
        for kind in self.kinds:
            for item in self._there(kind):
                name = item["metadata"]["name"]
                with contextlib.suppress(ApiError):  # it may be gone by now
                    if item["metadata"].get("finalizers"):
                        self._api.patch(kind.resource, name, change, namespace=self._namespace(kind))
                    self._delete(kind, name)

    def refused_by_muster(self) -> list[Refused]:
        """Return of what is there now, as the server has it, what Muster's own readers find wrong."""
        found, known = [], Known()
        for kind in self.kinds:
            for whole in self._there(kind):
                about, status = whole["metadata"], json.dumps(whole.get("status"))
                try:
                    news = list(kind.row.seen(kind.row.decode(json.dumps(whole).encode()), known))
                except DecodeError as error:
                    found.append(Refused(kind.row.name, about["name"], about["uid"], (str(error),)))
                    continue
                if fields := tuple(problem.field for problem in _problems(news)):
                    found.append(Refused(kind.row.name, about["name"], about["uid"], fields, status))
        return found


def _problems(news: Sequence[Any]) -> Iterator[Problem]:
    """Yield what is wrong in what objects amount to: their own problems, not those of parts that are objects too."""
    for each in news:
        for value in (getattr(each, name) for name in _fields(each)):
            one, several = getattr(value, "problem", None), getattr(value, "problems", ())
            if isinstance(one, Problem):
                yield one
            yield from (problem for problem in several if isinstance(problem, Problem))
            options = getattr(value, "options", None)
            yield from getattr(options, "problems", ())


def _fields(value: Any) -> Sequence[str]:
    return tuple(getattr(value, "__dataclass_fields__", ())) or tuple(getattr(value, "__struct_fields__", ()))


def finalize_namespace(api: ApiClient, name: str) -> None:
    """Let a namespace go that is being deleted: kube-controller-manager would, and none runs."""
    finalized = {**api.get(NAMESPACES, name), "spec": {"finalizers": []}}
    api.request("PUT", NAMESPACES.path(None, name, "finalize"), body=finalized)
