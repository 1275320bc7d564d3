"""Gangs on their way while kube-scheduler or the API server is away or unheard, on the real control plane."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from localcluster.cluster import LocalCluster
from localcluster.faults.api import ApiProxy
from localcluster.faults.fault import Answer, CloseStream, HalfOpen
from localcluster.faults.rules import FOREVER, Match, Rule
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from tests.controlplane.blows import MEMBERS, POINTS, Blows, gang_to_nominate
from tests.judge import Tolerance

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("judged")]

PODS_WATCH = Match(kind="watch pods")

#: For how long the API server is away, in seconds; the latter with `--long`.
SHORT_OUTAGE, LONG_OUTAGE = 8.0, 30.0
#: How long a killed API server takes to come back at least, in seconds.
START = 4.0


@pytest.fixture
def tolerance() -> Tolerance:
    """Return how old news and how late writes can be: by an outage and the pauses of those who wait for its end."""
    return Tolerance(news=LONG_OUTAGE + 15, write=LONG_OUTAGE + 15)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("after the last nomination", marks=pytest.mark.nightly),
        "all but one in the barrier",
        pytest.param("between two Bindings", marks=pytest.mark.nightly),
    ],
)
def test_kube_scheduler_restarted_mid_gang(
    cluster: Sandbox, faulty_muster: Server, proxied_scheduler: Server, blows: Blows, name: str
) -> None:
    """kube-scheduler is killed at a named point and started again: the gang ends whole, nothing is bound twice."""
    blow = blows.call(POINTS[name], proxied_scheduler.kill)
    cluster.nodes(MEMBERS + 1, gpus=8)
    nominated = POINTS[name].kind == "nomination"
    gang = gang_to_nominate(cluster) if nominated else cluster.gang("gang", members=MEMBERS, gpus=8)
    blow.wait()
    proxied_scheduler.start()
    gang.wait_bound(timeout=30)
    assert len(cluster.bindings()) == MEMBERS
    faulty_muster.check()


@dataclass(frozen=True, slots=True)
class Outage:
    """How the API server goes away and comes back, and for how long in seconds."""

    begin: Callable[[], None]
    end: Callable[[], object]
    seconds: float


@pytest.fixture(params=["paused", "killed"])
def outage(request: pytest.FixtureRequest, local_cluster: LocalCluster) -> Iterator[Outage]:
    """Return an outage, a longer one with `--long`; at the end of the test all is as before."""
    server = local_cluster.control_plane.api_server
    seconds = LONG_OUTAGE if request.config.getoption("--long") else SHORT_OUTAGE
    if request.param == "paused":
        yield Outage(server.pause, server.resume, seconds)
        server.resume()
    else:
        yield Outage(server.kill, server.start, seconds - START)
        if not server.running:
            server.start()
        local_cluster.restart_clients()


def test_api_server_away_mid_gang(
    cluster: Sandbox,
    faulty_muster: Server,
    blows: Blows,
    outage: Outage,
    record_property: Callable[[str, object], None],
) -> None:
    """The API server goes away at a gang's third Binding: the gang ends whole soon after, as does one that waits."""
    cluster.nodes(2 * MEMBERS, gpus=8)
    running = cluster.gang("running", members=MEMBERS, gpus=8)
    running.wait_running()
    blow = blows.call(POINTS["between two Bindings"], outage.begin)
    gang = cluster.gang("gang", members=MEMBERS, gpus=8)
    blow.wait()
    time.sleep(outage.seconds)
    outage.end()
    record_property("seconds to whole after the outage", gang.wait_bound(timeout=60))
    waiting = cluster.gang("waiting", members=MEMBERS, gpus=8)
    running.complete()
    record_property("seconds until the next is whole", waiting.wait_bound(timeout=60))
    assert len(cluster.bindings()) == 3 * MEMBERS
    assert max(cluster.peak_gpus().values()) <= 8
    faulty_muster.check()


def test_storm_of_refusals_delays_gangs_only(
    cluster: Sandbox, faulty_muster: Server, api_proxy: ApiProxy, record_property: Callable[[str, object], None]
) -> None:
    """While half of all nominations and Bindings are answered 429, gangs start late, and whole."""
    refusal = Answer(429, "slow down", retry_after=1)
    for kind in ("nomination", "binding"):
        api_proxy.add(Rule(Match(kind=kind), refusal, times=FOREVER, probability=0.5))
    cluster.nodes(12, gpus=8)
    gangs = [gang_to_nominate(cluster, f"gang-{number}") for number in range(3)]
    record_property("seconds", [gang.wait_bound(4, timeout=60) for gang in gangs])
    assert len(cluster.bindings()) == 12
    refused = [exchange for exchange in api_proxy.requests if exchange.status == 429]
    assert {"nomination", "binding"} <= {kind for exchange in refused for kind in exchange.request.kinds}
    faulty_muster.check()


def whole_lists(api_proxy: ApiProxy) -> int:
    """Count the lists of all pods; one of a single pod only asks how far the API server has come."""
    return sum(exchange.request.query.get("limit") != "1" for exchange in api_proxy.matching(Match(kind="list pods")))


def test_deletions_in_a_gap_of_the_watch_are_learned_from_the_next_list(
    cluster: Sandbox, faulty_muster: Server, api_proxy: ApiProxy
) -> None:
    """Pods that are deleted and created again while the watch of pods is cut: the next list corrects every one."""
    cluster.nodes(4, gpus=8)
    running = cluster.gang("running", members=4, gpus=8)
    running.wait_running(4)
    waiting = cluster.gang("waiting", members=4, gpus=8)
    waiting.wait_condition("False", "InsufficientCapacity")
    api_proxy.add(Rule(PODS_WATCH, HalfOpen()))
    running.delete()
    for member in waiting.members:
        member.recreate()
    assert cluster.stays_true(lambda: not waiting.bound, 1.0)
    lists = whole_lists(api_proxy)
    api_proxy.add(Rule(PODS_WATCH, Answer(410, "too old resource version")))
    api_proxy.add(Rule(PODS_WATCH, CloseStream()))
    waiting.wait_bound(4, timeout=30)
    assert whole_lists(api_proxy) == lists + 1
    assert max(cluster.peak_gpus().values()) == 8
    faulty_muster.check()
