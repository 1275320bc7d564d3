"""`muster simulate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from extender.cli.commands import app
from tests.cli.conftest import muster

ROOT = Path(__file__).parents[3]
EXAMPLES, IMAGES = ROOT / "examples" / "scenarios", ROOT / "docs" / "images"

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


def simulated(*arguments: str) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(app, ["simulate", *arguments], env={"COLUMNS": "160"})


def test_the_table_says_how_each_gang_fared(scenario: str) -> None:
    """Phase, times, nodes and, for those that wait, why."""
    result = simulated(scenario)
    assert result.exit_code == 0
    for text in ("default/fits", "Running", "InsufficientCapacity", "ExceedsCluster", "0 of 3", "GPU-hours"):
        assert text in result.stdout


def test_json_is_for_programs_and_always_the_same(scenario: str) -> None:
    """Two processes give equal bytes; the gangs carry reasons with code, message and numbers."""
    first, second = muster("simulate", scenario, "--output", "json"), simulated(scenario, "-o", "json")
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
    document = json.loads(simulated(scenario, "--scheduler", "stock", "-o", "json").stdout)
    assert document["summary"]["jobsCompleted"] == 0
    assert document["summary"]["idleGpuHours"] > 0
    waiting = next(gang for gang in document["gangs"] if gang["name"] == "waits")
    assert "nodes are available" in waiting["reason"]["message"]


def test_the_timeline_is_there_where_it_is_asked_for(scenario: str) -> None:
    """In the document under a key of its own, which is not there otherwise; for people as one more table."""
    plain = json.loads(simulated(scenario, "-o", "json").stdout)
    document = json.loads(simulated(scenario, "--timeline", "-o", "json").stdout)
    timeline = document.pop("timeline")
    assert document == plain
    assert timeline[0] == {
        "at": 0.0,
        "gangs": [
            {"name": "default/fits", "state": "init", "gpus": 16},
            {"name": "default/giant", "state": "waits", "gpus": 0},
        ],
        "queues": [],
    }
    assert "Timeline" in simulated(scenario, "--timeline").stdout
    assert "Timeline" not in simulated(scenario).stdout


def test_predictions_are_in_the_table_and_in_the_document(scenario: str) -> None:
    """Where a gang is; its bandwidth only where the product of the GPUs is known."""
    assert "on node-0" not in simulated(scenario).stdout
    document = json.loads(simulated(scenario, "-o", "json").stdout)
    fits, waits, _ = document["gangs"]
    assert fits["placement"] == {
        "busBandwidthGBps": None,
        "level": "cluster",
        "domain": "",
        "fragmentationCost": fits["placement"]["fragmentationCost"],
        "gpusPerNode": {"node-0": 8, "node-1": 8},
    }
    assert fits["pods"][0]["predictedGpus"] == list(range(8))
    assert (waits["placement"], waits["pods"][0]["predictedGpus"]) == (None, None)


def test_the_example_of_a_fabric_tells_what_its_comments_say() -> None:
    """The bandwidths of its gangs, and the one that waits for a NUMA zone."""
    result = simulated(str(EXAMPLES / "fabric.yaml"))
    for text in ("376 GB/s within rack-2", "475 GB/s on gpu-5", "default/restricted waits: NumaZonesFull"):
        assert text in result.stdout


def test_a_gang_can_be_drawn_when_it_has_started_or_at_any_moment(scenario: str, tmp_path: Path) -> None:
    """The picture is an SVG; the result is printed as well."""
    file = tmp_path / "gang.svg"
    result = simulated(scenario, "--picture", str(file), "--gang", "default/fits")
    assert result.exit_code == 0
    assert "default/fits" in result.stdout
    drawn = file.read_text(encoding="utf-8")
    assert drawn.startswith("<svg ")
    assert "default/fits: Running, no bandwidth predicted, across the cluster" in drawn
    assert "after 0s" in drawn
    simulated(scenario, "--picture", str(file), "--gang", "waits", "--at", "10m")
    drawn = file.read_text(encoding="utf-8")
    assert "default/waits: Pending" in drawn
    assert "after 10m" in drawn
    assert "waits: InsufficientCapacity" in drawn
    simulated(scenario, "--picture", str(file), "--gang", "waits", "--at", "30s")
    assert "default/waits: not there yet" in file.read_text(encoding="utf-8")


def test_a_gang_can_be_drawn_without_muster(scenario: str, tmp_path: Path) -> None:
    """Where kube-scheduler alone has put it."""
    file = tmp_path / "gang.svg"
    simulated(scenario, "--scheduler", "stock", "--picture", str(file), "--gang", "giant")
    assert "placed by kube-scheduler alone" in file.read_text(encoding="utf-8")


def test_the_picture_in_the_docs_is_what_the_command_draws(tmp_path: Path) -> None:
    """To draw it anew: muster simulate .../fabric.yaml --gang pretrain --picture docs/images/fabric-pretrain.svg."""
    file = tmp_path / "fabric.svg"
    simulated(str(EXAMPLES / "fabric.yaml"), "--picture", str(file), "--gang", "pretrain")
    assert file.read_text(encoding="utf-8") == (IMAGES / "fabric-pretrain.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--picture", "x.svg"], "--picture needs --gang: there are 3 gangs"),
        (["--picture", "x.svg", "--gang", "nobody"], "--gang nobody: the scenario has no such gang"),
        (["--picture", "x.svg", "--gang", "fits", "--at", "soon"], "--at: 'soon' is not a duration"),
        (["--picture", "x.svg", "--gang", "fits", "--at", "2h"], "--at 2h is after the end of the scenario (until)"),
        (["--picture", "/nowhere/x.svg", "--gang", "fits"], "--picture /nowhere/x.svg: No such file or directory"),
        (["--gang", "fits"], "--gang and --at say what to draw; add --picture FILE"),
    ],
)
def test_options_of_the_picture_are_refused_where_they_name_nothing(
    scenario: str, arguments: list[str], message: str
) -> None:
    """Exit code 2 and one line that names the option."""
    result = simulated(scenario, *arguments)
    assert result.exit_code == 2
    assert f"muster simulate: {message}" in result.stderr


def test_a_bad_scenario_is_refused_with_file_path_and_value(tmp_path: Path) -> None:
    """Everything that is wrong is listed, without a traceback."""
    file = tmp_path / "bad.yaml"
    file.write_text("nodes: [{name: n, count: -1, colour: red}]\ngangs: []\nuntil: soon\n", encoding="utf-8")
    result = simulated(str(file))
    assert result.exit_code == 2
    assert f"{file}: nodes[0].count: '-1' is negative" in result.stderr
    assert "nodes[0].colour: unknown key" in result.stderr
    assert "until" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """The file is named."""
    result = simulated(str(tmp_path / "none.yaml"))
    assert result.exit_code == 2
    assert "none.yaml" in result.stderr


def test_a_report_and_its_table_are_written(scenario: str, tmp_path: Path) -> None:
    """The page and the table are files of their own; the result is printed as without them."""
    page, table = tmp_path / "out.html", tmp_path / "out.csv"
    result = simulated(scenario, "--report", str(page), "--telemetry", str(table))
    assert result.exit_code == 0
    assert result.stdout == simulated(scenario).stdout
    assert "default/giant" in page.read_text(encoding="utf-8")
    assert table.read_text(encoding="utf-8").startswith("start_seconds,end_seconds,gang,state,gpus\n")


@pytest.mark.parametrize("option", ["--report", "--telemetry"])
def test_a_report_that_cannot_be_written_is_an_error(scenario: str, option: str) -> None:
    """Exit code 2, the option and the file."""
    result = simulated(scenario, option, "/nowhere/out")
    assert result.exit_code == 2
    assert f"muster simulate: {option} /nowhere/out: No such file or directory" in result.stderr
