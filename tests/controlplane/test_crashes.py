"""Muster killed and paused at every point of a gang's way, by name, on the real control plane."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from localcluster.story import Gang
from tests.controlplane.blows import MEMBERS, POINTS, Blows, Point, gang_to_nominate
from tests.judge import Tolerance

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("judged")]

#: Seconds for which a paused Muster is gone.
PAUSE = 3.0
#: Seconds within which a gang must be whole after a crash: kube-scheduler comes back to a pod that failed within ten.
RECOVERY = 30.0


#: The points of which one follows from the other least: what is half done at each differs. `make nightly` has the
#: others; the faults in virtual time strike at every step of every call.
_DECIDING = frozenset(
    {"between two nominations", "all but one in the barrier", "between two Bindings", "during an event"}
)


@pytest.fixture
def tolerance() -> Tolerance:
    """Return how old Muster's knowledge can be here: it is paused for a while."""
    return Tolerance(news=1.0 + PAUSE)


def begin(cluster: Sandbox, point: Point) -> Gang:
    """Create a gang and nodes that it fits; no nodes yet for a point about what is said of gangs that wait."""
    if point.kind not in {"event", "group status"}:
        cluster.nodes(MEMBERS + 1, gpus=8)
    return gang_to_nominate(cluster) if point.kind == "nomination" else cluster.gang("gang", members=MEMBERS, gpus=8)


def provide_nodes(cluster: Sandbox) -> None:
    """Create the nodes, unless they exist."""
    if not cluster.node_names:
        cluster.nodes(MEMBERS + 1, gpus=8)


def assert_recovered(cluster: Sandbox, gang: Gang) -> float:
    """Check that the gang ends whole, nothing is bound twice, and all it held can be had again; return the seconds."""
    took = gang.wait_bound(MEMBERS, timeout=RECOVERY)
    assert len(cluster.bindings()) == MEMBERS
    assert max(cluster.peak_gpus().values()) <= 8
    gang.wait_running(MEMBERS)
    gang.complete()
    follower = cluster.gang("follower", members=MEMBERS + 1, gpus=8)
    follower.wait_bound(timeout=RECOVERY)
    assert not any(member.nominated_node for member in (*gang.members, *follower.members))
    return took


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in _DECIDING else pytest.mark.nightly) for name in POINTS]
)
def test_killed_muster_finishes_what_it_began(
    cluster: Sandbox,
    faulty_muster: Server,
    blows: Blows,
    name: str,
    record_property: Callable[[str, object], None],
) -> None:
    """SIGKILL at a named point, then restart: the gang ends whole, nothing is bound twice, no capacity is lost."""
    blow = blows.kill(POINTS[name], faulty_muster)
    gang = begin(cluster, POINTS[name])
    blow.wait()
    blows.clear()
    provide_nodes(cluster)
    record_property("seconds to restart", faulty_muster.start())
    record_property("seconds to whole after that", assert_recovered(cluster, gang))
    faulty_muster.check()


def test_muster_killed_again_during_its_first_list(cluster: Sandbox, faulty_muster: Server, blows: Blows) -> None:
    """A Muster that dies while it reads the cluster after a crash has done no harm; the next one finishes."""
    point = POINTS["between two Bindings"]
    first = blows.kill(point, faulty_muster)
    gang = begin(cluster, point)
    first.wait()
    blows.clear()
    second = blows.kill(Point("list pods"), faulty_muster)
    faulty_muster.launch()
    second.wait()
    blows.clear()
    faulty_muster.start()
    assert_recovered(cluster, gang)
    faulty_muster.check()


@pytest.mark.parametrize("name", ["after the last nomination", "all but one in the barrier", "between two Bindings"])
def test_paused_muster_goes_on(cluster: Sandbox, faulty_muster: Server, blows: Blows, name: str) -> None:
    """SIGSTOP for a few seconds at a named point: the gang ends whole, and nothing is bound twice."""
    blow = blows.call(POINTS[name], faulty_muster.pause)
    gang = begin(cluster, POINTS[name])
    blow.wait()
    waking = threading.Timer(PAUSE, faulty_muster.resume)
    waking.start()
    waking.join()
    assert_recovered(cluster, gang)
    faulty_muster.check()
