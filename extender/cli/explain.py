"""`muster explain`: how a gang stands, or what would become of one that is not submitted yet."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from extender.cli.connecting import Connection, asking, connected, refusals
from extender.cli.explaining import show_explanation, show_verdict
from extender.cli.printing import Report, console, print_document

if TYPE_CHECKING:
    from extender.cli.asking import Asker

__all__ = ["register", "show_explanation"]

EXIT_NO_GANG = 3
EXIT_WOULD_WAIT = 4

_NOT_FOUND = 404
_STDIN = "-"
#: How long Muster may take for a question about objects that are not there (seconds): a second for each large gang.
_WHAT_IF_SECONDS = 120.0

_EPILOG = (
    "Examples: `muster explain team/train`; `muster explain train --picture train.svg`; "
    "`muster explain -f job.yaml --dry-run` says whether it would start now, where, and if not, what would help; "
    "`helm template . | muster explain -f - --dry-run -o json | jq '.gangs[].suggestions'`."
)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog=_EPILOG)(connected(explain))


def explain(  # noqa: PLR0913 - one parameter per option
    gang: Annotated[
        str | None,
        typer.Argument(help="NAMESPACE/NAME of the gang, or NAME in the namespace of -n.", show_default=False),
    ] = None,
    *,
    file: Annotated[
        list[str] | None,
        typer.Option(
            "--file",
            "-f",
            metavar="FILE",
            help="Ask about objects that are not submitted: YAML or JSON, - for standard input; repeat for several.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Goes with -f. Nothing is ever submitted, with or without it.")
    ] = False,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace of a gang, and of objects, that name none.")
    ] = "default",
    output: Annotated[Report, typer.Option("--output", "-o", help="How to print it.")] = Report.TABLE,
    picture: Annotated[
        Path | None, typer.Option(help="Also write a picture of the cluster with the gang on it (SVG).")
    ] = None,
    connection: Connection,
) -> None:
    """Say how a gang stands: why it waits and what would help, or where it is and what is predicted there.

    With -f FILE --dry-run: what would become of the gangs of that file, if they were submitted now.

    Exit codes: 0 said, and with -f all would start; 1 Muster cannot be asked; 2 refused arguments or objects;
    3 no such gang; 4 with -f: a gang would wait.
    """
    from extender.cli.asking import AskError, ServerError, gang_path

    with refusals("explain"):
        _check(gang, file, dry_run=dry_run, picture=picture)
    if file:
        with refusals("explain"):
            body = _question(file, namespace)
        with asking("explain", connection) as muster:
            answer = _asked(muster, body)
        _show_answer(answer, output)
        return
    with refusals("explain"):
        path = gang_path(gang if gang is not None and "/" in gang else f"{namespace}/{gang}")
    with asking("explain", connection) as muster:
        try:
            answer = _document(muster, muster.get(f"{path}/explain?suggestions=true"), "headline")
            drawn = b"" if picture is None else muster.get(f"{path}/picture.svg")
        except AskError as error:
            if error.status != _NOT_FOUND:
                raise
            typer.echo(f"muster explain: {error}", err=True)
            raise typer.Exit(EXIT_NO_GANG) from error
        if picture is not None:
            try:
                picture.write_bytes(drawn)
            except OSError as error:
                raise ServerError(f"--picture {picture}: {error.strerror or error}") from error
    if not print_document(answer, output):
        show_explanation(console(), answer, wide=output is Report.WIDE)


def _check(gang: str | None, file: Sequence[str] | None, *, dry_run: bool, picture: Path | None) -> None:
    """Raise ServerError for options that do not go together."""
    from extender.cli.asking import ServerError

    if (gang is None) == (not file):
        raise ServerError("give the name of a gang, or -f FILE with objects that are not submitted yet")
    if dry_run and not file:
        raise ServerError("--dry-run goes with -f FILE; a gang that exists is explained as it is")
    if picture is not None and file:
        raise ServerError("--picture draws gangs that exist; leave it out with -f")
    if file and file.count(_STDIN) > 1:
        raise ServerError("-f -: standard input can be read once")


def _question(files: Sequence[str], namespace: str) -> bytes:
    """Return the body of the question about the objects in files; raise ServerError naming file and place."""
    import orjson

    from extender.cli.asking import ServerError
    from extender.wire.documents import DocumentError, load_documents

    objects: list[Any] = []
    for file in files:
        name = "standard input" if file == _STDIN else file
        try:
            documents = load_documents(_text(file))
        except DocumentError as error:
            raise ServerError(f"{name}: {error}") from error
        objects += [_placed(document, namespace) for document in documents if document is not None]
        if not all(isinstance(document, dict) for document in objects):
            raise ServerError(f"{name}: a document is no Kubernetes object")
    if not objects:
        raise ServerError(f"{', '.join(files)}: there is no object")
    try:
        return orjson.dumps({"objects": objects}, option=orjson.OPT_NON_STR_KEYS)
    except TypeError as error:
        raise ServerError(f"{', '.join(files)}: cannot be sent as JSON: {error}") from error


def _placed(document: object, namespace: str) -> object:
    """Return an object in its namespace, or in `namespace` if it names none; those of a list likewise."""
    if not isinstance(document, dict):
        return document
    if isinstance(items := document.get("items"), list):
        return {**document, "items": [_placed(item, namespace) for item in items]}
    meta = document.get("metadata")
    if not isinstance(meta, dict) or meta.get("namespace"):
        return document
    return {**document, "metadata": {**meta, "namespace": namespace}}


def _text(file: str) -> str:
    from extender.cli.asking import ServerError

    try:
        return sys.stdin.read() if file == _STDIN else Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise ServerError(f"-f {file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ServerError(f"-f {file}: {error}") from error


def _asked(muster: Asker, body: bytes) -> dict[str, Any]:
    return _document(muster, muster.post("/api/v1/explain", _WHAT_IF_SECONDS, body), "gangs")


def _document(muster: Asker, body: bytes, *keys: str) -> dict[str, Any]:
    from extender.cli.documents import document

    return document(muster, body, *keys)


def _show_answer(answer: dict[str, Any], output: Report) -> None:
    """Print what would become of gangs, and end with the exit code that says so."""
    gangs = answer["gangs"]
    if not print_document(answer, output):
        shown = console()
        for number, each in enumerate(gangs):
            if number:
                shown.print()
            show_explanation(shown, each, wide=output is Report.WIDE)
        show_verdict(shown, gangs)
    if not all(gang["wouldStart"] for gang in gangs):
        raise typer.Exit(EXIT_WOULD_WAIT)
