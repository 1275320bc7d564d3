"""Muster as a service, measured from outside: one `muster serve` against an API server that replays a large cluster.

Here lives what measures calls over HTTP, the tail of the event loop, start-up and memory; plans and admission passes,
which need no server, are in `bench.placement`. Muster runs on one processor, what loads it on another. Whether Muster
decides rightly is judged elsewhere: the replay server only takes part as far as Muster needs it to settle.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType

from bench.cases import measure_cases
from bench.figures import Figure
from bench.options import Options, Say

#: Case -> the module that measures it, in the order in which they run. Loaded when it does: the replay server is a part
#: of this package, and a process that needs none of them.
_MODULES: Mapping[str, str] = MappingProxyType(
    {
        "verbs": "bench.service.verbs",
        "scale": "bench.service.scale",
        "devices": "bench.service.devices",
        "plan": "bench.placement",
        "pass": "bench.placement",
        "turns": "bench.turns",
        "forecast": "bench.forecast",
        "crowd": "bench.crowd",
        "growth": "bench.service.growth",
        "seeing": "bench.service.seeing",
    }
)

#: What each case measures.
CASES: Mapping[str, str] = MappingProxyType(
    {
        "verbs": "what each verb takes over HTTP, by nodes, at rest and under a stream of watch events",
        "scale": "a large cluster: time to start, memory, and how late the event loop turns",
        "devices": "a cluster as large, whose GPUs are in ResourceSlices: time to start, and memory",
        "plan": "what a plan takes, by pods and nodes",
        "pass": "what a pass over waiting gangs takes, by gangs and nodes",
        "turns": "the longest turns of the event loop, step by step, in one process",
        "forecast": "what it costs to say when each gang that waits will start",
        "crowd": "what a decision costs beside pods that wait",
        "growth": "how each figure grows with nodes, pods and gangs",
        "seeing": "what explanations and open pages cost the verbs",
    }
)

#: Load average over the last minute from which on the times of this machine mean little.
_QUIET_LOAD = 0.5


def measure(options: Options, say: Say) -> list[Figure]:
    """Run the cases that the options name, all of them without a name.

    Raises LocalClusterError if a server fails, or Muster answers otherwise than the measurement needs.
    """
    if (load := os.getloadavg()[0]) > _QUIET_LOAD:
        say(f"load average {load:.1f}: these figures need a quiet machine; of this run believe only ratios")
    return measure_cases(_MODULES, options, say)
