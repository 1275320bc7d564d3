"""The manifests that an import writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

API_VERSION = "muster.dev/v1alpha1"

#: Selects no namespace: every one has this label. Source: kube-apiserver sets kubernetes.io/metadata.name on each.
NAMESPACE_NAME = "kubernetes.io/metadata.name"
NO_NAMESPACE: Mapping[str, Any] = {"matchExpressions": [{"key": NAMESPACE_NAME, "operator": "DoesNotExist"}]}


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
