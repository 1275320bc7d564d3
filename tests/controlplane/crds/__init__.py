"""Definitions of other projects' kinds, cut down to what Muster reads."""

from __future__ import annotations

from pathlib import Path

import yaml

from localcluster.client import JsonObject


def foreign_definitions() -> list[JsonObject]:
    """Return the CRDs, in order of their names."""
    return [yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(Path(__file__).parent.glob("*.yaml"))]
