"""What a decision costs beside pods that wait, in one process: they may be a hundred times as many as what starts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from bench.figures import Figure, of_repeats
from bench.options import Options, Say
from bench.placement import add_gang, gpu_nodes, worker, workers
from extender.admission.engine import Engine
from extender.admission.events import Decide, NodeSeen, PodGone, Rebuild
from extender.clock import SystemClock
from extender.objects.pod import Pod
from extender.settings import Settings

#: Nodes, all GPUs of which are taken, and gangs that come one after the other and want none. They are younger than all
#: that wait: their names say so.
_NODES, _NEWCOMERS, _YOUNGEST = 512, 60, "younger"


@dataclass(frozen=True, slots=True)
class Crowd:
    """How many pods wait, whether they are `alike`, and whether another gang ends whenever one comes."""

    waiting: int
    alike: bool = True
    ending: bool = False

    @property
    def name(self) -> str:
        """Return what a figure about it is called."""
        return f"crowd_ms_beside_{self.waiting}{'' if self.alike else '_sizes'}{'_and_ends' if self.ending else ''}"


#: What is measured; in a short measurement one pod in so many.
_CROWDS: tuple[Crowd, ...] = (
    *(Crowd(waiting) for waiting in (0, 1, 2_000, 20_000)),
    Crowd(2_000, alike=False),
    Crowd(1, ending=True),
    Crowd(2_000, alike=False, ending=True),
)
_SHORT = 50


def full_cluster(waiting: int, *, alike: bool) -> Engine:
    """Return an engine with so many pods that wait for a node's GPUs, `alike` or each of a size of its own."""
    engine = Engine(Settings(), SystemClock())
    for node in gpu_nodes(_NODES):
        engine.apply(NodeSeen(node))
    pods = workers("running", _NODES, worker(8, 1_000))
    add_gang(engine, "running", [replace(pod, node_name=f"node-{at}") for at, pod in enumerate(pods)])
    for number in range(waiting):
        add_gang(engine, f"waiting-{number}", workers(f"waiting-{number}", 1, worker(8, 1_000 + (not alike) * number)))
    engine.apply(Rebuild())
    _settle(engine)
    return engine


def _settle(engine: Engine) -> None:
    while engine.apply(Decide()).answer:
        pass


def decisions(engine: Engine, *, ending: bool = False) -> Iterator[float]:
    """Yield the processor time of each decision (seconds): from a gang's last pod until its nodes are promised.

    With `ending` the gang before it ends at the same time.
    """
    before: list[Pod] = []
    for number in range(_NEWCOMERS):
        name = f"{_YOUNGEST}-{number}"
        pods = workers(name, 4, worker(0, 10))
        began = time.process_time()
        for pod in before if ending else ():
            engine.apply(PodGone(pod.uid))
        add_gang(engine, name, pods)
        while engine.admission.reservations.ledger.of_gang(f"uid-{name}") is None:
            engine.apply(Decide())
        yield time.process_time() - began
        _settle(engine)
        before = pods


def measure(options: Options, say: Say) -> list[Figure]:
    """Measure decisions beside crowds; milliseconds of the processor."""
    figures = []
    for crowd in _CROWDS:
        waiting = -(-crowd.waiting // _SHORT) if options.short else crowd.waiting
        ends = ", while others end" if crowd.ending else ""
        say(f"crowd: beside {waiting} pods that wait, {'alike' if crowd.alike else 'each of another size'}{ends}")
        engine = full_cluster(waiting, alike=crowd.alike)
        took = [1000 * each for each in decisions(engine, ending=crowd.ending)]
        figures.append(of_repeats(crowd.name, "ms", took))
    return figures
