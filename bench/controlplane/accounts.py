"""What is read off each process: processor time, what it counted and when Muster decided; and who else computes."""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

import httpx
import orjson

from bench.controlplane.writes import REQUESTS
from bench.soak.sampling import Page
from localcluster.credentials import Connection
from localcluster.errors import LocalClusterError

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
#: How long the processors are looked at to see whether they are free, in seconds.
_LOOK_SECONDS = 0.5
#: How long a server may take to answer with metrics, in seconds.
_METRICS_TIMEOUT_SECONDS = 30.0


def cpu_seconds(pids: Mapping[str, int]) -> dict[str, float]:
    """Return the processor time that each process has used since it began, in user mode and in the kernel.

    Source: proc_pid_stat(5), fields utime and stime.
    """
    return {name: _cpu_seconds(pid) for name, pid in pids.items()}


def load_average() -> float:
    """Return how many processes ran or wanted to, on average over the last minute; what was measured is among them."""
    return os.getloadavg()[0]


def busy_processors() -> float:
    """Look for half a second and return how many processors had something to do, or were taken away by a hypervisor."""
    before, began = busy_seconds(), time.monotonic()
    time.sleep(_LOOK_SECONDS)
    return (busy_seconds() - before) / (time.monotonic() - began)


def busy_seconds() -> float:
    """Return how long all processors together had something to do, or were taken away by a hypervisor, since boot.

    Source: proc_stat(5), the line `cpu`: idle and iowait are the fourth and the fifth number.
    """
    numbers = [int(number) for number in Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]]
    return (sum(numbers) - numbers[3] - numbers[4]) / _TICKS_PER_SECOND


def milestones(log: Path, since: float) -> Iterator[tuple[str, float]]:
    """Yield each decision about a gang that Muster has logged, such as `gang started`, with its time.

    Times are Unix seconds; what happened before `since` is left out.
    """
    for line in log.read_text(encoding="utf-8").splitlines():
        if '"decision"' not in line:
            continue
        entry = orjson.loads(line)
        at = datetime.fromisoformat(entry["timestamp"]).timestamp()
        if at >= since:
            yield entry["event"], at


def read_muster(url: str) -> Page:
    """Read Muster's metrics; raise LocalClusterError if it does not give them."""
    return Page.parse(_metrics(url, ssl.create_default_context()))


def read_scheduler(address: Connection) -> Page:
    """Read how long kube-scheduler's queues are and how often it has tried to place a pod, of its metrics.

    Asked without an identity: localcluster lets everybody read them. Raises LocalClusterError if it does not give them.
    """
    return _only(_of(address), "scheduler_pending_pods", "scheduler_schedule_attempts_total")


def read_api_server(admin: Connection) -> Page:
    """Read how many requests the API server has answered; raise LocalClusterError if it does not tell."""
    return _only(_of(admin, {"Authorization": f"Bearer {admin.token}"}), REQUESTS)


def _only(text: str, *names: str) -> Page:
    """Parse the samples of these names alone: they are few lines of half a megabyte and more."""
    beginnings = tuple(f"{name}{{" for name in names)
    return Page.parse("".join(f"{line}\n" for line in text.splitlines() if line.startswith(beginnings)))


def _of(server: Connection, headers: Mapping[str, str] | None = None) -> str:
    return _metrics(server.url, ssl.create_default_context(cafile=server.certificate_authority), headers)


def _metrics(url: str, verify: ssl.SSLContext, headers: Mapping[str, str] | None = None) -> str:
    try:
        answer = httpx.get(
            f"{url}/metrics", headers=headers, verify=verify, timeout=_METRICS_TIMEOUT_SECONDS, trust_env=False
        )
        return answer.raise_for_status().text
    except httpx.HTTPError as error:
        raise LocalClusterError(f"no metrics from {url}: {error!r}") from error


def _cpu_seconds(pid: int) -> float:
    # The second field is the program's name in parentheses, which may hold blanks and parentheses itself.
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND
