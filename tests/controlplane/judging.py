"""What was recorded on the real control plane, in the judge's terms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from localcluster.faults.verbs import BindCall
from localcluster.history import Recorder, version_of
from tests.judge import Arrival, Change, History


def history_of(
    recorder: Recorder,
    bind_calls: Iterable[BindCall] | None,
    *,
    end: float,
    restarts: Sequence[float] = (),
    quiet: float | None = None,
) -> History:
    """Return what `recorder` has seen as a history to be judged; of events only those that tell of preemption.

    `bind_calls` are those that the proxy between kube-scheduler and Muster saw, None without one. All times are in
    `time.monotonic` seconds. The recorder must have caught up.
    """
    changes = [
        Change(change.at, version_of(change.object), change.type, change.object)
        for change in recorder.changes()
        if change.object["kind"] != "Event" or change.object.get("reason") == "Preempted"
    ]
    arrivals = None
    if bind_calls is not None:
        arrivals = [
            Arrival(call.at, call.uid, call.node, math.inf if call.ended is None else call.ended) for call in bind_calls
        ]
    return History(changes, end, arrivals, tuple(restarts), quiet)
