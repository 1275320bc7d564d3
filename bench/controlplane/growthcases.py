"""Cases in which Muster alone places gangs of several sizes: what a pod costs must not grow with its gang."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import uvloop

from bench.controlplane import comparison
from bench.controlplane.cases import AROUND_A_RUN_SECONDS, start_seconds, tell
from bench.controlplane.contenders import Contender
from bench.controlplane.progress import Progress
from bench.controlplane.runs import Run, place
from bench.controlplane.stage import Arena, Stage
from bench.controlplane.workload import Workload
from bench.figures import Figure, of_repeats

#: Muster tells the longest turn of its event loop within the last 30 to 60 s: how often it is asked, in seconds.
_LONGEST_TURN, _LOOK_SECONDS = "muster_event_loop_longest_busy_seconds", 10.0


@dataclass(frozen=True, slots=True)
class Grown:
    """A run of Muster, and how long it computed in the longest turn of its event loop (seconds).

    That is of the run and of up to a minute before it, in which Muster started; `Work.busy_turns` are of the run alone.
    """

    run: Run
    longest_turn: float


@dataclass(frozen=True, slots=True)
class Growth:
    """Muster places one gang of each size in `sizes` in each repeat, with fresh processes; the first is what it costs.

    `cpu_bound` is that of Muster's processor time for each pod as a multiple of what it is in the first size,
    `turns_bound` how many turns of its event loop may take more than 10 ms. Bind calls are held for `hold_seconds`, as
    docs/operations.md says for gangs of thousands; by default as long as Muster does by default.
    """

    name: str
    nodes: int
    sizes: tuple[int, ...]
    seconds_per_pod: float
    cpu_bound: float | None = None
    turns_bound: float | None = None
    hold_seconds: int | None = None

    occupied: ClassVar[int] = 0

    @property
    def title(self) -> str:
        """Return what people call it."""
        sizes = " and ".join(Workload(1, size).title for size in self.sizes)
        return f"{sizes} on {self.nodes:,} nodes, Muster alone: CPU of each pod, long turns of the loop, answers 429"

    def seconds(self, repeats: int) -> float:
        """Return about how long it takes."""
        return start_seconds(self.nodes) + repeats * sum(map(self._run_seconds, self.sizes))

    def measure(self, arena: Arena, repeats: int, progress: Progress) -> list[Figure]:
        """Measure each size so many times, in turns."""
        return self.figures(
            [
                [
                    self._grown(arena, size, f"{self.name} {number} of {repeats}: {size}", progress)
                    for size in self.sizes
                ]
                for number in range(1, repeats + 1)
            ]
        )

    def figures(self, repeats: Sequence[Sequence[Grown]]) -> list[Figure]:
        """Return everything that was found: in each repeat one of each size."""
        return [figure for place, size in enumerate(self.sizes) for figure in self._of_size(place, size, repeats)]

    def _of_size(self, place: int, size: int, repeats: Sequence[Sequence[Grown]]) -> Iterator[Figure]:
        prefix, found = f"{self.name}_{size}", [repeat[place] for repeat in repeats]
        if place:
            growth = [_muster_ms(repeat[place].run) / _muster_ms(repeat[0].run) for repeat in repeats]
            yield of_repeats(f"{prefix}_cpu_growth", "ratio", growth, bound=self.cpu_bound)
        turns = [1000 * grown.longest_turn for grown in found]
        yield of_repeats(f"{prefix}_longest_turn_ms", "ms", turns)
        yield of_repeats(f"{prefix}_given_up", "writes", [grown.run.spent.work.given_up for grown in found])
        runs = [{Contender.MUSTER: grown.run} for grown in found]
        for figures in (comparison.times, comparison.processor_time, comparison.writes, comparison.attempts):
            yield from figures(prefix, runs)
        yield from comparison.phases(prefix, runs)
        yield from comparison.work(prefix, runs, turns_bound=self.turns_bound)
        yield from comparison.disturbance(prefix, runs)

    def _grown(self, arena: Arena, size: int, title: str, progress: Progress) -> Grown:
        progress.step(title, self._run_seconds(size))
        grown = uvloop.run(self._run(arena, size))
        tell(grown.run, progress)
        work = grown.run.spent.work
        progress.say(
            f"  {work.busy_turns:.0f} turns of the loop over 10 ms, the longest {1000 * grown.longest_turn:.1f} ms;"
            f" {grown.run.spent.refused:.0f} writes answered 429, {work.given_up:.0f} given up"
        )
        return grown

    async def _run(self, arena: Arena, size: int) -> Grown:
        async with arena.stage(Contender.MUSTER, self.hold_seconds) as stage:
            longest = [0.0]
            looking = asyncio.create_task(_look(stage, longest))
            try:
                run = await place(stage, Workload(1, size))
            finally:
                looking.cancel()
            return Grown(run, max(*longest, _longest_turn(stage)))

    def _run_seconds(self, size: int) -> float:
        return AROUND_A_RUN_SECONDS + size * self.seconds_per_pod


async def _look(stage: Stage, longest: list[float]) -> None:
    """Note the longest turn again and again."""
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        longest.append(await asyncio.to_thread(_longest_turn, stage))


def _longest_turn(stage: Stage) -> float:
    return stage.muster().sum(_LONGEST_TURN)


def _muster_ms(run: Run) -> float:
    """Return Muster's processor time for each pod (ms)."""
    return 1000 * run.spent.cpu[comparison.MUSTER_PROCESS] / run.pods
