"""`muster calibrate`: what it prints where, and its exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from extender.cli.commands import app
from extender.hardware.calibration import Calibration, Measurement, read_calibration
from tests.lab.tools.outputs import GIB, output, row

RACK = output(4, 8, rows=[row(4 * GIB, 300.0), row(8 * GIB, 300.0)])
H100 = "NVIDIA-H100-80GB-HBM3"


def calibrate(*arguments: str, stdin: str | None = None) -> tuple[int, str, str]:
    """Run the command; return exit code, output and errors."""
    result = CliRunner().invoke(app, ["calibrate", *arguments], input=stdin)
    return result.exit_code, result.stdout, result.stderr


def content(text: str) -> Calibration:
    """Return what the ConfigMap in a command's output holds."""
    document = yaml.safe_load(text)
    assert (document["apiVersion"], document["kind"]) == ("v1", "ConfigMap")
    return read_calibration(document["data"])


@pytest.fixture
def rack(tmp_path: Path) -> str:
    """Write the output of a run on four nodes of a rack."""
    file = tmp_path / "rack.txt"
    file.write_text(RACK, encoding="utf-8")
    return str(file)


def test_the_config_map_goes_to_output_and_the_rest_to_errors(rack: str) -> None:
    """The map can be piped to kubectl; what it changes is for people: exit code 0."""
    code, printed, said = calibrate(rack, "--level", "rack", "--source", "in March")
    assert code == 0
    assert printed == (
        "apiVersion: v1\n"
        "kind: ConfigMap\n"
        "metadata:\n"
        "  name: muster-calibration\n"
        "  namespace: muster-system\n"
        "data:\n"
        "  calibration.yaml: |\n"
        "    measurements:\n"
        "    - product: NVIDIA-H100-80GB-HBM3\n"
        "      gpusPerNode: 8\n"
        "      nodes: 4\n"
        "      level: rack\n"
        "      busBandwidthGBps: 300.0\n"
        "      collective: allreduce\n"
        "      source: in March\n"
    )
    assert said.splitlines() == [
        f"{rack}: 4 x 8 NVIDIA H100 80GB HBM3, 300.0 GB/s, spread 0.0%",
        f"{H100}, 4 x 8 GPUs, rack, allreduce: measured 300 GB/s, the table predicts 376 (+25%), with this 300",
        "    the network keeps 0.80 of its bandwidth at level rack",
    ]


def test_standard_input_is_read() -> None:
    """One node needs no level, and says nothing about one."""
    code, printed, said = calibrate("-", stdin=output())
    assert code == 0
    assert content(printed).measurements == (Measurement(H100, 8, 1, "node", 471.5),)
    assert said.startswith("standard input: 1 x 8 ")
    assert "level" not in said


def test_several_files_of_one_size_are_averaged(rack: str, tmp_path: Path) -> None:
    """The mean is written; files that differ much are remarked on."""
    other = tmp_path / "again.txt"
    other.write_text(output(4, 8, rows=[row(8 * GIB, 340.0)]), encoding="utf-8")
    code, printed, said = calibrate(rack, str(other), "--level", "rack")
    assert code == 0
    assert [one.gbps for one in content(printed).measurements] == [320]
    assert "the files differ by 12%: measure again while nothing else uses the network" in said


def test_an_existing_config_map_is_merged(rack: str, tmp_path: Path) -> None:
    """Its name and its other entries stay, those of the same size are replaced."""
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    node = output(rows=[row(8 * GIB, 440.0)])
    first.write_text(calibrate("-", "--name", "ours", "--namespace", "gpu", stdin=node)[1], encoding="utf-8")
    second.write_text(calibrate(rack, "--level", "rack", "--merge", str(first))[1], encoding="utf-8")
    faster = output(4, 8, rows=[row(8 * GIB, 350.0)])
    code, printed, _ = calibrate("-", "--level", "rack", "--merge", str(second), stdin=faster)
    assert code == 0
    assert yaml.safe_load(printed)["metadata"] == {"name": "ours", "namespace": "gpu"}
    assert [(one.level, one.gbps) for one in content(printed).measurements] == [("node", 440), ("rack", 350)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (output(2, 8), "the nodes themselves are the bound: this says nothing about level rack; measure more nodes"),
        (output(4, 8, rows=[row(GIB // 16, 90.0)]), "the largest size is 64 MiB, too small"),
        (output(4, 8, rows=[row(4 * GIB, 300.0), row(8 * GIB, 360.0)]), "the largest sizes differ by 18%"),
    ],
    ids=["bound by the nodes", "small sizes", "unsteady"],
)
def test_a_poor_measurement_is_remarked_on(text: str, said: str) -> None:
    """It is written all the same, with a note that says what to do."""
    code, printed, errors = calibrate("-", "--level", "rack", stdin=text)
    assert code == 0
    assert len(content(printed).measurements) == 1
    assert said in errors


def test_an_instance_type_gives_the_network(rack: str) -> None:
    """On A3 Mega the table predicts half of what a DGX has."""
    _, _, said = calibrate(rack, "--level", "rack", "--instance-type", "a3-megagpu-8g")
    assert "the table predicts 188 (-37%)" in said


def test_output_that_measures_nothing_stops_with_1(rack: str) -> None:
    """Nothing is written; the message names the file and says what to do."""
    code, printed, said = calibrate(rack)
    assert (code, printed) == (1, "")
    assert said == (
        f"muster calibrate: {rack}: 4 nodes took part: say with --level which is the lowest level that they share, "
        "`cluster` if none\n"
    )


@pytest.mark.parametrize(
    ("existing", "message"),
    [
        ("kind: ConfigMap\ndata: [", "first.yaml: line 2"),
        ("kind: Secret\ndata: {}", "not one ConfigMap with data"),
        ("kind: ConfigMap", "not one ConfigMap with data"),
        ("kind: ConfigMap\ndata: {calibration.yaml: 'measurements: [4]'}", "correct or remove these entries"),
    ],
    ids=["not YAML", "another kind", "no data", "a bad entry"],
)
def test_a_config_map_that_would_lose_entries_stops_with_2(
    rack: str, tmp_path: Path, existing: str, message: str
) -> None:
    """Nothing is written."""
    file = tmp_path / "first.yaml"
    file.write_text(existing, encoding="utf-8")
    code, printed, said = calibrate(rack, "--level", "rack", "--merge", str(file))
    assert (code, printed) == (2, "")
    assert message in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere.txt",), "nowhere.txt: No such file or directory"),
        (("-", "-"), "standard input can be read once"),
        (("-", "--merge", "-"), "standard input can be read once"),
    ],
)
def test_what_cannot_be_read_stops_with_2(arguments: tuple[str, ...], message: str) -> None:
    """The message names the file."""
    code, _, said = calibrate(*arguments)
    assert code == 2
    assert said == f"muster calibrate: {message}\n"


def test_help_shows_an_example() -> None:
    """The help shows a run, exit codes and options."""
    printed = CliRunner().invoke(app, ["calibrate", "--help"], env={"COLUMNS": "200"}).stdout
    shown = " ".join(printed.split())
    assert "Example: run `all_reduce_perf -b 1G -e 8G -f 2 -g 1`" in shown
    assert "Exit codes: 0 written, 1 a test's output cannot be used, 2 a file cannot be read." in shown
    assert "--merge" in shown
