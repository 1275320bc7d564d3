"""`muster settings`, and `muster settings check`."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from extender.cli.commands import app
from extender.settings import Settings, load_settings


def test_the_printed_file_is_the_defaults(tmp_path: Path) -> None:
    """What is printed can be used as it is and changes nothing."""
    result = CliRunner().invoke(app, ["settings"])
    assert result.exit_code == 0
    file = tmp_path / "muster.yaml"
    file.write_text(result.stdout, encoding="utf-8")
    assert load_settings(file, {}) == Settings()


def test_every_setting_is_explained() -> None:
    """No setting comes without its reason."""
    result = CliRunner().invoke(app, ["settings"])
    blocks = result.stdout.split("\n\n")
    assert len(blocks) == len(yaml.safe_load(result.stdout)) == len(Settings.model_fields)
    assert all(len(block.splitlines()[0]) > 20 and block.startswith("# ") for block in blocks)


def test_a_sound_file_is_told_with_what_it_changes(tmp_path: Path) -> None:
    """What equals the default is not listed: it changes nothing."""
    file = tmp_path / "muster.yaml"
    file.write_text("bind_hold_seconds: 20\nveto_seconds: 5\nscheduler_names: [gangs]\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["settings", "check", str(file)])
    assert (result.exit_code, result.stderr) == (0, "")
    default = Settings().veto_seconds
    assert result.stdout.splitlines() == [
        f"{file}: sound",
        '  scheduler_names: ["gangs"] (default ["muster"])',
        f"  veto_seconds: 5.0 (default {default})",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("veto_secnds: 5", "veto_secnds: there is no such setting; did you mean veto_seconds? (got 5)"),
        ("bind_hold_seconds: 40", "bind_hold_seconds (40) must be below http_timeout_seconds (30)"),
        ("veto_seconds: 0\nnudge_seconds: no", "nudge_seconds: Input should be greater than 0"),
        ("a: [", "expected the node content"),
        (None, "No such file"),
    ],
    ids=["unknown", "contradiction", "two", "unreadable", "missing"],
)
def test_a_file_that_serve_refuses_is_refused_with_the_same_words(tmp_path: Path, text: str | None, told: str) -> None:
    """Exit code 1, nothing on standard output, and a line with file and key for each thing that is wrong."""
    file = tmp_path / "muster.yaml"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    result = CliRunner().invoke(app, ["settings", "check", str(file)])
    assert (result.exit_code, result.stdout) == (1, "")
    assert told in result.stderr
    assert all(line.startswith(f"{file}: ") for line in result.stderr.splitlines())
    served = CliRunner().invoke(app, ["serve", "--config", str(file)])
    assert served.exit_code == 2
    assert result.stderr in served.stderr
