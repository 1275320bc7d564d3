"""A soak of some seconds: it runs to its end, sees the load, and finds Muster empty afterwards."""

from collections.abc import Callable

import pytest

from bench.soak.run import Soak
from bench.soak.trend import Bounds
from localcluster.cluster import LocalCluster
from localcluster.processes import Server

pytestmark = pytest.mark.controlplane

#: How often a busy machine, with coverage on, may hold the loop: this test is about the soak, not about speed.
_BOUNDS = Bounds(busy_stalls=20)


def test_a_short_soak_holds_its_bounds(local_cluster: LocalCluster, start_muster: Callable[[], Server]) -> None:
    """Gangs and pods come and go beside others that stay, while nodes change; at the end only these are left."""
    said: list[str] = []
    soak = Soak(seconds=12, nodes=30, pods_per_minute=600, standing_pods=240, sample_seconds=1)
    lines = {line.name: line for line in soak.run_on(local_cluster, start_muster(), _BOUNDS, said.append)}
    assert [line for line in lines.values() if line.holds is False] == []
    assert lines["left at the end"].holds is True
    assert float(lines["pods bound"].value.split(",")[0]) > 30
    assert "gangs" in lines["load"].value
    (said_of_standing,) = said  # the soak is shorter than the pause between two lines of progress
    assert "252 of 252 objects" in said_of_standing
