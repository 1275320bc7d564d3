"""The wall clock of a machine that is not this one's: wrong from the start, or set while its processes run."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from localcluster.client import JsonObject
from localcluster.errors import LocalClusterError

#: Where Debian's package libfaketime has the library for programs with threads.
_LIBRARY = "*/faketime/libfaketimeMT.so.1"

_FORMAT = "%Y-%m-%dT%H:%M:%S.%fZ"


class WallClock:
    """What the processes of one machine take for the time of day: this machine's, and an offset that can be set.

    What asks libc, as Muster does, has libfaketime for it. Programs in Go ask the kernel past libc: of kube-scheduler
    it is the Lease that Muster compares with its own clock, and `written` is what such a one would write into it. The
    monotonic clock goes on undisturbed, as it does where a clock is set: a library that moved it, too, would play
    something that no machine does, and deadlines and sleeps are measured by it.
    """

    def __init__(self, file: Path, offset_seconds: float = 0.0) -> None:
        """Let `file` tell libfaketime the offset."""
        self._file = file
        self._set: list[tuple[float, float]] = []
        self.set(offset_seconds)

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the variables that give a process this clock; raise LocalClusterError if libfaketime is missing."""
        return {
            "LD_PRELOAD": str(_library()),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    @property
    def offset(self) -> float:
        """Return how far ahead it is (seconds)."""
        return self._set[-1][1]

    def set(self, offset_seconds: float) -> None:
        """Set the clock so far ahead of this machine's, or behind it (seconds)."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{offset_seconds:+.3f}\n", encoding="utf-8")
        self._set.append((time.time(), offset_seconds))
        fresh.replace(self._file)

    def written(self, lease: JsonObject) -> JsonObject:
        """Return a Lease with its times as this clock has them."""
        spec = {**lease.get("spec", {})}
        for name in ("acquireTime", "renewTime"):
            if spec.get(name):
                spec[name] = self._shown(datetime.strptime(spec[name], _FORMAT).replace(tzinfo=UTC))
        return {**lease, "spec": spec}

    def _shown(self, real: datetime) -> str:
        """Return what this clock showed when the machine's showed `real`."""
        offset = next((offset for at, offset in reversed(self._set) if at <= real.timestamp()), self._set[0][1])
        return (real + timedelta(seconds=offset)).strftime(_FORMAT)


def _library() -> Path:
    found = next(Path("/usr/lib").glob(_LIBRARY), None)
    if found is None:
        raise LocalClusterError("libfaketime is missing. Install it with: sudo apt-get install -y faketime")
    return found
