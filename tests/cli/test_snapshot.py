"""`muster snapshot`: the recording of a running Muster as a file, and what is in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from extender.cli.commands import app
from extender.journal.archive import unpack
from muster_lab.replay.verdict import judge
from tests.cli.conftest import Script, free_port
from tests.journal.conftest import Story

PATH = "/api/v1/snapshot"


@pytest.fixture(scope="module")
def packed() -> bytes:
    """Return the file of a short story: a gang runs, a pod waits."""
    story = Story()
    story.open()
    story.start()
    story.crowd()
    return story.snapshot().pack()


def snapshot(*arguments: str) -> Result:
    """Run one of the commands."""
    return CliRunner().invoke(app, ["snapshot", *arguments], env={"COLUMNS": "160"})


def test_it_saves_what_muster_sends(server: Script, packed: bytes, tmp_path: Path) -> None:
    """Byte for byte, and says what it is."""
    server.answers[PATH] = (200, packed)
    file = tmp_path / "bug.tar.gz"
    result = snapshot("save", "-o", str(file), "--server", server.url)
    assert result.exit_code == 0
    assert file.read_bytes() == packed
    assert "bug.tar.gz: 23 inputs, " in result.stdout
    assert f"`muster replay {file}` plays it" in result.stdout


def test_it_saves_without_names(server: Script, packed: bytes, tmp_path: Path) -> None:
    """Pseudonyms are put in here, so that it costs the running Muster nothing; the file plays."""
    server.answers[PATH] = (200, packed)
    file = tmp_path / "bug.tar.gz"
    assert snapshot("save", "--anonymise", "-o", str(file), "--server", server.url).exit_code == 0
    saved = unpack(file.read_bytes())
    assert saved.header.anonymised
    assert judge(saved).same


def test_names_can_be_taken_out_later(packed: bytes, tmp_path: Path) -> None:
    """Of a file that was saved with them."""
    (tmp_path / "a.tar.gz").write_bytes(packed)
    result = snapshot("anonymise", str(tmp_path / "a.tar.gz"), "-o", str(tmp_path / "b.tar.gz"))
    assert result.exit_code == 0
    assert unpack((tmp_path / "b.tar.gz").read_bytes()).header.anonymised


def test_what_cannot_be_saved_is_said(server: Script, packed: bytes, tmp_path: Path) -> None:
    """Nobody answers, nothing is recorded, it is no snapshot, there is no such folder: exit code 1 and a line."""
    result = snapshot("save", "--server", f"http://127.0.0.1:{free_port()}")
    assert (result.exit_code, "does not answer" in result.stderr) == (1, True)
    server.answers[PATH] = (503, json.dumps({"detail": "nothing is recorded: recording_megabytes is 0"}).encode())
    result = snapshot("save", "--server", server.url)
    assert (result.exit_code, "recording_megabytes is 0" in result.stderr) == (1, True)
    server.answers[PATH] = (200, packed[:100])
    result = snapshot("save", "--server", server.url)
    assert (result.exit_code, "what Muster sent cannot be read" in result.stderr) == (1, True)
    server.answers[PATH] = (200, packed)
    result = snapshot("save", "-o", str(tmp_path / "no" / "x"), "--server", server.url)
    assert (result.exit_code, "No such file or directory" in result.stderr) == (1, True)


def test_it_shows_what_is_in_a_file(packed: bytes, tmp_path: Path) -> None:
    """Versions, times, how many of what; JSON has everything."""
    file = tmp_path / "x.tar.gz"
    file.write_bytes(packed)
    result = snapshot("show", str(file))
    assert result.exit_code == 0
    assert "23 inputs from 2026-01-01T00:00:00+00:00 to " in result.stdout
    assert "names and labels are the cluster's own" in result.stdout
    assert "4 nodes, 3 pods, 2 gangs" in result.stdout
    document = json.loads(snapshot("show", str(file), "-o", "json").stdout)
    assert document["settings"]["recording_megabytes"] == 32
    assert document["state"]["gangs"][0]["name"] == "babbage-train"


@pytest.mark.parametrize("command", ["show", "anonymise"])
def test_what_cannot_be_read_is_said(command: str, tmp_path: Path) -> None:
    """A file that is not there, or is something else: exit code 2."""
    more = ["-o", str(tmp_path / "out")] if command == "anonymise" else []
    result = snapshot(command, str(tmp_path / "nothing"), *more)
    assert (result.exit_code, "No such file or directory" in result.stderr) == (2, True)
    (tmp_path / "text").write_text("hello")
    result = snapshot(command, str(tmp_path / "text"), *more)
    assert (result.exit_code, "not a snapshot" in result.stderr) == (2, True)


def test_gangs_that_wait_are_shown_with_their_reason(tmp_path: Path) -> None:
    """Some of them, and how many more there are."""
    story = Story()
    story.open()
    for number in range(25):
        story.waits(number)
    (tmp_path / "x").write_bytes(story.snapshot().pack())
    shown = snapshot("show", str(tmp_path / "x")).stdout
    assert "  lovelace-team/hut-0 waits: " in shown
    assert "1 of 3 members exist" in shown
    assert "and 6 more gangs wait" in shown
