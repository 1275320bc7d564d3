"""What it costs to say when each gang that waits will start, in one process: gathering, a near look, and all of it."""

from __future__ import annotations

import time
from dataclasses import replace
from random import Random

from bench.figures import Figure, of_repeats
from bench.options import Options, Say
from bench.placement import add_gang, gpu_nodes, worker, workers
from extender.admission.engine import Engine
from extender.admission.events import Decide, NodeSeen, Rebuild
from extender.clock import SystemClock
from extender.explain.forecast import Forecast
from extender.explain.foresight import Foresight, foresee
from extender.explain.runtimes import LearnedRuntimes
from extender.objects import keys
from extender.settings import Settings

#: Nodes, gangs that wait, and kinds of these.
_NODES, _WAITING, _KINDS = 5_000, 10_000, 30
#: In a short measurement one part in so many of each.
_SHORT = 50
#: The processor time of a near look (seconds).
_NEAR_SECONDS = 2.0
_DAY = 86_400.0


class Line:
    """A full cluster of gangs that end within a day, and a line of gangs of several kinds, all of declared runtimes."""

    def __init__(self, part: int) -> None:
        """Fill the engine; of everything there is one part in `part`."""
        random, clock = Random(7), SystemClock()
        self.now = clock.now().timestamp()
        self.engine = Engine(Settings(), clock)
        nodes = _NODES // part
        for node in gpu_nodes(nodes):
            self.engine.apply(NodeSeen(node))
        for number in range(nodes // 2):
            self._run(f"running-{number:06}", number, 600.0 + random.random() * _DAY)
        kinds = [
            (random.choice((1, 2, 4, 8, 16)), random.choice((1, 2, 4, 8)), 600.0 * random.randint(1, 100))
            for _ in range(_KINDS)
        ]
        for number in range(_WAITING // part):
            members, gpus, seconds = kinds[number % _KINDS]
            name = f"waiting-{number:06}"
            add_gang(self.engine, name, workers(name, members, worker(gpus, 1_000)), _lasting(seconds))
        self.engine.apply(Rebuild())
        while self.engine.apply(Decide()).answer:
            pass

    def _run(self, name: str, number: int, seconds: float) -> None:
        pods = workers(name, 2, worker(8, 1_000))
        placed = [
            replace(pod, node_name=f"node-{2 * number + index}", started_at=self.now) for index, pod in enumerate(pods)
        ]
        add_gang(self.engine, name, placed, _lasting(seconds))

    def scene(self) -> Foresight:
        """Gather what a forecast is made of."""
        gathering = foresee(self.engine.admission, LearnedRuntimes(), self.now)
        while True:
            try:
                next(gathering)
            except StopIteration as done:
                found: Foresight = done.value
                return found


def _lasting(seconds: float) -> keys.Options:
    return keys.Options(expected_duration=seconds)


def _look(scene: Foresight, most_seconds: float) -> tuple[float, Forecast]:
    """Look ahead for so much processor time at most; return what it took, and what came of it."""
    began, forecast = time.process_time(), Forecast(scene)
    for _ in forecast.steps():
        if time.process_time() - began > most_seconds:
            break
    forecast.conclude()
    return time.process_time() - began, forecast


def measure(options: Options, say: Say) -> list[Figure]:
    """Measure gathering, a near look and a complete one; seconds of the processor."""
    found: dict[str, list[float]] = {}
    for number in range(repeats := options.repeats or 1):
        say(f"forecast: round {number + 1} of {repeats}")
        line = Line(_SHORT if options.short else 1)
        began = time.process_time()
        scene = line.scene()
        found.setdefault("gathering", []).append(time.process_time() - began)
        took, near = _look(scene, _NEAR_SECONDS)
        found.setdefault("near_look", []).append(took)
        told = sum(1 for prospect in near.prospects.values() if prospect.at)
        say(f"forecast: a near look tells the start of {told} of {len(near.prospects)} gangs")
        took, _ = _look(line.scene(), float("inf"))
        found.setdefault("all", []).append(took)
    return [of_repeats(f"forecast_s_{name}", "s", took) for name, took in found.items()]
