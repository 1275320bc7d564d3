"""Paths and names of the code in the pages: each leads somewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.docs.conftest import PAGES, ROOT, Page

#: What a path may be relative to.
BASES = (ROOT, ROOT / "extender")
#: A module, or a file or folder of one of the repository's top folders and packages.
_MODULE = re.compile(r"[\w./]+\.py")
_MEMBER = re.compile(r"([A-Z]\w+)\.([a-z_]\w*)(?:\(\w*\))?")
_ROW = re.compile(r"^\| `(\w+)/` \|")


def tops() -> set[str]:
    """Return the names of folders that paths begin with, but for those that commands make."""
    folders = (path for base in BASES for path in base.iterdir() if path.is_dir())
    return {path.name for path in folders if not path.name.startswith(".")} - {"build", "dist"}


def paths(page: Page) -> Iterator[tuple[str, str]]:
    """Yield each path in backticks, and the package whose row of a table it is in, "" elsewhere."""
    known = tops()
    for line in page.prose.splitlines():
        row = _ROW.match(line)
        for text in re.findall(r"`([^`]+)`", line):
            if _MODULE.fullmatch(text) or (re.fullmatch(r"[\w.-]+(/[\w.-]*)+", text) and text.split("/")[0] in known):
                yield text, row[1] if row else ""


@cache
def members() -> dict[str, set[str]]:
    """Return the names in the body of every class, by the name of the class."""
    found: dict[str, set[str]] = {}
    for package in ("extender", "muster_lab"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    found.setdefault(node.name, set()).update(_names(node))
    return found


def _names(node: ast.ClassDef) -> Iterator[str]:
    for each in node.body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            yield each.name
        elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            yield each.target.id


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_module_exists(page: Page) -> None:
    """A path is relative to the repository or to `extender/`; in the table of packages also to its package."""
    missing = [
        text
        for text, package in paths(page)
        if not any((base / text).exists() for base in (*BASES, *([ROOT / "extender" / package] if package else [])))
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_method_exists(page: Page) -> None:
    """`Class.method` is a method or a field of a class in the code."""
    named = [found.groups() for text in page.code if (found := _MEMBER.fullmatch(text))]
    assert [f"{kind}.{name}" for kind, name in named if name not in members().get(kind, set())] == []


def test_paths_and_methods_are_found() -> None:
    """The page about the architecture has dozens of them."""
    (page,) = (page for page in PAGES if str(page) == "docs/architecture.md")
    assert len(list(paths(page))) > 50
    assert sum(_MEMBER.fullmatch(text) is not None for text in page.code) > 3
