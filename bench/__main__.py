"""Run the measurements: `python -m bench [--output json|table] [--repeats N]`."""

from __future__ import annotations

import argparse
import json
import sys

from rich.console import Console
from rich.table import Table

from bench import placement
from bench.figures import Figure


def show(figures: list[Figure], console: Console) -> None:
    """Print the figures for people."""
    table = Table("figure", "median", "min", "max", "unit", "bound")
    for figure in figures:
        bound = "" if figure.bound is None else f"< {figure.bound:g} {'ok' if figure.holds else 'MISSED'}"
        numbers = (f"{number:.3f}" for number in (figure.value, figure.low, figure.high))
        table.add_row(figure.name, *numbers, figure.unit, bound)
    console.print(table)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and return 0 if every bound holds."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Muster against its budget.")
    parser.add_argument("--output", choices=("table", "json"), default="table", help="how to print the figures")
    parser.add_argument("--repeats", type=int, default=20, help="timed repeats of each figure (default: 20)")
    options = parser.parse_args(arguments)
    if options.repeats < 1:
        parser.error("--repeats: at least 1")
    figures = placement.measure(options.repeats)
    if options.output == "json":
        sys.stdout.write(
            json.dumps({"figures": {figure.name: figure.as_json() for figure in figures}}, indent=2) + "\n"
        )
    else:
        show(figures, Console())
    return int(any(figure.holds is False for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
