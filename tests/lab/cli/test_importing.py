"""`muster import`: files in, manifests and differences out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from extender.cli.commands import app
from tests.lab.tools.importing.examples import KUEUE, VOLCANO

CHECKED = """
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: checked}
spec: {admissionChecks: [budget]}
"""
CHECKED_LINE = "ClusterQueue checked: spec.admissionChecks: gangs start without these checks\n"


def importing(*arguments: str, stdin: str | None = None) -> Result:
    """Run the command."""
    return CliRunner().invoke(app, ["import", *arguments], input=stdin)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file with Kueue's objects."""
    path = tmp_path / "kueue.yaml"
    path.write_text(KUEUE)
    return path


def names(text: str) -> list[str]:
    """Return the names of the manifests in a text."""
    return [one["metadata"]["name"] for one in yaml.safe_load_all(text)]


def test_manifests_go_to_standard_output_and_differences_to_standard_error(file: Path) -> None:
    """So that one can be piped and the other read."""
    result = importing("kueue", str(file), "-", stdin=CHECKED)
    assert result.exit_code == 0
    assert names(result.stdout) == ["research", "team-a", "team-b", "checked"]
    assert result.stderr == CHECKED_LINE


def test_json_is_read_too() -> None:
    """As `kubectl get -o json` writes it."""
    items = list(yaml.safe_load_all(VOLCANO))
    result = importing(
        *("volcano", "-", "--capacity", "cpu=512", "--capacity", "nvidia.com/gpu=64"),
        stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}),
    )
    assert result.exit_code == 0
    assert result.stderr == ""
    root, *_ = yaml.safe_load_all(result.stdout)
    quotas = {one["name"]: one["nominalQuota"] for one in root["spec"]["flavors"][0]["resources"]}
    assert quotas == {"cpu": "448", "nvidia.com/gpu": "32"}


def test_a_file_can_be_written(file: Path, tmp_path: Path) -> None:
    """Nothing goes to standard output then."""
    written = tmp_path / "queues.yaml"
    result = importing("kueue", str(file), "-o", str(written))
    assert (result.exit_code, result.stdout) == (0, "")
    assert names(written.read_text()) == ["research", "team-a", "team-b"]


def test_queues_are_named_as_asked(file: Path) -> None:
    """After LocalQueues, or after ClusterQueues."""
    local = (
        "{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: q, namespace: n}, "
        "spec: {clusterQueue: team-a}}"
    )
    assert "q" in names(importing("kueue", str(file), "-", stdin=local).stdout)
    kept = importing("kueue", str(file), "-", "--name-after", "cluster-queue", stdin=local)
    assert "team-a" in names(kept.stdout)
    assert "let them say muster.dev/queue: team-a" in kept.stderr


def test_strictly_a_difference_is_a_failure(file: Path, tmp_path: Path) -> None:
    """Nothing is written, so that nothing is applied by mistake."""
    written = tmp_path / "queues.yaml"
    result = importing("kueue", str(file), "-", "--strict", "-o", str(written), stdin=CHECKED)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"{CHECKED_LINE}muster import: 1 differences, nothing is written\n"
    assert not written.exists()
    assert importing("kueue", str(file), "--strict").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["kueue", "/nowhere/a.yaml"], "/nowhere/a.yaml: No such file or directory"),
        (["kueue", "-", "-"], "standard input can be read once"),
        (["kueue", "-"], "no ClusterQueue or Cohort in these files"),
        (["volcano", "-"], "no Queue of Volcano's in these files"),
        (["volcano", "-", "--capacity", "nvidia.com/gpu"], "--capacity nvidia.com/gpu: '' is not a quantity"),
        (["volcano", "-", "--capacity", "=8"], "--capacity =8: not RESOURCE=QUANTITY"),
    ],
)
def test_what_cannot_be_used_is_refused(arguments: list[str], message: str) -> None:
    """Exit code 2, one line that names file or option."""
    result = importing(*arguments, stdin="")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"muster import: {message}")
    assert result.stderr.count("\n") == 1


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    """It is named."""
    path = tmp_path / "binary"
    path.write_bytes(b"\xff\xfe\x00")
    result = importing("kueue", str(path))
    assert result.exit_code == 2
    assert result.stderr.startswith(f"muster import: {path}: 'utf-8' codec can't decode")


def test_a_file_that_cannot_be_written_is_named(file: Path, tmp_path: Path) -> None:
    """As any option that cannot be used."""
    result = importing("kueue", str(file), "-o", str(tmp_path / "no" / "where.yaml"))
    assert result.exit_code == 2
    assert "where.yaml: No such file or directory" in result.stderr
