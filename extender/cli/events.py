"""`muster events`: what Muster decided lately, asked of a running one, or as it happens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer
from rich.text import Text

from extender.cli.asking import gang_path, with_query
from extender.cli.connecting import EXIT_USAGE, Connection, answered, connected, refusals
from extender.cli.following import Followed, News, following
from extender.cli.printing import (
    Column,
    Report,
    cleaned,
    clock_time,
    console,
    local_time,
    note,
    print_answer,
    show,
    with_local_times,
)
from extender.explain.documents import DecisionRow
from extender.service.board.documents import EventsDocument

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
    if follow and output is Report.YAML:
        note("muster events: --follow prints lines; use -o json, table or wide")
        raise typer.Exit(EXIT_USAGE)
    with refusals("events"):
        wanted = None if gang is None else "/".join(gang_path(gang).split("/")[-2:])
    if follow:
        _follow(connection, wanted, limit, output)
        return
    path = with_query("/api/v1/events", {"gang": wanted, "limit": limit})
    body, answer = answered("events", connection, path, EventsDocument)
    if print_answer(body, output):
        return
    found = answer.events
    if not found:
        note("nothing decided" + (f" about {wanted}" if wanted else "") + " that Muster remembers")
        return
    _show(found, wide=output is Report.WIDE, headers=not no_headers)


def _follow(connection: Connection, wanted: str | None, limit: int, output: Report) -> None:
    shown = console()
    first = True
    with following("events", connection, Followed()) as news:
        for one in news:
            if not isinstance(one, News):
                note(f"muster events: {one.why}; trying again in {one.seconds:g} s")
                continue
            new = [event for event in one.events if wanted in {None, event.gang}]
            for event in new[-limit:] if first else new:
                if output is Report.JSON:
                    typer.echo(msgspec.json.encode(event).decode())
                else:
                    shown.print(line(event, wide=output is Report.WIDE))
            first = False


def _show(found: Sequence[DecisionRow], *, wide: bool, headers: bool) -> None:
    columns = [Column("TIME"), Column("KIND"), Column("GANG"), Column("WHAT")]
    if wide:
        columns[3:3] = [Column("SEQ", right=True), Column("DECISION"), Column("ABOUT")]
    rows: list[list[Text | str]] = []
    for event in found:
        kind = Text(event.kind, _STYLES.get(event.kind, ""))
        when = local_time(event.time) if wide else clock_time(event.time)
        more = [str(event.seq), event.decision or "-", event.about or "-"] if wide else []
        rows.append([when, kind, event.gang or "-", *more, said(event)])
    show(console(), columns, rows, headers=headers)


def line(event: DecisionRow, *, wide: bool = False) -> Text:
    """Return a decision as one line, with columns of fixed width, since later lines are not known yet."""
    when = local_time(event.time) if wide else clock_time(event.time)
    kind = (f"{event.kind:<9}", _STYLES.get(event.kind, ""))
    about = f"{event.seq:>6}  {event.decision or '-':<12}  {event.about or '-':<24}  " if wide else ""
    return Text.assemble(f"{when}  ", kind, "  ", cleaned(f"{event.gang or '-':<24}  {about}{said(event)}"))


def said(event: DecisionRow) -> str:
    """Return what a decision was about: its reason and message, else how many members it was for."""
    text = ": ".join(part for part in (event.reason, event.message) if part)
    if text:
        return with_local_times(text)
    members = event.members
    text = f"{members} member{'' if members == 1 else 's'}" if members else ""
    waited = event.waited_seconds
    return text if waited is None else f"{text} after {waited:.1f} s".strip()
