"""How close together gangs have to arrive so that a cluster has a given load."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from extender.simulation.traces.trace import Job, Trace, TraceError

#: Halvings of an interval of floats after which nothing changes any more.
_HALVINGS = 60


def span_for(jobs: Sequence[Job], positions: Sequence[float], gpus: int, load: float) -> float:
    """Return over how many seconds these jobs have to arrive to make `load` on `gpus` GPUs, as `Trace.load` has it.

    Args:
        jobs: the jobs; when they were submitted does not count.
        positions: when each arrives instead, 0 for the beginning and 1 for the end.
        gpus: the GPUs of the cluster.
        load: above 0.

    Raises TraceError if these jobs are too few for that load, however close together they come.
    """
    most = sum(job.all_gpus * (1 - at) for job, at in zip(jobs, positions, strict=True)) / gpus
    if load >= most:
        raise TraceError(f"a load of {load:g} cannot be made on {gpus} GPUs: all jobs together make {most:.2f} of it")
    low, high = 0.0, sum(job.gpu_seconds for job in jobs) / (gpus * load)
    for _ in range(_HALVINGS):
        span = (low + high) / 2
        asked = sum(job.all_gpus * min(job.runtime, span * (1 - at)) for job, at in zip(jobs, positions, strict=True))
        low, high = (span, high) if asked > load * gpus * span else (low, span)
    return high


def at_load(trace: Trace, gpus: int, load: float) -> Trace:
    """Stretch or squeeze the times between submissions so that the trace makes `load` on `gpus` GPUs.

    Raises TraceError for a trace whose jobs all come at once, and for a load that is not above 0 or needs more jobs.
    """
    if not (load > 0 and math.isfinite(load)):
        raise TraceError(f"a load of {load:g} cannot be made: it has to be above 0; 1 is what the cluster can do")
    if not trace.span:
        raise TraceError("all jobs are submitted at once: there is no time between them that could be stretched")
    span = span_for(trace.jobs, [job.submitted / trace.span for job in trace.jobs], gpus, load)
    return Trace.of(replace(job, submitted=round(job.submitted / trace.span * span, 3)) for job in trace.jobs)
