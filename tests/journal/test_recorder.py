"""Everything that could change a decision is noted, with what came of it."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from extender.admission.events import Arrive, Decide, Defragment, Event, Filter, NodeSeen, QueueSeen
from extender.journal.archive import unpack
from extender.journal.entries import read_outcome
from extender.objects.podgroup import GroupRef
from extender.objects.sources.coscheduling import COSCHEDULING
from muster_lab.replay.verdict import judge
from tests.journal.conftest import Story
from tests.journal.test_entries import EVENTS_OF_ALL_KINDS


@pytest.mark.parametrize("event", EVENTS_OF_ALL_KINDS, ids=lambda event: type(event).__name__)
def test_every_event_is_taken_in_noted_and_plays(story: Story, event: Event[Any]) -> None:
    """Whatever happens or is asked, with something in every field: it is in the recording, and plays."""
    with contextlib.suppress(KeyError):  # as for a gang that is not there
        story.recorder.apply(event)
    *_, last = story.snapshot().noted()
    assert last.event == event
    story.recorder.apply(Decide())
    assert judge(unpack(story.snapshot().pack())).same


def test_the_story_is_noted_with_its_answers(story: Story) -> None:
    """In order, each with what it led to: the plan, the answers, the reason of a refusal."""
    noted = list(story.snapshot().noted())
    assert [type(each.event) for each in noted[:5]] == [NodeSeen] * 4 + [QueueSeen]
    outcomes: dict[type, list[Any]] = {}
    for each in noted:
        outcomes.setdefault(type(each.event), []).append(read_outcome(each.came))
    (decided,) = outcomes[Decide]
    assert decided["answer"] is True
    assert [[uid, again] for uid, _, again in decided["nominations"]] == [["5e0f-0", False], ["5e0f-1", False]]
    assert [wait[0] for *_, wait in decided["changed"]] == ["AwaitingMembers"]
    assert [found["answer"][0] for found in outcomes[Filter]] == ["pinned", "pinned", "refused"]
    assert [found["answer"][0] for found in outcomes[Arrive]] == ["hold", "write"]


def test_what_fails_is_noted_as_well(story: Story) -> None:
    """An event that raises is noted like others, and raises again when it is played."""
    nobody = GroupRef(COSCHEDULING, "nobody", "nothing")
    with pytest.raises(KeyError):
        story.recorder.apply(Defragment(nobody))
    snapshot = story.snapshot()
    *_, last = snapshot.noted()
    assert read_outcome(last.came) == {"raised": ["KeyError", repr(nobody)]}
    assert judge(snapshot).same


def test_what_is_read_is_not_noted(story: Story) -> None:
    """A bind call that contradicts itself changes nothing, and neither does asking for a prediction."""
    before = story.snapshot().header.inputs
    verbs = story.recorder.engine.verbs
    assert "is lovelace-team/hopper-1, not a/b" in verbs.mistaken("5e0f-1", "a", "b")
    verbs.annotations("5e0f-1", "node")
    assert story.snapshot().header.inputs == before
    assert judge(story.snapshot()).same
