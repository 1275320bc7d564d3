"""PodDisruptionBudgets: how many pods of a kind may be evicted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec import Struct

from extender.objects.meta import (
    Decoder,
    Int32,
    Int64,
    LabelSelector,
    LabelSelectorObject,
    ObjectMeta,
    read_label_selector,
)
from extender.objects.pod import Pod
from extender.objects.reason import Problem


class DisruptionBudgetSpec(Struct, gc=False, frozen=True):
    """Which pods a budget is about; how many of them must stay, its controller has worked out."""

    selector: LabelSelectorObject | None = None


class DisruptionBudgetStatus(Struct, gc=False, frozen=True, rename="camel"):
    """How many evictions the budget's controller allows, and for which generation of the spec it found that out."""

    disruptions_allowed: Int32 | None = None
    observed_generation: Int64 | None = None


class PodDisruptionBudget(Struct, gc=False, frozen=True):
    """A PodDisruptionBudget."""

    metadata: ObjectMeta | None = None
    spec: DisruptionBudgetSpec | None = None
    status: DisruptionBudgetStatus | None = None


decode_disruption_budget = Decoder(PodDisruptionBudget)


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """How many of the pods in `namespace` that `selector` picks may be evicted now; None picks none."""

    namespace: str
    name: str
    selector: LabelSelector | None = None
    allowed: int = 0

    @property
    def key(self) -> str:
        """Render as `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Tell whether the budget is about pods of `namespace` with `labels`."""
        return self.selector is not None and namespace == self.namespace and self.selector.matches(labels)


def read_budget(budget: PodDisruptionBudget) -> DisruptionBudget:
    """Read a PodDisruptionBudget as the eviction of a pod goes by it.

    One that has no selector, or none that can be used, picks no pod. What has not been worked out yet for the spec as
    it is now allows nothing. Source: k8s.io/kubernetes pkg/registry/core/pod/storage/eviction.go checkAndDecrement.
    """
    meta = budget.metadata or ObjectMeta()
    spec, status = budget.spec or DisruptionBudgetSpec(), budget.status or DisruptionBudgetStatus()
    selector = None if spec.selector is None else read_label_selector(spec.selector, "spec.selector")
    observed = (status.observed_generation or 0) >= (meta.generation or 0)
    return DisruptionBudget(
        meta.namespace or "",
        meta.name or "",
        None if isinstance(selector, Problem) else selector,
        max(status.disruptions_allowed or 0, 0) if observed else 0,
    )


class Budgets:
    """Keep the budgets, and say what they allow; the API server has the last word at each eviction.

    Attributes:
        version: how often what they say has changed.
    """

    def __init__(self) -> None:
        self._budgets: dict[str, dict[str, DisruptionBudget]] = {}
        self.version = 0

    def put(self, budget: DisruptionBudget) -> bool:
        """Take in a budget; return whether it says anything else than before."""
        budgets = self._budgets.setdefault(budget.namespace, {})
        before, budgets[budget.name] = budgets.get(budget.name), budget
        self.version += before != budget
        return before != budget

    def drop(self, namespace: str, name: str) -> bool:
        """Forget a budget; return whether it was there."""
        known = self._budgets.get(namespace, {}).pop(name, None) is not None
        self.version += known
        return known

    def allows(self, pods: Sequence[Pod]) -> bool:
        """Tell whether all of these pods may be evicted together.

        The API server evicts no pod that two budgets are about, whatever they say.
        """
        taken: Counter[tuple[str, str]] = Counter()
        for pod in pods:
            budgets = tuple(self._budgets.get(pod.namespace, {}).values())  # in one step, for threads that ask
            concerned = [budget for budget in budgets if budget.matches(pod.namespace, pod.labels)]
            if len(concerned) > 1:
                return False
            for budget in concerned:
                taken[budget.namespace, budget.name] += 1
                if taken[budget.namespace, budget.name] > budget.allowed:
                    return False
        return True
