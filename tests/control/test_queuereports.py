"""What is written about Queues, and how often."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from msgspec import structs

from extender.admission.events import QueueSeen
from extender.control.exposition import QueueGauges
from extender.control.metrics import Metrics
from extender.control.outbox import Outbox, WriteWindow
from extender.control.ports import ApiError
from extender.control.reports import QueueReports
from extender.explain.documents import QueueRow, QuotaUse
from extender.explain.views import QueueReport
from extender.objects.queue import Flavor, Queue, Quota
from extender.settings import Settings
from muster_lab.simulation.virtual_time import LoopClock
from tests.control.conftest import Muster, ScriptedApi

GPU = "nvidia.com/gpu"
TEAM = QueueReport(
    QueueRow(
        name="team-a",
        parent="research",
        active=True,
        reason="",
        message="",
        share=0.25,
        pending_gangs=3,
        admitted_gangs=2,
        flavors=(QuotaUse("h100", GPU, nominal=16, used=24, borrowed=8, lent=0),),
    ),
    uid="uid-a",
    generation=7,
    history=((GPU, 20.5),),
    history_at="2026-01-01T00:00:00Z",
)


def like(report: QueueReport, **fields: Any) -> QueueReport:
    """Return a report whose row has other values."""
    return replace(report, row=structs.replace(report.row, **fields))


@dataclass
class Stand:
    """Reports of queues that the test describes."""

    api: ScriptedApi
    reports: QueueReports = field(init=False)
    queues: dict[str, QueueReport] = field(default_factory=dict)
    look: Callable[[], Iterator[QueueReport]] | None = None
    pending: int = 3

    def iterate(self) -> Iterator[QueueReport]:
        """Iterate over how queues stand."""
        return iter(list(self.queues.values())) if self.look is None else self.look()

    def show(self, report: QueueReport) -> None:
        """Let a queue stand so, and say that something has changed."""
        self.queues[report.name] = report
        self.reports.changed()

    @property
    def written(self) -> list[QueueReport]:
        """Return the statuses written so far."""
        return [status for _, status in self.api.queue_statuses]

    @property
    def said(self) -> list[tuple[bool, str, str]]:
        """Return the Events written so far: warning, reason, message."""
        return [(event.warning, event.reason, event.message) for event in self.api.events]


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    """Run reports that are written half a second after a change."""
    api, clock = ScriptedApi(), LoopClock(asyncio.get_running_loop())
    outbox = Outbox(Settings(), clock, Metrics(), WriteWindow(4))
    stand = Stand(api)
    stand.reports = QueueReports(api, outbox, clock, stand.iterate, delay_seconds=0.5)
    sending = asyncio.create_task(outbox.run())
    yield stand
    stand.reports.stand_down()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)


async def test_the_status_says_how_a_queue_stands(stand: Stand) -> None:
    """Usage by flavor and resource, share, gangs, past usage, and the Active condition."""
    stand.show(TEAM)
    await asyncio.sleep(1)
    assert stand.api.queue_statuses == [("team-a", TEAM)]
    (status,) = stand.written
    assert (status.reason, status.message) == ("Ready", "the Queue can be used")
    assert stand.said == []


async def test_changes_are_collected(stand: Stand) -> None:
    """Many at once make one status; one that reads as before makes none."""
    for pending in range(5):
        stand.show(like(TEAM, pending_gangs=pending))
    await asyncio.sleep(1)
    assert [status.row.pending_gangs for status in stand.written] == [4]
    stand.reports.changed()
    await asyncio.sleep(1)
    assert len(stand.written) == 1


async def test_what_drifts_is_written_once_a_minute(stand: Stand) -> None:
    """Share and past usage change while anything runs; with something else they are written at once."""
    stand.show(TEAM)
    await asyncio.sleep(1)
    for second in range(5):
        stand.show(like(TEAM, share=0.3 + second / 100))
        await asyncio.sleep(1)
    assert len(stand.written) == 1
    await asyncio.sleep(60)
    assert [status.row.share for status in stand.written] == [0.25, 0.34]
    stand.show(like(TEAM, share=0.5))
    stand.show(like(TEAM, share=0.6, admitted_gangs=3))
    await asyncio.sleep(1)
    assert [status.row.share for status in stand.written] == [0.25, 0.34, 0.6]


async def test_a_change_is_not_held_up_by_drift(stand: Stand) -> None:
    """Somebody looks in a minute because of the share; half a second after a real change it is written."""
    stand.show(TEAM)
    await asyncio.sleep(1)
    stand.show(like(TEAM, share=0.3))
    await asyncio.sleep(1)
    stand.show(like(TEAM, share=0.3, pending_gangs=0))
    await asyncio.sleep(1)
    assert [status.row.pending_gangs for status in stand.written] == [3, 0]


async def test_a_queue_that_cannot_be_used_says_why_once(stand: Stand) -> None:
    """A Warning Event for each reason, and one when it is over."""
    broken = like(TEAM, active=False, reason="Invalid", message="spec.parent: there is no Queue research")
    stand.show(broken)
    await asyncio.sleep(1)
    stand.show(like(broken, pending_gangs=9))
    await asyncio.sleep(1)
    assert [(status.row.active, status.reason, status.message) for status in stand.written] == [
        (False, "Invalid", "spec.parent: there is no Queue research")
    ] * 2
    stand.show(TEAM)
    await asyncio.sleep(1)
    assert stand.said == [
        (True, "Invalid", "spec.parent: there is no Queue research"),
        (False, "Ready", "the Queue can be used"),
    ]
    (about,) = {event.about for event in stand.api.events}
    assert (about.api_version, about.kind, about.name, about.uid) == ("muster.dev/v1alpha1", "Queue", "team-a", "uid-a")


async def test_a_queue_that_works_can_have_something_wrong_with_it(stand: Stand) -> None:
    """A second default, say: the condition stays True and says so, and there is a Warning."""
    stand.show(like(TEAM, message="spec.default: Queue b is the default too"))
    await asyncio.sleep(1)
    (status,) = stand.written
    assert (status.row.active, status.reason) == (True, "NotAsWritten")
    assert stand.said == [(True, "NotAsWritten", "spec.default: Queue b is the default too")]


async def test_a_namesake_is_somebody_else(stand: Stand) -> None:
    """A Queue that was deleted and created again gets its status, though it reads the same."""
    stand.show(TEAM)
    await asyncio.sleep(1)
    stand.queues.clear()
    stand.reports.changed()
    await asyncio.sleep(1)
    stand.show(TEAM)
    await asyncio.sleep(1)
    stand.show(replace(TEAM, uid="uid-b"))
    await asyncio.sleep(1)
    assert len(stand.written) == 3


async def test_a_complaint_is_forgotten_with_its_queue(stand: Stand) -> None:
    """The next Queue of the name is told again."""
    broken = like(TEAM, active=False, message="two parents")
    for _ in range(2):
        stand.show(broken)
        await asyncio.sleep(1)
        stand.queues.clear()
        stand.reports.changed()
        await asyncio.sleep(1)
    assert stand.said == [(True, "Inactive", "two parents")] * 2


async def test_a_status_that_was_not_written_is_written_later(stand: Stand) -> None:
    """The next look finds it missing."""
    stand.api.queue_status_failures.append(ApiError(422, "Invalid", "no"))
    stand.show(TEAM)
    await asyncio.sleep(1)
    assert stand.written == []
    stand.reports.changed()
    await asyncio.sleep(1)
    assert len(stand.written) == 1


async def test_a_status_that_was_not_written_is_tried_again_by_itself(stand: Stand) -> None:
    """A minute later, though nothing has changed."""
    stand.api.queue_status_failures.append(ApiError(403, "Forbidden", "denied by a webhook"))
    stand.show(TEAM)
    await asyncio.sleep(55)
    assert stand.written == []
    await asyncio.sleep(10)
    assert len(stand.written) == 1


async def test_standing_down_ends_the_telling(stand: Stand) -> None:
    """Nothing that was due is told; whoever takes up again tells everything."""
    stand.show(TEAM)
    await asyncio.sleep(1)
    stand.show(like(TEAM, pending_gangs=0))
    stand.reports.stand_down()
    await asyncio.sleep(1)
    assert len(stand.written) == 1
    stand.show(TEAM)
    await asyncio.sleep(1)
    assert len(stand.written) == 2


def test_gauges_show_every_queue_and_no_other() -> None:
    """Quota by flavor and resource, share and gangs by queue; what is gone is gone from all of them."""
    metrics = Metrics()
    gauges = QueueGauges(metrics)
    for queues in ([TEAM, like(TEAM, name="team-b", flavors=())], [TEAM]):
        assert list(gauges.show(queues)) == []
    labels = {"queue": "team-a", "flavor": "h100", "resource": GPU}
    sample = metrics.registry.get_sample_value
    assert [sample(f"muster_queue_{what}", labels) for what in ("nominal", "used", "borrowed", "lent")] == [
        16,
        24,
        8,
        0,
    ]
    by_queue = ("share", "pending_gangs", "admitted_gangs")
    assert [sample(f"muster_queue_{what}", {"queue": "team-a"}) for what in by_queue] == [0.25, 3, 2]
    assert sample("muster_queue_share", {"queue": "team-b"}) is None


def test_gauges_of_many_queues_are_set_in_steps() -> None:
    """Others have the event loop in between."""
    metrics = Metrics()
    queues = [like(TEAM, name=f"team-{number}") for number in range(60)]
    assert len(list(QueueGauges(metrics).show(queues))) == 2
    assert metrics.registry.get_sample_value("muster_queue_share", {"queue": "team-59"}) == 0.25


async def test_many_queues_are_looked_at_over_several_turns(stand: Stand) -> None:
    """Each is written once; what changes while the others are looked at is written, too."""
    turns = list[int]()

    def look() -> Iterator[QueueReport]:
        for number in range(60):
            turns.append(number)
            yield like(TEAM, name=f"team-{number:02}", pending_gangs=stand.pending)
            if number == 30 and stand.pending == 3:
                stand.pending = 4
                stand.reports.changed()

    stand.look = look
    stand.reports.changed()
    await asyncio.sleep(0.5)
    assert len(turns) == 25
    await asyncio.sleep(1.5)
    assert len(turns) == 120
    assert len(stand.written) == 60 + 31
    assert {status.name: status.row.pending_gangs for status in stand.written} == {
        f"team-{number:02}": 4 for number in range(60)
    }


async def test_a_look_that_fails_does_not_end_the_reports(stand: Stand) -> None:
    """It is an error of Muster's; the next change is looked at again."""

    def fail() -> Iterator[QueueReport]:
        yield TEAM
        raise RuntimeError

    errors = list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context["exception"]))
    stand.look = fail
    stand.reports.changed()
    await asyncio.sleep(1)
    stand.look = None
    stand.show(TEAM)
    await asyncio.sleep(1)
    assert [type(each) for each in errors] == [RuntimeError]
    assert [status.name for status in stand.written] == ["team-a"]


