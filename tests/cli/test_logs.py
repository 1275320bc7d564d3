"""Logs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SCRIPT = """
import logging
import structlog
from extender.cli.logs import LogFormat, LogLevel, configure_logs
configure_logs(LogLevel.INFO, LogFormat({form!r}))
log = structlog.get_logger("muster")
log.debug("hidden")
log.info("pinned", pod="default/a", decision="d-1")
logging.getLogger("library").warning("from a library")
try:
    raise ValueError("boom")
except ValueError:
    log.exception("verb failed", verb="filter")
"""


def logged(form: str) -> str:
    """Return what a fresh process logs in this form."""
    script = SCRIPT.format(form=form)
    return subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stderr


def test_json_has_one_object_a_line() -> None:
    """Muster's lines, a library's and a traceback all are JSON objects with time and level."""
    lines = [json.loads(line) for line in logged("json").splitlines()]
    assert [line["event"] for line in lines] == ["pinned", "from a library", "verb failed"]
    assert lines[0]["decision"] == "d-1"
    assert lines[2]["exception"][0]["exc_type"] == "ValueError"
    assert all(line["timestamp"].endswith("Z") and line["level"] for line in lines)


@pytest.mark.parametrize("form", ["console", "auto"])
def test_console_is_for_people_and_auto_for_whoever_reads(form: str) -> None:
    """A pipe gets JSON by default; the console form is text."""
    first = logged(form).splitlines()[0]
    assert first.startswith("{") == (form == "auto")
    assert "pinned" in first


LEAK = """
import structlog
from extender.cli.logs import LogFormat, LogLevel, configure_logs
configure_logs(LogLevel.DEBUG, LogFormat({form!r}))
def decode(body):
    raise ValueError("boom")
try:
    decode("".join(["TOKEN", "-", "VALUE"]))
except ValueError:
    structlog.get_logger("muster").exception("verb failed")
"""


@pytest.mark.parametrize("form", ["console", "json"])
def test_a_traceback_shows_no_values(form: str) -> None:
    """Among the local variables are request bodies and tokens: only where it happened is logged."""
    script = LEAK.format(form=form)
    logs = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stderr
    assert "boom" in logs
    assert "decode" in logs
    assert "TOKEN-VALUE" not in logs


ODD = """
import os, sys
import structlog
from extender.cli.logs import LogFormat, LogLevel, configure_logs, fill_standard_streams
fill_standard_streams()
writer = configure_logs(LogLevel.INFO, LogFormat({form!r}))
class Odd:
    def __repr__(self):
        raise RuntimeError("no")
log = structlog.get_logger("muster")
log.info("large", number=2**70, text=chr(0xD800))
log.info("odd", odd=Odd())
log.info("last")
writer.flush(10)
print(os.fstat(2).st_ino != 0, writer.dropped("failed") > 0, writer.dropped("unprintable"))
"""


def odd(form: str, redirection: str) -> tuple[str, str]:
    """Return what a process that logs odd things prints and logs, with its standard error redirected."""
    command = ["/bin/sh", "-c", f'exec "$0" -c "$1" {redirection}', sys.executable, ODD.format(form=form)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    return ended.stdout.strip(), ended.stderr


def test_what_cannot_be_rendered_costs_its_line() -> None:
    """Numbers and text that JSON has no place for are written otherwise; what raises is dropped and counted."""
    printed, logs = odd("json", "")
    assert [json.loads(line)["event"] for line in logs.splitlines()] == ["large", "last"]
    assert printed.startswith("True False ")
    assert printed.split()[-1] != "0"


@pytest.mark.parametrize("form", ["json", "auto"])
@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_logging_without_a_place_for_lines(form: str, redirection: str) -> None:
    """Standard error that is closed, or on a disk that is full, costs the lines alone."""
    printed, _ = odd(form, redirection)
    assert printed.startswith("True True ")
