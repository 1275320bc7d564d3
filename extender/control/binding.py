"""Bind calls: held until the gang may start, then written."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import structlog

from extender.admission.answers import Arrival, BindVerdict, Outcome
from extender.clock import Clock
from extender.control.barrier import Barrier
from extender.control.metrics import Metrics
from extender.control.outbox import OUTDATED
from extender.control.ports import ApiError, ClusterApi, PodKey
from extender.recording.recorder import Recorder
from extender.settings import Settings

log = structlog.get_logger("muster.binding")

_FIRST_PAUSE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Bound:
    """How a bind call ended; an empty `error` means bound."""

    outcome: Outcome
    error: str = ""
    decision: str = ""


class Binder:
    """Hold bind calls at the barrier, and write the Bindings of those that may go."""

    def __init__(self, settings: Settings, clock: Clock, api: ClusterApi, metrics: Metrics, verbs: Recorder) -> None:
        """Hold nobody yet."""
        self._settings = settings
        self._clock = clock
        self._api = api
        self._metrics = metrics
        self._verbs = verbs
        self.barrier = Barrier()

    async def finish(self, pod: PodKey, node: str, arrival: Arrival) -> Bound:
        """Bring a bind call to its end: at once where the verdict says so, else when the gang may start."""
        match arrival.verdict:
            case BindVerdict.ALREADY:
                return Bound(Outcome.BOUND, decision=arrival.decision)
            case BindVerdict.REFUSE:
                return Bound(Outcome.REFUSED, arrival.message)
            case BindVerdict.HOLD:
                refusal = await self._hold(pod)
                if refusal:
                    return Bound(Outcome.REFUSED, refusal, arrival.decision)
            case BindVerdict.WRITE:
                # Whom this arrival has let go came before it and is written before it: kubelets hand out GPUs and zones
                # in the order in which pods come to them, and what is predicted of members is so in that order.
                await asyncio.sleep(0)
        return await self._write(pod, node, arrival.decision)

    async def _hold(self, pod: PodKey) -> str:
        """Hold a bind call at the barrier; return why it failed, or "" when the Binding may be written."""
        seconds = self._settings.bind_hold_seconds
        try:
            return await self.barrier.wait(pod.uid, seconds)
        except TimeoutError:
            if not self.barrier.holds(pod.uid):
                self._verbs.leave(pod.uid)
            return f"gang waits: held {seconds:g} s for the other members, trying again"

    async def _write(self, pod: PodKey, node: str, decision: str) -> Bound:
        """Write the Binding, retrying while kube-scheduler is still waiting for the answer."""
        give_up = self._clock.monotonic() + self._settings.http_timeout_seconds - self._settings.bind_hold_seconds
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                await self._api.bind(pod, node, self._verbs.prediction(pod.uid))
            except ApiError as error:
                again = max(error.retry_after or 0.0, pause)
                if error.transient and self._clock.monotonic() + again < give_up:
                    self._metrics.writes.labels("binding", "retried").inc()
                    await asyncio.sleep(again)
                    pause *= 2
                    continue
                result = "outdated" if error.status in OUTDATED else "failed"
                self._metrics.writes.labels("binding", result).inc()
                log.warning("binding failed", pod=str(pod), node=node, decision=decision, error=str(error))
                self._verbs.binding_failed(pod.uid, f"binding failed: {error}", final=not error.transient)
                return Bound(Outcome.ERROR, f"binding {pod} to {node}: {error}", decision)
            self._metrics.writes.labels("binding", "ok").inc()
            log.debug("bound", pod=str(pod), node=node, decision=decision)
            return Bound(Outcome.BOUND, decision=decision)
