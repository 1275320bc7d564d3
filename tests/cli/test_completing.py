"""Completion of names, and kubectl's completion of its plug-ins."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from extender.cli import complete
from extender.cli.commands import app
from tests.cli.answers import answer, gang, node, queue, waiting
from tests.cli.conftest import Script, free_port


@pytest.fixture
def asked(server: Script) -> Script:
    """Return a Muster with two gangs, Queues and nodes."""
    answer(server, "/api/v1/gangs", {"gangs": [waiting("default/next"), gang("team/train")]})
    answer(server, "/api/v1/queues", {"queues": [queue("research"), queue("serving")]})
    answer(server, "/api/v1/nodes", {"levels": [], "nodes": [node("gpu-1", [""]), node("gpu-2", [""])]})
    return server


def words(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *line: str) -> list[str]:
    """Return what kubectl is told of how a line may go on, without its directive."""
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-muster", *line])
    complete()
    *found, directive = capsys.readouterr().out.splitlines()
    assert directive == ":4"
    return [one.partition("\t")[0] for one in found]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["gangs"], ["next", "team/train"]),
        (["gangs", "-n", "team"], ["default/next", "train"]),
        (["gangs", "next"], ["team/train"]),
        (["explain"], ["next", "team/train"]),
        (["queues"], ["research", "serving"]),
        (["nodes"], ["gpu-1", "gpu-2"]),
        (["nodes", "gpu-1"], ["gpu-2"]),
    ],
)
def test_names_are_asked_of_muster(
    asked: Script,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    line: list[str],
    expected: list[str],
) -> None:
    """Without the namespace that counts anyway, and without those that stand there already."""
    monkeypatch.setenv("MUSTER_SERVER", asked.url)
    assert words(capsys, monkeypatch, *line, "") == expected


def test_a_namespace_that_is_typed_stays(
    asked: Script, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What begins otherwise is left out."""
    monkeypatch.setenv("MUSTER_SERVER", asked.url)
    assert words(capsys, monkeypatch, "gangs", "default/") == ["default/next"]


def test_commands_options_and_values_are_completed_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With their help behind a tab."""
    assert words(capsys, monkeypatch, "stat") == ["status"]
    assert words(capsys, monkeypatch, "gangs", "--sort") == ["--sort-by"]
    assert words(capsys, monkeypatch, "gangs", "--via", "port") == ["port-forward"]
    assert words(capsys, monkeypatch, "gangs", "-o", "j") == ["json", "jsonpath="]
    assert "gangs" in words(capsys, monkeypatch)


@pytest.mark.parametrize("how", ["nothing listens", "no kubeconfig"])
def test_without_a_muster_there_are_no_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    """A shell shows nothing then, and no error."""
    if how == "nothing listens":
        monkeypatch.setenv("MUSTER_SERVER", f"http://127.0.0.1:{free_port()}")
    else:
        monkeypatch.delenv("MUSTER_SERVER", raising=False)
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert words(capsys, monkeypatch, "gangs", "") == []


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["gangs", "--via", "prox"], "'prox' is not one of 'auto', 'proxy', 'port-forward'; did you mean proxy?"),
        (["gangs", "--via", "zzz"], "'zzz' is not one of 'auto', 'proxy', 'port-forward'."),
        (["gangs", "--quue", "x"], "muster gangs: there is no option --quue; did you mean --queue?"),
        (["gangs", "-o"], "muster gangs: option '-o' requires an argument"),
        (["--zzz"], "muster: there is no option --zzz (muster --help says more)"),
        (["gagns"], "'gangs'"),
        (["snapshot", "show", "f", "-o", "tables"], "did you mean table?"),
    ],
)
def test_a_word_that_is_nearly_right_is_answered_with_the_right_one(arguments: list[str], hint: str) -> None:
    """A value, an option, a command; exit code 2."""
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert hint in result.stderr
