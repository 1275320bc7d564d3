"""Evicting pods through the Eviction API, as often as it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog

from extender.admission.events import EvictionDelayed, EvictionNews, EvictionRefused, EvictionSent
from extender.clock import Clock
from extender.control.metrics import Metrics
from extender.control.outbox import Outbox, Urgency
from extender.control.ports import ApiError, BudgetError, ClusterApi, ClusterEvent, PodKey
from extender.ledger.effects import Evict, PodNotice, Suspension, Ungate
from extender.objects.meta import ObjectRef
from extender.objects.pod import Pod

#: How long a budget may say no before an eviction is given up (seconds), how long anything else that denies it, and the
#: pause between two attempts. Budgets let others go when replacements are ready, which takes their images and start-up
#: time.
_PATIENCE_SECONDS: Final = 120.0
_INSISTENCE_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 2.0
#: Pause between two attempts to take a gate off, once that has failed for as long as writes are retried (seconds).
_GATE_PAUSE_SECONDS: Final = 30.0

log = structlog.get_logger("muster.evictions")

#: Takes in how a wish that a pod leaves stands with the API server.
Told = Callable[[EvictionNews], None]


@dataclass(frozen=True, slots=True)
class _Wish:
    """An eviction that is wanted, and until when (seconds, monotonic)."""

    evict: Evict
    until: float


class Evictions:
    """Write evictions through the outbox; tell which cannot be taken back any more, and which are refused."""

    def __init__(self, api: ClusterApi, outbox: Outbox, clock: Clock, metrics: Metrics, tell: Told) -> None:
        """Write to `api`; call `tell` when an eviction is written, and when the API server has not made it."""
        self._api = api
        self._outbox = outbox
        self._clock = clock
        self._metrics = metrics
        self._tell = tell
        self._wishes: dict[str, _Wish] = {}

    def put(self, evict: Evict) -> None:
        """Have a pod evicted, and tell its owner for which gang and why."""
        self._wishes[evict.pod.uid] = _Wish(evict, self._clock.monotonic() + _PATIENCE_SECONDS)
        _warn(self._api, self._outbox, evict.pod, evict.reason, evict.message, "Evicting")
        self._send(evict.pod.uid)

    def notify(self, notice: PodNotice) -> None:
        """Write on a pod that it is to be evicted, or not any more."""
        pod = notice.pod
        key = PodKey(pod.namespace, pod.name, pod.uid)
        call = partial(self._api.notify, key, notice.planned, notice.reason, notice.message)
        self._outbox.put(Urgency.EVICTION, f"notice/{pod.uid}", pod.key, call)

    def spare(self, uid: str) -> None:
        """Withdraw an eviction that has not been made."""
        if self._wishes.pop(uid, None) is not None:
            self._outbox.forget(f"eviction/{uid}")

    def stand_down(self) -> None:
        """Forget all that is wanted."""
        self._wishes.clear()

    def _send(self, uid: str, delay: float = 0.0) -> None:
        wish = self._wishes[uid]
        call, lost = partial(self._write, uid), partial(self._lost, uid, wish)
        self._outbox.put(Urgency.EVICTION, f"eviction/{uid}", wish.evict.pod.key, call, delay=delay, given_up=lost)

    async def _write(self, uid: str) -> None:
        wish = self._wishes.get(uid)
        if wish is None:
            return
        pod = wish.evict.pod
        self._tell(EvictionSent(uid))
        try:
            await self._api.evict(PodKey(pod.namespace, pod.name, pod.uid))
        except ApiError as error:
            if error.transient and not isinstance(error, BudgetError):
                raise
            self._tell(EvictionDelayed(uid))
            if self._wishes.get(uid) is not wish:
                return  # it was spared meanwhile, or asked for again
            # A webhook that denies this one may not have denied the others of its gang: none is left behind in haste.
            early = 0.0 if isinstance(error, BudgetError) else _PATIENCE_SECONDS - _INSISTENCE_SECONDS
            if self._clock.monotonic() < wish.until - early:
                self._send(uid, error.retry_after or _PAUSE_SECONDS)
            else:
                self._give_up(uid, error.message)
        else:
            self._wishes.pop(uid, None)
            self._metrics.evictions.labels(wish.evict.reason).inc()
            log.info("evicted", pod=pod.key, by=wish.evict.by, reason=wish.evict.reason, message=wish.evict.message)

    def _lost(self, uid: str, wish: _Wish, error: ApiError) -> None:
        """Take in that a write failed for as long as it is retried: as long as it waits, its gang's place does."""
        if self._wishes.get(uid) is wish:
            self._give_up(uid, error.message)

    def _give_up(self, uid: str, why: str) -> None:
        self._wishes.pop(uid, None)
        self._tell(EvictionRefused(uid, why))


