"""What a case is; and those in which several contenders place a workload that comes at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import uvloop

from bench.controlplane import comparison
from bench.controlplane.comparison import Repeat
from bench.controlplane.contenders import Contender
from bench.controlplane.fill import Fill
from bench.controlplane.progress import QUIET_PROCESSORS, Progress
from bench.controlplane.runs import Run, place
from bench.controlplane.stage import Arena
from bench.controlplane.workload import Workload
from bench.figures import Figure

Found = TypeVar("Found")

#: Seconds to start a contender, let it warm up and rest, and clean up after it.
AROUND_A_RUN_SECONDS = 6.0


def start_seconds(nodes: int, occupied: int = 0) -> float:
    """Return about how long it takes to start a control plane with so many nodes, and so many of them taken."""
    return 10.0 + nodes / 1000 + occupied / 400


class Case(Protocol):
    """One thing to measure on a control plane of its own."""

    @property
    def title(self) -> str:
        """Return what it measures, for people."""

    @property
    def nodes(self) -> int:
        """Return how many nodes it needs."""

    @property
    def occupied(self) -> int:
        """Return how many of them are taken from the beginning on."""

    def seconds(self, repeats: int) -> float:
        """Return about how long it takes."""

    def measure(self, arena: Arena, repeats: int, progress: Progress) -> list[Figure]:
        """Measure it so many times."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A workload that several contenders place, one after the other in each repeat.

    `contenders` are told with about how many seconds each takes. `bounds` are those of Muster's time as a part of a
    rival's, `cpu_bound` is that of Muster's own processor time (ms for each pod), `filter_bound` that of filter calls
    for each pod.
    """

    name: str
    nodes: int
    workload: Workload
    contenders: Mapping[Contender, float]
    fill: Fill = Fill.EMPTY
    bounds: Mapping[Contender, float] = field(default_factory=dict)
    cpu_bound: float | None = None
    filter_bound: float | None = None

    @property
    def title(self) -> str:
        """Return what people call it."""
        return f"{self.workload.title} on {self.nodes:,} nodes, {self.fill.label}"

    @property
    def occupied(self) -> int:
        """Return how many nodes are taken from the beginning on."""
        return self.fill.occupied(self.nodes, self.workload.least_nodes)

    def seconds(self, repeats: int) -> float:
        """Return about how long it takes."""
        return start_seconds(self.nodes, self.occupied) + repeats * sum(map(self._run_seconds, self.contenders))

    def measure(self, arena: Arena, repeats: int, progress: Progress) -> list[Figure]:
        """Measure all contenders so many times, in turns: what the machine does meanwhile hits all of them."""

        def run(contender: Contender, title: str) -> Run:
            progress.step(title, self._run_seconds(contender))
            found = uvloop.run(self._run(arena, contender))
            tell(found, progress)
            return found

        return self.figures(in_turns(self.name, self.contenders, repeats, run))

    def figures(self, repeats: Sequence[Repeat]) -> list[Figure]:
        """Return everything that was found in the repeats."""
        return [
            *comparison.ratios(self.name, repeats, self.bounds),
            *comparison.times(self.name, repeats),
            *comparison.processor_time(self.name, repeats, self.cpu_bound),
            *comparison.writes(self.name, repeats),
            *comparison.attempts(self.name, repeats),
            *comparison.phases(self.name, repeats),
            *comparison.work(self.name, repeats, filter_bound=self.filter_bound),
            *comparison.disturbance(self.name, repeats),
        ]

    async def _run(self, arena: Arena, contender: Contender) -> Run:
        async with arena.stage(contender) as stage:
            return await place(stage, self.workload)

    def _run_seconds(self, contender: Contender) -> float:
        return AROUND_A_RUN_SECONDS + self.contenders[contender]


def in_turns(
    name: str, contenders: Iterable[Contender], repeats: int, run: Callable[[Contender, str], Found]
) -> list[dict[Contender, Found]]:
    """Run each contender once in each repeat, and return what was found.

    Another one comes first in each repeat, so that none has always the fresher API server. `run` is given a title, too.
    """
    found: list[dict[Contender, Found]] = []
    for number in range(repeats):
        order = [*contenders]
        ahead = number % len(order)
        order = order[ahead:] + order[:ahead]
        title = f"{name} {number + 1} of {repeats}"
        found.append({contender: run(contender, f"{title}: {contender}") for contender in order})
    return found


def tell(run: Run, progress: Progress) -> None:
    """Say how a run went, and warn if others took much of the processors meanwhile."""
    spent = run.spent
    costs = ", ".join(f"{name} {1000 * seconds / run.pods:.1f}" for name, seconds in spent.cpu.items())
    progress.say(
        f"  {run.pods} pods bound in {run.seconds:.2f} s, {run.pods / run.seconds:.0f} a second;"
        f" CPU ms a pod: {costs}; {sum(spent.writes.values()) / run.pods:.2f} writes a pod"
    )
    if spent.elsewhere > QUIET_PROCESSORS:
        progress.say(
            f"warning: others kept {spent.elsewhere:.2f} processors busy meanwhile; times need a quiet machine"
        )
