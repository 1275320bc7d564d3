"""The service that the demo leaves running: Muster on an embedded cluster, in real time."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace

from rich.console import Console
from rich.live import Live

from extender.cli.listening import ListeningMuster, run_until_stopped
from extender.clock import Clock, SystemClock
from extender.control.controller import Controller
from extender.control.metrics import Metrics
from extender.service.app import create_app
from extender.service.connections import ConnectionRules
from extender.settings import Settings
from muster_lab.cli.demo_arrivals import DemoArrivals
from muster_lab.cli.demo_cluster import GPU_HOUR_PRICE, GPUS, NODES, demo_cluster
from muster_lab.cli.demo_commands import announcement
from muster_lab.cli.screens import Side, draw_world
from muster_lab.simulation.accounting import GpuSeconds
from muster_lab.simulation.scheduler.extender import Transport
from muster_lab.simulation.timeline import TimelinePoint, gpu_capacity, picture
from muster_lab.simulation.transports import http_transport
from muster_lab.simulation.virtual_time import LoopClock
from muster_lab.simulation.world import World

_REFRESH_SECONDS = 0.5


async def serve_demo(console: Console, listener: socket.socket, program: str = "muster") -> int:
    """Serve an embedded cluster on `listener` until a signal comes; return the exit code.

    `program` is how `muster` is called in the commands that are printed.
    """
    host, port = listener.getsockname()[:2]
    sites: list[ListeningMuster] = []

    def connect(controller: Controller, settings: Settings, metrics: Metrics, clock: Clock) -> Transport:
        rules = ConnectionRules.from_settings(settings, metrics.connections_refused)
        sites.append(ListeningMuster(create_app(controller, settings, metrics, clock), listener, rules))
        return http_transport(host, port)

    clock = LoopClock(asyncio.get_running_loop(), start=SystemClock().now())
    world = World(demo_cluster(), clock, connect, settings=Settings())
    console.print(
        f"\n[bold]Muster serves an embedded cluster[/] of {NODES} nodes with {GPUS} GPUs each, "
        "which four teams share; jobs arrive all the time.\n",
        highlight=False,
    )
    for line in announcement(host, port, program):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    console.print("\nCtrl-C stops it.\n")
    arrivals = DemoArrivals(world)
    code = await run_until_stopped(sites, [world.run(), arrivals.run(), _show(console, world, arrivals)])
    console.print("stopped")
    return code


async def _show(console: Console, world: World, arrivals: DemoArrivals) -> None:
    """Keep a picture of the cluster on a terminal; elsewhere, write a line when a job does something else."""
    await asyncio.sleep(_REFRESH_SECONDS / 2)
    side = Side("embedded cluster", (), gpu_capacity(world.cluster), GPU_HOUR_PRICE)
    if console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:
            while True:
                moment = picture(world.cluster, world.workload, world.clock)
                live.update(draw_world(side, _at_work(moment, arrivals.spent), moment.at), refresh=True)
                await asyncio.sleep(_REFRESH_SECONDS)
    said: dict[str, str] = {}
    while True:
        moment = picture(world.cluster, world.workload, world.clock)
        for gang, state in moment.doing.items():
            if said.get(gang) != state:
                console.print(f"{moment.at:8.1f} s  {gang}: {state}", highlight=False, markup=False)
        said = dict(moment.doing)
        await asyncio.sleep(_REFRESH_SECONDS)


def _at_work(moment: TimelinePoint, before: GpuSeconds) -> TimelinePoint:
    """Return a moment with what was spent `before`, and without the gangs that are done: a screen has few lines."""
    doing = {gang: state for gang, state in moment.doing.items() if state != "finished"}
    return replace(moment, doing=doing, spent=moment.spent + before)
