"""Wall clocks that are wrong or that are set while gangs start and leaders change, on the real control plane.

libfaketime is Muster's clock; its kube-scheduler, which does not ask libc, writes Leases by the same clock.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from random import Random

import httpx
import pytest

from localcluster.client import JsonObject
from localcluster.cluster import LocalCluster
from localcluster.components import MUSTER_COMMAND
from localcluster.faults.fault import RewriteEvents
from localcluster.faults.rules import FOREVER, Match, Rule
from localcluster.ports import LOOPBACK
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from localcluster.story import Gang
from localcluster.waiting import wait_until
from localcluster.wallclock import WallClock
from tests.controlplane.test_failover import RECOVERY, Site, Stage, acting, assert_bound_once, between_proxies

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(900)]

HOUR = 3600.0
#: What clocks are set by (seconds): less than and more than a Lease, than deadlines, and than gangs run.
STEPS = tuple(sign * seconds for seconds in (0.9, 3.0, 20.0, 90.0, 900.0, 3 * HOUR) for sign in (-1, 1))
#: What a busy machine may add to how long a gang waits or runs (seconds): with libfaketime, threads wait 10 ms
#: for each other. A clock that counts adds hours.
SLOWNESS = 120.0
_LEASE_WATCH = Match(kind="watch leases")


@dataclass(frozen=True, slots=True)
class Machine:
    """What one replica runs on: the wall clock by which both its processes go."""

    clock: WallClock
    site: Site


@pytest.fixture(scope="module")
def machines(local_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Machine]]:
    """Prepare two replicas on machines with clocks of their own; no other kube-scheduler asks a Muster meanwhile."""
    folder = tmp_path_factory.mktemp("clocks")
    clocks = {hostname: WallClock(folder / hostname) for hostname in ("clock-a", "clock-b")}
    with between_proxies(local_cluster, {hostname: clock.environment for hostname, clock in clocks.items()}) as sites:
        yield [Machine(clock, site) for clock, site in zip(clocks.values(), sites, strict=True)]


@pytest.fixture
def stage(local_cluster: LocalCluster, cluster: Sandbox, machines: list[Machine]) -> Iterator[Stage]:
    """Start what does not run of both replicas, their clocks right, and record what happens."""
    for machine in machines:
        machine.clock.set(0.0)
        machine.site.api.add(Rule(_LEASE_WATCH, RewriteEvents(machine.clock.written), FOREVER))
    with acting(local_cluster, cluster, [machine.site for machine in machines]) as stage:
        yield stage
    for machine in machines:
        machine.site.api.clear()
        machine.site.verbs.check()
        machine.site.replica.kill()


def expired(stage: Stage) -> float:
    """Return how many reservations have expired at either Muster since it started."""
    return sum(site.replica.metric("muster_reservations_expired_total") for site in stage.sites)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(3))
def test_gangs_start_whole_while_clocks_are_set(stage: Stage, machines: list[Machine], seed: int) -> None:
    """Either clock is set at random by up to hours while gangs start, leaders die, and leaders are stopped."""
    random = Random(seed)
    gangs: list[Gang] = []
    for number in range(12):
        wave = [
            stage.cluster.gang(f"gang-{number}-{index}", members=4, gpus=2, create=0, run_seconds=1)
            for index in range(3)
        ]
        active = stage.active
        for step in range(4):
            for gang in wave:
                gang.create_next()
            machine = random.choice(machines)
            machine.clock.set(machine.clock.offset + random.choice(STEPS))
            if step == number % 4 and number % 3:
                stage.depose(active)
                (active.replica.kill if number % 3 == 1 else active.replica.stop)()
                active.replica.launch()
        gangs += wave
        for gang in wave:
            gang.wait_bound(timeout=RECOVERY)
    stage.assert_whole(*gangs)
    assert_bound_once(stage, *gangs)
    for site in stage.sites:
        site.replica.muster.check()
        assert "Traceback" not in site.replica.muster.command.log_path.read_text(encoding="utf-8")


def test_nothing_expires_while_the_clock_is_set(stage: Stage, machines: list[Machine]) -> None:
    """Three hours forward and back while a gang has its places: they stay its own, and the leader leads on."""
    active = stage.active
    machine = next(machine for machine in machines if machine.site is active)
    active.replica.scheduler.pause()
    gang = stage.cluster.gang("gang", members=4, gpus=8)
    planned = wait_planned(stage, gang)
    for offset in (3 * HOUR, 0.0, -3 * HOUR, 0.0):
        machine.clock.set(offset)
        assert stage.cluster.stays_true(lambda: [member.nominated_node for member in gang.members] == planned, 0.5)
    assert active.replica.metric("muster_reservations_expired_total") == 0
    active.replica.scheduler.resume()
    stage.assert_whole(gang)
    assert_bound_once(stage, gang)
    assert [member.node for member in gang.members] == planned
    assert active.replica.metric("muster_reservations_expired_total") == 0


def wait_planned(stage: Stage, gang: Gang) -> list[str | None]:
    """Return the nodes that the members are nominated to, as soon as all are."""
    stage.cluster.wait_until(
        lambda: all(member.nominated_node for member in gang.members), f"{gang!r} planned", RECOVERY
    )
    return [member.nominated_node for member in gang.members]


@pytest.mark.nightly
@pytest.mark.parametrize("offset", [3 * HOUR, -3 * HOUR])
def test_times_are_the_api_servers(
    local_cluster: LocalCluster, cluster: Sandbox, muster_scheduler: Server, tmp_path: Path, offset: float
) -> None:
    """A Muster whose clock is hours off counts no second too many or too few, and takes no node for lost too early."""
    stopped = not muster_scheduler.running  # by `machines`, for the tests of this module that have some
    if stopped:
        muster_scheduler.start()
    config, clock, port = tmp_path / "settings.yaml", WallClock(tmp_path / "clock", offset), local_cluster.muster_port
    config.write_text(
        f"history_store: {tmp_path / 'history.db'}\nhistory_write_seconds: 0.2\nnode_lost_seconds: 20\n", "utf-8"
    )
    command = ("env", *(f"{name}={value}" for name, value in clock.environment.items()), *MUSTER_COMMAND)
    muster = local_cluster.muster(("--config", str(config)), command)
    muster.start()
    first = json.loads(muster.command.log_path.read_text(encoding="utf-8").partition("\n")[0])
    shown = datetime.fromisoformat(first["timestamp"]).timestamp()
    assert shown - time.time() == pytest.approx(offset, abs=RECOVERY)  # it has the clock
    try:
        cluster.nodes(5, gpus=8)
        gang = cluster.gang("job", members=4, gpus=8)
        gang.wait_running(4)
        began = time.time()
        waiting = cluster.gang("waiting", members=4, gpus=8)
        waiting.wait_condition("False", "InsufficientCapacity")
        cluster.silence(gang.nodes[0])
        assert cluster.stays_true(lambda: len(gang.bound) == 4, 10.0)
        gang.complete()
        ended = time.time()
        (told,) = wait_history(port, "job")
        assert told["gpuSeconds"]["used"] / 32 == pytest.approx(ended - began, abs=SLOWNESS)
        assert 0.0 <= told["waitedSeconds"] < SLOWNESS
        for page in ("status", "gangs", "demand", "queues", "nodes", "capacity", "board", "history", "report"):
            answer = httpx.get(f"http://{LOOPBACK}:{port}/api/v1/{page}", trust_env=False)
            assert answer.status_code == httpx.codes.OK, answer.text
            assert not below_zero(answer.json()), page
    finally:
        muster.kill()
        if stopped:
            muster_scheduler.kill()


def below_zero(value: object) -> list[str]:
    """Return the names of numbers below zero, at whatever depth."""
    if isinstance(value, dict):
        found = [name for name, each in value.items() if isinstance(each, int | float) and each < 0]
        return found + [name for each in value.values() for name in below_zero(each)]
    return [name for each in value for name in below_zero(each)] if isinstance(value, list) else []


def wait_history(port: int, gang: str) -> list[JsonObject]:
    """Return what the history says of a gang that has ended."""
    found: list[JsonObject] = []

    def told() -> bool:
        url = f"http://{LOOPBACK}:{port}/api/v1/history"
        answer = httpx.get(url, trust_env=False, timeout=RECOVERY).json()
        found[:] = [each for each in answer["gangs"] if each["name"] == gang and each.get("ended")]
        return bool(found)

    wait_until(told, timeout_seconds=RECOVERY, description=f"history of {gang}")
    return found
