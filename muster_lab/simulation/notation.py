"""What people write in scenario files and on command lines: durations, and texts with arithmetic on a node's number.

A duration is a number of seconds, or Go's notation (`1h30m`). In a template `rack-{index//4}` is rack-0 for nodes 0 to
3, rack-1 for 4 to 7; its language is whole numbers, `index`, `+`, `-`, `*`, `//`, `%` and parentheses, with Python's
meaning, and `{{` and `}}` are literal braces. Python's own parser reads an expression, but only nodes of that language
are evaluated, so that a scenario can do nothing but count.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from extender.objects.text import parse_go_duration

#: Longest expression between two braces: far above any use, and a bound on how deep parentheses nest.
_LONGEST_EXPRESSION = 100

_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]|[^{}]+")
_WORDS = re.compile(r"(?:\s*(?:[0-9]+\b|index\b|//|[-+*%()]))*\s*", re.ASCII)
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_LANGUAGE = (ast.Constant, ast.Name, ast.Load, ast.UnaryOp, ast.USub, ast.BinOp, *_OPERATORS)


class DurationError(ValueError):
    """A text or number that is no duration, or a negative one."""


def parse_duration(value: object) -> float:
    """Read seconds from a number or from text such as `30m`, `1h30m` or `500ms`; raise DurationError for all else."""
    seconds: float | None = None
    if isinstance(value, str):
        seconds = parse_go_duration(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    if seconds is None:
        raise DurationError(f"{value!r} is not a duration (examples: 90, 30m, 1h30m)")
    if not math.isfinite(seconds):
        raise DurationError(f"'{value}' is not a finite duration")
    if seconds < 0:
        raise DurationError(f"'{value}' is negative")
    return seconds


def format_duration(seconds: float) -> str:
    """Write seconds for people: `1h30m`, `29m20s`, `1.5s`."""
    whole, rest = divmod(round(seconds, 3), 60)
    hours, minutes = divmod(int(whole), 60)
    parts = [f"{hours}h" if hours else "", f"{minutes}m" if minutes else "", f"{rest:g}s" if rest else ""]
    return "".join(parts) or "0s"


def write_duration(seconds: float) -> str:
    """Write seconds exactly, for programs: `5400s`, `0.5s`."""
    return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"


class TemplateError(ValueError):
    """A text that is no template, or that has no value for some index; the message quotes it."""


@dataclass(frozen=True, slots=True)
class Template:
    """A text whose parts may depend on an index; `text` is how it was written."""

    text: str
    parts: tuple[str | ast.expr, ...]

    def render(self, index: int) -> str:
        """Return the text for one index; raise TemplateError where that divides by zero."""
        try:
            return "".join(part if isinstance(part, str) else str(_value(part, index)) for part in self.parts)
        except ZeroDivisionError as error:
            raise TemplateError(f"'{self.text}' divides by zero for index {index}") from error


def parse_template(text: str) -> Template:
    """Read a template; raise TemplateError, quoting what is wrong."""
    parts: list[str | ast.expr] = []
    for piece in _PIECE.finditer(text):
        match piece.group():
            case "{{" | "}}" as doubled:
                parts.append(doubled[0])
            case "{" | "}" as brace:
                raise TemplateError(f"'{text}': '{brace}' has no counterpart; a literal brace is doubled")
            case _ if piece.group(1) is not None:
                parts.append(_parse(piece.group(1), text))
            case literal:
                parts.append(literal)
    return Template(text, tuple(parts))


def _parse(source: str, text: str) -> ast.expr:
    if len(source) > _LONGEST_EXPRESSION:
        raise TemplateError(f"'{text}': an expression is longer than {_LONGEST_EXPRESSION} characters")
    try:
        expression = ast.parse(source.strip(), mode="eval").body if _WORDS.fullmatch(source) else None
    except SyntaxError:
        expression = None
    if expression is None or not all(isinstance(node, _LANGUAGE) for node in ast.walk(expression)):
        raise TemplateError(
            f"'{text}': '{{{source}}}' is not arithmetic; known are index, whole numbers, + - * // % and parentheses"
        )
    return expression


def _value(expression: ast.expr, index: int) -> int:
    """Evaluate an expression of the language."""
    match expression:
        case ast.Constant(value=int(number)):
            return number
        case ast.UnaryOp(operand=operand):
            return -_value(operand, index)
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](_value(left, index), _value(right, index))
        case _:
            return index
