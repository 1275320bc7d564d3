"""Every number that people are shown is the one that the objects amount to, in random states.

The numbers are recomputed from what the API server has: the objects as they were last told, and the nominations that
Muster wrote. Nothing is asked of Muster's own books. A numeric field that is new fails
`test_every_number_is_recomputed` until it is recomputed here, or stands in `ELSEWHERE` with the test that looks at it.
"""

from __future__ import annotations

import logging
import os
import random
from typing import Final

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import Phase as Stage

from tests.properties.truth.fields import DOCUMENTS, ELSEWHERE, fields_of
from tests.properties.truth.playing import play
from tests.properties.truth.story import KINDS, STEPS, Step

#: Random histories; more of them are for a machine that has the time.
EXAMPLES: Final = int(os.environ.get("TRUTH_EXAMPLES", "5"))
#: Two users ask for 8 GPUs each in Queue green, which may have 14 with what it borrows.
SHORT: Final[list[Step]] = [("gang", 0, 2, 2), ("run", 0, 0, 0), ("gang", 4, 2, 2)]


@pytest.fixture(autouse=True)
def silence() -> None:
    """Keep what Muster logs about all that to itself."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


@pytest.mark.timeout(60 + 30 * EXAMPLES)
@settings(deadline=None, max_examples=EXAMPLES, phases=[Stage.generate], suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_what_is_shown_is_true(steps: list[Step]) -> None:
    """Status, gangs, nodes, capacity, Queues, explanations, PodGroups and metrics, after every step of a history."""
    play(steps)


def test_every_number_is_recomputed() -> None:
    """Each numeric field of each document was compared in a few histories, or is looked at by another test."""
    fields = {field for name, document in DOCUMENTS.items() for field in fields_of(name, document)}
    assert ELSEWHERE.keys() <= fields, "these are no fields any more"
    seen: set[str] = set()
    for seed in range(8):
        drawn = random.Random(seed)
        numbers = drawn.choices(range(30), k=60)
        steps = [(drawn.choice(KINDS), *each) for each in zip(*[iter(numbers)] * 3, strict=True)]
        seen |= play([("node", 1, 0, 1), ("node", 2, 0, 1), *steps])
    seen |= play([("node", 1, 0, 1), ("node", 2, 0, 1), *SHORT])
    assert fields - seen == ELSEWHERE.keys()
