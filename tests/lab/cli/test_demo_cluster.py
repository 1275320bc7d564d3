"""The cluster of the demo's service over ten minutes of virtual time: there is always something to see."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec import to_builtins

from extender.control.ports import WatchedKind
from extender.objects.sources.coscheduling import COSCHEDULING_POD_GROUPS
from extender.service.board.board import Board
from extender.service.board.rows import NodeRow
from extender.service.stream import gang_rows
from extender.settings import Settings
from muster_lab.cli.demo_arrivals import DemoArrivals
from muster_lab.cli.demo_cluster import NEVER_FITS, RUNS, Jobs, demo_cluster
from muster_lab.cli.simulate import connect
from muster_lab.simulation.virtual_time import LoopClock, VirtualTimeLoop
from muster_lab.simulation.world import World

MINUTE = 60.0
UNTIL = 10 * MINUTE
LOOK_EVERY = 4.0
#: Seconds within which a job that can start does start.
PATIENCE = 5 * MINUTE
#: Jobs that can never start, by how their names begin.
NEVER = (NEVER_FITS, "frontier/moe-alltoall-")


@dataclass
class Stay:
    """What was to be seen: at each look the time, the gangs and the Queues by name; and what is left in the end."""

    gangs: list[tuple[float, dict[str, dict[str, Any]]]] = field(default_factory=list)
    queues: list[dict[str, dict[str, int]]] = field(default_factory=list)
    nodes: list[NodeRow] = field(default_factory=list)
    levels: list[str] = field(default_factory=list)
    reclaimed: set[str] = field(default_factory=set)
    evicted: int = 0
    kept: dict[str, int] = field(default_factory=dict)

    def started(self) -> dict[str, float]:
        """Return by gang when it was first seen with nodes (seconds)."""
        found: dict[str, float] = {}
        for at, rows in self.gangs:
            for gang, row in rows.items():
                if row["phase"] != "Pending":
                    found.setdefault(gang, at)
        return found

    def arrived(self) -> dict[str, float]:
        """Return by gang when it was first seen (seconds)."""
        found: dict[str, float] = {}
        for at, rows in self.gangs:
            for gang in rows:
                found.setdefault(gang, at)
        return found


@pytest.fixture(scope="module")
def stay() -> Stay:
    """Watch the cluster until the end."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(_stay())


