"""What an expression of a selector reads of a device, found by its tokens before it is compiled.

Devices differ in what no selector asks for: every GPU has a UUID. Where it is plain which attributes an expression
reads, all devices with the same values of these get the same answer, and it is evaluated once for all of them. So

    device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].productName.startsWith("NVIDIA H")

reads one attribute. An expression that walks over attributes, or looks one up by a name that it works out, reads all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

#: What is asked for where a device has no attribute of a domain: kube-scheduler finds an empty map there, but only when
#: it looks the domain up, not when it asks whether it is there. Source: dynamic-resource-allocation/cel mapper.Find.
LOOKED_UP = {"attributes": "attributesOrNone", "capacity": "capacityOrNone"}

_STRING = r'[rRbB]{0,2}(?:"""[\s\S]*?"""|\'\'\'[\s\S]*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')'
_TOKENS = re.compile(
    rf"(?P<string>{_STRING})|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<number>[0-9][0-9A-Za-z.]*)"
    r"|(?P<skip>\s+|//[^\n]*)|(?P<sign>[\s\S])"
)

_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+[uU]?|[0-9]+(?:\.[0-9]+)?(?:[eE][0-9]+)?[uU]?")
_QUOTED = re.compile(r"([rRbB]{0,2})(\"\"\"|\'\'\'|\"|\')([\s\S]*)\2")

#: What stands before an operand of `in` that consists of one text.
_BEFORE_OPERAND = frozenset("(&|,?:[")


class Attribute(NamedTuple):
    """One attribute, or capacity, that is read.

    `domain` None is that of the driver; with `name` None it is only read whether there is any of the domain.
    """

    field: str
    domain: str | None
    name: str | None


@dataclass(frozen=True, slots=True)
class ExpressionReading:
    """What an expression reads besides the name of the driver.

    `text` is the expression as it is compiled, `domains` are those that it may look up. `attributes` None means all.
    `names` are all names in it, among which are the fields of the device that it may read.
    """

    text: str
    domains: frozenset[str]
    attributes: tuple[Attribute, ...] | None
    names: frozenset[str]


class _Token(NamedTuple):
    kind: str
    text: str
    start: int


def read_expression(expression: str) -> ExpressionReading:
    """Find what an expression reads. Text that is no expression is left to the compiler."""
    tokens = [
        _Token(found.lastgroup, found.group(), found.start())
        for found in _TOKENS.finditer(expression)
        if found.lastgroup is not None and found.lastgroup != "skip"
    ]
    return _TokenWalk(expression, tokens).read()


def reworded(expression: str, name: Callable[[str], str], text: Callable[[str], str]) -> str:
    """Return an expression with other names and texts in it, and without comments and signs that CEL has not."""
    return "".join(_reworded(found, name, text) for found in _TOKENS.finditer(expression))


def _reworded(found: re.Match[str], name: Callable[[str], str], text: Callable[[str], str]) -> str:
    token = found.group()
    match found.lastgroup:
        case "string" if quoted := _QUOTED.fullmatch(token):
            prefix, _, inside = quoted.groups()
            said = text(inside)
            return token if said == inside else f'{prefix}"{said}"'
        case "name":
            return name(token)
        case "number":
            return token if _NUMBER.fullmatch(token) else "0"
        case "skip":
            return " " if token.startswith("//") else token
    return token if token.isascii() else ""


class _TokenWalk:
    """Walk over the tokens of one expression."""

    def __init__(self, expression: str, tokens: list[_Token]) -> None:
        self._expression = expression
        self._tokens = tokens
        self._found: dict[Attribute, None] = {}
        self._plain = True
        self._bound: dict[str, list[tuple[str, str | None]]] = {}
        self._renamed: list[_Token] = []
        self._domains = {text for each in tokens if (text := _literal(each)) is not None}

    def read(self) -> ExpressionReading:
        """Return what was found."""
        for place, token in enumerate(self._tokens):
            if token.kind != "name" or self._sign(place - 1, "."):
                continue
            if token.text == "device":
                self._device(place)
            elif token.text in self._bound and not self._is_binding(place):
                for field, domain in self._bound[token.text]:
                    self._entry(field, domain, place, place + 1)
        attributes = tuple(self._found) if self._plain else None
        return ExpressionReading(self._rewritten(), frozenset(self._domains), attributes, self._names())

    def _names(self) -> frozenset[str]:
        """Return all names in the expression, as they are called once names are changed."""
        renamed = {each.start for each in self._renamed}
        return frozenset(
            LOOKED_UP[each.text] if each.start in renamed else each.text for each in self._tokens if each.kind == "name"
        )

    def _device(self, place: int) -> None:
        field = self._name(place + 2) if self._sign(place + 1, ".") else ""
        if field in ("driver", "allowMultipleAllocations"):
            return
        if field not in LOOKED_UP:
            self._plain = False
            return
        after = place + 3
        if self._sign(after, "."):
            if not self._sign(after + 2, "("):  # a domain without dots
                self._renamed.append(self._tokens[place + 2])
                self._domains.add(self._name(after + 1))
            self._plain = False
        elif self._sign(after, "["):
            self._renamed.append(self._tokens[place + 2])
            self._looked_up(field, place, after)
        elif (named := self._asked_for(place)) is not None:
            self._found[Attribute(field, named, None)] = None
        else:
            self._plain = False

    def _looked_up(self, field: str, place: int, bracket: int) -> None:
        """Take in `device.attributes[...]`, which begins at `place`, with what follows it."""
        own = [each.text for each in self._tokens[bracket + 1 : bracket + 5]] == ["device", ".", "driver", "]"]
        domain = self._string(bracket + 1)
        if own:
            self._entry(field, None, place, bracket + 5)
        elif domain is not None and self._sign(bracket + 2, "]"):
            self._entry(field, domain, place, bracket + 3)
        else:
            self._plain = False

    def _entry(self, field: str, domain: str | None, place: int, after: int) -> None:
        """Take in what is done with the attributes of a domain, an expression of the tokens from `place` to `after`."""
        name: str | None = None
        if self._sign(after, ".") and not self._sign(after + 2, "("):
            name = self._name(after + 1)
        elif self._sign(after, "[") and self._sign(after + 2, "]"):
            name = self._string(after + 1)
        elif not self._sign(after, ".") and not self._sign(after, "["):
            name = self._asked_for(place)
            if name is None and (variable := self._binds(place, after)):
                self._bound.setdefault(variable, []).append((field, domain))
                return
        if name:
            self._found[Attribute(field, domain, name)] = None
        else:
            self._plain = False

    def _asked_for(self, place: int) -> str | None:
        """Return the text of which it is asked whether it is in what begins at `place`: that and nothing else."""
        alone = place < 3 or self._at(place - 3).text in _BEFORE_OPERAND  # noqa: PLR2004 - text, `in`, and what is before
        return self._string(place - 2) if alone and self._name(place - 1) == "in" else None

    def _binds(self, place: int, after: int) -> str:
        """Return the variable of a `cel.bind` whose value reaches from `place` to `after`."""
        called = [each.text for each in self._tokens[max(place - 6, 0) : place - 2]]
        bound = called == ["cel", ".", "bind", "("] and self._sign(place - 1, ",") and self._sign(after, ",")
        return self._name(place - 2) if bound else ""

    def _is_binding(self, place: int) -> bool:
        return [each.text for each in self._tokens[max(place - 4, 0) : place]] == ["cel", ".", "bind", "("]

    def _rewritten(self) -> str:
        edits = [(token, LOOKED_UP[token.text]) for token in self._renamed]
        for place in range(len(self._tokens)):
            edits += self._unbound(place)
        text, end = [], 0
        for token, replacement in sorted(edits, key=lambda edit: edit[0].start):
            text += [self._expression[end : token.start], replacement]
            end = token.start + len(token.text)
        return "".join([*text, self._expression[end:]])

    def _unbound(self, place: int) -> list[tuple[_Token, str]]:
        """Return what makes `[value].map(name, body)[0]` of a `cel.bind(name, value, body)` at `place`.

        The library keeps what is bound where a comprehension that ended early may have left a value of its own:
        `[1, 2].exists(i, i == 1) && cel.bind(x, 5, x == 5)` is false there. No value is left for a comprehension.
        """
        called = self._tokens[place : place + 6]
        if [each.text for each in called[:4]] != ["cel", ".", "bind", "("] or self._sign(place - 1, "."):
            return []
        commas: list[_Token] = []
        name, depth = self._name(place + 4), 0
        for token in self._tokens[place + 4 :]:
            if token.kind == "sign":
                if token.text in ")]}" and not depth:
                    if not name or len(commas) != 2 or commas[0] is not called[5]:  # noqa: PLR2004 - three arguments
                        return []
                    gone = [(each, "") for each in called[1:]]
                    return [(called[0], "["), *gone, (commas[1], f"].map({name}, "), (token, ")[0]")]
                depth += (token.text in "([{") - (token.text in ")]}")
                if token.text == "," and not depth:
                    commas.append(token)
        return []

    def _at(self, place: int) -> _Token:
        return self._tokens[place] if 0 <= place < len(self._tokens) else _Token("", "", 0)

    def _sign(self, place: int, sign: str) -> bool:
        return self._at(place)[:2] == ("sign", sign)

    def _name(self, place: int) -> str:
        token = self._at(place)
        return token.text if token.kind == "name" else ""

    def _string(self, place: int) -> str | None:
        return _literal(self._at(place))


def _literal(token: _Token) -> str | None:
    """Return the value of a string without prefix and escapes, None for any other token."""
    text = token.text
    if token.kind != "string" or text[0] not in "\"'" or "\\" in text or text.startswith(('"""', "'''")):
        return None
    return text[1:-1]
