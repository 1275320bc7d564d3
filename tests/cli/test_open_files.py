"""Files are few: connections share them, and what is needed later is there from the beginning."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cli.listening import RESERVED_FILES, ConnectionShares, ListenError


@given(files=st.integers(400, 100_000), limit=st.integers(64, 5000), others=st.integers(0, 2), pool=st.integers(1, 100))
def test_all_listeners_together_leave_a_reserve(files: int, limit: int, others: int, pool: int) -> None:
    """However many connect, and wait to be accepted: the API server and the process itself have files left."""
    shares = ConnectionShares.of(files, limit, others, pool)
    connections = shares.verbs + others * shares.others
    assert connections + connections // 4 + pool + RESERVED_FILES <= files
    assert 64 <= shares.verbs <= limit
    assert shares.others <= limit


def test_a_shell_s_usual_limit_is_shared() -> None:
    """With 1,024 files the verbs have most of them."""
    assert ConnectionShares.of(1024, 5000, 2, 56) == ConnectionShares(verbs=543, others=90)


def test_too_few_files_are_refused() -> None:
    """The message says how many there are, and names the limit."""
    with pytest.raises(ListenError, match=r"^200 files may be open at once \(ulimit -n\), and at least \d+ are"):
        ConnectionShares.of(200, 5000, 2, 56)


LATER = """
import sys
from tests.worlds import World
from extender.cli.interpreter import import_ahead
import_ahead()
before = set(sys.modules)
world = World()
world.nodes(4)
world.gang("a", 2)
world.gang("large", 9)
world.judge()
print(sorted(set(sys.modules) - before))
"""


def test_nothing_is_imported_late() -> None:
    """A gang that starts, and one that waits, need no module that is not there."""
    ended = subprocess.run([sys.executable, "-c", LATER], check=True, capture_output=True, text=True)
    assert ended.stdout.strip() == "[]"
