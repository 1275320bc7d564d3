"""What it costs the verbs that people look: the same calls, with nobody looking and with many, in turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.figures import Figure, of_repeats
from bench.options import Options, Say
from bench.service.calls import Call, Connection, time_calls
from bench.service.documents import NAMESPACE
from bench.service.population import CROWD, PINNED, Size, crowd_name, own
from bench.service.situations import prepare_calls
from bench.service.stand import Cores, Stand

_ONLOOKERS = Path(__file__).with_name("onlookers.py")
#: Nodes; pods that run; gangs that wait of each kind; pages that are open; questions a second; watch events a second
#: while pages are open.
_NODES, _SHORT_NODES = 5_000, 100
_PODS, _SHORT_PODS = 10_000, 200
_CROWD, _SHORT_CROWD = 1_000, 2
#: Gangs of each kind that are explained.
_ASKED = 20
_READERS, _SHORT_READERS = 100, 3
_QUESTIONS_PER_SECOND = 20
_EVENTS_PER_SECOND = 200
#: Rounds of each kind, the calls and seconds of one.
_REPEATS = 7
_CALLS, _SHORT_CALLS = 4_000, 100
_ROUND_SECONDS, _SHORT_ROUND_SECONDS = 3.0, 0.2
#: Seconds until everybody who looks has begun, and Muster has shown them the first picture.
_BEGIN_SECONDS = 2.0
#: Which verbs are called: those that every member of a gang meets, and the one with every node in it.
_SITUATIONS = ("pinned_filter", "bind", "filter")

#: The bounds: a question is answered within 20 ms and delays a verb by no more than 1 ms, 100 pages by no more than a
#: tenth, each at the 99th percentile.
EXPLAIN_BOUND_MS = 20.0
DELAY_BOUND_MS = 1.0
PAGES_BOUND = 1.10
FIRST_PICTURE_BOUND_MS = 1000.0


@dataclass(slots=True)
class _Taken:
    """What was measured: milliseconds of calls by situation and who looks, and what those who look have seen."""

    calls: dict[tuple[str, str], list[NDArray[np.float64]]] = field(default_factory=lambda: defaultdict(list))
    seen: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))

    def p99(self, situation: str, who: str) -> list[float]:
        """Return the 99th percentile of each round (ms)."""
        return [float(np.percentile(taken, 99)) for taken in self.calls[situation, who]]


def measure(options: Options, say: Say) -> list[Figure]:
    """Call the verbs in turn with nobody looking, with questions being asked, and with many pages open."""
    cores = Cores.available()
    size = Size(_NODES, _PODS, crowd=_CROWD)
    if options.short:
        size = Size(_SHORT_NODES, _SHORT_PODS, crowd=_SHORT_CROWD)
    amounts = {"explain": _QUESTIONS_PER_SECOND, "stream": _SHORT_READERS if options.short else _READERS}
    taken = _Taken()
    with ExitStack() as stack:
        stack.enter_context(cores.keep_off())
        say(f"starting Muster with {size.nodes:,} nodes")
        stand = stack.enter_context(Stand(size, cores))
        connection = stack.enter_context(Connection(stand.port))
        calls = {situation: prepare_calls(stand, connection, situation) for situation in _SITUATIONS}
        most, seconds = (_SHORT_CALLS, _SHORT_ROUND_SECONDS) if options.short else (_CALLS, _ROUND_SECONDS)
        bench = _Bench(stand, connection, calls, amounts, most, seconds)
        repeats = options.repeats or (2 if options.short else _REPEATS)
        for number in range(1, repeats + 1):
            say(f"seeing: round {number} of {repeats}")
            bench.round(taken)
    return _figures(taken)


@dataclass(frozen=True, slots=True)
class _Bench:
    """One Muster, the connection to it, the calls to make by situation, and how many look on in each way."""

    stand: Stand
    connection: Connection
    calls: dict[str, list[Call]]
    amounts: dict[str, int]
    most: int
    seconds: float

    def round(self, taken: _Taken) -> None:
        """Make the calls once with nobody looking, and once with each sort of onlookers, at rest and busy."""
        for who in ("nobody", *self.amounts):
            for events in (0, _EVENTS_PER_SECOND) if who != "explain" else (0,):
                self.stand.push_events(events)
                with _looking(self.stand, who, self.amounts.get(who, 0), taken, busy=bool(events)):
                    for situation in _SITUATIONS:
                        found = time_calls(
                            self.connection, self.calls[situation], at_most=self.most, seconds=self.seconds
                        )
                        taken.calls[situation, f"{who}{'_busy' * bool(events)}"].append(found)
                self.stand.push_events(0)


@contextmanager
def _looking(stand: Stand, who: str, amount: int, taken: _Taken, *, busy: bool) -> Iterator[None]:
    """Have others look on meanwhile, on the processor of the load."""
    if who == "nobody":
        yield
        return
    command = [sys.executable, "-P", str(_ONLOOKERS), str(stand.port), who, str(amount)]
    command += asked(stand.size) if who == "explain" else []
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    process = subprocess.Popen(  # noqa: S603 - this package's own program
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    with process:
        time.sleep(_BEGIN_SECONDS)
        yield
        out, _ = process.communicate("")
    if process.returncode:
        raise RuntimeError(f"those who look on failed: {' '.join(command)}")
    taken.seen[f"{who}{'_busy' * busy}"].append(json.loads(out))


def asked(size: Size) -> list[str]:
    """Return the gangs that are explained, of each kind in turn: those that wait, and two that have their nodes."""
    placed = [f"{NAMESPACE}/{PINNED}", f"{NAMESPACE}/{own(0, '').name}"]
    crowd = ([crowd_name(kind, number) for kind in CROWD] for number in range(min(_ASKED, size.crowd)))
    return [name for names in crowd for name in (*(f"{NAMESPACE}/{each}" for each in names), *placed)]


def _figures(taken: _Taken) -> list[Figure]:
    figures = [
        of_repeats(
            "explain_p99",
            "ms",
            _answers(taken.seen["explain"], 99),
            bound=EXPLAIN_BOUND_MS,
            exclusive=True,
        ),
        of_repeats("explain_p50", "ms", _answers(taken.seen["explain"], 50)),
        of_repeats(
            "first_picture_p99",
            "ms",
            _percentiles(taken.seen["stream"], "first_picture", 99),
            bound=FIRST_PICTURE_BOUND_MS,
        ),
    ]
    figures += _of_kinds(taken.seen["explain"])
    for situation in _SITUATIONS:
        alone, busy = taken.p99(situation, "nobody"), taken.p99(situation, "nobody_busy")
        delays = [asked - quiet for asked, quiet in zip(taken.p99(situation, "explain"), alone, strict=True)]
        figures.append(of_repeats(f"explain_delays_{situation}_p99", "ms", delays, bound=DELAY_BOUND_MS))
        figures.append(of_repeats(f"{situation}_p99", "ms", alone))
        for who, quiet in (("stream", alone), ("stream_busy", busy)):
            ratios = [watched / base for watched, base in zip(taken.p99(situation, who), quiet, strict=True)]
            figures.append(of_repeats(f"{situation}_p99_{who}_vs_nobody", "ratio", ratios, bound=PAGES_BOUND))
    return figures


def _answers(seen: Sequence[dict[str, Any]], rank: int) -> list[float]:
    """Return the percentile of each round's answers in milliseconds."""
    return [float(np.percentile([took for _, took in found["answers"]], rank)) * 1000 for found in seen]


def _of_kinds(seen: Sequence[dict[str, Any]]) -> list[Figure]:
    """Return the 99th percentile of the answers about each kind of gang, of all rounds together; least and most too."""
    took: defaultdict[str, list[float]] = defaultdict(list)
    for found in seen:
        for gang, seconds in found["answers"]:
            _, _, name = gang.partition("/")
            took[name if name == PINNED else name.rpartition("-")[0]].append(1000 * seconds)
    return [
        Figure(f"explain_p99_{kind}", "ms", float(np.percentile(each, 99)), min(each), max(each), EXPLAIN_BOUND_MS)
        for kind, each in took.items()
    ]


def _percentiles(seen: Sequence[dict[str, Any]], what: str, rank: int) -> list[float]:
    """Return the percentile of each round in milliseconds."""
    return [float(np.percentile(found[what], rank)) * 1000 for found in seen if found[what]]
