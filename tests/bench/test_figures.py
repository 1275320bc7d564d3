"""Figures and their output."""

from __future__ import annotations

import json

import pytest

from bench.__main__ import main
from bench.figures import Figure, ratio, time_call


def test_a_figure_holds_when_its_median_is_below_the_bound() -> None:
    """Without a bound there is nothing to hold."""
    assert Figure("f", "ms", 1.0, 0.5, 9.0, bound=2.0).holds is True
    assert Figure("f", "ms", 3.0, 0.5, 9.0, bound=2.0).holds is False
    assert Figure("f", "ms", 3.0, 0.5, 9.0).holds is None


def test_a_ratio_spreads_as_far_as_its_parts() -> None:
    """The smallest ratio is the least over the most, the largest the most over the least."""
    result = ratio("r", Figure("a", "ms", 4, 2, 8), Figure("b", "ms", 2, 1, 4))
    assert (result.value, result.low, result.high, result.unit) == (2, 0.5, 8, "ratio")


def test_a_call_is_timed_after_a_warm_up() -> None:
    """Every repeat counts, the first call does not."""
    calls: list[int] = []
    figure = time_call("f", lambda: calls.append(1), repeats=3)
    assert len(calls) == 4
    assert 0 <= figure.low <= figure.value <= figure.high


def test_json_names_each_figure_with_its_bound(capsys: pytest.CaptureFixture[str]) -> None:
    """Programs read the same figures that people see."""
    main(["--output", "json", "--repeats", "1"])
    figures = json.loads(capsys.readouterr().out)["figures"]
    assert figures["plan_1000_pods_5000_nodes"]["bound"] == 20.0
    assert set(figures["pass_100_waiting_gangs_500_nodes"]) == {"value", "bound", "holds", "min", "max", "unit"}
    main(["--repeats", "1"])
    assert "plan_1000_pods_5000_nodes" in capsys.readouterr().out.replace("…", "")


def test_no_repeats_are_refused() -> None:
    """A measurement without a measurement is a mistake."""
    with pytest.raises(SystemExit):
        main(["--repeats", "0"])
