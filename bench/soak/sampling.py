"""Reading Muster from outside: its metrics page and what the kernel knows of its process."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
from prometheus_client.parser import text_string_to_metric_families

from bench.soak.trend import Sample

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Page:
    """One answer of /metrics: value by sample name and labels."""

    values: dict[tuple[str, frozenset[tuple[str, str]]], float] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Page:
        """Read the Prometheus text format."""
        return cls(
            {
                (sample.name, frozenset(sample.labels.items())): float(sample.value)
                for family in text_string_to_metric_families(text)
                for sample in family.samples
            }
        )

    def each(self, name: str, **labels: str) -> Iterable[float]:
        """Yield the samples of that name whose labels include `labels`."""
        wanted = labels.items()
        return (value for (found, given), value in self.values.items() if found == name and wanted <= given)

    def sum(self, name: str, **labels: str) -> float:
        """Add up the samples of that name whose labels include `labels`."""
        return sum(self.each(name, **labels))

    def buckets(self, name: str) -> dict[float, float]:
        """Return a histogram without labels: upper bound to cumulative count."""
        return {
            float(dict(given)["le"]): value
            for (found, given), value in self.values.items()
            if found == f"{name}_bucket"
        }


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process. Source: proc_pid_statm(5), the second field, in pages."""
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES


class Sampler:
    """Read one Muster, given its URL and process id."""

    def __init__(self, url: str, pid: int) -> None:
        """Prepare; nothing is read yet."""
        self._http = httpx.Client(base_url=url, timeout=60, trust_env=False)
        self._pid = pid

    def page(self) -> Page:
        """Read /metrics."""
        return Page.parse(self._http.get("/metrics").raise_for_status().text)

    def sample(self, at: float) -> Sample:
        """Read what a soak watches; `at` is the moment's name in seconds."""
        page = self.page()
        bindings_failed = page.sum("muster_writes_total", result="failed", kind="binding")
        return Sample(
            at=at,
            resident=float(resident_bytes(self._pid)),
            recording=page.sum("muster_recording_bytes"),
            lag=page.buckets("muster_event_loop_lag_seconds"),
            longest_lag=page.sum("muster_event_loop_longest_lag_seconds"),
            stalls_busy=page.sum("muster_event_loop_stalls_total", cause="busy"),
            stalls_starved=page.sum("muster_event_loop_stalls_total", cause="starved"),
            watch_age=max(page.each("muster_watch_age_seconds"), default=0.0),
            write_queue=page.sum("muster_write_queue"),
            binds_held=page.sum("muster_binds_held"),
            pods_bound=page.sum("muster_verb_seconds_count", verb="bind", outcome="bound"),
            writes_failed=page.sum("muster_writes_total", result="failed") - bindings_failed,
            bindings_failed=bindings_failed,
        )

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self._http.close()
