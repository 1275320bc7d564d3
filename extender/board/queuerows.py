"""How each Queue stands, as a row of a list."""

from __future__ import annotations

from extender.admission.queueview import QueueView
from extender.board.document import Json


def queue_row(view: QueueView) -> Json:
    """Return how a queue stands as plain values, under the names of its status."""
    return {
        "name": view.name,
        "parent": view.parent,
        "active": view.active,
        "reason": view.reason,
        "message": view.message,
        "share": view.share,
        "pendingGangs": view.pending,
        "admittedGangs": view.admitted,
        "flavors": [
            {
                "name": use.flavor,
                "resource": use.resource,
                "nominal": use.nominal,
                "used": use.used,
                "borrowed": use.borrowed,
                "lent": use.lent,
            }
            for use in view.flavors
        ],
    }
