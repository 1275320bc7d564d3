"""A wider level with which a gang would start earlier, if not now: what is said comes true when the change is made."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from extender.admission.events import GroupSeen
from extender.clock import ManualClock
from extender.control.dispatch import ChangedGangs
from extender.control.forecaster import Forecaster
from extender.control.metrics import Metrics
from extender.explain.documents import SuggestedChange
from extender.explain.forecast import Prospects
from extender.explain.runtimes import LearnedRuntimes
from extender.objects.meta import time_text
from extender.objects.topology import TopologyTerms
from tests.examples import share
from tests.explain.conftest import racked
from tests.explain.test_forecast import forecast, job
from tests.worlds import Job, World


async def wider(world: World, asked: Job) -> SuggestedChange | None:
    """Ask with which wider level a gang would start earlier, all having been told what is expected."""
    assert isinstance(world.clock, ManualClock)
    prospects = Prospects(world.admission)
    parts = (world.admission, prospects, LearnedRuntimes(), ChangedGangs(), world.clock, Metrics())
    forecaster = Forecaster(*parts, lambda _: None)
    await forecaster.turn()
    return await forecaster.wider(asked.ref)


def running(world: World, name: str, members: int, seconds: float, required: str = "") -> Job:
    """Let a gang run from now on, for so long."""
    found = job(world, name, members, seconds, required=required)
    found.run()
    for index in range(members):
        found.see(index, started_at=world.now)
    return found


def ask_for(world: World, asked: Job, required: str) -> None:
    """Have a gang require another level."""
    group = asked.gang.group
    assert group is not None
    options = replace(group.options, topology=TopologyTerms(required=required))
    world.tell(GroupSeen(replace(group, options=options)))
    world.judge()


async def test_a_block_is_free_before_a_rack() -> None:
    """With how long that takes, and how long it takes else; the gang is expected then once it asks for that."""
    world = racked()
    for name, seconds in (("a", 660.0), ("b", 7200.0), ("c", 660.0), ("d", 9000.0)):
        running(world, name, 1, seconds)
    asked = job(world, "asked", 2, 100.0, required="rack")
    world.judge()
    found = await wider(world, asked)
    assert found is not None
    assert (found.change, found.before, found.after, found.later) == ("topologyLevel", "rack", "block", True)
    assert found.starts_at == time_text(world.now + 660.0)
    assert found.message == (
        "block instead of rack as the required topology level: it would start in 11 min instead of in 2 h, "
        "if all goes as expected"
    )
    ask_for(world, asked, "block")
    assert forecast(world)[asked.gang.uid].at == world.now + 660.0


async def test_not_a_start_that_is_hardly_earlier() -> None:
    """Nobody changes a gang for a minute of two hours; nor for a gang that requires nothing."""
    world = racked()
    for name, seconds in (("a", 7150.0), ("b", 7200.0), ("c", 7150.0), ("d", 9000.0)):
        running(world, name, 1, seconds)
    asked, free = job(world, "asked", 2, 100.0, required="rack"), job(world, "free", 4, 100.0)
    world.judge()
    assert await wider(world, asked) is None
    assert await wider(world, free) is None


async def test_not_what_helps_at_once() -> None:
    """That is suggested as a change with which it would start now."""
    world = racked()
    running(world, "a", 1, 600.0)
    asked = job(world, "asked", 3, 100.0, required="rack")
    world.judge()
    assert await wider(world, asked) is None


_HOLDERS = st.lists(st.tuples(st.integers(1, 2), st.integers(2, 60)), min_size=3, max_size=6)


@given(_HOLDERS, st.integers(2, 5), st.integers(0, 2))
@share(0.3)
async def test_it_comes_true(holders: list[tuple[int, int]], members: int, others: int) -> None:
    """The forecast of a gang that has made the change is the start that was suggested, also with others in line."""
    world = racked(3)
    for index, (pods, minutes) in enumerate(holders):
        running(world, f"h{index}", pods, 60.0 * minutes)
    for index in range(others):
        job(world, f"o{index}", 2, 900.0, required="rack")
    asked = job(world, "asked", members, 300.0, required="rack")
    world.judge()
    found = await wider(world, asked)
    if found is None or found.starts_at is None:
        return
    expected = forecast(world)[asked.gang.uid].at
    ask_for(world, asked, str(found.after or ""))
    after = forecast(world)[asked.gang.uid].at
    assert after is not None
    assert time_text(after) == found.starts_at
    assert expected is None or after <= expected - 60.0
