"""`muster simulate`: play a scenario in virtual time, with Muster or with kube-scheduler alone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from extender.cli.logs import LogFormat, LogLevel, configure_logs
from extender.cli.output import json_text
from extender.cli.printing import OutputFormat, console, progress_bars, say
from muster_lab.cli.simulation_tables import show_result, show_timeline

if TYPE_CHECKING:
    from extender.clock import Clock
    from extender.control.controller import Controller
    from extender.control.metrics import Metrics
    from extender.settings import Settings
    from muster_lab.simulation.results import Result
    from muster_lab.simulation.scenario import Scenario
    from muster_lab.simulation.scheduler.extender import Transport
    from muster_lab.simulation.simulate import Playback
    from muster_lab.simulation.world import Connect

EXIT_BAD_SCENARIO = 2


class SchedulerChoice(StrEnum):
    """Who schedules: kube-scheduler with Muster, or kube-scheduler alone."""

    MUSTER = "muster"
    STOCK = "stock"


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(simulate)


def simulate(  # noqa: PLR0913 - one parameter per option
    scenario: Annotated[Path, typer.Argument(help="Scenario file: nodes and gangs, as docs/simulation.md says.")],
    scheduler: Annotated[
        SchedulerChoice, typer.Option(help="Who schedules: kube-scheduler with Muster, or alone.")
    ] = SchedulerChoice.MUSTER,
    output: Annotated[
        OutputFormat, typer.Option("--output", "-o", help="How to print the result.")
    ] = OutputFormat.TABLE,
    *,
    timeline: Annotated[
        bool, typer.Option("--timeline", help="Also say what gangs and queues held whenever that changed.")
    ] = False,
    picture: Annotated[
        Path | None, typer.Option(help="Also draw the cluster with a gang on it into this file (SVG).")
    ] = None,
    gang: Annotated[
        str | None, typer.Option(help="NAMESPACE/NAME of the gang to draw; may be left out if there is only one.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Also write a page with timeline, utilisation, costs and gangs into this file (HTML)."),
    ] = None,
    telemetry: Annotated[
        Path | None, typer.Option(help="Also write what each gang did from when to when into this file (CSV).")
    ] = None,
    at: Annotated[
        str | None, typer.Option(help="When to draw it, such as 30m; by default when the gang has started, or the end.")
    ] = None,
) -> None:
    """Play a scenario in virtual time and say how its gangs fared.

    Muster itself runs for real, against an API server in memory and a model of kube-scheduler. Equal scenarios give
    equal results. Exit codes: 0 played, 2 refused scenario or options.
    """
    from muster_lab.simulation.results import result_json, timeline_json
    from muster_lab.simulation.scenario_file import ScenarioError, load_scenario
    from muster_lab.simulation.simulate import record
    from muster_lab.simulation.simulate import simulate as play

    configure_logs(LogLevel.ERROR, LogFormat.AUTO)
    try:
        read = load_scenario(scenario)
        sitting = None if picture is None else Sitting.of(read, gang, at)
    except (ScenarioError, SittingError) as error:
        say(str(error), err=True)
        raise typer.Exit(EXIT_BAD_SCENARIO) from error
    if picture is None and (gang is not None or at is not None):
        say("muster simulate: --gang and --at say what to draw; add --picture FILE", err=True)
        raise typer.Exit(EXIT_BAD_SCENARIO)
    way = connect if scheduler is SchedulerChoice.MUSTER else None
    recorded = timeline or report is not None or telemetry is not None
    with progress_bars() as bars:
        bar = bars.add_task(scenario.name, total=read.until)
        told = None if bars.disable else lambda seconds: bars.update(bar, completed=seconds)
        played = record(read, way, told) if recorded else None
        result = play(read, way, told) if played is None else played.result
    moments = () if played is None else played.moments
    if played is not None:
        write_reports(report, telemetry, scenario, read, played)
    if picture is not None and sitting is not None:
        write_picture(picture, sitting, read, way, result)
    if output is OutputFormat.JSON:
        print_json({**result_json(result), **({"timeline": timeline_json(moments)} if timeline else {})})
    else:
        show_result(console(), result)
        if timeline:
            show_timeline(console(), moments)


class SittingError(ValueError):
    """Options that name no gang, or no moment; the message names the option."""


@dataclass(frozen=True, slots=True)
class Sitting:
    """What is to be drawn: a gang by its key, and when (seconds since the start; None: when it has started)."""

    gang: str
    at: float | None

    @classmethod
    def of(cls, scenario: Scenario, gang: str | None, at: str | None) -> Sitting:
        """Read the command line; raise SittingError."""
        from muster_lab.simulation.notation import DurationError, parse_duration

        keys = [spec.key for spec in scenario.gangs]
        if gang is None and len(keys) != 1:
            raise SittingError(f"muster simulate: --picture needs --gang: there are {len(keys)} gangs")
        key = keys[0] if gang is None else gang if "/" in gang else f"default/{gang}"
        if key not in keys:
            raise SittingError(f"muster simulate: --gang {gang}: the scenario has no such gang")
        try:
            when = None if at is None else parse_duration(at)
        except DurationError as error:
            raise SittingError(f"muster simulate: --at: {error}") from error
        if when is not None and when > scenario.until:
            raise SittingError(f"muster simulate: --at {at} is after the end of the scenario (until)")
        return cls(key, when)


def write_picture(file: Path, sitting: Sitting, scenario: Scenario, way: Connect | None, result: Result) -> None:
    """Play the scenario again, up to the moment that is to be drawn, and draw it."""
    from extender.explain.drawing.svg import render
    from muster_lab.simulation.simulate import portray

    started = next(gang.admitted_at for gang in result.gangs if f"{gang.namespace}/{gang.name}" == sitting.gang)
    moment = next((time for time in (sitting.at, started) if time is not None), scenario.until)
    _write(file, render(portray(scenario, way, sitting.gang, moment)), "--picture")


def write_reports(
    page: Path | None, table: Path | None, scenario_file: Path, scenario: Scenario, played: Playback
) -> None:
    """Write what was played as a page and as a table, where they are wanted."""
    from muster_lab.report.page import report_page
    from muster_lab.report.telemetry import telemetry, telemetry_csv

    ended = [gang.finished_at for gang in played.result.gangs]
    last = max((time for time in ended if time is not None), default=0.0)
    found = telemetry(played, scenario.until if None in ended else last)
    if page is not None:
        text = report_page(scenario_file.name, played.result, found, scenario.gpu_hour_price)
        _write(page, text, "--report")
    if table is not None:
        _write(table, telemetry_csv(found), "--telemetry")


def _write(file: Path, text: str, option: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        say(f"muster simulate: {option} {file}: {error.strerror or error}", err=True)
        raise typer.Exit(EXIT_BAD_SCENARIO) from error


def connect(controller: Controller, settings: Settings, metrics: Metrics, clock: Clock) -> Transport:
    """Put Muster's application in front of a simulated world's controller, within this process."""
    from extender.service.app import create_app
    from muster_lab.simulation.transports import asgi_transport

    return asgi_transport(create_app(controller, settings, metrics, clock))


def print_json(document: dict[str, Any]) -> None:
    """Print a document as indented JSON; equal documents give equal bytes."""
    say(json_text(document))
