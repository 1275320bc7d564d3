"""What takes long in one turn of the event loop, in one process: events, passes and looks at a large cluster."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

from bench.figures import Figure, of_repeats
from bench.options import Options, Say
from bench.placement import GPU, add_gang, gpu_nodes, worker, workers
from extender.admission.admission import Admission
from extender.admission.engine import Engine
from extender.admission.events import (
    Decide,
    Defragment,
    Filter,
    GroupGone,
    NodeSeen,
    PodSeen,
    QueueSeen,
    Rebuild,
    StandDown,
)
from extender.cli.interpreter import import_ahead
from extender.clock import SystemClock
from extender.control.exposition import expose
from extender.control.metrics import Metrics
from extender.explain.inquiry import inquire
from extender.explain.views import queue_reports
from extender.objects.podgroup import GroupRef
from extender.objects.queue import Flavor, Queue, Quota
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.placement.capacityview import PodSetRequest
from extender.settings import Settings

#: Nodes, pods that run, gangs that wait, members of the large gang, Queues.
_NODES, _RUNNING, _WAITING, _LARGE, _QUEUES = 5_000, 50_000, 5_000, 1_000, 10
#: In a short measurement one part in so many of each.
_SHORT = 50
_REPEATS = 3
_SIZE = 8


class Cluster:
    """A cluster of which nine nodes in ten are full, gangs that wait, and a large gang that fits in what is left."""

    def __init__(self, part: int) -> None:
        """Fill the engine of a cluster; of everything there is one part in `part`."""
        self.nodes, self.waiting, self.large = _NODES // part, _WAITING // part, _LARGE // part
        self.engine = Engine(Settings(), SystemClock())
        self._nodes = list(gpu_nodes(self.nodes))
        for node in self._nodes:
            self.engine.apply(NodeSeen(node))
        self._run(_RUNNING // part)
        for number in range(self.waiting):
            name = f"waiting-{number:06}"
            add_gang(self.engine, name, workers(name, 4, worker(2 * _SIZE, 1_000)))
        add_gang(self.engine, "large", workers("large", self.large, worker(1, 1_000)))

    def _run(self, pods: int) -> None:
        """Let gangs of eight pods without GPUs of their own run, ten pods a node, and fill nine nodes in ten."""
        for number in range(pods):
            gang, index = divmod(number, _SIZE)
            name, node = f"running-{gang:06}", f"node-{number % self.nodes}"
            gpus = _SIZE if number < self.nodes * 9 // 10 else 0
            pod = workers(name, _SIZE, worker(gpus, 1_000) if gpus else worker(1, 1_000))[index]
            shape = pod.shape if gpus else replace(pod.shape, requests=(("cpu", 1_000), ("pods", 1)))
            self.engine.apply(PodSeen(replace(pod, shape=shape, node_name=node)))

    @property
    def admission(self) -> Admission:
        """Return the state."""
        return self.engine.admission

    def turns(self) -> Iterator[tuple[str, float]]:
        """Let one thing after the other happen; yield what it was and its longest turn, in milliseconds."""
        engine, admission = self.engine, self.engine.admission
        large = GroupRef(COSCHEDULING, "bench", "large")
        yield "rebuild", _timed(lambda: engine.apply(Rebuild()))
        yield "first_pass_step", self._pass()
        for number, node in enumerate(self._nodes[:20]):
            engine.apply(NodeSeen(replace(node, labels={"zone": f"b{number}"})))
        yield "pass_step_after_nodes_changed", self._pass()
        (gang,) = (each for each in admission.model.gangs if each.ref == large)
        request = PodSetRequest.of_gang(gang, self.large)
        yield "inquire_large", _timed(lambda: inquire(admission, gang, time.time(), request))
        names = [node.name for node in self._nodes]
        waiting = workers("waiting-000000", 1, worker(2 * _SIZE, 1_000))[0]
        yield "filter_refused_all_nodes", _timed(lambda: engine.apply(Filter(waiting, names)))
        yield "defragment_dry_run", _timed(lambda: engine.apply(Defragment(large, apply=False)))
        metrics = Metrics()
        yield "scrape_step", _longest(expose(metrics, admission, []))
        yield "large_gang_gone", _timed(lambda: engine.apply(GroupGone(large, "uid-large")))
        yield "pass_step_after_it", self._pass()
        took = 0.0
        for number in range(_QUEUES):
            queue = Queue(f"queue-{number}", uid=f"queue-{number}", flavors=(Flavor("all", {GPU: Quota(_SIZE)}),))
            took = _timed(partial(engine.apply, QueueSeen(queue)))
        yield "last_queue_seen", took
        yield "pass_step_after_queues", self._pass()
        yield "queue_reports", _timed(lambda: list(queue_reports(admission)))
        yield "waiting_order", _timed(admission.waiting_order)
        yield "stand_down", _timed(lambda: engine.apply(StandDown()))

    def _pass(self) -> float:
        """Decide until nothing is left to be decided; return the longest step in milliseconds."""
        longest = 0.0
        while True:
            began, ran = time.thread_time(), self.engine.apply(Decide()).answer
            longest = max(longest, 1000 * (time.thread_time() - began))
            if not ran:
                return longest


def measure(options: Options, say: Say) -> list[Figure]:
    """Measure the longest turn of each; milliseconds of the processor, which a busy machine adds little to."""
    found: dict[str, list[float]] = {}
    import_ahead()
    for number in range(repeats := options.repeats or (1 if options.short else _REPEATS)):
        say(f"turns: round {number + 1} of {repeats}")
        cluster = Cluster(_SHORT if options.short else 1)
        gc.collect()
        gc.disable()  # what a collection takes is measured by itself
        try:
            for name, took in cluster.turns():
                found.setdefault(name, []).append(took)
        finally:
            gc.enable()
    return [of_repeats(f"turn_ms_{name}", "ms", took) for name, took in found.items()]


def _timed(call: Callable[[], object]) -> float:
    began = time.thread_time()
    call()
    return 1000 * (time.thread_time() - began)


def _longest(steps: Iterable[None]) -> float:
    longest, began = 0.0, time.thread_time()
    for _ in steps:
        longest = max(longest, time.thread_time() - began)
        began = time.thread_time()
    return 1000 * max(longest, time.thread_time() - began)
