"""Making a story that fails smaller: the fewest steps with which it still does."""

from __future__ import annotations

from collections.abc import Callable

from tests.properties.faults.story import Step, Story


def shrink(story: Story, fails: Callable[[Story], bool], *, plays: int) -> Story:
    """Return `story` with as few steps as `plays` attempts can find that still make it fail.

    Source: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (ddmin): leave out ever smaller
    parts. What follows the failure goes first, by halves.
    """
    budget = _Budget(plays)

    def still(steps: tuple[Step, ...]) -> bool:
        return budget.spend() and fails(story.with_steps(steps))

    steps = _without_end(story.steps, still)
    size = max(len(steps) // 2, 1)
    while not budget.spent:
        before = len(steps)
        start = 0
        while start < len(steps) and not budget.spent:
            rest = steps[:start] + steps[start + size :]
            if still(rest):
                steps = rest
            else:
                start += size
        if size == 1 and len(steps) == before:
            break
        size = max(size // 2, 1)
    return story.with_steps(steps)


class _Budget:
    """Attempts that are left."""

    def __init__(self, plays: int) -> None:
        self._left = plays

    @property
    def spent(self) -> bool:
        """Tell whether no attempt is left."""
        return self._left <= 0

    def spend(self) -> bool:
        """Use up one attempt; return whether there was one."""
        self._left -= 1
        return self._left >= 0


def _without_end(steps: tuple[Step, ...], still: Callable[[tuple[Step, ...]], bool]) -> tuple[Step, ...]:
    """Return the shortest beginning that still fails, as far as halving finds it."""
    least, most = 0, len(steps)
    while least < most:
        middle = (least + most) // 2
        if still(steps[:middle]):
            most = middle
        else:
            least = middle + 1
    return steps[:most]
