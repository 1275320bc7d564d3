"""Every `muster` command in the pages against the program: subcommand, options, number of arguments, choices."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from enum import Enum
from functools import cache
from inspect import isclass
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from extender.cli.commands import app
from tests.docs.conftest import PAGES, Page

#: Blocks in which lines are commands; in a console they begin with a prompt.
_SHELL, _CONSOLE = "sh", "console"
#: What ends one command of a line.
_ENDS = frozenset({"|", "||", "&", "&&", ";", ">", ">>", "2>", "<", ")"})
_CALLED = re.compile(r"(?:^|[\s/])muster ")
#: How the program is called.
_PROGRAMS = (["muster"], ["kubectl", "muster"], [".venv/bin/muster"])


def commands_of(page: Page) -> Iterator[list[str]]:
    """Yield the words after `muster` of each command in the page's blocks."""
    for block in page.blocks:
        if block.language not in {_SHELL, _CONSOLE}:
            continue
        for line in block.text.replace("\\\n", " ").splitlines():
            command = line.removeprefix("$ ")
            if _CALLED.search(command) and (block.language == _SHELL or command != line):
                yield from _split(command)


def _split(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word not in _ENDS:
            words.append(word)
            continue
        for program in _PROGRAMS:
            if words[: len(program)] == program:
                yield words[len(program) :]
        words = []


@cache
def _program() -> Any:
    """Return the command line as typer parses it."""
    return typer.main.get_command(app)


def refusal(words: list[str]) -> str:
    """Return what the program would say against a command, nothing if it would accept it."""
    command: Any = _program()
    rest = list(words)
    while isinstance(command, TyperGroup):
        if rest and rest[0].startswith("-"):
            return _misused(command, rest)
        if not rest and command.invoke_without_command:
            return ""
        if not rest or rest[0] not in command.commands:
            return f"no command {rest[:1]}"
        command = command.commands[rest.pop(0)]
    return _misused(command, rest)


def _misused(command: Any, words: list[str]) -> str:
    context = command.context_class(command, info_name=command.name)
    try:
        values, surplus, _ = command.make_parser(context).parse_args(list(words))
    except Exception as error:  # noqa: BLE001 - typer's own classes are private; each of them is a refusal
        return str(error)
    if surplus:
        return f"unexpected {surplus}"
    for parameter in command.params:
        given = values.get(str(parameter.name))
        kind = parameter.type_descriptor.annotation
        if isinstance(given, str) and isclass(kind) and issubclass(kind, Enum) and given not in {x.value for x in kind}:
            return f"{parameter.name}: {given}"
        if parameter.required and not given:
            return f"{parameter.name} is missing"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_command_in_a_block_is_accepted(page: Page) -> None:
    """A command line that somebody may copy names a subcommand, and has options and arguments that it takes."""
    refused = {" ".join(words): why for words in commands_of(page) if (why := refusal(words))}
    assert refused == {}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_option_in_the_text_exists(page: Page) -> None:
    """The options of a command that stands in the text in backticks are options of that command."""
    wrong = []
    for code in page.code:
        words = code.replace("|", " ").split()
        if words[:1] != ["muster"]:
            continue
        command: Any = _program()
        known = set()
        for word in words[1:]:
            if isinstance(command, TyperGroup) and word in command.commands:
                command = command.commands[word]
        for parameter in command.params:
            known |= {*parameter.opts, *parameter.secondary_opts}
        used = {re.split(r"[=\]]", word.lstrip("["))[0] for word in words[1:] if word.lstrip("[").startswith("--")}
        wrong += [f"{code}: {option}" for option in sorted(used - known - {"--help"})]
    assert wrong == []


def test_commands_are_found() -> None:
    """The tests above do find commands: in shell blocks, after a prompt, behind a pipe, with a comment."""
    (page,) = [page for page in PAGES if str(page) == "docs/install.md"]
    found = [" ".join(words) for words in commands_of(page)]
    assert "check-config scheduler-config/muster.yaml" in found
    assert "check-config -" in found
    assert list(_split("muster calibrate rack.txt --level rack | kubectl apply -f -  # and then")) == [
        ["calibrate", "rack.txt", "--level", "rack"]
    ]


@pytest.mark.parametrize(
    "line",
    [
        "dance",
        "check-config",
        "explain a/b c/d",
        "explain a/b --colour",
        "explain a/b --via hologram",
        "import slurm",
        "serve --port",
    ],
)
def test_a_wrong_command_is_refused(line: str) -> None:
    """The judge of the tests above tells a command that the program would refuse."""
    assert refusal(line.split())
