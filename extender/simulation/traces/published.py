"""What converters from published traces share: what comes out, and what had to be left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

from extender.simulation.traces.trace import Job, Trace, TraceError


class Published(StrEnum):
    """A published trace, as the command line calls it."""

    ALIBABA_2020 = "alibaba-2020"
    ALIBABA_2023 = "alibaba-2023"
    PHILLY = "philly"


@dataclass(slots=True)
class Harvest:
    """Jobs as they are found, and how often something was left out or changed, by what it was."""

    jobs: list[Job] = field(default_factory=list)
    remarks: Counter[str] = field(default_factory=Counter)

    def remark(self, text: str) -> None:
        """Count something that users should know of what became of their trace."""
        self.remarks[text] += 1

    def conversion(self, source: str) -> Conversion:
        """Let the trace begin with its first job; raise TraceError if none was found."""
        if not self.jobs:
            told = "; ".join(f"{count} x {text}" for text, count in self.remarks.most_common())
            raise TraceError(f"{source}: no job could be taken from it" + (f" ({told})" if told else ""))
        begin = min(job.submitted for job in self.jobs)
        jobs = (replace(job, submitted=round(job.submitted - begin, 6)) for job in self.jobs)
        return Conversion(Trace.of(jobs), dict(self.remarks))


@dataclass(frozen=True, slots=True)
class Conversion:
    """A trace made from a published one, and how many jobs were left out or changed, by why."""

    trace: Trace
    remarks: Mapping[str, int]


Converter: TypeAlias = Callable[[Sequence[Path]], Conversion]
"""Make a trace from the files of a published one; raises TraceError."""
