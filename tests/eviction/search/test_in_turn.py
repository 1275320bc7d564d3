"""What a victim would have evicted in turn counts as lost with it."""

from __future__ import annotations

from typing import Any

import pytest

from extender.eviction.search.units import Victim, lost_in_turn
from extender.objects.keys import Options
from extender.objects.queue import PreemptionPolicy, WithinQueue
from tests.eviction.search.clusters import Site, racks
from tests.queues.test_sharing import queue, tell
from tests.worlds import World


def ran(site: Site, name: str, gpus: int, seconds: float, priority: int = 5, **fields: object) -> Victim:
    """Let a gang of one pod run on the first node."""
    return site.run(name, [("r0-0", gpus)], seconds=seconds, priority=priority, **({"preempts": True} | fields))


@pytest.fixture
def site() -> Site:
    """Return the gangs of the example beside `lost_in_turn`."""
    site = Site(racks(1, each=64))
    ran(site, "long", 8, 600.0, priority=0)
    ran(site, "short", 4, 100.0, priority=0)
    ran(site, "first", 4, 50.0)
    ran(site, "second", 8, 10.0)
    ran(site, "third", 16, 10.0)
    return site


def lost(site: Site, *roomy: str) -> dict[str, float]:
    """Return what others lose, by name (GPU seconds), if those of some names have room elsewhere."""
    found = lost_in_turn(site.victims, lambda victim: victim.name.removeprefix("default/") in roomy)
    return {victim.name.removeprefix("default/"): found.get(victim.uid, 0) / 1000 for victim in site.victims}


def test_the_example(site: Site) -> None:
    """The lowest priorities leave first, of equal ones those that have run least, as many as it takes."""
    assert lost(site) == {"long": 0, "short": 0, "first": 400, "second": 5200, "third": 0}
    assert lost(site, "second") == {"long": 0, "short": 0, "first": 400, "second": 0, "third": 0}


def test_who_preempts_nobody_costs_nothing_more(site: Site) -> None:
    """Nor one of another queue."""
    ran(site, "meek", 4, 1.0, preempts=False)
    ran(site, "other", 4, 1.0, queue="b")
    assert lost(site)["meek"] == lost(site)["other"] == 0


def running(world: World, name: str, pods: int, gpus: int, seconds: float, **fields: Any) -> None:
    """Let a gang run since so many seconds."""
    job = world.gang(name, pods, gpus, **fields)
    job.run()
    assert job.gang.has_minimum
    for index in range(pods):
        job.see(index, started_at=world.now - seconds)


@pytest.mark.parametrize(("more", "leaves"), [(0, {"waits-0"}), (2, {"chain-0", "chain-1"})])
def test_who_waits_leaves_before_who_has_others_evicted(world: World, more: int, leaves: set[str]) -> None:
    """Though it has run for longer; not if the other has room elsewhere, on nodes that are too small for the gang."""
    world.nodes(2, 4, prefix="small")
    running(world, "low", 2, 4, 1000.0)
    world.nodes(2, 8)
    running(world, "chain", 2, 4, 10.0, priority=5)
    running(world, "waits", 1, 8, 100.0, priority=5, never_preempts=True)
    world.nodes(more, 4, prefix="more")
    world.effects()
    world.gang("high", 1, 8, priority=9)
    assert {each.pod.name for each in world.effects().evictions.values()} == leaves


def test_a_queue_in_which_no_gang_preempts(world: World) -> None:
    """There the one that has run least leaves."""
    world.nodes(2, 4, prefix="small")
    policy = PreemptionPolicy(within_queue=WithinQueue.NEVER)
    tell(world, queue("all"), queue("red", 16, parent="all", preemption=PreemptionPolicy()))
    tell(world, queue("blue", 8, parent="all", preemption=policy))
    running(world, "low", 2, 4, 1000.0, options=Options(queue="blue"))
    world.nodes(2, 8)
    running(world, "chain", 2, 4, 10.0, priority=5, options=Options(queue="blue"))
    running(world, "waits", 1, 8, 100.0, priority=5, options=Options(queue="blue"), never_preempts=True)
    world.effects()
    world.gang("owner", 1, 8, priority=9, options=Options(queue="red"))
    assert {each.pod.name for each in world.effects().evictions.values()} == {"chain-0", "chain-1"}
