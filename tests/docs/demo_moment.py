"""What the demo's service answers at one moment, in virtual time: README.md shows such a moment."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from concurrent.futures import Executor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar, TypeVarTuple, Unpack

from extender.clock import Clock, SystemClock
from extender.control.controller import Controller
from extender.control.metrics import Metrics
from extender.service.app import create_app
from extender.settings import Settings
from muster_lab.cli.demo_arrivals import DemoArrivals
from muster_lab.cli.demo_cluster import demo_cluster
from muster_lab.simulation.scheduler.extender import Transport
from muster_lab.simulation.transports import AsgiApp, asgi_transport
from muster_lab.simulation.virtual_time import LoopClock, VirtualTimeLoop
from muster_lab.simulation.world import World

_Result = TypeVar("_Result")
_Arguments = TypeVarTuple("_Arguments")


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


def answers_at(moment: float, gets: Iterable[str], posts: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
    """Play the demo's cluster for `moment` seconds, ending now; return what GETs, then POSTs, are answered by path."""
    with asyncio.Runner(loop_factory=InlineLoop) as runner:
        return runner.run(_answers_at(moment, gets, posts))


async def _answers_at(moment: float, gets: Iterable[str], posts: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    apps: list[AsgiApp] = []

    def connect(controller: Controller, settings: Settings, metrics: Metrics, clock: Clock) -> Transport:
        apps.append(create_app(controller, settings, metrics, clock))
        return asgi_transport(apps[0])

    whole = SystemClock().now().replace(microsecond=0)  # objects know no fractions; with some, others are first
    start = whole - dt.timedelta(seconds=moment)
    world = World(demo_cluster(), LoopClock(loop, start), connect, settings=Settings())
    tasks = [asyncio.create_task(world.run()), asyncio.create_task(DemoArrivals(world).run())]
    try:
        await loop.reach(moment)
        found = {path: await _call(apps[0], "GET", path) for path in gets}
        return found | {path: await _call(apps[0], "POST", path, body) for path, body in posts}
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _call(app: AsgiApp, method: str, path: str, body: bytes = b"") -> bytes:
    """Return the body of what an application answers."""
    chunks: list[bytes] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        assert message.get("status", 200) == 200, (path, message)
        chunks.append(message.get("body", b""))

    plain, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": plain,
        "raw_path": plain.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())],
        "client": ("127.0.0.1", 0),
        "server": ("127.0.0.1", 0),
    }
    await app(scope, receive, send)
    return b"".join(chunks)


@contextlib.contextmanager
def serving(answers: Mapping[str, bytes]) -> Iterator[str]:
    """Answer GETs by their paths, on loopback; yield the URL."""

    class Handler(BaseHTTPRequestHandler):
        """Answers what is asked for, with an error where nothing is known."""

        def do_GET(self) -> None:
            """Answer one GET."""
            body = answers.get(self.path, b"")
            self.send_response(200 if body else 404)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_port}"
        finally:
            listening.shutdown()
            thread.join()
