"""`muster serve`: the extender beside a kube-scheduler."""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from extender.cli.logs import LogFormat, LogLevel, configure_logs, fill_standard_streams
from extender.cli.options import ContextName, KubeconfigFile
from extender.cli.printing import say

if TYPE_CHECKING:
    from extender.cli.callers import Callers
    from extender.control.controller import Controller
    from extender.control.metrics import Metrics
    from extender.history.store import HistoryStore
    from extender.kube.credentials import CredentialSource
    from extender.kube.readservice import ReadSlice
    from extender.settings import Settings

EXIT_FAILED = 1
EXIT_CONFIGURATION = 2
#: Connections to the API server beside those that writes take: a watch for each of 14 kinds, reads, and a few more for
#: watches that are opened again before the old connection has gone.
SPARE_CONNECTIONS = 24


@dataclass(frozen=True, slots=True)
class Sockets:
    """What is listened on: for kube-scheduler, for Prometheus and probes, and for people."""

    verbs: socket.socket
    metrics: socket.socket | None
    view: socket.socket | None

    @property
    def opened(self) -> list[socket.socket]:
        """Return those that there are."""
        return [found for found in (self.verbs, self.metrics, self.view) if found is not None]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(serve)


def serve(  # noqa: PLR0913, PLR0917 - one parameter per option
    kubeconfig: KubeconfigFile = None,
    context: ContextName = None,
    host: Annotated[
        str, typer.Option(help="Address for the extender's verbs. Without --client-ca-file: a loopback address.")
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
    view_host: Annotated[
        str, typer.Option(help="Address of the third listener, for people: the API's reads and the dashboard.")
    ] = "127.0.0.1",
    view_port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            help="Port of the third listener: reads, what-if and the dashboard, no verbs, no authentication. "
            "Default: none.",
        ),
    ] = None,
    tls_cert_file: Annotated[
        Path | None,
        typer.Option(help="PEM file: certificate for the verbs, with its chain. It may be replaced at any time."),
    ] = None,
    tls_private_key_file: Annotated[Path | None, typer.Option(help="PEM file: the key of --tls-cert-file.")] = None,
    client_ca_file: Annotated[
        Path | None,
        typer.Option(help="PEM file: authorities; the verbs' callers must show a certificate that one of them signed."),
    ] = None,
    allowed_client_name: Annotated[
        list[str] | None,
        typer.Option(help="Common or alternative name that a caller's certificate must have; repeat for several."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="YAML file of settings; `muster settings` prints one with all defaults.")
    ] = None,
    scheduler_name: Annotated[
        list[str] | None, typer.Option(help="schedulerName of the pods to manage; repeat for several. Default: muster.")
    ] = None,
    scheduler_lease: Annotated[
        str | None,
        typer.Option(
            metavar="NAMESPACE/NAME",
            help="Lease of the kube-schedulers' leader election; act only while the one beside this Muster holds it. "
            "Default: act always, for a single replica.",
        ),
    ] = None,
    identity: Annotated[
        str | None,
        typer.Option(help="Hostname of the kube-scheduler beside this Muster, as in its Lease. Default: this one's."),
    ] = None,
    read_slice: Annotated[
        str | None,
        typer.Option(
            metavar="NAMESPACE/NAME",
            help="EndpointSlice to keep at this pod's address, $POD_IP, while it leads: a Service for readers follows. "
            "Default: none.",
        ),
    ] = None,
    log_level: Annotated[LogLevel, typer.Option(help="Least important lines to log.")] = LogLevel.INFO,
    log_format: Annotated[LogFormat, typer.Option(help="auto: console at a terminal, else json.")] = LogFormat.AUTO,
) -> None:
    """Answer a kube-scheduler's extender calls for gangs on a Kubernetes cluster.

    Runs beside the kube-scheduler that calls it (see scheduler-config/muster.yaml) until SIGTERM or Ctrl-C.
    Exit codes: 0 stopped, 1 failed, 2 refused configuration.
    """
    from extender.cli.callers import Callers
    from extender.cli.interpreter import tune
    from extender.cli.listening import ListenError, listen, raise_file_limit, run
    from extender.control.metrics import Metrics
    from extender.kube.credentials import CredentialsError, find_credentials
    from extender.kube.readservice import ReadSlice
    from extender.service.certificates import CertificateError
    from extender.settings import SettingsError, load_settings

    fill_standard_streams()
    try:
        loaded = load_settings(config, overrides(scheduler_name, scheduler_lease))
        callers = Callers.from_options(
            host, tls_cert_file, tls_private_key_file, client_ca_file, tuple(allowed_client_name or ())
        )
        if callers.tls is not None:
            callers.tls.check()
        source = find_credentials(os.environ, kubeconfig, context)
        pod = os.environ.get("POD_NAME") or socket.gethostname()
        kept = None if read_slice is None else ReadSlice.of(read_slice, os.environ.get("POD_IP", ""), pod)
    except (SettingsError, CredentialsError, ValueError) as error:
        _stop(str(error), EXIT_CONFIGURATION)
    try:
        sockets = Sockets(
            verbs=listen(host, port),
            metrics=None if metrics_port is None else listen(metrics_host, metrics_port),
            view=None if view_port is None else listen(view_host, view_port),
        )
    except ListenError as error:
        _stop(str(error), EXIT_FAILED)
    metrics = Metrics()
    configure_logs(log_level, log_format).counted_by(metrics.log_lines_dropped)
    tune()
    raise_file_limit()
    try:
        code = run(_serve(loaded, source, sockets, callers, identity or socket.gethostname(), metrics, kept))
    except (CertificateError, CredentialsError, ListenError) as error:
        _stop(str(error), EXIT_CONFIGURATION)
    finally:
        for opened in sockets.opened:
            opened.close()
    raise typer.Exit(code)


