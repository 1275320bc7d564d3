"""PodDisruptionBudgets are read as evictions go by them."""

from __future__ import annotations

from typing import Any

import pytest

from extender.objects.budget import DisruptionBudget, decode_disruption_budget, read_budget
from extender.objects.meta import LabelSelector, Requirement
from tests.builders import metadata_json, written

RED = LabelSelector((Requirement("team", "In", ("red",)),))


def read(spec: dict[str, Any], status: dict[str, Any] | None, generation: int = 1) -> DisruptionBudget:
    """Read a budget of namespace `research`."""
    metadata = metadata_json("b", namespace="research") | {"generation": generation}
    return read_budget(decode_disruption_budget(written({"metadata": metadata, "spec": spec, "status": status})))


def test_a_budget_is_read_whole() -> None:
    """Namespace, name, selector and what is allowed now are taken over."""
    budget = read({"selector": {"matchLabels": {"team": "red"}}}, {"disruptionsAllowed": 2, "observedGeneration": 1})
    assert budget == DisruptionBudget("research", "b", RED, 2)
    assert budget.key == "research/b"


def test_a_budget_is_about_pods_of_its_namespace() -> None:
    """The same labels elsewhere are no business of a budget."""
    budget = DisruptionBudget("research", "b", RED, 1)
    assert budget.matches("research", {"team": "red"})
    assert not budget.matches("production", {"team": "red"})
    assert not budget.matches("research", {"team": "blue"})


def test_an_empty_selector_picks_all_pods_of_the_namespace() -> None:
    """As in `policy/v1`; in earlier versions it picked none."""
    assert read({"selector": {}}, None).matches("research", {})


@pytest.mark.parametrize("spec", [{}, {"selector": None}, {"selector": {"matchExpressions": [{"operator": "Is"}]}}])
def test_a_budget_without_a_usable_selector_is_about_nobody(spec: dict[str, Any]) -> None:
    """The API server refuses no eviction for its sake."""
    assert not read(spec, {"disruptionsAllowed": 0}).matches("research", {"team": "red"})


@pytest.mark.parametrize(
    "status",
    [
        None,
        {},
        {"disruptionsAllowed": 3, "observedGeneration": 1},
        {"disruptionsAllowed": -1, "observedGeneration": 2},
    ],
    ids=["no status", "not yet looked at", "looked at before the spec changed", "negative"],
)
def test_what_is_not_known_to_be_allowed_is_not_allowed(status: dict[str, Any] | None) -> None:
    """Until the budget's controller has worked out what the spec means now, the API server evicts nobody."""
    assert read({"selector": {}}, status, generation=2).allowed == 0


def test_nothing_at_all_is_a_budget_about_nobody() -> None:
    """An object without any field raises nothing."""
    assert read_budget(decode_disruption_budget(b"{}")) == DisruptionBudget("", "")
