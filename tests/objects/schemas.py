"""The fields that structs read, and those that the schemas of our CRDs have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

_MANIFESTS = Path(__file__).parents[2] / "manifests"


def crd_schema(name: str) -> Mapping[str, Any]:
    """Return the schema of the only version of the CRD in a file of manifests/."""
    (version,) = yaml.safe_load((_MANIFESTS / name).read_text(encoding="utf-8"))["spec"]["versions"]
    schema: Mapping[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


def properties(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield the path of every property of an OpenAPI schema."""
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}.{name}"
        yield from properties(inner.get("items", inner), f"{path}.{name}")


def declared(kind: type[msgspec.Struct], path: str) -> Iterator[str]:
    """Yield the path of every field of a struct."""
    for field in msgspec.inspect.type_info(kind).fields:  # type: ignore[attr-defined]  # a StructType for a struct
        yield f"{path}.{field.encode_name}"
        for variant in getattr(field.type, "types", ()):
            inner = getattr(variant, "item_type", variant)
            if isinstance(inner, msgspec.inspect.StructType):
                yield from declared(inner.cls, f"{path}.{field.encode_name}")
