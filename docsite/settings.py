"""The reference of settings: every field with its type, unit, default and bounds, as the program checks them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from docsite.markdown import code, codes, page, table
from extender.settings import Settings

_INTRO = """
A YAML file for `muster serve --config FILE`. It needs only the lines that differ. An unknown key, or a value that is
out of range or contradicts another one, is refused at the start (exit code 2) with file, key and value. `muster
settings` prints all of this with the defaults, as a file to start from. How the Deployment is given such a file, and
which settings belong together: [operations](../operations.md#configure).
"""

#: What the last words of a setting's name say about its unit.
_UNITS = {
    "per_second": "per second",
    "seconds": "seconds",
    "bytes": "bytes",
    "megabytes": "megabytes",
    "limit": "count",
    "concurrency": "count",
}
_BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
_PLAIN = {str: "text", int: "whole number", float: "number", bool: "true or false"}


def render() -> str:
    """Return the page."""
    fields = Settings.model_fields
    rows = [(f"[{code(name)}](#{name})", unit(name), _default(name)) for name in fields]
    sections = [_section(name, field) for name, field in fields.items()]
    return page("Settings", _INTRO, table(("setting", "unit", "default"), rows), *sections)


def unit(name: str) -> str:
    """Return the unit that a setting's name ends with, nothing if it is no amount."""
    return next((told for ending, told in _UNITS.items() if name.endswith(f"_{ending}")), "")


def _section(name: str, field: FieldInfo) -> str:
    facts = [_kind(field.annotation), unit(name), *bounds(field), f"default {_default(name)}"]
    text = " ".join((field.description or "").split())
    parts = [f"## {name}", " · ".join(fact for fact in facts if fact), text, *_items(field.annotation)]
    return "\n\n".join(parts)


def bounds(field: FieldInfo) -> Iterator[str]:
    """Yield in words what a value has to satisfy beside its type."""
    for constraint in field.metadata:
        for name, words in _BOUNDS.items():
            if (bound := getattr(constraint, name, None)) is not None:
                yield f"{words} {bound:,}" if isinstance(bound, int) else f"{words} {bound:g}"
        if (pattern := getattr(constraint, "pattern", None)) is not None:
            yield f"matches {code(pattern)}"
        if (most := getattr(constraint, "max_length", None)) is not None:
            yield f"at most {most} characters"


def _kind(annotation: Any) -> str:  # noqa: ANN401 - a type, of which Python has many kinds
    """Return a type in words."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return f"one of {codes(map(str, arguments))}"
    if origin in {Union, UnionType}:
        told = [_kind(each) for each in arguments if each is not NoneType]
        return " or ".join(told) + (", or none" if NoneType in arguments else "")
    if origin in {tuple, list}:
        return f"list of {_kind(arguments[0])}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", annotation.__name__).lower()
        return f"{words}, a mapping"
    return _PLAIN.get(annotation, str(annotation))


def _default(name: str) -> str:
    value = Settings().model_dump(mode="json")[name]
    if value is None:
        return "none"
    return code(str(value).lower() if isinstance(value, bool) else str(value))


def _items(annotation: Any) -> Iterator[str]:  # noqa: ANN401 - a type, of which Python has many kinds
    """Yield a table of the keys of a list's mappings."""
    for item in get_args(annotation):
        if isinstance(item, type) and issubclass(item, BaseModel):
            rows = []
            for name, field in item.model_fields.items():
                need = "needed" if field.is_required() else "optional"
                rows.append((code(field.alias or name), _kind(field.annotation), need, ", ".join(bounds(field))))
            yield table(("key", "type", "", "range"), rows)
