"""What is said of a gang that nobody has submitted is what becomes of it when somebody does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.admission.events import HoldOff, NodeTopologySeen, QueueSeen
from extender.objects.keys import Options
from extender.objects.nodetopology import NodeTopology, TopologyPolicy, Zone
from extender.objects.queue import Flavor, Queue, QueueingStrategy, Quota
from extender.objects.reason import Reason, Wait
from tests.examples import share
from tests.explain.hypothetical import asked, objects, submit
from tests.worlds import GPU, World


def crowded(seed: list[tuple[int, int, int, bool]]) -> World:
    """Return a world of six nodes in three racks and two blocks, gangs that run on them, and gangs that wait."""
    world = World(topology_levels=[{"name": name, "nodeLabel": name} for name in ("block", "rack")])
    for rack in range(3):
        labels = {"block": f"b{rack // 2}", "rack": f"r{rack}", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
        world.nodes(2, prefix=f"r{rack}", labels=labels)
    for index, (members, gpus, priority, runs) in enumerate(seed):
        job = world.gang(f"g{index}", members, gpus, priority=priority)
        if runs:
            job.run()
    world.judge()
    return world


_RUNNING = st.tuples(st.integers(1, 4), st.sampled_from([1, 4, 8]), st.integers(0, 2), st.booleans())
_ASKED = st.fixed_dictionaries(
    {
        "pods": st.integers(1, 7),
        "gpus": st.sampled_from([0, 1, 4, 8]),
        "min_member": st.integers(1, 7),
        "priority": st.integers(0, 2),
        "annotations": st.sampled_from(["", "rack", "block", "node", "no-such-level"]).map(
            lambda level: {"muster.dev/topology-required": level} if level else None
        ),
    }
)


@given(st.lists(_RUNNING, max_size=5), _ASKED)
@share(0.6)
def test_a_gang_fares_as_was_said(seed: list[tuple[int, int, int, bool]], what: dict[str, Any]) -> None:
    """The same nodes for the members that it needs, or the same reason; and the question left no trace."""
    world = crowded(seed)
    new = objects(**what)
    before = world.state.everything()
    answer = asked(world, new)
    assert world.state.everything() == before
    job = submit(world, new)
    if answer.outcome.nodes:
        said = {uid.rpartition("/")[2]: node for uid, node in answer.outcome.nodes.items()}
        assert {name: node for name, node in job.reserved.items() if name in said} == said
        assert job.reason in {Reason.AWAITING_MEMBERS, None}
        return
    assert answer.outcome.wait is not None
    if job.reason is Reason.PREEMPTING:
        assert answer.outcome.evictions is not None
    else:
        assert job.wait == answer.outcome.wait


def queue(name: str, gpus: int, strategy: QueueingStrategy = QueueingStrategy.BEST_EFFORT_FIFO) -> Queue:
    """Return a queue with so many GPUs for all namespaces."""
    flavor = Flavor("any", {GPU: Quota(gpus)})
    return Queue(name, uid=name, flavors=(flavor,), strategy=strategy, default=True)


@pytest.mark.parametrize("gpus", [8, 16, 32])
def test_quota_counts_as_it_will(gpus: int) -> None:
    """Of a queue of which half is used."""
    world = World()
    world.tell(QueueSeen(queue("team", 24)))
    world.nodes(6)
    world.gang("old", 1).run()
    what = objects(gpus // 8)
    before = world.state.everything()
    answer = asked(world, what)
    assert world.state.everything() == before
    job = submit(world, what)
    assert bool(answer.outcome.nodes) == (job.reason is Reason.AWAITING_MEMBERS) == (gpus <= 16)
    assert answer.outcome.nodes or job.wait == answer.outcome.wait


def test_nobody_passes_in_a_strict_queue() -> None:
    """The first that waits keeps a newcomer waiting, whatever is free."""
    world = World()
    world.tell(QueueSeen(queue("team", 24, QueueingStrategy.STRICT_FIFO)))
    world.nodes(3)
    world.gang("first", 4)
    answer = asked(world, objects(1))
    job = submit(world, objects(1))
    assert job.reason is Reason.BEHIND_IN_QUEUE
    assert answer.outcome.wait == job.wait


def test_a_namesake_is_judged_beside_the_gang_that_exists() -> None:
    """It neither has its nodes nor counts for it."""
    world = World()
    world.nodes(3)
    world.gang("new", 2).run()
    one, two = asked(world, objects(1)), asked(world, objects(2))
    assert one.outcome.nodes
    assert two.outcome.wait is not None
    assert two.outcome.wait.reason is Reason.INSUFFICIENT_CAPACITY
    assert "default/new exists; this is evaluated as another gang beside it" in two.assumptions


def test_pods_alone_are_described_by_the_pod_group_of_the_cluster() -> None:
    """Where they name one that was not submitted with them; without any they wait for it."""
    world = World()
    world.nodes(3)
    (_, job) = objects(2)
    assert asked(world, [job]).outcome.wait is not None
    world.gang("new", 0, min_member=2)
    answer = asked(world, [job])
    assert len(answer.outcome.nodes) == 2
    assert "it is described by the PodGroup default/new of the cluster" in answer.assumptions


def test_pods_of_another_scheduler_are_judged_as_if_they_were_musters() -> None:
    """And that is told."""
    world = World()
    world.nodes(1)
    answer = asked(world, objects(1, schedulerName="default-scheduler"))
    assert answer.outcome.nodes
    assert not answer.facts.view.managed
    assert answer.assumptions == (
        "no pod has schedulerName muster: Muster would leave it alone; evaluated as if it did not",
    )


def zoned(world: World) -> None:
    """Add a node whose kubelet takes each pod's GPUs from one of two NUMA zones of four."""
    world.nodes(1)
    zones = tuple(Zone(index, f"node-{index}", {GPU: 4}, {GPU: 4}, {GPU: 4}) for index in range(2))
    topology = NodeTopology("node-0", TopologyPolicy.SINGLE_NUMA_NODE, zones=zones)
    world.tell(NodeTopologySeen(topology))


