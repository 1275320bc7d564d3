"""Slim structs of Muster's own Queue. Same rules as in `extender.wire.kubernetes`."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from extender.wire.kubernetes import Int32, ObjectMeta
from extender.wire.topology import LabelSelector

Quantity: TypeAlias = str | int | float
"""A quantity as written by the API server (a string) or by people (a bare number)."""


class ResourceQuota(Struct, gc=False, frozen=True, rename="camel"):
    """What a queue has of one resource in one flavor."""

    name: str | None = None
    nominal_quota: Quantity | None = None
    borrowing_limit: Quantity | None = None
    lending_limit: Quantity | None = None


class FlavorQuotas(Struct, gc=False, frozen=True, rename="camel"):
    """What a queue has in one flavor, and which nodes the flavor is."""

    name: str | None = None
    node_selector: dict[str, str] | None = None
    resources: list[ResourceQuota] | None = None


class BorrowWithinCohort(Struct, gc=False, frozen=True, rename="camel"):
    """Whether a queue may preempt others while it borrows."""

    policy: str | None = None
    max_priority_threshold: Int32 | None = None


class QueuePreemption(Struct, gc=False, frozen=True, rename="camel"):
    """Whom a queue's gangs may evict, and how its own are protected; durations as Go writes them."""

    within_queue: str | None = None
    reclaim_within_cohort: str | None = None
    borrow_within_cohort: BorrowWithinCohort | None = None
    min_runtime: str | None = None
    grace: str | None = None


class QueueSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Spec of a Queue."""

    parent: str | None = None
    flavors: list[FlavorQuotas] | None = None
    weight: Quantity | None = None
    priority: Int32 | None = None
    namespace_selector: LabelSelector | None = None
    default: bool | None = None
    queueing_strategy: str | None = None
    preemption: QueuePreemption | None = None
    max_running_gangs: Int32 | None = None
    stop_policy: str | None = None


class PastUsage(Struct, gc=False, frozen=True):
    """The decayed mean usage of one resource, as a quantity."""

    resource: str | None = None
    usage: Quantity | None = None


class QueueStatus(Struct, gc=False, frozen=True, rename="camel"):
    """The part of a Queue's status that is read again: what only Muster itself remembered."""

    history: list[PastUsage] | None = None
    history_at: str | None = None


class Queue(Struct, gc=False, frozen=True):
    """A `muster.dev/v1alpha1` Queue."""

    metadata: ObjectMeta | None = None
    spec: QueueSpec | None = None
    status: QueueStatus | None = None
