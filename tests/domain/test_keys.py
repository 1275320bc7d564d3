"""Muster's own labels and annotations mean something or are complained about."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.domain.keys import GANG, MIN_MEMBER, PLACEMENT, PREFIX, ROLE, Options, Packing, read_options
from extender.domain.reason import Problem


def test_options_are_read() -> None:
    """Minimum and placement come from annotations; gang and role are labels that others read."""
    options = read_options({GANG: "train", ROLE: "worker"}, {MIN_MEMBER: "4", PLACEMENT: "spread"})
    assert options == Options(min_member=4, packing=Packing.SPREAD)


def test_an_object_without_options_says_nothing() -> None:
    """Keys of others are no business of Muster's."""
    assert read_options({"app": "x", "kueue.x-k8s.io/queue-name": "y"}, {"notmuster.dev/gang": "z"}) == Options()


@pytest.mark.parametrize("text", ["0", "-1", "four", "", "4.0", "1_0", "+4", "2147483648", "9" * 5000])
def test_a_bad_minimum_is_a_problem(text: str) -> None:
    """A minimum is a whole number from 1 to 2^31 - 1, or it is ignored with a problem."""
    options = read_options({}, {MIN_MEMBER: text})
    field = "metadata.annotations[muster.dev/min-member]"
    assert options == Options(problems=(Problem(field, f"{text!r} is not a whole number of at least 1"),))


def test_a_minimum_is_within_the_apis_bounds() -> None:
    """A minimum may be as small as one and as large as the field of a PodGroup."""
    assert read_options({}, {MIN_MEMBER: "1"}) == Options(min_member=1)
    assert read_options({}, {MIN_MEMBER: "2147483647"}).min_member == 2**31 - 1


@pytest.mark.parametrize("text", ["", "Binpack", "BINPACK", "pack"])
def test_a_bad_placement_is_a_problem(text: str) -> None:
    """A placement that does not exist is ignored, with a problem that names those that do."""
    options = read_options({}, {PLACEMENT: text})
    field = "metadata.annotations[muster.dev/placement]"
    assert options == Options(problems=(Problem(field, f"{text!r} is not binpack or spread"),))


def test_an_unknown_key_is_a_problem() -> None:
    """Every key under muster.dev/ that means nothing where it stands is named, in order, with those that would."""
    options = read_options({"muster.dev/rol": "x", PLACEMENT: "spread"}, {GANG: "y"})
    labels = "unknown key; known here: muster.dev/gang, muster.dev/role"
    annotations = "unknown key; known here: muster.dev/min-member, muster.dev/placement"
    assert options.problems == (
        Problem("metadata.labels[muster.dev/placement]", labels),
        Problem("metadata.labels[muster.dev/rol]", labels),
        Problem("metadata.annotations[muster.dev/gang]", annotations),
    )


OWN_KEYS = st.sampled_from([GANG, ROLE, MIN_MEMBER, PLACEMENT]) | st.text(max_size=5).map(lambda text: PREFIX + text)


@given(
    labels=st.dictionaries(OWN_KEYS | st.text(max_size=5), st.text(max_size=5)),
    annotations=st.dictionaries(OWN_KEYS | st.text(max_size=5), st.text(max_size=5) | st.integers().map(str)),
)
def test_no_own_key_is_met_with_silence(labels: dict[str, str], annotations: dict[str, str]) -> None:
    """Whatever is written under muster.dev/ is either taken or a problem."""
    options = read_options(labels, annotations)
    own = sum(key.startswith(PREFIX) for key in (*labels, *annotations))
    taken = [options.min_member, options.packing, labels.get(GANG), labels.get(ROLE)]
    assert len(options.problems) == own - sum(value is not None for value in taken)
