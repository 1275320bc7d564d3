"""What docs/command-line.md shows of the program: each command of its session, at one moment of the demo's cluster.

`python -m tests.docs.command_page` prints the session, for whoever changes the code; a test compares the page with it.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
from functools import cache

from typer.testing import CliRunner

from extender.cli.commands import app
from tests.docs.conftest import ROOT, read_page
from tests.docs.demo_moment import answers_at, serving

PAGE, SECTION = "docs/command-line.md", "Try it without a cluster"
#: When the page's moment is (seconds after the start).
MOMENT = 43.0
_READS = ("/api/v1/status", "/api/v1/gangs", "/api/v1/queues", "/api/v1/nodes")
#: What a machine takes its own time for: passes, verbs, how long ago something was, and how well that is packed.
_MEASURED = re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|(?:Ki)?B)\b|\b\d+[smh]\w*|\bnow\b|\b\d+ in the last minute")


def shown() -> str:
    """Return the session as the page has it."""
    section = read_page(ROOT / PAGE).sections[SECTION]
    found = re.findall(r"^```console\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert len(found) == 1
    return str(found[0])


def printed() -> str:
    """Return the session with what the commands print, in its order."""
    lines = []
    for line in shown().splitlines():
        if line.startswith("$ "):
            lines.append(line)
            if line.startswith("$ muster "):
                lines += outputs()[line].splitlines()
    return "\n".join(lines) + "\n"


@cache
def outputs() -> dict[str, str]:
    """Return what each command of the session prints."""
    commands = [line for line in shown().splitlines() if line.startswith("$ muster ")]
    with serving(answers_at(MOMENT, _READS, ())) as url:
        return {command: _run(command, url) for command in commands}


def _run(command: str, url: str) -> str:
    result = CliRunner().invoke(app, [*shlex.split(command)[2:], "--server", url], env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    return result.stdout


def lasting(text: str) -> list[str]:
    """Return the lines of a text without what is measured, and without how wide that makes columns."""
    return [" ".join(_MEASURED.sub("", line).split()) for line in text.splitlines()]


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):  # where the demo logs
        text = printed()
    sys.stdout.write(text)
