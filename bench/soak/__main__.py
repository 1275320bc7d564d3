"""Soak Muster: `python -m bench.soak --minutes 30`."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console
from rich.table import Table

from bench.soak.run import Soak
from bench.soak.trend import Bounds, Line
from localcluster.errors import LocalClusterError


def show(lines: list[Line], console: Console) -> None:
    """Print the report for people."""
    table = Table("quantity", "measured", "bound", "")
    for line in lines:
        verdict = {True: "ok", False: "MISSED", None: ""}[line.holds]
        table.add_row(line.name, line.value, line.bound, verdict)
    console.print(table)


def main(arguments: list[str] | None = None) -> int:
    """Soak, print, and return 0 if every bound holds, 1 if one does not or a server failed."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.soak", description="Keep Muster under churn on a real control plane, and watch it."
    )
    parser.add_argument("--minutes", type=float, default=30.0, help="how long the churn lasts (default: 30)")
    parser.add_argument("--pods-per-minute", type=float, default=2000.0, help="new pods a minute (default: 2000)")
    parser.add_argument("--nodes", type=int, default=100, help="nodes of eight GPUs (default: 100)")
    parser.add_argument(
        "--standing-pods", type=int, default=0, help="pods besides, on other nodes, that stay all the time (default: 0)"
    )
    parser.add_argument("--seed", type=int, default=1, help="equal seeds give equal workloads (default: 1)")
    options = parser.parse_args(arguments)
    if options.minutes <= 0 or options.pods_per_minute <= 0 or options.nodes < 1:
        parser.error("--minutes, --pods-per-minute and --nodes must be above 0")
    if options.standing_pods < 0:
        parser.error("--standing-pods must not be negative")
    seconds = 60 * options.minutes
    soak = Soak(
        seconds,
        options.nodes,
        options.pods_per_minute,
        options.seed,
        options.standing_pods,
        sample_seconds=min(5.0, max(0.5, seconds / 40)),
    )
    console = Console()
    try:
        lines = soak.run(Bounds(), lambda text: console.print(text, highlight=False, soft_wrap=True))
    except LocalClusterError as error:
        sys.stderr.write(f"soak: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("soak: stopped before its time, nothing is judged\n")
        return 130
    show(lines, console)
    return int(any(line.holds is False for line in lines))


if __name__ == "__main__":
    sys.exit(main())
