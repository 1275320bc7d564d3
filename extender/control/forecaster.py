"""Look ahead every few seconds, in a thread that rests more than it works: verbs never wait for a forecast."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Final

import structlog

from extender.admission.admission import Admission
from extender.clock import Clock, thread_cpu_seconds
from extender.control.dispatch import ChangedGangs
from extender.control.metrics import Metrics
from extender.control.worker import Worker
from extender.explain.forecast import Forecast, ForecastNews, Foresight, Prospects, foresee
from extender.explain.runtimes import LearnedRuntimes

log = structlog.get_logger("muster.forecast")

#: How long it waits from one forecast to the next at least (seconds).
_EVERY: Final = 10.0
#: For how long the thread computes at a time, and how many times as long it rests then: others have the interpreter.
_SLICE_SECONDS: Final = 0.003
_RESTS: Final = 9
#: Processor time of one forecast; what is further ahead is not worked out (seconds).
_MOST_SECONDS: Final = 20.0


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

    async def run(self) -> None:
        """Look ahead until cancelled. A mistake here ends nothing else."""
        while True:
            await asyncio.sleep(_EVERY)
            try:
                await self.turn()
            except Exception:
                log.exception("forecast: a mistake in Muster")

    async def turn(self) -> None:
        """Look ahead once, if anything has changed since, or time has shown that something was wrong."""
        admission = self._admission
        if not admission.rebuilt:
            return
        now = self._clock.now().timestamp()
        seen = (admission.tenure, admission.passes, admission.model.table.generation)
        passed = any(each.at is not None and each.at < now for each in self._prospects.told.values())
        if seen == self._seen and not passed:
            return
        self._seen = seen
        gathering = foresee(admission, self._runtimes, now)
        while True:
            try:
                next(gathering)
            except StopIteration as done:
                box: list[Foresight] = [done.value]
                break
            await asyncio.sleep(0)
        news, spent = await self._worker.submit(lambda: self._work(box.pop()))
        self._metrics.forecast_seconds.observe(spent)
        self._prospects.tell(news)
        self._changed.note(news.changed)

    def _work(self, scene: Foresight) -> tuple[ForecastNews, float]:
        """Work a forecast out in slices; return it, and the processor time that it took (seconds)."""
        forecast = Forecast(scene)
        began = since = thread_cpu_seconds()
        for _ in forecast.steps():
            now = thread_cpu_seconds()
            if now - began > _MOST_SECONDS:
                break
            if now - since > _SLICE_SECONDS:
                self._pause(_RESTS * (now - since))
                since = thread_cpu_seconds()
        forecast.conclude()
        return self._prospects.compare(forecast.prospects, scene.refs), thread_cpu_seconds() - began

    def started(self, uid: str) -> None:
        """Take in that a gang has started: how true came what it was told?"""
        late = self._prospects.started(uid, self._clock.now().timestamp())
        if late is not None:
            self._metrics.expected_start_error.labels("late" if late > 0 else "early").observe(abs(late))
