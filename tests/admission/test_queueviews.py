"""How Queues stand, as their status tells it."""

from __future__ import annotations

from extender.admission.queueview import QuotaUse
from extender.admission.queueviews import queue_views
from extender.domain.queue import Queue
from tests.admission.conftest import GPU, World
from tests.admission.test_sharing import gang, queue, tell

HOUR = 3600.0


def test_usage_and_what_is_borrowed_and_lent(world: World) -> None:
    """In order of their names, children counted in the usage of their parents but not as their gangs."""
    world.nodes(4)
    tell(world, queue("all"), queue("red", 8, parent="all"), queue("blue", 16, parent="all"))
    for index in range(2):
        gang(world, f"job-{index}", 1, "red").run()
    gang(world, "late", 2, "blue").run()
    views = {view.name: view for view in queue_views(world.admission.sharing, {"blue": 1})}
    assert list(views) == ["all", "blue", "red"]
    assert views["red"].flavors == (QuotaUse("all", GPU, nominal=8, used=16, borrowed=8, lent=0),)
    assert views["blue"].flavors == (QuotaUse("all", GPU, nominal=16, used=0, borrowed=0, lent=8),)
    assert (views["red"].admitted, views["blue"].pending, views["all"].admitted) == (2, 1, 0)
    assert views["red"].share > views["blue"].share == 0


def test_a_broken_queue_says_what_is_wrong(world: World) -> None:
    """It has no usage, and is not active."""
    tell(world, queue("orphan", 8, parent="nobody"))
    (view,) = queue_views(world.admission.sharing, {})
    assert (view.active, view.reason, view.flavors, view.share) == (False, "Invalid", (), 0.0)
    assert "nobody" in view.message


def test_past_usage_is_told_where_it_is_remembered() -> None:
    """Its mean by resource, and when that was so."""
    world = World(fair_share_half_life_seconds=HOUR)
    world.nodes(2)
    tell(world, queue("team", 16))
    gang(world, "job", 1, "team").run()
    world.judge()
    world.later(HOUR)
    tell(world, queue("other", 8))
    views = {view.name: view for view in queue_views(world.admission.sharing, {})}
    assert dict(views["team"].history)[GPU] > 0
    assert views["team"].history_at == "2026-01-01T01:00:00+00:00"
    assert views["other"].history_at in {"", "2026-01-01T01:00:00+00:00"}


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
    world.admission.queue_seen(Queue("team", uid="team", history={GPU: 12.0}, history_at="2026-01-01T00:00:00Z"))
    (view,) = queue_views(world.admission.sharing, {})
    assert view.history == ((GPU, 12.0),)
    world.admission.queue_gone("team")
    world.admission.queue_seen(Queue("team", uid="again"))
    (view,) = queue_views(world.admission.sharing, {})
    assert view.history_at == ""