async def test_a_running_muster_tells_how_queues_stand(muster: Muster) -> None:
    """From the watch to the status: a sound Queue is ready, one below nobody is not, and gangs are counted."""
    muster.nodes(2)
    muster.sync()
    await asyncio.sleep(5)
    quota = {GPU: Quota(16)}
    muster.controller.tell(QueueSeen(Queue("team-a", uid="a", flavors=(Flavor("default", quota),), default=True)))
    muster.controller.tell(QueueSeen(Queue("lost", uid="b", parent="nobody")))
    await asyncio.sleep(5)
    first = {name: (status.row.active, status.reason) for name, status in muster.api.queue_statuses}
    assert first == {"team-a": (True, "Ready"), "lost": (False, "Invalid")}
    (event,) = muster.api.events
    assert (event.about.name, event.reason, event.warning) == ("lost", "Invalid", True)
    pods = muster.gang("train", 2)
    await muster.controller.filter(pods[0], ["node-0", "node-1"])
    await asyncio.sleep(5)
    _, status = muster.api.queue_statuses[-1]
    assert status.row.flavors == (QuotaUse("default", GPU, nominal=16, used=16, borrowed=0, lent=0, reserved=16),)
    assert status.row.admitted_gangs == 1
    assert muster.sample("muster_queue_used", queue="team-a", flavor="default", resource=GPU) == 16
