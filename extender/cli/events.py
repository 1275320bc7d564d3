"""`muster events`: what Muster decided lately, asked of a running one, or as it happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer
from rich.text import Text

from extender.cli.asking import ServerError, with_query
from extender.cli.completing import gang_names
from extender.cli.connecting import Connection, Scope, refusals
from extender.cli.following import Followed, News, following
from extender.cli.listing import Listing, ListOptions, run
from extender.cli.output import Format, Output, json_line
from extender.cli.printing import Cell, Column, clock_time, console, local_time, note, one_line, say, with_local_times
from extender.explain.documents import DecisionRow
from extender.service.board.documents import EventsDocument

_EPILOG = (
    "Examples: `muster events --limit 20`; `muster events team-a/train` tells the story of one gang; "
    "`muster events -A --follow -o json | jq 'select(.kind == \"evicted\")'`."
)
#: Decisions that Muster keeps.
_MOST = 2000
_COLUMNS = (Column("TIME"), Column("KIND"), Column("GANG"), Column("WHAT"))
_WIDE = (*_COLUMNS[:3], Column("SEQ", right=True), Column("DECISION"), Column("ABOUT"), *_COLUMNS[3:])
_STYLES = {"started": "green", "reserved": "cyan", "released": "yellow", "expired": "yellow", "evicted": "red"}


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog=_EPILOG)(events)


def events(  # noqa: PLR0913 - one parameter per option
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAMESPACE/]GANG",
            help="Only decisions about these gangs.",
            show_default=False,
            autocompletion=gang_names,
        ),
    ] = None,
    *,
    scope: Scope,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="The same as --watch.")] = False,
    limit: Annotated[
        int,
        typer.Option(
            min=1, max=_MOST, metavar="N", help="How many of the latest to begin with; 200 at most with --watch."
        ),
    ] = 100,
    options: ListOptions,
    connection: Connection,
) -> None:
    """List what Muster decided lately, oldest first: reservations, starts, releases, expiries, evictions, notes.

    Muster keeps the latest 2,000, and none from before it was started. With --watch they come as they are decided; JSON
    is one decision per line then.

    Exit codes: 0 listed, also if there are none, and after Ctrl-C; 1 Muster cannot be asked; 2 refused arguments.
    """
    with refusals("events"):
        keys = frozenset(scope.keys(names or (), connection))
        namespace = None if keys else scope.chosen(connection)
        if follow or options.watch:
            _follow(connection, lambda event: _about(event, keys, namespace), limit, _lines_only(options))
            return
    one = next(iter(keys)) if len(keys) == 1 else None
    every = namespace is None and len(keys) < 2  # noqa: PLR2004 - Muster itself chooses by one gang or none
    about = f" about {', '.join(sorted(keys))}" if keys else f" in namespace {namespace}" if namespace else ""
    listing = Listing(
        "events",
        with_query("/api/v1/events", {"gang": one, "limit": limit if every else _MOST}),
        EventsDocument,
        "events",
        DecisionRow,
        lambda event: f"{event.gang}#{event.seq}" if event.gang else f"#{event.seq}",
        lambda wide: _WIDE if wide else _COLUMNS,
        lambda _, rows, wide: ((event, _cells(event, wide=wide)) for event in rows),
        nothing=f"nothing decided{about} that Muster remembers",
        keep=lambda event: _about(event, keys, namespace),
        limit=limit,
    )
    run(listing, options, connection)


def _about(event: DecisionRow, keys: frozenset[str], namespace: str | None) -> bool:
    """Tell whether a decision is about one of some gangs, or else of a namespace; None for all."""
    if keys:
        return event.gang in keys
    return namespace is None or not event.gang or event.gang.startswith(f"{namespace}/")


def _lines_only(options: ListOptions) -> Format:
    """Return the format of lines that come one by one; raise ServerError for one that needs to know all."""
    kind = Output.read(options.output).format
    if kind not in {Format.TABLE, Format.WIDE, Format.JSON} or options.sort_by is not None:
        raise ServerError("--watch prints lines as they come; use -o json, table or wide, without --sort-by")
    return kind


def _follow(connection: Connection, wanted: Callable[[DecisionRow], bool], limit: int, kind: Format) -> None:
    shown = console()
    first = True
    with following("events", connection, Followed()) as news:
        for one in news:
            if not isinstance(one, News):
                note(f"muster events: {one.why}; trying again in {one.seconds:g} s")
                continue
            new = [event for event in one.events if wanted(event)]
            for event in new[-limit:] if first else new:
                if kind is Format.JSON:
                    say(json_line(event))
                else:
                    shown.print(line(event, wide=kind is Format.WIDE))
            first = False


def _cells(event: DecisionRow, *, wide: bool) -> list[Cell]:
    when = local_time(event.time) if wide else clock_time(event.time)
    more = [str(event.seq), event.decision or "-", event.about or "-"] if wide else []
    return [when, Text(one_line(event.kind), _STYLES.get(event.kind, "")), event.gang or "-", *more, said(event)]


def line(event: DecisionRow, *, wide: bool = False) -> Text:
    """Return a decision as one line, with columns of fixed width, since later lines are not known yet."""
    when = local_time(event.time) if wide else clock_time(event.time)
    kind = (f"{one_line(event.kind):<9}", _STYLES.get(event.kind, ""))
    about = f"{event.seq:>6}  {event.decision or '-':<12}  {event.about or '-':<24}  " if wide else ""
    return Text.assemble(f"{when}  ", kind, "  ", one_line(f"{event.gang or '-':<24}  {about}{said(event)}"))


def said(event: DecisionRow) -> str:
    """Return what a decision was about: its reason and message, else how many members it was for."""
    text = ": ".join(part for part in (event.reason, event.message) if part)
    if text:
        return with_local_times(text)
    members = event.members
    text = f"{members} member{'' if members == 1 else 's'}" if members else ""
    waited = event.waited_seconds
    return text if waited is None else f"{text} after {waited:.1f} s".strip()
