"""`muster trace`."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner, Result

from extender.cli.commands import app
from muster_lab.traces.csvfile import read_trace

PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
openb-pod-0017,88000,327680,8,1000,,Burstable,Succeeded,100,172900,100
openb-pod-0022,4000,15258,0,0,,LS,Running,120,300,120
"""


def trace(*arguments: str) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(app, ["trace", *arguments])


def test_a_published_trace_is_converted(tmp_path: Path) -> None:
    """The trace goes to standard output, what was left out to standard error."""
    file = tmp_path / "pods.csv"
    file.write_text(PODS, encoding="utf-8")
    result = trace("convert", "alibaba-2023", str(file))
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1] == "openb-pod-0017,0,172800,1,8,88000,343597383680,Burstable,0,,,true,0"
    assert result.stderr == "1 jobs over 0.0 days\n1 pods without GPU left out\n"


def test_what_is_generated_can_be_read(tmp_path: Path) -> None:
    """Options are those of the recipe."""
    file = tmp_path / "t.csv"
    assert trace("generate", "--gangs", "20", "--nodes", "4", "--queues", "2", "-o", str(file)).exit_code == 0
    read = read_trace(file)
    assert (len(read.jobs), set(read.queues) <= {"team-0", "team-1"}) == (20, True)


def test_mistakes_end_with_2(tmp_path: Path) -> None:
    """The message names the file, or the option."""
    for arguments, message in (
        (("convert", "philly", str(tmp_path / "none")), "none: No such file"),
        (("generate", "--load", "0"), "load is 0.0, but has to be above 0"),
        (("generate", "--gangs", "40", "--nodes", "4", "-o", str(tmp_path)), "Is a directory"),
    ):
        result = trace(*arguments)
        assert (result.exit_code, message in result.stderr) == (2, True), result.stderr
