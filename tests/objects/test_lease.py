"""A Lease, as the API server has it."""

from __future__ import annotations

import datetime as dt

import pytest

from extender.objects.lease import Lease, LeaseObject, LeaseSpec, read_lease


def test_a_lease_says_who_holds_it_and_since_when() -> None:
    """Holder, duration and renewal are read as kube-scheduler writes them."""
    spec = LeaseSpec("node-1_0d3c", 5, "2026-11-21T12:00:00.250000Z")
    renewed = dt.datetime(2026, 11, 21, 12, 0, 0, 250_000, dt.UTC)
    assert read_lease(LeaseObject(spec=spec)) == Lease("node-1_0d3c", 5.0, renewed)


@pytest.mark.parametrize("time", [None, "", "yesterday", "2026-11-21T12:00:00"])
def test_a_renewal_that_cannot_be_read_is_none(time: str | None) -> None:
    """Neither a missing nor an odd time, nor one without a zone, counts as a renewal."""
    assert read_lease(LeaseObject(spec=LeaseSpec("a", 5, time))).renewed is None


def test_a_lease_that_was_given_back_has_no_holder() -> None:
    """kube-scheduler empties the holder when it stops; a Lease without spec is as good."""
    assert read_lease(LeaseObject(spec=LeaseSpec("", 1, None))).holder == ""
    assert read_lease(LeaseObject()) == Lease("", 0.0, None)