@pytest.mark.parametrize(
    ("pods", "gpus", "reason"),
    [
        (1, 6, Reason.NEVER_ALIGNED),
        (1, 4, Reason.AWAITING_MEMBERS),
        (2, 3, Reason.ZONES_FULL),
        (3, 1, Reason.AWAITING_MEMBERS),
    ],
)
def test_numa_zones_count_as_they_will(pods: int, gpus: int, reason: Reason) -> None:
    """Of a node of which two GPUs of one zone are taken."""
    world = World()
    zoned(world)
    world.gang("old", 1, gpus=2).run()
    world.judge()
    what = objects(pods, gpus)
    before = world.state.everything()
    answer = asked(world, what)
    assert world.state.everything() == before
    job = submit(world, what)
    assert job.reason is reason
    assert answer.outcome.nodes or answer.outcome.wait == job.wait
    if answer.outcome.nodes:
        held = [world.state.devices(pod) for pod in job.pods]
        assert list(answer.outcome.held.values()) == held


def test_a_queue_without_quota_for_what_is_asked_for() -> None:
    """No flavor has any of one resource that others are limited by."""
    world = World()
    flavors = (Flavor("a", {GPU: Quota(8)}), Flavor("b", {"cpu": Quota(8000)}))
    world.tell(QueueSeen(Queue("team", uid="team", flavors=flavors, default=True)))
    world.nodes(2)
    answer = asked(world, objects(1))
    job = submit(world, objects(1))
    assert job.reason is Reason.INVALID_QUEUE
    assert answer.outcome.wait == job.wait


def test_a_queue_that_can_never_have_so_much() -> None:
    """However little is used."""
    world = World()
    world.tell(QueueSeen(queue("team", 8)))
    world.nodes(2)
    answer = asked(world, objects(2))
    job = submit(world, objects(2))
    assert job.reason is Reason.EXCEEDS_QUOTA
    assert answer.outcome.wait == job.wait


def test_what_is_reserved_for_others_is_theirs() -> None:
    """A gang that is on its way to its nodes has them."""
    world = World()
    world.nodes(2)
    world.gang("old", 1)
    answer = asked(world, objects(2))
    assert answer.outcome.wait is not None
    assert answer.outcome.evictions is None
    assert submit(world, objects(2)).wait == answer.outcome.wait


def test_what_no_gang_may_borrow_is_not_promised() -> None:
    """Beside a gang that has waited for quota for very long a newcomer that would borrow waits, whatever is free."""
    world = World(ageing_seconds=60)
    for name in ("old", "new"):
        flavors = (Flavor("any", {GPU: Quota(8 if name == "old" else 0)}),)
        world.tell(QueueSeen(Queue(name, uid=name, parent="all", flavors=flavors)))
    world.tell(QueueSeen(Queue("all", uid="all", flavors=(Flavor("any", {GPU: Quota(8)}),))))
    world.nodes(4)
    world.gang("runs", 1, options=Options(queue="new")).run()
    created = world.clock.now().isoformat().replace("+00:00", "Z")
    aged = world.gang("aged", 2, options=Options(queue="old"), group={"created": created})
    world.later(61)
    assert aged.reason is Reason.QUOTA_EXCEEDED
    what = objects(1, 4, annotations={"muster.dev/queue": "new"})
    answer = asked(world, what)
    job = submit(world, what)
    assert job.reason is Reason.BEHIND_HEAD
    assert answer.outcome.wait == job.wait


def test_what_holds_off_all_gangs_holds_off_a_newcomer() -> None:
    """While nothing is placed at all, no newcomer is said to start."""
    world = World()
    world.nodes(2)
    world.tell(HoldOff(Wait(Reason.WRITES_BACKLOGGED)))
    world.judge()
    answer = asked(world, objects(1))
    assert answer.outcome.wait == submit(world, objects(1)).wait == Wait(Reason.WRITES_BACKLOGGED)
