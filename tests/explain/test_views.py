"""How gangs stand."""

from __future__ import annotations

import pytest

from extender.cluster.membership import Census
from extender.explain.documents import GangPhase
from extender.explain.views import GangView, group_status, phase_of
from extender.objects.podgroup import GroupRef
from extender.objects.sources.coscheduling import COSCHEDULING


@pytest.mark.parametrize(
    ("census", "reserved", "phase"),
    [
        (Census(), 0, GangPhase.PENDING),
        (Census(placeable=2), 0, GangPhase.PENDING),
        (Census(placeable=2), 2, GangPhase.SCHEDULING),
        (Census(placeable=1, bound=1), 0, GangPhase.SCHEDULING),
        (Census(bound=2), 0, GangPhase.SCHEDULING),
        (Census(bound=2, running=2), 0, GangPhase.RUNNING),
        (Census(bound=1, running=1, succeeded=1), 0, GangPhase.RUNNING),
        (Census(succeeded=2), 0, GangPhase.FINISHED),
        (Census(bound=1, running=1, failed=1), 0, GangPhase.FAILED),
        (Census(placeable=1, failed=1), 0, GangPhase.PENDING),
    ],
)
def test_phase_follows_from_the_counts(census: Census, reserved: int, phase: GangPhase) -> None:
    """The phases mean what they mean in the coscheduling API."""
    assert phase_of(census, 2, reserved) is phase


def test_a_gang_that_neither_started_nor_waits_says_so() -> None:
    """The condition always has a reason."""
    ref = GroupRef(COSCHEDULING, "ns", "a")
    seen = GangView(ref, "uid", GangPhase.PENDING, 2, Census(placeable=2), 0, None, managed=True)
    status = group_status(seen, 3)
    assert (status.condition_status, status.reason, status.observed_generation) == ("False", "NothingToPlace", 3)
