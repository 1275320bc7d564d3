"""All that people see of a cluster at once, kept up to date while a page is open."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from msgspec.structs import replace

import extender
from extender.clock import Clock
from extender.control.controller import Controller
from extender.control.decisions import MOST_ENTRIES
from extender.control.metrics import ADMISSION_PASS, Metrics
from extender.control.recent import Buckets, quantile
from extender.explain.documents import DecisionRow, GangPhase, QueueRow
from extender.journal.journal import Recording
from extender.objects.meta import write_timestamp
from extender.objects.podgroup import GroupRef
from extender.service.board.documents import (
    CallLatency,
    GangRow,
    GpuCounts,
    LongestWait,
    NodeCounts,
    RecordingState,
    StatusDocument,
    VerbCalls,
)
from extender.service.board.rows import GangRows, NodeRow, NodeRows, Resources, Totals

_MILLISECONDS = 1000.0
#: Decimals of milliseconds: a microsecond.
_DECIMALS = 3


class ServiceStatus:
    """Put together how the cluster and Muster are."""

    def __init__(self, controller: Controller, metrics: Metrics, clock: Clock) -> None:
        """Ask `controller` how it is, and `metrics` how long its answers take."""
        self._controller = controller
        self._clock = clock
        self._recent = metrics.recent

    def document(self, gangs: Iterable[GangRow], totals: Totals) -> StatusDocument:
        """Return the document, with the rows of all gangs counted, and these totals of the nodes."""
        rows, controller = tuple(gangs), self._controller
        phases = Counter({phase.value: 0 for phase in GangPhase})
        phases.update(row.phase for row in rows)
        reasons = Counter(row.reason.code for row in rows if row.reason is not None)
        recent = self._recent.look(self._clock.monotonic())
        passes = _latency(recent.pop(ADMISSION_PASS, {}))
        calls = ((verb, _latency(buckets)) for verb, buckets in recent.items())
        return StatusDocument(
            version=extender.__version__,
            time=write_timestamp(self._clock.now()),
            ready=controller.health.ready,
            leading=controller.leading,
            unready=tuple(controller.health.unready_because()),
            nodes=NodeCounts(totals.nodes, totals.schedulable, totals.with_gpus),
            gpus=GpuCounts(totals.gpus, totals.gpus - totals.reserved - totals.free, totals.reserved, totals.free),
            gangs=dict(phases),
            waiting=dict(reasons.most_common()),
            queues=len(controller.admission.sharing.queues),
            oldest_wait=_longest_wait(rows),
            verbs=tuple(VerbCalls(found.calls, found.p50, found.p99, verb) for verb, found in calls),
            passes=passes,
            recording=_recording(controller.journal.standing()),
        )


def _longest_wait(rows: Iterable[GangRow]) -> LongestWait | None:
    """Return which gang has waited for longest."""
    waiting = ((row.since, row.key) for row in rows if row.reason is not None and row.since is not None)
    since, gang = min(waiting, key=lambda each: each[0], default=("", ""))
    return LongestWait(gang, since) if gang else None


def _recording(recording: Recording) -> RecordingState:
    since = write_timestamp(recording.since) if recording.on else None
    return RecordingState(recording.on, recording.inputs, recording.size, since, recording.ended or None)


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * _MILLISECONDS, _DECIMALS)


def _latency(buckets: Buckets) -> CallLatency:
    calls = int(max(buckets.values(), default=0.0))
    return CallLatency(calls, *(_milliseconds(quantile(buckets, share)) for share in (0.5, 0.99)))


#: Entries of the decision log that the first picture has.
_FIRST_EVENTS = 200


@dataclass(frozen=True, slots=True)
class BoardPicture:
    """The board at one moment: values that do not change any more, to be written down in a thread.

    `order` has the gangs that wait, in the order of the queue.
    """

    seq: int
    status: StatusDocument
    levels: tuple[str, ...]
    gangs: dict[GroupRef, GangRow]
    order: tuple[GroupRef, ...]
    queues: tuple[QueueRow, ...]
    nodes: tuple[NodeRow, ...]
    events: tuple[DecisionRow, ...]


@dataclass(frozen=True, slots=True)
class BoardChange:
    """What is new on the board since the last change; None for parts that are as they were."""

    seq: int
    status: StatusDocument
    put: tuple[GangRow, ...]
    gone: tuple[str, ...]
    order: tuple[str, ...] | None
    queues: tuple[QueueRow, ...] | None
    events: tuple[DecisionRow, ...]
    nodes: tuple[NodeRow, ...]
    nodes_gone: tuple[str, ...]


class Board:
    """Keep the rows of gangs, nodes and queues; every read brings them up to date first.

    Only what changed is looked at, so that a page which is open all day costs little.
    """

    def __init__(self, controller: Controller, metrics: Metrics, clock: Clock) -> None:
        self._controller = controller
        self._gang_rows = GangRows(controller)
        self._node_rows = NodeRows(controller.admission)
        self._status = ServiceStatus(controller, metrics, clock)
        self._gangs: dict[GroupRef, GangRow] = {}
        self._order: tuple[GroupRef, ...] = ()
        self._queues: tuple[QueueRow, ...] = ()
        self._put: dict[GroupRef, None] = {}
        self._gone: dict[GroupRef, None] = {}
        self._told: tuple[tuple[GroupRef, ...], tuple[QueueRow, ...], int] = ((), (), 0)
        self._told_status: StatusDocument | None = None
        self._seq = 0
        self._passes = -1
        self._refreshing = False

    @property
    def seq(self) -> int:
        """Return the number of the last change that was taken."""
        return self._seq

    def refresh(self) -> Iterator[None]:
        """Bring the board up to date, in steps between which others may have the event loop.

        While one caller is at it, others are told at once: what they read is at most a few milliseconds old.
        """
        if self._refreshing:
            return
        self._refreshing = True
        try:
            yield from self._node_rows.refresh()
            yield from self._refresh_gangs()
        finally:
            self._refreshing = False

    async def look(self) -> BoardPicture:
        """Bring the board up to date, letting others have the event loop on the way, and return what it shows."""
        for _ in self.refresh():
            await asyncio.sleep(0)
        return self.picture()

    def resources(self) -> Callable[[str], Resources]:
        """Return what tells of each node how much CPU and memory it has and has left, as things stand now."""
        return self._node_rows.resources()

    def picture(self) -> BoardPicture:
        """Return the whole board as it was when last brought up to date."""
        decisions = self._controller.decisions
        return BoardPicture(
            seq=self._seq,
            status=self._status.document(self._gangs.values(), self._node_rows.totals),
            levels=self._node_rows.levels,
            gangs=self._gangs.copy(),
            order=self._order,
            queues=self._queues,
            nodes=tuple(self._node_rows.rows.values()),
            events=tuple(decisions.since(max(decisions.last - _FIRST_EVENTS, 0))),
        )

    def take_change(self) -> BoardChange | None:
        """Return what has changed since this was last asked, None if nothing has but the time."""
        order, queues, seen = self._told
        decisions, rows = self._controller.decisions, self._node_rows
        events = decisions.since(seen) if decisions.last - seen <= MOST_ENTRIES else []
        now = self._status.document(self._gangs.values(), rows.totals)
        if not (self._put or self._gone or rows.changed or events or queues != self._queues) and self._is_told(now):
            return None
        self._seq += 1
        change = BoardChange(
            seq=self._seq,
            status=now,
            put=tuple(self._gangs[ref] for ref in self._put if ref in self._gangs),
            gone=self._names_gone(),
            order=None if order == self._order else tuple(map(str, self._order)),
            queues=None if queues == self._queues else self._queues,
            events=tuple(events),
            nodes=tuple(rows.rows[name] for name in rows.changed if name in rows.rows),
            nodes_gone=tuple(name for name in rows.changed if name not in rows.rows),
        )
        self.forget_changes()
        self._told_status = now
        return change

    def forget_changes(self) -> None:
        """Forget the changes so far: the next caller that asks for changes has the board as it is."""
        self._put, self._gone = {}, {}
        self._node_rows.changed.clear()
        self._told = self._order, self._queues, self._controller.decisions.last

    def _names_gone(self) -> tuple[str, ...]:
        """Return what is gone by name, but for names that another gang still has: pages know gangs by their names."""
        named = set(map(str, self._gangs)) if self._gone else set()
        return tuple(name for ref in self._gone if (name := str(ref)) not in named)

    def _is_told(self, status: StatusDocument) -> bool:
        """Tell whether a status says the same as the one that was told last, but for the time."""
        told = self._told_status
        return told is not None and replace(status, time=told.time) == told

    def _refresh_gangs(self) -> Iterator[None]:
        """Look at the gangs that changed, and at those whose expected start may have."""
        admission = self._controller.admission
        gangs = admission.model.gangs
        changed = self._controller.changed_gangs.take()
        heads = [keep.gang.ref for keep in admission.heads]
        refs = [gang.ref for gang in gangs] if changed is None else [*changed, *heads]
        if admission.passes != self._passes or changed is None or changed:
            self._passes = admission.passes
            self._order = tuple(ref for ref in admission.waiting_order() if gangs.get(ref) is not None)
            self._queues = (
                tuple(report.row for report in self._controller.inspection.queues()) if admission.sharing.queues else ()
            )
        yield
        if changed is None:
            for ref in [ref for ref in self._gangs if gangs.get(ref) is None]:
                self._drop(ref)
        for ref in dict.fromkeys(refs):
            gang = gangs.get(ref)
            row = None if gang is None else self._gang_rows.row(gang)
            if row is None:
                self._drop(ref)
            elif self._gangs.get(ref) != row:
                self._gangs[ref] = row
                self._put[ref] = None
                self._gone.pop(ref, None)
            yield  # what is predicted of where it is takes half a millisecond, of very large ones more
        if refs:
            self._gang_rows.forget({gang.uid for gang in gangs})

    def _drop(self, ref: GroupRef) -> None:
        if self._gangs.pop(ref, None) is not None:
            self._put.pop(ref, None)
            self._gone[ref] = None
