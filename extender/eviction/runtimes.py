"""Gangs that run for longer than they may: they are told before, and end when their time is over."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from extender.clock import Clock
from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel
from extender.eviction.pending import PATIENCE_SECONDS, PendingEvictions
from extender.eviction.policies import own_notice
from extender.ledger.effects import EvictionReason
from extender.queues.sharing import Sharing

_NEVER: Final = math.inf


@dataclass(slots=True)
class TimedRun:
    """A gang that runs, and may for so many `seconds` by the word of `whose`; `turn` is when it is looked at next.

    It `ends` then, in epoch seconds; `turn` is in those of the monotonic clock. One that was `evicted` is there still.
    """

    gang: Gang
    seconds: float
    whose: str
    ends: float
    turn: float = 0.0
    told: bool = False
    evicted: bool = False


class Runtimes:
    """Follow gangs that may only run for so long: by `muster.dev/max-runtime`, or by their Queue or one above it.

    Attributes:
        runs: those gangs, by UID; mostly there are none.
    """

    def __init__(
        self, model: ClusterModel, sharing: Sharing, pending_evictions: PendingEvictions, clock: Clock
    ) -> None:
        """Start without any."""
        self._model = model
        self._sharing = sharing
        self._pending_evictions = pending_evictions
        self._clock = clock
        self._next = _NEVER
        self.runs: dict[str, TimedRun] = {}

    def follow(self, gang: Gang) -> None:
        """Take in how a gang stands, or that it has come or gone."""
        known = self.runs.get(gang.uid)
        own, queue = gang.max_runtime, self._sharing.max_runtime(self._sharing.queue_of(gang))
        seconds, whose = min((own or math.inf, "muster.dev/max-runtime"), (math.inf, "") if queue is None else queue)
        started = gang.started_at
        gone = self._model.gangs.get(gang.ref) is not gang or not self._model.concerns(gang)
        if gone or started is None or seconds == math.inf or not gang.preemptible:
            if known is not None:
                self.forget(known)
        elif known is None or (known.seconds, known.ends) != (seconds, started + seconds):
            run = self.runs[gang.uid] = TimedRun(gang, seconds, whose, started + seconds)
            if known is not None:
                run.told, run.evicted = known.told, known.evicted
            self._next = -math.inf  # it is looked at with the next pass

    def forget(self, run: TimedRun) -> None:
        """Forget a gang that is gone, or that may run on."""
        self.runs.pop(run.gang.uid, None)
        self._may_stay(run, "it may run on")

    def begin_pass(self) -> None:
        """Begin a pass: tell those whose time is nearly over, and end those whose time is."""
        now = self._clock.monotonic()
        if now < self._next:
            return
        for uid, run in list(self.runs.items()):
            if self._model.gangs.get(run.gang.ref) is not run.gang or run.gang.uid != uid:
                del self.runs[uid]
            elif run.told or now >= run.turn:
                self._take_turn(run, now)
        # While a gang has notice it may acknowledge that at any time.
        self._next = min((-math.inf if run.told else run.turn for run in self.runs.values()), default=_NEVER)

    def pass_time(self) -> bool:
        """Tell whether a pass is due because a gang is to be told, or to end."""
        return self.next_turn() <= self._clock.monotonic()

    def next_turn(self) -> float:
        """Return when time alone asks for something (seconds, monotonic), inf for never."""
        return min((run.turn for run in self.runs.values()), default=_NEVER)

    def _take_turn(self, run: TimedRun, now: float) -> None:
        gang, left = run.gang, run.ends - self._clock.now().timestamp()
        notice = own_notice(gang, self._sharing)
        if left > notice:
            run.turn = now + left - notice
            self._may_stay(run, "it may run for longer now")
            return
        whose = run.whose if run.whose.startswith("muster.dev/") else f"Queue {run.whose}"
        why = f"because it may run for {run.seconds:.0f} s, by {whose}"
        pods = [pod for pod in gang.members.values() if pod.stays]
        # One that ran for too long already when that was said has all of its notice.
        due = self._pending_evictions.notices.due(gang, pods, notice, EvictionReason.MAX_RUNTIME, why)
        run.told = True
        if due > now:
            run.turn = due
            return
        self._pending_evictions.evict_gang(gang, EvictionReason.MAX_RUNTIME, why)
        run.turn, run.told, run.evicted = now + PATIENCE_SECONDS, False, True  # a budget may have kept it

    def _may_stay(self, run: TimedRun, why: str) -> None:
        if run.told or run.evicted:
            self._pending_evictions.may_stay(run.gang, why)
        run.told = run.evicted = False
