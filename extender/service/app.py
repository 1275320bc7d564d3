"""The application: routes around one controller."""

from __future__ import annotations

from fastapi import FastAPI, Response
from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

import extender
from extender.clock import Clock
from extender.control.controller import Controller
from extender.control.metrics import Metrics
from extender.service.verbs import VerbRoutes
from extender.settings import Settings


def create_app(controller: Controller, settings: Settings, metrics: Metrics, clock: Clock) -> FastAPI:
    """Build the application with everything: verbs, health and metrics. It holds no state of its own.

    Args:
        controller: answers the verbs; whoever calls this also runs it.
        settings: limits.
        metrics: the registry that /metrics shows.
        clock: times the calls.
    """
    app = create_read_app(controller, metrics)
    app.include_router(VerbRoutes(controller, settings, metrics, clock).router())
    return app


def create_read_app(controller: Controller, metrics: Metrics) -> FastAPI:
    """Build the application without the verbs, fit to be reached from other machines: health and metrics."""
    app = FastAPI(title="Muster", version=extender.__version__, docs_url=None, redoc_url=None)

    @app.get("/healthz", summary="Say that the process answers.")
    async def healthz() -> Response:
        return Response("ok\n", media_type="text/plain")

    @app.get("/readyz", summary="Say whether calls should be sent here, and if not, why.")
    async def readyz() -> Response:
        if controller.ready:
            return Response("ok\n", media_type="text/plain")
        reasons = controller.unready_because() or ["starting"]
        return Response("".join(f"{reason}\n" for reason in reasons), status_code=503, media_type="text/plain")

    @app.get("/metrics", summary="Show the Prometheus metrics.")
    async def show_metrics() -> Response:
        controller.scrape()
        return Response(generate_latest(metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return app
