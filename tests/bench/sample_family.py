"""A family of measurements with known results, for tests of the program that runs families."""

from __future__ import annotations

from bench.figures import Figure, of_repeats
from bench.options import Options, Say

CASES = {"first": "the first thing", "second": "the second thing"}


def measure(options: Options, say: Say) -> list[Figure]:
    """Return one figure for each case, and say its name."""
    figures = []
    for case in options.cases or CASES:
        say(f"measuring {case}")
        figures.append(
            of_repeats(f"{case}_ms", "ms", [1.0] * (options.repeats or 2), bound=0.5 if options.short else 2.0)
        )
    return figures
