"""`muster check-config`: what it prints, and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from extender.cli.commands import app

CONFIGS = Path(__file__).parents[3] / "scheduler-config"
MUSTER, STOCK = str(CONFIGS / "muster.yaml"), str(CONFIGS / "stock.yaml")


def check(*arguments: str, stdin: str | None = None) -> tuple[int, str, str]:
    """Run the command; return exit code, output and errors."""
    result = CliRunner().invoke(app, ["check-config", *arguments], input=stdin)
    return result.exit_code, result.stdout, result.stderr


def test_the_shipped_configuration_passes() -> None:
    """Nothing is found in scheduler-config/muster.yaml: exit code 0."""
    assert check(MUSTER) == (0, f"{MUSTER}: 0 errors, 0 warnings\n", "")


def test_a_finding_says_where_what_and_what_instead() -> None:
    """A kube-scheduler without Muster is told so: exit code 1."""
    code, output, _ = check(STOCK)
    assert code == 1
    assert output.splitlines() == [
        f"{STOCK}: error: extenders",
        "    no extender: Muster is never asked, and gangs start in part",
        "    instead: an extender with urlPrefix: http://127.0.0.1:10261/v1, as in scheduler-config/muster.yaml",
        f"{STOCK}: 1 error, 0 warnings",
    ]


def test_warnings_alone_do_not_fail() -> None:
    """Exit code 0: gangs start."""
    text = Path(MUSTER).read_text(encoding="utf-8").replace("weight: 5", "weight: 50")
    code, output, _ = check("-", stdin=text)
    assert code == 0
    assert output.endswith("standard input: 0 errors, 1 warning\n")


def test_json_holds_the_same() -> None:
    """Programs read severity, path, problem and what to write instead."""
    code, output, _ = check(STOCK, "--output", "json")
    document = json.loads(output)
    assert code == 1
    assert document["file"] == STOCK
    ((only,),) = [one["findings"] for one in document["configurations"]]
    assert (only["severity"], only["path"]) == ("error", "extenders")
    assert only["problem"]
    assert only["instead"]


def test_rendered_manifests_can_be_piped_in() -> None:
    """A ConfigMap among other documents is found, and its place is named."""
    config = "\n".join(f"    {line}" for line in Path(MUSTER).read_text(encoding="utf-8").splitlines())
    text = f"kind: Service\n---\nkind: ConfigMap\ndata:\n  muster.yaml: |\n{config}\n"
    code, output, _ = check("-", stdin=text)
    assert (code, output) == (0, "standard input (document 2, data[muster.yaml]): 0 errors, 0 warnings\n")


def test_it_is_held_against_what_muster_is_told(tmp_path: Path) -> None:
    """Settings, names, port, Lease and replicas may differ from the defaults."""
    settings = tmp_path / "settings.yaml"
    settings.write_text("http_timeout_seconds: 60\n", encoding="utf-8")
    options = ["--config", str(settings), "--scheduler-name", "gpu", "--port", "9000", "--replicas", "2"]
    code, output, _ = check(MUSTER, *options, "--scheduler-lease", "gpu/gang")
    assert code == 1
    for path in ("urlPrefix", "httpTimeout", "profiles[0].schedulerName", "leaderElection.resourceName"):
        assert path in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/nowhere/muster.yaml"], "/nowhere/muster.yaml: No such file or directory"),
        (["-"], "standard input: holds no KubeSchedulerConfiguration"),
        ([MUSTER, "--config", "/nowhere/settings.yaml"], "/nowhere/settings.yaml"),
        ([MUSTER, "--scheduler-lease", "muster"], "command line: scheduler_lease"),
        ([MUSTER, "--scheduler-lease", "/muster"], "(got '/muster')"),
        ([MUSTER, "--scheduler-name", ""], "none may be empty"),
    ],
)
def test_what_cannot_be_checked_is_said(arguments: list[str], message: str) -> None:
    """Exit code 2, and one line on standard error."""
    code, output, errors = check(*arguments, stdin="")
    assert (code, output) == (2, "")
    assert message in errors


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    """Exit code 2 names the file."""
    file = tmp_path / "binary.yaml"
    file.write_bytes(b"\xff\xfe\x00")
    code, _, errors = check(str(file))
    assert code == 2
    assert str(file) in errors


def test_it_loads_neither_server_nor_cluster_client() -> None:
    """A check needs no FastAPI, numpy or Kubernetes client, and answers at once."""
    program = (
        "import sys; from typer.testing import CliRunner; from extender.cli.commands import app; "
        f"assert CliRunner().invoke(app, ['check-config', {MUSTER!r}]).exit_code == 0; "
        "print(sorted({'fastapi', 'numpy', 'kubernetes', 'uvicorn'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
