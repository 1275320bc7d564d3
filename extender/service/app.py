"""The application: routes around one controller."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

import extender
from extender.clock import Clock
from extender.control.controller import Controller
from extender.control.metrics import Metrics
from extender.service.openapi import add_verbs
from extender.service.verbs import VerbRoutes
from extender.settings import Settings


class _VerbApp(FastAPI):
    """An application whose OpenAPI document has the verbs, which are no routes of FastAPI's."""

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        if self.openapi_schema is None:
            document = super().openapi()
            add_verbs(document)
        return super().openapi()


def create_app(controller: Controller, settings: Settings, metrics: Metrics, clock: Clock) -> FastAPI:
    """Build the application with everything: verbs, health and metrics. It holds no state of its own.

    Args:
        controller: answers the verbs; whoever calls this also runs it.
        settings: limits.
        metrics: the registry that /metrics shows.
        clock: times the calls.
    """
    app = _VerbApp(title="Muster", version=extender.__version__, docs_url=None, redoc_url=None)
    app.router.routes.extend(VerbRoutes(controller, settings, metrics, clock).routes())
    return _add_reads(app, controller, metrics)


def create_read_app(controller: Controller, metrics: Metrics) -> FastAPI:
    """Build the application without the verbs, fit to be reached from other machines: health and metrics."""
    app = FastAPI(title="Muster", openapi_url=None)
    return _add_reads(app, controller, metrics)


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
        controller.scrape()
        return Response(generate_latest(metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return app
