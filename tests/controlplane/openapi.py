"""JSON schemas for kubeconform, from what the API server says of its own kinds: nothing is downloaded."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from localcluster.client import ApiClient

#: How kubeconform finds a schema in a folder: `deployment-apps-v1.json`.
PATTERN = "{{ .ResourceKind }}{{ .KindSuffix }}.json"


def write_schemas(api: ApiClient, api_versions: Iterable[str], folder: Path) -> None:
    """Write a strict schema for every kind of these API versions, such as `v1` and `apps/v1`.

    Strict: a field that the kind does not have is an error. Each file holds the definitions of its whole group.
    """
    for api_version in api_versions:
        root = "apis" if "/" in api_version else "api"
        document = api.request("GET", f"/openapi/v3/{root}/{api_version}")
        schemas = {name: _strict(schema) for name, schema in document["components"]["schemas"].items()}
        group, _, version = api_version.rpartition("/")
        for name, schema in schemas.items():
            for kind in schema.get("x-kubernetes-group-version-kind", ()):
                if (kind["group"], kind["version"]) == (group, version):
                    # kubeconform takes the first label of the group: networking.k8s.io is networking.
                    parts = [kind["kind"].lower(), *([group.split(".")[0]] if group else []), version]
                    text = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}}
                    (folder / f"{'-'.join(parts)}.json").write_text(json.dumps(text), encoding="utf-8")


def _strict(schema: Any) -> Any:
    """Return a schema that lets no field through which it does not name."""
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {key: _strict(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        strict.setdefault("additionalProperties", False)
    return strict
