"""Selectors of labels as people write them for kubectl: `team=a,tier in (gold,silver),!old`.

Source: k8s.io/apimachinery pkg/labels, Parse; keys as in pkg/api/validate/content IsLabelKey.
"""

from __future__ import annotations

import re
from typing import Final

from extender.objects.meta import LABEL_VALUE, LabelSelector, Requirement
from extender.objects.text import parse_int64

_NAME: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY: Final = re.compile(rf"(?:(?=[^/]{{1,253}}/)[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/)?{_NAME}", re.ASCII)
#: A comma that is in no parentheses.
_COMMA: Final = re.compile(r",(?![^()]*\))")
_IN_SET: Final = re.compile(r"(\S+)\s+(in|notin)\s*\(([^()]*)\)")
_COMPARED: Final = re.compile(r"([^=!<>]+?)\s*(==|=|!=|>|<)\s*(.*)")
_OPERATORS: Final = {"=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt", "in": "In", "notin": "NotIn"}
_EXAMPLE: Final = "write KEY=VALUE, KEY!=VALUE, KEY in (A,B), KEY notin (A,B), KEY, !KEY, KEY>1 or KEY<1"
_SHOWN: Final = 100


class LabelSelectorError(ValueError):
    """A text that is no selector; the message names the part that is wrong."""


def parse_selector(text: str) -> LabelSelector:
    """Read a selector, of which all parts must hold; an empty one picks everything. Raises LabelSelectorError."""
    if not text.strip():
        return LabelSelector()
    return LabelSelector(tuple(_requirement(part.strip()) for part in _COMMA.split(text)))


def _requirement(part: str) -> Requirement:
    """Read one part."""
    if found := _IN_SET.fullmatch(part):
        key, operator, listed = found.groups()
        values = tuple(value.strip() for value in listed.split(","))
    elif found := _COMPARED.fullmatch(part):
        key, operator, value = found.groups()
        values = (value.strip(),)
    else:
        return Requirement(
            _checked(part.removeprefix("!").strip(), part), "DoesNotExist" if part[:1] == "!" else "Exists"
        )
    for value in values:
        if LABEL_VALUE.fullmatch(value) is None:
            raise LabelSelectorError(
                f"label selector: {value[:_SHOWN]!r} in {part[:_SHOWN]!r} cannot be a label's value"
            )
    kind = _OPERATORS[operator]
    if kind in {"Gt", "Lt"} and parse_int64(values[0]) is None:
        raise LabelSelectorError(f"label selector: {values[0]!r} in {part[:_SHOWN]!r} is no integer")
    return Requirement(_checked(key, part), kind, values)


def _checked(key: str, part: str) -> str:
    """Return what can be the key of a label."""
    if _KEY.fullmatch(key) is None:
        raise LabelSelectorError(f"label selector: {part[:_SHOWN]!r} cannot be read; {_EXAMPLE}")
    return key
