"""The application: routes around one controller."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

import extender
from extender.board.board import Board
from extender.clock import Clock
from extender.control.controller import Controller
from extender.control.metrics import Metrics
from extender.service.dashboard.pages import add_dashboard, add_dashboard_off
from extender.service.defragmentation import add_defragmentation
from extender.service.demand import add_demand
from extender.service.gangs import add_gangs
from extender.service.openapi import add_verbs
from extender.service.overview import add_overview
from extender.service.queues import add_queues
from extender.service.snapshot import add_snapshot
from extender.service.stream import add_stream
from extender.service.verbs import VerbRoutes
from extender.service.whatif import add_whatif
from extender.settings import Settings


class _VerbApp(FastAPI):
    """An application with the verbs in front: what FastAPI does before it comes to a route costs more than an answer.

    They are among its routes nevertheless, so that everything but POST is answered as usual.
    """

    def __init__(self, verbs: Sequence[Route]) -> None:
        """Have the verbs, and nothing else yet."""
        super().__init__(
            title="Muster", version=extender.__version__, docs_url=None, redoc_url=None, routes=list(verbs)
        )
        self._verbs = {verb.path: verb.app for verb in verbs}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request: a verb directly, everything else by way of FastAPI."""
        verb = self._verbs.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        await (verb or super().__call__)(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        if self.openapi_schema is None:
            document = super().openapi()
            add_verbs(document)
        return super().openapi()


def create_app(
    controller: Controller, settings: Settings, metrics: Metrics, clock: Clock, board: Board | None = None
) -> FastAPI:
    """Build the application with everything: verbs, what people ask, the dashboard, health and metrics.

    Args:
        controller: answers the verbs; whoever calls this also runs it.
        settings: limits, and whether there is a dashboard.
        metrics: the registry that /metrics shows.
        clock: times the calls.
        board: what people see of the cluster; shared by all applications of one controller.
    """
    app = _VerbApp(VerbRoutes(controller, settings, metrics, clock).routes())
    _add_views(app, controller, settings, board or Board(controller, metrics, clock))
    add_defragmentation(app, controller)
    add_snapshot(app, controller)
    return _add_reads(app, controller, metrics)


def create_view_app(controller: Controller, settings: Settings, metrics: Metrics, board: Board) -> FastAPI:
    """Build the application that changes nothing: what people ask, the dashboard, health and metrics, but no verbs."""
    app = FastAPI(title="Muster", version=extender.__version__, docs_url=None, redoc_url=None)
    _add_views(app, controller, settings, board)
    return _add_reads(app, controller, metrics)


def create_read_app(controller: Controller, metrics: Metrics) -> FastAPI:
    """Build the application that tells nobody's names: health and metrics."""
    app = FastAPI(title="Muster", openapi_url=None)
    return _add_reads(app, controller, metrics)


def _add_views(app: FastAPI, controller: Controller, settings: Settings, board: Board) -> None:
    add_gangs(app, controller)
    add_demand(app, controller)
    add_queues(app, controller, controller.inspection.queues)
    add_whatif(app, controller, settings)
    add_overview(app, controller, board)
    add_stream(app, controller, board)
    if settings.dashboard:
        add_dashboard(app)
    else:
        add_dashboard_off(app)


def _add_reads(app: FastAPI, controller: Controller, metrics: Metrics) -> FastAPI:
    @app.get("/healthz", summary="Say that the process answers.", response_class=PlainTextResponse)
    async def healthz() -> Response:
        return Response("ok\n", media_type="text/plain")

    @app.get(
        "/readyz",
        summary="Say whether calls should be sent here, and if not, why.",
        response_class=PlainTextResponse,
        responses={503: {"description": "Not ready; one reason a line.", "content": {"text/plain": {}}}},
    )
    async def readyz() -> Response:
        if controller.ready:
            return Response(f"ok, {'leading' if controller.leading else 'standby'}\n", media_type="text/plain")
        reasons = controller.unready_because() or ["starting"]
        return Response("".join(f"{reason}\n" for reason in reasons), status_code=503, media_type="text/plain")

    @app.get("/metrics", summary="Show the Prometheus metrics.", response_class=PlainTextResponse)
    async def show_metrics() -> Response:
        for _ in controller.scrape_in_steps():
            await asyncio.sleep(0)
        return Response(generate_latest(metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return app
