"""The watched kinds that say who shares the cluster and how: Queues, namespaces, and what protects running pods."""

from __future__ import annotations

from typing import Any

from extender.control.observer import Observer
from extender.control.ports import Kind
from extender.domain.budget import read_budget
from extender.domain.labels import share_labels
from extender.domain.queue import read_queue
from extender.kube.watch import Feed
from extender.wire import codec
from extender.wire.api import MetadataOnly
from extender.wire.kubernetes import ObjectMeta
from extender.wire.policy import PodDisruptionBudget
from extender.wire.queue import Queue


def sharing_feeds(observer: Observer) -> tuple[Feed[Any], ...]:
    """Return what to watch of sharing, told to `observer`."""
    return (_namespaces(observer), _queues(observer), _disruption_budgets(observer))


def _queues(observer: Observer) -> Feed[Queue]:
    return Feed(
        kind=Kind.QUEUE,
        path="/apis/muster.dev/v1alpha1/queues",
        decode=codec.decode_queue,
        seen=lambda queue: observer.queue_seen(read_queue(queue)),
        gone=lambda who: observer.queue_gone(who.name),
        optional=True,
    )


def _namespaces(observer: Observer) -> Feed[MetadataOnly]:
    """Read the labels alone, which say whose queues a namespace's gangs may be in."""

    def seen(namespace: MetadataOnly) -> None:
        meta = namespace.metadata or ObjectMeta()
        observer.namespace_seen(meta.name or "", share_labels(meta.labels or {}))

    return Feed(
        kind=Kind.NAMESPACE,
        path="/api/v1/namespaces",
        decode=codec.decode_metadata,
        seen=seen,
        gone=lambda who: observer.namespace_gone(who.name),
    )


def _disruption_budgets(observer: Observer) -> Feed[PodDisruptionBudget]:
    return Feed(
        kind=Kind.DISRUPTION_BUDGET,
        path="/apis/policy/v1/poddisruptionbudgets",
        decode=codec.decode_disruption_budget,
        seen=lambda budget: observer.budget_seen(read_budget(budget)),
        gone=lambda who: observer.budget_gone(who.namespace, who.name),
        optional=True,
    )
