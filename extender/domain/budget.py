"""PodDisruptionBudgets: how many pods of a kind may be evicted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from extender.domain.labelselector import LabelSelector, read_label_selector
from extender.domain.reason import Problem
from extender.wire.kubernetes import ObjectMeta
from extender.wire.policy import DisruptionBudgetSpec, DisruptionBudgetStatus, PodDisruptionBudget


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """How many of the pods in `namespace` that `selector` picks may be evicted now; None picks nobody."""

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

    One that has no selector, or none that can be used, picks nobody. What has not been worked out yet for the spec as
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
