"""Muster's own trace format: a CSV table with one line for each gang. docs/studies.md describes it for users."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TextIO

from muster_lab.traces.table import TraceRow, read_rows
from muster_lab.traces.trace import Trace, TraceError, TraceJob

#: Columns that every trace has.
REQUIRED = ("name", "submitted", "runtime", "pods", "gpus")
#: Columns that may be left out, and cells that may be empty.
OPTIONAL = ("cpu", "memory", "queue", "priority", "declared", "checkpoint", "preemptible", "communication")

_TRUTH = {"true": True, "false": False, "": True}
#: Bounds of a Kubernetes priority that users may give. Source: k8s.io/kubernetes pkg/apis/scheduling/types.go.
_HIGHEST_PRIORITY, _LOWEST_PRIORITY = 1_000_000_000, -(2**31)
#: A runtime of zero would be a gang that never holds anything: a microsecond is the least.
_SHORTEST = 1e-6


def read_trace(file: Path) -> Trace:
    """Read a trace; raise TraceError that names file, line and column."""
    jobs: dict[str, tuple[TraceJob, int]] = {}
    for row in read_rows(file, REQUIRED, OPTIONAL):
        job = _read_job(row)
        if job.name in jobs:
            row.fail("name", f"{job.name!r} is in line {jobs[job.name][1]} already")
        jobs[job.name] = job, row.line
    if not jobs:
        raise TraceError(f"{file}: there is no job in it")
    return Trace.of(job for job, _ in jobs.values())


def write_trace(trace: Trace, out: TextIO) -> None:
    """Write a trace with all columns; equal traces give equal text, and what is read back is equal."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(REQUIRED + OPTIONAL)
    for job in trace.jobs:
        writer.writerow(
            (
                job.name,
                _number(job.submitted),
                _number(job.runtime),
                job.pods,
                job.gpus,
                job.cpu,
                job.memory,
                job.queue,
                job.priority,
                "" if job.declared is None else _number(job.declared),
                "" if job.checkpoint is None else _number(job.checkpoint),
                "true" if job.preemptible else "false",
                _number(job.communication),
            )
        )


def _read_job(row: TraceRow) -> TraceJob:
    if not row.text("name"):
        row.fail("name", "is empty")
    truth = _TRUTH.get(row.text("preemptible").lower())
    if truth is None:
        row.fail("preemptible", f"{row.text('preemptible')!r} is neither true nor false")
    priority = row.number("priority", least=_LOWEST_PRIORITY) if row.text("priority") else 0.0
    if not priority.is_integer() or priority > _HIGHEST_PRIORITY:
        row.fail("priority", f"{row.text('priority')} is not a whole number up to {_HIGHEST_PRIORITY}")
    communication = row.number("communication") if row.text("communication") else 0.0
    if communication >= 1:
        row.fail("communication", f"{row.text('communication')} is not below 1: that would be no work at all")
    return TraceJob(
        name=row.text("name"),
        submitted=row.number("submitted"),
        runtime=row.number("runtime", least=_SHORTEST),
        pods=row.count("pods", least=1),
        gpus=row.count("gpus"),
        cpu=row.count("cpu") if row.text("cpu") else 0,
        memory=row.count("memory") if row.text("memory") else 0,
        queue=row.text("queue"),
        priority=int(priority),
        declared=row.number("declared", least=_SHORTEST) if row.text("declared") else None,
        checkpoint=row.number("checkpoint", least=1.0) if row.text("checkpoint") else None,
        preemptible=truth,
        communication=communication,
    )


def _number(seconds: float) -> str:
    """Write a number so that it reads back equal, whole ones without a fraction."""
    return str(int(seconds)) if seconds.is_integer() else repr(seconds)
