"""How Queues stand, as their status tells it."""

from __future__ import annotations

from extender.admission.events import QueueGone, QueueSeen
from extender.explain.documents import QuotaUse
from extender.explain.views import queue_reports
from extender.objects.queue import Queue
from tests.queues.test_sharing import gang, queue, tell
from tests.worlds import GPU, World

HOUR = 3600.0


def test_usage_and_what_is_borrowed_and_lent(world: World) -> None:
    """In order of their names, children counted in the usage of their parents but not as their gangs."""
    world.nodes(4)
    tell(world, queue("all"), queue("red", 8, parent="all"), queue("blue", 16, parent="all"))
    for index in range(2):
        gang(world, f"job-{index}", 1, "red").run()
    gang(world, "late", 2, "blue")
    world.judge()
    reports = {report.name: report for report in queue_reports(world.admission)}
    assert list(reports) == ["all", "blue", "red"]
    assert reports["red"].row.flavors == (QuotaUse("all", GPU, nominal=8, used=16, borrowed=8, lent=0),)
    assert reports["blue"].row.flavors == (QuotaUse("all", GPU, nominal=16, used=0, borrowed=0, lent=8),)
    assert [reports[name].row.admitted_gangs for name in ("red", "all")] == [2, 0]
    assert reports["blue"].row.pending_gangs == 1
    assert reports["red"].row.share > reports["blue"].row.share == 0


def test_the_oldest_gang_that_waits_is_told(world: World) -> None:
    """It is when it was created, not when it was seen; a queue in which none waits tells none."""
    world.nodes(1)
    tell(world, queue("red", 32), queue("blue", 8))
    first, _ = (gang(world, name, 2, "red") for name in ("first", "second"))
    gang(world, "runs", 1, "blue").run()
    world.judge()
    reports = {report.name: report for report in queue_reports(world.admission)}
    assert reports["red"].status_json()["pendingSince"] == first.gang.created
    assert reports["blue"].status_json()["pendingSince"] is None


def test_what_is_reserved_is_told_apart_from_what_is_bound(world: World) -> None:
    """It is part of what is used, in the parents too, and is none any more once the pods are bound."""
    world.nodes(3)
    tell(world, queue("all"), queue("red", 16, parent="all"), queue("blue", 16, parent="all"))
    gang(world, "bound", 1, "red").run()
    job = gang(world, "reserved", 2, "red")
    world.judge()

    def reserved() -> list[tuple[int, int]]:
        uses = (report.row.flavors[0] for report in queue_reports(world.admission))
        return [(use.used, use.reserved) for use in uses]

    assert reserved() == [(24, 16), (0, 0), (24, 16)]
    job.run()
    assert reserved() == [(24, 0), (0, 0), (24, 0)]


def test_a_broken_queue_says_what_is_wrong(world: World) -> None:
    """It has no usage, and is not active."""
    tell(world, queue("orphan", 8, parent="nobody"))
    (report,) = queue_reports(world.admission)
    assert (report.row.active, report.row.reason, report.row.flavors, report.row.share) == (False, "Invalid", (), 0.0)
    assert "nobody" in report.message


def test_past_usage_is_told_where_it_is_remembered() -> None:
    """Its mean by resource, and when that was so."""
    world = World(fair_share_half_life_seconds=HOUR)
    world.nodes(2)
    tell(world, queue("team", 16))
    gang(world, "job", 1, "team").run()
    world.judge()
    world.later(HOUR)
    tell(world, queue("other", 8))
    reports = {report.name: report for report in queue_reports(world.admission)}
    assert dict(reports["team"].history)[GPU] > 0
    assert reports["team"].history_at == "2026-01-01T01:00:00+00:00"
    assert reports["other"].history_at in {"", "2026-01-01T01:00:00+00:00"}


def test_who_used_more_in_the_past_goes_later() -> None:
    """With a half-life, of two queues that use nothing now that one goes first which has used less."""
    world = World(fair_share_half_life_seconds=HOUR)
    world.nodes(1)
    tell(world, queue("heavy"), queue("light"))
    job = gang(world, "job", 1, "heavy")
    job.run()
    world.judge()
    world.later(4 * HOUR)
    job.finish()
    blocker = world.gang("blocker", 1)
    blocker.run()
    first, second = gang(world, "first", 1, "heavy"), gang(world, "second", 1, "light")
    blocker.finish()
    world.judge()
    assert second.reserved
    assert not first.reserved


def test_without_a_half_life_the_past_does_not_matter(world: World) -> None:
    """The older gang goes first."""
    world.nodes(1)
    tell(world, queue("heavy"), queue("light"))
    job = gang(world, "job", 1, "heavy")
    job.run()
    world.judge()
    world.later(4 * HOUR)
    first, second = gang(world, "first", 1, "heavy"), gang(world, "second", 1, "light")
    job.finish()
    world.judge()
    assert first.reserved
    assert not second.reserved


def test_past_usage_comes_back_with_the_status() -> None:
    """After a restart a queue's past is what its status said last; a deleted one has none."""
    world = World(fair_share_half_life_seconds=HOUR)
    world.tell(QueueSeen(Queue("team", uid="team", history={GPU: 12.0}, history_at="2026-01-01T00:00:00Z")))
    (report,) = queue_reports(world.admission)
    assert report.history == ((GPU, 12.0),)
    world.tell(QueueGone("team"))
    world.tell(QueueSeen(Queue("team", uid="again")))
    (report,) = queue_reports(world.admission)
    assert report.history_at == ""
