"""What has gone is forgotten: memory follows the cluster as it is, not as it was."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import replace

import pytest

from extender.domain.pod import Phase
from extender.settings import Settings
from tests.control.conftest import Muster


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
                muster.controller.observer.pod_seen(replace(pod, node_name=node, phase=Phase.RUNNING))
        await asyncio.sleep(0.3)
        for pod in pods:
            muster.controller.observer.pod_gone(pod.uid)
        assert pods[0].group is not None
        muster.controller.observer.group_gone(pods[0].group, f"gang-{number}-uid")
        for recorded in (muster.api.nominations, muster.api.bindings, muster.api.events, muster.api.statuses):
            recorded.clear()


async def _objects(muster: Muster) -> int:
    """Count the objects that are alive once everything is written and nothing is left, but for the log's last lines."""
    await asyncio.sleep(5)
    assert muster.sample("muster_write_queue") == 0
    assert muster.sample("muster_binds_held") == 0
    gc.collect()
    return len(gc.get_objects()) - len(muster.controller.decisions.since(0))


@pytest.mark.timeout(120)
async def test_nothing_is_kept_of_gangs_that_came_and_went(muster: Muster) -> None:
    """After hundreds of gangs more, no more objects are alive than before them: less than one for every gang."""
    muster.sync()
    muster.nodes(40)
    await _come_and_go(muster, range(100))
    before = await _objects(muster)
    await _come_and_go(muster, range(100, 500))
    assert await _objects(muster) - before < 200
