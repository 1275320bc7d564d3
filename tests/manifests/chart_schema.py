"""The part of the chart's values.schema.json that is the program's own: the schema of its settings.

`python -m tests.manifests.chart_schema` writes it into the file, for whoever changes a setting; a test compares both.
"""

from __future__ import annotations

import json
from typing import Any

from extender.settings import Settings
from tests.docs.conftest import ROOT

CHART = ROOT / "manifests" / "helm" / "muster"
SCHEMA = CHART / "values.schema.json"

#: Settings that the chart derives from other values, so that they cannot contradict those.
DERIVED = ("scheduler_names", "scheduler_lease", "dashboard")


def settings_schema() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schema of the value `settings`, and the definitions that it refers to.

    Titles are left out: they are the names once more. So are defaults: what is not set is Muster's to decide.
    """
    schema = Settings.model_json_schema(by_alias=True)
    properties = {name: _bare(part) for name, part in schema["properties"].items() if name not in DERIVED}
    settings = {
        "description": "Muster's settings that differ from their defaults.",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
    }
    return settings, {name: _bare(part) for name, part in schema.get("$defs", {}).items()}


def _bare(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without titles and defaults, its descriptions on one line."""
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key in {"title", "default"}:
            continue
        if key == "description":
            kept[key] = " ".join(value.split())
        elif key == "properties":
            kept[key] = {name: _bare(part) for name, part in value.items()}
        elif key == "anyOf":
            kept[key] = [_bare(part) for part in value]
        elif isinstance(value, dict):
            kept[key] = _bare(value)
        else:
            kept[key] = value
    return kept


def main() -> None:
    """Write the settings' schema into the chart."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    schema["properties"]["settings"], schema["$defs"] = settings_schema()
    SCHEMA.write_text(json.dumps(schema, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
