"""Everything that could change a decision is noted, with what came of it."""

from __future__ import annotations

import contextlib
import inspect

import pytest

from extender.domain.membership import GroupApi, GroupRef
from extender.recording.archive import unpack
from extender.recording.entries import read_outcome
from extender.recording.inputs import INPUTS
from extender.recording.recorder import Recorder
from extender.recording.verdict import judge
from tests.recording.conftest import GANG, Story
from tests.recording.test_entries import ARGUMENTS

#: Inputs whose last argument is a keyword.
KEYWORDS = {"defragment": "apply", "binding_failed": "final"}


def names(story: Story) -> list[str]:
    """Return the names of what was noted."""
    return [noted.what.name for noted in story.snapshot().noted()]


def test_every_input_has_a_method() -> None:
    """A recorder offers each input under its name; those by which people only look come by themselves."""
    methods = {name for name, _ in inspect.getmembers(Recorder, inspect.isfunction)}
    assert {name for name in INPUTS if not name.endswith("_asked")} <= methods


@pytest.mark.parametrize("name", [name for name in ARGUMENTS if not name.endswith("_asked")])
def test_every_input_is_done_noted_and_plays(story: Story, name: str) -> None:
    """Whatever is told or asked, with values that have something in every field: it is in the recording, and plays."""
    values = list(ARGUMENTS[name])
    last = {KEYWORDS[name]: values.pop()} if name in KEYWORDS else {}
    with contextlib.suppress(KeyError):  # as for a gang that is not there
        getattr(story.recorder, name)(*values, **last)
    assert names(story)[-1] == name
    story.recorder.decide()
    story.recorder.take_effects()
    assert judge(unpack(story.snapshot().pack())).same


def test_the_story_is_noted_with_its_answers(story: Story) -> None:
    """In order, each with what it led to: the plan, the answers, the reason of a refusal."""
    noted = list(story.snapshot().noted())
    assert [each.what.name for each in noted[:5]] == ["node_seen"] * 4 + ["queue_seen"]
    (decided,) = (read_outcome(each.came) for each in noted if each.what.name == "decide")
    assert decided == {"pass": 1, "waiting": 1, "reserved": 1}
    answers = [read_outcome(each.came) for each in noted if each.what.name == "filter"]
    assert [answer[0] for answer in answers] == ["pinned", "pinned", "refused"]  # type: ignore[index]  # plain values
    arrivals = [read_outcome(each.came) for each in noted if each.what.name == "arrive"]
    assert [arrival[0] for arrival in arrivals] == ["hold", "write"]  # type: ignore[index]  # plain values


def test_what_fails_is_noted_as_well(story: Story) -> None:
    """A call that raises is an input like others, and raises again when it is played."""
    nobody = GroupRef(GroupApi.COSCHEDULING, "nobody", "nothing")
    with pytest.raises(KeyError):
        story.recorder.defragment(nobody, apply=False)
    snapshot = story.snapshot()
    *_, last = snapshot.noted()
    assert read_outcome(last.came) == {"raised": ["KeyError", repr(nobody)]}
    assert judge(snapshot).same


def test_whoever_looks_is_noted_where_it_counts(story: Story) -> None:
    """Who holds which GPUs, and what is charged to whom, is worked out when somebody asks: in that order it counts."""
    assert story.recorder.defragment(GANG, apply=False).fits
    before = names(story)
    recorder = story.recorder
    recorder.pod_gone("5e0f-0")
    recorder.admission.model.table.occupancy.held("5e0f-1")
    recorder.admission.sharing.charges.refresh()
    recorder.admission.sharing.charges.refresh()  # nothing is new
    assert names(story)[len(before) :] == ["pod_gone", "occupancy_asked", "charges_asked"]
    assert judge(story.snapshot()).same


def test_questions_without_effect_are_not_noted(story: Story) -> None:
    """A bind call that contradicts itself changes nothing, and neither does asking for a prediction."""
    before = names(story)
    assert "is lovelace-team/hopper-1, not a/b" in story.recorder.mistaken("5e0f-1", "a", "b")
    story.recorder.prediction("5e0f-1")
    assert names(story) == before
