"""Which running Muster a command asks, and which way: the options that all of them share.

The first way that is given wins: an address (`--server`), else the caller's own kubeconfig. With that, Muster's pods
are found, the one that leads is chosen, and it is reached by the API server's proxy to pods, or by a port-forward.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from extender.cli.asking import BAD_REQUEST, Asker, AskError, Server, ServerError
from extender.cli.pods import MusterPod, PodProxy, api_session, find_muster, forwarded

T = TypeVar("T")

EXIT_FAILED = 1
EXIT_USAGE = 2

#: Where Muster is asked if no option says so.
MUSTER_SERVER = "MUSTER_SERVER"
_PANEL = "Connection"


class Via(StrEnum):
    """How Muster is reached with a kubeconfig."""

    AUTO = "auto"
    """By the proxy if the pod declares a port for people, else by a port-forward."""
    PROXY = "proxy"
    PORT_FORWARD = "port-forward"


class MusterPort(Enum):
    """What a command needs of Muster."""

    VIEW = auto()
    """Reads and questions without effect: what the listener for people has, and the listener of the verbs too."""
    VERBS = auto()
    """What has an effect, and so is on the pod's loopback only."""


@dataclass(frozen=True, slots=True)
class Connection:
    """What a caller said about the Muster to ask: each field is an option; `server` is None for the kubeconfig's."""

    server: Annotated[
        str | None,
        typer.Option(
            envvar=MUSTER_SERVER,
            metavar="URL",
            help="Ask at this address, such as http://127.0.0.1:10261. Default: by the kubeconfig.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    ca_file: Annotated[
        Path | None, typer.Option(help="CA of the server's certificate, for https.", rich_help_panel=_PANEL)
    ] = None
    cert_file: Annotated[Path | None, typer.Option(help="Client certificate, for https.", rich_help_panel=_PANEL)] = (
        None
    )
    key_file: Annotated[Path | None, typer.Option(help="Key of the client certificate.", rich_help_panel=_PANEL)] = None
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            help="Kubeconfig file. Default: a pod's ServiceAccount, then KUBECONFIG, then ~/.kube/config.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    context: Annotated[
        str | None, typer.Option(help="Context of the kubeconfig. Default: its current one.", rich_help_panel=_PANEL)
    ] = None
    muster_namespace: Annotated[str, typer.Option(help="Namespace that Muster runs in.", rich_help_panel=_PANEL)] = (
        "muster-system"
    )
    via: Annotated[
        Via,
        typer.Option(
            help="How to reach its pod: by the API server's proxy, or by kubectl port-forward. auto: by the proxy if "
            "the pod has a port named view.",
            rich_help_panel=_PANEL,
        ),
    ] = Via.AUTO


def connected(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the shared options in place of its parameter `connection`."""
    own = [
        parameter
        for parameter in inspect.signature(command, eval_str=True).parameters.values()
        if parameter.name != "connection"
    ]
    shared = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(Connection, eval_str=True).parameters.values()
    ]

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> None:  # noqa: ANN401 - whatever the command takes
        given = {parameter.name: options.pop(parameter.name) for parameter in shared}
        command(*arguments, connection=Connection(**given), **options)

    vars(run)["__signature__"] = inspect.Signature([*own, *shared])
    return run


@contextlib.contextmanager
def asking(command: str, connection: Connection, listener: MusterPort = MusterPort.VIEW) -> Iterator[Asker]:
    """Reach Muster for a command; what goes wrong ends the command as `refusals` says."""
    with refusals(command), reached(connection, listener) as muster:
        yield muster


def answered(command: str, connection: Connection, path: str, kind: type[T]) -> tuple[bytes, T]:
    """Return the answer of Muster to a GET, as it was sent and as it is read; end the command as `asking` does."""
    with asking(command, connection) as muster:
        body = muster.get(path)
        return body, muster.read(body, kind)


@contextlib.contextmanager
def refusals(command: str) -> Iterator[None]:
    """End a command with an exit code and one line on standard error if AskError or ServerError is raised."""
    try:
        yield
    except ServerError as error:
        typer.echo(f"muster {command}: {error}", err=True)
        raise typer.Exit(EXIT_USAGE) from error
    except AskError as error:
        typer.echo(f"muster {command}: {error}", err=True)
        raise typer.Exit(EXIT_USAGE if error.status == BAD_REQUEST else EXIT_FAILED) from error


@contextlib.contextmanager
def reached(connection: Connection, listener: MusterPort = MusterPort.VIEW) -> Iterator[Asker]:
    """Reach Muster; raise ServerError for options that cannot be used, AskError where it cannot be reached."""
    tls = {"ca-file": connection.ca_file, "cert-file": connection.cert_file, "key-file": connection.key_file}
    if connection.server is None:
        if given := next((name for name, file in tls.items() if file is not None), None):
            raise ServerError(f"--{given} is for --server https://...; a kubeconfig has its own")
        with _by_kubeconfig(connection, listener) as muster:
            yield muster
        return
    other = {"kubeconfig": connection.kubeconfig, "context": connection.context}
    other |= {"via": None if connection.via is Via.AUTO else connection.via}
    if given := next((name for name, value in other.items() if value is not None), None):
        raise ServerError(
            f"--{given} is for the way through the API server, and Muster is asked at {connection.server} "
            f"(--server or {MUSTER_SERVER})"
        )
    yield Server.at(connection.server, connection.ca_file, connection.cert_file, connection.key_file)


@contextlib.contextmanager
def _by_kubeconfig(connection: Connection, listener: MusterPort) -> Iterator[Asker]:
    if connection.via is Via.PROXY and listener is MusterPort.VERBS:
        raise ServerError("--via proxy: the listener behind it changes nothing; use --via port-forward, or --server")
    with api_session(connection.kubeconfig, connection.context) as api:
        pod = find_muster(api, connection.muster_namespace)
        port = proxied_port(pod, connection.via, listener)
        if port is not None:
            yield PodProxy(api, pod, port)
            return
    with forwarded(pod, pod.verbs_port, connection.kubeconfig, connection.context) as muster:
        yield muster


def proxied_port(pod: MusterPod, via: Via, listener: MusterPort) -> int | None:
    """Return which port of a pod to ask by the proxy, None for a port-forward; raise AskError if there is none."""
    if via is Via.PORT_FORWARD or listener is MusterPort.VERBS:
        return None
    if pod.view_port is None and via is Via.PROXY:
        raise AskError(
            f"{pod} has no port named view, so the API server's proxy does not reach it: have the listener for people "
            "offered (docs/command-line.md), or use --via port-forward"
        )
    return pod.view_port
