"""Node selectors and required node affinity: which labels a pod asks of its node."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from extender.domain.integer import parse_int64
from extender.wire import kubernetes as wire

#: Source: apimachinery/pkg/api/validate/content IsLabelValue.
_LABEL_VALUE = re.compile(r"(?=.{0,63}\Z)(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on a label (or, in `matchFields`, on the node's name).

    Operators as in `k8s.io/api/core/v1.NodeSelectorOperator`; an unknown one matches no node.
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
        label, bound = parse_int64(value), parse_int64(self.values[0])
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
    """Read `nodeSelector` and the required node affinity of a pod.

    A term that is empty, or that kube-scheduler cannot parse, matches no node whatever else it says, and is left out.
    Source: component-helpers/scheduling/corev1/nodeaffinity.
    """
    terms: tuple[Term, ...] | None = None
    affinity = spec.affinity and spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    if required:
        candidates = map(_term, required.node_selector_terms or ())
        terms = tuple(term for term in candidates if _is_sound(term))
    return Selector(equals=tuple(sorted((spec.node_selector or {}).items())), terms=terms)


def _term(term: wire.NodeSelectorTerm) -> Term:
    return Term(labels=_requirements(term.match_expressions), fields=_requirements(term.match_fields))


def _requirements(requirements: list[wire.Requirement] | None) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(key=r.key or "", operator=r.operator or "", values=tuple(r.values or ()))
        for r in requirements or ()
    )


def _is_sound(term: Term) -> bool:
    """Tell whether kube-scheduler would use the term at all."""
    sound = all(map(_is_sound_on_labels, term.labels)) and all(map(_is_sound_on_fields, term.fields))
    return sound and bool(term.labels or term.fields)


def _is_sound_on_labels(requirement: Requirement) -> bool:
    """Check operator and values. Source: apimachinery/pkg/labels NewRequirement."""
    values = requirement.values
    match requirement.operator:
        case "In" | "NotIn":
            counts = bool(values)
        case "Exists" | "DoesNotExist":
            counts = not values
        case "Gt" | "Lt":
            counts = len(values) == 1 and parse_int64(values[0]) is not None
        case _:
            counts = False
    return counts and all(map(_LABEL_VALUE.fullmatch, values))


def _is_sound_on_fields(requirement: Requirement) -> bool:
    """Check operator and values. Source: nodeSelectorRequirementsAsFieldSelector."""
    return requirement.operator in ("In", "NotIn") and len(requirement.values) == 1
