"""What waiting gangs lack that more nodes would give them."""

from __future__ import annotations

from typing import Any

import pytest

from extender.admission.events import QueueSeen
from extender.cluster.gangs import Gang
from extender.explain.demand import CAPACITY_BOUND, UnmetDemand, WaitingPodSet, demand_row, unmet_demand
from extender.objects.keys import ADMISSION_GATE, Options
from extender.objects.meta import Requirement, Selector, SelectorTerm
from extender.objects.pod import Shape
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.podspec import Toleration
from extender.objects.queue import Flavor, Queue, Quota
from extender.objects.reason import Reason, Wait
from extender.objects.sources.table import LABEL
from tests.builders import as_sent
from tests.cluster.conftest import group_ref, pod, shape
from tests.worlds import World

#: Why gangs wait for which no node helps that is of a kind that the cluster has already.
QUOTA_BOUND = {
    Reason.UNKNOWN_QUEUE,
    Reason.INVALID_QUEUE,
    Reason.NAMESPACE_NOT_ALLOWED,
    Reason.QUEUE_STOPPED,
    Reason.EXCEEDS_QUOTA,
    Reason.QUOTA_EXCEEDED,
    Reason.TOO_MANY_RUNNING,
    Reason.BEHIND_IN_QUEUE,
}


def waiting(members: int = 4, min_member: int = 4, name: str = "train", **fields: Any) -> Gang:
    """Return a gang of which no member has a node."""
    gang = Gang(group_ref(name), f"uid-{name}", 0.0)
    gang.group = PodGroup(gang.ref, gang.uid, min_member, created="2026-01-01T00:00:00Z", **fields)
    for number in range(members):
        gang.join(pod(f"{name}-{number}", gpus=8))
    return gang


def demand(*gangs: Gang, reason: Reason = Reason.INSUFFICIENT_CAPACITY, **names: str) -> list[UnmetDemand]:
    """Return what gangs lack that all wait for the same."""
    return list(unmet_demand(gangs, {gang.uid: Wait(reason, names=names) for gang in gangs}))


@pytest.mark.parametrize("reason", Reason)
def test_only_capacity_is_demanded(reason: Reason) -> None:
    """Quota, missing members, and what somebody has to decide or to mend are no reasons to buy nodes."""
    assert bool(demand(waiting(), reason=reason)) == (reason in CAPACITY_BOUND)
    assert QUOTA_BOUND.isdisjoint(CAPACITY_BOUND)


def test_the_minimum_is_lacking_and_nothing_beyond() -> None:
    """Extras are no reason to buy nodes, and members that have a node need none."""
    gang = waiting(members=6, min_member=4)
    (row,) = demand(gang)
    assert (row.pods, row.pod_sets) == (4, (WaitingPodSet(4, shape(8)),))
    gang.join(pod("train-0", gpus=8, node_name="node-0"))
    (row,) = demand(gang)
    assert (row.pods, row.requests) == (3, {"cpu": 3000, "nvidia.com/gpu": 24})


def test_pods_of_different_shapes_are_different_sets() -> None:
    """The most numerous come first; in sum they are one demand, to be met together."""
    gang = waiting(members=3)
    gang.join(pod("launcher", cpu=500))
    (row,) = demand(gang)
    assert row.pod_sets == (WaitingPodSet(3, shape(8)), WaitingPodSet(1, shape(cpu=500)))
    assert row.requests == {"cpu": 3500, "nvidia.com/gpu": 24}
    assert (row.gang, row.uid, row.since) == (gang.ref, "uid-train", "2026-01-01T00:00:00Z")


def test_the_level_is_said_in_which_the_nodes_have_to_be() -> None:
    """Nodes elsewhere would not help a gang whose members have to be in one domain."""
    (anywhere,) = demand(waiting())
    (together,) = demand(waiting(), reason=Reason.DOMAIN_FULL, level="rack")
    assert (anywhere.level, together.level, together.reason) == ("", "rack", Reason.DOMAIN_FULL)


def test_who_does_not_wait_lacks_nothing() -> None:
    """Gangs that run, that nobody has judged, or that have no member left to place, are left out."""
    assert list(unmet_demand([waiting()], {})) == []
    placed = waiting(members=2, min_member=2)
    placed.promise(list(placed.members))
    assert demand(placed) == []


@pytest.mark.parametrize(("quota", "opened", "pods"), [(8, 0, 0), (16, 2, 2)])
def test_gangs_without_quota_never_ask_for_nodes(quota: int, opened: int, pods: int) -> None:
    """Members of a gang over quota keep their gates, so that no autoscaler sees them; with quota they ask for nodes."""
    world = World()
    world.nodes(1)
    flavor = Flavor("any", {"nvidia.com/gpu": Quota(nominal=quota)})
    world.tell(QueueSeen(Queue("team", uid="q", flavors=(flavor,))))
    job = world.gang("a", 2, gated=True, gates=(ADMISSION_GATE,), options=Options(queue="team"))
    gates = world.effects().ungates
    assert len(gates) == opened
    for index in range(opened):
        job.see(index, gated=False, gates=())
    world.judge()
    assert sum(row.pods for row in unmet_demand(world.state.gangs(), world.state.waits())) == pods
    assert job.reason is (Reason.EXCEEDS_CLUSTER if opened else Reason.EXCEEDS_QUOTA)


def podset(of: Shape) -> dict[str, object]:
    """Return the one pod set of a gang of one pod of a shape, as JSON."""
    ref = GroupRef(LABEL, "default", "train")
    row = demand_row(UnmetDemand(ref, "uid", Reason.EXCEEDS_CLUSTER, "", "", (WaitingPodSet(1, of),)))
    (found,) = as_sent(row)["podSets"]
    return dict(found)


def test_constraints_are_in_the_words_of_a_pods_spec() -> None:
    """Selector, affinity and tolerations are such that a node group can be tried for them."""
    term = SelectorTerm(
        labels=(Requirement("zone", "In", ("a", "b")),), fields=(Requirement("metadata.name", "In", ("n",)),)
    )
    constrained = shape(
        selector=Selector(equals=(("pool", "gpu"),), terms=(term,)),
        tolerations=(Toleration("spot", "Exists", "", "NoSchedule"), Toleration("", "Exists", "", "")),
    )
    assert podset(constrained) == {
        "count": 1,
        "requests": {"cpu": "1"},
        "nodeSelector": {"pool": "gpu"},
        "nodeSelectorTerms": [
            {
                "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}],
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}],
            }
        ],
        "tolerations": [
            {"key": "spot", "operator": "Exists", "effect": "NoSchedule"},
            {"operator": "Exists"},
        ],
    }
    assert podset(shape())["nodeSelectorTerms"] is None
