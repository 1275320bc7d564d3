"""Which running Muster a command asks, and which way: the options that all of them share.

The first way that is given wins: an address (`--server`), else the caller's own kubeconfig. With that, the Service that
follows the leader is asked, where there is one. Else Muster's pods are found, the one that leads is chosen, and it is
reached by the API server's proxy to pods, or by a port-forward.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from extender.cli.asking import BAD_REQUEST, NOT_FOUND, Asker, AskError, Server, ServerError, gang_key, read_token
from extender.cli.options import CONNECTION_PANEL, ContextName, KubeconfigFile, NamespaceName, did_you_mean
from extender.cli.pods import MusterPod, ViewProxy, api_session, find_muster, follow_service, forwarded
from extender.cli.printing import note

T = TypeVar("T")

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NO_SUCH = 3

#: Where Muster is asked if no option says so.
MUSTER_SERVER = "MUSTER_SERVER"
_PANEL = CONNECTION_PANEL


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
        Path | None,
        typer.Option(metavar="FILE", help="CA of the server's certificate, for https.", rich_help_panel=_PANEL),
    ] = None
    cert_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Client certificate, for https.", rich_help_panel=_PANEL)
    ] = None
    key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Key of the client certificate.", rich_help_panel=_PANEL)
    ] = None
    kubeconfig: KubeconfigFile = None
    context: ContextName = None
    muster_namespace: Annotated[
        str, typer.Option(metavar="NAME", help="Namespace that Muster runs in.", rich_help_panel=_PANEL)
    ] = "muster-system"
    via: Annotated[
        Via,
        typer.Option(
            metavar="WAY",
            help="How to reach its pod: proxy (the API server's), port-forward (kubectl's), or auto: by the proxy if "
            "the pod has a port named view.",
            rich_help_panel=_PANEL,
        ),
    ] = Via.AUTO
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with a bearer token: Muster shows what its user may list. Default: the kubeconfig's, where "
            "Muster asks for one.",
            rich_help_panel=_PANEL,
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class NamespaceOption:
    """In which namespace gangs are that are named without one: the field is an option."""

    namespace: NamespaceName = None

    def own(self, connection: Connection) -> str:
        """Return the namespace that is meant where none is written, `default` where an address is asked."""
        return self.namespace or _own_namespace(connection) or "default"

    def keys(self, names: Sequence[str], connection: Connection) -> list[str]:
        """Return NAMESPACE/NAME of each gang that is named; raise ServerError for what cannot be one."""
        for name in names:
            gang_key(name)
        own = self.own(connection) if any("/" not in name for name in names) else ""
        return [gang_key(name, own) for name in names]


@dataclass(frozen=True, slots=True)
class Scope(NamespaceOption):
    """Which namespaces a list is of: one, or all of them. Where an address is asked, all is the default."""

    all_namespaces: Annotated[
        bool,
        typer.Option("--all-namespaces", "-A", help="Of all namespaces. Default with --server, which has no context."),
    ] = False

    def chosen(self, connection: Connection) -> str | None:
        """Return the namespace that a list is of, None for all; raise ServerError."""
        if self.all_namespaces and self.namespace is not None:
            raise ServerError("-n and -A exclude each other")
        return None if self.all_namespaces else self.namespace or _own_namespace(connection)

    def keys(self, names: Sequence[str], connection: Connection) -> list[str]:
        """Return what `NamespaceOption.keys` does; with -A no name may be without its namespace."""
        if self.all_namespaces and (bare := next((name for name in names if "/" not in name), None)):
            raise ServerError(f"{bare} is of one namespace, -A asks for all: write NAMESPACE/{bare}, or leave out -A")
        return super(Scope, self).keys(names, connection)


def _own_namespace(connection: Connection) -> str | None:
    """Return the namespace of the kubeconfig's context, None where an address is asked; raise ServerError."""
    if connection.server is not None:
        return None
    from extender.kube.credentials import CredentialsError, find_credentials, read_namespace

    _check(connection)
    try:
        return read_namespace(find_credentials(os.environ, connection.kubeconfig, connection.context))
    except CredentialsError as error:
        raise ServerError(f"{error}; or --server with Muster's address") from error


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
def found(command: str, muster: Asker, key: str) -> Iterator[None]:
    """End a command with an exit code of its own if Muster says that there is no such gang, and tell what there is."""
    try:
        yield
    except AskError as error:
        if error.status != NOT_FOUND:
            raise
        hint = ""
        with contextlib.suppress(AskError):
            path = f"/api/v1/gangs?namespace={key.partition('/')[0]}"
            names = [
                f"{row['namespace']}/{row['name']}" for row in muster.read(muster.get(path), dict[str, Any])["gangs"]
            ]
            hint = did_you_mean(key, names)
        note(f"muster {command}: {error}{hint}")
        raise typer.Exit(EXIT_NO_SUCH) from error


@contextlib.contextmanager
def refusals(command: str) -> Iterator[None]:
    """End a command with an exit code and a line on standard error if AskError or ServerError is raised."""
    try:
        yield
    except ServerError as error:
        note(f"muster {command}: {error}")
        raise typer.Exit(EXIT_USAGE) from error
    except AskError as error:
        note(f"muster {command}: {error}")
        for detail in error.details:
            note(f"  {detail}")
        raise typer.Exit(EXIT_USAGE if error.status == BAD_REQUEST else EXIT_FAILED) from error


@contextlib.contextmanager
def reached(connection: Connection, listener: MusterPort = MusterPort.VIEW) -> Iterator[Asker]:
    """Reach Muster; raise ServerError for options that cannot be used, AskError where it cannot be reached."""
    _check(connection)
    if connection.server is None:
        with _by_kubeconfig(connection, listener) as muster:
            yield muster
        return
    server = Server.at(connection.server, connection.ca_file, connection.cert_file, connection.key_file)
    if connection.token_file is not None:
        server.show_token(connection.token_file)
    yield server


def _check(connection: Connection) -> None:
    """Raise ServerError for options that are of no use for the way to Muster."""
    if connection.server is None:
        tls = {"ca-file": connection.ca_file, "cert-file": connection.cert_file, "key-file": connection.key_file}
        if given := next((name for name, file in tls.items() if file is not None), None):
            raise ServerError(f"--{given} is for --server https://...; a kubeconfig has its own")
        return
    other = {"kubeconfig": connection.kubeconfig, "context": connection.context}
    other |= {"via": None if connection.via is Via.AUTO else connection.via}
    if given := next((name for name, value in other.items() if value is not None), None):
        raise ServerError(
            f"--{given} is for the way through the API server, and Muster is asked at {connection.server} "
            f"(--server or {MUSTER_SERVER})"
        )


@contextlib.contextmanager
def _by_kubeconfig(connection: Connection, listener: MusterPort) -> Iterator[Asker]:
    if connection.via is Via.PROXY and listener is MusterPort.VERBS:
        raise ServerError("--via proxy: the listener behind it changes nothing; use --via port-forward, or --server")
    token = "" if connection.token_file is None else read_token(connection.token_file)
    with api_session(connection.kubeconfig, connection.context) as api:
        if connection.via is not Via.PORT_FORWARD and listener is MusterPort.VIEW:
            followed = follow_service(api, connection.muster_namespace, token)
            if followed is not None:
                yield followed
                return
        pod = find_muster(api, connection.muster_namespace)
        port = proxied_port(pod, connection.via, listener)
        if port is not None:
            yield ViewProxy.to_pod(api, pod, port, token)
            return
    if token:
        raise ServerError(f"--token-file: a port-forward to {pod} reaches a listener that asks for none; leave it out")
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
