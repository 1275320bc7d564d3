"""It is found what an expression reads of a device, and all of it where that is not plain."""

from __future__ import annotations

import pytest

from extender.devices.reading import Attribute, read_expression

TYPE = Attribute("attributes", "g", "type")


@pytest.mark.parametrize(
    ("expression", "reads"),
    [
        ("true", ()),
        ("device.driver == 'g'", ()),
        ("device.allowMultipleAllocations", ()),
        ("device.attributes['g'].type == 'gpu'", (TYPE,)),
        ('device.attributes["g"]["type"] == "gpu"', (TYPE,)),
        ("has(device.attributes['g'].type)", (TYPE,)),
        ("'type' in device.attributes['g']", (TYPE,)),
        ("('type' in device.attributes['g'] || true)", (TYPE,)),
        ("device.attributes['g'].type.startsWith('x')", (TYPE,)),
        ("device.attributes[device.driver].type == 'gpu'", (Attribute("attributes", None, "type"),)),
        ("'g' in device.attributes", (Attribute("attributes", "g", None),)),
        ("device.capacity['g'].memory == quantity('1')", (Attribute("capacity", "g", "memory"),)),
        ("cel.bind(d, device.attributes['g'], d.type == 'gpu')", (TYPE,)),
        ("cel.bind(d, device.attributes['g'], 'type' in d)", (TYPE,)),
        ("// device\ndevice.attributes['g'].type == 'device'", (TYPE,)),
        ("'device' == 'a' && x.device", ()),
        ("device", None),
        ("device.other", None),
        ("device.attributes", None),
        ("device.attributes.g.type == 'gpu'", None),
        ("device.attributes['a' + 'b'].type == 'gpu'", None),
        ("device.attributes['g']['ty' + 'pe'] == 'gpu'", None),
        ("device.attributes[?'g'].hasValue()", None),
        ("'ty' + 'pe' in device.attributes['g']", None),
        ("name in device.attributes['g']", None),
        ("device.attributes.exists(d, d == 'g')", None),
        ("device.attributes['g'].exists(name, name == 'type')", None),
        ("size(device.attributes['g']) > 1", None),
        ("cel.bind(d, device.attributes['g'], d.exists(n, n == 'type'))", None),
        ("cel.bind(d, device, d.driver == 'g')", None),
        (r"device.attributes['\x67'].type == 'gpu'", None),
    ],
)
def test_what_an_expression_reads(expression: str, reads: tuple[Attribute, ...] | None) -> None:
    """Attributes by name where it is plain which they are, else None for all."""
    assert read_expression(expression).attributes == reads


def test_domains_that_are_looked_up_are_never_missing() -> None:
    """They are looked up in a map of their own, in which each domain that the expression names has a place."""
    reading = read_expression("'a' in device.attributes && device.attributes['a'].x == device.capacity['b'].y")
    assert reading.text == "'a' in device.attributes && device.attributesOrNone['a'].x == device.capacityOrNone['b'].y"
    assert reading.domains == {"a", "b"}


@pytest.mark.parametrize(
    ("expression", "compiled"),
    [
        ("cel.bind(a, 1, a == 1)", "[ 1].map(a,  a == 1)[0]"),
        ("cel.bind(a, f(1, 2), a == 1)", "[ f(1, 2)].map(a,  a == 1)[0]"),
        ("cel.bind(a,1,cel.bind(b,a,b))", "[1].map(a, [a].map(b, b)[0])[0]"),
        ("'cel.bind(a, 1, a)'", "'cel.bind(a, 1, a)'"),
        ("cel.bind(a, 1)", "cel.bind(a, 1)"),
        ("cel.bind('a', 1, 2)", "cel.bind('a', 1, 2)"),
        ("x.cel.bind(a, 1, 2)", "x.cel.bind(a, 1, 2)"),
    ],
)
def test_what_is_bound_is_compiled_as_a_comprehension(expression: str, compiled: str) -> None:
    """The library may find another value there."""
    assert read_expression(expression).text == compiled


@pytest.mark.parametrize("text", ["", "'", '"""', "device.", "device.attributes[", "\x00", "cel.bind(", "in in device"])
def test_text_that_is_no_expression_is_left_to_the_compiler(text: str) -> None:
    """Nothing is raised here."""
    assert read_expression(text).text.replace("OrNone", "") == text
