"""PodDisruptionBudgets: how many pods of which kind may be evicted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from extender.domain.budget import DisruptionBudget
from extender.domain.pod import Pod


class Budgets:
    """Keep the budgets, and say what they allow; the API server has the last word at each eviction."""

    def __init__(self) -> None:
        """Start without budgets."""
        self._budgets: dict[str, dict[str, DisruptionBudget]] = {}

    def put(self, budget: DisruptionBudget) -> bool:
        """Take in a budget; return whether it says anything else than before."""
        budgets = self._budgets.setdefault(budget.namespace, {})
        before, budgets[budget.name] = budgets.get(budget.name), budget
        return before != budget

    def drop(self, namespace: str, name: str) -> bool:
        """Forget a budget; return whether it was there."""
        return self._budgets.get(namespace, {}).pop(name, None) is not None

    def allows(self, pods: Sequence[Pod]) -> bool:
        """Tell whether all of these pods may be evicted together.

        The API server evicts no pod that two budgets are about, whatever they say.
        """
        taken: Counter[tuple[str, str]] = Counter()
        for pod in pods:
            budgets = self._budgets.get(pod.namespace, {}).values()
            concerned = [budget for budget in budgets if budget.matches(pod.namespace, pod.labels)]
            if len(concerned) > 1:
                return False
            for budget in concerned:
                taken[budget.namespace, budget.name] += 1
                if taken[budget.namespace, budget.name] > budget.allowed:
                    return False
        return True
