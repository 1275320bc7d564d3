"""Gangs that may only run for so long: by their own word, or by that of a Queue, the smaller counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.objects.jobsigns import JobSigns
from extender.objects.keys import Options
from tests.eviction.test_notices import heed
from tests.eviction.test_preemptions import evicted
from tests.queues.test_sharing import queue, tell
from tests.worlds import Job, World


def started(world: World, **options: Any) -> Job:
    """Return a gang of two that runs as of now."""
    world.nodes(2)
    job = world.gang("job", 2, options=Options(**options))
    nodes = job.reserved
    job.run()
    for index, pod in enumerate(job.pods):
        job.see(index, node_name=nodes[pod.name], started_at=world.now)
    world.judge()
    world.effects()
    return job


@pytest.mark.parametrize(
    ("own", "team", "parent", "whose"),
    [
        (600.0, None, None, "muster.dev/max-runtime"),
        (None, 600.0, None, "Queue team"),
        (900.0, None, 600.0, "Queue all"),
        (600.0, 900.0, 800.0, "muster.dev/max-runtime"),
    ],
)
def test_the_smallest_counts(
    world: World, own: float | None, team: float | None, parent: float | None, whose: str
) -> None:
    """Of the gang's own and those of its Queue and the ones above; it goes whole, with a reason of its own."""
    tell(world, queue("all", max_runtime=parent), queue("team", 16, parent="all", max_runtime=team))
    job = started(world, max_runtime=own, queue="team")
    world.later(599)
    assert not evicted(world)
    world.later(1)
    evictions = world.effects().evictions
    assert {each.message for each in evictions.values()} == {f"evicted because it may run for 600 s, by {whose}"}
    assert {each.reason for each in evictions.values()} == {"MaxRuntimeExceeded"}
    assert {each.pod.name for each in evictions.values()} == {pod.name for pod in job.pods}


def test_it_is_told_before(world: World) -> None:
    """So that notice and time are over together; who is ready before goes before."""
    job = started(world, max_runtime=600.0, eviction_notice=120.0)
    world.later(479)
    assert not heed(world, job)
    world.later(1)
    assert len(heed(world, job)) == 2
    world.later(119)
    assert not evicted(world)
    world.later(1)
    assert evicted(world) == {"MaxRuntimeExceeded": {"job-0", "job-1"}}


def test_who_is_ready_goes_before_its_time(world: World) -> None:
    """It has saved its work since it was told."""
    job = started(world, max_runtime=600.0, eviction_notice=120.0)
    world.later(480)
    heed(world, job)
    world.later(5)
    job.see(0, signs=JobSigns(planned=job.pods[0].signs.planned, last_checkpoint=world.now - 1))
    world.judge()
    assert evicted(world) == {"MaxRuntimeExceeded": {"job-0", "job-1"}}


def test_who_may_run_longer_after_all_stays(world: World) -> None:
    """The Queue's word is changed while its gang has notice."""
    tell(world, queue("team", 16, max_runtime=600.0))
    job = started(world, queue="team", eviction_notice=120.0)
    world.later(500)
    assert len(heed(world, job)) == 2
    tell(world, queue("team", 16, max_runtime=6000.0))
    world.judge()
    assert heed(world, job) == ["no pod is evicted: it may run for longer now"] * 2
    world.later(1000)
    assert not evicted(world)


def test_a_limit_that_comes_late_gives_notice_all_the_same(world: World) -> None:
    """One that has run for too long already is told as any."""
    tell(world, queue("team", 16))
    job = started(world, queue="team", eviction_notice=120.0)
    world.later(5000)
    tell(world, queue("team", 16, max_runtime=600.0))
    world.judge()
    assert len(heed(world, job)) == 2
    world.later(119)
    assert not evicted(world)
    world.later(1)
    assert evicted(world) == {"MaxRuntimeExceeded": {"job-0", "job-1"}}


def test_what_is_not_to_be_evicted_runs_on(world: World) -> None:
    """Its own word counts against its own limit too; when that goes, it is told and ends."""
    job = started(world, max_runtime=600.0, preemptible=False)
    world.later(1000)
    assert not evicted(world)
    for index, pod in enumerate(job.pods):
        job.see(index, options=replace(pod.options, preemptible=None))
    world.judge()
    world.later(1)
    assert evicted(world) == {"MaxRuntimeExceeded": {"job-0", "job-1"}}


def test_the_maximum_is_how_long_it_is_expected_to_run(world: World) -> None:
    """Where it says nothing else: others may count on its end."""
    assert started(world, max_runtime=600.0).gang.expected_duration == 600.0


def test_who_may_run_longer_after_its_eviction_has_notice_again(world: World) -> None:
    """A budget has kept it: the eviction is not tried any more, and the next one comes with notice."""
    job = started(world, max_runtime=600.0, eviction_notice=120.0)
    world.later(480)
    heed(world, job)
    world.later(120)
    assert evicted(world)
    for index in range(2):
        job.see(index, options=Options(max_runtime=900.0, eviction_notice=120.0), signs=JobSigns())
    world.judge()
    world.judge()
    effects = world.effects()
    assert set(effects.spared) == set(effects.notices) == {pod.uid for pod in job.pods}
    world.later(179)
    assert not heed(world, job)
    world.later(1)
    assert len(heed(world, job)) == 2
    assert not evicted(world)
    world.later(120)
    assert evicted(world) == {"MaxRuntimeExceeded": {"job-0", "job-1"}}
