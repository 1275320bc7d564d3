"""What README.md shows of the demo's service against what that answers, at the same moment in virtual time."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping

import pytest
from typer.testing import CliRunner

from extender.cli.commands import app
from tests.docs.conftest import ROOT, read_page
from tests.docs.demo_moment import answers_at, serving

#: When the page's moment is (seconds), and under which heading it stands.
MOMENT, SECTION = 190.0, "Ask it something"
URL = "http://127.0.0.1:8085"

#: What the commands of the page read.
READS = (
    "/readyz",
    "/metrics",
    "/api/v1/status",
    "/api/v1/gangs",
    "/api/v1/queues",
    "/api/v1/gangs/frontier/moe-1t/explain?suggestions=true",
    "/api/v1/gangs/serving/serve-chat/explain?suggestions=true",
)

#: Ages, and how far ahead a start is: a process takes its time to print.
_AGE = re.compile(r"\b\d+[smh]\w*|\bnow\b")

#: curl as a shell sees it: it prints what it is called with.
_CURL = "curl() { printf '%s\\0' \"$@\"; }"

Session = list[tuple[str, list[str]]]


def session() -> Session:
    """Return the commands of the section, each with the lines that the page shows below it."""
    found: Session = []
    section = read_page(ROOT / "README.md").sections[SECTION]
    for block in re.findall(r"^```console\n(.*?)^```$", section, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif _is_open(found[-1][0]):
                found[-1] = (f"{found[-1][0]}\n{line}", [])
            else:
                found[-1][1].append(line)
    return found


def calls(commands: Session) -> Iterator[tuple[str, str, bytes, list[str]]]:
    """Yield each call of curl: the command, the path, the body if there is one, and what the page shows."""
    said: list[str] = []
    for command, shown in commands:
        if re.match(r"\w+=", command):
            said.append(command)
        if not command.startswith("curl "):
            continue
        script = "\n".join([_CURL, *said, command.partition(" | ")[0]])
        ran = subprocess.run(["/bin/bash", "-c", script], check=True, capture_output=True, text=True)
        words = ran.stdout.split("\0")
        (url,) = [word for word in words if word.startswith(URL)]
        body = words[words.index("-d") + 1].encode() if "-d" in words else b""
        yield command, url.removeprefix(URL), body, shown


@pytest.fixture(scope="module")
def answers() -> Mapping[str, bytes]:
    """Return what the service answers at the page's moment, by path."""
    return answers_at(MOMENT, READS, [(path, body) for _, path, body, _ in calls(session()) if body])


def test_the_commands_print_what_the_page_shows(answers: Mapping[str, bytes]) -> None:
    """Every line below a `muster` command is a line that it prints, in that order; ages aside."""
    asked = [(command.split()[1:], shown) for command, shown in session() if command.startswith("muster ")]
    assert [words[0] for words, _ in asked] == ["status", "gangs", "queues", "explain", "explain"]
    with serving(answers) as url:
        for words, shown in asked:
            result = CliRunner().invoke(app, [*words, "--server", url], env={"COLUMNS": "120"})
            assert result.exit_code == 0, result.output
            printed = iter(list(map(_ageless, result.stdout.splitlines())))
            missing = [line for line in map(_ageless, shown) if line not in printed]
            assert missing == [], result.stdout
            assert shown


def test_the_service_answers_what_the_page_shows(answers: Mapping[str, bytes]) -> None:
    """Every line below a call by curl is a line of the answer, in that order; with grep, all that it lets through."""
    asked = list(calls(session()))
    paths = [path for _, path, _, _ in asked]
    assert paths == ["/readyz", "/metrics", "/v1/filter", "/v1/prioritize", "/v1/bind", "/v1/preempt"]
    for command, path, _, shown in asked:
        pattern = re.compile(command.partition(" | grep ")[2])
        answered = [line for line in answers[path].decode().splitlines() if pattern.search(line)]
        assert shown == answered


def test_the_page_says_when_that_is() -> None:
    """The moment that is played is the one that the page names."""
    assert f"{MOMENT:g} s after the start" in read_page(ROOT / "README.md").sections[SECTION].replace("\n", " ")


def _is_open(command: str) -> bool:
    """Tell whether a command goes on in the next line: one of its quotes is open."""
    try:
        shlex.split(command)
    except ValueError:
        return True
    return False


def _ageless(line: str) -> str:
    """Return a line without its ages, and without the columns that depend on how long they are."""
    return " ".join(_AGE.sub("", line).split())
