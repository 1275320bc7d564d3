"""A gang is made of what an operator makes at once; the rest are extras, or come in steps."""

from __future__ import annotations

import pytest

from extender.objects import keys
from extender.objects.meta import ObjectMeta, ObjectRef
from extender.objects.podgroup import GroupProgress, GroupRef, PodGroup
from extender.objects.podspec import PodTemplate
from extender.objects.reason import Problem
from extender.objects.sources.jobset import JOBSET
from extender.objects.sources.roster import RosterPart, first_negative, gang_of, role_of

REF = GroupRef(JOBSET, "team", "train")


def gang(*parts: RosterPart, least: int | None = None, **annotations: str) -> PodGroup:
    """Return the gang of an object with annotations under `muster.dev/`."""
    own = {f"muster.dev/{key.replace('_', '-')}": text for key, text in annotations.items()}
    meta = ObjectMeta(name="train", namespace="team", uid="u", generation=3, annotations=own)
    return gang_of(REF, ObjectRef.of("jobset.x-k8s.io/v1alpha2", "JobSet", meta), meta, parts, least)


@pytest.mark.parametrize(
    ("parts", "min_member", "minimums", "steps"),
    [
        ([], 1, {}, ()),
        ([RosterPart.of("worker", 4)], 4, {}, ()),
        ([RosterPart.of("driver", 1), RosterPart.of("worker", 4)], 5, {}, ()),
        ([RosterPart.of("worker", 4, 2)], 2, {}, ()),
        ([RosterPart.of("head", 1), RosterPart.of("worker", 4, 2)], 3, {"head": 1, "worker": 2}, ()),
        ([RosterPart.of("head", 1), RosterPart.of("worker", 4, 0)], 1, {"head": 1}, ()),
        (
            [RosterPart.of("driver", 1), RosterPart.of("worker", 4, first=0)],
            1,
            {"driver": 1},
            (GroupProgress("worker", 0, 4),),
        ),
        ([RosterPart.of("worker", 8, first=2)], 2, {"worker": 2}, (GroupProgress("worker", 2, 8),)),
        ([RosterPart.of("worker", 2), RosterPart.of("worker", 3)], 5, {}, ()),
    ],
)
def test_the_minimum_is_what_is_made_at_once_and_needed(
    parts: list[RosterPart], min_member: int, minimums: dict[str, int], steps: tuple[GroupProgress, ...]
) -> None:
    """Extras and later pods do not count for the minimum; beside them each role has a minimum of its own."""
    group = gang(*parts)
    assert (group.min_member, dict(group.role_minimums), group.steps) == (min_member, minimums, steps)


def test_what_the_object_states_counts_before_what_it_consists_of() -> None:
    """A stated minimum is one number, whoever fills it; Muster's own annotation counts before the operator's field."""
    parts = RosterPart.of("driver", 1), RosterPart.of("worker", 4, first=0)
    stated = gang(*parts, least=3)
    assert (stated.min_member, stated.role_minimums, stated.steps) == (3, (), ())
    assert gang(*parts, least=3, min_member="2").min_member == 2
    own = gang(*parts, role_minimums="worker=4")
    assert (own.role_minimums, own.steps, own.options.role_minimums) == ((), (), (("worker", 4),))


def test_the_gang_is_about_the_object() -> None:
    """Name, UID, generation and kind are the object's, and its annotations speak for the gang."""
    group = gang(RosterPart.of("worker", 2), topology_required="rack")
    assert group.about == ObjectRef("jobset.x-k8s.io/v1alpha2", "JobSet", "team", "train", "u")
    assert (group.ref, group.uid, group.generation, group.kind) == (REF, "u", 3, "JobSet")
    assert group.options.topology.required == "rack"
    assert PodGroup(REF, "").kind == "PodGroup"


def test_kueues_queue_on_the_object_is_kueues_affair() -> None:
    """The label by which Kueue manages a whole workload does not name a queue of Muster's; Muster's own key does."""
    labels = {"kueue.x-k8s.io/queue-name": "theirs", keys.QUEUE: "ours"}
    meta = ObjectMeta(name="train", labels=labels)
    options = gang_of(REF, ObjectRef.of("v1", "X", meta), meta, ()).options
    assert (options.queue, options.peer_queue) == ("ours", "")


def test_a_templates_own_role_counts() -> None:
    """The role that people write onto the pods is theirs; otherwise it is the operator's word."""
    named = PodTemplate(ObjectMeta(labels={keys.ROLE: "learner"}))
    assert [role_of(template, "worker") for template in (named, PodTemplate(ObjectMeta()), PodTemplate(), None)] == [
        "learner",
        "worker",
        "worker",
        "worker",
    ]


def test_the_first_negative_count_is_a_problem() -> None:
    """Counts that are missing or zero are not wrong."""
    assert first_negative({"spec.a": 0, "spec.b": None}) is None
    assert first_negative({"spec.a": 1, "spec.b": -2, "spec.c": -3}) == Problem("spec.b", "-2 is negative")
