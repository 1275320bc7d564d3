"""The commands that ask, against a real Muster in front of an embedded cluster: what it answers is what they read."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from typer.testing import CliRunner

from extender.cli.commands import app
from tests.cli.conftest import free_port, wait_for

SERVE = """
import sys
from rich.console import Console
from muster_lab.cli.demo_service import serve_demo
from extender.cli.listening import listen, run
sys.exit(run(serve_demo(Console(), listen("127.0.0.1", int(sys.argv[1])))))
"""

Ask = Callable[..., str]


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """Run the service of `muster demo`, and return what asks it and returns what is printed."""
    port = free_port()
    with subprocess.Popen([sys.executable, "-c", SERVE, str(port)], stdout=subprocess.DEVNULL) as service:
        url = f"http://127.0.0.1:{port}"

        def asked(*arguments: str) -> str:
            result = CliRunner().invoke(app, [*arguments, "--server", url])
            assert result.exit_code == 0, (result.stderr, result.exception)
            return result.stdout

        try:
            wait_for(f"{url}/readyz")
            yield asked
        finally:
            service.terminate()


def test_the_cluster_is_seen_from_all_sides(ask: Ask) -> None:
    """The same nodes and GPUs in each list."""
    status = json.loads(ask("status", "-o", "json"))
    nodes = json.loads(ask("nodes", "-o", "json"))["nodes"]
    assert len(nodes) == status["nodes"]["total"] > 0
    assert sum(node["gpus"]["allocatable"] for node in nodes) == status["gpus"]["allocatable"] > 0
    assert ask("nodes", "-o", "name").split() == [node["name"] for node in nodes]
    assert nodes[0]["name"] in ask("nodes", "-o", "wide")
    assert f"{status['gpus']['allocatable']}: " in ask("status")
    levels = json.loads(ask("capacity", "-o", "json"))["levels"]
    assert sum(level["domains"] for level in levels if level["level"] == "node") == status["nodes"]["withGpus"]
    assert "pods that fit now, by GPUs alone: " in ask("capacity")


@pytest.mark.parametrize("command", ["gangs", "top", "queues", "events"])
@pytest.mark.parametrize("output", ["table", "wide", "json"])
def test_every_list_is_read(ask: Ask, command: str, output: str) -> None:
    """Whatever is there at the moment; jobs arrive all the time."""
    printed = ask(command, "-o", output)
    assert output != "json" or json.loads(printed).keys() >= {"gangs" if command == "top" else command}
