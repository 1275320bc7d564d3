"""A long run: `python -m tests.fuzz --requests 1000000 [--seed N]`; `make fuzz REQUESTS=1000000` calls it."""

from __future__ import annotations

import argparse
import asyncio
import collections
import logging
import sys
import time

import structlog
import uvloop

from tests.fuzz.run import Report, fuzz


def main(arguments: list[str] | None = None) -> int:
    """Fuzz, print what came of it, and return 1 if any answer was outside the protocol."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Send spoiled requests to the verbs.")
    parser.add_argument("--requests", type=int, default=100_000, help="how many (default: 100000)")
    parser.add_argument(
        "--seed", type=int, default=None, help="the same seed gives the same requests (default: by time)"
    )
    options = parser.parse_args(arguments)
    seed = time.time_ns() % 2**32 if options.seed is None else options.seed  # noqa: TID251 - each run is another one
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        report = runner.run(fuzz(options.requests, seed))
    sys.stdout.write(render(report, seed))
    return int(bool(report.complaints))


def render(report: Report, seed: int) -> str:
    """Return the report for people."""
    first, last = report.memory[0], report.memory[-1]
    lines = [
        f"requests    {report.requests} (seed {seed})",
        f"throughput  {report.requests / report.seconds:.0f} requests/s",
        f"longest     {report.longest * 1000:.1f} ms for a batch",
        f"statuses    {dict(sorted(report.statuses.items()))}",
        f"outcomes    {dict(sorted(report.outcomes.items()))}",
        f"memory      {first[1] / 2**20:.1f} -> {last[1] / 2**20:.1f} MiB",
        f"slope       {report.slope():.2f} bytes of resident memory per request, the first quarter left out",
        f"complaints  {sum(report.complaints.values())}",
    ]
    lines += [f"  {count} x {text}" for text, count in collections.Counter(report.complaints).most_common(20)]
    lines += [f"  first: {example}" for example in report.examples[:5]]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
