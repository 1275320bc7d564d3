"""The applications: each a list of routes around one controller, composed once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Response
from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

import extender
from extender.clock import Clock
from extender.control.controller import Controller
from extender.control.metrics import Metrics
from extender.kube.reviews import Reviews
from extender.service.access import AccessGuard
from extender.service.board.board import Board
from extender.service.dashboard.pages import dashboard_routes
from extender.service.gangs import GangRoutes, WhatIfRoutes
from extender.service.history import HistoryRoutes
from extender.service.overview import OverviewRoutes
from extender.service.routes import TEXT, UNAVAILABLE, ApiRoute, describe
from extender.service.snapshot import snapshot_routes
from extender.service.stream import Stream, stream_routes
from extender.service.verbs import VerbRoutes
from extender.settings import Settings


class Application(FastAPI):
    """Routes as an application."""

    def __init__(self, routes: Sequence[BaseRoute], *, described: bool = True) -> None:
        """Serve `routes`, and at /openapi.json what they are unless `described` is false."""
        super().__init__(
            title="Muster",
            version=extender.__version__,
            docs_url=None,
            redoc_url=None,
            openapi_url="/openapi.json" if described else None,
            routes=list(routes),
        )

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        if self.openapi_schema is None:
            describe(super().openapi(), self.routes)
        return super().openapi()


class VerbApplication(Application):
    """An application with the verbs in front: what FastAPI does before it comes to a route costs more than one.

    The verbs are among its routes nevertheless, so that everything but POST is answered as usual.
    """

    def __init__(self, routes: Sequence[BaseRoute], verbs: Sequence[Route]) -> None:
        super().__init__([*verbs, *routes])
        self._verbs = {verb.path: verb.app for verb in verbs}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request: a verb directly, everything else by way of FastAPI."""
        verb = self._verbs.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        await (verb or super().__call__)(scope, receive, send)


def create_app(
    controller: Controller, settings: Settings, metrics: Metrics, clock: Clock, stream: Stream | None = None
) -> Application:
    """Build the application with everything: verbs, what people ask, the dashboard, health and metrics.

    Args:
        controller: answers the verbs; the caller also runs it.
        settings: limits, and whether there is a dashboard.
        metrics: the registry that /metrics shows.
        clock: times the calls.
        stream: what people see of the cluster; shared by all applications of one controller.
    """
    stream = stream or Stream(Board(controller, metrics, clock))
    routes = [
        *_views(controller, settings, stream),
        *GangRoutes(controller).moves(),
        *snapshot_routes(controller),
        *_reads(controller, metrics),
    ]
    return _streaming(VerbApplication(routes, VerbRoutes(controller, settings, metrics, clock).routes()), stream)


def create_view_app(
    controller: Controller, settings: Settings, metrics: Metrics, stream: Stream, reviews: Reviews | None = None
) -> ASGIApp:
    """Build the application that changes nothing: what people ask, the dashboard, health and metrics, but no verbs.

    With `reviews` it asks who calls, and answers each caller as far as they may see.
    """
    app = _streaming(Application([*_views(controller, settings, stream), *_reads(controller, metrics)]), stream)
    if reviews is None:
        return app
    return AccessGuard(app, controller, stream, reviews, anonymous=settings.anonymous_reads)


def create_read_app(controller: Controller, metrics: Metrics) -> Application:
    """Build the application that tells no names: health and metrics."""
    return Application(_reads(controller, metrics), described=False)


def _views(controller: Controller, settings: Settings, stream: Stream) -> list[BaseRoute]:
    """Return the routes of what people ask, and of the dashboard."""
    return [
        *GangRoutes(controller).reads(),
        *WhatIfRoutes(controller, settings).routes(),
        *OverviewRoutes(controller, stream.board).routes(),
        *HistoryRoutes(controller).routes(),
        *stream_routes(controller, stream),
        *dashboard_routes(shown=settings.dashboard),
    ]


def _streaming(app: Application, stream: Stream) -> Application:
    app.state.stream = stream  # for `hang_up`
    return app


def _reads(controller: Controller, metrics: Metrics) -> list[BaseRoute]:
    """Return the routes of health and metrics."""

    async def healthz() -> Response:
        return Response("ok\n", media_type="text/plain")

    async def readyz() -> Response:
        if controller.health.ready:
            return Response(f"ok, {'leading' if controller.leading else 'standby'}\n", media_type="text/plain")
        reasons = controller.health.unready_because() or ["starting"]
        return Response("".join(f"{reason}\n" for reason in reasons), status_code=UNAVAILABLE, media_type="text/plain")

    async def show_metrics() -> Response:
        for _ in controller.scrape_in_steps():
            await asyncio.sleep(0)
        page = await asyncio.to_thread(generate_latest, metrics.registry)
        return Response(page, headers={"Content-Type": CONTENT_TYPE_LATEST})

    return [
        ApiRoute("/healthz", healthz, "Say that the process answers.", answers=TEXT),
        ApiRoute(
            "/readyz",
            readyz,
            "Say whether calls should be sent here, and if not, why.",
            answers=TEXT,
            fails={UNAVAILABLE: "Not ready; one reason a line."},
            failing=TEXT,
        ),
        ApiRoute("/metrics", show_metrics, "Show the Prometheus metrics.", answers=TEXT),
    ]
