"""Jobs that name a queue: how many pods they make when they are resumed, and which those are."""

from __future__ import annotations

from typing import Any

import pytest

from extender.control.watched import WATCHED, Known
from extender.objects.jobs import decode_job, read_job
from extender.objects.workload import Suspendable, read_place, write_place
from tests.builders import written

TEMPLATE = {"spec": {"schedulerName": "muster", "containers": [{"name": "main"}]}}


def job(metadata: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a suspended Job with three pods."""
    meta = {"namespace": "ns", "name": "train", "uid": "job", "resourceVersion": "7"} | (metadata or {})
    body = {"suspend": True, "parallelism": 3, "completions": 3, "completionMode": "Indexed", "template": TEMPLATE}
    return {"metadata": meta, "spec": body | spec, "status": status or {}}


def read(**changes: Any) -> Suspendable:
    """Read a Job."""
    return read_job(decode_job(written(job(**changes))))


def numbers(of: Suspendable) -> tuple[int, ...]:
    """Return the pods that it makes."""
    (pods,) = of.pods
    return pods.numbers


@pytest.mark.parametrize(
    ("spec", "status", "made"),
    [
        ({}, {}, (0, 1, 2)),
        ({"completions": 9}, {}, (0, 1, 2)),
        ({"completions": 2}, {}, (0, 1)),
        ({"completions": None, "completionMode": "NonIndexed"}, {}, (0, 1, 2)),
        ({"parallelism": None, "completions": None}, {}, (0,)),
        ({}, {"succeeded": 1, "completedIndexes": "1"}, (0, 2)),
        ({"completions": 9}, {"succeeded": 5, "completedIndexes": "0-2,4,7"}, (3, 5, 6)),
        ({"completionMode": "NonIndexed"}, {"succeeded": 2}, (0,)),
        ({}, {"completedIndexes": "x,-1,0-99999999999,"}, ()),
        ({"parallelism": 0}, {}, ()),
    ],
)
def test_the_pods_that_it_makes(spec: dict[str, Any], status: dict[str, Any], made: tuple[int, ...]) -> None:
    """As many as run at a time, of those that have not succeeded."""
    found = read(status=status, **spec)
    assert (numbers(found), found.left) == (made, len(made))


def test_what_its_gang_is() -> None:
    """Labels and annotations of the Job speak for it, but for what Muster has written."""
    meta = {
        "labels": {"muster.dev/queue": "team"},
        "annotations": {"muster.dev/min-member": "2", "muster.dev/place": "node*3"},
    }
    group = read(metadata=meta).group
    assert (group.options.queue, group.min_member, group.options.problems) == ("team", 2, ())
    assert (str(group.about), str(group.ref), group.uid) == ("Job ns/train", "ns/train", "job")


@pytest.mark.parametrize("field", ["parallelism", "completions"])
def test_a_negative_number_is_a_problem(field: str) -> None:
    """The gang waits with that."""
    found = read(**{field: -1})
    assert str(found.group.problem) == f"spec.{field}: -1 is negative"


def test_more_pods_than_any_gang_has_are_a_problem() -> None:
    """They are not made."""
    found = read(parallelism=2**31 - 1, completions=2**31 - 1)
    assert found.group.problem is not None
    assert found.pods == ()


def test_a_job_without_template_is_a_problem() -> None:
    """Nothing can be said of its pods."""
    assert str(read(template=None).group.problem) == "spec.template.spec: is missing"


@pytest.mark.parametrize("kind", ["Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"])
def test_one_that_has_ended(kind: str) -> None:
    """It makes no pods, and its gang has finished."""
    found = read(status={"conditions": [{"type": kind, "status": "True"}]})
    assert (found.ended, found.group.told_finished, numbers(found)) == (True, True, ())


def test_one_that_is_deleted_has_ended() -> None:
    """Its pods are deleted with it."""
    assert read(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}).ended


def test_a_place_counts_while_it_starts() -> None:
    """A Job that is suspended has none, whatever its annotation says."""
    meta = {"annotations": {"muster.dev/place": "node*3"}}
    assert read(metadata=meta).place == ""
    assert read(metadata=meta, suspend=False).place == "node*3"


@pytest.mark.parametrize(("kind", "told"), [("JobSet", "WorkloadGone"), ("CronJob", "WorkloadSeen")])
def test_a_job_that_another_object_suspends_is_left_to_it(kind: str, told: str) -> None:
    """A CronJob makes Jobs and leaves them alone then."""
    row = next(row for row in WATCHED if row.name == "jobs.batch")
    owner = {"apiVersion": "x/v1", "kind": kind, "name": "owner", "uid": "owner", "controller": True}
    item = row.decode(written(job(metadata={"ownerReferences": [owner]})))
    assert [type(each).__name__ for each in row.seen(item, Known())] == [told]


def test_places_are_written_and_read() -> None:
    """In runs of one node; pods without one have none."""
    uids = read().uids
    nodes = {uids[0]: "a", uids[1]: "a"}
    assert write_place(uids, nodes) == "a*2,-*1"
    assert read_place("a*2,-*1", uids) == nodes


@pytest.mark.parametrize("text", ["", "-", "a*2", "a*4", "a*x", "a*99999999", "*3", ",", "a*-3", "a*²"])
def test_a_place_of_other_pods_is_none(text: str) -> None:
    """It was written for another number of pods, or by others."""
    assert read_place(text, read().uids) in ({}, dict.fromkeys(read().uids, ""))
