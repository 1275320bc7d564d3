"""A story: the world it plays in and every step of it, written down before it begins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from tests.properties.faults.actions import Theme
from tests.properties.faults.host import Pace
from tests.properties.faults.sharing import ACTIONS

#: How long to let things run after a step (seconds): mostly a moment in the middle of something.
_PAUSES = ((0.42, 0.0, 0.0), (0.28, 0.0, 0.01), (0.18, 0.01, 0.5), (0.09, 0.5, 3.0), (0.03, 3.0, 40.0))

#: The shares of stories in which devices are claimed, and in which there are two replicas.
_CLAIMING, _REPLICATED = 0.4, 0.25


@dataclass(frozen=True, slots=True)
class Step:
    """One action, two numbers that say on what and how, and the seconds that pass afterwards."""

    action: str
    a: int
    b: int
    pause: float

    def __str__(self) -> str:
        """Write it as code."""
        return f'Step("{self.action}", {self.a}, {self.b}, {self.pause:g})'


@dataclass(frozen=True, slots=True)
class Story:
    """All that will happen. What a step is done to follows from its numbers and from what is there then.

    With `claims` nodes have devices of Dynamic Resource Allocation, too, and some gangs claim these. `replicas` is how
    many kube-schedulers there are, each with its Muster.
    """

    seed: str
    nodes: int
    claims: bool
    replicas: int
    pace: Pace
    steps: tuple[Step, ...]

    def with_steps(self, steps: tuple[Step, ...]) -> Story:
        """Return the same world with other steps."""
        return replace(self, steps=steps)


def write_story(seed: str, length: int) -> Story:
    """Make up a story of `length` steps; equal seeds make equal stories."""
    random = Random(seed)
    theme = random.choice(list(Theme))
    weights = [action.weight * _emphasis(theme, action.theme) for action in ACTIONS.values()]
    names = random.choices(list(ACTIONS), weights, k=length)
    steps = tuple(Step(name, random.getrandbits(16), random.getrandbits(16), _pause(random)) for name in names)
    pace = Pace(
        write=random.choice((0.0, 0.002, 0.02, 0.2)),
        muster_watch=random.choice((0.0, 0.001, 0.01, 0.1)),
        scheduler_watch=random.choice((0.0, 0.001, 0.01, 0.1)),
        call=random.choice((0.0, 0.0005, 0.005)),
    )
    # By draws of their own: what else happens is the same in either case.
    claims = Random(f"{seed} claims").random() < _CLAIMING
    replicas = 1 + (Random(f"{seed} replicas").random() < _REPLICATED)
    return Story(seed, random.randint(1, 4), claims, replicas, pace, steps)


def _emphasis(theme: Theme, other: Theme) -> float:
    """Return how much oftener than usual actions of one theme happen in a story about another.

    Where it is about sharing little goes wrong: what is evicted for whom can only be judged where nothing else happens.
    """
    if theme is Theme.SHARING and other not in {Theme.WORK, Theme.SHARING}:
        return 0.1
    return 4.0 if other is theme else 1.0


def _pause(random: Random) -> float:
    ((_, least, most),) = random.choices(_PAUSES, [weight for weight, _, _ in _PAUSES])
    return round(random.uniform(least, most), 6)
