"""Who holds which GPUs, drawn for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from muster_lab.simulation.accounting import SECONDS_PER_HOUR, GpuSeconds
from muster_lab.simulation.notation import format_duration
from muster_lab.simulation.timeline import TimelinePoint

#: What a gang does, as a colour.
_STYLES = {"idle": "yellow", "init": "cyan", "productive": "green", "waits": "dim", "finished": "blue"}
_WORDS = {
    "idle": "holds {held} GPUs, idle: waits for the rest",
    "init": "holds {held} GPUs, rendezvous",
    "productive": "holds {held} GPUs, trains",
    "waits": "waits, holds nothing",
    "finished": "finished",
}
#: How many gangs are listed at most.
_MOST_GANGS = 12


@dataclass(frozen=True, slots=True)
class Side:
    """One of several worlds shown side by side.

    `capacity` is how many GPUs each node has, `price` what an hour of one costs (dollars).
    """

    title: str
    moments: Sequence[TimelinePoint]
    capacity: Mapping[str, int]
    price: float

    def at(self, when: float) -> TimelinePoint:
        """Return how things stood at `when` (seconds since the start)."""
        return next((moment for moment in reversed(self.moments) if moment.at <= when), self.moments[0])


def draw(sides: Iterable[Side], when: float) -> RenderableType:
    """Draw all sides as they stood at `when`, with what each had spent by then."""
    panels = [draw_world(side, side.at(when), when) for side in sides]
    return Group(Text(f"t = {format_duration(round(when))}", style="bold"), Columns(panels, equal=True, expand=True))


def draw_world(side: Side, moment: TimelinePoint, when: float) -> RenderableType:
    """Draw one world: a row of cells per node, a line per gang, the totals."""
    letters = {gang: chr(ord("A") + index % 26) for index, gang in enumerate(sorted(moment.doing))}
    nodes = Table.grid(padding=(0, 1))
    for node, capacity in side.capacity.items():
        row = Text()
        free = capacity
        for gang, held in sorted(moment.held.get(node, {}).items()):
            row.append(letters[gang] * held, style=f"bold {_STYLES[moment.doing[gang]]}")
            free -= held
        row.append("·" * max(free, 0), style="dim")
        nodes.add_row(node, row)
    lines = [
        Text.assemble(
            (f"{letters[gang]} {gang.removeprefix('default/')}: ", "bold"), (_words(moment, gang), _STYLES[state])
        )
        for gang, state in moment.doing.items()
    ]
    if len(lines) > _MOST_GANGS:
        lines = [*lines[:_MOST_GANGS], Text(f"and {len(lines) - _MOST_GANGS} more", style="dim")]
    return Panel(Group(nodes, Text(), *lines, Text(), _totals(moment.spent_by(when), side.price)), title=side.title)


def describe(side: Side) -> list[str]:
    """Return a line for every moment at which something changed: what each gang does from then on."""
    lines = []
    before: dict[str, str] = {}
    for moment in side.moments:
        now = {gang: _words(moment, gang) for gang in moment.doing}
        changed = [
            f"{gang.removeprefix('default/')} {words}" for gang, words in now.items() if before.get(gang) != words
        ]
        if changed:
            lines.append(f"{format_duration(moment.at):>8}  {'; '.join(changed)}")
        before = now
    return lines


def _words(moment: TimelinePoint, gang: str) -> str:
    return _WORDS[moment.doing[gang]].format(held=moment.holds(gang))


def _totals(spent: GpuSeconds, price: float) -> Text:
    productive, idle, init = (seconds / SECONDS_PER_HOUR for seconds in (spent.productive, spent.idle, spent.init))
    return Text.assemble(
        ("productive ", "dim"), (f"{productive:.2f} GPU-h", "green"),
        ("  rendezvous ", "dim"), (f"${init * price:.2f}", "cyan"),
        ("  idle ", "dim"), (f"{idle:.2f} GPU-h, ${idle * price:.2f} wasted", "yellow"),
    )  # fmt: skip
