"""A wall clock of one's own, for a process that asks libc and for the Lease of one that does not."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from localcluster.wallclock import WallClock

SAYS = "import sys, time\nfor _ in sys.stdin: print(time.time(), time.monotonic(), flush=True)"


def test_a_running_process_has_its_wall_clock_set(tmp_path: Path) -> None:
    """The time of day follows each setting at once, and the steady clock is everybody's."""
    clock = WallClock(tmp_path / "clock")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    environment = {**os.environ, **clock.environment}
    with subprocess.Popen([sys.executable, "-c", SAYS], env=environment, **pipes) as running:  # type: ignore[call-overload]  # bound above
        for offset in (0.0, 7200.0, -90.0, 10.0):
            clock.set(offset)
            running.stdin.write("\n")
            running.stdin.flush()
            now, steady_now = time.time(), time.monotonic()  # noqa: TID251 - what the process is compared with
            shown, steady = map(float, running.stdout.readline().split())
            assert shown - now == pytest.approx(offset, abs=2.0)
            assert steady == pytest.approx(steady_now, abs=2.0)
        running.stdin.close()
        assert running.wait(10) == 0


def test_a_lease_has_the_time_of_when_it_was_written(tmp_path: Path) -> None:
    """A renewal from before the clock was set keeps the old time, however late it comes; one without times passes."""
    clock = WallClock(tmp_path / "clock", 60.0)
    clock.set(3600.0)
    lease = {"acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2999-01-01T00:00:00.500000Z"}
    written = clock.written({"spec": {**lease, "holderIdentity": "a"}})
    assert written["spec"] == {
        "acquireTime": "2026-01-01T00:01:00.000000Z",
        "renewTime": "2999-01-01T01:00:00.500000Z",
        "holderIdentity": "a",
    }
    assert clock.written({}) == {"spec": {}}
