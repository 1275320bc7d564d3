"""`muster serve`: the extender beside a kube-scheduler, on a real cluster."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from extender.cli.logs import LogFormat, LogLevel, configure_logs

if TYPE_CHECKING:
    from extender.control.controller import Controller
    from extender.kube.credentials import CredentialSource
    from extender.settings import Settings

EXIT_FAILED = 1
EXIT_CONFIGURATION = 2


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
    config: Annotated[
        Path | None, typer.Option(help="YAML file of settings; `muster settings` prints one with all defaults.")
    ] = None,
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
    from extender.cli import process
    from extender.cli.listening import ListenError, listen
    from extender.kube.credentials import CredentialsError, find_credentials
    from extender.settings import SettingsError, load_settings

    overrides: dict[str, Any] = {"scheduler_names": tuple(scheduler_name)} if scheduler_name else {}
    try:
        settings = load_settings(config, overrides)
        _require_loopback(host)
        source = find_credentials(os.environ, kubeconfig, context)
    except (SettingsError, CredentialsError, ValueError) as error:
        _stop(str(error), EXIT_CONFIGURATION)
    try:
        sockets = [listen(host, port)]
        if metrics_port is not None:
            sockets.append(listen(metrics_host, metrics_port))
    except ListenError as error:
        _stop(str(error), EXIT_FAILED)
    configure_logs(log_level, log_format)
    process.tune()
    try:
        code = process.run(_serve(settings, source, sockets))
    except CredentialsError as error:
        _stop(str(error), EXIT_CONFIGURATION)
    raise typer.Exit(code)


def _stop(message: str, code: int) -> NoReturn:
    typer.echo(f"muster serve: {message}", err=True)
    raise typer.Exit(code)


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


async def _serve(settings: Settings, source: CredentialSource, sockets: list[socket.socket]) -> int:
    """Wire everything together and run until told to stop."""
    from random import Random

    import structlog

    from extender.cli.listening import Site, run_until_stopped
    from extender.clock import SystemClock
    from extender.control.controller import Controller
    from extender.control.metrics import Metrics
    from extender.kube.feeds import Feeds
    from extender.kube.transport import Transport
    from extender.kube.writer import KubeClusterApi
    from extender.service.app import create_app, create_read_app

    log = structlog.get_logger("muster")
    clock, metrics = SystemClock(), Metrics()
    addresses = ["{}:{}".format(*extra.getsockname()[:2]) for extra in sockets]
    log.info("starting", settings=settings.model_dump(), credentials=str(source), listening=addresses)
    async with await Transport.connect(source, clock) as transport:
        api = KubeClusterApi(transport, clock, instance=os.environ.get("POD_NAME") or socket.gethostname())
        controller = Controller(settings, clock, api, metrics)
        feeds = Feeds(transport, controller, random=Random())
        sites = [Site(create_app(controller, settings, metrics, clock), sockets[0])]
        sites += [Site(create_read_app(controller, metrics), extra) for extra in sockets[1:]]
        return await run_until_stopped(sites, [controller.run(), feeds.run(), _settle_when_synced(controller)])


async def _settle_when_synced(controller: Controller) -> None:
    """Take the objects of the first lists out of the garbage collector's sight, then idle."""
    from extender.cli import process

    await controller.wait_synced()
    process.settle_memory()
    await asyncio.Event().wait()
