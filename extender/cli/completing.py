"""What completes a word of a command line: names of gangs, Queues and nodes, and kubectl's protocol for its plug-ins.

Source of the protocol: https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins, "Plugin completion", and
cobra's ShellCompDirective.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from typing import Any

import typer

from extender.cli.asking import AskError, ServerError
from extender.cli.connecting import Connection, NamespaceOption, Via, reached
from extender.cli.printing import say

#: A completion is given up after so many seconds: a shell waits for it.
PATIENCE_SECONDS = 1.5
#: Leave out files as completions. Source: cobra.ShellCompDirectiveNoFileComp.
_NO_FILES = ":4"
#: Names as the API server takes them; zsh evaluates what it is given.
_PLAIN = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_./]*")


def gang_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the gangs whose name begins so: NAME in the namespace that counts, NAMESPACE/NAME in others."""
    rows = _ask(context, "/api/v1/gangs", "gangs")
    connection, namespace = _connection(context), context.params.get("namespace")
    try:
        own = NamespaceOption(namespace).own(connection)
    except ServerError:
        return []
    every = [f"{row['namespace']}/{row['name']}" for row in rows]
    short = [name.removeprefix(f"{own}/") for name in every]
    return _beginning(every if "/" in incomplete else short, context, incomplete)


def queue_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the Queues whose name begins so."""
    return _beginning([row["name"] for row in _ask(context, "/api/v1/queues", "queues")], context, incomplete)


def node_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the nodes whose name begins so."""
    return _beginning([row["name"] for row in _ask(context, "/api/v1/nodes", "nodes")], context, incomplete)


def answer_kubectl(app: typer.Typer, words: Sequence[str]) -> None:
    """Print how the last of the words behind `kubectl muster` may go on, one a line, then a directive."""
    from typer._completion_classes import BashComplete

    command: Any = typer.main.get_command(app)
    *before, incomplete = words or [""]
    shell = BashComplete(command, {}, "kubectl muster", "_MUSTER_COMPLETE")
    for item in shell.get_completions(list(before), incomplete):
        said = " ".join((item.help or "").split())
        say(f"{item.value}\t{said}" if said else item.value)
    say(_NO_FILES)


def _beginning(names: Sequence[str], context: typer.Context, incomplete: str) -> list[str]:
    """Return the names that begin so, but those that are there already, and what a shell may take otherwise."""
    given = context.params.get("names") or ()
    plain = filter(_PLAIN.fullmatch, dict.fromkeys(names))
    return [name for name in plain if name.startswith(incomplete) and name not in given]


def _connection(context: typer.Context) -> Connection:
    known = {name: value for name, value in context.params.items() if name in Connection.__dataclass_fields__}
    return Connection(**{name: value for name, value in known.items() if value is not None})


def _ask(context: typer.Context, path: str, key: str) -> list[dict[str, Any]]:
    """Return the rows of an answer; none where Muster is not reached in time, or only by a port-forward."""
    found: list[dict[str, Any]] = []

    def ask() -> None:
        connection = _connection(context)
        try:
            if connection.server is None:
                connection = Connection(
                    kubeconfig=connection.kubeconfig,
                    context=connection.context,
                    muster_namespace=connection.muster_namespace,
                    via=Via.PROXY,
                )
            with reached(connection) as muster:
                found.extend(muster.read(muster.get(path, PATIENCE_SECONDS), dict[str, Any])[key])
        except (AskError, ServerError):
            return

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(PATIENCE_SECONDS)
    return list(found)
