"""The status of Queues."""

from __future__ import annotations

from extender.clock import Clock
from extender.control.ports import QueueStatus, QueueUsage
from extender.domain.quantity import format_amount
from extender.domain.queue import format_usage
from extender.kube.api import ApiServer, JsonObject
from extender.kube.statuspatch import Conditions, StatusPatcher, Target, with_condition

_QUEUES = "/apis/muster.dev/v1alpha1/queues"
_ACTIVE = "Active"


class QueueStatusWriter:
    """Write what Queues' gangs use and whether the Queues can be used, conditions of others left as they are."""

    def __init__(self, api: ApiServer, clock: Clock) -> None:
        """Remember nothing yet; `clock` tells when a condition changed."""
        self._patcher = StatusPatcher(api)
        self._clock = clock

    async def write(self, name: str, uid: str, status: QueueStatus) -> None:
        """Write a status: one request if nobody else has changed the Queue since the last one.

        Raises ApiError with status 404 if there is no such Queue, with 409 if it is another one by now.
        """
        target = Target(f"Queue {name}", _QUEUES, name, uid)
        await self._patcher.write(target, lambda known: self._body(known, status))

    def _body(self, known: Conditions, status: QueueStatus) -> JsonObject:
        active = {
            "type": _ACTIVE,
            "status": "True" if status.active else "False",
            "reason": status.reason,
            "message": status.message,
            "observedGeneration": status.observed_generation,
        }
        return {
            "flavors": _flavors(status.usage),
            "share": f"{status.share:.6g}",
            "pendingGangs": status.pending_gangs,
            "admittedGangs": status.admitted_gangs,
            "history": [{"resource": name, "usage": format_usage(name, usage)} for name, usage in status.history],
            "historyAt": status.history_at or None,
            "observedGeneration": status.observed_generation,
            "conditions": with_condition(known, active, self._clock),
        }


def _flavors(usage: tuple[QueueUsage, ...]) -> list[JsonObject]:
    """Return the amounts, as quantities, by flavor in order of first mention."""
    flavors: dict[str, list[JsonObject]] = {}
    for each in usage:
        amounts = {"used": each.used, "borrowed": each.borrowed, "lent": each.lent, "nominal": each.nominal}
        quantities = {name: format_amount(each.resource, amount) for name, amount in amounts.items()}
        flavors.setdefault(each.flavor, []).append({"name": each.resource, **quantities})
    return [{"name": name, "resources": resources} for name, resources in flavors.items()]
