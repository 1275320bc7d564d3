"""Slim structs of `policy/v1`. Same rules as in `extender.wire.kubernetes`."""

from __future__ import annotations

from msgspec import Struct

from extender.wire.kubernetes import Int32, Int64, ObjectMeta
from extender.wire.topology import LabelSelector


class DisruptionBudgetSpec(Struct, gc=False, frozen=True):
    """Which pods a budget is about; how many of them must stay, its controller has worked out."""

    selector: LabelSelector | None = None


class DisruptionBudgetStatus(Struct, gc=False, frozen=True, rename="camel"):
    """How many evictions the budget's controller allows, and for which generation of the spec it found that out."""

    disruptions_allowed: Int32 | None = None
    observed_generation: Int64 | None = None


class PodDisruptionBudget(Struct, gc=False, frozen=True):
    """A PodDisruptionBudget."""

    metadata: ObjectMeta | None = None
    spec: DisruptionBudgetSpec | None = None
    status: DisruptionBudgetStatus | None = None
