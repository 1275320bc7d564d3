"""The figures that README.md shows against the program that computes them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

from tests.docs.conftest import Page


def test_the_readme_shows_what_the_demo_prints(page: Callable[[str], Page]) -> None:
    """Every line of the README's comparison is a line of `muster demo --once`, figures included."""
    (shown,) = (block.text for block in page("README.md").blocks if "kube-scheduler alone" in block.text)
    printed = subprocess.run(
        [sys.executable, "-m", "extender", "demo", "--once"],
        env=os.environ | {"COLUMNS": "120", "PYTHONIOENCODING": "utf-8"},
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
    ).stdout
    missing = [line for line in shown.splitlines() if line.rstrip() not in map(str.rstrip, printed.splitlines())]
    assert missing == []
