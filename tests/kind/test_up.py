"""What kind/up.sh says before it begins."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.kind.conftest import ROOT, Run, note_taker


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_says_what_it_does_and_needs_nothing(up: Run, option: str) -> None:
    """Usage on standard output, exit code 0, without docker, kind or kubectl."""
    done = up(option)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: kind/up.sh" in done.stdout
    assert "make cluster" in done.stdout


def test_an_unknown_option_is_refused(up: Run) -> None:
    """Exit code 2; nothing is built by mistake."""
    done = up("--nodes")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no option --nodes" in done.stderr


@pytest.mark.parametrize(
    ("present", "missing", "hint"),
    [
        ((), "docker", "docs.docker.com"),
        (("docker",), "kind", "go install sigs.k8s.io/kind@latest"),
        (("docker", "kind"), "kubectl", "kubernetes.io/docs/tasks/tools"),
    ],
)
def test_a_missing_tool_is_named_with_how_to_install_it(
    up: Run, tools: Path, present: tuple[str, ...], missing: str, hint: str
) -> None:
    """The first tool that is missing, before anything is done."""
    for name in present:
        note_taker(tools, name)
    done = up()
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{missing} is needed" in done.stderr
    assert hint in done.stderr
    assert not list(tools.glob("*.log"))


def test_a_docker_that_does_not_answer_is_told_from_a_missing_one(up: Run, tools: Path) -> None:
    """The daemon may be down, or forbidden."""
    note_taker(tools, "docker", "exit 1")
    for name in ("kind", "kubectl"):
        note_taker(tools, name)
    done = up()
    assert done.returncode == 1
    assert "docker does not answer" in done.stderr


def test_the_cluster_is_the_one_that_the_script_names() -> None:
    """The kind configuration has the same name, and workers for the example gang."""
    config = yaml.safe_load((ROOT / "kind" / "cluster.yaml").read_text(encoding="utf-8"))
    script = (ROOT / "kind" / "up.sh").read_text(encoding="utf-8")
    assert f"cluster={config['name']}\n" in script
    assert [node["role"] for node in config["nodes"]].count("worker") == 4
