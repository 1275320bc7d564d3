"""`muster simulate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import muster

SCENARIO = """
nodes:
  - {name: node, count: 2, allocatable: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 8}}
gangs:
  - {name: fits, minMember: 2, requests: {nvidia.com/gpu: 8}, rendezvous: 10, duration: 1h}
  - {name: waits, minMember: 2, requests: {nvidia.com/gpu: 8}, duration: 1h, arrival: 60}
  - {name: giant, minMember: 3, requests: {nvidia.com/gpu: 8}}
until: 3000
gpuHourPrice: 2
"""


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    """Write the scenario."""
    file = tmp_path / "three.yaml"
    file.write_text(SCENARIO, encoding="utf-8")
    return str(file)


def test_the_table_says_how_each_gang_fared(scenario: str) -> None:
    """Phase, times, nodes and, for those that wait, why."""
    result = muster("simulate", scenario)
    assert result.returncode == 0
    for text in ("default/fits", "Running", "InsufficientCapacity", "ExceedsCluster", "0 of 3", "GPU-hours"):
        assert text in result.stdout


def test_json_is_for_programs_and_always_the_same(scenario: str) -> None:
    """Two runs give equal bytes; the gangs carry reasons with code, message and numbers."""
    first, second = muster("simulate", scenario, "--output", "json"), muster("simulate", scenario, "-o", "json")
    assert first.stdout == second.stdout
    document = json.loads(first.stdout)
    gangs = {gang["name"]: gang for gang in document["gangs"]}
    assert gangs["fits"]["admittedAt"] == 0
    assert gangs["waits"]["reason"] == {
        "code": "InsufficientCapacity",
        "message": "0 of 2 members fit now",
        "numbers": {"fits": 0, "minMember": 2},
    }
    assert gangs["giant"]["reason"]["code"] == "ExceedsCluster"
    assert document["evictions"] == []
    assert document["summary"]["jobsSubmitted"] == 3


def test_the_stock_scheduler_leaves_gangs_partial(scenario: str) -> None:
    """Without Muster the reasons are kube-scheduler's own words."""
    document = json.loads(muster("simulate", scenario, "--scheduler", "stock", "-o", "json").stdout)
    assert document["summary"]["jobsCompleted"] == 0
    assert document["summary"]["idleGpuHours"] > 0
    waiting = next(gang for gang in document["gangs"] if gang["name"] == "waits")
    assert "nodes are available" in waiting["reason"]["message"]


def test_a_bad_scenario_is_refused_with_file_path_and_value(tmp_path: Path) -> None:
    """Everything that is wrong is listed, without a traceback."""
    file = tmp_path / "bad.yaml"
    file.write_text("nodes: [{name: n, count: -1, colour: red}]\ngangs: []\nuntil: soon\n", encoding="utf-8")
    result = muster("simulate", str(file))
    assert result.returncode == 2
    assert f"{file}: nodes[0].count: '-1' is negative" in result.stderr
    assert "nodes[0].colour: unknown key" in result.stderr
    assert "until" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """The file is named."""
    result = muster("simulate", str(tmp_path / "none.yaml"))
    assert result.returncode == 2
    assert "none.yaml" in result.stderr
