"""Runs that add up: which seed is next, what a record says of each run, and what people read of it."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

import structlog
import uvloop

from extender.cli.interpreter import tune
from tests.fuzz.guidance import Guide, Pool
from tests.fuzz.messages import request_of
from tests.fuzz.run import Report, again, fuzz

#: Findings of one run that a record keeps.
_MOST_FINDINGS = 100


def play(options: argparse.Namespace, guide: Guide) -> bool:
    """Play runs, and tell if anything was wrong."""
    record: Path | None = options.record
    lines = recorded(record)
    pool = Pool(None if record is None else record.with_suffix(".kept"))
    first, wrong = _first(lines) if options.seed is None else options.seed, False
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for seed in range(first, first + options.runs):
            report = runner.run(fuzz(options.requests, seed, guide, pool))
            wrong |= bool(report.complaints)
            lines.append(line_of_run(report, seed))
            sys.stdout.write(render(report, seed))
            if record is not None:
                _keep(record, lines[-1], report)
                pool.save()
                total, complaints = (sum(line[name] for line in lines) for name in ("requests", "complaints"))
                sys.stdout.write(f"so far      {total} requests in {len(lines)} runs, {complaints} complaints\n")
            sys.stdout.flush()
    return wrong


def play_again(file: Path) -> bool:
    """Send the findings in a file again, and tell if anything is still wrong."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        report = runner.run(again([*map(request_of, file.read_text(encoding="ascii").splitlines())]))
    sys.stdout.write(render(report, 0))
    return bool(report.complaints)


def recorded(record: Path | None) -> list[dict[str, Any]]:
    """Return what a file has of runs that are over, nothing if there is none."""
    return [] if record is None or not record.exists() else [*map(json.loads, record.read_text().splitlines())]


def line_of_run(report: Report, seed: int) -> dict[str, Any]:
    """Return what a record says of a run."""
    return {
        "seed": seed,
        "requests": report.requests,
        "seconds": round(report.seconds, 1),
        "longest_ms": round(report.longest * 1000, 1),
        "slowest": report.slowest,
        "slope": round(report.slope(), 2),
        "reached": report.reached,
        "kept": report.kept,
        "statuses": dict(sorted(report.statuses.items())),
        "complaints": sum(report.complaints.values()),
    }


def render(report: Report, seed: int) -> str:
    """Return the report for people."""
    first, last = (report.memory or [(0, 0)])[0], (report.memory or [(0, 0)])[-1]
    lines = [
        f"requests    {report.requests} (seed {seed})",
        f"throughput  {report.requests / max(report.seconds, 1e-9):.0f} requests/s",
        f"longest     {report.longest * 1000:.1f} ms of the processor at a time: {report.slowest}",
        f"reached     {report.reached} arcs between lines; {report.kept} requests reached some first",
        f"paths       {dict(sorted(report.paths.items()))}",
        f"statuses    {dict(sorted(report.statuses.items()))}",
        f"outcomes    {dict(sorted(report.outcomes.items()))}",
        f"memory      {first[1] / 2**20:.1f} -> {last[1] / 2**20:.1f} MiB",
        f"slope       {report.slope():.2f} bytes of resident memory per request, the first quarter left out",
        f"complaints  {sum(report.complaints.values())}",
    ]
    lines += [f"  {count} x {text}" for text, count in report.complaints.most_common(20)]
    lines += [f"  first: {example}" for example in report.examples[:5]]
    return "\n".join(lines) + "\n"


def prepare() -> None:
    """Set this process up as one that serves, without a log."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    tune()


def _first(lines: list[dict[str, Any]]) -> int:
    """Return the next seed of a record; without one each run is another one."""
    return max(line["seed"] for line in lines) + 1 if lines else time.time_ns() % 2**32  # noqa: TID251 - a new one


def _keep(record: Path, line: dict[str, Any], report: Report) -> None:
    with record.open("a", encoding="ascii") as file:
        file.write(f"{json.dumps(line)}\n")
    with record.with_suffix(".findings").open("a", encoding="ascii") as file:
        file.writelines(f"{finding}\n" for finding in report.findings[:_MOST_FINDINGS])
