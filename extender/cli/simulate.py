"""`muster simulate`: play a scenario in virtual time, with Muster or with kube-scheduler alone."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from extender.cli.logs import LogFormat, LogLevel, configure_logs

if TYPE_CHECKING:
    from rich.console import Console

    from extender.clock import Clock
    from extender.control.controller import Controller
    from extender.control.metrics import Metrics
    from extender.settings import Settings
    from extender.simulation.results import GangResult, Result
    from extender.simulation.scheduler.extender import Transport

EXIT_BAD_SCENARIO = 2


class SchedulerChoice(StrEnum):
    """Who schedules: kube-scheduler with Muster, or kube-scheduler alone."""

    MUSTER = "muster"
    STOCK = "stock"


class Output(StrEnum):
    """How the result is printed."""

    TABLE = "table"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(simulate)


def simulate(
    scenario: Annotated[Path, typer.Argument(help="Scenario file: nodes and gangs, as docs/simulation.md says.")],
    scheduler: Annotated[
        SchedulerChoice, typer.Option(help="Who schedules: kube-scheduler with Muster, or alone.")
    ] = SchedulerChoice.MUSTER,
    output: Annotated[Output, typer.Option("--output", "-o", help="How to print the result.")] = Output.TABLE,
) -> None:
    """Play a scenario in virtual time and say how its gangs fared.

    Muster itself runs for real, against an API server in memory and a model of kube-scheduler. Equal scenarios give
    equal results. Exit codes: 0 played, 2 refused scenario.
    """
    from rich.console import Console

    from extender.simulation.results import result_json
    from extender.simulation.scenario_file import ScenarioError, load_scenario
    from extender.simulation.simulate import simulate as play

    configure_logs(LogLevel.ERROR, LogFormat.AUTO)
    try:
        read = load_scenario(scenario)
    except ScenarioError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(EXIT_BAD_SCENARIO) from error
    result = play(read, connect if scheduler is SchedulerChoice.MUSTER else None)
    if output is Output.JSON:
        print_json(result_json(result))
    else:
        show_result(Console(), result)


def connect(controller: Controller, settings: Settings, metrics: Metrics, clock: Clock) -> Transport:
    """Put Muster's application in front of a simulated world's controller, within this process."""
    from extender.service.app import create_app
    from extender.simulation.transports import asgi_transport

    return asgi_transport(create_app(controller, settings, metrics, clock))


def print_json(document: dict[str, Any]) -> None:
    """Print a document as indented JSON; equal documents give equal bytes."""
    import orjson

    typer.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())


def show_result(console: Console, result: Result) -> None:
    """Print a result for people."""
    from rich.table import Table

    from extender.simulation.results import summary_json

    gangs = Table(title="Gangs", title_justify="left", header_style="bold")
    for column in ("gang", "phase", "admitted", "finished", "nodes", "why it waits"):
        gangs.add_column(column, overflow="fold")
    for gang in result.gangs:
        gangs.add_row(*_gang_row(gang))
    console.print(gangs)
    if result.evictions:
        evictions = Table(title="Evictions", title_justify="left", header_style="bold")
        for column in ("at", "pod", "node", "for"):
            evictions.add_column(column, overflow="fold")
        for eviction in result.evictions:
            victim = f"{eviction.namespace}/{eviction.name}"
            evictions.add_row(_time(eviction.at), victim, eviction.node, eviction.preemptor)
        console.print(evictions)
    totals = summary_json(result.summary)
    summary = Table(title="Summary", title_justify="left", show_header=False)
    for name, text in (
        ("jobs done", f"{totals['jobsCompleted']} of {totals['jobsSubmitted']}"),
        ("productive", f"{totals['productiveGpuHours']:.2f} GPU-hours"),
        ("rendezvous", f"{totals['initGpuHours']:.2f} GPU-hours, ${totals['initCost']:.2f}"),
        ("idle", f"{totals['idleGpuHours']:.2f} GPU-hours, ${totals['wastedCost']:.2f} wasted"),
    ):
        summary.add_row(name, text)
    console.print(summary)


def _gang_row(gang: GangResult) -> tuple[str, ...]:
    from rich.markup import escape

    placed = sorted({pod.node for pod in gang.pods if pod.node is not None})
    most = 4
    nodes = ", ".join(placed[:most]) + (f" and {len(placed) - most} more" if len(placed) > most else "")
    why = "" if gang.reason is None else escape(f"{gang.reason.code}: {gang.reason.message}")
    return (
        f"{gang.namespace}/{gang.name}",
        gang.phase.value,
        _time(gang.admitted_at),
        _time(gang.finished_at),
        nodes,
        why,
    )


def _time(seconds: float | None) -> str:
    from extender.simulation.duration import format_duration

    return "-" if seconds is None else format_duration(seconds)
