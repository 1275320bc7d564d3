"""What a stretch of time costs: processor time, writes, tries of kube-scheduler and what Muster did."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bench.controlplane import writes
from bench.controlplane.accounts import busy_seconds, cpu_seconds
from bench.soak.sampling import Page


@dataclass(frozen=True, slots=True)
class Work:
    """What Muster did in a stretch of time, counted by itself.

    `filter_seconds`, `bind_seconds` and `pass_seconds` are the times of all calls and passes together. `given_up` are
    writes that it does not try again, `busy_turns` those of its event loop in which it computed for more than 10 ms.
    """

    filter_calls: float = 0.0
    filter_seconds: float = 0.0
    bind_seconds: float = 0.0
    nominations: float = 0.0
    renominations: float = 0.0
    bindings: float = 0.0
    passes: float = 0.0
    pass_seconds: float = 0.0
    given_up: float = 0.0
    busy_turns: float = 0.0

    @classmethod
    def between(cls, before: Page, after: Page) -> Work:
        """Return what was added from one page of metrics to the next."""

        def added(name: str, **labels: str) -> float:
            return after.sum(name, **labels) - before.sum(name, **labels)

        return cls(
            filter_calls=added("muster_verb_seconds_count", verb="filter"),
            filter_seconds=added("muster_verb_seconds_sum", verb="filter"),
            bind_seconds=added("muster_verb_seconds_sum", verb="bind"),
            nominations=added("muster_writes_total", kind="nomination", result="ok"),
            renominations=added("muster_renominations_total"),
            bindings=added("muster_writes_total", kind="binding", result="ok"),
            passes=added("muster_pass_seconds_count"),
            pass_seconds=added("muster_pass_seconds_sum"),
            given_up=added("muster_writes_total", result="failed"),
            busy_turns=added("muster_event_loop_stalls_total", cause="busy"),
        )


@dataclass(frozen=True, slots=True)
class Counters:
    """What was counted so far: Muster's metrics, empty without it; kube-scheduler's attempts; requests answered."""

    muster: Page
    attempts: float
    requests: Page


@dataclass(frozen=True, slots=True)
class Spent:
    """What was spent within `seconds`.

    `cpu` is processor seconds by process, `elsewhere` how many processors others kept busy meanwhile: near 0 on a quiet
    machine. `attempts` is how often kube-scheduler tried to place a pod. `writes` are those that the API server
    answered, such as `POST pods/binding`, without housekeeping; `refused` of them were answered 429.
    """

    seconds: float
    cpu: Mapping[str, float]
    elsewhere: float = 0.0
    attempts: float = 0.0
    writes: Mapping[str, float] = field(default_factory=dict)
    refused: float = 0.0
    work: Work = field(default_factory=Work)


class Meter:
    """Tell what is spent from its creation on. `count` reads the counters, `pids` are the processes that take part."""

    def __init__(self, count: Callable[[], Counters], pids: Mapping[str, int]) -> None:
        """Begin. The counters come first: to be asked for them is work, too, which is not what is measured."""
        self._count, self._pids = count, pids
        self._counters = count()
        self._cpu, self._busy, self._began = cpu_seconds(pids), busy_seconds(), time.monotonic()

    def read(self) -> Spent:
        """Return what was spent so far. Servers count a call once it is answered, a moment after its effect is seen."""
        seconds, busy = time.monotonic() - self._began, busy_seconds() - self._busy
        cpu = {name: seconds - self._cpu[name] for name, seconds in cpu_seconds(self._pids).items()}
        before, after = self._counters, self._count()
        written = writes.writes(before.requests)
        added = {name: count - written.get(name, 0.0) for name, count in writes.writes(after.requests).items()}
        return Spent(
            seconds,
            cpu,
            max(0.0, (busy - sum(cpu.values())) / seconds),
            after.attempts - before.attempts,
            {name: count for name, count in added.items() if count},
            writes.refused(after.requests) - writes.refused(before.requests),
            Work.between(before.muster, after.muster),
        )