def _stop(message: str, code: int) -> NoReturn:
    with contextlib.suppress(OSError):  # standard error may be closed, or on a disk that is full
        say(f"muster serve: {message}", err=True)
    raise typer.Exit(code)


async def _serve(  # noqa: PLR0913, PLR0915, PLR0917 - all that the command line says
    settings: Settings,
    source: CredentialSource,
    sockets: Sockets,
    callers: Callers,
    identity: str,
    metrics: Metrics,
    kept: ReadSlice | None,
) -> int:
    """Wire everything together and run until told to stop."""
    from random import Random

    import structlog

    from extender.cli.interpreter import import_ahead, keep_memory_small, settle_code
    from extender.cli.listening import ConnectionShares, ListeningMuster, open_files, run_until_stopped
    from extender.clock import SystemClock, thread_cpu_seconds
    from extender.control.controller import Controller
    from extender.control.health import LoopLag
    from extender.control.leadership import LeaseHolder, OnlyReplica, leads
    from extender.kube.readservice import follow_leader
    from extender.kube.reflector import Feeds
    from extender.kube.reviews import Reviews
    from extender.kube.rights import check_rights, needed
    from extender.kube.transport import Transport
    from extender.kube.version import check_version
    from extender.kube.writer import KubeClusterApi
    from extender.service.app import create_app, create_read_app, create_view_app
    from extender.service.board.board import Board
    from extender.service.certificates import ServingCertificates
    from extender.service.connections import ConnectionRules
    from extender.service.stream import Stream

    log = structlog.get_logger("muster")
    machine = SystemClock()
    addresses = ["{}:{}".format(*extra.getsockname()[:2]) for extra in sockets.opened]
    log.info("starting", settings=settings.model_dump(), credentials=str(source), listening=addresses)
    certificates = (
        None if callers.tls is None else ServingCertificates(callers.tls, metrics, settings.certificate_check_seconds)
    )
    import_ahead()
    settle_code()
    pool_size = settings.write_concurrency + SPARE_CONNECTIONS
    shares = ConnectionShares.of(open_files(), settings.connection_limit, len(sockets.opened) - 1, pool_size)
    if shares.verbs < settings.bind_limit:
        log.warning("few files may be open (ulimit -n): fewer binds can wait", files=open_files(), binds=shares.verbs)
    async with await Transport.connect(source, machine, pool_size=pool_size) as transport:
        clock = transport.clock
        await transport.ask_time()
        api = KubeClusterApi(transport, clock, instance=os.environ.get("POD_NAME") or socket.gethostname())
        lease = settings.scheduler_lease
        leadership = None if lease is None else LeaseHolder(identity, machine)
        controller = Controller(settings, clock, api, metrics, leadership, store=_store(settings), forecasts=True)
        feeds = Feeds(
            transport,
            controller,
            random=Random(),
            lease=lease,
            calibration=settings.calibration_config_map,
            provisioning=bool(settings.provisioning_class),
        )
        refused = metrics.connections_refused
        rules = replace(ConnectionRules.from_settings(settings, refused, callers.names), connections=shares.verbs)
        stream = Stream(Board(controller, metrics, clock))
        sites = [
            ListeningMuster(
                create_app(controller, settings, metrics, clock, stream), sockets.verbs, rules, certificates
            )
        ]
        rules = replace(ConnectionRules.from_settings(settings, refused), connections=shares.others)
        if sockets.metrics is not None:
            sites.append(ListeningMuster(create_read_app(controller, metrics), sockets.metrics, rules))
        if sockets.view is not None:
            view = create_view_app(controller, settings, metrics, stream, Reviews(transport, clock))
            sites.append(ListeningMuster(view, sockets.view, rules))
        lag = LoopLag(clock, thread_cpu_seconds, metrics)
        background = [controller.run(), feeds.run(), lag.run(), _settle_after_lists(controller)]
        background.append(keep_memory_small(lambda: controller.admission.model.table.allocatable.nbytes))
        background.append(check_version(transport, random=Random()))
        background.append(check_rights(transport, needed(lease), controller.health.refuse))
        if kept is not None:
            ruling = leadership or OnlyReplica()
            background.append(follow_leader(transport, kept, lambda: leads(ruling, clock)))
        return await run_until_stopped(sites, background)


def _store(settings: Settings) -> HistoryStore | None:
    """Return where the history is kept, None if nowhere: SQLAlchemy takes memory that is not needed then."""
    if not settings.history_store:
        return None
    from extender.history.store import HistoryStore

    return HistoryStore(settings.history_store)


async def _settle_after_lists(controller: Controller) -> NoReturn:
    """Take the objects of complete lists out of the garbage collector's sight."""
    from extender.cli.interpreter import settle_data

    while True:
        await controller.wait_listed()
        settle_data()


def overrides(scheduler_names: list[str] | None, scheduler_lease: str | None) -> dict[str, Any]:
    """Return the settings that a command line gives, to go over those of a file."""
    given: dict[str, Any] = {}
    if scheduler_names:
        given["scheduler_names"] = tuple(scheduler_names)
    if scheduler_lease is not None:
        given["scheduler_lease"] = scheduler_lease
    return given
