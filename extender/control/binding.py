"""Bind calls: held until the gang may start, then written; and waiting for gangs whose members are being created."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypeVar

import structlog
from cachetools import TTLCache

from extender.admission.events import Arrival, BindingFailed, BindVerdict, Leave, Outcome
from extender.admission.verbs import Verbs
from extender.clock import Clock
from extender.control.metrics import Metrics
from extender.control.ports import ApiError, ClusterApi, PodKey
from extender.objects.podgroup import GroupRef
from extender.objects.refusal import shortened
from extender.settings import Settings

Key = TypeVar("Key", bound=Hashable)


class Awaited(dict[Key, asyncio.Future[None]]):
    """The keys that calls wait for to become known, each for a short time; empty while none waits."""

    def met(self, key: Key) -> None:
        """Let the calls go on that wait for `key`."""
        future = self.pop(key, None)
        if future is not None and not future.done():
            future.set_result(None)

    async def wait(self, key: Key, seconds: float) -> bool:
        """Wait until `key` is known, for `seconds` at most; return whether it is."""
        future = self.setdefault(key, asyncio.get_running_loop().create_future())
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(future)
        except TimeoutError:
            self.pop(key, None)
            return False
        return True


#: Gangs remembered at most. Of one that falls out a member is answered at once, and asked about again later.
_GANGS = 10_000
#: How many times as long as a wait in vain no call waits after it.
_REST = 9


class GangAssembly:
    """Let filter wait a moment for the rest of a gang that is being created.

    kube-scheduler begins with the first pod of a gang while its controller is still creating the others. A refusal then
    costs it a look at every node, an event and a status, and the pod is set aside. A moment later the gang is complete,
    and one attempt for each member is all it takes. No call is delayed for long: a gang counts as being created for
    `seconds` after its newest member, and no call waits longer.

    kube-scheduler places one pod at a time, so a call that waits delays all others. After a wait in vain none waits for
    _REST times as long: gangs that never become complete cost it a tenth of its time at most.

    Attributes:
        incomplete: the gangs that are being created.
    """

    def __init__(self, seconds: float, clock: Clock) -> None:
        """Wait up to `seconds`; with 0, never."""
        self._seconds = seconds
        self._clock = clock
        self._rests_until = -math.inf
        self.incomplete: TTLCache[GroupRef, None] = TTLCache(_GANGS, seconds, timer=clock.monotonic)
        self._complete: Awaited[GroupRef] = Awaited()

    def joined(self, ref: GroupRef) -> None:
        """Take in that a gang has a new member, and lacks others."""
        self.incomplete[ref] = None

    def completed(self, ref: GroupRef) -> None:
        """Take in that a gang lacks no member."""
        self.incomplete.pop(ref, None)
        self._complete.met(ref)

    async def rest_of(self, ref: GroupRef) -> None:
        """Wait until the gang is complete, but only a moment, and only if it is being created."""
        if ref not in self.incomplete or self._clock.monotonic() < self._rests_until:
            return
        if not await self._complete.wait(ref, self._seconds):
            self._rests_until = self._clock.monotonic() + _REST * self._seconds


#: Calls that go on before others have the event loop: 2 ms of work until their Bindings are under way, or queue.
_CALLS_PER_TURN = 50


@dataclass(eq=False, slots=True)
class _HeldBind:
    """A bind call that waits for its answer until its time is over."""

    answer: asyncio.Future[str]
    time: asyncio.Timeout


class Barrier:
    """Hold bind calls, and let them go or fail; who may go is the admission's decision.

    Those that may go do so some at a time, in their order: of a gang of 10,000 all at once would keep every other call
    waiting for as long as it takes to begin 10,000 writes.
    """

    def __init__(self) -> None:
        self._held: dict[str, list[_HeldBind]] = {}
        self._going: deque[asyncio.Future[str]] = deque()

    def __len__(self) -> int:
        """Count the calls held."""
        return sum(map(len, self._held.values()))

    async def wait(self, uid: str, seconds: float) -> str:
        """Wait until the pod may go, and return "" then, else why not; raise TimeoutError after `seconds`.

        kube-scheduler may call again for a pod that is still held, after a restart say: all calls get one answer.
        """
        async with asyncio.timeout(seconds) as time:
            call = _HeldBind(asyncio.get_running_loop().create_future(), time)
            self._held.setdefault(uid, []).append(call)
            try:
                return await call.answer
            finally:
                calls = self._held.get(uid, [])
                if call in calls:
                    calls.remove(call)
                if not calls:
                    self._held.pop(uid, None)

    async def follow(self) -> None:
        """Wait until the calls have gone on that were let go before."""
        turn: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._put(turn)
        await turn

    def holds(self, uid: str) -> bool:
        """Tell whether any call is held for the pod."""
        return uid in self._held

    def release(self, uid: str) -> None:
        """Let the pod's calls go, after those that were let go before: their time is not over any more."""
        for call in self._held.pop(uid, []):
            if not call.answer.done():  # its time may be over since a moment ago
                call.time.reschedule(None)
                self._put(call.answer)

    def refuse(self, uid: str, why: str) -> None:
        """Fail the pod's calls with `why`."""
        for call in self._held.pop(uid, []):
            _answer(call.answer, why)

    def refuse_all(self, why: str) -> None:
        """Fail every call with `why` that has not gone on."""
        for uid in list(self._held):
            self.refuse(uid, why)
        while self._going:
            _answer(self._going.popleft(), why)

    def _put(self, answer: asyncio.Future[str]) -> None:
        """Have a call go on in its turn."""
        if not self._going:
            asyncio.get_running_loop().call_soon(self._let_go)
        self._going.append(answer)

    def _let_go(self) -> None:
        """Let some calls go on, and the rest in the next turns of the loop."""
        for _ in range(min(len(self._going), _CALLS_PER_TURN)):
            _answer(self._going.popleft(), "")
        if self._going:
            asyncio.get_running_loop().call_soon(self._let_go)


