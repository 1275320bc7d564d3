"""Look ahead every few seconds, in a thread that rests more than it works: verbs never wait for a forecast."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from extender.admission.admission import Admission
from extender.clock import Clock, thread_cpu_seconds
from extender.control.dispatch import ChangedGangs
from extender.control.metrics import Metrics
from extender.control.worker import Worker
from extender.explain.documents import SuggestedChange
from extender.explain.forecast import Forecast, ForecastNews, Prospects
from extender.explain.foresight import Foresight, foresee
from extender.explain.runtimes import LearnedRuntimes
from extender.explain.wider import earlier, latest_worth, start_of, wider_levels
from extender.objects.podgroup import GroupRef
from extender.objects.topology import TopologyRequest

log = structlog.get_logger("muster.forecast")

#: How long it waits from one forecast to the next at least (seconds).
_EVERY: Final = 10.0
#: For how long the thread computes at a time, and how many times as long it rests then: others have the interpreter.
_SLICE_SECONDS: Final = 0.003
_RESTS: Final = 9
#: Processor time of one forecast; what is further ahead is not worked out (seconds).
_NEAR_SECONDS: Final = 2.0
#: Every so often one may take longer, so that those are told an expected start too who wait far behind (seconds).
_FAR_EVERY: Final = 600.0
_FAR_SECONDS: Final = 20.0
#: Wider levels that are tried for a gang that is asked about, and processor time for each (seconds).
_MOST_WIDER: Final = 2
_ASKED_SECONDS: Final = 0.3
#: Rests between two forecasts for so many times as long as the event loop gathered for one.
_RESTS_PER_GATHERING: Final = 50


class Forecaster:
    """Keep what gangs are told of their start up to date, as far as processor time allows."""

    def __init__(  # noqa: PLR0913, PLR0917 - what it reads, and whom it tells
        self,
        admission: Admission,
        prospects: Prospects,
        runtimes: LearnedRuntimes,
        changed: ChangedGangs,
        clock: Clock,
        metrics: Metrics,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        """Tell `prospects`, and note in `changed` whose row says something else then; `pause` is for the thread."""
        self._admission = admission
        self._prospects = prospects
        self._runtimes = runtimes
        self._changed = changed
        self._clock = clock
        self._metrics = metrics
        self._pause = pause or threading.Event().wait
        self._worker = Worker("forecast")
        self._seen: tuple[object, ...] = ()
        self._far_at = -math.inf
        self._gathered = 0.0
        self._asked = asyncio.Lock()

    async def run(self) -> None:
        """Look ahead until cancelled. A mistake here ends nothing else."""
        while True:
            await asyncio.sleep(max(_EVERY, _RESTS_PER_GATHERING * self._gathered))
            try:
                await self.turn()
            except Exception:
                log.exception("forecast: a mistake in Muster")

    async def turn(self) -> None:
        """Look ahead once, if anything has changed since, or time has shown that something was wrong."""
        admission, told, steady = self._admission, self._prospects.told, self._clock.monotonic()
        if not admission.rebuilt:
            return
        now = self._clock.now().timestamp()
        seen = (admission.tenure, admission.passes, admission.model.table.generation)
        far = bool(told) and steady >= self._far_at  # the first is soon told
        passed = any(each.at is not None and each.at < now for each in told.values())
        if seen == self._seen and not passed and not (far and any(each.after is not None for each in told.values())):
            return
        self._seen, self._gathered = seen, 0.0
        box = [await self._gather(now)]
        news, spent = await self._worker.submit(lambda: self._work(box.pop(), _FAR_SECONDS if far else _NEAR_SECONDS))
        self._far_at = steady + _FAR_EVERY if far else self._far_at
        self._metrics.forecast_seconds.observe(spent)
        self._prospects.tell(news)
        self._changed.note(news.changed)

    async def _gather(self, now: float, instead: Mapping[str, TopologyRequest] | None = None) -> Foresight:
        """Gather what a forecast rests on, in steps between which others have the event loop."""
        gathering = foresee(self._admission, self._runtimes, now, instead)
        while True:
            began = thread_cpu_seconds()
            try:
                next(gathering)
            except StopIteration as done:
                found: Foresight = done.value
                return found
            finally:
                self._gathered += thread_cpu_seconds() - began
            await asyncio.sleep(0)

    async def wider(self, ref: GroupRef) -> SuggestedChange | None:
        """Return a wider required level with which a gang would start earlier than expected; None for none, or now.

        Questions are answered one by one.
        """
        admission = self._admission
        async with self._asked:
            gang, entry = admission.model.gangs.get(ref), admission.tenure.decider.queues.get(ref)
            if gang is None or entry is None or entry.core is None or gang.uid not in admission.reservations.waits:
                return None
            asked, expected = entry.core.demand.topology, self._prospects.of(gang)
            for level in wider_levels(asked, admission.model.tree.levels)[:_MOST_WIDER] if asked.required else ():
                now = self._clock.now().timestamp()
                box, before = [await self._gather(now, {gang.uid: level.topology})], latest_worth(expected, now)
                at = await asyncio.to_thread(self._start_of, box, gang.uid, before)
                if at is not None:
                    return None if at <= now else earlier(asked.required, level, at, expected, now)
        return None

    def _start_of(self, box: list[Foresight], uid: str, before: float) -> float | None:
        """Work out when a gang starts; the thread holds the last reference."""
        return start_of(box.pop(), uid, before, self._paced(_ASKED_SECONDS))

    def _work(self, scene: Foresight, most: float) -> tuple[ForecastNews, float]:
        """Work a forecast out in slices, for so many seconds of processor time; return it, and how many it took."""
        forecast = Forecast(scene)
        began, may_go_on = thread_cpu_seconds(), self._paced(most)
        for _ in forecast.steps():
            if not may_go_on():
                break
        forecast.conclude(self._prospects.told)
        return self._prospects.compare(forecast.prospects, scene.refs), thread_cpu_seconds() - began

    def _paced(self, most: float) -> Callable[[], bool]:
        """Return what tells whether a thread may go on, for so many seconds of processor time, and has it rest."""
        began = since = thread_cpu_seconds()

        def may_go_on() -> bool:
            nonlocal since
            now = thread_cpu_seconds()
            if now - began > most:
                return False
            if now - since > _SLICE_SECONDS:
                self._pause(_RESTS * (now - since))
                since = thread_cpu_seconds()
            return True

        return may_go_on

    def started(self, uid: str) -> None:
        """Take in that a gang has started: how true came what it was told?"""
        late = self._prospects.started(uid, self._clock.now().timestamp())
        if late is not None:
            self._metrics.expected_start_error.labels("late" if late > 0 else "early").observe(abs(late))
