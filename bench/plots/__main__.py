"""Draw the plots: `python -m bench.plots --results FILE... --into docs/images`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.plots import paper
from bench.plots.catalogue import PLOTS, Plot
from bench.plots.results import Results, ResultsError, load

#: What argparse returns for arguments that do not do.
_USAGE = 2


def main(arguments: Sequence[str] | None = None, plots: Sequence[Plot] = PLOTS) -> int:
    """Draw every plot whose figures there are; return 2 and say what measures the others if there are such."""
    parser = argparse.ArgumentParser(prog="python -m bench.plots", description="Plot what was measured, as SVG.")
    parser.add_argument(
        "--results",
        nargs="*",
        type=Path,
        default=[],
        metavar="FILE",
        help="what `python -m bench --output json` printed, not --short, since titles name the full sizes; of two with"
        " the same figure, the later one counts",
    )
    parser.add_argument("--into", type=Path, required=True, metavar="FOLDER", help="where the files go")
    parser.add_argument("--plot", action="append", choices=[plot.name for plot in plots], help="only this; repeatable")
    parser.add_argument("--png", action="store_true", help="write PNG beside SVG, to look at")
    chosen = parser.parse_args(arguments)
    try:
        results = load(chosen.results)
        wanted = [plot for plot in plots if plot.name in (chosen.plot or [plot.name])]
        complete = [_draw(plot, results, chosen.into, png=chosen.png) for plot in wanted]
    except ResultsError as error:
        sys.stderr.write(f"plots: {error}\n")
        return _USAGE
    return 0 if all(complete) else _USAGE


def _draw(plot: Plot, results: Results, folder: Path, *, png: bool) -> bool:
    """Write one plot, or say what it lacks; return whether it was written."""
    if missing := plot.missing(results):
        for arguments, names in missing.items():
            sys.stderr.write(
                f"plots: {plot.name} lacks {', '.join(names)}; measure with:"
                f' make bench ARGS="{arguments} --output json" > FILE\n'
            )
        return False
    folder.mkdir(parents=True, exist_ok=True)
    with paper.style():
        file = folder / f"{plot.name}.svg"
        paper.write(plot.draw(results), file, png=png)
    print(f"{file}: {file.stat().st_size / 1000:.0f} kB")
    return True


if __name__ == "__main__":
    sys.exit(main())
