"""Decisions beside pods that wait."""

from __future__ import annotations

from bench import crowd
from bench.options import Options
from tests.state import State


def test_every_crowd_is_measured() -> None:
    """Gangs have their nodes beside each crowd, of which none is ever placed."""
    said: list[str] = []
    found = crowd.measure(Options(short=True), said.append)
    assert [each.name for each in found] == [
        "crowd_ms_beside_0",
        "crowd_ms_beside_1",
        "crowd_ms_beside_2000",
        "crowd_ms_beside_20000",
        "crowd_ms_beside_2000_sizes",
        "crowd_ms_beside_1_and_ends",
        "crowd_ms_beside_2000_sizes_and_ends",
    ]
    assert all(each.value > 0 for each in found)
    assert len(said) == len(found)


def test_the_crowd_waits() -> None:
    """All GPUs are taken: of the pods that wait each has a reason, and none a node."""
    engine = crowd.full_cluster(5, alike=True)
    assert len(State(engine).waits()) == 5