async def _stay() -> Stay:
    """Look at the board every now and then."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    world = World(demo_cluster(), LoopClock(loop), connect, settings=Settings(recording_megabytes=0))
    assert world.muster is not None
    board = Board(world.muster.controller, world.muster.metrics, world.clock)
    tasks = [asyncio.create_task(world.run()), asyncio.create_task(DemoArrivals(world).run())]
    found = Stay()
    try:
        for at in itertools.takewhile(lambda at: at <= UNTIL, itertools.count(LOOK_EVERY, LOOK_EVERY)):
            await loop.reach(at)
            assert not any(task.done() for task in tasks)
            list(board.refresh())
            picture = board.picture()
            found.gangs.append((at, {row.key: to_builtins(row) for row in gang_rows(picture)}))
            found.queues.append({row.name: to_builtins(row.flavors[0]) for row in picture.queues if row.flavors})
        found.nodes, found.levels = list(board.picture().nodes), list(board.picture().levels)
        events = [recorded.event for recorded in world.cluster.events]
        found.reclaimed = {event.message for event in events if event.reason == "Reclaimed"}
        found.evicted = len(world.evicted.evictions)
        found.kept = {
            kind: len(list(world.cluster.list(kind)))
            for kind in (WatchedKind.POD, COSCHEDULING_POD_GROUPS, WatchedKind.NODE)
        }
        return found
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def test_the_nodes_have_levels_and_a_product(stay: Stay) -> None:
    """Eight nodes of one known product, two to a rack, two racks to a block."""
    assert len(stay.nodes) == 8
    assert {node.product for node in stay.nodes} == {"NVIDIA-H100-80GB-HBM3"}
    assert stay.levels == ["block", "rack"]
    places = [node.domains for node in stay.nodes]
    assert sorted(map(places.count, set(places))) == [2, 2, 2, 2]
    assert len({domains[0] for domains in places}) == 2


def test_what_runs_has_a_predicted_bandwidth(stay: Stay) -> None:
    """Every gang that runs on more than one GPU is said to reach so many GB/s."""
    running = [row for _, rows in stay.gangs for row in rows.values() if row["phase"] == "Running"]
    assert running
    assert all(row["busBandwidthGBps"] for row in running if row["members"]["running"] > 1)


def test_soon_somebody_waits_with_an_expected_start(stay: Stay) -> None:
    """It takes no two minutes until a start is foretold, and one is foretold every other minute."""
    foretold = [at for at, rows in stay.gangs if any(row["expectedStart"] for row in rows.values())]
    assert foretold[0] < 2 * MINUTE
    assert max(after - before for before, after in itertools.pairwise(foretold)) < 2 * MINUTE


def test_every_gang_that_can_run_runs(stay: Stay) -> None:
    """Whoever has been there for long has started, but for those that never can; and starts are never far apart."""
    started, arrived = stay.started(), stay.arrived()
    able = {gang: at for gang, at in arrived.items() if not gang.startswith(NEVER)}
    assert len(able) > 50
    late = {gang: at for gang, at in able.items() if at < UNTIL - PATIENCE and gang not in started}
    assert late == {}
    assert max(started[gang] - able[gang] for gang in able.keys() & started.keys()) < PATIENCE
    times = sorted(started.values())
    assert max(after - before for before, after in itertools.pairwise(times)) < MINUTE


def test_whoever_cannot_start_has_an_instructive_reason(stay: Stay) -> None:
    """One gang is too large for its level and stays, others name a level that nobody knows and are withdrawn."""
    reasons: dict[str, set[str]] = {name: set() for name in NEVER}
    looks = dict.fromkeys(NEVER, 0)
    for (_, rows), name in itertools.product(stay.gangs, NEVER):
        for row in (row for gang, row in rows.items() if gang.startswith(name)):
            reasons[name].add(row["reason"]["code"] if row["reason"] else "")
            looks[name] += 1
    assert reasons == {NEVER[0]: {"ExceedsTopologyDomain"}, NEVER[1]: {"UnknownTopologyLevel"}}
    assert looks[NEVER[0]] == len(stay.gangs)
    assert 0 < looks[NEVER[1]] < len(stay.gangs)


def test_one_gang_runs_all_the_time(stay: Stay) -> None:
    """The gang that the printed commands explain is there from the first look to the last, and is never evicted."""
    assert {rows[RUNS]["phase"] for _, rows in stay.gangs} == {"Running"}


def test_teams_borrow_and_reclaim(stay: Stay) -> None:
    """Somebody borrows and somebody lends now and then, and quota comes back by evictions."""
    assert any(flavor["borrowed"] for queues in stay.queues for flavor in queues.values())
    assert any(flavor["lent"] for queues in stay.queues for flavor in queues.values())
    assert stay.reclaimed


def test_what_is_over_goes(stay: Stay) -> None:
    """Of dozens of gangs those that finished last and those that are at work are left."""
    assert len(stay.arrived()) > 60
    assert stay.kept[COSCHEDULING_POD_GROUPS] < 20
    assert stay.kept[WatchedKind.POD] < 80
    assert 0 < stay.evicted <= 100


def test_names_come_again_only_when_they_are_free() -> None:
    """The numbers in names begin anew, so that no more than some hundred names are ever known; not before 100 jobs."""
    names = [job.gang.key for job in itertools.islice(Jobs(), 5000)]
    assert len(set(names)) == 1100
    last: dict[str, int] = {}
    for number, name in enumerate(names):
        assert number - last.get(name, -1000) > 500
        last[name] = number
