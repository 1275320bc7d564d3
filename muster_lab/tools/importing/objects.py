"""Objects of other schedulers, as people have them in files or get them from kubectl, and what is written of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from extender.strictyaml import DocumentError, load_documents

_S = TypeVar("_S", bound=msgspec.Struct)

API_VERSION = "muster.dev/v1alpha1"

#: Selects no namespace: every one has this label. Source: kube-apiserver sets kubernetes.io/metadata.name on each.
NAMESPACE_NAME = "kubernetes.io/metadata.name"
NO_NAMESPACE: Mapping[str, Any] = {"matchExpressions": [{"key": NAMESPACE_NAME, "operator": "DoesNotExist"}]}


class ImportingError(ValueError):
    """Files that cannot be imported; the message names the object and the field."""


@dataclass(frozen=True, slots=True)
class ImportDifference:
    """What Muster does otherwise: about which object and field, and what it does instead."""

    about: str
    field: str
    instead: str

    def __str__(self) -> str:
        return f"{self.about}: {self.field}: {self.instead}" if self.field else f"{self.about}: {self.instead}"


@dataclass(frozen=True, slots=True)
class Imported:
    """Manifests to be applied, parents before children, and what Muster does otherwise."""

    manifests: tuple[Mapping[str, Any], ...]
    differences: tuple[ImportDifference, ...]


@dataclass(frozen=True, slots=True)
class ForeignObject:
    """One object; `body` is all of it as plain values."""

    group: str
    kind: str
    name: str
    namespace: str = ""
    body: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """Render as `Kind name` or `Kind namespace/name`."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    def part(self, name: str, kind: type[_S]) -> _S:
        """Return its `spec` or `status` as a `kind`; raise ImportingError naming the field that does not fit."""
        value = self.body.get(name)
        try:
            return msgspec.convert({} if value is None else value, kind)
        except msgspec.ValidationError as error:
            raise ImportingError(f"{self}: {str(error).replace('`$', f'`{name}')}") from error

    def unmapped(self, name: str, kind: type[msgspec.Struct]) -> Iterator[tuple[str, Any]]:
        """Yield path and value of what its `spec` holds and `kind` has no field for, `spec.a.b` without list indices.

        Fields that are null, empty or false say nothing, and are left out.
        """
        for path, value in _unmapped(self.body.get(name), kind, name):
            if value not in (None, "", [], {}, False):
                yield path, value


def read_objects(texts: Mapping[str, str]) -> list[ForeignObject]:
    """Return the objects in YAML or JSON texts by the name of each, those in lists included; raise ImportingError.

    An object that is given twice must be the same both times.
    """
    found: dict[tuple[str, str, str, str], ForeignObject] = {}
    for name, text in texts.items():
        try:
            documents = load_documents(text)
        except DocumentError as error:
            raise ImportingError(f"{name}: {error}") from error
        for number, document in enumerate(documents, start=1):
            for one in _objects(document, f"{name}, document {number}"):
                key = (one.group, one.kind, one.namespace, one.name)
                if key in found and found[key].body.get("spec") != one.body.get("spec"):
                    raise ImportingError(f"{one} is given twice, with different specs")
                found[key] = one
    return list(found.values())


def _objects(document: object, where: str) -> Iterator[ForeignObject]:
    if document is None:
        return
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise ImportingError(f"{where} is no Kubernetes object: it has no kind")
    if isinstance(items := document.get("items"), list):
        for number, item in enumerate(items, start=1):
            yield from _objects(item, f"{where}, item {number}")
        return
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(name, str) or not name:
        raise ImportingError(f"{where}: a {document['kind']} without metadata.name")
    group, _, _ = str(document.get("apiVersion", "")).rpartition("/")
    namespace = metadata.get("namespace")
    yield ForeignObject(group, document["kind"], name, namespace if isinstance(namespace, str) else "", document)


def _unmapped(value: object, kind: Any, path: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - a type annotation
    """Walk a value and the struct that reads it side by side."""
    for struct in _structs(kind):
        fields = {one.encode_name: one.type for one in msgspec.structs.fields(struct)}
        for item in value if isinstance(value, list) else [value]:
            for key, inner in item.items() if isinstance(item, dict) else ():
                if key in fields:
                    yield from _unmapped(inner, fields[key], f"{path}.{key}")
                else:
                    yield f"{path}.{key}", inner


def _structs(kind: Any) -> Iterator[type[msgspec.Struct]]:  # noqa: ANN401 - a type annotation
    """Yield the struct that a type is, holds in a list, or has among its alternatives; none for plain values."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
    for inner in getattr(kind, "__args__", ()):
        yield from _structs(inner)


def queue_manifest(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Queue; fields of `spec` that are None are left out."""
    kept = {key: value for key, value in spec.items() if value is not None}
    return {"apiVersion": API_VERSION, "kind": "Queue", "metadata": {"name": name}, "spec": kept}


def priority_class_manifest(name: str, value: int, description: str) -> dict[str, Any]:
    """Return a PriorityClass."""
    manifest: dict[str, Any] = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }
    return manifest | ({"description": description} if description else {})