class Gates:
    """Take scheduling gates off pods through the outbox.

    Attributes:
        stay: why a gate could not be taken off when that was last tried, by the pod's UID.
    """

    def __init__(self, api: ClusterApi, outbox: Outbox) -> None:
        self._api = api
        self._outbox = outbox
        self.stay: dict[str, str] = {}

    def open(self, ungate: Ungate, delay: float = 0.0) -> None:
        """Take a gate off a pod, after `delay` seconds at the earliest."""
        pod = ungate.pod
        call, lost = partial(self._write, ungate), partial(self._lost, ungate)
        self._outbox.put(Urgency.WAKING, f"gate/{pod.uid}", pod.key, call, delay=delay, given_up=lost)

    def stand_down(self) -> None:
        """Forget what could not be written: another replica tries now."""
        self.stay.clear()

    async def _write(self, ungate: Ungate) -> None:
        pod = ungate.pod
        try:
            await self._api.ungate(PodKey(pod.namespace, pod.name, pod.uid), ungate.gate)
        except ApiError as error:
            if error.outdated:
                self.stay.pop(pod.uid, None)
            raise
        self.stay.pop(pod.uid, None)

    def _lost(self, ungate: Ungate, error: ApiError) -> None:
        """Tell the owner of a pod why its gate stays, and try again later: nothing else would ask for it."""
        message = f"scheduling gate {ungate.gate} stays for now: {error}"
        self.stay[ungate.pod.uid] = f"{ungate.pod.key}: {message}"
        _warn(self._api, self._outbox, ungate.pod, "GateNotRemoved", message, "Scheduling")
        self.open(ungate, _GATE_PAUSE_SECONDS)


class Suspensions:
    """Suspend and resume objects through the outbox; tell whose pods cannot be made to leave by that."""

    def __init__(self, api: ClusterApi, outbox: Outbox, metrics: Metrics, tell: Told) -> None:
        """Write to `api`; call `tell` of each pod that is to leave by it, when it is written, and when it is denied."""
        self._api = api
        self._outbox = outbox
        self._metrics = metrics
        self._tell = tell

    def put(self, uid: str, wish: Suspension | None) -> None:
        """Have an object suspended or resumed; with None, leave it as it is."""
        if wish is None:
            self._outbox.forget(f"suspension/{uid}")
            return
        urgency = Urgency.EVICTION if wish.suspend else Urgency.WAKING
        self._outbox.put(urgency, f"suspension/{uid}", str(wish.workload.about), partial(self._write, wish))

    async def _write(self, wish: Suspension) -> None:
        about = wish.workload.about
        for pod in wish.pods if wish.suspend else ():
            self._tell(EvictionSent(pod))
        try:
            await self._api.suspend(wish.workload, None if wish.suspend else wish.place)
        except ApiError as error:
            for pod in () if error.transient or error.outdated else wish.pods:
                self._tell(EvictionRefused(pod, error.message))
            raise
        log.info("suspended" if wish.suspend else "resumed", object=str(about), reason=wish.reason)
        if wish.reason is not None:
            self._metrics.evictions.labels(wish.reason).inc(len(wish.pods))


def _warn(  # noqa: PLR0913, PLR0917 - where to write, and what an Event says
    api: ClusterApi, outbox: Outbox, pod: Pod, reason: str, message: str, action: str
) -> None:
    """Have an Event of type Warning written about a pod."""
    about = ObjectRef("v1", "Pod", pod.namespace, pod.name, pod.uid)
    event = ClusterEvent(about, warning=True, reason=reason, message=message, action=action)
    outbox.put(Urgency.EVENT, f"event/{pod.uid}/{reason}", pod.key, partial(api.record_event, event))
