"""Values that an OpenAPI schema of the API server allows, with extremes: drawn from a seed, whole or into an object.

Only what a schema says is followed. What the server checks besides (validation in its code, rules in CEL) refuses some
of what is drawn, so that objects are made step by step from those that it took.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from random import Random
from typing import Any, TypeAlias

from extender.objects.keys import KNOWN_ANNOTATIONS, KNOWN_LABELS
from localcluster.client import ApiClient, JsonObject, Resource
from localcluster.nodes import GPU, HOSTNAME_LABEL, RACK_LABEL, ZONE_LABEL
from localcluster.workloads import POD_GROUP_LABEL
from tests.fuzz.spoiling import Spoiler

Schema: TypeAlias = Mapping[str, Any]

#: What objects of the storm are called, and so what they may refer to; and what there is not.
NAMES = tuple(f"h-{number}" for number in range(12))
_DANGLING = ("ghost", "h-999", "a" * 63)
QUANTITIES = (
    "0", "1", "8", "500m", "1e30", "-5", "0.0000001", "8Ei", "9223372036854775807", "9223372036854775807k", "1n",
    "1e-9", "0.1", "-0", "999999999999999999999", "64Gi", "1E", "+3",
)  # fmt: skip
_TIMES = (
    "2026-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00Z",
    "2300-02-28T12:00:00Z",
    "1969-12-31T23:59:59Z",
)
_TEXTS = (
    "", "a", "default", "gpu", "Always", "Never", "Exists", "In", "NotIn", "NoSchedule", "NoExecute", "Worker",
    "Master", "ä", "\U0001f4a5" * 20, "x" * 1000, "-1", "1h30m", "9999999h", "0", "9" * 30, "1e999", "a=b", "../..",
    "\u202e", "True", "device.attributes['x'].y == 1",
    "device.capacity['gpu.example.com'].memory.compareTo(quantity('1Gi')) > 0", "true",
    "[1,2,3].all(x, [1,2,3].all(y, [1,2,3].all(z, x * y * z > 0)))", "(a+)+$", "^node-", ".*", "[", "100%", "50%",
    "-3%", GPU, "nvidia.com/mig-1g.10gb", "cpu", "memory", "pods", "ephemeral-storage", "hugepages-2Mi",
    "gpu.example.com", HOSTNAME_LABEL, ZONE_LABEL, RACK_LABEL, "muster", "default-scheduler", "[]", "{}",
    '[{"name":"w","min":3}]', "w=2,v=1", "00000000-0000-0000-0000-000000000000", "host", "10", "true", "pool",
    "x/block", "a.example.com/b", "None", "Pending",
)  # fmt: skip
_INTEGERS = (0, 1, 2, 3, 8, 100, -1, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, -(2**31), -(2**63))
_RESOURCES = (
    GPU,
    "cpu",
    "memory",
    "pods",
    "ephemeral-storage",
    "example.com/a",
    "hugepages-2Mi",
    "nvidia.com/mig-1g.10gb",
)
_LABELS = (
    *sorted(KNOWN_LABELS),
    POD_GROUP_LABEL,
    HOSTNAME_LABEL,
    ZONE_LABEL,
    RACK_LABEL,
    "a",
    "example.com/b",
    "x" * 63,
)
_ANNOTATIONS = (*sorted(KNOWN_ANNOTATIONS), "a", "hami.io/node-nvidia-register", "muster.dev/gpu-links")
#: Keys of an open map by the name of the field that holds it.
_KEYS = {"labels": _LABELS, "matchLabels": _LABELS, "nodeSelector": _LABELS, "annotations": _ANNOTATIONS}
#: Deeper than this only what a schema requires is drawn.
_DEEP = 6
#: Items of an enormous list, and how often a list is one.
_ENORMOUS, _OFTEN = 200, 0.01
#: Fields that only the server writes, or by which an object could not be deleted.
_LEFT_OUT = frozenset({"managedFields", "finalizers", "deletionTimestamp", "selfLink", "generateName"})


def schemas_of(api: ApiClient, api_versions: Iterable[str]) -> dict[str, Schema]:
    """Return all schemas of these API versions, as the running server tells them, by name."""
    found: dict[str, Schema] = {}
    for api_version in api_versions:
        root = "apis" if "/" in api_version else "api"
        found |= api.request("GET", f"/openapi/v3/{root}/{api_version}")["components"]["schemas"]
    return found


def schema_of(schemas: Mapping[str, Schema], resource: Resource) -> Schema:
    """Return the schema of one kind."""
    group, _, version = resource.api_version.rpartition("/")
    wanted = {"group": group, "kind": resource.kind, "version": version}
    return next(each for each in schemas.values() if each.get("x-kubernetes-group-version-kind") == [wanted])


class Drawer:
    """Draw values from schemas."""

    def __init__(self, schemas: Mapping[str, Schema], random: Random) -> None:
        """Draw from `random`; `schemas` are what they refer to."""
        self._schemas = schemas
        self._random = random
        self._spoiler = Spoiler(random)

    def draw(self, schema: Schema, name: str = "", depth: int = 0) -> Any:  # noqa: PLR0911 - a type each
        """Return a value of a field called `name`."""
        schema, random = self._resolved(schema), self._random
        if schema.get("format") == "quantity":
            return random.choice(QUANTITIES)
        if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
            return random.choice((*QUANTITIES, *_INTEGERS, "50%"))
        if enum := [each for each in schema.get("enum", ()) if each is not None]:
            return random.choice(enum)
        match schema.get("type"):
            case "object":
                return self._object(schema, name, depth)
            case "array":
                return self._array(schema, name, depth)
            case "integer" | "number" as kind:
                return self._number(schema, whole=kind == "integer")
            case "boolean":
                return random.random() < 0.5
            case "string":
                return self._text(schema, name)
        return self._spoiler.anything(2)

    def graft(self, value: Any, schema: Schema, name: str = "", depth: int = 0) -> Any:
        """Return a copy of a valid value in which one part, somewhere, is drawn again, left out or new."""
        schema, random = self._resolved(schema), self._random
        properties: Mapping[str, Schema] = schema.get("properties", {})
        if isinstance(value, Mapping) and properties and random.random() < 0.95:
            inside = [key for key in value if key in properties and key not in _LEFT_OUT]
            if inside and random.random() < 0.75:
                key = random.choice(inside)
                if key not in schema.get("required", ()) and random.random() < 0.1:
                    return {each: copy.deepcopy(held) for each, held in value.items() if each != key}
                return {**value, key: self.graft(value[key], properties[key], key, depth + 1)}
            key = random.choice([each for each in properties if each not in _LEFT_OUT] or [*properties])
            return {**value, key: self.draw(properties[key], key, depth + 1)}
        if isinstance(value, list) and value and "items" in schema and random.random() < 0.8:
            at = random.randrange(len(value))
            return [*value[:at], self.graft(value[at], schema["items"], name, depth + 1), *value[at + 1 :]]
        if isinstance(value, dict | list) and value and not properties and _open(schema) and random.random() < 0.9:
            whole = {"": copy.deepcopy(value)}
            self._spoiler.spoil(whole[""])
            return whole[""]
        return self.draw(schema, name, depth)

    def _resolved(self, schema: Schema) -> Schema:
        """Return a schema without references: the one that it refers to, with what it says besides."""
        while True:
            parts = schema.get("allOf", ())
            if "$ref" in schema:
                name = schema["$ref"].rpartition("/")[2]
                if name.endswith("resource.Quantity"):
                    return {"format": "quantity"}
                schema = self._schemas[name]
            elif len(parts) == 1 and "type" not in schema:
                schema = parts[0]
            else:
                return schema

    def _object(self, schema: Schema, name: str, depth: int) -> Any:
        random = self._random
        properties: Mapping[str, Schema] = schema.get("properties", {})
        if not properties:
            if "additionalProperties" not in schema:
                return {"a": self._spoiler.anything(2)} if _open(schema) else {}
            return self._map(schema["additionalProperties"], name, depth)
        required = [key for key in schema.get("required", ()) if key in properties]
        others = [key for key in properties if key not in required and key not in _LEFT_OUT]
        count = 0 if depth > _DEEP else min(len(others), random.choice((0, 1, 1, 2, 3, 5)))
        return {key: self.draw(properties[key], key, depth + 1) for key in (*required, *random.sample(others, count))}

    def _map(self, values: Any, name: str, depth: int) -> JsonObject:
        random = self._random
        inner: Schema = values if isinstance(values, Mapping) else {"type": "string"}
        quantities = self._resolved(inner).get("format") == "quantity" or "x-kubernetes-int-or-string" in inner
        keys = _RESOURCES if quantities else _KEYS.get(name, ("a", "w", "Worker", "Master", "b.example.com"))
        count = _ENORMOUS if random.random() < _OFTEN else random.randrange(4)
        drawn = {
            random.choice(keys): self.draw(inner, "" if quantities else "value", depth + 1)
            for _ in range(min(count, 6))
        }
        return drawn | {
            f"k{number}": value for number in range(count) if count == _ENORMOUS for value in [*drawn.values()][:1]
        }

    def _array(self, schema: Schema, name: str, depth: int) -> list[Any]:
        random, least = self._random, schema.get("minItems", 0)
        most = min(schema.get("maxItems", 4), 4)
        count = least if depth > _DEEP else max(least, min(most, random.choice((0, 1, 1, 2, 3))))
        drawn = [self.draw(schema["items"], name.removesuffix("s"), depth + 1) for _ in range(count)]
        if drawn and random.random() < _OFTEN:
            drawn += [
                copy.deepcopy(random.choice(drawn)) for _ in range(min(schema.get("maxItems", _ENORMOUS), _ENORMOUS))
            ]
        return drawn

    def _number(self, schema: Schema, *, whole: bool) -> float:
        bits = 31 if schema.get("format") == "int32" else 63
        least, most = schema.get("minimum", -(2**bits)), schema.get("maximum", 2**bits - 1)
        near = [each for each in (*_INTEGERS, least, most) if least <= each <= most]
        if not whole and self._random.random() < 0.5:
            return float(self._random.uniform(max(least, -10), min(most, 10)))
        return int(self._random.choice(near))

    def _text(self, schema: Schema, name: str) -> str:
        random = self._random
        form, lower = schema.get("format"), name.lower()
        if form in {"date-time", "micro-time"}:
            return random.choice(_TIMES)
        if form == "byte":
            return random.choice(("", "AAAA"))
        texts: tuple[str, ...] = _TEXTS
        if lower == "schedulername":
            texts = ("muster",)
        elif lower.endswith(("name", "parent", "queue", "gang", "podgroup")) or random.random() < 0.3:
            texts = (*NAMES, *_DANGLING)
        elif lower.endswith("key"):
            texts = _LABELS
        fitting = [text for text in texts if _fits(text, schema)] or [text for text in _TEXTS if _fits(text, schema)]
        return random.choice(fitting or texts)


def _open(schema: Schema) -> bool:
    """Tell whether a schema lets anything through."""
    return bool(schema.get("x-kubernetes-preserve-unknown-fields")) or "type" not in schema


def _fits(text: str, schema: Schema) -> bool:
    """Tell whether a string is as its schema wants it; of patterns that Python cannot read, nothing is known."""
    if not schema.get("minLength", 0) <= len(text) <= schema.get("maxLength", 10**6):
        return False
    try:
        return "pattern" not in schema or re.search(schema["pattern"], text) is not None
    except re.error:
        return True
