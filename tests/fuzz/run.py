"""Send many requests, judge every answer, and watch the memory."""

from __future__ import annotations

import asyncio
import statistics
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from extender.clock import SystemClock
from tests.fuzz.judge import complaint
from tests.fuzz.mutation import Mutator
from tests.fuzz.subject import Request, Subject, running

#: Requests under way at once; a bind among them may be held for a moment.
BATCH = 256
#: Pods are deleted and created again after so many batches.
CHURN = 12
#: Memory is looked at after so many batches.
SAMPLE = 50
#: Requests at the start whose memory does not count: caches fill.
_WARM_UP = 0.25
_PAGE = 4096


@dataclass
class Report:
    """What came of a run; `memory` holds (requests so far, resident bytes)."""

    requests: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    complaints: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    memory: list[tuple[int, int]] = field(default_factory=list)

    def slope(self) -> float:
        """Return by how many bytes the resident memory grew per request, once warm."""
        settled = [sample for sample in self.memory if sample[0] >= self.requests * _WARM_UP]
        if len(settled) < 2:
            return 0.0
        return statistics.linear_regression(*zip(*settled, strict=True)).slope


async def fuzz(requests: int, seed: int) -> Report:
    """Send `requests` requests drawn from `seed`."""
    report, mutator, clock = Report(), Mutator(seed), SystemClock()
    async with running() as subject:
        began = clock.monotonic()
        batch = 0
        while report.requests < requests:
            if batch % CHURN == 0:
                subject.churn()
            if batch % SAMPLE == 0:
                report.memory.append((report.requests, _resident()))
            batch += 1
            count = min(BATCH, requests - report.requests)
            drawn = [mutator.request(subject.waiting) for _ in range(count)]
            sent = clock.monotonic()
            await asyncio.gather(*(_send(subject, request, report) for request in drawn))
            report.longest = max(report.longest, clock.monotonic() - sent)
            report.requests += count
        report.seconds = clock.monotonic() - began
        report.memory.append((report.requests, _resident()))
        for metric in subject.metrics.verb_seconds.collect():
            for sample in metric.samples:
                if sample.name.endswith("_count"):
                    report.outcomes["{verb} {outcome}".format(**sample.labels)] += int(sample.value)
    return report


async def _send(subject: Subject, request: Request, report: Report) -> None:
    answer = await subject.ask(request)
    report.statuses[answer.status] += 1
    if words := complaint(request, answer):
        report.complaints[words] += 1
        report.examples.append(
            f"{words}: {request.method} {request.path} {request.body[:2000]!r} -> {answer.body[:500]!r}"
        )


def _resident() -> int:
    """Return the resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE
