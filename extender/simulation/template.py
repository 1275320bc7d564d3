"""Texts with arithmetic on a node's number: `rack-{index//4}` is rack-0 for nodes 0 to 3, rack-1 for 4 to 7, ...

The language is whole numbers, `index`, `+`, `-`, `*`, `//`, `%` and parentheses, with Python's meaning; `{{` and `}}`
are literal braces. It is parsed here, so that a scenario can do nothing but count.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

#: Longest expression between two braces: far above any use, and a bound on how deep parentheses nest.
_LONGEST = 100

Expression: TypeAlias = Callable[[int], int]
"""The index of a node -> a whole number; raises ZeroDivisionError."""

_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]|[^{}]+")
_TOKEN = re.compile(r"\s*([0-9]+|index\b|//|[-+*%()])", re.ASCII)
_SUMS: dict[str, Callable[[int, int], int]] = {"+": operator.add, "-": operator.sub}
_PRODUCTS: dict[str, Callable[[int, int], int]] = {"*": operator.mul, "//": operator.floordiv, "%": operator.mod}


class TemplateError(ValueError):
    """A text that is no template, or that has no value for some index; the message quotes it."""


@dataclass(frozen=True, slots=True)
class Template:
    """A text whose parts may depend on an index; `text` is how it was written."""

    text: str
    parts: tuple[str | Expression, ...]

    def render(self, index: int) -> str:
        """Return the text for one index; raise TemplateError where that divides by zero."""
        try:
            return "".join(part if isinstance(part, str) else str(part(index)) for part in self.parts)
        except ZeroDivisionError as error:
            raise TemplateError(f"'{self.text}' divides by zero for index {index}") from error


def parse_template(text: str) -> Template:
    """Read a template; raise TemplateError, quoting what is wrong."""
    parts: list[str | Expression] = []
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


def _parse(source: str, text: str) -> Expression:
    if len(source) > _LONGEST:
        raise TemplateError(f"'{text}': an expression is longer than {_LONGEST} characters")
    try:
        return _Parser(_tokens(source)).whole()
    except _SyntaxError as error:
        raise TemplateError(
            f"'{text}': {error} in '{{{source}}}'; known are index, whole numbers, + - * // % and parentheses"
        ) from error


class _SyntaxError(ValueError):
    """What is wrong with an expression, without the expression."""


def _tokens(source: str) -> list[str]:
    tokens: list[str] = []
    end, source = 0, source.rstrip()
    while end < len(source):
        match = _TOKEN.match(source, end)
        if match is None:
            raise _SyntaxError(f"'{source[end:].strip()}' cannot be read")
        tokens.append(match.group(1))
        end = match.end()
    return tokens


class _Parser:
    """Recursive descent: a sum of products of numbers, `index`, and sums in parentheses."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = [*tokens, ""]
        self._next = 0

    def whole(self) -> Expression:
        """Read all of it."""
        expression = self._sum()
        if self._tokens[self._next]:
            raise _SyntaxError(f"'{self._tokens[self._next]}' is one too many")
        return expression

    def _sum(self) -> Expression:
        return self._chain(self._product, _SUMS)

    def _product(self) -> Expression:
        return self._chain(self._operand, _PRODUCTS)

    def _chain(self, operand: Callable[[], Expression], operators: dict[str, Callable[[int, int], int]]) -> Expression:
        """Read operands with operators of one rank between them, from left to right."""
        left = operand()
        while (apply := operators.get(self._tokens[self._next])) is not None:
            self._next += 1
            left = _applied(apply, left, operand())
        return left

    def _operand(self) -> Expression:
        word = self._tokens[self._next]
        self._next += 1
        if word == "index":
            return lambda index: index
        if word.isdigit():
            number = int(word)
            return lambda _: number
        if word == "-":
            inner = self._operand()
            return lambda index: -inner(index)
        if word == "(":
            inner = self._sum()
            if self._tokens[self._next] != ")":
                raise _SyntaxError("')' is missing")
            self._next += 1
            return inner
        raise _SyntaxError("a number is missing" if not word else f"'{word}' stands where a number should")


def _applied(apply: Callable[[int, int], int], left: Expression, right: Expression) -> Expression:
    return lambda index: apply(left(index), right(index))
