"""`muster settings`: every setting with its default and what it is for, as a file to start from."""

from __future__ import annotations

import textwrap
from typing import Any

import typer

from extender.settings import Settings

_WIDTH = 100


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(settings)


def overrides(scheduler_names: list[str] | None, scheduler_lease: str | None) -> dict[str, Any]:
    """Return the settings that a command line gives, to go over those of a file."""
    given: dict[str, Any] = {}
    if scheduler_names:
        given["scheduler_names"] = tuple(scheduler_names)
    if scheduler_lease is not None:
        given["scheduler_lease"] = scheduler_lease
    return given


def settings() -> None:
    """Print every setting with its default and meaning, as YAML for `muster serve --config`."""
    typer.echo(render(), nl=False)


def render() -> str:
    """Return a settings file that holds every default, each under its explanation."""
    defaults = Settings().model_dump(mode="json")
    parts = []
    for name, field in Settings.model_fields.items():
        paragraph = " ".join((field.description or "").split())
        comment = textwrap.fill(paragraph, _WIDTH, initial_indent="# ", subsequent_indent="# ")
        value = "null" if defaults[name] is None else defaults[name]
        parts.append(f"{comment}\n{name}: {value}\n")
    return "\n".join(parts)
