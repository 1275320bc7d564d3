"""Nodes die under running gangs on the real control plane, and each gang is whole again elsewhere."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from extender.objects.jobsigns import EVICTION_ACKNOWLEDGED
from extender.objects.keys import EVICTION_NOTICE
from localcluster.client import PODS
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from localcluster.story import Gang
from tests.controlplane.conftest import PROMPT_SECONDS, StartMuster
from tests.controlplane.replacing import GangController
from tests.controlplane.test_notices import planned
from tests.controlplane.test_reclaim import queue

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("judged")]

MEMBERS = 16
#: How long a node is silent before it is lost (seconds); 40 by default, which would be most of a test.
LOST_SECONDS = 2.0


@pytest.fixture
def muster(start_muster: StartMuster, tmp_path: Path) -> Server:
    """Start a Muster that counts nodes as lost after two seconds."""
    config = tmp_path / "muster.yaml"
    config.write_text(f"node_lost_seconds: {LOST_SECONDS}\n", "utf-8")
    return start_muster("--config", str(config))


def running(cluster: Sandbox, name: str = "job", **options: object) -> Gang:
    """Return a gang of 16 that runs, a node for each member."""
    gang = cluster.gang(name, members=MEMBERS, gpus=8, **options)  # type: ignore[arg-type]  # fields of GangOptions
    gang.wait_running(MEMBERS, timeout=60)
    return gang


def wait_whole(cluster: Sandbox, gang: Gang, dead: set[str], timeout: float = PROMPT_SECONDS) -> float:
    """Return the seconds until all members are bound to nodes that live."""
    return cluster.wait_until(
        lambda: len(gang.bound) == MEMBERS and dead.isdisjoint(gang.nodes), f"{gang!r} whole without {dead}", timeout
    )


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_gang_that_loses_nodes_is_whole_again(cluster: Sandbox, muster: Server, nodes: int) -> None:
    """One node or two at once: the others go on, and the lost members' replacements are bound elsewhere at once."""
    cluster.nodes(MEMBERS + nodes, gpus=8)
    gang = running(cluster)
    stays = {member.uid for member in gang.members[nodes:]}
    dead = {str(member.node) for member in gang.members[:nodes]}
    with GangController(cluster, [gang]) as controller:
        for node in dead:
            cluster.silence(node)
        wait_whole(cluster, gang, dead)
        assert len(controller.replaced) == nodes
    assert stays <= {member.uid for member in gang.members}
    muster.check()


def test_without_a_spare_it_says_so_and_nobody_is_evicted(cluster: Sandbox, muster: Server) -> None:
    """It waits with the reason until there is another node, and then is whole again."""
    cluster.nodes(MEMBERS, gpus=8)
    gang = running(cluster)
    dead = str(gang.members[0].node)
    with GangController(cluster, [gang]) as controller:
        cluster.silence(dead)
        gang.wait_message("NodesLost: members on lost nodes")
        assert not controller.replaced
        cluster.nodes(1, gpus=8)
        wait_whole(cluster, gang, {dead})
        assert controller.replaced == ["job-0"]
    muster.check()


def test_killed_in_between_it_goes_on(cluster: Sandbox, muster: Server) -> None:
    """SIGKILL when the node is silent, and again when members are replaced: whole again, and nothing bound twice."""
    cluster.nodes(MEMBERS + 2, gpus=8)
    gang = running(cluster)
    dead = {str(member.node) for member in gang.members[:2]}
    with GangController(cluster, [gang]) as controller:
        for node in dead:
            cluster.silence(node)
        muster.kill()
        muster.start()
        cluster.wait_until(lambda: bool(controller.replaced), "a member is replaced", timeout=PROMPT_SECONDS)
        muster.kill()
        muster.start()
        wait_whole(cluster, gang, dead, timeout=2 * PROMPT_SECONDS)
    muster.check()


def test_a_node_that_comes_back_keeps_its_members(cluster: Sandbox, muster: Server) -> None:
    """Silent for less than the time, or without another place: nothing is evicted."""
    cluster.nodes(MEMBERS, gpus=8)
    gang = running(cluster)
    node = str(gang.members[0].node)
    with GangController(cluster, [gang]) as controller:
        cluster.silence(node)
        gang.wait_message("NodesLost: members on lost nodes")
        cluster.revive(node)
        assert cluster.stays_true(lambda: not controller.replaced, 2.0)
    muster.check()


def test_a_gang_that_has_notice_is_made_whole_and_told_again(cluster: Sandbox, muster: Server) -> None:
    """The place that it was to leave has lost a node: it gets a new member, then notice for the place that is left."""
    urgent = cluster.priority_class("urgent", 1000)
    cluster.nodes(MEMBERS, gpus=8)
    gang = running(cluster, group_annotations={EVICTION_NOTICE: "5m"})
    high = cluster.gang("high", members=MEMBERS, gpus=8, priority_class=urgent)

    def told(before: str = "") -> bool:
        said = {planned(pod) for pod in gang.members}
        return len(said) == 1 and said.isdisjoint({"", before})

    cluster.wait_until(told, "all pods say what is planned", timeout=60)
    first, dead = planned(gang.members[0]), str(gang.members[0].node)
    cluster.nodes(1, gpus=8)
    with GangController(cluster, [gang]) as controller:
        cluster.silence(dead)
        wait_whole(cluster, gang, {dead})
        cluster.wait_until(lambda: told(first), "all pods say what is planned now", timeout=60)
        assert controller.replaced == ["job-0"]
        body = {"metadata": {"annotations": {EVICTION_ACKNOWLEDGED: planned(gang.members[0])}}}
        cluster.api.patch(PODS, gang.members[-1].name, body, namespace=gang.members[-1].namespace)
        wait_whole(cluster, high, {dead}, timeout=60)
    muster.check()


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_twenty_gangs_while_nodes_die(
    cluster: Sandbox, muster: Server, record_property: Callable[[str, object], None]
) -> None:
    """Nodes die at random and come back: each gang is whole again each time, within five seconds for 95 in 100."""
    draw, seconds = random.Random(20), 240.0
    cluster.create(queue("training", 8 * 400, spares={"nodes": 12}))
    cluster.nodes(20 * MEMBERS + 28, gpus=8)
    labels = {"muster.dev/queue": "training"}
    gangs = [cluster.gang(f"job-{index}", members=MEMBERS, gpus=8, labels=labels) for index in range(20)]
    for gang in gangs:
        gang.wait_running(MEMBERS, timeout=120)
    took: list[float] = []
    with GangController(cluster, gangs):
        end, dead = time.monotonic() + seconds, list[str]()
        while time.monotonic() < end:
            chosen = draw.sample(gangs, draw.choice((1, 1, 2, 3)))
            nodes = {str(gang.members[draw.randrange(MEMBERS)].node) for gang in chosen}
            lost = max(max(cluster.silence(node) + LOST_SECONDS, time.time()) for node in sorted(nodes))
            for gang in chosen:
                wait_whole(cluster, gang, nodes, timeout=120)
                took.append(max(time.time() - lost, 0.0))
            dead += sorted(nodes)
            while len(dead) > 12:
                cluster.revive(dead.pop(0))
        assert all(len(gang.bound) == MEMBERS for gang in gangs)
    p95 = statistics.quantiles(took, n=20)[-1]
    record_property("losses", len(took))
    record_property(
        "seconds from loss to bound", f"median {statistics.median(took):.2f} p95 {p95:.2f} most {max(took):.2f}"
    )
    assert max(cluster.peak_gpus().values()) <= 8
    assert p95 < PROMPT_SECONDS
    muster.check()
