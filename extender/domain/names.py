"""The natural order of object names: `worker-10` behind `worker-9`."""

from __future__ import annotations

import re
import sys
from typing import TypeAlias

NaturalKey: TypeAlias = tuple[tuple[int, str], ...]

_PARTS = re.compile(r"[0-9]+|[^0-9]+")

#: Larger than the length of any number, smaller than that of nothing: where words and the end of a name stand.
_WORD = sys.maxsize
_END = -1


def natural_key(name: str) -> NaturalKey:
    """Return a sort key that compares runs of digits as numbers, and numbers before letters.

    Different names have different keys: where only leading zeros differ, the plain text decides.
    """
    return (*map(_part, _PARTS.findall(name)), (_END, name))


def _part(text: str) -> tuple[int, str]:
    """Rank words by their text; numbers by their length, then by their digits, which is by value."""
    if text[0] not in "0123456789":
        return (_WORD, text)
    digits = text.lstrip("0")
    return (len(digits), digits)
