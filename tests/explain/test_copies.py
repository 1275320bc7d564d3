"""What questions share: copies of the nodes and of the line, until what is copied moves."""

from __future__ import annotations

from msgspec import json

from extender.admission.events import NodeSeen, QueueSeen
from extender.explain.explanation import Inspection, explain_further, explanation
from extender.objects.keys import Options
from extender.objects.node import Node
from extender.objects.queue import Flavor, Queue, Quota
from extender.objects.reason import Reason
from tests.explain.conftest import asking, racked, take
from tests.worlds import GPU, Job


def told(inspection: Inspection, job: Job) -> bytes:
    """Return the explanation of a gang without suggestions, as it is answered."""
    facts = inspection.complete(explain_further(inspection.collect(job.ref, suggesting=False)))
    return json.encode(explanation(facts))


def test_questions_about_one_state_share_its_copies() -> None:
    """Of nodes and line, and of what is counted on them; those that try changes have their own."""
    world = racked(2, 2)
    first, second = world.gang("first", 5), world.gang("second", 5)
    world.judge()
    inspection = Inspection(world.admission, world.clock)
    one, other = (inspection.collect(job.ref, suggesting=False).inquiry for job in (first, second))
    assert one.table is other.table
    assert one.views is other.views
    assert one.line is other.line
    own = inspection.collect(first.ref).inquiry
    assert own.table is not one.table
    assert own.line is not one.line


def test_a_copy_is_shared_no_longer_than_what_it_shows_stands() -> None:
    """A claim, a node or a gang that comes is in the next answer."""
    world = racked(2, 2)
    waiting = asking(world, "waiting", 3, required="rack")
    world.judge()
    inspection = Inspection(world.admission, world.clock)
    before = inspection.collect(waiting.ref, suggesting=False).inquiry
    take(world, "r0-0", 8)
    claimed = inspection.collect(waiting.ref, suggesting=False).inquiry
    assert claimed.table is not before.table
    world.tell(NodeSeen(Node("r1-2", uid="r1-2", allocatable={"cpu": 64_000, "memory": 2**40, "pods": 110, GPU: 8})))
    grown = inspection.collect(waiting.ref, suggesting=False).inquiry
    assert (len(claimed.table), len(grown.table)) == (4, 5)
    world.gang("later", 9)
    world.judge()
    assert len(inspection.collect(waiting.ref, suggesting=False).inquiry.line.entries) == 2
    assert len(grown.line.entries) == 1


def test_what_is_shared_changes_no_answer() -> None:
    """In whatever order gangs are asked about, whatever happens in between: each is told what it is told alone."""
    world = racked(3, 2)
    world.tell(QueueSeen(Queue("team", uid="team", flavors=(Flavor("all", {GPU: Quota(8)}),))))
    jobs = [
        world.gang("placed", 1),
        asking(world, "wide", 3, required="rack"),
        world.gang("large", 9),
        world.gang("absent", 1, min_member=2),
        world.gang("first", 1, options=Options(queue="team")),
        world.gang("quota", 1, options=Options(queue="team")),
    ]
    shared = Inspection(world.admission, world.clock)
    for node in ("r0-0", "r0-1", "r1-0", "r2-1"):
        world.judge()
        for job in (*jobs, *reversed(jobs)):
            assert told(shared, job) == told(Inspection(world.admission, world.clock), job)
        take(world, node, 8)
    assert {job.reason for job in jobs} >= {Reason.AWAITING_MEMBERS, Reason.MEMBERS_MISSING, Reason.QUOTA_EXCEEDED}


def test_who_has_its_nodes_promised_stands_in_no_line() -> None:
    """Though it is asked about while the line is still the one in which it stood."""
    world = racked(1, 2)
    asked, large = world.gang("asked", 1), world.gang("large", 3)
    inspection = Inspection(world.admission, world.clock)
    line = inspection.collect(asked.ref, suggesting=False).inquiry.line
    uids = [each.gang.uid for each in line.entries]
    assert large.gang.uid in uids
    found = line.stand(large.gang.uid, "", frozenset(), 5)
    assert (found.place, found.of, [each.gang.uid for each in found.ahead]) == (len(uids), len(uids), uids[:-1])
    alone = line.stand(large.gang.uid, "", frozenset(uids[:-1]), 5)
    assert (alone.place, alone.of, alone.in_own, alone.of_own, alone.ahead) == (1, 1, 1, 1, [])
    assert line.stand(large.gang.uid, "", frozenset(uids), 5).place is None
