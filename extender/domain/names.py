"""The natural order of object names: `worker-10` behind `worker-9`."""

from __future__ import annotations

import re
from typing import TypeAlias

NaturalKey: TypeAlias = tuple[tuple[int, str], ...]

_PARTS = re.compile(r"\d+|\D+", re.ASCII)


def natural_key(name: str) -> NaturalKey:
    """Return a sort key that compares runs of digits as numbers, and numbers before letters."""
    return tuple(
        (int(part), "") if part[0] in "0123456789" else (_AFTER_NUMBERS, part) for part in _PARTS.findall(name)
    )


#: Larger than any number in an object name (253 digits at most, but equal-length names decide long before that).
_AFTER_NUMBERS = 10**254
