"""Hand the accounts to a store, every few seconds and from a thread: whatever the store does, nothing waits for it.

While it is away the accounts come together in the accountant, which bounds them; when it is back they are written. A
batch whose fate is not known is written again, and the store knows it by its number.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar
from uuid import uuid4

import structlog

from extender.clock import Clock
from extender.control.metrics import Metrics
from extender.control.worker import BusyWorkerError, Worker
from extender.explain.runtimes import LearnedRuntimes
from extender.history.accountant import Accountant
from extender.history.records import Batch, StoredState, StoreError, SupersededError

if TYPE_CHECKING:
    from extender.history.store import HistoryStore

R = TypeVar("R")

log = structlog.get_logger("muster.history")

_DAY: Final = 86_400.0
#: How often what is too old is looked for (seconds).
_FORGET_EVERY: Final = 3600.0
#: How long the last batch may take when Muster is told to stop (seconds); Kubernetes gives it 30 in all.
_LAST_WRITE: Final = 3.0


class HistoryKeeper:
    """Write what an accountant finds, and read it back for people.

    A store of its own each replica writes all the time, as each follows the cluster; one that they share is written by
    the one that decides.

    Attributes:
        store: where the history is kept.
    """

    def __init__(  # noqa: PLR0913 - all that it goes by
        self,
        accountant: Accountant,
        store: HistoryStore,
        clock: Clock,
        metrics: Metrics,
        *,
        records: Callable[[], bool],
        capacity: Callable[[], int],
        every: float,
        retention_days: float,
    ) -> None:
        """Write `every` so many seconds while `records` says so; `capacity` tells how many GPUs there are."""
        self.store = store
        self._accountant = accountant
        self._clock = clock
        self._metrics = metrics
        self._records = records
        self._capacity = capacity
        self._every = every
        self._retention = retention_days * _DAY
        self._writer = Worker("history")
        self._reader = Worker("history-reads")
        self._name = ""
        self._seq = 0
        self._batch: Batch | None = None
        self._dropped = 0
        self._failing = False
        self._forget_at = 0.0

    async def run(self) -> None:
        """Write until cancelled; then once more, if that does not take long. A mistake here ends nothing else."""
        try:
            while True:
                await asyncio.sleep(self._every)
                await self._try_turn()
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WRITE):
                    await self._try_turn()

    async def read(self, call: Callable[[HistoryStore], R]) -> R:
        """Return what a call finds in the store, in a thread; raise StoreError if it cannot be asked."""
        try:
            asked = self._reader.submit(lambda: call(self.store))
        except BusyWorkerError as error:
            raise StoreError(f"{error} for the store") from error
        return await asked

    async def turn(self) -> None:
        """Write what has changed, if the store is there; else see to it that what waits stays bounded."""
        for _ in self._accountant.settle(self._capacity()):
            await asyncio.sleep(0)
        writes = self._records()
        if writes:
            try:
                await self._write()
            except SupersededError:
                log.warning("another Muster writes this history now")
                writes = False
            except StoreError as error:
                self._failed(error)
            else:
                self._succeeded()
        if not writes:
            self._give_up()
        self._bound_memory(count=writes)

    async def _try_turn(self) -> None:
        try:
            await self.turn()
        except Exception:
            self._metrics.history_up.set(0)
            log.exception("history: a mistake in Muster")

    async def _write(self) -> None:
        accountant, store = self._accountant, self.store
        if not accountant.adopted:
            self._batch, self._seq, self._name = None, 0, uuid4().hex
            name, known = self._name, accountant.known()
            stored, learned = await self._called(lambda: _loaded(store, name, known))
            if not self._records():
                return
            accountant.adopt(stored)
            accountant.runtimes.adopt(learned)
        while True:
            if self._batch is None:
                self._batch, self._seq = accountant.take(), self._seq + 1
            batch, seq, name = self._batch, self._seq, self._name
            await self._called(lambda: store.write(name, seq, batch))  # noqa: B023 - awaited before they change
            self._batch = None
            if not (accountant.adopted and accountant.behind):
                break
        if self._clock.monotonic() >= self._forget_at:
            before = self._clock.now().timestamp() - self._retention
            if not await self._called(lambda: store.forget(before)):
                self._forget_at = self._clock.monotonic() + _FORGET_EVERY

    async def _called(self, call: Callable[[], R]) -> R:
        """Make a call in the thread that writes; while it takes long, what waits stays bounded."""
        outcome = self._writer.submit(call)
        while True:
            done, _ = await asyncio.wait([outcome], timeout=self._every)
            if done:
                return outcome.result()
            self._metrics.history_up.set(0)
            self._bound_memory(count=True)

    def _give_up(self) -> None:
        """Leave the store to another writer."""
        if self._accountant.adopted:
            self._accountant.release()
        self._batch = None
        self._failing = False
        self._metrics.history_up.set(1)

    def _failed(self, error: StoreError) -> None:
        """Say once that the store cannot be written; a batch that it will never take is dropped."""
        self._metrics.history_up.set(0)
        if not self._failing:
            log.error("history cannot be written", error=str(error), retry_seconds=self._every)
        self._failing = True
        if error.lasting and self._batch is not None:
            batch, self._batch = self._batch, None
            self._accountant.release()  # the next turn goes on from what the store has
            known = set(self._accountant.known())  # those are written again
            self._metrics.history_dropped.inc(len(batch.usage) + sum(each.uid not in known for each in batch.gangs))

    def _succeeded(self) -> None:
        self._metrics.history_up.set(1)
        if self._failing:
            log.info("history is written again")
        self._failing = False

    def _bound_memory(self, *, count: bool) -> None:
        """Let what waits stay bounded; what is dropped counts, unless another replica writes it."""
        self._accountant.bound_memory()
        if count:
            self._metrics.history_dropped.inc(self._accountant.dropped - self._dropped)
        self._dropped = self._accountant.dropped


def _loaded(store: HistoryStore, name: str, known: list[str]) -> tuple[StoredState, LearnedRuntimes]:
    """Return what a store knows, and the runtimes that are learned from it; in a thread: it takes 2 ms a payer."""
    stored, learned = store.load(name, known), LearnedRuntimes()
    for past in stored.runtimes:
        learned.note(*past)
    return stored, learned
