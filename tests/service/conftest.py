"""The application around a running controller, called in process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from extender.service.app import create_app, create_read_app, create_view_app
from extender.service.board.board import Board
from extender.service.stream import Stream
from extender.settings import Settings
from muster_lab.simulation.virtual_time import LoopClock
from tests.control.conftest import Muster, muster, term

__all__ = ["muster", "term"]


@pytest.fixture
def settings() -> Settings:
    """Return settings with a small body limit."""
    return Settings(body_limit_bytes=100_000, observe_wait_seconds=0)


@pytest.fixture
async def http(muster: Muster) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of the whole application."""
    app = create_app(muster.controller, muster.settings, muster.metrics, LoopClock(asyncio.get_running_loop()))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://muster") as client:
        yield client


@pytest.fixture
async def view_http(muster: Muster) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of the application for people."""
    stream = Stream(Board(muster.controller, muster.metrics, LoopClock(asyncio.get_running_loop())))
    app = create_view_app(muster.controller, muster.settings, muster.metrics, stream)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://muster") as client:
        yield client


@pytest.fixture
async def read_http(muster: Muster) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of the application without verbs."""
    app = create_read_app(muster.controller, muster.metrics)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://muster") as client:
        yield client


def pod_body(name: str, gpus: int = 8, gang: str | None = None, **status: object) -> dict[str, Any]:
    """Return a pod as kube-scheduler sends it."""
    labels = {"scheduling.x-k8s.io/pod-group": gang} if gang else None
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"{name}-uid", "labels": labels},
        "spec": {
            "schedulerName": "muster",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": str(gpus)}}}],
            "initContainers": None,
        },
        "status": status or None,
    }
