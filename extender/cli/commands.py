"""The command line put together: Muster's own commands, and those that installed packages plug into it.

A package adds commands by entry points of the group `muster.commands`; each names a module with a function
`register(app)`. One that cannot be loaded costs only its own command: `muster serve` runs whatever else is installed.
"""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any, Protocol

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException
from typer.models import CommandInfo

from extender.cli import (
    actions,
    capacity,
    defrag,
    events,
    explain,
    gangs,
    history,
    init,
    nodes,
    queues,
    serve,
    settings,
    snapshot,
    status,
    top,
    watch,
)
from extender.cli.options import did_you_mean, with_options
from extender.cli.printing import say

HELP = (
    "Gang-schedule GPU workloads with the kube-scheduler that you run. "
    "Installed as kubectl-muster too, which kubectl runs as `kubectl muster`."
)

#: The group of entry points that name plug-ins.
PLUGINS = "muster.commands"

_EXIT_FAILED, _EXIT_USAGE = 1, 2
#: How typer refuses a word that is not one of those that there are.
_NOT_ONE_OF = re.compile(r"'([^']*)' is not one of (.*)\.")

_COMPLETION_EPILOG = (
    "Examples: `muster completion bash > ~/.local/share/bash-completion/completions/muster`; "
    "`muster completion zsh > ~/.zfunc/_muster`, with ~/.zfunc in fpath; "
    "`muster completion fish > ~/.config/fish/completions/muster.fish`."
)


class Command(Protocol):
    """A module with commands."""

    def register(self, app: typer.Typer) -> None:
        """Add them to the command line."""


class Shell(StrEnum):
    """Which shell completes."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="The shell that is to complete.")]) -> None:
    """Print a script that has a shell complete what `muster` takes.

    Exit codes: 0 printed, 2 a shell that is not known.
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # used there, and in its docs

    say(get_completion_script(prog_name="muster", complete_var="_MUSTER_COMPLETE", shell=shell.value))


def command_line(plugins: Iterable[EntryPoint]) -> typer.Typer:
    """Return the command line with `plugins`, in the order of `muster --help`: what is asked most comes first."""
    built = typer.Typer(
        name="muster",
        cls=Commands,
        help=HELP,
        no_args_is_help=True,
        pretty_exceptions_show_locals=False,  # among them are tokens and request bodies
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    built.callback()(_options)
    asking = (status, gangs, queues, nodes, top, capacity, events, watch, explain, history, defrag, snapshot)
    _add(built, "Ask a running Muster", asking)
    _add(built, "Act, by the API server", (actions,))
    _add(built, "Run Muster", (init, serve, settings))
    built.command(epilog=_COMPLETION_EPILOG, rich_help_panel="Run Muster")(completion)
    for plugin in sorted(plugins, key=lambda each: each.name):
        try:
            _add(built, "Simulate, study, convert", (plugin.load(),))
        except Exception as error:  # noqa: BLE001 - what other packages do when they are imported is their affair
            _add_broken(built, plugin, error)
    return built


def _add(built: typer.Typer, panel: str, modules: Sequence[Command]) -> None:
    """Add the commands of modules under one heading of `muster --help`."""
    commands, groups = len(built.registered_commands), len(built.registered_groups)
    for module in modules:
        module.register(built)
    for command in built.registered_commands[commands:]:
        command.rich_help_panel = panel
        _complete(command)
    for group in built.registered_groups[groups:]:
        group.rich_help_panel = panel
        for command in (group.typer_instance or built).registered_commands:
            _complete(command)


def _complete(command: CommandInfo) -> None:
    """Give a command its shared options, and help that is wrapped once, where it is shown."""
    if command.callback is not None:
        command.callback = with_options(command.callback)
    text = inspect.cleandoc(command.help or (command.callback and command.callback.__doc__) or "")
    command.help = "\n\n".join(
        part if part.startswith("\b") else " ".join(part.split()) for part in re.split(r"\n\s*\n", text)
    )
    command.cls = HintingCommand


class Commands(TyperGroup):
    """The commands: arguments that cannot be used are told in one line, as all else that goes wrong."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - the classes are private to typer
        """Read what is in front of the command."""
        with _in_one_line():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - the class is private to typer
        """Run the command."""
        with _in_one_line():
            return super().invoke(ctx)


@contextlib.contextmanager
def _in_one_line() -> Iterator[None]:
    """End the command line with one line about arguments that cannot be used."""
    try:
        yield
    except TyperException as error:
        said = error.message
        if not said or "\n" in said:  # the help, where no command is given
            raise
        context = getattr(error, "ctx", None)
        path = "muster" if context is None else context.command_path
        if (option := getattr(error, "option_name", "")) and hasattr(error, "possibilities"):
            known = [] if context is None else [word for each in context.command.params for word in each.opts]
            hint = did_you_mean(option, known)
            said = f"there is no option {option}{hint if hint.endswith('?') else ''}"
        elif isinstance(error, typer.BadParameter):
            said = error.format_message()
        say(f"{path}: {said[:1].lower()}{said[1:]} ({path} --help says more)", err=True)
        raise typer.Exit(_EXIT_USAGE) from error


class HintingCommand(TyperCommand):
    """A command that says which value was probably meant where one of a few was expected; its flags have no type."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 - the classes are private to typer
        """Return the arguments and options."""
        found = super().get_params(ctx)
        for each in found:
            if getattr(each, "is_flag", False) and each.metavar is None:
                each.metavar = ""
        return found

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - the class is private to typer
        """Read a command line."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            if found := _NOT_ONE_OF.fullmatch(error.message):
                known = re.findall(r"'([^']*)'", found[2])
                if (hint := did_you_mean(found[1], known)).endswith("?"):
                    error.message = error.message.removesuffix(".") + hint
            raise
        except TyperException as error:
            if getattr(error, "ctx", None) is None:  # the parser of words knows none
                vars(error)["ctx"] = ctx
            raise


def _add_broken(built: typer.Typer, plugin: EntryPoint, error: Exception) -> None:
    """Add a command that says why it is missing."""
    package = plugin.dist.name if plugin.dist else plugin.value
    problem = f"{type(error).__name__}: {error}"

    def broken() -> None:
        say(f"muster {plugin.name} cannot be loaded from {package} ({plugin.value}): {problem}", err=True)
        raise typer.Exit(_EXIT_FAILED)

    built.command(
        plugin.name,
        help=f"Cannot be loaded from {package}.",
        rich_help_panel="Broken plug-ins",
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(broken)


def _show_version(*, wanted: bool) -> None:
    if wanted:
        from extender import __version__

        say(f"muster {__version__}")
        raise typer.Exit


def _options(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=lambda wanted: _show_version(wanted=wanted),
            is_eager=True,
            help="Show the version and stop.",
        ),
    ] = False,
) -> None:
    del version  # its callback has done everything


app = command_line(entry_points(group=PLUGINS))
