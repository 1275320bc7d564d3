"""The application against its own OpenAPI document, over HTTP, by schemathesis."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.specs.openapi.schemas import OpenApiSchema

from tests.fuzz.subject import SETTINGS, running
from tests.patience import HANGS
from tests.service.serving import served

VERBS = ("filter", "prioritize", "bind", "preempt")
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def document() -> Iterator[OpenApiSchema]:
    """Serve a Muster from a thread, for schemathesis calls synchronously, and return its OpenAPI document."""
    ports: list[int] = []
    listening = threading.Event()
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        async with running() as subject, served(SETTINGS, app=subject.app) as service:
            ports.append(service.port)
            loops.append((asyncio.get_running_loop(), asyncio.Event()))
            listening.set()
            await loops[0][1].wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert listening.wait(HANGS)
    yield schemathesis.openapi.from_url(f"http://127.0.0.1:{ports[0]}/openapi.json")
    loop, done = loops[0]
    loop.call_soon_threadsafe(done.set)
    thread.join()


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("path", [f"/v1/{verb}" for verb in VERBS])
def test_answers_are_as_documented(document: OpenApiSchema, path: str, mode: GenerationMode) -> None:
    """Whatever the schema allows, and what it does not, is answered with a documented status and form."""
    statuses: set[int] = set()

    @settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(document[path]["POST"].as_strategy(generation_mode=mode))
    def check(case: schemathesis.Case[Any]) -> None:
        statuses.add(case.call_and_validate(checks=CHECKS, headers={"Connection": "close"}).status_code)

    check()
    assert statuses >= ({200} if mode is GenerationMode.POSITIVE else {400})


#: What people ask: path -> method.
QUESTIONS = {
    "/api/v1/status": "GET",
    "/api/v1/gangs": "GET",
    "/api/v1/nodes": "GET",
    "/api/v1/capacity": "GET",
    "/api/v1/board": "GET",
    "/api/v1/events": "GET",
    "/api/v1/queues": "GET",
    "/api/v1/demand": "GET",
    "/api/v1/gangs/{namespace}/{name}/explain": "GET",
    "/api/v1/gangs/{namespace}/{name}/picture.svg": "GET",
    "/api/v1/gangs/{namespace}/{name}/defrag": "GET",
    "/api/v1/explain": "POST",
    "/api/v1/snapshot": "GET",
    "/api/v1/history": "GET",
    "/api/v1/report": "GET",
    "/api/v1/curves": "GET",
}
#: Of these the document says what their parameters may be.
PARAMETERISED = (
    "/api/v1/gangs",
    "/api/v1/events",
    "/api/v1/explain",
    "/api/v1/snapshot",
    "/api/v1/history",
    "/api/v1/report",
    "/api/v1/curves",
)
#: What never ends, or is no document of ours: tested by itself.
OTHERS = {"/api/v1/stream", "/healthz", "/readyz", "/metrics", *(f"/v1/{verb}" for verb in VERBS)}


def test_every_path_is_tried(document: OpenApiSchema) -> None:
    """Whatever the document lists is asked in this file, or is known not to be."""
    assert set(document.raw_schema["paths"]) == set(QUESTIONS) | OTHERS


@pytest.mark.parametrize(
    ("path", "mode"),
    [
        *((path, GenerationMode.POSITIVE) for path in QUESTIONS),
        *((path, GenerationMode.NEGATIVE) for path in PARAMETERISED),
    ],
)
def test_questions_are_answered_as_documented(document: OpenApiSchema, path: str, mode: GenerationMode) -> None:
    """Whatever people ask, with parameters that there are or not, has a documented status and form."""
    statuses: set[int] = set()

    @settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(document[path][QUESTIONS[path]].as_strategy(generation_mode=mode))
    def check(case: schemathesis.Case[Any]) -> None:
        statuses.add(case.call_and_validate(checks=CHECKS, headers={"Connection": "close"}).status_code)

    check()
    assert statuses


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_reads_are_as_documented(document: OpenApiSchema, path: str) -> None:
    """Health and metrics are answered as text."""
    answer = document[path]["GET"].Case().call_and_validate(checks=CHECKS, headers={"Connection": "close"})
    assert answer.status_code == 200
