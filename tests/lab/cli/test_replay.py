"""`muster replay`: a snapshot, played again."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from extender.cli.commands import app
from extender.journal.archive import Snapshot
from tests.journal.conftest import Story
from tests.lab.replay.test_verdict import changed

Written = Callable[[Snapshot], str]


@pytest.fixture(scope="module")
def recorded() -> Snapshot:
    """Return a short story."""
    story = Story()
    story.open()
    story.start()
    story.crowd()
    return story.snapshot()


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Return what writes a snapshot to a file and says where it is."""

    def write(snapshot: Snapshot) -> str:
        file = tmp_path / "bug.tar.gz"
        file.write_bytes(snapshot.pack())
        return str(file)

    return write


def replay(*arguments: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(app, ["replay", *arguments], env={"COLUMNS": "160"})


def test_the_same_is_exit_code_0(recorded: Snapshot, written: Written) -> None:
    """With how much was played."""
    result = replay(written(recorded))
    assert (result.exit_code, result.stdout) == (0, "same: 23 of 23 inputs, 3 passes, and the state at the end\n")


def test_a_part_of_it_can_be_played(recorded: Snapshot, written: Written) -> None:
    """Without the state at the end, which is that of all of it."""
    result = replay(written(recorded), "--until", "5")
    assert (result.exit_code, result.stdout) == (0, "same: 5 of 23 inputs, 0 passes\n")


def test_the_first_difference_is_exit_code_1(recorded: Snapshot, written: Written) -> None:
    """Shown with what was expected, what came, and what was before."""
    file = written(changed(recorded, "Arrive", lambda noted: noted._replace(came=b"\xc0")))
    result = replay(file)
    assert result.exit_code == 1
    assert result.stdout.startswith("different at input ")
    assert "  before " in result.stdout
    lines = [line.split(maxsplit=1) for line in result.stdout.splitlines() if line.startswith("  ")]
    shown = {line[0]: line[1] for line in lines}
    assert "Arrive(5e0f-0, zebra-" in shown["input"]
    assert shown["expected"] == "nothing"
    assert shown["got"].startswith('{"answer":["hold","",')


def test_a_clock_that_is_read_otherwise_is_shown(recorded: Snapshot, written: Written) -> None:
    """Though the same came of it."""
    more = changed(recorded, "Decide", lambda noted: noted._replace(readings=noted.readings._replace(monotonic=[])))
    result = replay(written(more))
    assert (result.exit_code, "the monotonic clock was read more often than recorded" in result.stdout) == (1, True)


def test_another_state_at_the_end_is_a_difference(recorded: Snapshot, written: Written) -> None:
    """With where it is."""
    result = replay(written(replace(recorded, state={**recorded.state, "passes": 9})))
    assert (result.exit_code, "state.json passes: expected 9, got 3" in result.stdout) == (1, True)


def test_programs_get_json(recorded: Snapshot, written: Written) -> None:
    """The verdict, and the first difference with all arguments."""
    same = json.loads(replay(written(recorded), "-o", "json").stdout)
    assert (same["same"], same["difference"], same["played"]) == (True, None, 23)
    file = written(changed(recorded, "Filter", lambda noted: noted._replace(came=b"\xc0")))
    different = json.loads(replay(file, "-o", "json").stdout)
    assert different["same"] is False
    assert different["difference"]["input"] == "Filter"
    assert different["difference"]["arguments"][1] == [json.loads(different["difference"]["got"])["answer"][1][0]]


def test_a_file_of_another_muster_is_played_with_a_warning(recorded: Snapshot, written: Written) -> None:
    """What was changed since may be the difference."""
    result = replay(written(replace(recorded, header=replace(recorded.header, muster="0.0.9"))))
    assert (result.exit_code, "recorded by Muster 0.0.9" in result.stderr) == (0, True)


@pytest.mark.parametrize("content", [None, b"", b"hello", b"\x1f\x8b\x08\x00"])
def test_what_cannot_be_read_is_exit_code_2(content: bytes | None, tmp_path: Path) -> None:
    """One line that names the file."""
    file = tmp_path / "x"
    if content is not None:
        file.write_bytes(content)
    result = replay(str(file))
    assert result.exit_code == 2
    assert result.stderr.startswith(f"muster replay: {file}: ")
    assert len(result.stderr.splitlines()) == 1


def test_a_file_that_breaks_its_lines_is_refused_in_one(tmp_path: Path) -> None:
    """What a stranger's file says of itself is part of the message."""
    file = tmp_path / "x"
    content = json.dumps({"format": "muster-snapshot", "version": 2, "muster": "1\n2"}).encode()
    with tarfile.open(file, mode="w:gz") as archive:
        member = tarfile.TarInfo("snapshot.json")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    result = replay(str(file))
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)


def test_a_file_that_needs_too_much_memory_is_exit_code_2(
    recorded: Snapshot, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not said to be different."""

    def unpack(_file: bytes, _most: int) -> Snapshot:
        raise MemoryError

    file = written(recorded)
    monkeypatch.setattr("extender.journal.archive.unpack", unpack)
    result = replay(file)
    assert (result.exit_code, result.stderr) == (2, f"muster replay: {file}: it needs more memory than there is\n")
