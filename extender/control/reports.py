"""Telling people how gangs and Queues stand: status and Events, each change once, a moment after it.

What is to be written goes to the outbox. What was written is remembered: what reads the same is not written again.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Final

import structlog
from msgspec import structs

from extender.admission.admission import Admission
from extender.clock import Clock
from extender.cluster.gangs import Gang, member_order
from extender.control.outbox import Outbox, Urgency
from extender.control.ports import ApiError, ClusterApi, ClusterEvent
from extender.explain.views import GangView, GroupStatus, QueueReport, gang_view, group_status
from extender.ledger.effects import Note
from extender.objects.meta import ObjectRef
from extender.objects.pod import Pod
from extender.objects.podgroup import GroupRef
from extender.objects.reason import Reason
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.objects.sources.table import SOURCE_OF

log = structlog.get_logger("muster.control")

API_VERSION = "muster.dev/v1alpha1"

#: How long a status may stand in which only the share and the past usage are no longer right (seconds): both change
#: all the time while anything runs. After a restart so much of the past usage is missing at most.
_DRIFT_SECONDS = 60.0
#: After how long what could not be written is told again, as it then is (seconds): an API server that refuses it, for
#: want of a right or by a webhook, may admit it later, and nothing else may change meanwhile.
AGAIN_SECONDS: Final = 60.0
#: How many Queues are looked at before others have the event loop: 1 to 2 ms.
_QUEUES_PER_TURN = 25
#: Nodes that an Event names: it has room for 1024 characters, a name for 253, and most have some 40.
_MOST_NODES = 8
#: A share is told to a thousandth.
_SHARE_DIGITS = 3


class Events:
    """Write Events by way of the outbox: equal ones that wait are one."""

    def __init__(self, api: ClusterApi, outbox: Outbox) -> None:
        self._api = api
        self._outbox = outbox

    def write(self, about: ObjectRef, *, warning: bool, reason: str, message: str, state: str = "") -> None:
        """Write an Event about an object; of those of one `state` that have not been sent the newest counts."""
        event = ClusterEvent(about, warning=warning, reason=reason, message=message, action="Scheduling")
        key = f"event/{about.uid}/{state or f'{reason}/{message}'}"
        self._outbox.put(Urgency.EVENT, key, str(about), partial(self._api.record_event, event))


class GangReports:
    """Write what is new about gangs: the status of their objects, and Events."""

    def __init__(
        self, admission: Admission, api: ClusterApi, outbox: Outbox, not_written: Callable[[GroupRef], None]
    ) -> None:
        """Call `not_written` with a gang whose status could not be written: it is to be reported again."""
        self._admission = admission
        self._not_written = not_written
        self._api = api
        self._outbox = outbox
        self._events = Events(api, outbox)
        self._statuses: dict[GroupRef, tuple[str, GroupStatus]] = {}
        self._told: dict[GroupRef, tuple[str, Reason | None, str]] = {}
        self._copied: dict[GroupRef, Reason] = {}  # what owners and first pods were told last
        self._starts: dict[GroupRef, float] = {}  # barriers that opened: after how long (seconds)

    def started(self, ref: GroupRef, waited: float) -> None:
        """Take in that the barrier of a gang opened, `waited` seconds after it was first seen.

        It is told when the Bindings are there. Members that join a gang which has its minimum start nothing.
        """
        gang = self._admission.model.gangs.get(ref)
        if gang is not None and not (ref.is_pod or gang.has_minimum):
            self._starts[ref] = waited

    def report(self, ref: GroupRef) -> None:
        """Write what is new about a gang; forget one that is gone."""
        gang = self._admission.model.gangs.get(ref)
        if gang is None:
            self._statuses.pop(ref, None)
            self._told.pop(ref, None)
            self._copied.pop(ref, None)
            self._starts.pop(ref, None)
            return
        if ref.is_pod and ref not in self._told and gang.uid not in self._admission.reservations.waits:
            return  # it has no object, and kube-scheduler tells that it starts: there is nothing to tell until it waits
        seen = gang_view(self._admission, gang)
        if seen.managed and not gang.has_ended:  # how it ended stays: its pods may be cleaned up since
            self._write_new(gang, seen)

    def note(self, note: Note) -> None:
        """Write an Event that the admission asked for; one about a gang that is gone is left out."""
        name = note.about.key if isinstance(note.about, Pod) else str(note.about)
        log.info("note", reason=note.reason, message=note.message, about=name)
        match note.about:
            case Pod() as pod:
                self._events.write(_about_pod(pod), warning=note.warning, reason=note.reason, message=note.message)
            case ObjectRef() as about:
                self._events.write(about, warning=note.warning, reason=note.reason, message=note.message)
            case GroupRef() as ref:
                gang = self._admission.model.gangs.get(ref)
                if gang is not None:
                    self._tell(gang, warning=note.warning, reason=note.reason, message=note.message)

    def stand_down(self) -> None:
        """Forget what was told: another replica may tell other things meanwhile."""
        self._statuses.clear()
        self._told.clear()
        self._copied.clear()
        self._starts.clear()

    def _write_new(self, gang: Gang, seen: GangView) -> None:
        """Write the PodGroup's status, and an Event when the gang began to wait, changed its reason, or started.

        Of a gang of one kube-scheduler's own Event says that it started.
        """
        if gang.group is not None and gang.ref.api == COSCHEDULING:
            status = group_status(seen, gang.group.generation)
            if self._statuses.get(gang.ref) != (gang.group.uid, status):
                self._statuses[gang.ref] = (gang.group.uid, status)
                call = partial(self._write_status, gang.ref, gang.group.uid, status)
                self._outbox.put(Urgency.STATUS, f"status/{gang.ref.api}/{gang.ref}", str(gang.ref), call)
        self._tell_start(gang, seen)
        self._tell_wait(gang, seen)

    def _tell_start(self, gang: Gang, seen: GangView) -> None:
        """Write an Event once minMember members are bound whose barrier opened, or that were said to wait."""
        if not seen.has_minimum or gang.ref.is_pod:
            return
        waited, before = self._starts.pop(gang.ref, None), self._told.get(gang.ref)
        if waited is None and (seen.wait is not None or before is None or before[1] is None):
            return
        nodes = sorted({pod.node_name for pod in gang.members.values() if pod.node_name and not pod.deleting})
        text = f"{seen.census.secured} members bound, minMember is {seen.min_member}; {_named(nodes)}"
        if waited is not None:
            text += f"; {waited:.1f} s after the gang was first seen"
        for about in filter(None, (about_gang(gang), owner_of(gang))):
            self._events.write(about, warning=False, reason="Started", message=text)

    def _tell_wait(self, gang: Gang, seen: GangView) -> None:
        """Write an Event when the gang began to wait, or for another reason."""
        wait, started = seen.wait, seen.has_minimum
        if wait is None:
            if started:
                self._told[gang.ref] = (seen.uid, None, "")
                self._copied.pop(gang.ref, None)
            return
        said, before = (seen.uid, wait.reason, wait.message), self._told.get(gang.ref)
        self._told[gang.ref] = said
        awaiting = wait.reason is Reason.AWAITING_MEMBERS
        if before is None and started and not seen.reserved and not seen.census.placeable:
            return
        if gang.ref.is_pod and awaiting:
            return
        if not gang.members and wait.reason in {Reason.MEMBERS_MISSING, Reason.ROLE_MEMBERS_MISSING}:
            return  # nothing is wrong with a PodGroup that is created before its pods
        about = [about_gang(gang)] if before != said else []
        if gang.members and not awaiting and self._copied.get(gang.ref) is not wait.reason:
            self._copied[gang.ref] = wait.reason
            about += also_about(gang)
        for each in filter(None, about):
            # A thousand gangs that wait would fill the outbox with numbers that have changed since.
            self._events.write(each, warning=not awaiting, reason=str(wait.reason), message=wait.message, state="waits")

    def _tell(self, gang: Gang, *, warning: bool, reason: str, message: str) -> None:
        """Write an Event about a gang: on its PodGroup, or on its first pod where it has no object."""
        about = about_gang(gang)
        if about is not None:
            self._events.write(about, warning=warning, reason=reason, message=message)

    async def _write_status(self, ref: GroupRef, uid: str, status: GroupStatus) -> None:
        """Write a status; one that could not be written is not remembered as said."""
        try:
            await self._api.update_group_status(ref, uid, status)
        except ApiError:
            if self._statuses.get(ref) == (uid, status):
                del self._statuses[ref]
                self._not_written(ref)
            raise


@dataclass(frozen=True, slots=True)
class _Said:
    """What was written last, and when (monotonic)."""

    report: QueueReport
    at: float


class QueueReports:
    """Look at queues some time after something changed, and write what is new about them."""

    def __init__(
        self,
        api: ClusterApi,
        outbox: Outbox,
        clock: Clock,
        queues: Callable[[], Iterable[QueueReport]],
        delay_seconds: float,
    ) -> None:
        """Write to `api` through `outbox`, `delay_seconds` after a change, what `queues` then says."""
        self._api = api
        self._outbox = outbox
        self._events = Events(api, outbox)
        self._clock = clock
        self._queues = queues
        self._delay = delay_seconds
        self._said: dict[str, _Said] = {}
        self._complaints: dict[str, tuple[str, str, str]] = {}  # what was last told: UID, reason, message
        self._round: Iterator[QueueReport] | None = None  # those of this look that are still to come
        self._found: set[str] = set()  # the queues that this look has come by
        self._again_at = math.inf  # when to look again after this look (monotonic)
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0  # when the timer fires (monotonic)

    def changed(self) -> None:
        """Look at all queues in a moment."""
        due = self._clock.monotonic() + self._delay
        if self._round is None:
            self._look_at(due)
        else:
            self._again_at = min(self._again_at, due)

    def stand_down(self) -> None:
        """Tell nothing any more, and forget what was told: another replica may tell other things meanwhile."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._round = None
        self._said.clear()
        self._complaints.clear()

    def _look_at(self, due: float) -> None:
        """Look at `due` (monotonic), unless that is to be done earlier."""
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        seconds = due - self._clock.monotonic()
        self._timer = asyncio.get_running_loop().call_later(max(seconds, 0.0), self._look)

    def _look(self) -> None:
        """Look at some queues, and at the others in the next turns of the loop."""
        self._timer = None
        if self._round is None:
            self._round, self._found, self._again_at = iter(self._queues()), set(), math.inf
        try:
            some = [_rounded(report) for report in islice(self._round, _QUEUES_PER_TURN)]
        except Exception:
            self._round = None
            raise
        for report in some:
            self._found.add(report.name)
            self._again_at = min(self._again_at, self._report(report))
            self._complain(report)
        if len(some) == _QUEUES_PER_TURN:
            self._look_at(self._clock.monotonic())
            return
        self._round = None
        for name in (self._said.keys() | self._complaints.keys()) - self._found:
            self._said.pop(name, None)
            self._complaints.pop(name, None)
        if self._again_at < math.inf:
            self._look_at(self._again_at)

    def _report(self, report: QueueReport) -> float:
        """Write a Queue's status if it reads differently; return when to look at it again (monotonic)."""
        name, now = report.name, self._clock.monotonic()
        said = self._said.get(name)
        if said is not None and said.report.uid == report.uid:
            if said.report == report:
                return math.inf
            drifted_until = said.at + _DRIFT_SECONDS
            if _steady(said.report) == _steady(report) and now < drifted_until:
                return drifted_until
        self._said[name] = _Said(report, now)
        self._outbox.put(Urgency.STATUS, f"status/queue/{name}", f"Queue {name}", partial(self._write, report))
        return math.inf

    async def _write(self, report: QueueReport) -> None:
        """Write a status; one that could not be written is not remembered as said."""
        try:
            await self._api.update_queue_status(report.name, report.uid, report)
        except ApiError:
            said = self._said.get(report.name)
            if said is not None and said.report == report:
                del self._said[report.name]
                self._look_at(self._clock.monotonic() + AGAIN_SECONDS)
            raise

    def _complain(self, report: QueueReport) -> None:
        """Write an Event when something is wrong with a Queue, once for each reason, and when nothing is any more."""
        sound = report.row.active and not report.row.message
        before = self._complaints.get(report.name)
        now = None if sound else (report.uid, report.reason, report.message)
        if before == now:
            return
        if now is None:
            del self._complaints[report.name]
        else:
            self._complaints[report.name] = now
        about = ObjectRef(API_VERSION, "Queue", "", report.name, report.uid)
        self._events.write(about, warning=not sound, reason=report.reason, message=report.message)


