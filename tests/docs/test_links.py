"""Links between pages, and names of commands and targets."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

import pytest
from typer.main import get_command_name
from typer.models import CommandInfo

from extender.cli.commands import app
from tests.docs.conftest import PAGES, ROOT, Page, read_page

_MAKE = re.compile(r"\bmake ([a-z-]+)")
_MUSTER = re.compile(r"\bmuster ([a-z]+)\b")
#: Subcommands are named in code only; in prose `muster` stands for other things too.
_SHELL = frozenset({"sh", "console"})


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_relative_link_leads_to_a_file_and_a_heading(page: Page) -> None:
    """A link into the repository names a file that is there and, after `#`, one of its headings."""
    broken = []
    for link in page.links:
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.path.parent / name).resolve() if name else page.path
        if not target.exists() or (anchor and anchor not in read_page(target).anchors):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_make_target_exists(page: Page) -> None:
    """A page that says `make something` names a target that `make help` lists."""
    listed = subprocess.run(["make", "help"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    targets = set(re.findall(r"^  ([a-z-]+) ", listed, re.MULTILINE))
    code = "\n".join([*page.code, *(block.text for block in page.blocks if block.language in _SHELL)])
    assert set(_MAKE.findall(code)) - targets == set()


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_subcommand_exists(page: Page, subcommands: set[str]) -> None:
    """A page that says `muster something` names a subcommand, unless it says that there is none yet."""
    prose = re.sub(r"^## Not yet\n.*?(?=^## )", "", page.prose, flags=re.MULTILINE | re.DOTALL)
    code = [*re.findall(r"`([^`\n]+)`", prose), *(block.text for block in page.blocks if block.language in _SHELL)]
    lines = (line for text in code for line in text.splitlines())
    named = {name for line in lines for name in re.findall(r"^muster ([a-z][a-z-]*)", line)}
    assert named - subcommands == set()


@pytest.fixture(scope="session")
def subcommands() -> set[str]:
    """Return the program's subcommands, those that have some of their own included."""
    groups = {str(group.typer_instance.info.name) for group in app.registered_groups if group.typer_instance}
    return {_name(command) for command in app.registered_commands} | groups


def _name(command: CommandInfo) -> str:
    callback: Callable[..., object] | None = command.callback
    return command.name or get_command_name(callback.__name__ if callback else "")