def _answer(call: asyncio.Future[str], answer: str) -> None:
    if not call.done():
        call.set_result(answer)


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

    def __init__(  # noqa: PLR0913, PLR0917 - how a bind call is held, written and taken back
        self,
        settings: Settings,
        clock: Clock,
        api: ClusterApi,
        metrics: Metrics,
        verbs: Verbs,
        ended: Callable[[Leave | BindingFailed], None],
    ) -> None:
        """Hold no call yet; call `ended` when one ends without a Binding."""
        self._settings = settings
        self._clock = clock
        self._api = api
        self._metrics = metrics
        self._verbs = verbs
        self._ended = ended
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
                # Pods that this arrival has released came before it and are written before it: kubelets hand out GPUs
                # and zones in the order in which pods come to them, and what is predicted of members is so in that
                # order.
                await self.barrier.follow()
        return await self._write(pod, node, arrival.decision)

    async def _hold(self, pod: PodKey) -> str:
        """Hold a bind call at the barrier; return why it failed, or "" when the Binding may be written."""
        seconds = self._settings.bind_hold_seconds
        try:
            return await self.barrier.wait(pod.uid, seconds)
        except TimeoutError:
            if not self.barrier.holds(pod.uid):
                self._ended(Leave(pod.uid))
            return f"gang waits: held {seconds:g} s for the other members, trying again"

    async def _write(self, pod: PodKey, node: str, decision: str) -> Bound:
        """Write the Binding, retrying while kube-scheduler is still waiting for the answer."""
        give_up = self._clock.monotonic() + self._settings.http_timeout_seconds - self._settings.bind_hold_seconds
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                await self._api.bind(pod, node, self._verbs.annotations(pod.uid, node))
            except ApiError as error:
                again = max(error.retry_after or 0.0, pause)
                if error.transient and self._clock.monotonic() + again < give_up:
                    self._metrics.writes.labels("binding", "retried").inc()
                    await asyncio.sleep(again)
                    pause *= 2
                    continue
                final = not error.transient
                result = "outdated" if error.outdated else "failed"
                self._metrics.writes.labels("binding", result).inc()
                log.warning("binding failed", pod=str(pod), node=node, decision=decision, error=str(error))
                self._ended(BindingFailed(pod.uid, shortened(str(error)), final, refused=final and not error.outdated))
                return Bound(Outcome.ERROR, f"binding {pod} to {node}: {error}", decision)
            self._metrics.writes.labels("binding", "ok").inc()
            log.debug("bound", pod=str(pod), node=node, decision=decision)
            return Bound(Outcome.BOUND, decision=decision)
