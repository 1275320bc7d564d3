"""YAML text to plain values, as strictly as Kubernetes' own decoder."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml

#: What PyYAML raises for text that it cannot read; a ValueError for a date such as 2026-13-45.
UNREADABLE = (yaml.YAMLError, ValueError, RecursionError)


class DocumentError(ValueError):
    """Text that is not YAML, or that gives a key twice; the message names line and column."""


class _UniqueKeysLoader(yaml.SafeLoader):
    """Load plain values; refuse a mapping that gives the same key twice, of which YAML would keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 - PyYAML's signature
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in seen:
                    problem = f"key '{key.value}' is given twice"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def load_documents(text: str) -> list[object]:
    """Return the documents of a YAML stream, empty ones as None; raise DocumentError."""
    try:
        return list(yaml.load_all(text, _UniqueKeysLoader))
    except UNREADABLE as error:
        raise DocumentError(describe(error)) from error


def describe(error: Exception) -> str:
    """Say in one line what PyYAML found wrong, with line and column where it knows them."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return f"not YAML: {' '.join(str(error).split())}"
    mark = error.problem_mark or error.context_mark
    place = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
    return f"{place}{error.problem or error.context or 'not YAML'}"
