"""Muster on a large cluster: how long it takes to start, what memory it holds, and how late its event loop turns."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from bench.figures import Figure, of_repeats
from bench.options import Options, Say
from bench.service.lag import Lag
from bench.service.population import Size
from bench.service.stand import Cores, Stand
from bench.service.verbs import EVENTS_PER_SECOND
from bench.soak.sampling import Page, resident_bytes
from extender.control.health import LOOK_BACK_SECONDS

SIZE = Size(nodes=5_000, bound=10_784, running=4_900, queues=250)
SHORT_SIZE = Size(nodes=500, bound=1_000, running=100, queues=25)
REPEATS = 3
#: Seconds after the start until memory is read: until the gauge of the longest lag has forgotten the start, too.
REST_SECONDS, SHORT_REST_SECONDS = 2 * LOOK_BACK_SECONDS, 0.5
#: Seconds of scrapes, of events, and of collections; one each second, or as often as a short measurement needs.
_PHASE_SECONDS, _SHORT_PHASE_SECONDS = 10.0, 0.5

COLD_START_BOUND_S = 15.0
#: Without the recording, which has a limit of its own.
RESIDENT_BOUND_MB = 300.0
#: Milliseconds: no turn of the event loop may be later.
STALL_BOUND_MS = 10.0


def measure(options: Options, say: Say) -> list[Figure]:
    """Start Muster on a large cluster and let happen what may make its event loop late, as often as asked for."""
    size = SHORT_SIZE if options.short else SIZE
    seconds = _SHORT_PHASE_SECONDS if options.short else _PHASE_SECONDS
    starts: list[float] = []
    memory: list[float] = []
    recorded: list[float] = []
    memory_after: list[float] = []
    backlogs: list[float] = []
    lags: dict[str, list[Lag]] = defaultdict(list)
    say(f"starting Muster with {size.nodes:,} nodes, {size.pods:,} pods and {size.queues} Queues")
    cores = Cores.available()
    with cores.keep_off(), Stand(size, cores) as stand:
        for lag in each_start(stand, options, say):
            starts.append(stand.ready_after)
            lags["start"].append(lag)
            memory.append(resident_mb(stand.muster.pid))
            recorded.append(stand.metrics().sum("muster_recording_bytes") / 1e6)
            for phase, happen in phases(stand, seconds, backlogs).items():
                before = stand.metrics()
                happen()
                lags[phase].append(Lag.between(before, stand.metrics()))
            memory_after.append(resident_mb(stand.muster.pid))
    return [
        of_repeats("cold_start_s", "s", starts, bound=COLD_START_BOUND_S, exclusive=True),
        of_repeats("resident_mb", "MB", memory),
        of_repeats(
            "resident_without_recording_mb",
            "MB",
            [whole - part for whole, part in zip(memory, recorded, strict=True)],
            bound=RESIDENT_BOUND_MB,
            exclusive=True,
        ),
        of_repeats("resident_after_relist_mb", "MB", memory_after),
        _worst("events_backlog", "events", backlogs, None),
        *lag_figures(lags),
    ]


def each_start(stand: Stand, options: Options, say: Say) -> Iterator[Lag]:
    """Start Muster as often as asked for, and yield when it is at rest: how late its event loop turned in the start."""
    for number in range(repeats := options.repeats or (1 if options.short else REPEATS)):
        if number:
            stand.muster.stop()
            stand.start_muster()
        say(f"round {number + 1} of {repeats}, ready after {stand.ready_after:.1f} s")
        lag = Lag.between(Page(), stand.metrics())
        time.sleep(SHORT_REST_SECONDS if options.short else REST_SECONDS)
        yield lag


def phases(stand: Stand, seconds: float, backlogs: list[float]) -> Mapping[str, Callable[[], None]]:
    """Return what happens to Muster once it has started, by name; what disturbs it least comes first.

    `backlogs` gets how many events Muster was behind at the end of a phase of events.
    Garbage is collected last, so that it includes what a relist has left.
    """
    whole, rest = divmod(seconds, 1.0)
    pauses = [1.0] * int(whole) + [rest] * (rest > 0)

    def scrape() -> None:
        for pause in pauses:
            stand.metrics()
            time.sleep(pause)

    def push_events() -> None:
        stand.push_events(EVENTS_PER_SECOND)
        time.sleep(seconds)
        backlogs.append(stand.backlog())
        stand.push_events(0)

    def collect() -> None:
        for pause in pauses:
            stand.collect_garbage()
            time.sleep(pause)

    def relist() -> None:
        stand.relist()
        time.sleep(pauses[0])  # the last objects have been sent, but not all of them taken in

    return {"scrape": scrape, "events": push_events, "relist": relist, "garbage_collection": collect}


def lag_figures(lags: Mapping[str, Sequence[Lag]]) -> Iterator[Figure]:
    """Yield for each phase the longest stall, the 99th percentile of the lag, and the stalls of Muster's own making.

    Of several rounds the worst counts, but for the percentile their median.
    """
    for phase, found in lags.items():
        yield _worst(f"longest_stall_ms_{phase}", "ms", [lag.longest for lag in found], STALL_BOUND_MS)
        yield _worst(f"stalls_busy_{phase}", "stalls", [lag.busy for lag in found], 0)
        yield _worst(f"stalls_starved_{phase}", "stalls", [lag.starved for lag in found], None)
        yield of_repeats(f"loop_lag_p99_ms_{phase}", "ms", [lag.p99 for lag in found])


def _worst(name: str, unit: str, values: Sequence[float], bound: float | None) -> Figure:
    return Figure(name, unit, max(values), min(values), max(values), bound)


def resident_mb(pid: int) -> float:
    """Return a process's resident memory, in 10^6 bytes."""
    return resident_bytes(pid) / 1e6
