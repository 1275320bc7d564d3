"""`muster demo`: the figures it promises, and the service it leaves running."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import signal
import socket
import subprocess
import sys

import httpx
import pytest
from typer.testing import CliRunner

from extender.cli.commands import app
from muster_lab.cli.demo_cluster import RUNS
from muster_lab.cli.demo_commands import announcement
from tests.cli.conftest import free_port, muster
from tests.patience import HANGS


def test_the_comparison_comes_to_the_promised_figures() -> None:
    """Kube-scheduler alone wastes an hour of 32 GPUs; with Muster both jobs finish, at 1,760 s and at 3,520 s."""
    result = muster("demo", "--once", "--output", "json")
    assert result.returncode == 0
    document = json.loads(result.stdout)
    stock, ours = document["stock"], document["muster"]
    assert (stock["jobsCompleted"], stock["jobsSubmitted"]) == (0, 2)
    assert stock["idleGpuHours"] == 32.0
    assert stock["wastedCost"] == 117.44
    assert (ours["jobsCompleted"], ours["jobsSubmitted"]) == (2, 2)
    assert ours["productiveGpuHours"] == pytest.approx(31.11, abs=0.005)
    assert (ours["wastedCost"], ours["initCost"]) == (0, 0.65)
    assert [gang["finishedAt"] for gang in ours["gangs"]] == [1760, 3520]
    assert stock["summary"] == {key: value for key, value in stock.items() if key != "summary"}


def test_the_table_shows_both_sides() -> None:
    """What people read has the same figures."""
    result = muster("demo", "--once")
    for text in ("0 of 2", "2 of 2", "32.00", "31.11", "$117.44", "$0.65"):
        assert text in result.stdout


def test_json_without_once_is_refused() -> None:
    """A service has no end to print JSON at."""
    result = muster("demo", "--output", "json")
    assert result.returncode == 2
    assert "--once" in result.stderr


def test_a_taken_port_is_said_with_the_way_out() -> None:
    """The message names the address and the option."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = muster("demo", "--port", str(port))
    assert result.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in result.stderr
    assert "--port" in result.stderr


def test_the_commands_are_called_as_the_demo_was() -> None:
    """What is printed can be pasted: with the program's path, quoted where that must be, and addresses as in URLs."""
    lines = list(announcement("::1", 80, "my env/bin/muster"))
    assert lines[0] == "Dashboard: http://[::1]:80/"
    assert "'my env/bin/muster' status --server http://[::1]:80" in lines


def test_the_service_answers_the_commands_that_it_prints() -> None:
    """The dashboard is at the address that comes first, every command works as printed, and a signal ends it cleanly.

    A dashboard that is open does not hold it up: its stream would never end by itself.
    """
    program = [sys.executable, "-m", "extender", "demo", "--port", str(free_port())]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = list(itertools.takewhile(lambda line: f"{RUNS}: productive" not in line, process.stdout))
            (dashboard,) = [line.split()[1] for line in lines if line.startswith("Dashboard: ")]
            _try_commands([shlex.split(line) for line in lines if line.startswith(("muster ", "curl "))], dashboard)
            with httpx.stream("GET", f"{dashboard}api/v1/stream", trust_env=False) as stream:
                told = stream.iter_lines()
                assert "event: board" in itertools.islice(told, 2)
                process.send_signal(signal.SIGINT)
                assert list(told)[-1] == ""
            _, complaints = process.communicate(timeout=HANGS)
            assert (process.returncode, complaints) == (0, "")
        finally:
            process.kill()


def _try_commands(commands: list[list[str]], dashboard: str) -> None:
    """Run what was printed: questions of `muster`, then verbs and metrics by curl."""
    assert "<title>" in httpx.get(dashboard, trust_env=False).text
    asked = [words for words in commands if words[0] == "muster"]
    assert [words[1] for words in asked] == ["status", "gangs", "queues", "explain", "explain"]
    for words in asked:
        result = CliRunner().invoke(app, words[1:])
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout
    *calls, metrics = [words for words in commands if words[0] == "curl"]
    assert [re.sub(r".*/v1/", "", words[2]) for words in calls] == ["filter", "prioritize", "bind", "preempt"]
    for words in calls:
        answer = subprocess.run([*words, "--noproxy", "*"], check=True, capture_output=True, text=True).stdout
        assert json.loads(answer) is not None
    *curl, pipe, grep, pattern = metrics
    assert (pipe, grep) == ("|", "grep")
    answer = subprocess.run([*curl, "--noproxy", "*"], check=True, capture_output=True, text=True).stdout
    assert re.search(pattern, answer, re.MULTILINE)
