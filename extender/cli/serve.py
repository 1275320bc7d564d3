"""`muster serve`: the extender beside a kube-scheduler, on a real cluster."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from extender.cli.logs import LogFormat, LogLevel, configure_logs

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    import uvicorn
    from fastapi import FastAPI

    from extender.control.controller import Controller
    from extender.kube.credentials import CredentialSource
    from extender.settings import Settings

#: Seconds that an idle connection stays open. Go's client keeps one for 90 s; closing earlier races with its next call.
KEEP_ALIVE_SECONDS = 120
#: Seconds for calls under way at shutdown: held binds are answered when the barrier is torn down.
SHUTDOWN_SECONDS = 5
EXIT_FAILED = 1
EXIT_CONFIGURATION = 2


@dataclass(frozen=True, slots=True)
class Listeners:
    """Where to listen: verbs, health and metrics on the first; health and metrics also on the second, if any."""

    host: str
    port: int
    metrics_host: str
    metrics_port: int | None


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(serve)


def serve(  # noqa: PLR0913, PLR0917 - one parameter per option
    kubeconfig: Annotated[
        Path | None,
        typer.Option(help="Kubeconfig file. Default: the pod's ServiceAccount, then KUBECONFIG, then ~/.kube/config."),
    ] = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig. Default: its current one.")] = None,
    host: Annotated[
        str, typer.Option(help="Loopback address for the extender's verbs; they know no authentication.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port for the verbs, health and metrics.")] = 10261,
    metrics_host: Annotated[
        str, typer.Option(help="Address of the second listener, for probes and Prometheus.")
    ] = "127.0.0.1",
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65535, help="Port of the second listener, with health and metrics only. Default: none."
        ),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="YAML file of settings; see docs/settings.md.")] = None,
    scheduler_name: Annotated[
        list[str] | None, typer.Option(help="schedulerName of the pods to manage; repeat for several. Default: muster.")
    ] = None,
    log_level: Annotated[LogLevel, typer.Option(help="Least important lines to log.")] = LogLevel.INFO,
    log_format: Annotated[LogFormat, typer.Option(help="auto: console at a terminal, else json.")] = LogFormat.AUTO,
) -> None:
    """Answer a kube-scheduler's extender calls for gangs on a Kubernetes cluster.

    Runs beside the kube-scheduler that calls it (see scheduler-config/muster.yaml) until SIGTERM or Ctrl-C.
    Exit codes: 0 stopped, 1 failed, 2 refused configuration.
    """
    from extender.kube.credentials import CredentialsError, find_credentials
    from extender.settings import SettingsError, load_settings

    configure_logs(log_level, log_format)
    overrides: dict[str, Any] = {"scheduler_names": tuple(scheduler_name)} if scheduler_name else {}
    try:
        settings = load_settings(config, overrides)
        _require_loopback(host)
        source = find_credentials(os.environ, kubeconfig, context)
    except (SettingsError, CredentialsError, ValueError) as error:
        _refuse(str(error))
    from extender.cli import process

    process.tune()
    try:
        code = process.run(_serve(settings, source, Listeners(host, port, metrics_host, metrics_port)))
    except CredentialsError as error:
        _refuse(str(error))
    raise typer.Exit(code)


def _refuse(message: str) -> NoReturn:
    typer.echo(f"muster serve: {message}", err=True)
    raise typer.Exit(EXIT_CONFIGURATION)


def _require_loopback(host: str) -> None:
    """Refuse to offer the verbs to other machines: whoever can call bind can place pods."""
    if host == "localhost":
        return
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        msg = (
            f"--host {host}: the verbs know no authentication, so only a loopback address such as 127.0.0.1 may be used"
        )
        raise ValueError(msg)


async def _serve(settings: Settings, source: CredentialSource, listeners: Listeners) -> int:
    """Wire everything together and run until told to stop."""
    from random import Random

    import structlog

    from extender.clock import SystemClock
    from extender.control.controller import Controller
    from extender.control.metrics import Metrics
    from extender.kube.feeds import Feeds
    from extender.kube.transport import Transport
    from extender.kube.writer import KubeClusterApi
    from extender.service.app import create_app, create_read_app

    log = structlog.get_logger("muster")
    clock, metrics = SystemClock(), Metrics()
    log.info(
        "starting", settings=settings.model_dump(), credentials=str(source), host=listeners.host, port=listeners.port
    )
    async with await Transport.connect(source, clock) as transport:
        api = KubeClusterApi(transport, clock, instance=os.environ.get("POD_NAME") or socket.gethostname())
        controller = Controller(settings, clock, api, metrics)
        feeds = Feeds(transport, controller, random=Random())
        servers = [_server(create_app(controller, settings, metrics, clock), listeners.host, listeners.port)]
        if listeners.metrics_port is not None:
            read_app = create_read_app(controller, metrics)
            servers.append(_server(read_app, listeners.metrics_host, listeners.metrics_port))
        return await _run_until_stopped(servers, [controller.run(), feeds.run(), _settle_when_synced(controller)])


def _server(app: FastAPI, host: str, port: int) -> uvicorn.Server:
    import uvicorn

    class Server(uvicorn.Server):
        """A server that leaves the signals to the process, which may run two of them."""

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Capture nothing."""
            yield

    return Server(
        uvicorn.Config(
            app,
            host=host,
            port=port,
            http="httptools",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            backlog=2048,
        )
    )


async def _run_until_stopped(servers: list[uvicorn.Server], background: list[Coroutine[Any, Any, None]]) -> int:
    """Serve until a signal comes or a part ends, which none should; return the exit code."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    waiting = asyncio.create_task(stop.wait())
    listening = [asyncio.create_task(server.serve()) for server in servers]
    working = [asyncio.create_task(work) for work in background]
    await asyncio.wait([waiting, *listening, *working], return_when=asyncio.FIRST_COMPLETED)
    for server in servers:
        server.should_exit = True
    for task in (waiting, *working):
        task.cancel()
    results = await asyncio.gather(*listening, *working, return_exceptions=True)
    failures = [result for result in results if isinstance(result, Exception | SystemExit)]
    for failure in failures:
        sys.excepthook(type(failure), failure, failure.__traceback__)
    return 0 if stop.is_set() and not failures else EXIT_FAILED


async def _settle_when_synced(controller: Controller) -> None:
    """Take the objects of the first lists out of the garbage collector's sight, then idle."""
    from extender.cli import process

    await controller.wait_synced()
    process.settle_memory()
    await asyncio.Event().wait()
