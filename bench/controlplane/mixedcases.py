"""Cases in which a mix of single pods and gangs arrives little by little: how long each waits until it is bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import uvloop

from bench.controlplane import comparison
from bench.controlplane.arrivals import Mix, Stream, stream
from bench.controlplane.cases import AROUND_A_RUN_SECONDS, in_turns, start_seconds, tell
from bench.controlplane.contenders import Contender
from bench.controlplane.fill import Fill
from bench.controlplane.progress import Progress
from bench.controlplane.stage import Arena
from bench.figures import Figure, of_repeats

MUSTER = Contender.MUSTER
#: What arrives, and the percentiles of its waits.
KINDS: Mapping[str, Callable[[Stream], Sequence[float]]] = {
    "single": lambda stream: stream.singles,
    "gang": lambda stream: stream.gangs,
}
RANKS = (50, 99)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """A mix that arrives while several contenders place it, one after the other in each repeat.

    `bounds` are how much longer than with a rival a single pod may wait with Muster at the median, in milliseconds.
    """

    name: str
    nodes: int
    mix: Mix
    contenders: Sequence[Contender]
    bounds: Mapping[Contender, float]
    fill: Fill = Fill.EMPTY

    @property
    def title(self) -> str:
        """Return what people call it."""
        return f"{self.mix.title}, on {self.nodes:,} nodes, {self.fill.label}"

    @property
    def occupied(self) -> int:
        """Return how many nodes are taken from the beginning on."""
        return self.fill.occupied(self.nodes, self.mix.least_nodes)

    def seconds(self, repeats: int) -> float:
        """Return about how long it takes."""
        return start_seconds(self.nodes, self.occupied) + repeats * len(self.contenders) * self._run_seconds

    def measure(self, arena: Arena, repeats: int, progress: Progress) -> list[Figure]:
        """Measure all contenders so many times, in turns."""

        def run(contender: Contender, title: str) -> Stream:
            progress.step(title, self._run_seconds)
            found = uvloop.run(self._run(arena, contender))
            tell(found.run, progress)
            waits = (f"{kind} {', '.join(f'{ms:.0f}' for ms in percentiles(of(found)))}" for kind, of in KINDS.items())
            progress.say(f"  p50 and p99 in ms: {'; '.join(waits)}")
            return found

        return self.figures(in_turns(self.name, self.contenders, repeats, run))

    def figures(self, repeats: Sequence[Mapping[Contender, Stream]]) -> list[Figure]:
        """Return everything that was found in the repeats."""
        runs = [{contender: found.run for contender, found in repeat.items()} for repeat in repeats]
        return [
            *self._waits(repeats),
            *comparison.processor_time(self.name, runs),
            *comparison.writes(self.name, runs),
            *comparison.attempts(self.name, runs),
            *comparison.work(self.name, runs),
            *comparison.disturbance(self.name, runs),
        ]

    def _waits(self, repeats: Sequence[Mapping[Contender, Stream]]) -> Iterator[Figure]:
        """Yield each percentile of each kind by contender, Muster's beyond each rival's, and how late arrivals were.

        A difference is taken within a repeat.
        """
        for kind, of in KINDS.items():
            found = {
                contender: np.array([percentiles(of(repeat[contender])) for repeat in repeats])
                for contender in repeats[0]
            }
            for column, rank in enumerate(RANKS):
                for contender, waits in found.items():
                    yield of_repeats(f"{self.name}_{contender}_{kind}_p{rank}_ms", "ms", waits[:, column].tolist())
                for rival, waits in found.items():
                    if rival is MUSTER or MUSTER not in found:
                        continue
                    beyond = (found[MUSTER] - waits)[:, column].tolist()
                    bound = self.bounds.get(rival) if (kind, rank) == ("single", 50) else None
                    yield of_repeats(f"{self.name}_{kind}_p{rank}_over_{rival}_ms", "ms", beyond, bound=bound)
        for contender in repeats[0]:
            late = [percentiles(repeat[contender].late)[-1] for repeat in repeats]
            yield of_repeats(f"{self.name}_{contender}_arrival_late_p99_ms", "ms", late)

    async def _run(self, arena: Arena, contender: Contender) -> Stream:
        async with arena.stage(contender) as stage:
            return await stream(stage, self.mix)

    @property
    def _run_seconds(self) -> float:
        return AROUND_A_RUN_SECONDS + self.mix.seconds


def percentiles(seconds: Sequence[float]) -> list[float]:
    """Return each of RANKS, in milliseconds."""
    return [1000 * float(value) for value in np.percentile(seconds, RANKS)]
