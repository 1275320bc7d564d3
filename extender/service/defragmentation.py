"""Moving gangs so that another fits: which moves it takes, and having them made."""

from __future__ import annotations

from fastapi import FastAPI, HTTPException, Response

from extender.admission.defragment import Defragmentation
from extender.control.controller import Controller
from extender.control.health import DegradedError
from extender.service.gangnames import GANG_FAILURES, find_gang
from extender.service.readiness import UNAVAILABLE
from extender.wire.codec import encode

_NAMES = {"type": "array", "items": {"type": "string"}}
_MOVE = {
    "type": "object",
    "properties": {"gang": {"type": "string"}, "pods": {"type": "integer"}, "from": _NAMES, "to": _NAMES},
}
_DEFRAG = {
    "type": "object",
    "properties": {
        "fits": {"type": "boolean"},
        "moves": {"type": "array", "items": _MOVE},
        "reason": {"type": "string"},
    },
}


def add_defragmentation(app: FastAPI, controller: Controller) -> None:
    """Add the question about moves, and the order to make them, to an application."""

    async def defrag(namespace: str, name: str, *, apply: bool) -> Response:
        ref = find_gang(controller, namespace, name)
        try:
            found = controller.defragment(ref, apply=apply)
        except DegradedError as error:
            raise HTTPException(UNAVAILABLE, str(error)) from error
        return Response(encode(defragmentation_json(found)), media_type="application/json")

    @app.get(
        "/api/v1/gangs/{namespace}/{name}/defrag",
        summary="Say which moves of preemptible gangs would make a waiting gang fit.",
        response_class=Response,
        responses={**GANG_FAILURES, 200: {"content": {"application/json": {"schema": _DEFRAG}}}},
    )
    async def plan_defrag(namespace: str, name: str) -> Response:
        return await defrag(namespace, name, apply=False)

    @app.post(
        "/api/v1/gangs/{namespace}/{name}/defrag",
        summary="Evict what has to move for a waiting gang to fit, within PodDisruptionBudgets.",
        response_class=Response,
        responses={**GANG_FAILURES, 200: {"content": {"application/json": {"schema": _DEFRAG}}}},
    )
    async def apply_defrag(namespace: str, name: str) -> Response:
        return await defrag(namespace, name, apply=True)


def defragmentation_json(found: Defragmentation) -> dict[str, object]:
    """Return moves as plain values."""
    moves = [
        {"gang": move.name, "pods": move.pods, "from": list(move.origins), "to": list(move.targets)}
        for move in found.moves
    ]
    return {"fits": found.fits, "moves": moves, "reason": found.reason}
