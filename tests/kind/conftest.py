"""Running kind/up.sh with a PATH of the test's own."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.patience import HANGS

ROOT = Path(__file__).parents[2]

#: What the script uses beside docker, kind and kubectl.
_COMMON = ("bash", "cat", "date", "dirname", "grep", "sed")

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """Return a folder to be the PATH, with the common tools and nothing else."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in _COMMON:
        found = shutil.which(name)
        assert found, f"{name} is needed: apt-get install coreutils grep sed"
        (folder / name).symlink_to(found)
    return folder


@pytest.fixture
def up(tools: Path) -> Run:
    """Return a function that runs the script to its end."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(ROOT / "kind" / "up.sh"), *arguments]
        return subprocess.run(
            command, env={"PATH": str(tools)}, check=False, capture_output=True, text=True, timeout=HANGS
        )

    return run


def note_taker(tools: Path, name: str, answers: str = "") -> None:
    """Put a program there that writes its arguments to `NAME.log`, and then does what `answers` says in shell."""
    program = tools / name
    program.write_text(f'#!/bin/bash\necho "$*" >> "{tools}/{name}.log"\n{answers}\n', encoding="utf-8")
    program.chmod(0o755)
