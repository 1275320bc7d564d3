"""Why a gang is where it is."""

from __future__ import annotations

import pytest

from extender.admission.events import NodeGone, PodGone, PodSeen
from extender.explain.account import NodeChoice, Reach
from extender.explain.explanation import Inspection, explanation
from extender.objects.keys import Options
from extender.objects.topology import Objective, PassedPlace, PlaceCost, Slice, TopologyTerms
from tests.builders import as_sent
from tests.explain.conftest import asking, explained, racked, take
from tests.explain.hypothetical import asked, objects
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
        "weighed when it was chosen: communication costs 3.2 GPUs of work, and later gangs lose 16, which count as 11",
    )


def test_it_is_the_same_once_it_runs() -> None:
    """A promise and a binding hold the same."""
    world = racked(2, 2)
    job = asking(world, "train", 2, preferred="rack", objective=Objective.ALLTOALL)
    promised = choice(world, job)
    job.run()
    assert choice(world, job) == promised
    assert promised.lines[-2].startswith("chosen for the fastest all-to-all, in one rack if one has room")


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


#: What is said of the two places of twelve pods of one GPU, by what counts of what is broken up.
WEIGHED = "weighed when it was chosen: communication costs {} GPUs of work, and later gangs lose {}, which count as {}"
PASSED = "passed by: {} GPUs within one rack, {} 0.73 GPUs of work, {} later gangs 2.5, which count as {}"


@pytest.mark.parametrize(
    ("goal", "shares", "said"),
    [
        (
            "bandwidth",
            [6, 6],
            (
                "chosen for the fastest all-reduce, then for what others lose least by: 4,600 GB/s",
                WEIGHED.format("2.7", 14, 0),
                PASSED.format("8 + 4", "22 % slower: costs", "saves", 0),
            ),
        ),
        (
            "balanced",
            [8, 4],
            (
                "chosen for the fastest all-reduce, weighed against what others lose by it: 3,760 GB/s",
                WEIGHED.format("3.4", 11, "7.9"),
                PASSED.format("6 + 6", "28 % faster: gains", "costs", "1.8"),
            ),
        ),
        (
            "capacity",
            [8, 4],
            (
                "chosen for what others lose least by: 3,760 GB/s, then for the fastest all-reduce",
                WEIGHED.format("3.4", 11, 11),
                PASSED.format("6 + 6", "28 % faster: gains", "costs", "2.5"),
            ),
        ),
    ],
)
def test_the_goal_decides_what_is_broken_up(goal: str, shares: list[int], said: tuple[str, ...]) -> None:
    """Twelve pods of one GPU: 6 + 6 are faster, 8 + 4 leave a node whole; it is said what was weighed and passed by."""
    world = racked(1, 3, placement_goal=goal)
    take(world, "r0-2", 4)
    job = asking(world, "train", 12, gpus=1)
    placement = explained(world, job).placement
    assert placement is not None
    assert sorted(placement.gpus_per_node.values(), reverse=True) == shares
    assert choice(world, job).lines[-3:] == said


def test_what_was_passed_by_may_be_in_another_domain() -> None:
    """Of racks that hold the gang the one is chosen that leaves most whole; a faster one is told all the same."""
    world = racked(2, 2)
    take(world, "r0-1", 4)
    job = asking(world, "train", 12, gpus=1, required="rack")
    weighed = choice(world, job).weighed
    assert set(job.reserved.values()) == {"r0-0", "r0-1"}
    assert weighed is not None
    assert weighed.passed == PassedPlace(PlaceCost(2.66, 13.809, 9.665), 1.276, "rack", (6, 6), exact=True)


def test_what_was_only_ruled_out_is_told_as_a_bound() -> None:
    """A place that costs too much at best is not looked at; what is said is what it would save at most."""
    world = racked(1, 5)
    job = asking(world, "train", 20, gpus=1)
    found = choice(world, job)
    assert found.weighed is not None
    assert found.weighed.passed is not None
    assert not found.weighed.passed.exact
    assert "saves later gangs at most 1.8" in found.lines[-1]


def test_it_is_told_for_which_gpus_there_was_a_choice() -> None:
    """What is left of the last slice is placed by itself; the whole slice is what was weighed."""
    world = racked(2, 3)
    take(world, "r0-2", 4)
    job = asking(world, "train", 14, gpus=1, slices=(Slice(12, "rack"),))
    assert choice(world, job).lines[-2].startswith("weighed for 12 of 14 GPUs when it was chosen: ")
    assert choice(world, job).lines[-1].startswith("passed by: 6 + 6 GPUs within one rack, 28 % faster: ")


def test_what_is_not_submitted_is_told_the_same() -> None:
    """By the same comparison, on the copy."""
    world = racked(1, 3)
    take(world, "r0-2", 4)
    found = asked(world, objects(12, 1)).facts.account.choice
    assert found is not None
    assert found.lines[-1].startswith("passed by: 6 + 6 GPUs within one rack, 28 % faster: ")


def test_what_is_not_known_is_not_told() -> None:
    """Not after a restart, nor on GPUs of which nothing is predicted."""
    world = racked(1, 3)
    job = asking(world, "train", 12, gpus=1)
    assert choice(world, job).weighed is not None
    job.run()
    assert choice(world, job).weighed is not None
    restarted = racked(1, 3)
    again = Job(restarted, job.ref, job.pods)
    for pod in again.pods:
        restarted.tell(PodSeen(pod))
    assert choice(restarted, again).weighed is None
    plain = World()
    plain.nodes(2, 8)
    assert choice(plain, plain.gang("train", 12, 1)).weighed is None


def test_a_replacement_leaves_what_was_weighed_for_the_gang() -> None:
    """One member is placed where the others leave room: the gang was not weighed again."""
    world = racked(1, 3)
    job = asking(world, "train", 12, gpus=1)
    before = choice(world, job).weighed
    job.run()
    world.tell(PodGone(job.pods[0].uid))
    job.pods[0] = world.pod("train-new", 1, group=job.ref)
    world.tell(PodSeen(job.pods[0]))
    world.judge()
    assert job.reserved
    assert choice(world, job).weighed == before


def test_programs_read_it_too() -> None:
    """The JSON has what was weighed in numbers, for a gang that is not submitted as well."""
    world = racked(1, 3)
    take(world, "r0-2", 4)
    inspection = Inspection(world.admission, world.clock)
    job = asking(world, "train", 12, gpus=1)
    found = as_sent(explanation(inspection.explain(job.ref)))["choice"]["weighed"]
    assert found == {
        "gpus": 12,
        "cost": {"work": 3.395, "lost": 11.287, "counted": 7.9},
        "passed": {
            "cost": {"work": 2.66, "lost": 13.809, "counted": 9.665},
            "speed": 1.276,
            "level": "rack",
            "gpus": [6, 6],
            "exact": True,
        },
    }
