"""`muster queues`: the tree of Queues with quota, use, and what is borrowed and lent, asked of a running Muster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from extender.cli.connecting import Connection, asking, connected
from extender.cli.printing import Format, console, note, print_document

if TYPE_CHECKING:
    from extender.cli.tables import Cell, Column

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
    from extender.cli.documents import document
    from extender.cli.tables import show

    with asking("queues", connection) as muster:
        answer = document(muster, muster.get("/api/v1/queues"), "queues")
    if print_document(answer, output):
        return
    found = answer["queues"]
    if output is Format.NAME:
        for queue in found:
            typer.echo(queue["name"])
    elif not found:
        note("no Queues: gangs are judged by priority and age alone (docs/queues.md)")
    else:
        wide = output is Format.WIDE
        show(console(), _columns(wide=wide), _rows(found, wide=wide), headers=not no_headers)


def tree(found: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each queue with the lines that draw its place in the tree, parents before children, by name.

    A queue whose parent is not there stands by itself, and so do queues that are their own ancestors.
    """
    from extender.domain.names import natural_key

    ordered = sorted(found, key=lambda queue: natural_key(queue["name"]))
    names = {queue["name"] for queue in ordered}
    seen: set[str] = set()

    def under(queue: Mapping[str, Any], lead: str, own: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        seen.add(queue["name"])
        yield own, queue
        children = [one for one in ordered if one["parent"] == queue["name"] and one["name"] not in seen]
        for place, child in enumerate(children, start=1):
            if child["name"] not in seen:
                elbow, rail = ("\u2514 ", "  ") if place == len(children) else ("\u251c ", "\u2502 ")
                yield from under(child, lead + rail, lead + elbow)

    for queue in ordered:
        if not queue["parent"] or queue["parent"] not in names:
            yield from under(queue, "", "")
    for queue in ordered:
        if queue["name"] not in seen:
            yield from under(queue, "", "")


def _columns(*, wide: bool) -> list[Column]:
    from extender.cli.tables import Column

    shown = [Column("QUEUE"), Column("RESOURCE"), Column("USE")]
    shown += [Column(name, right=True) for name in ("USED", "NOMINAL", "BORROWED", "LENT")]
    if wide:
        shown += [Column("FLAVOR"), Column("SHARE", right=True)]
    shown += [Column("WAIT", right=True), Column("RUN", right=True), Column("STATE")]
    return [*shown, Column("MESSAGE")] if wide else shown


def _rows(found: Sequence[Mapping[str, Any]], *, wide: bool) -> Iterator[list[Cell]]:
    for lead, queue in tree(found):
        every = queue["flavors"]
        devices = [use for use in every if "/" in use["resource"]]
        uses = every if wide else devices or every
        state = "" if queue["active"] else queue["reason"] or "Inactive"
        gangs = [str(queue["pendingGangs"]), str(queue["admittedGangs"]), state]
        said = [queue["message"]] if wide else []
        name = lead + queue["name"]
        for use in uses or [None]:
            share = [use["name"] if use else "-", f"{queue['share']:.2f}"] if wide else []
            yield [name, *_use(use), *share, *gangs, *said]
            name, gangs, said = " " * len(lead), ["", "", ""], said and [""]


def _use(use: Mapping[str, Any] | None) -> list[Cell]:
    """Return the cells of what is used of one resource."""
    from extender.cli.amounts import amount
    from extender.cli.tables import bar

    if use is None:
        return ["-", "", "-", "-", "-", "-"]
    resource, nominal, used, borrowed, lent = (use[key] for key in ("resource", "nominal", "used", "borrowed", "lent"))
    own = max(used - borrowed, 0)
    parts = [(own, "\u2588", "green"), (lent, "\u2591", "blue"), (borrowed, "\u2593", "yellow")]
    drawn = bar(parts, max(nominal, own + lent + borrowed), _BAR_CELLS)
    return [resource, drawn, *(amount(resource, value) for value in (used, nominal, borrowed, lent))]
