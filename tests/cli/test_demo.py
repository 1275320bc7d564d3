"""`muster demo`: the figures it promises, and the service it leaves running."""

from __future__ import annotations

import json
import re
import shlex
import signal
import socket
import subprocess
import sys

import pytest

from tests.cli.conftest import free_port, muster, wait_for


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


def test_the_service_answers_the_commands_that_it_prints() -> None:
    """Every curl line works as printed, jobs arrive, and a signal ends it cleanly."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "extender", "demo", "--port", str(port)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert wait_for(f"http://127.0.0.1:{port}/healthz").text == "ok\n"
        assert process.stdout is not None
        commands: list[str] = []
        for line in process.stdout:
            if line.startswith("curl "):
                commands.append(line.strip())
            if "train-1" in line:
                break
        posts = [shlex.split(command) for command in commands if "/v1/" in command]
        assert [re.sub(r".*/v1/", "", words[2]) for words in posts] == ["filter", "prioritize", "bind", "preempt"]
        for words in posts:
            answer = subprocess.run([*words, "--noproxy", "*"], check=True, capture_output=True, text=True).stdout
            assert json.loads(answer) is not None
        metrics = wait_for(f"http://127.0.0.1:{port}/metrics").text
        assert re.search(r"^muster_gangs\{", metrics, re.MULTILINE)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()
        process.communicate()
