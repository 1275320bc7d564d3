"""Semantic versions as Kubernetes reads and compares them: attributes of devices have them."""

from __future__ import annotations

import re
from typing import NamedTuple

_NUMBER = r"(?:0|[1-9][0-9]*)"
_VERSION = re.compile(
    rf"(?P<major>{_NUMBER})\.(?P<minor>{_NUMBER})\.(?P<patch>{_NUMBER})"
    r"(?:-(?P<before>[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
_ANY_NUMBER = re.compile(r"[0-9]+")
_LEADING_ZEROS = re.compile(r"0+(?=[0-9])")

#: What Go reads as a number at most.
_MOST = 2**64 - 1


class SemanticVersion(NamedTuple):
    """A version that compares by semver's rules; build metadata are left out, as they decide nothing.

    `released` is False for a pre-release, which goes before the release; `before` are its identifiers, numbers before
    words.
    """

    major: int
    minor: int
    patch: int
    released: bool = True
    before: tuple[tuple[bool, int, str], ...] = ()

    def __str__(self) -> str:
        """Render as text that `parse_semver` reads as the same version."""
        plain = f"{self.major}.{self.minor}.{self.patch}"
        parts = (word if is_word else str(number) for is_word, number, word in self.before)
        return plain if self.released else f"{plain}-{'.'.join(parts)}"


def parse_semver(text: str) -> SemanticVersion | None:
    """Read a version, None for what is none. Source: blang/semver v4 Parse."""
    found = _VERSION.fullmatch(text)
    if found is None:
        return None
    major, minor, patch = (int(found[name]) for name in ("major", "minor", "patch"))
    before = [_identifier(part) for part in (found["before"] or "").split(".") if part]
    if max(major, minor, patch) > _MOST or None in before:
        return None
    return SemanticVersion(major, minor, patch, not before, tuple(each for each in before if each is not None))


def parse_loose_semver(text: str) -> SemanticVersion | None:
    """Read a version that may begin with `v`, have leading zeros or lack numbers: `v1.02`.

    Source: k8s.io/apiserver/pkg/cel/library normalizeAndParse.
    """
    parts = [_LEADING_ZEROS.sub("", part, count=1) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3:  # noqa: PLR2004 - major, minor and patch
        if set("+-") & set(parts[-1]):
            return None
        parts += ["0"] * (3 - len(parts))
    return parse_semver(".".join(parts))


def _identifier(part: str) -> tuple[bool, int, str] | None:
    """Return an identifier of a pre-release so that numbers compare as such and go first; None for a bad number."""
    if _ANY_NUMBER.fullmatch(part) is None:
        return (True, 0, part)
    return None if (len(part) > 1 and part[0] == "0") or int(part) > _MOST else (False, int(part), "")
