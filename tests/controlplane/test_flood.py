"""Thousands of gangs of one tenant that can never fit, beside one that has room, on the real control plane."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from bench.service.lag import Lag
from bench.soak.sampling import Sampler, resident_bytes
from localcluster.client import CREATE_WORKERS
from localcluster.cluster import LocalCluster
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from tests.controlplane.conftest import LONGEST_TURN, PROMPT_SECONDS

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("judged")]

#: Gangs that cannot fit, each of four pods that ask for more than any node has; the latter with `--long`.
GANGS, LONG_GANGS = 150, 5_000
#: How long all are created and tried once at the most, for each gang: stock kube-scheduler tries 50 pods a second, and
#: half as many on a busy machine.
SETTLE_SECONDS, LEAST_SECONDS = 0.16, 300.0
MOST_MEMORY = 300_000_000


@pytest.mark.timeout(1800)
def test_gangs_start_at_once_beside_thousands_that_cannot_fit(  # noqa: PLR0917 - the parts of the story
    cluster: Sandbox,
    muster: Server,
    local_cluster: LocalCluster,
    tenant: str,
    other: str,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> None:
    """Once kube-scheduler has tried those, as it would without Muster, nobody waits for them any more."""
    count = LONG_GANGS if request.config.getoption("--long") else GANGS
    cluster.nodes(100, gpus=8)
    bad = [cluster.gang(f"bad-{number}", namespace=tenant, members=4, gpus=16, create=0) for number in range(count)]
    began = time.monotonic()
    cluster.create_at_once(bad)
    record_property("seconds to create them", time.monotonic() - began)
    for gang in bad[-2 * CREATE_WORKERS :]:  # those that were created last are tried last
        gang.wait_message("Insufficient nvidia.com/gpu", timeout=max(LEAST_SECONDS, count * SETTLE_SECONDS))
    record_property("seconds until all were tried", time.monotonic() - began)
    bad[-1].wait_condition("False", "ExceedsCluster")
    with Sampler(f"http://127.0.0.1:{local_cluster.muster_port}", muster.pid) as sampler:
        before = sampler.page()
        for number in range(5):
            began = time.monotonic()
            gang = cluster.gang(f"good-{number}", namespace=other, members=2, gpus=1)
            gang.wait_bound(2, timeout=PROMPT_SECONDS)
            record_property(f"seconds of good-{number}", time.monotonic() - began)
        page = sampler.page()
    record_property("lag of the event loop", str(Lag.between(before, page)))
    assert page.sum("muster_event_loop_longest_busy_seconds") <= LONGEST_TURN
    assert resident_bytes(muster.pid) < MOST_MEMORY
    assert not any(gang.bound for gang in bad)
    muster.check()
