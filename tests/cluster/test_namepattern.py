"""Patterns for node names, in the syntax of Go's regexp."""

from __future__ import annotations

import pytest

from extender.cluster.tree import LONGEST_PATTERN, NamePatternError, compile_pattern


@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [
        ("gpu", "a-gpu-1", True),
        ("^gpu", "a-gpu-1", False),
        (r"^gpu-\d+$", "gpu-17", True),
        ("^gpu-[0-9]+$", "gpu-17\n", False),
        ("^(a|b)-[[:digit:]]{2}$", "b-17", True),
        ("(?i)GPU", "gpu-1", True),
        (r"\pL", "7", False),
        ("", "gpu", True),
    ],
)
def test_a_pattern_is_found_anywhere_unless_anchored(pattern: str, name: str, found: bool) -> None:
    """What Go's regexp.MatchString finds is found."""
    assert compile_pattern(pattern)(name) is found


@pytest.mark.parametrize("pattern", ["(", "a(?=b)", r"(a)\1", "[", "a" * (LONGEST_PATTERN + 1), "a{1000}{1000}{1000}"])
def test_what_go_would_refuse_is_refused(pattern: str) -> None:
    """Malformed patterns, look-around, back-references and patterns beyond all bounds are errors that say so."""
    with pytest.raises(NamePatternError, match=r"^is "):
        compile_pattern(pattern)


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|aa)+$", "(a*)*b", "(.*)*" * 20 + "x"])
def test_no_pattern_takes_long(pattern: str) -> None:
    """Patterns on which a backtracking engine would not end before the machine does end on the longest name."""
    assert compile_pattern(pattern)("a" * 252 + "-") is False
