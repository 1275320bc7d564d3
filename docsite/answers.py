"""What the paths answer, in outline: asked of the program itself, on a small simulated cluster in virtual time.

The cluster is that of cluster.yaml, where gangs run, wait and are evicted. Only the form of the answers is kept, which
is the same each time.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple, Unpack

import httpx
from fastapi import FastAPI
from structlog.testing import capture_logs

from extender.clock import Clock
from extender.control.controller import Controller
from extender.control.metrics import Metrics
from extender.service.app import create_app
from extender.settings import Settings
from extender.simulation.scenario_file import load_scenario
from extender.simulation.scheduler.extender import Transport
from extender.simulation.transports import asgi_transport
from extender.simulation.virtual_time import LoopClock, VirtualTimeLoop
from extender.simulation.world import World

_Result = TypeVar("_Result")
_Arguments = TypeVarTuple("_Arguments")

_SCENARIO = Path(__file__).with_name("cluster.yaml")
#: Seconds: before and after somebody has been evicted.
_MOMENTS = (50.0, 90.0)
#: Gangs that paths with such parameters are asked about: one that runs, those that wait.
_GANGS = [{"namespace": "default", "name": name} for name in ("train", "large", "later", "short")]
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
#: What the names of fields look like, and those of resources, nodes and phases do not.
_FIELD = re.compile(r"[a-z][A-Za-z0-9]*")
_OK = 200


class InlineLoop(VirtualTimeLoop):
    """Virtual time, with what is meant for a thread done at once: it would run on while the thread works."""

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[_Arguments]], _Result], *args: *_Arguments
    ) -> asyncio.Future[_Result]:
        """Return a future that is done."""
        del executor
        future: asyncio.Future[_Result] = self.create_future()
        future.set_result(func(*args))
        return future


#: What is asked with POST: the gangs of a file that nobody has submitted.
_BODIES: Mapping[str, Mapping[str, Any]] = {
    "/api/v1/explain": {
        "objects": [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{gang}-{number}",
                    "namespace": "default",
                    "labels": {"muster.dev/gang": gang, "muster.dev/queue": "team-a"},
                    "annotations": {"muster.dev/min-member": str(members), "muster.dev/expected-duration": "5m"},
                },
                "spec": {
                    "schedulerName": "muster",
                    "containers": [{"name": "main", "resources": {"requests": {"nvidia.com/gpu": "8", "cpu": "4"}}}],
                },
            }
            for gang, members in (("small", 1), ("many", 4))
            for number in range(members)
        ]
    }
}

#: Method and path.
Operation = tuple[str, str]


def answers(operations: Sequence[Operation]) -> dict[Operation, list[Any]]:
    """Return operation -> the JSON documents that it answered; one that answers otherwise is left out."""
    with capture_logs(), asyncio.Runner(loop_factory=InlineLoop) as runner:
        return runner.run(_asked(operations))


async def _asked(operations: Sequence[Operation]) -> dict[Operation, list[Any]]:
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualTimeLoop):
        msg = "a scenario is played in virtual time"
        raise TypeError(msg)
    apps: list[FastAPI] = []

    def connect(controller: Controller, settings: Settings, metrics: Metrics, clock: Clock) -> Transport:
        apps.append(create_app(controller, settings, metrics, clock))
        return asgi_transport(apps[0])

    world = World(load_scenario(_SCENARIO), LoopClock(loop), connect)
    running = asyncio.create_task(world.run())
    found: dict[Operation, list[Any]] = {}
    try:
        for moment in _MOMENTS:
            await loop.reach(moment)
            transport = httpx.ASGITransport(apps[0], raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://muster") as client:
                for operation in operations:
                    told = [await _answer(client, operation, gang) for gang in _GANGS]
                    found.setdefault(operation, []).extend(told)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return {asked: told for asked, each in found.items() if (told := [answer for answer in each if answer is not None])}


async def _answer(client: httpx.AsyncClient, operation: Operation, gang: Mapping[str, str]) -> Any:  # noqa: ANN401 - JSON
    method, path = operation
    response = await client.request(method, path.format(**gang), json=_BODIES.get(path) if method == "post" else None)
    is_json = response.headers.get("content-type", "").startswith("application/json")
    return response.json() if response.status_code == _OK and is_json else None


def outline(values: Sequence[Any], depth: int = 0) -> str:
    """Return what JSON values have in common, as `{"name": text, "gpus": integer or null}`.

    Objects with different keys are taken for mappings: `{text: integer, ...}`.
    """
    kinds = dict.fromkeys(_kind(value) for value in values if value is not None)
    parts = [
        _part(kind, [value for value in values if value is not None and _kind(value) == kind], depth) for kind in kinds
    ]
    if "number" in parts and "integer" in parts:
        parts.remove("integer")
    if None in values:
        parts.append("null")
    return " or ".join(parts) or "any"


def _kind(value: Any) -> str:  # noqa: ANN401 - JSON
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "date-time" if _TIME.match(value) else "text"
    return {int: "integer", float: "number", list: "array", dict: "object"}[type(value)]


def _part(kind: str, values: Sequence[Any], depth: int) -> str:
    if kind == "array":
        items = [item for value in values for item in value]
        return f"[{outline(items, depth)}, ...]" if items else "[]"
    if kind == "object":
        return _object(values, depth)
    return kind


def _object(values: Sequence[Mapping[str, Any]], depth: int) -> str:
    keys = list(dict.fromkeys(key for value in values for key in value))
    if not keys:
        return "{}"
    if _are_names(keys) or any(value.keys() != values[0].keys() for value in values):
        return f"{{text: {outline([each for value in values for each in value.values()], depth)}, ...}}"
    inner = "  " * (depth + 1)
    lines = [f"{inner}{json.dumps(key)}: {outline([value[key] for value in values], depth + 1)}" for key in keys]
    return "{\n" + ",\n".join(lines) + "\n" + "  " * depth + "}"


def _are_names(keys: Iterable[str]) -> bool:
    """Tell whether keys name things of the cluster, such as resources or phases, and not fields."""
    return not all(_FIELD.fullmatch(key) for key in keys)
