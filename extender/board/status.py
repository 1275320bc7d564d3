"""How the cluster and Muster itself are, in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import extender
from extender.board.document import Json
from extender.board.latency import Latency, LatencyWindow
from extender.board.noderows import Totals
from extender.clock import Clock
from extender.control.controller import Controller
from extender.control.metrics import Metrics
from extender.control.views import GangPhase
from extender.domain.timestamp import write_timestamp
from extender.recording.journal import Recording

_MILLISECONDS = 1000.0
#: Decimals of milliseconds: a microsecond.
_DECIMALS = 3


class Status:
    """Put together how the cluster and Muster are."""

    def __init__(self, controller: Controller, metrics: Metrics, clock: Clock) -> None:
        """Ask `controller` how it is, and `metrics` how long its answers take."""
        self._controller = controller
        self._clock = clock
        self._verbs = LatencyWindow(metrics.verb_seconds, "verb", clock)
        self._passes = LatencyWindow(metrics.pass_seconds, "", clock)

    def json(self, gangs: Iterable[Json], totals: Totals) -> Json:
        """Return the document, with the rows of all gangs counted, and these totals of the nodes."""
        rows = tuple(gangs)
        controller = self._controller
        phases = Counter(dict.fromkeys((phase.value for phase in GangPhase), 0))
        phases.update(row["phase"] for row in rows)
        waiting = [row for row in rows if row["reason"] is not None]
        passes = self._passes.look().get("", Latency(0, None, None))
        return {
            "version": extender.__version__,
            "time": write_timestamp(self._clock.now()),
            "ready": controller.ready,
            "leading": controller.leading,
            "unready": list(controller.unready_because()),
            **_nodes(totals),
            "gangs": dict(phases),
            "waiting": dict(Counter(row["reason"]["code"] for row in waiting).most_common()),
            "queues": len(controller.admission.sharing.queues),
            "oldestWait": _oldest(waiting),
            "verbs": [{"verb": verb, **_latency(found)} for verb, found in self._verbs.look().items()],
            "pass": _latency(passes),
            "recording": _recording(controller.recording),
        }


def _nodes(totals: Totals) -> Json:
    """Return how many nodes there are, and what becomes of their GPUs."""
    return {
        "nodes": {"total": totals.nodes, "schedulable": totals.schedulable, "withGpus": totals.with_gpus},
        "gpus": {
            "allocatable": totals.gpus,
            "used": totals.gpus - totals.reserved - totals.free,
            "reserved": totals.reserved,
            "free": totals.free,
        },
    }


def _recording(recording: Recording) -> Json:
    return {
        "on": recording.on,
        "inputs": recording.inputs,
        "bytes": recording.size,
        "since": write_timestamp(recording.since) if recording.on else None,
        "ended": recording.ended or None,
    }


def _oldest(waiting: Iterable[Json]) -> Json | None:
    """Return which gang has waited for longest."""
    row = min((row for row in waiting if row["since"]), key=lambda row: str(row["since"]), default=None)
    return None if row is None else {"gang": f"{row['namespace']}/{row['name']}", "since": row["since"]}


def _latency(found: Latency) -> Json:
    quantiles = {"p50Ms": found.p50, "p99Ms": found.p99}
    written = {name: None if s is None else round(s * _MILLISECONDS, _DECIMALS) for name, s in quantiles.items()}
    return {"calls": found.calls, **written}
