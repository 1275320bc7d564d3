"""`muster demo`: the deadlock that Muster prevents, side by side, then a service to try on an embedded cluster."""

from __future__ import annotations

import asyncio
import sys
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from extender.cli.logs import LogFormat, LogLevel, configure_logs
from extender.cli.printing import OutputFormat, SteadyConsole, say, show_titled
from muster_lab.cli.simulate import connect, print_json

if TYPE_CHECKING:
    from rich.console import Console

    from muster_lab.cli.screens import Side
    from muster_lab.simulation.results import Result
    from muster_lab.simulation.scenario import Scenario
    from muster_lab.simulation.simulate import Playback

EXIT_FAILED = 1
EXIT_USAGE = 2

#: The scenario that is played, as it lies beside the simulation's code.
_SCENARIO = "two-jobs.yaml"

#: How the hour is shown on a terminal: in so many frames, each for so many seconds.
_FRAMES = 120
_FRAME_SECONDS = 0.05


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(demo)


def demo(
    *,
    once: Annotated[bool, typer.Option("--once", help="Stop after the comparison; start no service.")] = False,
    output: Annotated[
        OutputFormat, typer.Option("--output", "-o", help="How to print the comparison.")
    ] = OutputFormat.TABLE,
    host: Annotated[str, typer.Option(help="Address of the service.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the service.")] = 8085,
) -> None:
    """Show two jobs that deadlock with kube-scheduler alone and finish with Muster; then serve an embedded cluster.

    The comparison plays an hour of cluster time in a moment. The service is Muster as it is, on a simulated cluster
    where jobs keep arriving, until Ctrl-C. Exit codes: 0 done, 1 failed, 2 refused options.
    """
    configure_logs(LogLevel.ERROR, LogFormat.AUTO)
    if output is OutputFormat.JSON and not once:
        say("muster demo: --output json is the comparison alone; add --once", err=True)
        raise typer.Exit(EXIT_USAGE)
    scenario = demo_scenario()
    stock, muster = compare(scenario)
    if output is OutputFormat.JSON:
        print_json(comparison_json(stock.result, muster.result))
        return
    console = SteadyConsole()
    show_comparison(console, scenario, stock, muster)
    if not once:
        _serve(console, host, port)


def demo_scenario() -> Scenario:
    """Return the scenario of the demo, from the installed package."""
    from importlib.resources import files

    from muster_lab.simulation.scenario_file import read_scenario

    text = files("muster_lab.simulation").joinpath("scenarios", _SCENARIO).read_text(encoding="utf-8")
    return read_scenario(text, _SCENARIO)


def compare(scenario: Scenario) -> tuple[Playback, Playback]:
    """Play a scenario with kube-scheduler alone, then with Muster."""
    from muster_lab.simulation.simulate import record

    return record(scenario, None), record(scenario, connect)


def comparison_json(stock: Result, muster: Result) -> dict[str, Any]:
    """Return both results: the totals of each side by themselves and as its summary, the gangs of Muster's."""
    from muster_lab.simulation.results import result_json

    sides = {"stock": result_json(stock), "muster": result_json(muster)}
    document: dict[str, Any] = {name: {**side["summary"], "summary": side["summary"]} for name, side in sides.items()}
    document["muster"]["gangs"] = sides["muster"]["gangs"]
    return document


def show_comparison(console: Console, scenario: Scenario, stock: Playback, muster: Playback) -> None:
    """Print the comparison; on a terminal, play it first."""
    from rich.live import Live

    from muster_lab.cli.screens import Side, describe, draw

    console.print(
        f"[bold]{len(scenario.gangs)} training jobs at once, GPUs for one.[/] "
        "kube-scheduler places pod by pod; Muster starts a job whole or not at all."
    )
    sides = [
        Side("kube-scheduler alone", stock.moments, stock.capacity, scenario.gpu_hour_price),
        Side("kube-scheduler with Muster", muster.moments, muster.capacity, scenario.gpu_hour_price),
    ]
    if console.is_terminal:
        with Live(draw(sides, 0.0), console=console, auto_refresh=False) as live:
            asyncio.run(_play(live, sides, scenario.until))
    for side in sides:
        console.print(f"\n[bold]{side.title}[/]")
        for line in describe(side):
            console.print(line, highlight=False, markup=False)
    console.print()
    headings = (f"after {scenario.until / 3600:g} h", *(f">{side.title}" for side in sides))
    show_titled(console, "", headings, _totals(stock.result, muster.result))


async def _play(live: Any, sides: list[Side], until: float) -> None:  # noqa: ANN401 - rich is imported when it runs
    from muster_lab.cli.screens import draw

    for frame in range(_FRAMES + 1):
        live.update(draw(sides, until * frame / _FRAMES), refresh=True)
        await asyncio.sleep(_FRAME_SECONDS)


def _totals(*results: Result) -> list[tuple[str, ...]]:
    summaries = [result.summary for result in results]
    return [
        ("jobs done", *(f"{s.jobs_completed} of {s.jobs_submitted}" for s in summaries)),
        ("productive GPU-hours", *(f"{s.productive_gpu_hours:.2f}" for s in summaries)),
        ("idle GPU-hours", *(f"{s.idle_gpu_hours:.2f}" for s in summaries)),
        ("wasted", *(f"${s.wasted_cost:.2f}" for s in summaries)),
        ("rendezvous", *(f"${s.init_cost:.2f}" for s in summaries)),
    ]


def _serve(console: Console, host: str, port: int) -> None:
    """Run the service until it is told to stop."""
    from extender.cli.listening import ListenError, listen, run
    from muster_lab.cli.demo_service import serve_demo

    try:
        listener = listen(host, port)
    except ListenError as error:
        say(f"muster demo: {error}; choose another with --port", err=True)
        raise typer.Exit(EXIT_FAILED) from error
    called = sys.argv[0]
    program = called if PurePath(called).name == "muster" else "muster"
    raise typer.Exit(run(serve_demo(console, listener, program)))
