"""Parts of GPUs that others account for: never impossible for that, and counted where their capacity is known."""

from __future__ import annotations

from dataclasses import replace

from extender.admission.events import NodeGone, NodeSeen, PodSeen
from extender.objects.pod import Shape
from extender.objects.reason import Reason
from tests.builders import GPU, pod
from tests.worlds import World

MEMORY = "nvidia.com/gpumem"
FOREIGN = "example.com/slots"


def part(**requests: int) -> Shape:
    """Return a shape of one GPU and a part of its memory (MiB), or of something else."""
    asked = {"cpu": 1000, "pods": 1, GPU: 1, MEMORY: requests.get("memory", 0), FOREIGN: requests.get("slots", 0)}
    return Shape(tuple(sorted((name, value) for name, value in asked.items() if value)))


def register(world: World, name: str, memory: int) -> None:
    """Say how much GPU memory (MiB) a node shares out."""
    before = world.state.node(name)
    world.tell(NodeSeen(replace(before, allocatable={**before.allocatable, MEMORY: memory})))


def test_what_another_extender_accounts_for_is_left_to_it(world: World) -> None:
    """No node lists the memory: the gang is placed by all else that it asks for."""
    world.nodes(2, gpus=1)
    assert world.gang("gang", 2, shape=part(memory=40_000)).reserved == {"gang-0": "node-0", "gang-1": "node-1"}


def test_all_else_counts_as_ever(world: World) -> None:
    """Two GPUs do not hold three members, whatever the memory."""
    world.nodes(2, gpus=1)
    assert world.gang("gang", 3, shape=part(memory=40_000)).reason is Reason.EXCEEDS_CLUSTER


def test_unknown_resource_that_is_not_listed_is_on_no_node(world: World) -> None:
    """A name that nobody has said anything of is a typing error: no node has it."""
    world.nodes(2)
    assert world.gang("gang", 2, shape=part(slots=1)).reason is Reason.EXCEEDS_CLUSTER


def test_further_resources_are_named_by_a_setting() -> None:
    """`ignored_resources` adds to those that are known."""
    world = World(ignored_resources=[FOREIGN])
    world.nodes(2)
    assert len(world.gang("gang", 2, shape=part(slots=1)).reserved) == 2
    assert len(world.gang("other", 2, shape=part(memory=1)).reserved) == 2


def test_capacity_counts_once_a_node_says_what_it_has(world: World) -> None:
    """With a register on one node the gang goes there, and what it has no room for waits or is impossible."""
    world.nodes(3)
    register(world, "node-1", 80_000)
    first = world.gang("first", 2, shape=part(memory=30_000))
    assert set(first.reserved.values()) == {"node-1"}
    first.run()
    second = world.gang("second", 1, shape=part(memory=30_000))
    assert second.reason is Reason.INSUFFICIENT_CAPACITY
    assert world.gang("third", 3, shape=part(memory=30_000)).reason is Reason.EXCEEDS_CLUSTER
    first.finish()
    world.judge()
    assert second.reserved == {"second-0": "node-1"}


def test_claims_count_against_what_is_registered_later(world: World) -> None:
    """What pods of others hold of a resource is known when a node first says how much it has."""
    world.nodes(1)
    theirs = replace(pod("theirs", node="node-0"), shape=part(memory=60_000), scheduler_name="hami-scheduler")
    world.tell(PodSeen(theirs))
    assert world.gang("before", 1, shape=part(memory=30_000)).reserved
    register(world, "node-0", 80_000)
    assert world.gang("after", 1, shape=part(memory=30_000)).reason is Reason.INSUFFICIENT_CAPACITY


def test_it_is_left_to_others_again_when_the_last_node_is_gone(world: World) -> None:
    """Nothing says how much there is any more, so nothing is impossible."""
    world.nodes(2)
    register(world, "node-1", 10_000)
    gang = world.gang("gang", 1, shape=part(memory=30_000))
    assert gang.reason is Reason.EXCEEDS_CLUSTER
    world.tell(NodeGone("node-1"))
    world.judge()
    assert gang.reserved == {"gang-0": "node-0"}


def test_holders_keep_their_places_where_nobody_lists_it(world: World) -> None:
    """A node that is touched while members are reserved there is not short of what others account for."""
    world.nodes(1)
    gang = world.gang("gang", 1, shape=part(memory=30_000))
    before = world.state.node("node-0")
    world.tell(NodeSeen(replace(before, labels={"new": "yes"})))
    world.judge()
    assert gang.reserved == {"gang-0": "node-0"}


def test_node_behind_which_another_extender_refuses_is_left_out(world: World) -> None:
    """A member that comes back from its planned node again and again, refused by others, is placed elsewhere."""
    world.nodes(2, gpus=1)
    gang = world.gang("gang", 1, shape=part(memory=1))
    assert gang.reserved == {"gang-0": "node-0"}
    says = "0/2 nodes are available: 1 CardInsufficientMemory. preemption: none"
    answers = [world.filter(gang.see(0, nominated_node="node-0"), ["node-0", "node-1"]).accepted]
    for _ in range(2):
        member = gang.see(0, refusal=says)
        answers.append(world.filter(member, ["node-0", "node-1"]).accepted)
    assert answers == [["node-0"], ["node-0"], ["node-1"]]
    assert gang.reserved == {"gang-0": "node-1"}


def test_member_that_is_asked_about_again_without_refusal_keeps_its_place(world: World) -> None:
    """kube-scheduler may begin anew, or have trouble of its own: the planned node is not to blame."""
    world.nodes(2, gpus=1)
    gang = world.gang("gang", 2, shape=part(memory=1))
    member = gang.see(0, refusal="")
    assert {tuple(world.filter(member, ["node-0", "node-1"]).accepted) for _ in range(5)} == {("node-0",)}
    gang.bind(0)
    member = gang.see(0, refusal="0/2 nodes are available: 2 other reasons. preemption: none")
    assert world.filter(member, ["node-0", "node-1"]).accepted == ["node-0"]
