"""The service that the demo leaves running: Muster on an embedded cluster, in real time."""

from __future__ import annotations

import asyncio
import itertools
import shlex
import socket
from collections.abc import Iterator
from typing import Any

import orjson
from rich.console import Console
from rich.live import Live

from extender.cli.listening import Site, run_until_stopped
from extender.cli.screens import Side, draw_world
from extender.clock import Clock, SystemClock
from extender.control.controller import Controller
from extender.control.metrics import Metrics
from extender.service.app import create_app
from extender.service.connections import ConnectionRules
from extender.settings import Settings
from extender.simulation.scenario import Member, Scenario, ScenarioGang, ScenarioNode
from extender.simulation.scheduler.extender import Transport
from extender.simulation.timeline import gpu_capacity, picture, state_of
from extender.simulation.transports import http_transport
from extender.simulation.virtual_time import LoopClock
from extender.simulation.workload import Workload
from extender.simulation.world import World

_NODES = 6
_GPUS = 8
_PRICE = 3.67

#: Seconds between two jobs, and how many may wait before no more are added.
_PAUSE_SECONDS = 8.0
_MOST_WAITING = 3
#: Seconds for which a finished job stays to be seen.
_KEEP_SECONDS = 20.0
#: The jobs: members, GPUs of each, seconds of training. They ask for a little more than there is, so that some wait.
_JOBS = ((2, 8, 30.0), (4, 8, 20.0), (4, 4, 25.0), (1, 8, 40.0))
_RENDEZVOUS_SECONDS = 3.0
_REFRESH_SECONDS = 0.5


async def serve_demo(console: Console, listener: socket.socket) -> int:
    """Serve an embedded cluster on `listener` until a signal comes; return the exit code."""
    host, port = listener.getsockname()[:2]
    sites: list[Site] = []

    def connect(controller: Controller, settings: Settings, metrics: Metrics, clock: Clock) -> Transport:
        rules = ConnectionRules.from_settings(settings, metrics.connections_refused)
        sites.append(Site(create_app(controller, settings, metrics, clock), listener, rules))
        return http_transport(host, port)

    clock = LoopClock(asyncio.get_running_loop(), start=SystemClock().now())
    world = World(_scenario(), clock, connect, settings=Settings())
    console.print(
        f"\n[bold]Muster serves an embedded cluster on http://{host}:{port}[/]; jobs arrive all the time. Try:\n"
    )
    for command in commands(host, port):
        console.print(command, highlight=False, markup=False, soft_wrap=True)
    console.print("\nCtrl-C stops it.\n")
    code = await run_until_stopped(sites, [world.run(), _submit(world.workload), _show(console, world, clock)])
    console.print("stopped")
    return code


def commands(host: str, port: int) -> list[str]:
    """Return commands that show what the service answers, each to be pasted into a shell."""
    url = f"http://{host}:{port}"
    uid = "00000000-0000-4000-8000-000000000000"
    pod = {
        "metadata": {"name": "notebook", "namespace": "default", "uid": uid},
        "spec": {
            "schedulerName": "muster",
            "containers": [{"name": "main", "resources": {"requests": {"nvidia.com/gpu": "1"}}}],
        },
    }
    names = [f"gpu-{index}" for index in range(_NODES)]
    offer = {"Pod": pod, "Nodes": None, "NodeNames": names}
    binding = {
        "PodName": "notebook",
        "PodNamespace": "default",
        "PodUID": uid,
        "Node": names[0],
    }
    victims = {"gpu-0": {"Pods": [{"UID": uid}], "NumPDBViolations": 0}}
    preemption = {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": victims}
    return [
        f"curl {url}/healthz",
        f"curl {url}/readyz",
        f"curl -s {url}/metrics | grep ^muster_gangs",
        _post(f"{url}/v1/filter", offer),
        _post(f"{url}/v1/prioritize", offer),
        _post(f"{url}/v1/bind", binding),
        _post(f"{url}/v1/preempt", preemption),
    ]


def _post(url: str, body: dict[str, Any]) -> str:
    return f"curl -s {url} -d {shlex.quote(orjson.dumps(body).decode())}"


def _scenario() -> Scenario:
    allocatable = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": str(_GPUS)}
    nodes = tuple(ScenarioNode(f"gpu-{i}", allocatable, {"kubernetes.io/hostname": f"gpu-{i}"}) for i in range(_NODES))
    return Scenario(nodes, (), until=float("inf"), gpu_hour_price=_PRICE)


def jobs() -> Iterator[ScenarioGang]:
    """Return job after job, without end."""
    for number, (members, gpus, seconds) in zip(itertools.count(1), itertools.cycle(_JOBS), strict=False):
        name = f"train-{number}"
        requests = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": str(gpus)}
        yield ScenarioGang(
            name=name,
            namespace="default",
            min_member=members,
            members=tuple(Member(f"{name}-{i}", requests) for i in range(members)),
            rendezvous=_RENDEZVOUS_SECONDS,
            duration=seconds,
        )


async def _submit(workload: Workload) -> None:
    """Add a job now and then, and clear away those that have been finished for a while."""
    loop = asyncio.get_running_loop()
    finished: dict[str, float] = {}
    upcoming = jobs()
    while True:
        await asyncio.sleep(_PAUSE_SECONDS if finished or workload.gangs else _REFRESH_SECONDS)
        if sum(state_of(run) == "waits" for run in workload.gangs) < _MOST_WAITING:
            workload.add([next(upcoming)])
        for run in workload.gangs:
            if run.finished_at is None:
                continue
            if loop.time() > finished.setdefault(run.spec.key, loop.time()) + _KEEP_SECONDS:
                del finished[run.spec.key]
                workload.forget(run)


async def _show(console: Console, world: World, clock: LoopClock) -> None:
    """Keep a picture of the cluster on a terminal; elsewhere, write a line when a job does something else."""
    await asyncio.sleep(_REFRESH_SECONDS / 2)
    side = Side("embedded cluster", (), gpu_capacity(world.cluster), _PRICE)
    if console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:
            while True:
                live.update(
                    draw_world(side, picture(world.cluster, world.workload, clock), clock.elapsed()), refresh=True
                )
                await asyncio.sleep(_REFRESH_SECONDS)
    said: dict[str, str] = {}
    while True:
        moment = picture(world.cluster, world.workload, clock)
        for gang, state in moment.doing.items():
            if said.get(gang) != state:
                console.print(f"{moment.at:8.1f} s  {gang}: {state}", highlight=False, markup=False)
        said = dict(moment.doing)
        await asyncio.sleep(_REFRESH_SECONDS)
