"""Many gangs at once on the real control plane; a thousand with `--long`."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from localcluster.processes import Server
from localcluster.sandbox import Sandbox

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("judged")]


def test_many_gangs_at_once_all_start(
    cluster: Sandbox, muster: Server, request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> None:
    """Gangs of two on room for just all of them, created by eight at a time: each of them starts whole."""
    count = 1000 if request.config.getoption("--long") else 150
    cluster.nodes(count // 4 + 1, gpus=8)
    gangs = [cluster.gang(f"gang-{number}", members=2, gpus=1, create=0) for number in range(count)]
    began = time.monotonic()
    cluster.create_at_once(gangs)
    record_property("seconds to create", time.monotonic() - began)
    for gang in gangs:
        gang.wait_bound(timeout=200)
    record_property("seconds until all are bound", time.monotonic() - began)
    assert len(cluster.bindings()) == 2 * count
    assert max(cluster.peak_gpus().values()) == 8
    muster.check()
