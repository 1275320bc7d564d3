"""Labels and annotations under `muster.dev/`: which exist, and what they may say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from extender.domain.integer import parse_integer
from extender.domain.reason import Problem

PREFIX = "muster.dev/"
GANG = "muster.dev/gang"
MIN_MEMBER = "muster.dev/min-member"
ROLE = "muster.dev/role"
PLACEMENT = "muster.dev/placement"

#: Every key that means something, and where it stands.
KNOWN_LABELS = frozenset({GANG, ROLE})
KNOWN_ANNOTATIONS = frozenset({MIN_MEMBER, PLACEMENT})

#: Upper bound of minMember; the API's field is an int32.
MAX_MIN_MEMBER = 2**31 - 1


class Packing(StrEnum):
    """How a gang spreads over nodes: as few as possible, or as many as possible."""

    BINPACK = "binpack"
    SPREAD = "spread"


@dataclass(frozen=True, slots=True)
class Options:
    """What the `muster.dev/` annotations of one object ask for; None where they say nothing."""

    min_member: int | None = None
    packing: Packing | None = None
    problems: tuple[Problem, ...] = ()


def read_options(labels: Mapping[str, str], annotations: Mapping[str, str]) -> Options:
    """Read the `muster.dev/` keys of an object; unknown keys and bad values become problems, never silence."""
    problems = [
        *_unknown("metadata.labels", labels, KNOWN_LABELS),
        *_unknown("metadata.annotations", annotations, KNOWN_ANNOTATIONS),
    ]
    min_member = None
    if (text := annotations.get(MIN_MEMBER)) is not None:
        min_member = parse_integer(text)
        if min_member is None or not 1 <= min_member <= MAX_MIN_MEMBER:
            problems.append(_bad(MIN_MEMBER, text, "a whole number of at least 1"))
            min_member = None
    packing = None
    if (text := annotations.get(PLACEMENT)) is not None:
        if text in set(Packing):
            packing = Packing(text)
        else:
            problems.append(_bad(PLACEMENT, text, " or ".join(Packing)))
    return Options(min_member=min_member, packing=packing, problems=tuple(problems))


def _unknown(field: str, keys: Mapping[str, str], known: frozenset[str]) -> list[Problem]:
    return [
        Problem(f"{field}[{key}]", f"unknown key; known here: {', '.join(sorted(known))}")
        for key in sorted(key for key in keys if key.startswith(PREFIX) and key not in known)
    ]


def _bad(key: str, text: str, expected: str) -> Problem:
    return Problem(f"metadata.annotations[{key}]", f"{text!r} is not {expected}")
