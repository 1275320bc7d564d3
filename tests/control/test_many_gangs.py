"""A cluster with many gangs: what concerns all of them is done in steps, between which others have the event loop."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise

import pytest

from extender.admission.cycle import Pace
from extender.admission.engine import Engine
from extender.admission.events import Decide, GroupGone, GroupSeen, Outcome, PodGone, PodSeen, Rebuild
from extender.control.binding import Barrier
from extender.control.dispatch import Dispatcher
from extender.control.outbox import Outbox, WriteWindow
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.settings import Settings
from muster_lab.simulation.virtual_time import LoopClock
from tests.control.conftest import Muster
from tests.counting import calls


async def test_metrics_of_many_gangs_are_counted_in_steps(muster: Muster) -> None:
    """No step counts more than 50 gangs, and nobody sees a gauge half set."""
    muster.sync()
    for number in range(250):
        muster.gang(f"gang-{number}", 1, min_member=2)
    await asyncio.sleep(1)
    labels = {"phase": "Pending"}
    seen = [
        muster.metrics.registry.get_sample_value("muster_gangs", labels) for _ in muster.controller.scrape_in_steps()
    ]
    assert seen[:5] == [None] * 5
    assert set(seen[5:]) == {250}  # then come their records in the history
    assert muster.metrics.registry.get_sample_value("muster_gangs", labels) == 250
    assert muster.metrics.registry.get_sample_value("muster_gangs_waiting", {"reason": "MembersMissing"}) == 250


async def test_what_many_gangs_lack_is_added_up_in_steps(muster: Muster) -> None:
    """No step works out more than 40 gangs' demand, and nobody sees a gauge half set."""
    muster.sync()
    for number in range(90):
        muster.gang(f"gang-{number}", 1)
    await asyncio.sleep(1)
    before = muster.sample("muster_unmet_demand_pods")
    steps = 0
    for _ in muster.controller.scrape_in_steps():
        assert muster.sample("muster_unmet_demand_pods") == before
        steps += 1
    assert steps == 1 + 2  # they are counted first
    assert muster.sample("muster_unmet_demand_pods") == 90


async def test_a_gang_that_goes_while_metrics_are_counted_does_not_disturb(muster: Muster) -> None:
    """The gangs are those of when the count began."""
    muster.sync()
    (pod,) = [muster.gang(f"gang-{number}", 1, min_member=2)[0] for number in range(150)][-1:]
    counting = muster.controller.scrape_in_steps()
    next(counting)
    assert pod.group is not None
    muster.controller.tell(PodGone(pod.uid))
    muster.controller.tell(GroupGone(pod.group, "gang-149-uid"))
    assert len(list(counting)) <= 2 + 1  # the last is of their records in the history
    assert muster.sample("muster_gangs", phase="Pending") == 149


@pytest.mark.parametrize("settings", [Settings(recording_megabytes=0)])  # whose thread ends its work at any moment
async def test_single_pods_that_run_cost_a_scrape_nothing(muster: Muster) -> None:
    """There may be 50,000 of them, and each metric that is read off the state is about gangs or about who waits."""
    muster.sync()

    def work(number: int) -> int:
        """Return how much a scrape does beside so many more."""
        for each in range(number):
            pod = muster.pod(f"single-{number}-{each}", 0)
            muster.controller.tell(PodSeen(replace(pod, node_name="elsewhere")))
        list(muster.controller.scrape_in_steps())  # their records in the history
        return calls(lambda: list(muster.controller.scrape_in_steps()))

    assert work(300) == work(10)


async def test_of_calls_that_each_need_a_step_of_the_pass_one_has_it_in_a_turn(
    muster: Muster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan is the longest thing that is done in a turn of the event loop, and all calls come to their answers."""
    monkeypatch.setattr(Pace, "STEP_SECONDS", 0.0)  # each step evaluates one gang
    muster.sync()
    nodes = muster.nodes(4)
    await asyncio.sleep(1)
    pods = [muster.gang(f"gang-{number}", 1, gpus=1)[0] for number in range(3)]
    asked = [asyncio.create_task(muster.controller.filter(pods[2], nodes))]
    placed = [0]
    await asyncio.sleep(0)
    placed.append(len(muster.state.reservations()))
    asked.append(asyncio.create_task(muster.controller.filter(muster.gang("late", 1, gpus=1)[0], nodes)))
    while not all(call.done() for call in asked):
        await asyncio.sleep(0)
        placed.append(len(muster.state.reservations()))
    assert max(after - before for before, after in pairwise(placed)) == 1
    assert [call.result().outcome for call in asked] == [Outcome.PINNED, Outcome.PINNED]


async def test_many_gangs_are_reported_over_several_turns(muster: Muster) -> None:
    """After a start every gang is told of, each once; no turn of the loop looks at more than 50."""
    clock = LoopClock(asyncio.get_running_loop())
    engine = Engine(muster.settings, clock)
    engine.apply(Rebuild())
    for number in range(120):
        ref = GroupRef(COSCHEDULING, "default", f"gang-{number}")
        engine.apply(GroupSeen(PodGroup(ref, uid=str(ref), min_member=2, created="")))
        engine.apply(PodSeen(muster.pod(f"pod-{number}", 0, ref)))
    engine.apply(Decide())
    settings = muster.settings.model_copy(update={"report_delay_seconds": 0})
    outbox = Outbox(settings, clock, muster.metrics, WriteWindow(1))
    Dispatcher(settings, clock, muster.metrics, muster.api, outbox, engine.admission, Barrier(), print, print).take_up()
    told = [len(outbox)]
    while told[-1] < 360:  # a status, and an event on the PodGroup and on the first pod, for each
        await asyncio.sleep(0)
        told.append(len(outbox))
    assert max(after - before for before, after in pairwise(told)) == 150


async def test_a_gang_that_changes_while_others_are_reported_waits_for_its_time(muster: Muster) -> None:
    """Changes go on being collected for the delay of reports, whatever is being told of meanwhile."""
    muster.sync()
    for number in range(120):
        muster.gang(f"gang-{number}", 1, min_member=2)
    await asyncio.sleep(0.2)
    await asyncio.sleep(0)
    muster.gang("late", 1, min_member=2)
    await asyncio.sleep(0.1)
    assert "late" not in dict(muster.api.statuses)
    await asyncio.sleep(1)
    assert "late" in dict(muster.api.statuses)
