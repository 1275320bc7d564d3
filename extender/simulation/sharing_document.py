"""The grammar of what a scenario says of sharing: Queues, written as their CRD has them, and namespaces."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from extender.simulation.duration import DurationError, parse_duration, write_duration
from extender.simulation.object_document import LabelMatchDocument
from extender.simulation.scenario_document import Document, LabelName, Name, Priority, Quantity, Whole, refuse, resource


def _duration(value: object) -> str:
    """Check a duration, and write it as Kubernetes does."""
    try:
        return write_duration(parse_duration(value))
    except DurationError as error:
        raise refuse(str(error)) from error


def _number_or_quantity(value: object) -> float | str:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise refuse(f"'{value}' is not a number")
    return value


DurationText = Annotated[str, BeforeValidator(_duration)]
Weight = Annotated[float | str, BeforeValidator(_number_or_quantity)]


class QuotaDocument(Document):
    """How much of a resource a queue has."""

    name: Annotated[str, BeforeValidator(resource)]
    nominal_quota: Quantity
    borrowing_limit: Quantity | None = None
    lending_limit: Quantity | None = None


class FlavorDocument(Document):
    """Quota on some of the nodes: those with the labels of `nodeSelector`."""

    name: Name
    node_selector: dict[str, str] | None = None
    resources: list[QuotaDocument] = Field(default_factory=list)


class BorrowWithinCohortDocument(Document):
    """Whether a queue may preempt in others while it borrows."""

    policy: Literal["Never", "LowerPriority"] | None = None
    max_priority_threshold: Priority | None = None


class PreemptionDocument(Document):
    """Who gives way to a queue's gangs, and how its own are protected."""

    within_queue: Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"] | None = None
    reclaim_within_cohort: Literal["Never", "LowerPriority", "Any"] | None = None
    borrow_within_cohort: BorrowWithinCohortDocument | None = None
    min_runtime: DurationText | None = None
    grace: DurationText | None = None


class QueueSpecDocument(Document):
    """The spec of a Queue."""

    parent: Name | None = None
    flavors: list[FlavorDocument] | None = None
    weight: Weight | None = None
    priority: Priority | None = None
    namespace_selector: LabelMatchDocument | None = None
    default: bool | None = None
    queueing_strategy: Literal["StrictFIFO", "BestEffortFIFO"] | None = None
    preemption: PreemptionDocument | None = None
    max_running_gangs: Whole | None = None
    stop_policy: Literal["None", "Hold", "HoldAndDrain"] | None = None


class QueueDocument(QueueSpecDocument):
    """A Queue: its name, and its spec beside it."""

    name: Name


class NamespaceDocument(Document):
    """A namespace that has labels."""

    name: LabelName
    labels: dict[str, str] = Field(default_factory=dict)
