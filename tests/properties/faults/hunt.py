"""Looking for stories that break a promise, and telling the smallest one that does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.properties.faults.play import Played, play
from tests.properties.faults.shrink import shrink
from tests.properties.faults.story import Story, write_story

#: Steps of one story. Longer ones spend less on starting and ending; shorter ones are sooner told.
STEPS = 250
#: Attempts at making a failing story smaller: half a minute.
_SHRINKING_PLAYS = 120


@dataclass(slots=True)
class Tally:
    """What was played: stories, steps by action, pods that came onto nodes or were evicted, and devices allocated."""

    stories: int = 0
    actions: Counter[str] = field(default_factory=Counter)
    bindings: int = 0
    evictions: int = 0
    allocations: int = 0

    @property
    def steps(self) -> int:
        """Count the steps."""
        return self.actions.total()

    def add(self, played: Played) -> None:
        """Count one story."""
        self.stories += 1
        self.actions += played.actions
        self.bindings += played.bindings
        self.evictions += played.evictions
        self.allocations += played.allocations


def stories(seed: str, steps: int) -> Iterator[Story]:
    """Iterate over the stories of a seed, until they have so many steps together."""
    for number in range(-(-steps // STEPS)):
        yield write_story(f"{seed}/{number}", STEPS)


def complaint(story: Story, played: Played) -> str:
    """Return, for people, what is wrong with a story that fails: the smallest like it, and what the judge says."""
    wrong = _first_wrong(played)
    smallest = shrink(story, lambda shorter: wrong in _wrongs(play(shorter)), plays=_SHRINKING_PLAYS)
    again = play(smallest)
    lines = [
        (
            f"seed {story.seed!r}: {', '.join(_wrongs(played))} broken in {len(story.steps)} steps; for {wrong} "
            f"these {len(smallest.steps)} are enough, on {story.nodes} nodes{' with devices' * story.claims}"
            f"{', two replicas' * (story.replicas > 1)}, "
            f"{story.pace}:"
        ),
        *(f"    {step}," for step in smallest.steps),
        *again.crashes,
        *(str(violation) for violation in again.violations),
        f'Play it with: play(write_story("{story.seed}", {len(story.steps)}).with_steps((...)))',
    ]
    return "\n".join(lines)


def _wrongs(played: Played) -> list[str]:
    """Return the promises that were broken, in the order of time; an error that nobody expected is the last of them."""
    return [*dict.fromkeys(violation.promise for violation in played.violations), *["no crash"][: len(played.crashes)]]


def _first_wrong(played: Played) -> str:
    return _wrongs(played)[0]
