"""Draw where Muster spends its time on one gang: `python -m bench.flame --into docs/images/flame-gang-1000.svg`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import uvloop
from rich.console import Console
from rich.table import Column, Table

from bench.controlplane.cases import Comparison
from bench.controlplane.catalogue import FULL, SHORT
from bench.controlplane.contenders import Contender
from bench.controlplane.runs import Run, place
from bench.controlplane.stage import Arena
from bench.controlplane.workload import Workload
from bench.flame.drawing import draw
from bench.flame.recording import RATE, recording
from bench.flame.stacks import FoldedError, Share, Stacks, fold, module_folders, parse, telling, without_common_callers
from bench.options import Say
from localcluster.errors import LocalClusterError

_CASE = "gang-1000"
#: Rows of the table; functions that have more of the time than this, in percent, only start what runs.
_ROWS, _ALWAYS = 25, 99.0
#: Columns of the table. Names of functions must stay whole, also where no terminal says how wide it is.
_WIDTH = 140


def main(arguments: Sequence[str] | None = None) -> int:
    """Record one gang, write the files, print the table, and return 0, or 1 if something could not be run."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.flame",
        description="Sample Muster with py-spy while one gang starts on a real control plane, and draw a flame graph.",
    )
    parser.add_argument("--into", type=Path, required=True, metavar="FILE", help="where the SVG goes")
    parser.add_argument("--raw", type=Path, metavar="FILE", help="write the folded stacks, too; speedscope reads them")
    parser.add_argument("--short", action="store_true", help="a small gang: whether it works, not where time goes")
    chosen = parser.parse_args(arguments)
    case = cast("Comparison", (SHORT if chosen.short else FULL)[_CASE])
    try:
        stacks, run = record(case, _say)
    except (LocalClusterError, FoldedError) as error:
        sys.stderr.write(f"flame: {error}\n")
        return 1
    samples = sum(stacks.values())
    title = f"Muster while one gang of {run.pods:,} pods starts on {case.nodes:,} nodes"
    subtitle = f"{samples:,} samples, {RATE} a second while it computed or waited for a processor, by py-spy"
    _write(chosen.into, draw(without_common_callers(stacks), title, subtitle))
    if chosen.raw is not None:
        _write(chosen.raw, fold(stacks))
    print(f"{title}: all bound after {run.seconds:.2f} s; {subtitle}")
    show(telling(stacks, _ALWAYS)[:_ROWS], Console(width=_WIDTH))
    return 0


def record(case: Comparison, say: Say) -> tuple[Stacks, Run]:
    """Have Muster place the workload of a case once, sampled from before the first creation until all are bound."""
    say(f"starting a control plane with {case.nodes:,} nodes")
    with tempfile.TemporaryDirectory(prefix="muster-flame-") as folder, Arena(case.nodes) as arena:
        say(f"sampling Muster while it places {case.workload.pods:,} pods")
        return uvloop.run(_record(arena, case.workload, Path(folder)))


async def _record(arena: Arena, workload: Workload, folder: Path) -> tuple[Stacks, Run]:
    async with arena.stage(Contender.MUSTER) as stage:
        # Attaching holds up this event loop, on which nothing happens yet.
        with recording(stage.pids["muster"], folder) as taken:
            run = await place(stage, workload)
        return parse(taken.file.read_text(encoding="utf-8"), module_folders()), run


def show(rows: Sequence[Share], console: Console) -> None:
    """Print which functions had most of the time, with what they called."""
    table = Table(
        Column("function", no_wrap=True), Column("inclusive %", justify="right"), Column("own %", justify="right")
    )
    for row in rows:
        table.add_row(row.function, f"{row.inclusive:.1f}", f"{row.own:.1f}")
    console.print(table)


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    print(f"{file}: {len(text.encode()) / 1000:.0f} kB")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
