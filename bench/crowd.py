"""What a decision costs beside pods that wait, in one process: they may be a hundred times as many as what starts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

from bench.figures import Figure, of_repeats
from bench.options import Options, Say
from bench.placement import add_gang, gpu_nodes, worker, workers
from extender.admission.engine import Engine
from extender.admission.events import Decide, NodeSeen, Rebuild
from extender.clock import SystemClock
from extender.settings import Settings

#: Nodes, all GPUs of which are taken, and gangs that come one after the other and want none.
_NODES, _NEWCOMERS = 512, 60
#: Pods that wait, and whether they are alike; in a short measurement one in so many.
_CROWDS, _SHORT = ((0, True), (1, True), (2_000, True), (20_000, True), (2_000, False)), 50


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


def decisions(engine: Engine) -> Iterator[float]:
    """Yield the processor time of each decision (seconds): from a gang's last pod until its nodes are promised."""
    for number in range(_NEWCOMERS):
        name = f"newcomer-{number}"
        pods = workers(name, 4, worker(0, 10))
        began = time.process_time()
        add_gang(engine, name, pods)
        while engine.admission.reservations.ledger.of_gang(f"uid-{name}") is None:
            engine.apply(Decide())
        yield time.process_time() - began
        _settle(engine)


def measure(options: Options, say: Say) -> list[Figure]:
    """Measure decisions beside crowds; milliseconds of the processor."""
    figures = []
    for waiting, alike in _CROWDS:
        crowd = -(-waiting // _SHORT) if options.short else waiting
        say(f"crowd: beside {crowd} pods that wait, {'alike' if alike else 'each of another size'}")
        took = [1000 * each for each in decisions(full_cluster(crowd, alike=alike))]
        figures.append(of_repeats(f"crowd_ms_beside_{waiting}{'' if alike else '_sizes'}", "ms", took))
    return figures
