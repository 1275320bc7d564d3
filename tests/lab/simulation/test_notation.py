"""Durations, and texts with arithmetic on the number of a node."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_lab.simulation.notation import (
    DurationError,
    TemplateError,
    format_duration,
    parse_duration,
    parse_template,
)


def rendered(text: str, *indices: int) -> list[str]:
    """Return what a template says for some indices."""
    template = parse_template(text)
    return [template.render(index) for index in indices]


@pytest.mark.parametrize(
    ("text", "index", "expected"),
    [
        ("rack-0", 5, "rack-0"),
        ("", 5, ""),
        ("{index}", 5, "5"),
        ("rack-{index//4}", 7, "rack-1"),
        ("{ index % 4 }", 7, "3"),
        ("b{index//16}-r{index//4%4}", 37, "b2-r1"),
        ("{2+3*4}", 0, "14"),
        ("{(2+3)*4}", 0, "20"),
        ("{10-3-2}", 0, "5"),
        ("{-index+1}", 3, "-2"),
        ("{100//7//2}", 0, "7"),
        ("{{index}}", 3, "{index}"),
        ("{{{index}}}", 3, "{3}"),
        ('{{"0": "{index*2}"}}', 3, '{"0": "6"}'),
    ],
)
def test_an_expression_in_braces_is_replaced_by_its_value(text: str, index: int, expected: str) -> None:
    """Operators mean what they mean in Python; doubled braces are literal."""
    assert rendered(text, index) == [expected]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "'{': '{' has no counterpart; a literal brace is doubled"),
        ("a}b", "'a}b': '}' has no counterpart; a literal brace is doubled"),
        *(
            (text, f"'{text}' is not arithmetic; known are index, whole numbers, + - * // % and parentheses")
            for text in (
                *("{}", "{index+}", "{(index}", "{index)}", "{2 index}", "{*2}", "{index/2}", "{indexes}"),
                *("{index.real}", "{__import__('os')}", "{2**3}", "{1.5}", "{1_000}", "{1index}", "{()}", "{index(1)}"),
                *("{+1}", "{0x10}", "{1//0+2**3}"),
            )
        ),
        ("{" + "(" * 101 + "}", "an expression is longer than 100 characters"),
    ],
)
def test_what_is_no_template_is_refused(text: str, problem: str) -> None:
    """The error quotes the text and says what is wrong with it; nothing but arithmetic can be said."""
    with pytest.raises(TemplateError) as refused:
        parse_template(text)
    assert str(refused.value).startswith(f"'{text}'")
    assert problem in str(refused.value)


@pytest.mark.parametrize("text", ["{1//0}", "{4 % (index - 2)}"])
def test_a_division_by_zero_names_the_index(text: str) -> None:
    """Whether a template has a value may depend on the index."""
    with pytest.raises(TemplateError, match="divides by zero for index 2"):
        parse_template(text).render(2)


_expressions = st.recursive(
    st.integers(0, 99).map(str) | st.just("index"),
    lambda inner: st.builds(
        lambda left, operator, right, wrap: f"({left}{operator}{right})" if wrap else f"{left} {operator} {right}",
        inner,
        st.sampled_from(["+", "-", "*", "//", "%"]),
        inner,
        st.booleans(),
    ),
    max_leaves=6,
)


def _by_python(tree: ast.expr, index: int) -> int:
    """Evaluate Python's own reading of an expression."""
    match tree:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name():
            return index
        case ast.BinOp(left, operator, right):
            a, b = _by_python(left, index), _by_python(right, index)
            match operator:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case ast.FloorDiv():
                    return a // b
                case ast.Mod():
                    return a % b
    raise AssertionError(ast.dump(tree))


@given(_expressions.filter(lambda text: len(text) <= 100), st.integers(0, 1000))
def test_arithmetic_is_that_of_python(expression: str, index: int) -> None:
    """Precedence, grouping and rounding agree, and so does what cannot be computed."""
    template = parse_template(f"{{{expression}}}")
    try:
        expected = _by_python(ast.parse(expression, mode="eval").body, index)
    except ZeroDivisionError:
        with pytest.raises(TemplateError):
            template.render(index)
    else:
        assert template.render(index) == str(expected)


@given(st.text(max_size=120), st.integers(0, 1000))
def test_any_text_is_a_template_or_refused(text: str, index: int) -> None:
    """Whatever is written ends with a text or with an error of this module."""
    try:
        outcome = parse_template(text).render(index)
    except TemplateError as error:
        outcome = str(error)
    assert isinstance(outcome, str)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (0, 0.0),
        (90, 90.0),
        (1.5, 1.5),
        ("0", 0.0),
        ("30m", 1800.0),
        ("1h", 3600.0),
        ("1h30m", 5400.0),
        ("1h0m1.5s", 3601.5),
        ("500ms", 0.5),
        ("250us", 0.00025),
        ("250µs", 0.00025),
        ("5ns", 5e-9),
        (".5h", 1800.0),
        ("2.h", 7200.0),
        ("+3s", 3.0),
    ],
)
def test_seconds_and_go_durations_are_read(written: object, seconds: float) -> None:
    """Numbers are seconds; text is as Go's time.ParseDuration has it."""
    assert parse_duration(written) == pytest.approx(seconds, abs=1e-12)


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        (-3, "'-3' is negative"),
        ("-1m", "'-1m' is negative"),
        ("30", "'30' is not a duration"),
        ("5 m", "'5 m' is not a duration"),
        ("m5", "'m5' is not a duration"),
        ("1d", "'1d' is not a duration"),
        ("", "'' is not a duration"),
        ("٣s", "'٣s' is not a duration"),
        (None, "None is not a duration"),
        (True, "True is not a duration"),
        ([1], r"\[1\] is not a duration"),
        (float("nan"), "'nan' is not a finite duration"),
        (float("inf"), "'inf' is not a finite duration"),
        ("9" * 400 + "h", "is not a finite duration"),
    ],
)
def test_everything_else_is_refused_with_the_value(written: object, complaint: str) -> None:
    """What is no duration is named in the error."""
    with pytest.raises(DurationError, match=complaint):
        parse_duration(written)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (1760, "29m20s"), (3600, "1h"), (5400, "1h30m"), (86_400, "24h"), (1.5, "1.5s"), (0.0004, "0s")],
)
def test_durations_are_written_for_people(seconds: float, text: str) -> None:
    """Hours, minutes and seconds, without the parts that are zero."""
    assert format_duration(seconds) == text


@given(st.integers(min_value=0, max_value=10**7))
def test_whole_seconds_round_trip(seconds: int) -> None:
    """What is written for people is read back as the same duration."""
    assert parse_duration(format_duration(seconds)) == seconds
