"""Patterns for node names that somebody else wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pydantic_core import SchemaError, SchemaValidator, core_schema

#: Longest pattern that is tried: node names have 253 characters at most.
LONGEST_PATTERN = 1024

Match: TypeAlias = Callable[[str], bool]
"""Tell whether a pattern is found in a name."""


class NamePatternError(ValueError):
    """A pattern that cannot be used; the message says why."""


def compile_pattern(pattern: str) -> Match:
    """Return a function that tells whether `pattern` is found anywhere in a name; raise NamePatternError.

    HyperNodes have patterns of Go's regexp, and Python's `re` would not do: it takes exponential time on some, and
    reads some otherwise. Validation of strings in pydantic uses Rust's regex crate, which has the same syntax as Go's
    but for rare escapes, takes linear time, bounds the memory, and refuses look-around and back-references as Go does.
    """
    if len(pattern) > LONGEST_PATTERN:
        msg = f"is longer than {LONGEST_PATTERN} characters"
        raise NamePatternError(msg)
    try:
        validator = SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError as error:
        *_, last = str(error).strip().splitlines()
        msg = f"is not a regular expression of Go: {last.removeprefix('error: ')}"
        raise NamePatternError(msg) from error
    return validator.isinstance_python
