"""`muster events`: what Muster decided lately, asked of a running one, or as it happens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from extender.cli.connecting import EXIT_USAGE, Connection, asking, connected, reached, refusals
from extender.cli.printing import Report, console, note, print_document

if TYPE_CHECKING:
    from rich.text import Text

_EPILOG = (
    "Examples: `muster events --limit 20`; `muster events team-a/train` tells the story of one gang; "
    "`muster events --follow -o json | jq 'select(.kind == \"evicted\")'`."
)
_STYLES = {"started": "green", "reserved": "cyan", "released": "yellow", "expired": "yellow", "evicted": "red"}


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog=_EPILOG)(connected(events))


def events(  # noqa: PLR0913 - one parameter per option
    gang: Annotated[
        str | None, typer.Argument(help="Only decisions about this gang: NAMESPACE/NAME, or NAME in default.")
    ] = None,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what happens next, until Ctrl-C.")] = False,
    limit: Annotated[
        int, typer.Option(min=1, max=2000, help="How many of the latest to begin with; 200 at most with --follow.")
    ] = 100,
    output: Annotated[Report, typer.Option("--output", "-o", help="How to print them.")] = Report.TABLE,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Leave out the headings.")] = False,
    connection: Connection,
) -> None:
    """List what Muster decided lately, oldest first: reservations, starts, releases, expiries, evictions, notes.

    Muster keeps the latest 2,000, and none from before it was started. With --follow, JSON is one decision per line.
    Exit codes: 0 listed, also if there are none, and after Ctrl-C; 1 Muster cannot be asked; 2 refused arguments.
    """
    from extender.cli.asking import ServerError
    from extender.cli.documents import document, with_query

    if follow and output is Report.YAML:
        note("muster events: --follow prints lines; use -o json, table or wide")
        raise typer.Exit(EXIT_USAGE)
    try:
        wanted = None if gang is None else _gang(gang)
    except ServerError as error:
        note(f"muster events: {error}")
        raise typer.Exit(EXIT_USAGE) from error
    if follow:
        _follow(connection, wanted, limit, output)
        return
    with asking("events", connection) as muster:
        path = with_query("/api/v1/events", {"gang": wanted, "limit": limit})
        answer = document(muster, muster.get(path), "events")
    if print_document(answer, output):
        return
    if not answer["events"]:
        note("nothing decided" + (f" about {wanted}" if wanted else "") + " that Muster remembers")
        return
    _show(answer["events"], wide=output is Report.WIDE, headers=not no_headers)


def _gang(text: str) -> str:
    """Return namespace/name; raise ServerError for what is no name of a gang."""
    from extender.cli.asking import gang_path

    namespace, name = gang_path(text).split("/")[-2:]
    return f"{namespace}/{name}"


def _follow(connection: Connection, wanted: str | None, limit: int, output: Report) -> None:
    import orjson

    from extender.cli.following import Followed, News
    from extender.cli.following import follow as following

    shown = console()
    first = True
    with refusals("events"), closing(following(lambda: reached(connection), Followed())) as news:
        try:
            for one in news:
                if not isinstance(one, News):
                    note(f"muster events: {one.why}; trying again in {one.seconds:g} s")
                    continue
                new = [event for event in one.events if wanted in {None, event["gang"]}]
                for event in new[-limit:] if first else new:
                    if output is Report.JSON:
                        typer.echo(orjson.dumps(event).decode())
                    else:
                        shown.print(line(event, wide=output is Report.WIDE))
                first = False
        except KeyboardInterrupt:
            return


def _show(found: Sequence[Mapping[str, Any]], *, wide: bool, headers: bool) -> None:
    from rich.text import Text

    from extender.cli.amounts import clock_time
    from extender.cli.tables import Column, show

    columns = [Column("TIME"), Column("KIND"), Column("GANG"), Column("WHAT")]
    if wide:
        columns[3:3] = [Column("SEQ", right=True), Column("DECISION"), Column("ABOUT")]
    rows = []
    for event in found:
        kind = Text(event["kind"], _STYLES.get(event["kind"], ""))
        when = event["time"] if wide else clock_time(event["time"])
        more = [str(event["seq"]), event["decision"] or "-", event["about"] or "-"] if wide else []
        rows.append([when, kind, event["gang"] or "-", *more, said(event)])
    show(console(), columns, rows, headers=headers)


def line(event: Mapping[str, Any], *, wide: bool = False) -> Text:
    """Return a decision as one line, with columns of fixed width, since nobody knows what comes after it."""
    from rich.text import Text

    from extender.cli.amounts import clock_time
    from extender.cli.tables import cleaned

    when = event["time"] if wide else clock_time(event["time"])
    kind = (f"{event['kind']:<9}", _STYLES.get(event["kind"], ""))
    about = f"{event['seq']:>6}  {event['decision'] or '-':<12}  {event['about'] or '-':<24}  " if wide else ""
    return Text.assemble(f"{when}  ", kind, "  ", cleaned(f"{event['gang'] or '-':<24}  {about}{said(event)}"))


def said(event: Mapping[str, Any]) -> str:
    """Return what a decision was about: its reason and message, else how many members it was for."""
    text = ": ".join(part for part in (event["reason"], event["message"]) if part)
    if text:
        return text
    members = event["members"]
    text = f"{members} member{'' if members == 1 else 's'}" if members else ""
    waited = event.get("waitedSeconds")
    return text if waited is None else f"{text} after {waited:.1f} s".strip()
