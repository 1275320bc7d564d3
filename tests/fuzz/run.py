"""Send many requests, judge every answer, and watch the memory and the processor."""

from __future__ import annotations

import asyncio
import statistics
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from extender.clock import Clock, SystemClock, thread_cpu_seconds
from tests.fuzz.guidance import Guide, Pool, Unguided
from tests.fuzz.judge import Judge
from tests.fuzz.messages import Request, line_of
from tests.fuzz.mutation import Mutator
from tests.fuzz.subject import Subject, running
from tests.fuzz.turns import TurnMeter, looking

#: Requests between two looks at binds that are held, and at the clock.
BATCH = 256
#: Pods are deleted and created again after so many batches.
CHURN = 12
#: Memory is looked at after so many batches.
SAMPLE = 50
#: For how long the serving thread may compute without a pause (processor seconds).
STALL = 0.1
#: Requests at the start whose memory does not count: caches fill.
_WARM_UP = 0.25
_PAGE = 4096
#: What may be held, so that others are sent meanwhile.
_HELD = "/v1/bind"


@dataclass
class Report:
    """What came of a run.

    Attributes:
        longest: for how long the serving thread has computed without a pause (processor seconds); `slowest` names the
            request, and says how long it had to wait.
        memory: requests so far, and resident bytes.
        reached: branches and lines that were reached, as the guide counts them.
        findings: the requests that there is something to say of, as `--again` takes them.
    """

    requests: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    slowest: str = ""
    reached: int = 0
    kept: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    paths: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    complaints: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    memory: list[tuple[int, int]] = field(default_factory=list)

    def slope(self) -> float:
        """Return by how many bytes the resident memory grew per request, once warm."""
        settled = [sample for sample in self.memory if sample[0] >= self.requests * _WARM_UP]
        if len(settled) < 2:
            return 0.0
        return statistics.linear_regression(*zip(*settled, strict=True)).slope

    def complain(self, words: str, request: Request, body: bytes = b"") -> None:
        """Note what is wrong with an answer."""
        self.complaints[words] += 1
        self.findings.append(line_of(request))
        where = f"{request.method} {request.path}?{request.query.decode('latin-1')}"
        self.examples.append(f"{words}: {where} {request.body[:2000]!r} -> {body[:500]!r}")


class Run:
    """A run against one Muster."""

    def __init__(self, subject: Subject, guide: Guide, pool: Pool, meter: TurnMeter, clock: Clock) -> None:
        """Take from `meter` for how long the loop computes at a time."""
        self.report = Report()
        self._subject = subject
        self._guide = guide
        self._pool = pool
        self._meter = meter
        self._clock = clock
        self._judge = Judge(subject.app.openapi())
        self._held: set[asyncio.Task[None]] = set()

    async def send(self, request: Request) -> bool:
        """Send a request and judge its answer, which may be held if it is a bind; tell if it reached anything new."""
        before, asked = self._guide.reached, self._clock.monotonic()
        self._meter.begin()
        if request.path == _HELD:
            task = asyncio.create_task(self._answer(request))
            self._held.add(task)
            task.add_done_callback(self._held.discard)
            await asyncio.sleep(0)
        else:
            await self._answer(request)
        took, passed = self._meter.longest(), self._clock.monotonic() - asked
        if took > self.report.longest:
            self.report.longest = took
            what = f"{request.method} {request.path}?{request.query.decode('latin-1')[:200]}"
            self.report.slowest = f"{what}, after {passed * 1000:.0f} ms"
        if took > STALL:
            words = f"a stall of more than {STALL * 1000:.0f} ms at {request.path}"
            self.report.complain(words, request, f"{took * 1000:.0f} ms in {passed * 1000:.0f} ms".encode())
        self.report.requests += 1
        return self._guide.reached > before

    async def settle(self) -> None:
        """Wait for the binds that are held."""
        await asyncio.gather(*self._held)

    async def _answer(self, request: Request) -> None:
        try:
            answer = await self._subject.ask(request)
        except Exception as error:  # noqa: BLE001 - whatever it is, a server would answer 500
            self.report.statuses[500] += 1
            self.report.complain(f"{type(error).__name__} at {self._judge.template(request.path)}: {error}", request)
            return
        self.report.statuses[answer.status] += 1
        self.report.paths[self._judge.template(request.path)] += 1
        if words := self._judge.complaint(request, answer):
            self.report.complain(words, request, answer.body)


async def fuzz(requests: int, seed: int, guide: Guide | None = None, pool: Pool | None = None) -> Report:
    """Send `requests` requests drawn from `seed`; with a guide, what reaches anything new is spoiled further.

    What the pool has is sent first.
    """
    guide, pool, clock = guide or Unguided(), Pool() if pool is None else pool, SystemClock()
    async with running() as subject, looking(thread_cpu_seconds) as meter:
        mutator = Mutator(seed, subject.app.openapi(), pool)
        run = Run(subject, guide, pool, meter, clock)
        report, began = run.report, clock.monotonic()
        known = [*pool][:requests]
        for request in known:
            await run.send(request)
        batch = 0
        while report.requests < requests:
            if batch % CHURN == 0:
                subject.churn()
            if batch % SAMPLE == 0:
                report.memory.append((report.requests, _resident()))
            batch += 1
            for _ in range(min(BATCH, requests - report.requests)):
                request = mutator.request(subject.waiting)
                if await run.send(request):
                    pool.keep(request, mutator.random)
                    report.kept += 1
            await run.settle()
        report.seconds = clock.monotonic() - began
        report.memory.append((report.requests, _resident()))
        report.reached = guide.reached
        for metric in subject.metrics.verb_seconds.collect():
            for sample in metric.samples:
                if sample.name.endswith("_count"):
                    report.outcomes["{verb} {outcome}".format(**sample.labels)] += int(sample.value)
    return report


async def again(requests: list[Request]) -> Report:
    """Send findings of earlier runs again, each to a Muster of its own."""
    report = Report()
    for request in requests:
        async with running() as subject, looking(thread_cpu_seconds) as meter:
            run = Run(subject, Unguided(), Pool(), meter, SystemClock())
            await run.send(request)
            await run.settle()
            report.requests += 1
            report.statuses += run.report.statuses
            report.complaints += run.report.complaints
            report.examples += run.report.examples
    return report


def _resident() -> int:
    """Return the resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE
