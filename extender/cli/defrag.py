"""`muster defrag`: which moves of running gangs would make a waiting gang fit, and doing them."""

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
EXIT_NO_MOVES = 4

#: How long Muster may take to answer (seconds): a search over every running gang of a large cluster.
_TIMEOUT_SECONDS = 60.0
_NOT_FOUND = 404


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(defrag)


def defrag(  # noqa: PLR0913 - one parameter per option
    gang: Annotated[str, typer.Argument(help="NAMESPACE/NAME of the waiting gang, or NAME in the namespace default.")],
    *,
    apply: Annotated[
        bool,
        typer.Option("--apply/--plan", help="Evict what has to move, within PodDisruptionBudgets; or only show it."),
    ] = False,
    server: Annotated[
        str, typer.Option(help="Where Muster serves the verbs: http, or https with the files below.")
    ] = "http://127.0.0.1:10261",
    output: Annotated[Output, typer.Option("--output", "-o", help="How to print it.")] = Output.TABLE,
    ca_file: Annotated[Path | None, typer.Option(help="CA of the server's certificate, for https.")] = None,
    cert_file: Annotated[Path | None, typer.Option(help="Client certificate, for https.")] = None,
    key_file: Annotated[Path | None, typer.Option(help="Key of the client certificate.")] = None,
) -> None:
    """Show which preemptible gangs would have to move for a waiting gang to fit; with --apply, have them moved.

    Muster never does this by itself.

    Exit codes: 0 the gang fits, with these moves, 1 Muster cannot be asked, 2 refused arguments, 3 no such gang,
    4 no moves make it fit.
    """
    import orjson
    from rich.console import Console

    from extender.cli.asking import AskError, Server, ServerError, gang_path

    try:
        path = f"{gang_path(gang)}/defrag"
        asked = Server.at(server, ca_file, cert_file, key_file)
        answer: dict[str, Any] = orjson.loads((asked.post if apply else asked.get)(path, _TIMEOUT_SECONDS))
    except ServerError as error:
        _fail(str(error), EXIT_USAGE)
    except AskError as error:
        _fail(str(error), EXIT_NO_GANG if error.status == _NOT_FOUND else EXIT_FAILED)
    except orjson.JSONDecodeError:
        _fail(f"{server} does not answer as Muster does; --server is where it serves the verbs", EXIT_FAILED)
    if output is Output.JSON:
        typer.echo(orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode())
    else:
        _show(Console(), gang, answer, applied=apply)
    if not answer["fits"]:
        raise typer.Exit(EXIT_NO_MOVES)


def _fail(message: str, code: int) -> NoReturn:
    typer.echo(f"muster defrag: {message}", err=True)
    raise typer.Exit(code)


def _show(console: Console, gang: str, answer: dict[str, Any], *, applied: bool) -> None:
    """Print for people what has to move, and what comes of it."""
    from rich.table import Table

    moves = answer["moves"]
    if moves:
        table = Table(header_style="bold")
        for column in ("gang", "pods", "from", "to"):
            table.add_column(column, overflow="fold", justify="right" if column == "pods" else "left")
        for move in moves:
            table.add_row(move["gang"], str(move["pods"]), ", ".join(move["from"]), ", ".join(move["to"]))
        console.print(table)
    if not answer["fits"]:
        said = f"{gang} does not fit: {answer['reason']}"
    elif not moves:
        said = f"{gang} fits without any move"
    elif applied:
        said = f"evicted what has to move; {gang} gets the room"
    else:
        said = f"with these moves {gang} fits; --apply has them done"
    console.print(said, markup=False, highlight=False)
