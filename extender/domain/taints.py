"""Taints and tolerations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from extender.domain.integer import parse_integer
from extender.wire import kubernetes as wire

#: Effects that keep a new pod away; PreferNoSchedule only lowers a score. Source: TaintToleration's Filter.
_HARD_EFFECTS = frozenset({"NoSchedule", "NoExecute"})


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint that keeps pods off a node."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod's permission to run on tainted nodes.

    An empty key stands for every key, an empty effect for every effect, an empty operator for `Equal`; `Lt` and `Gt`
    compare integers (KEP-5471). Source: k8s.io/api/core/v1 Toleration.ToleratesTaint.
    """

    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, taint: Taint) -> bool:
        """Tell whether this toleration covers `taint`."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        match self.operator:
            case "" | "Equal":
                return self.value == taint.value
            case "Exists":
                return True
            case "Lt" | "Gt":
                return self._compares(taint.value)
            case _:
                return False

    def _compares(self, value: str) -> bool:
        """Compare as integers; what is no integer is not tolerated."""
        taint, bound = parse_integer(value), parse_integer(self.value)
        if taint is None or bound is None:
            return False
        return taint < bound if self.operator == "Lt" else taint > bound


def read_taints(taints: list[wire.Taint] | None) -> tuple[Taint, ...]:
    """Read the taints that keep pods away; the others are left out."""
    return tuple(
        Taint(key=t.key or "", value=t.value or "", effect=t.effect or "")
        for t in taints or ()
        if t.effect in _HARD_EFFECTS
    )


def read_tolerations(tolerations: list[wire.Toleration] | None) -> tuple[Toleration, ...]:
    """Read a pod's tolerations."""
    return tuple(
        Toleration(key=t.key or "", operator=t.operator or "", value=t.value or "", effect=t.effect or "")
        for t in tolerations or ()
    )


def first_untolerated(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """Return the first taint that no toleration covers, or None if the pod may go there."""
    for taint in taints:
        if not any(toleration.tolerates(taint) for toleration in tolerations):
            return taint
    return None
