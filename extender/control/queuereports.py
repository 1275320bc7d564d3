"""Telling people how Queues stand: status and Events, each change once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from extender.admission.queueview import QueueView
from extender.clock import Clock
from extender.control.outbox import Outbox, Urgency
from extender.control.ports import ApiError, ClusterApi, ClusterEvent, QueueStatus, QueueUsage
from extender.domain.objectref import ObjectRef

API_VERSION = "muster.dev/v1alpha1"

_READY, _USABLE = "Ready", "the Queue can be used"
#: How long a status may stand in which only the share and the past usage are no longer right (seconds): both change
#: all the time while anything runs. After a restart so much of the past usage is missing at most.
_DRIFT_SECONDS = 60.0
#: A share is told to a thousandth.
_SHARE_DIGITS = 3


@dataclass(frozen=True, slots=True)
class _Said:
    """What was written last: the Queue's UID, its status, and when (monotonic)."""

    uid: str
    status: QueueStatus
    at: float


class QueueReports:
    """Look at queues some time after something changed, and write what is new about them."""

    def __init__(
        self,
        api: ClusterApi,
        outbox: Outbox,
        clock: Clock,
        views: Callable[[], Iterable[QueueView]],
        delay_seconds: float,
    ) -> None:
        """Write to `api` through `outbox`, `delay_seconds` after a change, what `views` then says."""
        self._api = api
        self._outbox = outbox
        self._clock = clock
        self._views = views
        self._delay = delay_seconds
        self._said: dict[str, _Said] = {}
        self._complaints: dict[str, tuple[str, str, str]] = {}  # what was last told: UID, reason, message
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0  # when the timer fires (monotonic)

    def changed(self) -> None:
        """Look at all queues in a moment."""
        self._look_in(self._delay)

    def stand_down(self) -> None:
        """Tell nothing any more, and forget what was told: somebody else may tell other things meanwhile."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._said.clear()
        self._complaints.clear()

    def _look_in(self, seconds: float) -> None:
        due = self._clock.monotonic() + seconds
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        seen = {view.name: view for view in self._views()}
        for name in self._said.keys() - seen.keys():
            del self._said[name]
        for name in self._complaints.keys() - seen.keys():
            del self._complaints[name]
        for view in seen.values():
            self._report(view)
            self._complain(view)

    def _report(self, view: QueueView) -> None:
        """Write a queue's status if it reads differently, drifting figures seldom."""
        status, now = queue_status(view), self._clock.monotonic()
        said = self._said.get(view.name)
        if said is not None and said.uid == view.uid:
            if said.status == status:
                return
            drifted_until = said.at + _DRIFT_SECONDS
            if _steady(said.status) == _steady(status) and now < drifted_until:
                self._look_in(drifted_until - now)
                return
        self._said[view.name] = _Said(view.uid, status, now)
        call = partial(self._write, view.name, view.uid, status)
        self._outbox.put(Urgency.STATUS, f"status/queue/{view.name}", f"Queue {view.name}", call)

    async def _write(self, name: str, uid: str, status: QueueStatus) -> None:
        """Write a status; one that could not be written is not remembered as said."""
        try:
            await self._api.update_queue_status(name, uid, status)
        except ApiError:
            said = self._said.get(name)
            if said is not None and (said.uid, said.status) == (uid, status):
                del self._said[name]
            raise

    def _complain(self, view: QueueView) -> None:
        """Write an Event when something is wrong with a queue, once for each reason, and when nothing is any more."""
        before = self._complaints.get(view.name)
        now = None if view.active and not view.message else (view.uid, view.reason, view.message)
        if before == now:
            return
        if now is None:
            del self._complaints[view.name]
            self._event(view, warning=False, reason=_READY, message=_USABLE)
        else:
            self._complaints[view.name] = now
            self._event(view, warning=True, reason=_reason(view), message=view.message)

    def _event(self, view: QueueView, *, warning: bool, reason: str, message: str) -> None:
        about = ObjectRef(API_VERSION, "Queue", "", view.name, view.uid)
        event = ClusterEvent(about, warning=warning, reason=reason, message=message, action="Scheduling")
        key = f"event/{view.uid}/{reason}/{message}"
        self._outbox.put(Urgency.EVENT, key, str(about), partial(self._api.record_event, event))


def queue_status(view: QueueView) -> QueueStatus:
    """Return what a Queue's status shall say of it."""
    return QueueStatus(
        usage=tuple(
            QueueUsage(
                flavor=use.flavor,
                resource=use.resource,
                used=use.used,
                borrowed=use.borrowed,
                lent=use.lent,
                nominal=use.nominal,
            )
            for use in view.flavors
        ),
        share=round(view.share, _SHARE_DIGITS),
        pending_gangs=view.pending,
        admitted_gangs=view.admitted,
        active=view.active,
        reason=_reason(view),
        message=view.message or (_USABLE if view.active else ""),
        observed_generation=view.generation,
        history=view.history,
        history_at=view.history_at,
    )


def _reason(view: QueueView) -> str:
    if view.reason or not view.active:
        return view.reason or "Inactive"
    return "NotAsWritten" if view.message else _READY


def _steady(status: QueueStatus) -> QueueStatus:
    """Return a status without what changes while nothing happens."""
    return replace(status, share=0.0, history=(), history_at="")
