"""Which object something is about."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """An object of the API by version, kind and name; `namespace` is empty for objects of the cluster."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @property
    def group(self) -> str:
        """Return the API group, "" for that of the core."""
        group, slash, _version = self.api_version.partition("/")
        return group if slash else ""

    def __str__(self) -> str:
        """Render as `Kind name` or `Kind namespace/name`."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"
