"""Run the measurements: `python -m bench --family NAME [--case NAME ...]`."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Protocol, cast

from rich.console import Console
from rich.table import Column, Table

from bench.controlplane.contenders import EXPLAINED, Contender
from bench.figures import Figure, ratios_first
from bench.options import Options, Say
from localcluster.errors import LocalClusterError


class Family(Protocol):
    """Measurements that belong together: a module that says by name what its cases measure, and a function."""

    CASES: Mapping[str, str]

    def measure(self, options: Options, say: Say) -> list[Figure]:
        """Measure the cases that `options` names, all of them if it names none."""


#: Where each family is. Loaded when it is asked for: one needs a control plane, another only numpy.
FAMILIES: Mapping[str, str] = {
    "service": "bench.service",
    "control-plane": "bench.controlplane",
    "placement": "bench.placement",
    "failover": "bench.failover",
    "fabric": "bench.fabric",
    "backfill": "bench.backfill",
    "preemption": "bench.preemption",
}

#: The family whose cases compare contenders.
_COMPARES = "control-plane"

#: Columns. Names of figures must stay whole, also where no terminal says how wide it is.
_WIDTH = 140


def show(figures: Sequence[Figure], console: Console) -> None:
    """Print the figures for people, ratios first."""
    table = Table(*(Column(title, no_wrap=True) for title in ("figure", "value", "min", "max", "unit", "bound")))
    for figure in ratios_first(figures):
        numbers = (f"{number:.3f}" for number in (figure.value, figure.low, figure.high))
        table.add_row(figure.name, *numbers, figure.unit, figure.verdict)
    console.print(table)


def _parser(families: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measure Muster against its budget.", epilog=EXPLAINED
    )
    parser.add_argument(
        "--family",
        choices=tuple(families),
        default=next(iter(families)),
        help="service: one Muster under synthetic load; control-plane: gangs on a real control plane, against other"
        " ways to place them; placement: plans and passes in one process; failover: the leading one of two replicas"
        " killed; fabric: predicted bandwidth of placements, against best fit by count; backfill: what starts of"
        " waiting gangs cost, and what it gains to let others use the gap; preemption: whom to evict, against every"
        " choice there is (default: %(default)s)",
    )
    parser.add_argument("--output", choices=("table", "json"), default="table", help="how to print the figures")
    parser.add_argument("--repeats", type=_at_least_one, help="how often each thing is measured")
    parser.add_argument(
        "--case", action="extend", nargs="+", default=[], metavar="NAME", help="measure only these (see --list)"
    )
    parser.add_argument(
        "--contender",
        action="extend",
        nargs="+",
        default=[],
        choices=tuple(Contender),
        metavar="NAME",
        help=f"measure only these of a case's contenders, in the family {_COMPARES}: {', '.join(Contender)}",
    )
    parser.add_argument("--short", action="store_true", help="small sizes: whether it works, not how fast")
    parser.add_argument(
        "--list", action="store_true", help="print the names of the family's cases, and what they measure"
    )
    return parser


def _at_least_one(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"a whole number, at least 1, is wanted, not {text!r}")
    return number


def main(arguments: Sequence[str] | None = None, families: Mapping[str, str] = FAMILIES) -> int:
    """Measure, print, and return 0 if every bound holds, 1 if one does not or a server failed."""
    parser = _parser(families)
    chosen = parser.parse_args(arguments)
    family = cast("Family", importlib.import_module(families[chosen.family]))
    if chosen.list:
        longest = max(map(len, family.CASES))
        print("\n".join(f"{name:<{longest}}  {measured}" for name, measured in family.CASES.items()))
        return 0
    if unknown := [name for name in chosen.case if name not in family.CASES]:
        parser.error(f"--case: {chosen.family} has no {', '.join(unknown)}; it has {', '.join(family.CASES)}")
    if chosen.contender and chosen.family != _COMPARES:
        parser.error(f"--contender: {chosen.family} compares none; {_COMPARES} does")
    options = Options(chosen.repeats, tuple(chosen.case), chosen.short, tuple(chosen.contender))
    try:
        figures = family.measure(options, _say)
    except LocalClusterError as error:
        sys.stderr.write(f"bench: {error}\n")
        return 1
    if chosen.output == "json":
        print(json.dumps({"figures": {figure.name: figure.as_json() for figure in figures}}, indent=2))
    else:
        show(figures, Console(width=_WIDTH))
    return int(any(figure.holds is False for figure in figures))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
