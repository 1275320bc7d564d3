"""PodDisruptionBudgets: who may be evicted together."""

from __future__ import annotations

import pytest

from extender.objects.budget import Budgets, DisruptionBudget
from extender.objects.meta import LabelSelector, Requirement
from extender.objects.pod import Pod, Shape

TRAIN = LabelSelector((Requirement("app", "In", ("train",)),))


def pods(count: int, app: str = "train", namespace: str = "default") -> list[Pod]:
    """Return pods with a label."""
    return [
        Pod(f"{app}-{index}", namespace, f"{app}-{index}", Shape(()), labels={"app": app}) for index in range(count)
    ]


def budget(allowed: int, name: str = "train", namespace: str = "default") -> DisruptionBudget:
    """Return a budget for the pods of one app."""
    return DisruptionBudget(namespace, name, TRAIN, allowed)


def test_without_budgets_everybody_may_go() -> None:
    """Nothing is counted."""
    assert Budgets().allows(pods(100))


@pytest.mark.parametrize(("count", "allowed"), [(1, True), (2, True), (3, False)])
def test_a_budget_lets_so_many_go_at_once(count: int, *, allowed: bool) -> None:
    """All pods that are evicted together count."""
    budgets = Budgets()
    budgets.put(budget(2))
    assert budgets.allows(pods(count)) is allowed


def test_only_the_pods_that_a_budget_is_for_count() -> None:
    """Other labels and other namespaces do not matter to it."""
    budgets = Budgets()
    budgets.put(budget(0))
    assert budgets.allows([*pods(3, "web"), *pods(3, namespace="other")])


def test_a_pod_of_two_budgets_stays() -> None:
    """The Eviction API takes no pod that more than one budget is for, whatever they allow."""
    budgets = Budgets()
    budgets.put(budget(5))
    budgets.put(budget(5, "other"))
    assert not budgets.allows(pods(1))
    assert budgets.allows(pods(1, "web"))


def test_it_says_what_is_news() -> None:
    """Whoever was protected may be asked again when a budget changes or goes."""
    budgets = Budgets()
    assert budgets.put(budget(1))
    assert not budgets.put(budget(1))
    assert budgets.put(budget(2))
    assert budgets.drop("default", "train")
    assert not budgets.drop("default", "train")
    assert not budgets.drop("nowhere", "train")
