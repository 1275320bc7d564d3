"""What people ask about one gang: how it stands and why, as JSON and as a picture.

State is collected in one go, which takes milliseconds for the largest gangs and clusters. What is made of it is made in
a thread, so that the verbs do not wait for people.
"""

from __future__ import annotations

import asyncio
import re

from fastapi import FastAPI, HTTPException, Response

from extender.admission.defragment import Defragmentation
from extender.control.controller import Controller
from extender.control.explanation import Explanation, explanation_json, headline, remarks
from extender.control.health import DegradedError
from extender.domain.membership import GroupRef
from extender.drawing.survey import Survey, draw
from extender.drawing.svg import render
from extender.service.readiness import ERROR_SCHEMA, NOT_READ_YET, UNAVAILABLE, require_ready
from extender.wire.codec import encode

#: What a namespace may be called, and what a gang: the name of an object, or the value of a label.
#: Source: k8s.io/apimachinery/pkg/api/validate/content.
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_GANG = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?", re.ASCII)

_BAD_REQUEST, _NOT_FOUND = 400, 404
_FAILURES = {
    _BAD_REQUEST: "What cannot be the name of a namespace or gang; `detail` quotes it.",
    _NOT_FOUND: "There is no such gang; `detail` says what to look at.",
    UNAVAILABLE: NOT_READ_YET,
}
_RESPONSES: dict[int | str, dict[str, object]] = {
    status: {"description": text, "content": {"application/json": {"schema": ERROR_SCHEMA}}}
    for status, text in _FAILURES.items()
}
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
#: A picture runs nothing and loads nothing, whatever its texts are.
_SVG_HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'", "Cache-Control": "no-store"}


def add_gangs(app: FastAPI, controller: Controller) -> None:
    """Add the reads about gangs to an application."""

    @app.get(
        "/api/v1/gangs/{namespace}/{name}/explain",
        summary="Say how a gang stands: why it waits, or what is predicted of where it is.",
        response_class=Response,
        responses={**_RESPONSES, 200: {"content": {"application/json": {"schema": {"type": "object"}}}}},
    )
    async def explain(namespace: str, name: str) -> Response:
        explained = controller.inspection.explain(_ref(controller, namespace, name))
        body = await asyncio.to_thread(lambda: encode(explanation_json(explained)))
        return Response(body, media_type="application/json")

    @app.get(
        "/api/v1/gangs/{namespace}/{name}/picture.svg",
        summary="Draw the cluster with a gang on it.",
        response_class=Response,
        responses={**_RESPONSES, 200: {"content": {"image/svg+xml": {"schema": {"type": "string"}}}}},
    )
    async def picture(namespace: str, name: str) -> Response:
        ref = _ref(controller, namespace, name)
        explained, survey = controller.inspection.explain(ref), controller.inspection.survey(ref)
        body = await asyncio.to_thread(_draw, explained, survey)
        return Response(body, media_type="image/svg+xml", headers=_SVG_HEADERS)

    async def defrag(namespace: str, name: str, *, apply: bool) -> Response:
        ref = _ref(controller, namespace, name)
        try:
            found = controller.defragment(ref, apply=apply)
        except DegradedError as error:
            raise HTTPException(UNAVAILABLE, str(error)) from error
        return Response(encode(defragmentation_json(found)), media_type="application/json")

    @app.get(
        "/api/v1/gangs/{namespace}/{name}/defrag",
        summary="Say which moves of preemptible gangs would make a waiting gang fit.",
        response_class=Response,
        responses={**_RESPONSES, 200: {"content": {"application/json": {"schema": _DEFRAG}}}},
    )
    async def plan_defrag(namespace: str, name: str) -> Response:
        return await defrag(namespace, name, apply=False)

    @app.post(
        "/api/v1/gangs/{namespace}/{name}/defrag",
        summary="Evict what has to move for a waiting gang to fit, within PodDisruptionBudgets.",
        response_class=Response,
        responses={**_RESPONSES, 200: {"content": {"application/json": {"schema": _DEFRAG}}}},
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


def _ref(controller: Controller, namespace: str, name: str) -> GroupRef:
    """Return the gang of that name; raise HTTPException if there cannot be one, there is none, or nobody knows yet."""
    for what, text, pattern in (("namespace", namespace, _NAMESPACE), ("gang", name, _GANG)):
        if pattern.fullmatch(text) is None:
            raise HTTPException(_BAD_REQUEST, f"{text[:100]!r} cannot be the name of a {what}")
    require_ready(controller)
    ref = controller.inspection.find(namespace, name)
    if ref is None:
        raise HTTPException(
            _NOT_FOUND, f"no gang {namespace}/{name}: neither a PodGroup nor a pod of that name's gang is there"
        )
    return ref


def _draw(explained: Explanation, survey: Survey) -> str:
    name = str(explained.view.ref)
    return render(draw(survey, name, f"{name}: {headline(explained)}", remarks(explained)))
