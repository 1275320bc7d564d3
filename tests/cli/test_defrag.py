"""`muster defrag`: moves that would make a waiting gang fit, asked of a running Muster."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner, Result

from extender.cli.commands import app
from tests.cli.conftest import Script, free_port

PATH = "/api/v1/gangs/team/train/defrag"
MOVES = [{"gang": "team/small", "pods": 2, "from": ["node-1"], "to": ["node-7", "node-8"]}]


def answer(*, fits: bool, moves: object = (), reason: str = "") -> tuple[int, bytes]:
    """Return what a Muster says."""
    return 200, json.dumps({"fits": fits, "moves": moves, "reason": reason}).encode()


def defrag(*arguments: str) -> Result:
    """Run the command, for a wide screen."""
    return CliRunner().invoke(app, ["defrag", *arguments], env={"COLUMNS": "160"})


def test_it_shows_what_would_have_to_move(server: Script) -> None:
    """Which gang, how many pods, from where to where; nothing is asked to be done."""
    server.answers[PATH] = answer(fits=True, moves=MOVES)
    result = defrag("team/train", "--server", server.url)
    assert result.exit_code == 0
    (row,) = (line for line in result.stdout.splitlines() if "team/small" in line)
    assert re.split(" {2,}", row) == ["team/small", "2", "node-1", "node-7, node-8"]
    assert "with these moves team/train fits; --apply has them done" in result.stdout
    assert server.asked == [f"GET {PATH}"]


def test_applied_it_is_done(server: Script) -> None:
    """The same question as a POST."""
    server.answers[PATH] = answer(fits=True, moves=MOVES)
    result = defrag("--apply", "team/train", "--server", server.url)
    assert result.exit_code == 0
    assert "evicted what has to move; team/train gets the room" in result.stdout
    assert server.asked == [f"POST {PATH}"]


def test_a_gang_that_fits_needs_no_moves(server: Script) -> None:
    """Nothing is listed."""
    server.answers[PATH] = answer(fits=True)
    assert defrag("team/train", "--server", server.url).stdout.strip() == "team/train fits without any move"


def test_no_moves_that_help_are_a_failure_of_their_own(server: Script) -> None:
    """The reason is told, and scripts see it in the exit code."""
    server.answers[PATH] = answer(fits=False, reason="48 GPUs are free, 64 are needed")
    result = defrag("team/train", "--plan", "--server", server.url)
    assert result.exit_code == 4
    assert "team/train does not fit: 48 GPUs are free, 64 are needed" in result.stdout


def test_programs_get_the_document(server: Script) -> None:
    """As the service sent it."""
    server.answers[PATH] = answer(fits=True, moves=MOVES)
    result = defrag("team/train", "--server", server.url, "-o", "json")
    assert json.loads(result.stdout) == {"fits": True, "moves": MOVES, "reason": ""}


@pytest.mark.parametrize(
    ("status", "body", "code", "message"),
    [
        (404, b'{"detail":"no gang team/train"}', 3, "muster defrag: no gang team/train"),
        (503, b'{"detail":"not ready"}', 1, "muster defrag: not ready"),
        (200, b"hello", 1, "does not answer as Muster does"),
    ],
)
def test_a_refusal_is_told_in_one_line(server: Script, status: int, body: bytes, code: int, message: str) -> None:
    """The exit code tells an unknown gang from a Muster that cannot be asked."""
    server.answers[PATH] = status, body
    result = defrag("team/train", "--server", server.url)
    assert result.exit_code == code
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_nobody_listening_is_a_failure() -> None:
    """As with the other commands that ask."""
    result = defrag("train", "--server", f"http://127.0.0.1:{free_port()}")
    assert result.exit_code == 1
    assert "does not answer" in result.stderr


def test_arguments_that_cannot_be_used_are_refused() -> None:
    """Exit code 2, quoting them."""
    result = defrag("a/b/c")
    assert result.exit_code == 2
    assert "muster defrag: 'a/b/c' is no NAMESPACE/NAME of a gang" in result.stderr
