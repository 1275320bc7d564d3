"""Node selectors and required node affinity: which labels a pod asks of its node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from extender.domain.quantity import parse_integer
from extender.wire import kubernetes as wire


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on a label (or, in `matchFields`, on the node's name).

    Operators as in `k8s.io/api/core/v1.NodeSelectorOperator`; an unknown one matches no node, which is what
    kube-scheduler's parse error amounts to.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether `labels` satisfy the requirement; an absent label satisfies NotIn and DoesNotExist."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return self._compares(value)
            case _:
                return False

    def _compares(self, value: str | None) -> bool:
        """Compare as integers; a label or bound that is no integer does not match."""
        if value is None or len(self.values) != 1:
            return False
        label, bound = parse_integer(value), parse_integer(self.values[0])
        if label is None or bound is None:
            return False
        return label > bound if self.operator == "Gt" else label < bound


@dataclass(frozen=True, slots=True)
class Term:
    """One alternative of a node affinity; all its requirements must hold. An empty term matches nothing."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Tell whether the node called `name` with `labels` satisfies the term."""
        if not self.labels and not self.fields:
            return False
        return all(r.matches(labels) for r in self.labels) and all(
            r.matches({"metadata.name": name}) for r in self.fields
        )


@dataclass(frozen=True, slots=True)
class Selector:
    """A pod's `nodeSelector` and required node affinity together.

    `terms` is None when the pod has no required node affinity; an empty tuple matches no node, as in kube-scheduler.
    """

    equals: tuple[tuple[str, str], ...] = ()
    terms: tuple[Term, ...] | None = None

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Tell whether the node called `name` with `labels` is one the pod asks for."""
        if any(labels.get(key) != value for key, value in self.equals):
            return False
        return self.terms is None or any(term.matches(name, labels) for term in self.terms)


def read_selector(spec: wire.PodSpec) -> Selector:
    """Read `nodeSelector` and the required node affinity of a pod."""
    terms: tuple[Term, ...] | None = None
    affinity = spec.affinity and spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    if required:
        terms = tuple(
            Term(labels=_requirements(term.match_expressions), fields=_requirements(term.match_fields))
            for term in required.node_selector_terms or ()
        )
    return Selector(equals=tuple(sorted((spec.node_selector or {}).items())), terms=terms)


def _requirements(requirements: list[wire.Requirement] | None) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(key=r.key or "", operator=r.operator or "", values=tuple(r.values or ()))
        for r in requirements or ()
    )
