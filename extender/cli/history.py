"""`muster history`: gangs that ended, as sacct tells of jobs; `muster report`: who used which GPU-hours, as sreport."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import Annotated, Final
from zoneinfo import ZoneInfo

import typer

from extender.cli.asking import with_query
from extender.cli.connecting import EXIT_USAGE, Connection, Scope, answered, refusals
from extender.cli.listing import Listing, ListOptions, run
from extender.cli.printing import Cell, Column, duration, give, local_time, note
from extender.cli.reportpage import report_page
from extender.clock import SystemClock
from extender.history.documents import CurvesDocument, HistoryDocument, HistoryRow, ReportDocument, ReportRow
from extender.history.reporting import Per, ReportBy
from extender.objects.meta import write_timestamp

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_DURATION = re.compile(r"([0-9]{1,9})([smhdw])", re.ASCII)
_WHEN = "a duration ago such as 12h or 7d, a date such as 2026-11-20, or a time such as 2026-11-20T09:30"

_COLUMNS = (
    Column("GANG"),
    Column("OUTCOME"),
    Column("ENDED"),
    Column("WAITED", right=True),
    Column("RAN", right=True),
    Column("GPUS", right=True),
    Column("GPU-HOURS", right=True),
    Column("QUEUE"),
    Column("EVICTED", right=True),
    Column("REASON"),
)
_WIDE = (
    *_COLUMNS[:2],
    Column("CREATED"),
    Column("STARTED"),
    *_COLUMNS[2:7],
    Column("RESERVED", right=True),
    Column("LOST", right=True),
    *_COLUMNS[7:8],
    Column("USER"),
    Column("OWNER"),
    Column("PRIORITY", right=True),
    *_COLUMNS[8:9],
    Column("BY"),
    Column("NODES"),
    Column("REASON"),
)

_HISTORY_EPILOG = (
    "Examples: `muster history --since 7d`; `muster history -A --outcome Evicted -o wide`; "
    "`muster history -A --queue research --since 2026-11-01 --until 2026-12-01 --limit 1000 -o csv > november.csv`."
)
_REPORT_EPILOG = (
    "Examples: `muster report --since 7d` tells who used what last week; "
    "`muster report --by namespace --per month --since 2026-01-01 --price 2.40 -o csv > chargeback.csv`; "
    "`muster report --since 7d --price 2.40 -o html > week.html`."
)

Since = Annotated[str | None, typer.Option(metavar="WHEN", help=f"From then on: {_WHEN}.")]
Until = Annotated[str | None, typer.Option(metavar="WHEN", help="Up to then, in the same forms. Default: now.")]
Namespace = Annotated[str | None, typer.Option("--namespace", "-n", help="Only gangs of this namespace.")]
Queue = Annotated[str | None, typer.Option(help="Only gangs of this Queue.")]
User = Annotated[str | None, typer.Option(help="Only gangs of this user, by the label that history_user_label names.")]

_HTML: Final = "html"


@dataclass(frozen=True, slots=True)
class ReportOptions(ListOptions):
    """What a report takes: the options of lists, with a page among the formats."""

    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FORMAT",
            help="table, json, yaml, csv, jsonpath=TEMPLATE, custom-columns=HEADING:PATH,... or html: a page with "
            "curves that loads nothing from elsewhere.",
        ),
    ] = "table"


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command(epilog=_HISTORY_EPILOG)(history)
    app.command(epilog=_REPORT_EPILOG)(report)


def history(  # noqa: PLR0913 - one parameter per option
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAMESPACE/]NAME", help="Only gangs of this name; of NAME*, that begin so.", show_default=False
        ),
    ] = None,
    *,
    scope: Scope,
    queue: Queue = None,
    user: User = None,
    node: Annotated[str | None, typer.Option(help="Only gangs that were on this node.")] = None,
    outcome: Annotated[
        str | None,
        typer.Option(
            metavar="OUTCOME",
            help="Only gangs that ended so: Succeeded, Failed, Evicted, Deleted; Running: not ended yet.",
        ),
    ] = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="How many of the latest.")] = 100,
    options: ListOptions,
    connection: Connection,
) -> None:
    """List the gangs that ended, the latest last: how long they waited and ran, on what, and what was lost.

    EVICTED counts how often Muster evicted members, REASON is why the gang last waited. Muster keeps a history where
    the setting history_store says so. Exit codes: 0 listed, also if there are none; 1 Muster cannot be asked, or keeps
    no history; 2 refused arguments.
    """
    with refusals("history"):
        [key] = scope.keys([name.removesuffix("*")], connection) if name else [scope.chosen(connection)]
    own, _, last = (key or "").partition("/")
    wanted = {
        "namespace": own or None,
        "prefix" if name and name.endswith("*") else "name": last or None,
        "queue": queue,
        "user": user,
        "node": node,
        "outcome": outcome and outcome.capitalize(),
    }
    asked = wanted | {"since": _time("history", since), "until": _time("history", until), "limit": limit}
    said = "".join(f", {what} {value}" for what, value in wanted.items() if value)
    listing = Listing(
        "history",
        with_query("/api/v1/history", asked),
        HistoryDocument,
        "gangs",
        HistoryRow,
        lambda row: f"{row.namespace}/{row.name}",
        lambda wide: _WIDE if wide else _COLUMNS,
        lambda _, rows, wide: ((row, _cells(row, wide=wide)) for row in rows),
        nothing=f"no gangs{said}" + ("; -A lists those of all namespaces" if own and not last else ""),
        backwards=True,
        past=True,
        identity=lambda row: row.uid,
    )
    found = run(listing, options, connection).document
    if found.next is not None:
        told = f"--until {found.gangs[-1].ended or found.gangs[-1].created}, or --limit" if found.gangs else "--until"
        note(f"older ones are left out: {told}")


def report(  # noqa: PLR0913 - one parameter per option
    *,
    by: Annotated[ReportBy, typer.Option(help="What to tell apart.")] = ReportBy.QUEUE,
    per: Annotated[Per, typer.Option(help="How long the periods are.")] = Per.WEEK,
    since: Since = "30d",
    until: Until = None,
    zone: Annotated[
        str, typer.Option(help="In which time zone days begin, by its IANA name, such as Europe/Berlin.")
    ] = "UTC",
    price: Annotated[float | None, typer.Option(min=0, help="What a GPU-hour costs: adds the cost.")] = None,
    namespace: Namespace = None,
    queue: Queue = None,
    user: User = None,
    options: ReportOptions,
    connection: Connection,
) -> None:
    """Say who used how many GPU-hours in each day, week or month, and what share of the cluster that is.

    It is about all namespaces unless -n names one. LOST is the part of USED whose work was lost with evictions;
    RESERVED was kept for pods that were not bound yet. SHARE is USED and RESERVED of what the cluster had. COST is USED
    times the price.

    Exit codes: 0 printed, also if there is nothing; 1 Muster cannot be asked, or keeps no history; 2 refused arguments.
    """
    asked = {
        "by": by.value,
        "per": per.value,
        "since": _time("report", since),
        "until": _time("report", until),
        "zone": zone,
        "price": None if price is None else f"{price:g}",
        "namespace": namespace,
        "queue": queue,
        "user": user,
    }
    if options.output.removeprefix("=") == _HTML:
        give(_page(connection, asked), nl=False)
        return
    headings = ["USED", "RESERVED", "LOST", "SHARE"] + ([] if price is None else ["COST"])
    columns = [Column("PERIOD"), Column(by.upper()), *(Column(heading, right=True) for heading in headings)]
    listing = Listing(
        "report",
        with_query("/api/v1/report", asked),
        ReportDocument,
        "rows",
        ReportRow,
        lambda row: row.key,
        lambda _: columns,
        lambda _, rows, __: ((row, _figures(row)) for row in rows),
        nothing="nothing was used",
        past=True,
        identity=lambda row: f"{row.period} {row.key}",
    )
    run(listing, options, connection)


def _figures(row: ReportRow) -> list[Cell]:
    hours = (f"{hours:,.1f}" for hours in (row.used, row.reserved, row.lost))
    cost = [] if row.cost is None else [f"{row.cost:,.2f}"]
    return [row.period, row.key or "-", *hours, f"{row.share:.1%}", *cost]


def _page(connection: Connection, asked: dict[str, str | None]) -> str:
    """Ask for what a page tells, by queue, namespace and user, and return it."""
    reports = [
        answered("report", connection, with_query("/api/v1/report", asked | {"by": by}), ReportDocument)[1]
        for by in ReportBy
    ]
    limits = {name: asked[name] for name in ("namespace", "queue", "user")}
    asked = {name: asked[name] for name in ("by", "since", "until")} | limits
    _, course = answered("report", connection, with_query("/api/v1/curves", asked), CurvesDocument)
    about = ", ".join(f"{name} {value}" for name, value in limits.items() if value)
    zone = reports[0].zone
    return report_page(reports, course, about, dt.UTC if zone == "UTC" else ZoneInfo(zone))


def _cells(row: HistoryRow, *, wide: bool) -> list[Cell]:
    spent = row.gpu_seconds
    reason = ": ".join(part for part in (row.reason, row.message if wide else "") if part)
    cells: list[Cell] = [
        f"{row.namespace}/{row.name}",
        row.outcome,
        local_time(row.ended),
        duration(row.waited_seconds),
        duration(row.ran_seconds),
        str(row.gpus),
        _hours(spent.used),
        row.queue or "-",
        str(row.evictions),
        reason or "-",
    ]
    if not wide:
        return cells
    return [
        *cells[:2],
        local_time(row.created),
        local_time(row.started),
        *cells[2:7],
        _hours(spent.reserved),
        _hours(spent.lost),
        cells[7],
        row.user or "-",
        row.owner or "-",
        str(row.priority),
        cells[8],
        " for ".join(part for part in (row.evicted, row.evicted_by) if part) or "-",
        row.nodes or "-",
        cells[9],
    ]


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:,.1f}"


def _time(command: str, text: str | None) -> str | None:
    """Return a moment as Muster is asked for it; end the command for what is none."""
    if text is None:
        return None
    moment = moment_of(text, SystemClock().now())
    if moment is None:
        note(f"muster {command}: {text!r} is not {_WHEN}")
        raise typer.Exit(EXIT_USAGE)
    return write_timestamp(moment)


def moment_of(text: str, now: dt.datetime) -> dt.datetime | None:
    """Return the moment that a duration before now, a date or a time of the reader's means, None for no such text."""
    found = _DURATION.fullmatch(text)
    try:
        if found is not None:
            return now - dt.timedelta(seconds=int(found[1]) * _UNITS[found[2]])
        return dt.datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        return None
