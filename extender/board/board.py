"""All that people see of a cluster at once, kept up to date while somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from extender.board.document import Json
from extender.board.eventrows import event_row
from extender.board.gangrows import GangRows
from extender.board.noderows import NodeRow, NodeRows, Resources
from extender.board.queuerows import queue_row
from extender.board.status import Status
from extender.clock import Clock
from extender.control.controller import Controller
from extender.control.decisionlog import MOST_ENTRIES
from extender.control.metrics import Metrics
from extender.domain.membership import GroupRef

#: Entries of the decision log that the first picture has.
_FIRST_EVENTS = 200


@dataclass(frozen=True, slots=True)
class Picture:
    """The board at one moment: values that nobody changes any more, to be written down in a thread.

    `order` has the gangs that wait, in the order in which they are judged.
    """

    seq: int
    status: Json
    levels: tuple[str, ...]
    gangs: dict[GroupRef, Json]
    order: tuple[GroupRef, ...]
    queues: tuple[Json, ...]
    nodes: tuple[NodeRow, ...]
    events: tuple[Json, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """What is new on the board since the last change; None for parts that are as they were."""

    seq: int
    status: Json
    put: tuple[Json, ...]
    gone: tuple[str, ...]
    order: tuple[str, ...] | None
    queues: tuple[Json, ...] | None
    events: tuple[Json, ...]
    nodes: tuple[NodeRow, ...]
    nodes_gone: tuple[str, ...]


class Board:
    """Keep the rows of gangs, nodes and queues; whoever reads brings them up to date first.

    Only what changed is looked at, so that a page which is open all day costs little.
    """

    def __init__(self, controller: Controller, metrics: Metrics, clock: Clock) -> None:
        """Show what `controller` knows."""
        self._controller = controller
        self._gang_rows = GangRows(controller)
        self._node_rows = NodeRows(controller.admission)
        self._status = Status(controller, metrics, clock)
        self._gangs: dict[GroupRef, Json] = {}
        self._order: tuple[GroupRef, ...] = ()
        self._queues: tuple[Json, ...] = ()
        self._put: dict[GroupRef, None] = {}
        self._gone: dict[GroupRef, None] = {}
        self._told: tuple[tuple[GroupRef, ...], tuple[Json, ...], int, Json] = ((), (), 0, {})
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

    def resources(self) -> Callable[[str], Resources]:
        """Return what tells of each node how much CPU and memory it has and has left, as things stand now."""
        return self._node_rows.resources()

    def picture(self) -> Picture:
        """Return the whole board as it was when last brought up to date."""
        decisions = self._controller.decisions
        return Picture(
            seq=self._seq,
            status=self._status.json(self._gangs.values(), self._node_rows.totals),
            levels=self._node_rows.levels,
            gangs=self._gangs.copy(),
            order=self._order,
            queues=self._queues,
            nodes=tuple(self._node_rows.rows.values()),
            events=tuple(map(event_row, decisions.since(max(decisions.last - _FIRST_EVENTS, 0)))),
        )

    def take_change(self) -> Change | None:
        """Return what has changed since this was last asked, None if nothing has but the time."""
        order, queues, seen, status = self._told
        decisions, rows = self._controller.decisions, self._node_rows
        events = decisions.since(seen) if decisions.last - seen <= MOST_ENTRIES else []
        now = self._status.json(self._gangs.values(), rows.totals)
        told = {**now, "time": status.get("time")}
        if not (self._put or self._gone or rows.changed or events) and told == status and queues == self._queues:
            return None
        self._seq += 1
        change = Change(
            seq=self._seq,
            status=now,
            put=tuple(self._gangs[ref] for ref in self._put if ref in self._gangs),
            gone=tuple(str(ref) for ref in self._gone),
            order=None if order == self._order else tuple(map(str, self._order)),
            queues=None if queues == self._queues else self._queues,
            events=tuple(map(event_row, events)),
            nodes=tuple(rows.rows[name] for name in rows.changed if name in rows.rows),
            nodes_gone=tuple(name for name in rows.changed if name not in rows.rows),
        )
        self.forget_changes()
        self._told = (*self._told[:3], now)
        return change

    def forget_changes(self) -> None:
        """Take in that whoever asks for changes next knows the board as it is."""
        self._put, self._gone = {}, {}
        self._node_rows.changed.clear()
        self._told = (self._order, self._queues, self._controller.decisions.last, self._told[3])

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
                tuple(map(queue_row, self._controller.inspection.queues())) if admission.sharing.queues else ()
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
