"""Why a gang is where it is."""

from __future__ import annotations

import pytest

from extender.admission.events import NodeGone
from extender.explain.account import NodeChoice, Reach
from extender.objects.keys import Options
from extender.objects.topology import Objective, TopologyTerms
from tests.explain.conftest import asking, explained, racked, take
from tests.worlds import Job, World


def choice(world: World, job: Job) -> NodeChoice:
    """Return what could have been chosen for a gang that has places."""
    found = explained(world, job).choice
    assert found is not None
    return found


def test_what_else_could_have_been_chosen_is_counted_with_its_own_places_free() -> None:
    """Nodes that take a member, and domains of each level that would hold all."""
    world = racked(3, 2)
    take(world, "r0-0", 8)
    job = asking(world, "train", 2, required="rack")
    found = choice(world, job)
    assert (found.considered, found.nodes, found.members) == (5, 6, 2)
    assert found.reaches == (Reach("block", 1, 1), Reach("rack", 3, 2), Reach("node", 6, 0))
    assert found.lines == (
        "as things stand now, with its own places free: 5 of 6 nodes would take a member",
        "level block: 1 of 1 would hold all members",
        "level rack: 2 of 3 would hold all members",
        "level node: 0 of 6 would hold all members",
        "chosen for the fastest all-reduce, all in one rack, weighed against what others lose by it: 5,330 GB/s",
    )


def test_it_is_the_same_once_it_runs() -> None:
    """A promise and a binding hold the same."""
    world = racked(2, 2)
    job = asking(world, "train", 2, preferred="rack", objective=Objective.ALLTOALL)
    promised = choice(world, job)
    job.run()
    assert choice(world, job) == promised
    assert promised.lines[-1].startswith("chosen for the fastest all-to-all, in one rack if one has room")


def test_one_member_is_all_of_it() -> None:
    """A node would hold it."""
    world = racked(1, 2)
    options = Options(topology=TopologyTerms(objective=Objective.NONE))
    found = choice(world, world.gang("train", 1, 4, group={"options": options}))
    assert found.lines[3] == "level node: 2 of 2 would hold it"
    assert found.lines[-1].startswith("chosen for the least loss for others, whatever its own bandwidth")


def test_without_places_nothing_was_chosen(world: World) -> None:
    """Nor where its nodes are gone."""
    job = world.gang("train", 1)
    assert explained(world, job).choice is None
    world.nodes(1)
    world.judge()
    job.run()
    world.tell(NodeGone("node-0"))
    assert explained(world, job).choice is None


@pytest.mark.parametrize(
    ("goal", "shares", "said"),
    [
        ("bandwidth", [6, 6], "chosen for the fastest all-reduce, then for what others lose least by: 4,600 GB/s"),
        ("balanced", [8, 4], "chosen for the fastest all-reduce, weighed against what others lose by it: 3,760 GB/s"),
        ("capacity", [8, 4], "chosen for what others lose least by: 3,760 GB/s, then for the fastest all-reduce"),
    ],
)
def test_the_goal_decides_what_is_broken_up(goal: str, shares: list[int], said: str) -> None:
    """Twelve pods of one GPU: 6 + 6 are faster, 8 + 4 leave a node whole; it is said what was weighed."""
    world = racked(1, 3, placement_goal=goal)
    take(world, "r0-2", 4)
    job = asking(world, "train", 12, gpus=1)
    placement = explained(world, job).placement
    assert placement is not None
    assert sorted(placement.gpus_per_node.values(), reverse=True) == shares
    assert choice(world, job).lines[-1] == said
