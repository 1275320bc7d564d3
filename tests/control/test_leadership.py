"""Who leads, by the scheduler's Lease."""

from __future__ import annotations

import datetime as dt
import math

import pytest

from extender.clock import ManualClock
from extender.control.leadership import COARSENESS, FENCE, LeaseHolder, OnlyReplica
from extender.objects.lease import Lease


@pytest.fixture
def clock() -> ManualClock:
    """Return a clock that the test moves; its wall clock moves with it."""
    return ManualClock()


@pytest.fixture
def holder(clock: ManualClock) -> LeaseHolder:
    """Return the leadership of the replica whose hostname is `muster-a`."""
    return LeaseHolder("muster-a", clock)


def lease(clock: ManualClock, holder: str = "muster-a_1f0c", age: float = 0.0) -> Lease:
    """Return a Lease of six seconds that was renewed `age` seconds ago."""
    return Lease(holder, 6.0, clock.now() - dt.timedelta(seconds=age))


def test_without_a_lease_nobody_leads(holder: LeaseHolder, clock: ManualClock) -> None:
    """A replica that has not heard of the Lease stands by."""
    assert holder.held_until() < clock.monotonic()


def test_a_renewal_is_good_for_two_thirds_of_the_lease(holder: LeaseHolder, clock: ManualClock) -> None:
    """The last third is left for writes that are on their way."""
    holder.lease_seen(lease(clock))
    assert holder.held_until() == pytest.approx(clock.monotonic() + FENCE * (6 - COARSENESS))
    clock.advance(1)
    holder.lease_seen(lease(clock))
    assert holder.held_until() == pytest.approx(1 + FENCE * (6 - COARSENESS))


def test_a_renewal_that_comes_late_is_as_old_as_it_is(holder: LeaseHolder, clock: ManualClock) -> None:
    """What waited in the buffers of a stopped process does not make it the leader."""
    clock.advance(100)
    holder.lease_seen(lease(clock, age=1.5))
    assert holder.held_until() == pytest.approx(100 + FENCE * (6 - COARSENESS) - 1.5)
    holder.lease_seen(lease(clock, age=30))
    assert holder.held_until() < clock.monotonic()


def test_a_renewal_from_the_future_is_not_believed(holder: LeaseHolder, clock: ManualClock) -> None:
    """The wall clock was set back, or somebody else's wrote it; the next renewal tells."""
    holder.lease_seen(lease(clock, age=-30))
    assert holder.held_until() < clock.monotonic()
    holder.lease_seen(lease(clock, age=-0.01))
    assert holder.held_until() > clock.monotonic()


@pytest.mark.parametrize("other", ["muster-b_1f0c", "muster-a2_1f0c", "muster-a", ""])
def test_somebody_elses_lease_ends_the_leadership(holder: LeaseHolder, clock: ManualClock, other: str) -> None:
    """Another hostname, one that merely begins alike, or nobody: at once, not when the last renewal has aged."""
    holder.lease_seen(lease(clock))
    holder.lease_seen(lease(clock, other))
    assert holder.held_until() < clock.monotonic()


def test_a_lease_that_is_gone_or_unreadable_is_not_held(holder: LeaseHolder, clock: ManualClock) -> None:
    """Deleted, or without a time of renewal: stand by."""
    holder.lease_seen(lease(clock))
    holder.lease_gone()
    assert holder.held_until() < clock.monotonic()
    holder.lease_seen(lease(clock))
    holder.lease_seen(Lease("muster-a_1f0c", 6.0, None))
    assert holder.held_until() < clock.monotonic()


def test_the_only_replica_always_leads(clock: ManualClock) -> None:
    """Where there is no leader election nothing ends the leadership."""
    only = OnlyReplica()
    only.lease_seen(lease(clock, "muster-b_1"))
    only.lease_gone()
    assert only.held_until() == math.inf
