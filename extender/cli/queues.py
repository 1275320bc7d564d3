"""`muster queues`: the tree of Queues with quota, use, and what is borrowed and lent, asked of a running Muster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from extender.cli.connecting import Connection, answered, connected
from extender.cli.printing import Cell, Column, Format, amount, bar, console, note, print_answer, show
from extender.explain.documents import QueueRow, QueuesDocument, QuotaUse

_EPILOG = (
    "Examples: `muster queues`; `muster queues -o wide` has CPU and memory too, and shares; "
    "`muster queues -o json | jq '.queues[] | select(.pendingGangs > 0) | .name'`."
)
_BAR_CELLS = 12


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog=_EPILOG)(connected(queues))


def queues(
    *,
    output: Annotated[Format, typer.Option("--output", "-o", help="How to print them.")] = Format.TABLE,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Leave out the headings.")] = False,
    connection: Connection,
) -> None:
    """Show the tree of Queues: nominal quota, what of it is used, what is borrowed from others and lent to them.

    In the bar, full blocks are used quota, shaded ones borrowed, light ones lent; WAIT and RUN count gangs. Only GPUs
    and the like are listed where a Queue has them. Exit codes: 0 shown, also if there are none; 1 Muster cannot be
    asked; 2 refused arguments.
    """
    body, answer = answered("queues", connection, "/api/v1/queues", QueuesDocument)
    if print_answer(body, output):
        return
    found = answer.queues
    if output is Format.NAME:
        for queue in found:
            typer.echo(queue.name)
    elif not found:
        note("no Queues: gangs are ordered by priority and age alone (docs/queues.md)")
    else:
        wide = output is Format.WIDE
        show(console(), _columns(wide=wide), _rows(found, wide=wide), headers=not no_headers)


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


def _rows(found: Sequence[QueueRow], *, wide: bool) -> Iterator[list[Cell]]:
    for lead, queue in tree(found):
        every = queue.flavors
        devices = [use for use in every if "/" in use.resource]
        uses = every if wide else devices or every
        state = "" if queue.active else queue.reason or "Inactive"
        gangs = [str(queue.pending_gangs), str(queue.admitted_gangs), state]
        said = [queue.message] if wide else []
        name = lead + queue.name
        for use in uses or (None,):
            more = [*_reserved(use), f"{queue.share:.2f}"] if wide else []
            yield [name, *_use(use), *more, *gangs, *said]
            name, gangs, said = " " * len(lead), ["", "", ""], said and [""]


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
