"""Texts that attack what prints, parses or evaluates them."""

from __future__ import annotations

import msgspec.inspect as mi
from hypothesis import strategies as st

from tests.builders import Json

#: One for each reader that takes text for something else.
ATTACKS = (
    "\x1b[2J\x1b]0;owned\x07",
    "\x9b2J\x90q\x9c",
    "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "a\r\nteam/other  Running",
    '\n{"level": "info", "event": "bound"}',
    "\x00\x08\x7f\x85\u2028\u2029",
    "\u202egpj.exe\u2066\u2069",
    "zero\u200bwidth\ufeff\u00ad",
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "[click](javascript:alert(1)) ![](x) `code` | cell |",
    "=cmd|' /C calc'!A0",
    "  +SUM(A1)",
    "\t@evil",
    "\uff1d1+1",
    '"} 1\nmuster_up{x="',
    "\\",
    "{0.__class__}{missing}{",
    "%s%n%(x)s",
    "{{ 7 * 7 }}${IFS}$(id)`id`",
    "!!python/object/apply:os.system ['id']",
    "&a [*a]: |\n  - x",
    "[bold red]markup[/] :boom:",
    "'; DROP TABLE gangs; --",
    "\U0001f469\u200d\U0001f680\u65e5\u672c\u8a9e",
    "x" * 5000,
    "\u65e5" * 2000,
)
#: Any of them, and others made of what they are made of.
TEXTS = st.sampled_from(ATTACKS) | st.lists(st.sampled_from(ATTACKS), min_size=2, max_size=3).map("".join)
TEXTS |= st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)


def document(kind: type, text: str) -> Json:
    """Return an answer of a kind in which every text is `text`."""
    written = _value(mi.type_info(kind), text, 0)
    assert isinstance(written, dict)
    return written


_DEEPEST = 4
#: What Muster itself has checked before it says it.
_CHECKED = {"zone": "UTC"}
#: What stands for values that are no texts.
_PLAIN: dict[type[mi.Type], object] = {mi.BoolType: True, mi.IntType: 1, mi.FloatType: 1.0}


def _value(kind: mi.Type, text: str, depth: int) -> object:
    match kind:
        case mi.StructType() | mi.DataclassType():
            fields = {each.encode_name: _value(each.type, text, depth + 1) for each in kind.fields}
            return fields | _CHECKED if fields.keys() >= _CHECKED.keys() else fields
        case mi.StrType() | mi.AnyType():
            return text
        case mi.UnionType():
            return _value(next(each for each in kind.types if not isinstance(each, mi.NoneType)), text, depth)
        case mi.ListType() | mi.VarTupleType() | mi.FrozenSetType():
            return [] if depth > _DEEPEST else [_value(kind.item_type, text, depth + 1)] * 2
        case mi.DictType():
            return {text: _value(kind.value_type, text, depth + 1)}
    return _other(kind, text, depth)


def _other(kind: mi.Type, text: str, depth: int) -> object:
    match kind:
        case mi.TupleType():
            return [_value(each, text, depth + 1) for each in kind.item_types]
        case mi.Metadata():
            return _value(kind.type, text, depth)
        case mi.EnumType():
            return next(iter(kind.cls)).value
        case mi.LiteralType():
            return kind.values[0]
    return _PLAIN[type(kind)]
