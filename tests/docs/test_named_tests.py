"""Tests that pages name by path and function are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.docs.conftest import ROOT

_NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
PAGES = [
    pytest.param(page, id=page.name)
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if _NAMED.search(page.read_text(encoding="utf-8"))
]


def functions(path: Path) -> set[str]:
    """Return the names of all functions of a module, those of classes too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("page", PAGES)
def test_each_is_there(page: Path) -> None:
    """A threat, a promise or a figure has the test that the page says."""
    named = _NAMED.findall(page.read_text(encoding="utf-8"))
    assert [f"{path}::{name}" for path, name in named if name not in functions(ROOT / path)] == []


def test_the_threat_model_names_some() -> None:
    """Most of its lines are shown by a test."""
    page = (ROOT / "docs/threat-model.md").read_text(encoding="utf-8")
    assert len(set(_NAMED.findall(page))) > 30
