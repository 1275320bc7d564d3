"""Label selectors, by which objects pick pods and namespaces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from extender.domain.reason import Problem, quoted
from extender.domain.selectors import Requirement
from extender.wire import topology as wire

_WITH_VALUES = frozenset({"In", "NotIn"})
_WITHOUT_VALUES = frozenset({"Exists", "DoesNotExist"})


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A metav1.LabelSelector: all its requirements must hold, and without any it picks everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether it picks an object with `labels`."""
        return all(requirement.matches(labels) for requirement in self.requirements)


def read_label_selector(selector: wire.LabelSelector, where: str) -> LabelSelector | Problem:
    """Read a selector, or say which field below `where` the API server's own rules refuse.

    Source: apimachinery/pkg/apis/meta/v1 LabelSelectorAsSelector.
    """
    requirements = [Requirement(key, "In", (value,)) for key, value in (selector.match_labels or {}).items()]
    for index, each in enumerate(selector.match_expressions or ()):
        key, operator, values = each.key or "", each.operator or "", tuple(each.values or ())
        field = f"{where}.matchExpressions[{index}]"
        if not key:
            return Problem(f"{field}.key", "is missing")
        if operator not in _WITH_VALUES | _WITHOUT_VALUES:
            known = ", ".join(sorted(_WITH_VALUES | _WITHOUT_VALUES))
            return Problem(f"{field}.operator", f"{quoted(operator)} is none of {known}")
        if bool(values) != (operator in _WITH_VALUES):
            return Problem(f"{field}.values", f"must {'not be empty' if not values else 'be empty'} with {operator}")
        requirements.append(Requirement(key, operator, values))
    return LabelSelector(tuple(requirements))