def _rounded(report: QueueReport) -> QueueReport:
    return replace(report, row=structs.replace(report.row, share=round(report.row.share, _SHARE_DIGITS)))


def _steady(report: QueueReport) -> QueueReport:
    """Return a report without what changes while nothing happens."""
    return replace(report, row=structs.replace(report.row, share=0.0), history=(), history_at="")


def _named(nodes: Sequence[str]) -> str:
    """Say on how many nodes, and on which as far as an Event has room."""
    more = len(nodes) - _MOST_NODES
    names = ", ".join(nodes[:_MOST_NODES]) + (f" and {more} more" if more > 0 else "")
    return f"on {len(nodes)} node{'s' if len(nodes) > 1 else ''}: {names}"


def about_gang(gang: Gang) -> ObjectRef | None:
    """Return the object of a gang: what describes it, or its first pod; None if it has neither."""
    if gang.group is not None and gang.group.about is not None:
        return gang.group.about
    if gang.group is not None:
        version = SOURCE_OF[gang.ref.api].kinds[0].api_version
        return ObjectRef(version, "PodGroup", gang.ref.namespace, gang.ref.name, gang.group.uid)
    first = first_pod(gang)
    return None if first is None else _about_pod(first)


def also_about(gang: Gang) -> Iterator[ObjectRef]:
    """Yield where else people look for why a gang waits: at what made its object, or its pods, and at its first pod.

    What made a gang of one pod, as a ReplicaSet, may have made thousands of them.
    """
    about, first = about_gang(gang), first_pod(gang)
    if first is not None and not gang.ref.is_pod:
        yield from (each for each in (owner_of(gang), _about_pod(first)) if each is not None and each != about)


def owner_of(gang: Gang) -> ObjectRef | None:
    """Return what made the object of a gang, or its pods; None if nothing did but what the gang is told by."""
    group, first = gang.group, first_pod(gang)
    kinds = SOURCE_OF[gang.ref.api].kinds
    makes_pods = group is not None and any(kind.kind == group.kind and kind.expand is not None for kind in kinds)
    above = None if group is None else group.owner
    owner = above or (None if makes_pods or first is None else first.owner)
    return None if owner == about_gang(gang) else owner


def first_pod(gang: Gang) -> Pod | None:
    """Return the first member of a gang that has not ended, else the first; None if it has none."""
    return min(gang.members.values(), key=lambda pod: (pod.done, *member_order(pod)), default=None)


def _about_pod(pod: Pod) -> ObjectRef:
    return ObjectRef("v1", "Pod", pod.namespace, pod.name, pod.uid)
