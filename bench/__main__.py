"""Run the measurements: `python -m bench [placement|failover] [--output json|table] [--repeats N] [--trials N]`."""

from __future__ import annotations

import argparse
import json
import sys

from rich.console import Console
from rich.table import Table

from bench import failover, placement
from bench.figures import Figure
from localcluster.errors import LocalClusterError


def show(figures: list[Figure], console: Console) -> None:
    """Print the figures for people."""
    table = Table("figure", "value", "min", "max", "unit", "bound")
    for figure in figures:
        bound = "" if figure.bound is None else f"< {figure.bound:g} {'ok' if figure.holds else 'MISSED'}"
        numbers = (f"{number:.3f}" for number in (figure.value, figure.low, figure.high))
        table.add_row(figure.name, *numbers, figure.unit, bound)
    console.print(table)


def _measure(family: str, repeats: int, trials: int) -> list[Figure]:
    if family == "placement":
        return placement.measure(repeats)
    return failover.measure(trials, lambda line: print(line, file=sys.stderr, flush=True))


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and return 0 if every bound holds, 1 if one does not or a server failed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Muster against its budget.")
    parser.add_argument(
        "family",
        nargs="?",
        choices=("placement", "failover"),
        default="placement",
        help="placement needs nothing else; failover runs two replicas on a real control plane (default: placement)",
    )
    parser.add_argument("--output", choices=("table", "json"), default="table", help="how to print the figures")
    parser.add_argument("--repeats", type=int, default=20, help="timed repeats of each placement (default: 20)")
    parser.add_argument("--trials", type=int, default=20, help="kills of the leading replica (default: 20)")
    options = parser.parse_args(arguments)
    if options.repeats < 1:
        parser.error("--repeats: at least 1")
    if options.trials < 1:
        parser.error("--trials: at least 1")
    try:
        figures = _measure(options.family, options.repeats, options.trials)
    except LocalClusterError as error:
        sys.stderr.write(f"bench: {error}\n")
        return 1
    if options.output == "json":
        sys.stdout.write(
            json.dumps({"figures": {figure.name: figure.as_json() for figure in figures}}, indent=2) + "\n"
        )
    else:
        show(figures, Console())
    return int(any(figure.holds is False for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
