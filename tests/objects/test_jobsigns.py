"""What a running job says: RFC 3339 times, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.objects.jobsigns import (
    CLOCK_SKEW,
    EVICTION_ACKNOWLEDGED,
    EVICTION_PLANNED,
    LAST_CHECKPOINT,
    NO_SIGNS,
    JobSigns,
    NoticePeriod,
    read_signs,
)

MOMENT = 1_764_149_400.0  # 2025-11-26T09:30:00Z


@pytest.mark.parametrize(
    "text", ["2025-11-26T09:30:00Z", "2025-11-26T10:30:00+01:00", "2025-11-26T09:30:00.000000+00:00"]
)
def test_a_checkpoint_is_read(text: str) -> None:
    """As `date`, Go and Python write it."""
    assert read_signs({LAST_CHECKPOINT: text}) == JobSigns(last_checkpoint=MOMENT)


@pytest.mark.parametrize(
    "text", ["1764149400", "yesterday", "2025-11-26", "2025-11-26T09:30:00", "2025-13-26T09:30:00Z"]
)
def test_what_is_no_time_is_a_problem(text: str) -> None:
    """It names the field, and says nothing else."""
    signs = read_signs({LAST_CHECKPOINT: text})
    assert signs == NO_SIGNS
    (problem,) = signs.problems
    assert problem.field == f"metadata.annotations[{LAST_CHECKPOINT}]"
    assert "(RFC 3339)" in problem.message


def test_an_acknowledgement_is_a_copy_of_the_notice() -> None:
    """Anything else is a problem."""
    text = str(NoticePeriod(MOMENT, MOMENT + 600))
    assert text == "2025-11-26T09:30:00Z/2025-11-26T09:40:00Z"
    signs = read_signs({EVICTION_PLANNED: text, EVICTION_ACKNOWLEDGED: f"{text}\n"})
    assert signs.planned == signs.acknowledged == NoticePeriod(MOMENT, MOMENT + 600)
    assert read_signs({EVICTION_ACKNOWLEDGED: "true"}).problems


def test_a_clock_that_is_a_little_ahead_is_no_mistake() -> None:
    """Beyond that the time does not count."""
    ahead = JobSigns(last_checkpoint=MOMENT + CLOCK_SKEW)
    assert ahead.checkpoint(MOMENT) == MOMENT
    assert ahead.checkpoint(MOMENT - 1) is None
    assert ahead.is_ahead(MOMENT - 1)


@given(given_at=st.integers(0, 4_000_000_000), seconds=st.integers(0, 1_000_000))
def test_what_muster_writes_it_reads(given_at: int, seconds: int) -> None:
    """To the second."""
    period = NoticePeriod(float(given_at), float(given_at + seconds))
    assert read_signs({EVICTION_PLANNED: str(period)}).planned == period
