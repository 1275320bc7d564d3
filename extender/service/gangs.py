"""What people ask about one gang: how it stands and why, as JSON and as a picture.

State is copied in one go, in well under a millisecond. What is made of it is made in a thread, so that the verbs do not
wait for people.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import FastAPI, Query, Response

from extender.control.controller import Controller
from extender.control.explanation import Explanation, explanation_json, headline, remarks
from extender.control.inspection import explain_further
from extender.domain.membership import GroupRef
from extender.drawing.survey import Survey, draw
from extender.drawing.svg import render
from extender.service.explanations import EXPLANATION
from extender.service.gangnames import GANG_FAILURES, find_gang
from extender.wire.codec import encode

#: A picture runs nothing and loads nothing, whatever its texts are.
_SVG_HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'", "Cache-Control": "no-store"}

_Suggestions = Annotated[
    bool,
    Query(description="Search for the smallest changes with which the gang would start; takes longer than all else."),
]


def add_gangs(app: FastAPI, controller: Controller) -> None:
    """Add the reads about gangs to an application."""

    @app.get(
        "/api/v1/gangs/{namespace}/{name}/explain",
        summary="Say how a gang stands: why it waits, or what is predicted of where it is.",
        response_class=Response,
        responses={**GANG_FAILURES, 200: {"content": {"application/json": {"schema": EXPLANATION}}}},
    )
    async def explain(namespace: str, name: str, *, suggestions: _Suggestions = False) -> Response:
        ref = find_gang(controller, namespace, name)
        explained = await explained_gang(controller, ref, suggesting=suggestions)
        body = await asyncio.to_thread(lambda: encode(explanation_json(explained)))
        return Response(body, media_type="application/json")

    @app.get(
        "/api/v1/gangs/{namespace}/{name}/picture.svg",
        summary="Draw the cluster with a gang on it.",
        response_class=Response,
        responses={**GANG_FAILURES, 200: {"content": {"image/svg+xml": {"schema": {"type": "string"}}}}},
    )
    async def picture(namespace: str, name: str) -> Response:
        ref = find_gang(controller, namespace, name)
        survey = controller.inspection.survey(ref)
        explained = await explained_gang(controller, ref, suggesting=False)
        body = await asyncio.to_thread(_draw, explained, survey)
        return Response(body, media_type="image/svg+xml", headers=_SVG_HEADERS)


async def explained_gang(controller: Controller, ref: GroupRef, *, suggesting: bool) -> Explanation:
    """Return how a gang stands, worked out beside the event loop; raise KeyError if there is none."""
    # Whoever has the copies last frees them, which takes milliseconds too: the thread.
    box = [controller.inspection.collect(ref, suggesting=suggesting)]
    return controller.inspection.complete(await asyncio.to_thread(lambda: explain_further(box.pop())))


def _draw(explained: Explanation, survey: Survey) -> str:
    name = str(explained.view.ref)
    return render(draw(survey, name, f"{name}: {headline(explained)}", remarks(explained)))
