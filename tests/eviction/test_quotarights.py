"""The right to have others evicted for one's quota: no queue is left with less than its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from extender.eviction.policies import Claimant, Policies, QuotaRights
from extender.eviction.search.units import Victim, VictimEviction
from extender.objects.queue import PreemptionPolicy
from extender.placement.capacityview import amounts_of
from extender.queues.sharing import Option, QuotaCheck
from tests.eviction.test_preemptions import evicted
from tests.queues.test_sharing import gang, queue, tell
from tests.worlds import GPU, Job, World

Rights: TypeAlias = Callable[[int], QuotaRights]


def cohort(world: World, blue: int) -> list[Job]:
    """Return the gangs of blue, one node each, of which it owns two; four nodes are red's."""
    world.nodes(6)
    for name, gpus in (("all", None), ("red", 32), ("blue", 16)):
        parent = "" if name == "all" else "all"
        tell(world, queue(name, gpus, parent=parent, preemption=PreemptionPolicy()))
    jobs = [gang(world, f"blue-{index}", 1, "blue") for index in range(blue)]
    for job in jobs:
        job.run()
    return jobs


def claimant(world: World, nodes: int) -> Claimant:
    """Return a gang of red that asks for so many nodes, and has not been judged."""
    job = gang(world, "red", nodes, "red", gated=True)
    shapes = [(pod.shape, 1) for pod in job.pods]
    return Claimant(job.gang, "red", "all", amounts_of(shapes), kind=None)


def has_quota(world: World, of: Claimant, leaving: list[str]) -> bool:
    """Tell whether there is quota for a gang once some pods have left."""
    quota = QuotaCheck(world.admission.sharing, of.gang.uid, of.queue, of.amounts)
    return quota.offer(Option(of.flavor), leaving).shortage is None


def victims(world: World, of: Claimant) -> list[Victim]:
    """Return everybody that may be evicted for a gang, taken one by one."""
    policies = Policies(world.admission.model, world.admission.sharing)
    return policies.victims(of, lambda holder, *, reclaimed: False, 0.0)[0]  # noqa: ARG005 - the protocol's


@pytest.mark.parametrize(("count", "rightful"), [(1, True), (2, True), (3, False)])
def test_no_more_is_taken_than_was_borrowed(world: World, count: int, *, rightful: bool) -> None:
    """Blue borrows two of its four nodes."""
    cohort(world, 4)
    of = claimant(world, 3)
    rights = QuotaRights(world.admission.sharing, of)
    found = victims(world, of)
    assert len(found) == 4
    assert rights.entitle([VictimEviction(each, each.core) for each in found[:count]]) is rightful
    assert len(rights.rightful(found)) == 2


def test_the_least_important_and_latest_are_offered_first(world: World) -> None:
    """Of those that a queue has to give back it keeps the others."""
    jobs = cohort(world, 4)
    now = world.clock.now().timestamp()
    for index, job in enumerate(jobs):
        job.see(0, started_at=now - 100 * index, priority=int(index == 0))
    of = claimant(world, 2)
    rights = QuotaRights(world.admission.sharing, of)
    policies = Policies(world.admission.model, world.admission.sharing)
    found, _ = policies.victims(of, lambda holder, *, reclaimed: False, now)  # noqa: ARG005 - the protocol's
    assert [victim.name for victim in rights.rightful(found)] == ["default/blue-1", "default/blue-2"]


def test_asking_leaves_the_queues_as_they_are(world: World) -> None:
    """What is looked at as if it were gone is charged again."""
    cohort(world, 4)
    of, sharing = claimant(world, 4), world.admission.sharing
    rights = QuotaRights(sharing, of)
    found = victims(world, of)
    assert not has_quota(world, of, [])
    assert has_quota(world, of, [pod.uid for each in found[:2] for pod in each.core])
    rights.entitle([VictimEviction(each, each.core) for each in found])
    rights.rightful(found)
    assert (world.state.used("blue", "all", GPU), world.state.borrowed("blue", "all", GPU)) == (32, 16)
    assert sharing.shortage("red", Option("all"), of.amounts) is not None


def test_what_leaves_by_itself_counts_as_gone(world: World) -> None:
    """Its quota will be free, and what its queue owes is less by that."""
    jobs = cohort(world, 4)
    of = claimant(world, 3)
    leaving = [job.pods[0].uid for job in jobs[:1]]
    rights = QuotaRights(world.admission.sharing, of, leaving)
    assert has_quota(world, of, leaving)
    found = victims(world, of)
    others = [each for each in found if each.name != "default/blue-0"]
    assert len(rights.rightful(others)) == 1
    assert rights.concern(leaving[0])
    assert not rights.concern("nobody")


def test_nodes_that_others_hold_are_not_made_up_for_by_a_queues_own(world: World) -> None:
    """Two would have to leave for want of nodes, but their queue has borrowed only for one: nobody does."""
    cohort(world, 3)
    gang(world, "red-a", 1, "red").run()
    world.gang("foreign", 1).run()
    world.effects()
    red = gang(world, "red-b", 3, "red")
    assert not red.reserved
    assert not evicted(world)


def test_each_queue_gives_back_what_it_has_borrowed(world: World) -> None:
    """The two that would be cheapest are of one queue that has borrowed for one: the other is of another queue."""
    world.nodes(4)
    for name, gpus in (("all", None), ("red", 16), ("blue", 8), ("green", 8)):
        parent = "" if name == "all" else "all"
        tell(world, queue(name, gpus, parent=parent, preemption=PreemptionPolicy()))
    now = world.clock.now().timestamp()
    for name, seconds in (("blue", 10), ("green", 10_000)):
        for index in range(2):
            job = gang(world, f"{name}-{index}", 1, name)
            job.run()
            job.see(0, started_at=now - seconds - index)
    world.effects()
    gang(world, "red", 2, "red")
    (names,) = evicted(world).values()
    assert sorted(name.split("-")[0] for name in names) == ["blue", "green"]


def test_whoever_would_cost_a_queue_its_own_is_replaced(world: World) -> None:
    """What a first search finds is not taken if a queue were left with less than its own; others are looked for."""
    jobs = cohort(world, 3)
    now = world.clock.now().timestamp()
    for index, job in enumerate(jobs):
        job.see(0, started_at=now - 1000 * index)
    gang(world, "red-a", 1, "red").run()
    world.effects()
    red = gang(world, "red-b", 3, "red")
    assert evicted(world) == {"Reclaimed": {"blue-0-0"}}
    assert red.wait is not None
