"""`muster study`: play a trace of days under several policies, and compare how they fared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from extender.cli.printing import OutputFormat, console, progress_bars, say, show_titled

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars

    from muster_lab.study.figures import Figures, Waits
    from muster_lab.study.player import Progress
    from muster_lab.study.policy import StudyPolicy
    from muster_lab.study.study import Reporting, Study
    from muster_lab.traces.trace import Trace

EXIT_UNREADABLE = 2

_STANDARD = ("fifo", "earmark", "easy", "conservative", "priority")


class Declare(StrEnum):
    """Which runtimes Muster is told."""

    TRACE = "trace"
    EXACT = "exact"
    NONE = "none"


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(study)


def study(  # noqa: PLR0913, PLR0917 - one parameter per option
    trace: Annotated[Path, typer.Argument(help="Trace: CSV as docs/studies.md says, or as `muster trace` makes it.")],
    nodes: Annotated[int, typer.Option(min=1, help="How many nodes the cluster has.")] = 512,
    gpus: Annotated[int, typer.Option(min=1, help="How many GPUs each node has.")] = 8,
    product: Annotated[
        str,
        typer.Option(help="Their label nvidia.com/gpu.product; without, all places are equally fast."),
    ] = "",
    rack: Annotated[int, typer.Option(min=0, help="Nodes of a rack, four racks a block; 0: no tiers.")] = 0,
    policy: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"A policy to play; repeatable. By default {', '.join(_STANDARD)}."),
    ] = None,
    load: Annotated[
        float | None, typer.Option(help="Stretch the times between submissions until the load is this; 1 is full.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Play only so many jobs, the first ones.")] = None,
    declare: Annotated[
        Declare, typer.Option(help="Runtimes that Muster is told: as the trace declares them, exact ones, or none.")
    ] = Declare.TRACE,
    checkpoint: Annotated[
        str | None, typer.Option(help="How often jobs save their progress whose line says nothing, such as 30m.")
    ] = None,
    failures: Annotated[
        float,
        typer.Option(min=0, help="How often nodes fail until the last job is submitted, in 1,000 days of a node."),
    ] = 0.0,
    repair: Annotated[str, typer.Option(help="How long a node that has failed is away.")] = "12h",
    spares: Annotated[int, typer.Option(min=1, help="Nodes that the policy `spares` keeps for repairs.")] = 1,
    output: Annotated[
        OutputFormat, typer.Option("--output", "-o", help="How to print the result.")
    ] = OutputFormat.TABLE,
) -> None:
    """Play a trace under several policies, and compare waits, utilisation, fairness and evictions.

    The admission itself decides, with the policy's settings and Queues; only API server and kube-scheduler are left
    out. Equal traces give equal results. Exit codes: 0 played, 2 refused trace or options.
    """
    from muster_lab.study.failures import FailureModel
    from muster_lab.study.fleet import Fleet
    from muster_lab.study.study import study as compare
    from muster_lab.study.study import study_json
    from muster_lab.traces.trace import TraceError

    chosen = [each.with_spares(spares) for each in _policies(policy or _STANDARD)]
    model = FailureModel(failures, _duration("--repair", repair))
    try:
        read = _read(trace, declare, checkpoint, limit)
        if load is not None:
            read = _at_load(read, nodes * gpus, load)
        with progress_bars() as bars:
            fleet = Fleet(nodes, gpus, product=product, rack=rack)
            result = compare(read, fleet, chosen, _reporting(bars, len(read.jobs)), model)
    except TraceError as error:
        _stop(str(error))
    for played in result.played:
        spent = f"{played.history.passes} passes, {played.history.cpu_seconds:.1f} CPU seconds"
        say(f"{played.policy.name}: {spent}", err=True)
    if output is OutputFormat.JSON:
        from muster_lab.cli.simulate import print_json

        print_json(study_json(result))
    else:
        show_study(console(), result)


def show_study(console: Console, result: Study) -> None:
    """Print a study for people."""
    from muster_lab.simulation.notation import format_duration

    trace, fleet = result.trace, result.fleet
    console.print(
        f"{len(trace.jobs)} jobs in {format_duration(round(trace.span))} on {fleet.nodes} x {fleet.gpus} GPUs, "
        f"a load of {trace.load(fleet.all_gpus):.2f}",
        highlight=False,
    )
    every = [played.figures for played in result.played]
    headings = ["", *(f">{figures.policy}" for figures in every)]
    show_titled(console, "Policies", headings, [(label, *map(write, every)) for label, write in _ROWS])
    sizes = max((figures.by_size for figures in every), key=len, default=())
    if sizes:
        names = [f"{size.least}" if size.least == size.most else f"{size.least}-{size.most}" for size in sizes]
        waits = [[size.waits for size in figures.by_size] for figures in every]
        title = "Mean and 95th percentile of waits, by GPUs: tenths of the jobs"
        show_titled(console, title, headings, _wait_rows(names, waits))
    queues = [*every[0].by_queue] if every else []
    if len(queues) > 1:
        waits = [[figures.by_queue[name] for name in queues] for figures in every]
        show_titled(console, "Mean and 95th percentile of waits, by queue", headings, _wait_rows(queues, waits))
    for figures in every:
        for reason, jobs in figures.waiting.items():
            console.print(f"{figures.policy}: {jobs} jobs never ended: {reason}", highlight=False)


def _wait_rows(names: Sequence[str], waits: Sequence[Sequence[Waits]]) -> Iterator[list[str]]:
    """Yield one row for each name, with the waits under each policy."""
    for place, name in enumerate(names):
        cells = (row[place] if place < len(row) else None for row in waits)
        yield [name, *("" if cell is None else f"{_time(cell.mean)} / {_time(cell.p95)}" for cell in cells)]


def _time(seconds: float) -> str:
    """Write a wait with two units at most: `3h12m`, `4m10s`, `12s`."""
    whole = round(seconds)
    if whole >= 3600:  # noqa: PLR2004 - an hour
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 60}m{whole % 60:02d}s" if whole >= 60 else f"{whole}s"  # noqa: PLR2004 - a minute


_ROWS: Sequence[tuple[str, Callable[[Figures], str]]] = (
    ("mean wait", lambda figures: _time(figures.waits.mean)),
    ("median wait", lambda figures: _time(figures.waits.median)),
    ("95 % wait at most", lambda figures: _time(figures.waits.p95)),
    ("longest wait", lambda figures: _time(figures.waits.longest)),
    ("mean bounded slowdown", lambda figures: f"{figures.slowdown:.1f}"),
    ("utilisation", lambda figures: f"{figures.utilisation:.1%}"),
    ("of what an ideal schedule does", lambda figures: f"{figures.of_bound:.1%}"),
    ("idle while jobs wait", lambda figures: f"{figures.idle_while_waiting:.1%}"),
    ("fragmentation of free GPUs", lambda figures: f"{figures.fragmentation:.1%}"),
    ("Jain's index over queues", lambda figures: f"{figures.jain:.3f}"),
    ("gangs evicted", lambda figures: f"{figures.evictions}"),
    ("GPU-hours lost, failures included", lambda figures: f"{figures.wasted_gpu_hours:.0f}"),
    ("GPU-hours lost to slow collectives", lambda figures: f"{figures.slowed_gpu_hours:.0f}"),
    ("interrupted by nodes that failed", lambda figures: f"{figures.interruptions}"),
    ("ran again after, mean", lambda figures: _time(figures.recovery.mean)),
    ("ran again after, 95 % at most", lambda figures: _time(figures.recovery.p95)),
    ("work that counted, of GPUs held", lambda figures: f"{figures.effective:.1%}"),
    ("last job ended after", lambda figures: _time(figures.makespan)),
)


def _policies(names: Sequence[str]) -> list[StudyPolicy]:
    from muster_lab.study.policy import POLICIES

    for name in names:
        if name not in POLICIES:
            said = "\n".join(f"  {policy.name}: {policy.says}" for policy in POLICIES.values())
            _stop(f"there is no policy '{name}'. There are:\n{said}")
    return [POLICIES[name] for name in dict.fromkeys(names)]


def _read(file: Path, declare: Declare, checkpoint: str | None, limit: int | None) -> Trace:
    from muster_lab.traces.csvfile import read_trace
    from muster_lab.traces.trace import Trace

    saved = None if checkpoint is None else _duration("--checkpoint", checkpoint)
    jobs = list(read_trace(file).jobs[:limit])
    if declare is not Declare.TRACE:
        jobs = [replace(job, declared=job.runtime if declare is Declare.EXACT else None) for job in jobs]
    if saved:
        jobs = [replace(job, checkpoint=job.checkpoint or saved) for job in jobs]
    return Trace.of(jobs)


def _duration(option: str, text: str) -> float:
    from muster_lab.simulation.notation import DurationError, parse_duration

    try:
        return parse_duration(text)
    except DurationError as error:
        _stop(f"{option}: {error}")


def _at_load(trace: Trace, gpus: int, load: float) -> Trace:
    from muster_lab.traces.trace import at_load

    return at_load(trace, gpus, load)


def _reporting(bars: Bars, jobs: int) -> Reporting:
    """Return what shows with a bar how far each policy has come."""

    def of(policy: StudyPolicy) -> Progress:
        bar = bars.add_task(policy.name, total=jobs)

        def told(ended: int, now: float, waiting: int) -> None:
            days = now / 86_400
            bars.update(bar, completed=ended, description=f"{policy.name}: day {days:.1f}, {waiting} jobs are there")

        return told

    return of


def _stop(message: str) -> NoReturn:
    say(f"muster study: {message}", err=True)
    raise typer.Exit(EXIT_UNREADABLE)
