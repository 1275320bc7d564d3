"""The status of a Queue as its object says it."""

from __future__ import annotations

from itertools import groupby

from extender.control.ports import QueueStatus, QueueUsage
from extender.domain.quantity import format_amount
from extender.domain.queue import format_usage
from extender.simulation.objects import Json


def queue_status_json(status: QueueStatus) -> Json:
    """Return the fields of a Queue's status, without its conditions."""
    by_flavor = groupby(status.usage, key=lambda usage: usage.flavor)
    json: Json = {
        "flavors": [
            {"name": name, "resources": [_usage_json(usage) for usage in usages]} for name, usages in by_flavor
        ],
        "share": f"{status.share:.6g}",
        "pendingGangs": status.pending_gangs,
        "admittedGangs": status.admitted_gangs,
        "history": [{"resource": name, "usage": format_usage(name, usage)} for name, usage in status.history],
        "observedGeneration": status.observed_generation,
    }
    return {**json, "historyAt": status.history_at} if status.history_at else json


def _usage_json(usage: QueueUsage) -> Json:
    amounts = {"used": usage.used, "borrowed": usage.borrowed, "lent": usage.lent, "nominal": usage.nominal}
    return {"name": usage.resource, **{key: format_amount(usage.resource, each) for key, each in amounts.items()}}
