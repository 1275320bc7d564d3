"""What has gone is forgotten: memory follows the cluster as it is, not as it was."""

from __future__ import annotations

import asyncio
import gc
import itertools
from dataclasses import replace

import pytest

from extender.admission.events import GroupGone, PodGone, PodSeen
from extender.control.ports import ApiError
from extender.objects.pod import Phase
from extender.settings import Settings
from tests.control.conftest import Muster
from tests.garbage import garbage


@pytest.fixture
def settings() -> Settings:
    """Record nothing: inputs that are noted and not packed yet are objects too, of which there is a chunk at most."""
    return Settings(recording_megabytes=0)


async def _come_and_go(muster: Muster, numbers: range) -> None:
    """Let gangs of four start, run and be deleted, one after the other; every third is deleted while it waits."""
    for number in numbers:
        pods = muster.gang(f"gang-{number}", 4, gpus=2)
        await asyncio.sleep(0.6)
        if number % 3:
            nodes = [muster.planned(pod) for pod in pods]
            assert await asyncio.gather(*(muster.bind(pod) for pod in pods)) == [""] * 4
            for pod, node in zip(pods, nodes, strict=True):
                muster.controller.tell(PodSeen(replace(pod, node_name=node, phase=Phase.RUNNING)))
        await asyncio.sleep(0.3)
        for pod in pods:
            muster.controller.tell(PodGone(pod.uid))
        assert pods[0].group is not None
        muster.controller.tell(GroupGone(pods[0].group, f"gang-{number}-uid"))
        for recorded in (muster.api.nominations, muster.api.bindings, muster.api.events, muster.api.statuses):
            recorded.clear()


async def _objects(muster: Muster) -> int:
    """Count the objects that are alive once everything is written and nothing is left, but for the log's last lines."""
    await asyncio.sleep(5)
    assert muster.sample("muster_write_queue") == 0
    assert muster.sample("muster_binds_held") == 0
    gc.collect()
    return len(gc.get_objects()) - len(muster.controller.decisions.since(0))


@pytest.mark.slow
async def test_nothing_is_kept_of_gangs_that_came_and_went(muster: Muster) -> None:
    """After hundreds of gangs more, no more objects are alive than before them: less than one for every gang."""
    muster.sync()
    muster.nodes(40)
    await _come_and_go(muster, range(100))
    before = await _objects(muster)
    await _come_and_go(muster, range(100, 500))
    assert await _objects(muster) - before < 200


async def test_gangs_that_came_and_went_leave_no_cycles(muster: Muster) -> None:
    """They are freed as they go: the collector looks only at what is new, so garbage in cycles would stay."""
    muster.sync()
    muster.nodes(40)
    numbers = itertools.count()

    async def come_and_go() -> None:
        first = next(numbers)
        await _come_and_go(muster, range(first * 3, first * 3 + 3))
        await asyncio.sleep(5)

    assert await garbage(come_and_go) == {}


async def test_a_bind_call_that_is_held_in_vain_leaves_no_cycle(muster: Muster) -> None:
    """It was held for longer than the collector looks back."""
    muster.sync()
    muster.nodes(4)
    pods = muster.gang("gang", 2)
    await asyncio.sleep(0.6)
    node = muster.planned(pods[0])

    async def hold() -> None:
        assert await muster.bind(pods[0], node)
        await asyncio.sleep(300)  # until it is placed again

    assert await garbage(hold) == {}


async def test_a_write_that_fails_leaves_no_cycle(muster: Muster) -> None:
    """However often the API server refuses it."""
    muster.sync()
    numbers = itertools.count()

    async def fail() -> None:
        muster.api.status_failures += [ApiError(409, "Conflict", "changed")] * 3
        muster.gang(f"gang-{next(numbers)}", 1, min_member=2)
        await asyncio.sleep(10)

    assert await garbage(fail) == {}
