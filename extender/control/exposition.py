"""The gauges that are read off the state when `/metrics` is asked."""

from __future__ import annotations

from collections.abc import Sequence

from extender.admission.admission import Admission
from extender.control.metrics import Metrics
from extender.control.views import GangView


def expose(metrics: Metrics, admission: Admission, gangs: Sequence[GangView]) -> None:
    """Set the gauges about gangs, reservations and vetoes."""
    for gauge in (metrics.gangs, metrics.gangs_waiting, metrics.reserved):
        gauge.clear()
    for seen in gangs:
        if seen.managed:
            metrics.gangs.labels(seen.phase).inc()
            if seen.wait is not None:
                metrics.gangs_waiting.labels(seen.wait.reason).inc()
    ledger = admission.reservations.ledger
    promised = [slot for reservation in ledger for slot in reservation.slots.values()]
    for slot in (*promised, *ledger.singles()):
        for resource, value in slot.pod.shape.requests:
            metrics.reserved.labels(resource).inc(value)
    metrics.vetoes.set(len(admission.vetoes))
