"""`muster explain`: how a gang stands, asked of a running Muster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from extender.cli.simulate import Output

if TYPE_CHECKING:
    from rich.console import Console

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NO_GANG = 3

#: How long Muster may take to answer (seconds): it takes milliseconds.
_TIMEOUT_SECONDS = 10.0
_NOT_FOUND = 404
#: Members that are listed at most; the JSON has all.
_MOST_MEMBERS = 40


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(explain)


def explain(  # noqa: PLR0913 - one parameter per option
    gang: Annotated[str, typer.Argument(help="NAMESPACE/NAME of the gang, or NAME in the namespace default.")],
    *,
    server: Annotated[
        str, typer.Option(help="Where Muster serves the verbs: http, or https with the files below.")
    ] = "http://127.0.0.1:10261",
    output: Annotated[Output, typer.Option("--output", "-o", help="How to print it.")] = Output.TABLE,
    picture: Annotated[
        Path | None, typer.Option(help="Also write a picture of the cluster with the gang on it (SVG).")
    ] = None,
    ca_file: Annotated[Path | None, typer.Option(help="CA of the server's certificate, for https.")] = None,
    cert_file: Annotated[Path | None, typer.Option(help="Client certificate, for https.")] = None,
    key_file: Annotated[Path | None, typer.Option(help="Key of the client certificate.")] = None,
) -> None:
    """Say how a gang stands: why it waits, or where it is and which bandwidth is predicted there.

    Exit codes: 0 said, 1 Muster cannot be asked, 2 refused arguments, 3 no such gang.
    """
    import orjson
    from rich.console import Console

    from extender.cli.asking import AskError, Server, ServerError, gang_path

    try:
        path = gang_path(gang)
        asked = Server.at(server, ca_file, cert_file, key_file)
        answer: dict[str, Any] = orjson.loads(asked.get(f"{path}/explain", _TIMEOUT_SECONDS))
        if picture is not None:
            picture.write_bytes(asked.get(f"{path}/picture.svg", _TIMEOUT_SECONDS))
    except ServerError as error:
        _fail(str(error), EXIT_USAGE)
    except AskError as error:
        _fail(str(error), EXIT_NO_GANG if error.status == _NOT_FOUND else EXIT_FAILED)
    except orjson.JSONDecodeError:
        _fail(f"{server} does not answer as Muster does; --server is where it serves the verbs", EXIT_FAILED)
    except OSError as error:
        _fail(f"--picture {picture}: {error.strerror or error}", EXIT_USAGE)
    if output is Output.JSON:
        typer.echo(orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode())
    else:
        show_explanation(Console(), answer)


def _fail(message: str, code: int) -> NoReturn:
    typer.echo(f"muster explain: {message}", err=True)
    raise typer.Exit(code)


def show_explanation(console: Console, answer: dict[str, Any]) -> None:
    """Print for people what the service says of a gang."""
    from rich.table import Table

    console.print(f"{answer['namespace']}/{answer['name']}: {answer['headline']}", style="bold", markup=False)
    for line in answer["remarks"]:
        console.print(f"  {line}", markup=False, highlight=False)
    members = Table(header_style="bold")
    for column in ("pod", "role", "state", "node", "GPUs", "NUMA zones"):
        members.add_column(column, overflow="fold")
    for pod in answer["pods"][:_MOST_MEMBERS]:
        known = "" if pod["observed"] or not (pod["gpus"] or pod["zones"]) else " (predicted)"
        gpus = _numbers(pod["gpus"]) + known if pod["gpus"] else ""
        zones = _numbers(pod["zones"]) + known if pod["zones"] else ""
        members.add_row(pod["name"], pod["role"] or "", pod["state"], pod["node"] or "", gpus, zones)
    console.print(members)
    if len(answer["pods"]) > _MOST_MEMBERS:
        rest = len(answer["pods"]) - _MOST_MEMBERS
        console.print(f"and {rest} members more (-o json has all)", highlight=False)


def _numbers(numbers: list[int]) -> str:
    return ",".join(map(str, numbers))
