"""`muster settings`."""

from __future__ import annotations

from pathlib import Path

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
