"""`muster trace`: make traces for `muster study` from published ones, or of one's own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from extender.cli.printing import say
from muster_lab.traces.trace import Converter, Published

if TYPE_CHECKING:
    from muster_lab.traces.trace import Trace

EXIT_UNREADABLE = 2

_Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where the trace goes; else standard output.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    trace = typer.Typer(name="trace", help="Make traces for `muster study`.", no_args_is_help=True)
    trace.command()(convert)
    trace.command()(generate)
    app.add_typer(trace)


def converters() -> Mapping[Published, Converter]:
    """Return what converts each published trace."""
    from muster_lab.traces import alibaba2020, alibaba2023, philly

    return {
        Published.ALIBABA_2020: alibaba2020.convert,
        Published.ALIBABA_2023: alibaba2023.convert,
        Published.PHILLY: philly.convert,
    }


def convert(
    kind: Annotated[Published, typer.Argument(help="Which trace it is.")],
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Its files, unpacked.")],
    output: _Output = None,
) -> None:
    """Convert a published trace to the format that docs/studies.md describes.

    alibaba-2020 takes pai_task_table.csv and, for submission times and users, pai_job_table.csv; alibaba-2023 takes
    openb_pod_list_*.csv; philly takes cluster_job_log as JSON, or flattened to CSV. What had to be left out or changed
    is told on standard error. Exit codes: 0 written, 2 a file cannot be read.
    """
    from muster_lab.traces.trace import TraceError

    try:
        conversion = converters()[kind](files)
    except TraceError as error:
        _stop(str(error))
    _write(conversion.trace, output)
    say(f"{len(conversion.trace.jobs)} jobs over {conversion.trace.span / 86_400:.1f} days", err=True)
    for remark, count in conversion.remarks.items():
        say(f"{count} {remark}", err=True)


def generate(  # noqa: PLR0913, PLR0917 - one parameter per option
    gangs: Annotated[int, typer.Option(min=1, help="How many gangs.")] = 10_000,
    nodes: Annotated[int, typer.Option(min=1, help="Nodes of the cluster that the load is for.")] = 512,
    gpus: Annotated[int, typer.Option(min=1, help="GPUs of each node.")] = 8,
    load: Annotated[float, typer.Option(help="GPUs in use if no gang waited, as a share of all.")] = 1.0,
    queues: Annotated[int, typer.Option(min=1, help="How many queues the gangs belong to.")] = 8,
    overestimate: Annotated[
        float, typer.Option(help="Owners declare their runtime times up to this factor; 1 is the truth.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="Equal options and seeds give equal traces.")] = 1,
    training: Annotated[
        bool, typer.Option("--training", help="Gangs communicate 10 to 40 % of a step, and have small pods too.")
    ] = False,
    output: _Output = None,
) -> None:
    """Make a synthetic trace with the heavy tails of the published ones.

    Exit codes: 0 written, 2 options that make no sense.
    """
    from muster_lab.traces import synthetic
    from muster_lab.traces.trace import TraceError

    recipe = synthetic.Recipe(gangs, nodes, gpus, load, queues, overestimate, seed, training)
    try:
        trace = synthetic.generate(recipe)
    except TraceError as error:
        _stop(str(error))
    _write(trace, output)


def _write(trace: Trace, output: Path | None) -> None:
    from muster_lab.traces.csvfile import write_trace

    if output is None:
        write_trace(trace, sys.stdout)
        return
    try:
        with output.open("w", encoding="utf-8", newline="") as opened:
            write_trace(trace, opened)
    except OSError as error:
        _stop(f"{output}: {error.strerror or error}")


def _stop(message: str) -> NoReturn:
    say(f"muster trace: {message}", err=True)
    raise typer.Exit(EXIT_UNREADABLE)
