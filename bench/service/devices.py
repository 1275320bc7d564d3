"""Muster on a large cluster whose GPUs are in ResourceSlices: how long it takes to start, and what memory it holds."""

from __future__ import annotations

from dataclasses import replace

from bench.figures import Figure, of_repeats
from bench.options import Options, Say
from bench.service.lag import Lag
from bench.service.scale import SHORT_SIZE, SIZE, each_start, lag_figures, resident_mb
from bench.service.stand import Cores, Stand

COLD_START_BOUND_S = 20.0
#: Without the recording, which has a limit of its own.
RESIDENT_BOUND_MB = 400.0


def measure(options: Options, say: Say) -> list[Figure]:
    """Start Muster on a cluster as large, whose GPUs are in ResourceSlices: how long it takes, and what it holds."""
    size = replace(SHORT_SIZE if options.short else SIZE, sliced=1)
    starts: list[float] = []
    memory: list[float] = []
    lags: list[Lag] = []
    say(f"starting Muster with {size.nodes:,} nodes, the ResourceSlices of their GPUs and {size.pods:,} pods")
    cores = Cores.available()
    with cores.keep_off(), Stand(size, cores) as stand:
        for lag in each_start(stand, options, say):
            starts.append(stand.ready_after)
            lags.append(lag)
            memory.append(resident_mb(stand.muster.pid) - stand.metrics().sum("muster_recording_bytes") / 1e6)
    return [
        of_repeats("cold_start_devices_s", "s", starts, bound=COLD_START_BOUND_S, exclusive=True),
        of_repeats("resident_devices_mb", "MB", memory, bound=RESIDENT_BOUND_MB, exclusive=True),
        *lag_figures({"start_devices": lags}),
    ]
