"""`muster study`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from extender.cli.commands import app

TRACE = """\
name,submitted,runtime,pods,gpus,queue,priority,declared
runs,0,1000,1,8,a,0,1000
waits,1,100,2,8,b,0,100
short,2,500,1,8,a,0,500
late,9000,4000,2,8,a,0,
urgent,9600,60,2,8,b,9,
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Write the trace."""
    trace = tmp_path / "t.csv"
    trace.write_text(TRACE, encoding="utf-8")
    return str(trace)


def study(*arguments: str) -> Result:
    """Run the command in this process, on two nodes."""
    return CliRunner().invoke(app, ["study", *arguments, "--nodes", "2"], env={"COLUMNS": "160"})


def test_policies_are_compared(file: str) -> None:
    """One column for each, with waits by size and by queue; what it took goes to standard error."""
    result = study(file, "--policy", "fifo", "--policy", "easy")
    assert result.exit_code == 0, result.stderr
    for text in ("5 jobs in 2h40m on 2 x 8 GPUs", "FIFO", "EASY", "16m39s", "utilisation", "Jain", "36m40s / 54m40s"):
        assert text in result.stdout
    assert "easy: " in result.stderr
    assert " passes, " in result.stderr


def test_json_is_for_programs(file: str) -> None:
    """Exact declarations, checkpoints and a limit change what is played."""
    result = study(file, "--policy", "preemptive", "--checkpoint", "5m", "--declare", "none", "-o", "json")
    (policy,) = json.loads(result.stdout)["policies"]
    assert (policy["evictions"], policy["wait"]["jobs"]) == (1, 5)
    assert policy["wastedGpuHours"] == pytest.approx(16 * 30 / 3600, abs=1e-6)  # stopped at a checkpoint
    limited = json.loads(study(file, "--limit", "2", "--declare", "exact", "--load", "0.4", "-o", "json").stdout)
    assert limited["trace"]["jobs"] == 2
    assert limited["trace"]["load"] == pytest.approx(0.4, abs=0.01)
    assert [each["name"] for each in limited["policies"]] == ["fifo", "earmark", "easy", "conservative", "priority"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--policy", "magic"), "there is no policy 'magic'. There are:\n  fifo: strictly in order"),
        (("--checkpoint", "often"), "--checkpoint: 'often' is not a duration"),
        (("--gpus", "4"), "job runs never fits: it asks for 1 x 8 GPUs"),
        (("--load", "-1"), "a load of -1 cannot be made"),
    ],
)
def test_mistakes_end_with_2(file: str, options: tuple[str, ...], message: str) -> None:
    """The message names the option, or the job."""
    result = study(file, *options)
    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr


def test_a_trace_that_cannot_be_read_ends_with_2(tmp_path: Path) -> None:
    """The message names the file."""
    result = study(str(tmp_path / "none.csv"))
    assert (result.exit_code, "none.csv: No such file" in result.stderr) == (2, True)
