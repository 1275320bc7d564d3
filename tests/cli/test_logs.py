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
