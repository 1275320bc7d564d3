"""What Muster logs, with hostile text in it: one record is one line, and steers no terminal."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.hostile.texts import ATTACKS

_SCRIPT = """
import json, logging, sys
import structlog
from extender.cli.logs import LogFormat, LogLevel, configure_logs
configure_logs(LogLevel.INFO, LogFormat(sys.argv[1]))
log = structlog.get_logger("muster")
for text in json.load(sys.stdin):
    log.info("note", message=text, about=text, several=[text], of={text: text})
    logging.getLogger("library").warning("said %s", text, extra={"more": text})
    try:
        raise ValueError(text)
    except ValueError:
        log.exception("failed", why=text)
"""


def logged(form: str) -> str:
    """Return what a process logs of every attack."""
    texts = json.dumps(ATTACKS)
    command = [sys.executable, "-c", _SCRIPT, form]
    return subprocess.run(command, input=texts.encode(), check=True, capture_output=True).stderr.decode()


def test_a_record_is_one_line_of_json() -> None:
    """Three for each text, which say it as it is: nothing is forged, and no line has what steers."""
    lines = logged("json").split("\n")
    assert lines.pop() == ""
    records = [json.loads(line) for line in lines]
    assert len(records) == 3 * len(ATTACKS)
    assert all(line.isprintable() for line in lines)
    for text, (own, library, failure) in zip(
        ATTACKS, zip(records[::3], records[1::3], records[2::3], strict=True), strict=True
    ):
        assert (own["message"], own["several"], own["of"]) == (text, [text], {text: text})
        assert library["more"] == text
        assert failure["exception"][0]["exc_value"] == text
        assert {own["level"], library["level"], failure["level"]} == {"info", "warning", "error"}


@pytest.mark.parametrize("text", ["\x1b[2J", "\x9b2J"])
def test_the_console_form_steers_nothing(text: str) -> None:
    """It is for a person at a terminal: nothing but its own colours is more than text."""
    shown = logged("console")
    assert text not in shown
    assert shown.count("note") >= len(ATTACKS)
    own = {f"\x1b[{number}m" for number in range(100)}
    rest = shown
    for colour in own:
        rest = rest.replace(colour, "")
    assert [one for one in rest if not (one.isprintable() or one in "\n\t")] == []
