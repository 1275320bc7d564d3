"""`muster queues`: the tree of Queues with quota, use, and what is borrowed and lent, asked of a running Muster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

import typer

from extender.cli.completing import queue_names
from extender.cli.connecting import Connection
from extender.cli.listing import Listing, ListOptions, run
from extender.cli.printing import Cell, Column, amount, bar
from extender.explain.documents import QueueRow, QueuesDocument, QuotaUse

_EPILOG = (
    "Examples: `muster queues`; `muster queues -o wide` has CPU and memory too, and shares; "
    "`muster queues research -w`; `muster queues --sort-by -pendingGangs`; "
    "`muster queues -o jsonpath='{.items[?(@.pendingGangs>0)].metadata.name}'`."
)
_BAR_CELLS = 12


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog=_EPILOG)(queues)


def queues(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Only these Queues.", show_default=False, autocompletion=queue_names),
    ] = None,
    *,
    options: ListOptions,
    connection: Connection,
) -> None:
    """Show the tree of Queues: nominal quota, what of it is used, what is borrowed from others and lent to them.

    In the bar, full blocks are used quota, shaded ones borrowed, light ones lent; WAIT and RUN count gangs. Only GPUs
    and the like are listed where a Queue has them; with --sort-by there is no tree. With a NAME or -o wide there is
    what users and groups run that the Queue limits: those that use most, NOMINAL being their limit.

    Exit codes: 0 shown, also if there are none; 1 Muster cannot be asked; 2 refused arguments; 3 no such Queue.
    """
    flat = options.sort_by is not None
    listing = Listing(
        "queues",
        "/api/v1/queues",
        QueuesDocument,
        "queues",
        QueueRow,
        lambda row: row.name,
        lambda wide: _columns(wide=wide),
        lambda _, rows, wide: _rows(
            [("", row) for row in rows] if flat else tree(rows), wide=wide, payers=wide or bool(names)
        ),
        nothing="no Queues: gangs are ordered by priority and age alone (docs/queues.md)",
        names=names or (),
    )
    run(listing, options, connection)


def tree(found: Sequence[QueueRow]) -> Iterator[tuple[str, QueueRow]]:
    """Yield each queue with the lines that draw its place in the tree, parents before children, by name.

    A queue whose parent is not there stands by itself, and so do queues that are their own ancestors.
    """
    from extender.objects.text import natural_key

    ordered = sorted(found, key=lambda queue: natural_key(queue.name))
    names = {queue.name for queue in ordered}
    seen: set[str] = set()

    def under(queue: QueueRow, lead: str, own: str) -> Iterator[tuple[str, QueueRow]]:
        seen.add(queue.name)
        yield own, queue
        children = [one for one in ordered if one.parent == queue.name and one.name not in seen]
        for place, child in enumerate(children, start=1):
            if child.name not in seen:
                elbow, rail = ("\u2514 ", "  ") if place == len(children) else ("\u251c ", "\u2502 ")
                yield from under(child, lead + rail, lead + elbow)

    for queue in ordered:
        if not queue.parent or queue.parent not in names:
            yield from under(queue, "", "")
    for queue in ordered:
        if queue.name not in seen:
            yield from under(queue, "", "")


def _columns(*, wide: bool) -> list[Column]:
    shown = [Column("QUEUE"), Column("RESOURCE"), Column("USE")]
    shown += [Column(name, right=True) for name in ("USED", "NOMINAL", "BORROWED", "LENT")]
    if wide:
        shown += [Column("RESERVED", right=True), Column("FLAVOR"), Column("SHARE", right=True)]
    shown += [Column("WAIT", right=True), Column("RUN", right=True), Column("STATE")]
    return [*shown, Column("MESSAGE")] if wide else shown


def _rows(found: Iterable[tuple[str, QueueRow]], *, wide: bool, payers: bool) -> Iterator[tuple[QueueRow, list[Cell]]]:
    for lead, queue in found:
        every = queue.flavors
        devices = [use for use in every if "/" in use.resource]
        uses = every if wide else devices or every
        state = "" if queue.active else queue.reason or "Inactive"
        gangs = [str(queue.pending_gangs), str(queue.admitted_gangs), state]
        said = [queue.message] if wide else []
        name = lead + queue.name
        for use in uses or (None,):
            more = [*_reserved(use), f"{queue.share:.2f}"] if wide else []
            yield queue, [name, *_use(use), *more, *gangs, *said]
            name, gangs, said = " " * len(lead), ["", "", ""], said and [""]
        for each in queue.running if payers else ():
            who = f"{each.kind} {each.name or '(no label)'}"
            for what, used, most in (("GPUs", each.gpus, each.most_gpus), ("gangs", each.gangs, each.most_gangs)):
                drawn = "" if most is None else bar([(used, "\u2588", "green")], max(most, used), _BAR_CELLS)
                cells = [f"{who}: {what}", drawn, str(used), "-" if most is None else str(most), "-", "-"]
                yield queue, [name, *cells, *(["-"] * 3 if wide else []), *gangs, *said]


def _reserved(use: QuotaUse | None) -> tuple[str, str]:
    """Return the cells of what of it is reserved for pods that are not bound yet, and of the flavor."""
    return ("-", "-") if use is None else (amount(use.resource, use.reserved), use.name)


def _use(use: QuotaUse | None) -> list[Cell]:
    """Return the cells of what is used of one resource."""
    if use is None:
        return ["-", "", "-", "-", "-", "-"]
    own = max(use.used - use.borrowed, 0)
    parts = [(own, "\u2588", "green"), (use.lent, "\u2591", "blue"), (use.borrowed, "\u2593", "yellow")]
    drawn = bar(parts, max(use.nominal, own + use.lent + use.borrowed), _BAR_CELLS)
    return [
        use.resource,
        drawn,
        *(amount(use.resource, each) for each in (use.used, use.nominal, use.borrowed, use.lent)),
    ]
