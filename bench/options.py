"""What may be chosen about a measurement, whichever family it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

#: Takes one line about what runs and how long it still takes.
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Options:
    """How much to measure.

    `repeats` is how often each thing is measured, None for what the family takes by default. `cases` names the parts
    of the family to run, all of them if it is empty. `short` chooses sizes that fit into a test. `contenders` names
    those that are compared, all of them if it is empty.
    """

    repeats: int | None = None
    cases: tuple[str, ...] = ()
    short: bool = False
    contenders: tuple[str, ...] = ()
