"""`muster completion`: the script that has a shell complete commands, options and their values."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

_EPILOG = (
    "Examples: `muster completion bash > ~/.local/share/bash-completion/completions/muster`; "
    "`muster completion zsh > ~/.zfunc/_muster`, with ~/.zfunc in fpath; "
    "`muster completion fish > ~/.config/fish/completions/muster.fish`."
)


class Shell(StrEnum):
    """Which shell completes."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog=_EPILOG)(completion)


def completion(shell: Annotated[Shell, typer.Argument(help="The shell that shall complete.")]) -> None:
    """Print a script that has a shell complete what `muster` takes.

    Exit codes: 0 printed, 2 a shell that is not known.
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # used there, and in its docs

    typer.echo(get_completion_script(prog_name="muster", complete_var="_MUSTER_COMPLETE", shell=shell.value))
