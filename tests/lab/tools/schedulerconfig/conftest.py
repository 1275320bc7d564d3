"""The shipped configuration, changed in one place at a time."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.settings import Settings
from muster_lab.tools.schedulerconfig.check import check_text
from muster_lab.tools.schedulerconfig.finding import Expectations, Finding

CONFIGS = Path(__file__).parents[4] / "scheduler-config"
SHIPPED: dict[str, Any] = yaml.safe_load((CONFIGS / "muster.yaml").read_text(encoding="utf-8"))

Change = Callable[[dict[str, Any]], object]
"""What a test does to the shipped configuration."""


def expectations(**changes: Any) -> Expectations:
    """Return what Muster is told by default, with changes."""
    settings = Settings()
    told: dict[str, Any] = {
        "scheduler_names": settings.scheduler_names,
        "bind_hold_seconds": settings.bind_hold_seconds,
        "http_timeout_seconds": settings.http_timeout_seconds,
        "reservation_timeout_seconds": settings.reservation_timeout_seconds,
        "port": 10261,
    }
    return Expectations(**told | changes)


def changed(change: Change) -> str:
    """Return the shipped configuration after a change, as YAML."""
    document = copy.deepcopy(SHIPPED)
    change(document)
    return yaml.safe_dump(document)


def find(change: Change, **told: Any) -> list[Finding]:
    """Return the findings of the shipped configuration after a change."""
    (checked,) = check_text(changed(change), expectations(**told))
    return list(checked.findings)


def brief(findings: list[Finding]) -> list[tuple[str, str]]:
    """Return severity and path of findings."""
    return [(finding.severity.value, finding.path) for finding in findings]


@pytest.fixture(params=["muster.yaml", "stock.yaml"])
def shipped(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Return name and text of each shipped configuration in turn."""
    return request.param, (CONFIGS / request.param).read_text(encoding="utf-8")
