"""Manifests as a person wrote them, before an API server has completed them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

_S = TypeVar("_S", bound=msgspec.Struct)

#: What an object may be called; the API server's own rules differ from kind to kind and are stricter.
#: Source: apimachinery validation IsDNS1123Subdomain.
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)

#: Where msgspec says in an error what it is about.
_AT = re.compile(r"^(?P<said>.*) - at `(?:key in )?\$(?P<path>[^`]*)`$", re.DOTALL)
_DEFAULT_NAMESPACE = "default"


class SubmissionError(ValueError):
    """Objects of which it cannot be said which gangs come of them; the message names object and field."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object: API `group` ("" for the core), `kind`, name, and all of it as plain values."""

    group: str
    kind: str
    namespace: str
    name: str
    body: Mapping[str, Any]

    def __str__(self) -> str:
        """Render as `Kind namespace/name`."""
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def api_version(self) -> str:
        """Return what the object says of its API, such as `batch/v1`."""
        return str(self.body.get("apiVersion", ""))

    def spec(self, kind: type[_S]) -> _S:
        """Return its `spec` as a `kind`; raise SubmissionError naming the field that does not fit."""
        value = self.body.get("spec")
        return self._read({} if value is None else value, kind, "spec")

    def whole(self, kind: type[_S]) -> _S:
        """Return all of it as a `kind`, in its namespace; raise SubmissionError naming the field that does not fit."""
        meta = dict(self.body.get("metadata") or {}) | {"namespace": self.namespace, "name": self.name}
        for ours in ("uid", "creationTimestamp", "deletionTimestamp", "generation"):
            meta.pop(ours, None)
        return self._read({**self.body, "metadata": meta, "status": None}, kind, "")

    def refuse(self, field: str, message: str) -> SubmissionError:
        """Return an error about one of its fields, for the caller to raise."""
        return SubmissionError(f"{self}: {field}: {message}")

    def _read(self, value: object, kind: type[_S], path: str) -> _S:
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            match = _AT.match(str(error))
            said, field = (match["said"], match["path"]) if match else (str(error), "")
            raise self.refuse(f"{path}{field}".removeprefix(".") or "the object", said) from error


def read_manifests(objects: Sequence[object]) -> list[Manifest]:
    """Return the objects, those in lists included; raise SubmissionError for what is no object, or is there twice.

    An object without namespace is in `default`; one that has only a `generateName` is called after it.
    """
    found: dict[tuple[str, str, str, str], Manifest] = {}
    for number, one in enumerate(objects, start=1):
        for manifest in _flatten(one, f"object {number}"):
            key = (manifest.group, manifest.kind, manifest.namespace, manifest.name)
            if key in found:
                raise SubmissionError(f"{manifest} is given twice")
            found[key] = manifest
    return list(found.values())


def _flatten(value: object, where: str) -> Iterator[Manifest]:
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str) or not value["kind"]:
        raise SubmissionError(f"{where} is no Kubernetes object: it has no kind")
    if isinstance(items := value.get("items"), list):
        for number, item in enumerate(items, start=1):
            yield from _flatten(item, f"{where}, item {number}")
        return
    kind, meta = value["kind"], value.get("metadata")
    if not isinstance(meta, dict):
        raise SubmissionError(f"{where}: {kind}: metadata: is missing; metadata.name is needed")
    group, _, version = str(value.get("apiVersion") or "").rpartition("/")
    if not version:
        raise SubmissionError(f"{where}: {kind}: apiVersion: is missing, such as batch/v1")
    namespace = _text(meta, "namespace", f"{where}: {kind}") or _DEFAULT_NAMESPACE
    name = _text(meta, "name", f"{where}: {kind}")
    if not name and (prefix := _text(meta, "generateName", f"{where}: {kind}")):
        name = f"{prefix}{where.rpartition(' ')[2]}"  # whatever the API server would add tells nothing
    for field, text in (("namespace", namespace), ("name", name)):
        if not _NAME.fullmatch(text):
            problem = f"'{text[:80]}' cannot be the name of a {'namespace' if field == 'namespace' else kind}"
            raise SubmissionError(f"{where}: {kind}: metadata.{field}: {problem if text else 'is missing'}")
    yield Manifest(group, kind, namespace, name, value)


def _text(meta: Mapping[str, object], field: str, where: str) -> str:
    """Return a text of the metadata, "" if there is none."""
    value = meta.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise SubmissionError(f"{where}: metadata.{field}: {value!r} is not a text; quote it")
    return value
