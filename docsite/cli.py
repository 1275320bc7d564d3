"""The reference of the command line: every command with its arguments, options, defaults and exit codes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from inspect import isclass
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperArgument, TyperGroup, TyperOption

from docsite.markdown import anchor, cell, code, codes, page, table
from extender.cli.commands import app

_INTRO = """
`muster COMMAND --help` says the same. Installed as `kubectl-muster` on the `PATH`, every command is also one of
kubectl's: `kubectl muster COMMAND`.
"""
_EXIT_CODES = re.compile(r"\s*Exit codes: (.+?)\.?\s*\Z", re.DOTALL)
#: One exit code and what it means: `0 said`; the next one begins after a comma or semicolon.
_EXIT_CODE = re.compile(r"(?:^|[,;] (?:and )?)(\d+) ((?:(?![,;] (?:and )?\d).)+)", re.DOTALL)
#: The help panel of the options by which a running Muster is found.
_CONNECTION, _CONNECTION_HEADING = "Connection", "Connection options"


def commands() -> Iterator[tuple[str, Any]]:
    """Yield every command that can be run, as (its words without `muster`, what typer knows of it)."""
    root = typer.main.get_command(app)
    yield from _walk("", root)


def _walk(words: str, command: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - typer's own class is private
    if not isinstance(command, TyperGroup):
        yield words, command
        return
    if command.invoke_without_command and words:
        yield words, command
    for name, inner in command.commands.items():
        if not inner.hidden:
            yield from _walk(f"{words} {name}".strip(), inner)


def render() -> str:
    """Return the page."""
    every = sorted(commands())
    rows = [
        (f"[{code(f'muster {words}')}](#{anchor(f'muster {words}')})", _summary(command)) for words, command in every
    ]
    return page(
        "Command line",
        _INTRO,
        table(("command", "does"), rows),
        *(section(words, command) for words, command in every),
        *_connection(every),
    )


def _summary(command: Any) -> str:  # noqa: ANN401 - see _walk
    return cell((command.help or "").partition("\n\n")[0])


def section(words: str, command: Any) -> str:  # noqa: ANN401 - see _walk
    """Return the section of one command: usage, help, arguments, options, exit codes."""
    text = command.help or ""
    found = _EXIT_CODES.search(text)
    prose = text[: found.start()] if found else text
    arguments = [each for each in command.params if isinstance(each, TyperArgument)]
    options = [each for each in _options(command) if each.rich_help_panel != _CONNECTION]
    parts = [f"## muster {words}", f"```text\n{usage(words, arguments)}\n```", _prose(prose)]
    if arguments:
        rows = [(code(_metavar(each)), "" if each.required else "optional", _help(each)) for each in arguments]
        parts.append(table(("argument", "", "meaning"), rows))
    if options:
        parts.append(_option_table(options))
    if len(options) < len(_options(command)):
        parts.append(f"And the [connection options](#{anchor(_CONNECTION_HEADING)}).")
    if command.epilog:
        parts.append(_prose(command.epilog))
    if found:
        told = [(number, cell(meaning)) for number, meaning in _EXIT_CODE.findall(" ".join(found[1].split()))]
        parts.append(table(("exit code", "meaning"), told))
    return "\n\n".join(parts)


def _connection(every: list[tuple[str, Any]]) -> Iterator[str]:
    """Yield a section with the options that all commands share which ask a running Muster."""
    shared: dict[str, TyperOption] = {}
    for _, command in every:
        for option in _options(command):
            if option.rich_help_panel == _CONNECTION:
                shared.setdefault(str(option.name), option)
    if shared:
        yield f"## {_CONNECTION_HEADING}"
        yield "Where a running Muster is found. How the ways differ: [the command line](../command-line.md)."
        yield _option_table(list(shared.values()))


def _option_table(options: list[TyperOption]) -> str:
    rows = [(_names(each), _value(each), _help(each)) for each in options]
    return table(("option", "value", "meaning"), rows)


def _options(command: Any) -> list[TyperOption]:  # noqa: ANN401 - see _walk
    return [each for each in command.params if isinstance(each, TyperOption) and not each.hidden]


def usage(words: str, arguments: list[TyperArgument]) -> str:
    """Return how a command is called."""
    names = [_metavar(each) if each.required else f"[{_metavar(each)}]" for each in arguments]
    return " ".join(["muster", words, "[OPTIONS]", *names])


def _prose(text: str) -> str:
    r"""Return a command's help as paragraphs; one that typer shall not wrap (it begins with `\b`) stays as it is."""
    parts = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        if paragraph.startswith("\b"):
            parts.append(f"```text\n{paragraph.removeprefix(chr(8)).strip(chr(10))}\n```")
        else:
            parts.append(" ".join(paragraph.split()))
    return "\n\n".join(part for part in parts if part)


def _metavar(argument: TyperArgument) -> str:
    name = argument.metavar or str(argument.name).upper()
    return f"{name}..." if argument.nargs != 1 and "..." not in name else name


def _names(option: TyperOption) -> str:
    both = [*sorted(option.opts, key=len, reverse=True), *option.secondary_opts]
    return codes(both)


def _value(option: TyperOption) -> str:
    """Return what an option takes: the words, or what is typed in its place."""
    if option.is_flag:
        return (
            ""
            if not option.secondary_opts
            else f"{code(option.opts[0] if option.default else option.secondary_opts[0])} by default"
        )
    kind = option.type_descriptor.annotation
    if isclass(kind) and issubclass(kind, Enum):
        takes = codes(str(each.value) for each in kind)
    elif option.metavar:
        takes = code(option.metavar)
    else:
        takes = "file" if kind is Path else {int: "number", float: "number"}.get(kind, "text")
    default = option.default
    if default is None or not str(default) or callable(default) or default == []:
        return takes
    return f"{takes}; default {code(str(default.value if isinstance(default, Enum) else default))}"


def _help(parameter: TyperArgument | TyperOption) -> str:
    text = cell(parameter.help or "")
    envvar = getattr(parameter, "envvar", None)
    if envvar:
        text += f" Environment: {codes([envvar] if isinstance(envvar, str) else envvar)}."
    return text.strip()
