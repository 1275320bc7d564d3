"""`muster watch`: the gangs live, as a screen on a terminal, as lines anywhere else."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

import typer
from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from extender.cli.connecting import Connection
from extender.cli.events import line
from extender.cli.following import Followed, News, StreamLost, following
from extender.cli.gangs import COLUMNS, gang_cells, members
from extender.cli.printing import cleaned, clock_time, console, lines, note, phase, with_local_times
from extender.cli.status import describe
from extender.clock import Clock, SystemClock
from extender.service.board.documents import GangRow

_EPILOG = (
    "Examples: `muster watch`; `muster watch --lines | tee gangs.log`. "
    "The dashboard shows the same in a browser (docs/dashboard.md)."
)
#: Lines of a screen for the latest decisions; a short screen has less.
_EVENT_LINES = 8


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog=_EPILOG)(watch)


def watch(
    *,
    lines: Annotated[
        bool, typer.Option("--lines", help="Print a line for every change, as is done where there is no terminal.")
    ] = False,
    connection: Connection,
) -> None:
    """Show gangs and decisions as they change, in all namespaces, until Ctrl-C.

    When Muster restarts, it is looked for again.

    Exit codes: 0 after Ctrl-C, 1 Muster cannot be asked to begin with, 2 refused arguments.
    """
    followed = Followed()
    shown = console()
    with following("watch", connection, followed) as news:
        if shown.is_terminal and not lines:
            screen(shown, followed, news, SystemClock())
        else:
            for line in changes(followed, news):
                shown.print(line)


def changes(followed: Followed, news: Iterable[News | StreamLost]) -> Iterator[Text]:
    """Yield a line for each gang whose phase or reason is another than before, and for each eviction and expiry."""
    before: dict[str, tuple[str, str]] = {}
    for one in news:
        if not isinstance(one, News):
            note(f"muster watch: {one.why}; trying again in {one.seconds:g} s")
            continue
        when = "" if followed.status is None else followed.status.time
        for name in one.gangs:
            row = followed.gangs.get(name)
            if row is None:
                before.pop(name, None)
                yield Text.assemble(_time(when), f"{'Gone':<10}  ", cleaned(name))
                continue
            state = row.phase, "" if row.reason is None else row.reason.code
            if before.get(name) != state:
                before[name] = state
                said = f"{name}  {_told(row)}".rstrip()
                padding = " " * (10 - len(row.phase) + 2)
                yield Text.assemble(_time(when), phase(row.phase), padding, cleaned(said))
        for event in one.events:
            if event.kind in {"evicted", "expired"}:
                yield line(event)


def _told(row: GangRow) -> str:
    """Return why a gang waits, or how much of it is there."""
    if row.reason is not None:
        return with_local_times(": ".join(part for part in (row.reason.code, row.reason.message) if part))
    return f"{members(row)} members, {row.gpus} GPUs"


def _time(when: str) -> str:
    return f"{clock_time(when)}  "


def screen(shown: Console, followed: Followed, news: Iterable[News | StreamLost], clock: Clock) -> None:
    """Keep a full screen up to date for as long as news come in."""
    from rich.live import Live

    with Live(console=shown, screen=True, auto_refresh=False) as live:
        for one in news:
            lost = "" if isinstance(one, News) else f"{one.why}; trying again in {one.seconds:g} s"
            page = picture(followed, clock.now(), shown.size.height, lost)
            live.update(Text("\n", no_wrap=True, overflow="ellipsis").join(page), refresh=True)


def picture(followed: Followed, now: dt.datetime, height: int, lost: str = "") -> list[Text]:
    """Return the lines of a screen: how things are, who waits, who runs, what was decided last; `height` at most."""
    head = list(describe(followed.status, wide=False)) if followed.status else [Text("waiting for Muster")]
    if lost:
        head = [Text("LOST  ", "bold red") + cleaned(lost), *head]
    decided = [line(event) for event in list(followed.events)[-min(_EVENT_LINES, max(height // 4, 1)) :]]
    room = height - len(head) - len(decided) - 2  # two blank lines
    waiting = [
        replace(followed.gangs[name], position=place)
        for place, name in enumerate(followed.order, start=1)
        if name in followed.gangs
    ]
    first = set(followed.order)
    rest = [replace(row, position=None) for name, row in followed.gangs.items() if name not in first]
    rest.sort(key=lambda row: row.started_at or row.since or "", reverse=True)
    lines = [*head, Text(), *_table([*waiting, *rest], now, room), Text(), *decided]
    return lines[:height]


def _table(rows: Sequence[GangRow], now: dt.datetime, room: int) -> list[Text]:
    """Return the gangs in so many lines, headings included, and how many others there are."""
    space = max(room - 1, 1)
    cut = rows if len(rows) <= space else rows[: space - 1]
    found = lines(COLUMNS, [gang_cells(row, now) for row in cut])
    more = len(rows) - len(cut)
    return [*found, Text(f"and {more} more", "dim")] if more else found
