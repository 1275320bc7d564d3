"""`python -m bench.study run|draw|table`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.plots import paper
from bench.study import drawing
from bench.study.documents import StudyFileError, load
from bench.study.run import LOADS, NAMES, play
from bench.study.tables import tables
from muster_lab.traces.synthetic import Recipe

_USAGE = 2
_PLOTS = {"study-waits": drawing.waits, "study-backlog": drawing.backlog}


def main(arguments: Sequence[str] | None = None) -> int:
    """Play, draw or write tables; return 2 for files that hold no study."""
    chosen = _parser().parse_args(arguments)
    if chosen.command == "run":
        recipe = Recipe(gangs=chosen.gangs, nodes=chosen.nodes, seed=chosen.seed)
        play(recipe, chosen.load or LOADS, chosen.policy or NAMES, chosen.into)
        return 0
    try:
        studies = load(chosen.files)
    except StudyFileError as error:
        sys.stderr.write(f"study: {error}\n")
        return _USAGE
    if chosen.command == "table":
        sys.stdout.write(tables(studies))
        return 0
    chosen.into.mkdir(parents=True, exist_ok=True)
    for name, draw in _PLOTS.items():
        with paper.style():
            paper.write(draw(studies), chosen.into / f"{name}.svg", png=chosen.png)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.study", description="The study of docs/studies.md.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="play it; policies that were played before are kept")
    run.add_argument("--into", type=Path, required=True, metavar="FOLDER", help="where study-LOAD.json goes")
    run.add_argument("--load", type=float, action="append", help=f"repeatable; by default {LOADS}")
    run.add_argument("--policy", action="append", choices=NAMES, help="repeatable; by default all")
    run.add_argument("--gangs", type=int, default=Recipe().gangs)
    run.add_argument("--nodes", type=int, default=Recipe().nodes)
    run.add_argument("--seed", type=int, default=Recipe().seed)
    draw = commands.add_parser("draw", help="draw study-waits.svg and study-backlog.svg")
    draw.add_argument("files", type=Path, nargs="+", metavar="FILE")
    draw.add_argument("--into", type=Path, required=True, metavar="FOLDER")
    draw.add_argument("--png", action="store_true", help="write PNG beside SVG, to look at")
    table = commands.add_parser("table", help="print the tables, in Markdown")
    table.add_argument("files", type=Path, nargs="+", metavar="FILE")
    return parser


if __name__ == "__main__":
    sys.exit(main())
