"""Flavors and quota as gangs meet them: which flavor they get, and what they are told of the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest

from extender.admission.events import PodGone, PodSeen
from extender.objects import keys
from extender.objects.queue import Flavor, PreemptionPolicy, Quota
from extender.objects.reason import Reason
from tests.eviction.test_preemptions import evicted, leave
from tests.queues.test_sharing import gang, queue, tell
from tests.worlds import GPU, Job, World

SPOT, OWN = (("kind", "spot"),), (("kind", "own"),)
LOWER = PreemptionPolicy()


def flavored(world: World, spot: int, own: int, **fields: Any) -> None:
    """Make a spot node and an own one, and a queue with so much quota of each."""
    world.nodes(1, prefix="spot", labels={"kind": "spot"})
    world.nodes(1, prefix="own", labels={"kind": "own"})
    flavors = (Flavor("spot", {GPU: Quota(spot)}, SPOT), Flavor("own", {GPU: Quota(own)}, OWN))
    tell(world, queue("team", flavors=flavors, **fields))


def runs(world: World, name: str, on: str, **fields: Any) -> Job:
    """Return a gang of the queue that runs on a node."""
    job = gang(world, name, 1, "team", **fields)
    assert set(job.reserved.values()) == {on}
    job.run()
    return job


class TestFlavors:
    """A gang runs in one flavor."""

    def test_others_are_evicted_in_a_later_flavor_if_in_no_earlier_one(self, world: World) -> None:
        """The first flavor is full of gangs that outrank it; in the second one leaves that does not."""
        flavored(world, 8, 8, preemption=LOWER)
        runs(world, "important", "spot-0", priority=9)
        low = runs(world, "low", "own-0", priority=1)
        world.effects()
        high = gang(world, "high", 1, "team", priority=5)
        assert evicted(world) == {"Preempted": {"low-0"}}
        leave(world, low)
        assert set(high.reserved.values()) == {"own-0"}
        assert world.state.used("team", "own", GPU) == 8

    def test_where_nodes_are_short_comes_before_where_quota_is(self, world: World) -> None:
        """A gang that has quota in one flavor waits for nodes there, whatever quota is short in another."""
        flavored(world, 8, 0)
        world.gang("foreign", 1, node_name="spot-0")
        job = gang(world, "job", 1, "team")
        assert job.reason is Reason.INSUFFICIENT_CAPACITY

    def test_what_may_be_had_later_is_told_before_what_never_will(self, world: World) -> None:
        """Of two flavors without quota that one is named in which some will be left again."""
        flavored(world, 4, 8)
        world.nodes(1, prefix="more", labels={"kind": "own"})
        gang(world, "job", 1, "team").run()
        other = gang(world, "other", 1, "team")
        assert other.reason is Reason.QUOTA_EXCEEDED
        assert other.wait is not None
        assert other.wait.names["flavor"] == "own"

    def test_a_gang_that_asks_for_more_than_any_flavor_limits_is_told_so(self, world: World) -> None:
        """Each flavor has quota for one of two resources."""
        world.nodes(1)
        flavors = (Flavor("cpu", {"cpu": Quota(8000)}), Flavor("gpu", {GPU: Quota(8)}))
        tell(world, queue("team", flavors=flavors))
        job = gang(world, "job", 1, "team")
        assert job.reason is Reason.INVALID_QUEUE
        assert job.wait is not None
        assert job.wait.message == (
            "Queue team cannot be used: no flavor has quota for all that is asked for: cpu, nvidia.com/gpu, pods"
        )

    def test_a_replacement_goes_where_its_gang_is(self, world: World) -> None:
        """A gang stays in its flavor, even if there is room in one that it would prefer."""
        flavored(world, 8, 16)
        world.nodes(1, prefix="more", labels={"kind": "own"})
        first = runs(world, "first", "spot-0")
        job = gang(world, "job", 2, "team")
        job.run()
        first.finish()
        world.tell(PodGone(job.pods[0].uid))
        again = world.pod("again", 8, group=job.ref, options=keys.Options(queue="team"))
        world.tell(PodSeen(again))
        world.judge()
        assert job.reserved["again"] in {"own-0", "more-0"}


class TestWords:
    """Quota is told as people write it."""

    @pytest.mark.parametrize(
        ("resource", "nominal", "text"),
        [
            ("cpu", 1500, "asks for 2 cpu of all, of which Queue team can never have more than 1500m"),
            ("memory", 2**30, "asks for 2Gi memory of all, of which Queue team can never have more than 1Gi"),
        ],
    )
    def test_amounts_have_their_units(self, world: World, resource: str, nominal: int, text: str) -> None:
        """CPU in cores and memory in powers of 1024."""
        world.nodes(1)
        tell(world, queue("team", flavors=(Flavor("all", {resource: Quota(nominal)}),)))
        shape = world.pod("x").shape.__class__((("cpu", 2000), ("memory", 2**31), ("pods", 1)))
        job = gang(world, "job", 1, "team", shape=shape)
        assert job.wait is not None
        assert job.wait.message == text

    def test_what_is_left_is_never_negative(self, world: World) -> None:
        """A queue whose quota was cut below what it uses has none left."""
        world.nodes(2)
        tell(world, queue("team", 8))
        gang(world, "first", 1, "team").run()
        tell(world, queue("team", 4))
        second = gang(world, "second", 1, "team", gpus=4)
        assert second.wait is not None
        assert second.wait.message.endswith("of which Queue team has 0 left now")


class TestGated:
    """Gangs whose pods are gated until there is quota, of which no nodes are asked."""

    GATED: ClassVar[dict[str, Any]] = {"gated": True, "gates": (keys.ADMISSION_GATE,)}

    def test_no_flavor_for_it(self, world: World) -> None:
        """It is told as without gates."""
        flavors = (Flavor("cpu", {"cpu": Quota(8000)}), Flavor("gpu", {GPU: Quota(8)}))
        tell(world, queue("team", flavors=flavors))
        job = gang(world, "job", 1, "team", **self.GATED)
        assert job.reason is Reason.INVALID_QUEUE
        assert not world.effects().ungates

    def test_as_many_gangs_as_may_run(self, world: World) -> None:
        """A gate stays while the queue may not start another gang."""
        world.nodes(2)
        tell(world, queue("team", 16, max_running_gangs=1))
        gang(world, "first", 1, "team").run()
        job = gang(world, "job", 1, "team", **self.GATED)
        assert job.reason is Reason.TOO_MANY_RUNNING
        assert not world.effects().ungates

    def test_any_flavor_will_do(self, world: World) -> None:
        """There is quota in the second."""
        flavored(world, 0, 8)
        gang(world, "job", 1, "team", **self.GATED)
        assert len(world.effects().ungates) == 1

    def test_without_a_queue_the_gate_opens_at_once(self, world: World) -> None:
        """Nothing limits a gang of no queue."""
        world.gang("job", 1, **self.GATED)
        assert len(world.effects().ungates) == 1

    def test_it_opens_once_there_is_no_other_gate(self, world: World) -> None:
        """Until then there is nothing to open, and that another gate is taken off asks for a pass."""
        job = world.gang("job", 1, gated=True, gates=(keys.ADMISSION_GATE, "other"))
        assert not world.effects().ungates
        world.tell(PodSeen(replace(job.pods[0], gates=(keys.ADMISSION_GATE,))))
        assert world.admission.pending
        world.judge()
        assert len(world.effects().ungates) == 1

    def test_an_unknown_queue_keeps_it_shut(self, world: World) -> None:
        """The gang is told of its gates, and nothing is opened."""
        job = gang(world, "job", 1, "nowhere", **self.GATED)
        assert job.reason in {Reason.UNKNOWN_QUEUE, Reason.MEMBERS_GATED}
        assert not world.effects().ungates


def test_more_than_the_quota_can_ever_be_is_told_with_the_maximum(world: World) -> None:
    """Not with what is left now, which would be nothing while another gang uses all of it."""
    world.nodes(4)
    tell(world, queue("team", 16))
    gang(world, "runs", 2, "team").run()
    job = gang(world, "never", 4, "team")
    assert job.reason is Reason.EXCEEDS_QUOTA
    assert job.wait is not None
    assert job.wait.names["most"] == "16"
