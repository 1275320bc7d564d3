"""`muster settings`: the settings file of `muster serve`, to start from, and whether one can be used."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Annotated

import typer

from extender.cli.printing import say

EXIT_REFUSED = 1
#: Width of the comments in a settings file.
_WIDTH = 100


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    commands = typer.Typer(name="settings")
    commands.callback(invoke_without_command=True)(settings)
    commands.command()(check)
    app.add_typer(commands)


def settings(context: typer.Context) -> None:
    """Print every setting with its default and meaning, as YAML for `muster serve --config`; or check such a file.

    Exit codes: 0 printed.
    """
    if context.invoked_subcommand is None:
        say(render(), nl=False)


def check(file: Annotated[Path, typer.Argument(help="YAML file of settings, as for `muster serve --config`.")]) -> None:
    """Say whether `muster serve` would start with a file of settings, what it changes, and all that is wrong in it.

    Exit codes: 0 it can be used, 1 it is refused.
    """
    from extender.settings import Settings, SettingsError, load_settings

    try:
        loaded = load_settings(file, {})
    except SettingsError as error:
        say(f"{error}", err=True)
        raise typer.Exit(EXIT_REFUSED) from error
    say(f"{file}: sound")
    given, defaults = loaded.model_dump(mode="json"), Settings().model_dump(mode="json")
    for name, value in given.items():
        if value != defaults[name]:
            say(f"  {name}: {json.dumps(value)} (default {json.dumps(defaults[name])})")


def render() -> str:
    """Return a settings file that holds every default, each under its explanation."""
    from extender.settings import Settings

    defaults = Settings().model_dump(mode="json")
    parts = []
    for name, field in Settings.model_fields.items():
        paragraph = " ".join((field.description or "").split())
        comment = textwrap.fill(paragraph, _WIDTH, initial_indent="# ", subsequent_indent="# ")
        value = json.dumps(defaults[name]) if defaults[name] in (None, "") else defaults[name]
        parts.append(f"{comment}\n{name}: {value}\n")
    return "\n".join(parts)
