"""Percentiles of the time to fail over."""

from __future__ import annotations

import pytest

from bench.failover import BOUND_SECONDS, Takeover, figures


def test_percentiles_cover_the_whole_time_and_its_parts() -> None:
    """Each figure has its percentile as value and keeps least and most; what follows the Lease is the difference."""
    takeovers = [Takeover(lease=4.0 + n / 100, binding=4.5 + n / 100 + (n == 100)) for n in range(101)]
    found = {figure.name: figure for figure in figures(takeovers)}
    assert found["failover_p50"].value == pytest.approx(5.0)
    assert found["failover_p95"].value == pytest.approx(5.45)
    assert found["failover_lease_p95"].value == pytest.approx(4.95)
    assert found["failover_first_binding_p50"].value == pytest.approx(0.5)
    assert found["failover_first_binding_p95"].high == pytest.approx(1.5)
    assert (found["failover_p95"].low, found["failover_p95"].high) == pytest.approx((4.5, 6.5))


def test_only_the_95th_percentile_is_promised() -> None:
    """One slow failover in twenty may be; a slow 95th percentile misses the bound."""
    slow = Takeover(lease=5.0, binding=BOUND_SECONDS + 5)
    missed = {figure.name: figure.holds for figure in figures([slow] * 2)}
    assert missed == {
        "failover_p50": None,
        "failover_p95": False,
        "failover_lease_p50": None,
        "failover_lease_p95": None,
        "failover_first_binding_p50": None,
        "failover_first_binding_p95": None,
    }
