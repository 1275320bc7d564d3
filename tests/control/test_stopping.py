"""A controller that is told to stop."""

from __future__ import annotations

import asyncio

from extender.control.controller import Controller
from extender.control.metrics import Metrics
from extender.settings import Settings
from muster_lab.simulation.virtual_time import LoopClock
from tests.control.conftest import Muster, ScriptedApi


async def test_held_binds_are_refused_when_muster_stops() -> None:
    """A Muster that stops answers the calls it holds at once: nobody will release them."""
    api, metrics, settings = ScriptedApi(), Metrics(), Settings()
    controller = Controller(settings, LoopClock(asyncio.get_running_loop()), api, metrics)
    running = asyncio.create_task(controller.run())
    muster = Muster(controller, api, metrics, settings)
    muster.nodes(2)
    muster.sync()
    pods = muster.gang("a", 2)
    await asyncio.sleep(0.6)
    held = asyncio.create_task(muster.bind(pods[0]))
    await asyncio.sleep(1)
    muster.fall_silent()
    running.cancel()
    async with asyncio.timeout(0.1):
        assert await held == "Muster is stopping"
    assert api.bindings == []
