"""What docs/command-line.md shows of a session against what its commands print."""

from __future__ import annotations

import re

from tests.docs.command_page import PAGE, lasting, printed, shown
from tests.docs.conftest import ROOT


def test_the_session_is_what_the_commands_print() -> None:
    """Every line, in that order; what is measured aside. `python -m tests.docs.command_page` prints it."""
    assert lasting(shown()) == lasting(printed())


def test_no_other_output_is_on_the_page() -> None:
    """All blocks but the session are commands to type."""
    blocks = re.findall(r"^```(\w+)\n", (ROOT / PAGE).read_text(encoding="utf-8"), re.MULTILINE)
    assert set(blocks) == {"console", "sh"}
    assert blocks.count("console") == 1
