"""`muster check-config`: what in a KubeSchedulerConfiguration would break gangs."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from extender.cli.output import json_text
from extender.cli.printing import say
from extender.cli.serve import overrides

if TYPE_CHECKING:
    from muster_lab.tools.schedulerconfig.check import Checked
    from muster_lab.tools.schedulerconfig.finding import Expectations

EXIT_FINDINGS = 1
EXIT_UNREADABLE = 2

_STDIN = "-"


class CheckOutput(StrEnum):
    """How the findings are printed."""

    TEXT = "text"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(check_config)


def check_config(  # noqa: PLR0913, PLR0917 - one parameter per option
    file: Annotated[
        str, typer.Argument(help="KubeSchedulerConfiguration, or a ConfigMap that wraps one; - for standard input.")
    ],
    config: Annotated[Path | None, typer.Option(help="Muster's file of settings, as for `muster serve`.")] = None,
    scheduler_name: Annotated[
        list[str] | None, typer.Option(help="schedulerName of the pods that Muster manages; repeat for several.")
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of Muster's verbs.")] = 10261,
    scheduler_lease: Annotated[
        str | None, typer.Option(metavar="NAMESPACE/NAME", help="The Lease that Muster is told to follow, if any.")
    ] = None,
    replicas: Annotated[int, typer.Option(min=1, help="How many kube-schedulers run this file.")] = 1,
    output: Annotated[
        CheckOutput, typer.Option("--output", "-o", help="How to print the findings.")
    ] = CheckOutput.TEXT,
) -> None:
    """Say what in a kube-scheduler's configuration would break gangs, and what to write instead.

    Exit codes: 0 nothing that breaks gangs (there may be warnings), 1 errors found, 2 nothing could be checked.
    """
    from extender.settings import SettingsError
    from muster_lab.tools.schedulerconfig.check import NoConfigurationError, check_text

    name = "standard input" if file == _STDIN else file
    try:
        expected = _expectations(config, scheduler_name, port=port, lease=scheduler_lease, replicas=replicas)
        text = sys.stdin.read() if file == _STDIN else Path(file).read_text(encoding="utf-8")
        checked = check_text(text, expected)
    except SettingsError as error:
        _stop(str(error))
    except (NoConfigurationError, OSError, UnicodeDecodeError) as error:
        _stop(f"{name}: {getattr(error, 'strerror', None) or error}")
    if output is CheckOutput.JSON:
        _print_json(name, checked)
    else:
        _print_text(name, checked)
    if any(one.errors for one in checked):
        raise typer.Exit(EXIT_FINDINGS)


def _expectations(
    config: Path | None, scheduler_names: list[str] | None, *, port: int, lease: str | None, replicas: int
) -> Expectations:
    """Return what Muster is told; raise SettingsError if it is told nonsense."""
    from extender.settings import load_settings
    from muster_lab.tools.schedulerconfig.finding import Expectations

    settings = load_settings(config, overrides(scheduler_names, lease))
    return Expectations(
        scheduler_names=settings.scheduler_names,
        bind_hold_seconds=settings.bind_hold_seconds,
        http_timeout_seconds=settings.http_timeout_seconds,
        reservation_timeout_seconds=settings.reservation_timeout_seconds,
        port=port,
        lease=settings.scheduler_lease,
        replicas=replicas,
    )


def _stop(message: str) -> NoReturn:
    say(f"muster check-config: {message}", err=True)
    raise typer.Exit(EXIT_UNREADABLE)


def _print_text(name: str, checked: list[Checked]) -> None:
    """Print three lines a finding: where and how bad, what happens, what to write; then one line of summary."""
    for one in checked:
        place = f"{name} ({one.where})" if one.where else name
        for finding in one.findings:
            say(f"{place}: {finding.severity}: {finding.path or 'the document'}")
            say(f"    {finding.problem}")
            say(f"    instead: {finding.instead}")
        errors, warnings = one.errors, len(one.findings) - one.errors
        say(f"{place}: {_count(errors, 'error')}, {_count(warnings, 'warning')}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _print_json(name: str, checked: list[Checked]) -> None:

    documents: list[dict[str, Any]] = [
        {
            "where": one.where,
            "findings": [
                {
                    "severity": finding.severity,
                    "path": finding.path,
                    "problem": finding.problem,
                    "instead": finding.instead,
                }
                for finding in one.findings
            ],
        }
        for one in checked
    ]
    say(json_text({"file": name, "configurations": documents}))
