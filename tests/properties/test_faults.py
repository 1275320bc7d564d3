"""P1 to P7 and quota under random faults, with all but sockets and time as it is; judged by what the API server saw."""

from __future__ import annotations

import logging
import os

import pytest
import structlog

from tests.properties.faults.actions import ACTIONS
from tests.properties.faults.hunt import Tally, complaint, stories
from tests.properties.faults.play import play
from tests.properties.faults.shrink import shrink
from tests.properties.faults.story import write_story
from tests.properties.mutations import MUTATIONS, Mutation

SEEDS = 5
#: Steps of one seed; `make nightly` looks twenty times as long.
STEPS = int(os.environ.get("FAULT_STEPS", "2000"))
#: Steps within which a deliberate bug has to be found.
STEPS_TO_FIND_A_BUG = 20_000


@pytest.fixture(autouse=True)
def silence() -> None:
    """Keep what Muster logs about a hundred thousand faults to itself."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_promises_hold_under_faults(seed: int) -> None:
    """Whatever is delayed, lost, repeated, refused, killed or paused: no promise is broken, and in the end all run."""
    tally = Tally()
    for story in stories(str(seed), STEPS):
        played = play(story)
        tally.add(played)
        if played.crashes or played.violations:
            pytest.fail(complaint(story, played))
    assert tally.steps >= STEPS
    assert tally.bindings > tally.steps / 20  # faults that stop all work would prove nothing
    assert tally.evictions > tally.steps / 1000
    assert tally.allocations > 0
    assert set(tally.actions) == set(ACTIONS)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=str)
def test_a_deliberate_bug_is_found(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug for each promise, put in on purpose, is found in bounded time, as a breach of that very promise."""
    mutation.put_in(monkeypatch)
    found = any(
        violation.promise == mutation.promise and mutation.says in violation.text
        for story in stories(mutation.seed, STEPS_TO_FIND_A_BUG)
        for violation in play(story).violations
    )
    assert found, f"{mutation.bug}: no breach of {mutation.promise}"


def test_equal_stories_have_equal_histories() -> None:
    """A seed says everything: the same story, played again, is the same history to the last write."""
    once, again = (play(write_story("twice", 150)) for _ in range(2))
    assert once.history == again.history
    assert once.history != play(write_story("another", 150)).history


def test_a_failing_story_shrinks_to_what_makes_it_fail() -> None:
    """Shrinking keeps the steps without which the failure is gone, and no others."""
    story = write_story("long", 120)
    needed = {story.steps[17], story.steps[80]}
    smallest = shrink(story, lambda shorter: needed <= set(shorter.steps), plays=200)
    assert smallest.steps == (story.steps[17], story.steps[80])
    assert smallest.pace == story.pace


def test_shrinking_stops_when_its_plays_are_used_up() -> None:
    """A bound on attempts is kept, and what was found until then is returned."""
    asked = []

    def fails(_: object) -> bool:
        asked.append(1)
        return len(asked) < 3

    story = write_story("long", 64)
    assert len(shrink(story, fails, plays=5).steps) < 64
    assert len(asked) == 5


def test_a_complaint_tells_the_smallest_story_and_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failing run names the seed, the promise, a few steps that are enough, and the changes that show it."""
    (bug,) = (mutation for mutation in MUTATIONS if mutation.promise == "P1")
    bug.put_in(monkeypatch)
    story, played = next(
        (story, played) for story in stories("bug", STEPS_TO_FIND_A_BUG) if (played := play(story)).violations
    )
    text = complaint(story, played)
    assert repr(story.seed) in text
    assert f"{played.violations[0].promise} at" in text
    assert "MODIFIED Pod" in text
    assert text.count("    Step(") < len(story.steps) / 4
