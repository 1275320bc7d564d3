"""What the Dockerfile says about the image, read without building it."""

from __future__ import annotations

import json
import re

import pytest
import typer

from extender.cli.commands import app
from tests.image.dockerfile import ROOT, Stage, arguments, read


@pytest.fixture(scope="module")
def build() -> Stage:
    """Return the stage that builds."""
    return read()[0]


@pytest.fixture(scope="module")
def final() -> Stage:
    """Return the stage that is shipped."""
    return read()[-1]


def test_everything_is_installed_from_locks_by_hash(build: Stage) -> None:
    """Every pip install names a lock with hashes, or the wheel that was just built without an index."""
    installs = [command for command in build.commands() if re.search(r"pip .* install ", command)]
    assert len(installs) == 3
    for command in installs:
        assert "--no-deps" in command
        assert "--require-hashes" in command or "--no-index /wheels/" in command
    assert not [command for command in build.commands() if re.search(r"apt|curl|wget", command)]


def test_nothing_is_built_or_installed_in_the_final_stage(final: Stage) -> None:
    """It copies the virtual environment, and that is all: no build tools, no package manager's traces."""
    assert final.all("RUN") == []
    assert [copy.text for copy in final.all("COPY")] == ["--from=build /opt/muster /opt/muster"]


def test_it_starts_as_nobody(final: Stage) -> None:
    """The user is a number, so that Kubernetes can check runAsNonRoot."""
    (user,) = final.all("USER")
    numbers = [int(number) for number in user.text.split(":")]
    assert all(number > 0 for number in numbers)


def test_both_stages_have_one_base_that_cannot_change(build: Stage, final: Stage) -> None:
    """A virtual environment works with the interpreter that made it; what a tag names may be another image tomorrow."""
    assert build.base == final.base == "${PYTHON_IMAGE}"
    assert re.fullmatch(r"python:3\.13\.\d+-slim@sha256:[0-9a-f]{64}", arguments()["PYTHON_IMAGE"])


def test_what_it_starts_is_a_command_of_the_program(final: Stage) -> None:
    """ENTRYPOINT and CMD together are a command line that the real program accepts."""
    (entrypoint,), (command,) = final.all("ENTRYPOINT"), final.all("CMD")
    words: list[str] = json.loads(entrypoint.text) + json.loads(command.text)
    program, *arguments = words
    assert program == "muster"
    group = typer.main.get_command(app)
    with group.make_context("muster", list(arguments)) as context:
        assert isinstance(group, typer.core.TyperGroup)
        name, chosen, rest = group.resolve_command(context, arguments)
        assert (name, rest) == ("serve", [])
        assert chosen is not None


def test_the_build_context_holds_what_is_copied(build: Stage) -> None:
    """Each source of a COPY exists, and .dockerignore lets it in."""
    let_in = {line[1:].rstrip("/") for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"}
    sources = [word.rstrip("/") for copy in build.all("COPY") for word in copy.words[:-1]]
    assert sources
    assert [source for source in sources if not (ROOT / source).exists()] == []
    assert set(sources) == let_in


def test_the_health_of_the_container_is_the_kubelets_affair(final: Stage) -> None:
    """Kubernetes ignores HEALTHCHECK; the probes are in the Deployment."""
    assert final.all("HEALTHCHECK") == []
