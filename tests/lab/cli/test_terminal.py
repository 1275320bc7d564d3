"""What `muster simulate` and `muster demo` draw; what they print for programs is tested with the command line."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import socket

import pytest
from rich.console import Console

from muster_lab.cli import demo, demo_service, screens, simulation_tables
from muster_lab.simulation.accounting import GpuSeconds
from muster_lab.simulation.scenario_file import read_scenario
from muster_lab.simulation.simulate import record
from muster_lab.simulation.simulate import simulate as play
from muster_lab.simulation.timeline import TimelinePoint


def console(*, terminal: bool) -> tuple[Console, io.StringIO]:
    """Return a wide console without colours, and what it writes to."""
    written = io.StringIO()
    return Console(file=written, force_terminal=terminal, width=160, height=40, color_system=None), written


def test_a_table_says_how_each_gang_fared() -> None:
    """Phase, times, the first few nodes and the reason of each gang; evictions; the totals."""
    scenario = read_scenario(
        """
        nodes: [{name: n, count: 6, allocatable: {nvidia.com/gpu: 8}}]
        gangs:
          - {name: wide, minMember: 6, requests: {nvidia.com/gpu: 8}, duration: 30m}
          - {name: urgent, minMember: 1, requests: {nvidia.com/gpu: 8}, priority: 9, arrival: 2m}
        until: 5m
        gpuHourPrice: 2
        """,
        "s",
    )
    screen, written = console(terminal=False)
    simulation_tables.show_result(screen, play(scenario, None))
    for text in (
        "default/wide",
        "n-0, n-1, n-2, n-3 and 2 more",
        "Unschedulable: 0/6 nodes are available",
        "Evictions",
        "default/wide-0",
        "default/urgent",
        "Preempted",
        "0 of 2",
        "1.60 GPU-hours of training",
        "3.60 GPU-hours, $7.20",
    ):
        assert text in written.getvalue()


def test_without_evictions_there_is_no_table_of_them() -> None:
    """An empty table says nothing; the same goes for queues."""
    scenario = read_scenario("nodes: []\ngangs: [{name: g, minMember: 1}]\nuntil: 1m", "s")
    screen, written = console(terminal=False)
    simulation_tables.show_result(screen, play(scenario, None))
    assert "Evictions" not in written.getvalue()
    assert "Queues" not in written.getvalue()


QUEUES = """
nodes: [{name: n, count: 3, allocatable: {cpu: 64, nvidia.com/gpu: 8}}]
queues:
  - {name: root}
  - name: team-a
    parent: root
    flavors: [{name: f, resources: [{name: nvidia.com/gpu, nominalQuota: 8}, {name: cpu, nominalQuota: 64}]}]
  - name: team-b
    parent: root
    flavors: [{name: f, resources: [{name: nvidia.com/gpu, nominalQuota: 8}]}]
  - {name: loop, parent: nowhere}
gangs:
  - {name: wide, queue: team-a, minMember: 2, requests: {cpu: 500m, nvidia.com/gpu: 8}, duration: 10m}
  - {name: late, queue: team-b, minMember: 1, requests: {nvidia.com/gpu: 8}, arrival: 5m}
until: 6m
"""


def test_queues_have_a_table_and_what_is_wrong_with_them_is_told() -> None:
    """Used, borrowed, lent and share of each, with units."""
    screen, written = console(terminal=False)
    simulation_tables.show_result(screen, play(read_scenario(QUEUES, "s"), None))
    lines = written.getvalue().splitlines()
    (team,) = [line for line in lines if "team-a" in line]
    assert "1 cpu, 16 nvidia.com/gpu" in team
    assert "0 cpu, 8 nvidia.com/gpu" in team
    assert any(line.startswith("warning: queue 'loop': ") for line in lines)


def test_the_timeline_has_a_row_for_every_moment() -> None:
    """What each gang did with how many GPUs, and what each queue used and borrowed."""
    screen, written = console(terminal=False)
    simulation_tables.show_timeline(screen, record(read_scenario(QUEUES, "s"), None).moments)
    text = written.getvalue()
    for said in (
        "5m ",
        "default/wide productive on 16 GPUs",
        "default/late productive on 8 GPUs",
        "team-a 1 cpu, 16 nvidia.com/gpu, borrows 8 nvidia.com/gpu",
        "team-b 8 nvidia.com/gpu",
    ):
        assert said in text


def test_the_comparison_has_a_line_for_every_moment_of_change() -> None:
    """Who holds how much and what for, on each side."""
    scenario = demo.demo_scenario()
    screen, written = console(terminal=False)
    demo.show_comparison(screen, scenario, *demo.compare(scenario))
    for text in (
        "0s  job-a holds 16 GPUs, idle: waits for the rest; job-b holds 16 GPUs, idle: waits for the rest",
        "29m20s  job-a finished; job-b holds 32 GPUs, rendezvous",
        "58m40s  job-b finished",
    ):
        assert text in written.getvalue()


def test_a_terminal_plays_the_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal both sides are drawn over time before the text."""
    monkeypatch.setattr(demo, "_FRAMES", 4)
    monkeypatch.setattr(demo, "_FRAME_SECONDS", 0.0)
    scenario = demo.demo_scenario()
    screen, written = console(terminal=True)
    demo.show_comparison(screen, scenario, *demo.compare(scenario))
    for drawn in ("t = 0s", "t = 30m", "t = 1h", "AAAAAAAA", "BBBBBBBB", "idle 32.00 GPU-h, $117.44 wasted"):
        assert drawn in written.getvalue()


def test_free_gpus_and_many_gangs_are_drawn_briefly() -> None:
    """Free GPUs are dots; beyond a dozen gangs their number is given."""
    doing = {f"default/g{index:02}": "waits" for index in range(15)} | {"default/g00": "productive"}
    moment = TimelinePoint(0.0, {"n": {"default/g00": 3}}, doing, GpuSeconds())
    side = screens.Side("world", [moment], {"n": 8}, price=1.0)
    assert side.at(-1.0) is moment
    screen, written = console(terminal=False)
    screen.print(screens.draw_world(side, moment, 3600.0))
    for drawn in ("AAA·····", "and 3 more", "productive 3.00 GPU-h"):
        assert drawn in written.getvalue()


def test_the_service_draws_its_cluster_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The picture is drawn again and again until a signal comes."""
    monkeypatch.setattr(demo_service, "_REFRESH_SECONDS", 0.02)
    screen, written = console(terminal=True)

    async def story() -> int:
        serving = asyncio.create_task(demo_service.serve_demo(screen, socket.create_server(("127.0.0.1", 0))))
        while "serving/serve-chat: " not in written.getvalue() and not serving.done():  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)
        return await serving

    assert asyncio.run(story()) == 0
    for drawn in ("embedded cluster", "serving/serve-chat: ", "stopped"):
        assert drawn in written.getvalue()
