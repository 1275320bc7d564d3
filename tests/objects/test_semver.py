"""Versions are read and compared by the rules of semver 2.0, as Kubernetes has them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.objects.semver import SemanticVersion, parse_loose_semver, parse_semver

#: In ascending order. Source: semver.org, item 11.
ORDERED = ["1.0.0-1", "1.0.0-2", "1.0.0-10", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-rc", "1.0.0"]


def test_versions_are_in_order() -> None:
    """Numbers before words, fewer identifiers before more, pre-releases before the release."""
    versions = [parse_semver(text) for text in ORDERED]
    assert None not in versions
    assert sorted(version for version in versions if version) == versions


@pytest.mark.parametrize(
    "text", ["", "1", "1.2", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3+", "1.2.x", "v1.2.3", f"{2**64}.0.0"]
)
def test_what_is_no_version_is_none(text: str) -> None:
    """Nothing is guessed."""
    assert parse_semver(text) is None


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("v1", "1.0.0"),
        ("1.02", "1.2.0"),
        ("v1.2.3-a", "1.2.3-a"),
        ("00", "0.0.0"),
        ("1-a", None),
        ("1.2+b", None),
        ("", None),
    ],
)
def test_loose_versions_are_filled_up(text: str, version: str | None) -> None:
    """A short one can have no pre-release."""
    found = parse_loose_semver(text)
    assert (None if found is None else str(found)) == version


@given(st.builds(SemanticVersion, *[st.integers(0, 99)] * 3, st.sampled_from([True]), st.just(())))
def test_a_version_is_read_as_it_is_written(version: SemanticVersion) -> None:
    """Build metadata are left out: they decide nothing."""
    assert parse_semver(str(version)) == version
    assert parse_semver(f"{version}-a.1+b") == parse_semver(f"{version}-a.1")
