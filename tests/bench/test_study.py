"""The study of policies: played small, drawn, and written as tables."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bench.study.__main__ import main
from bench.study.documents import by_name, load

SVG = "{http://www.w3.org/2000/svg}"
RUN = ("--gangs", "30", "--nodes", "2", "--load", "0.9")


def test_what_is_played_is_drawn_and_tabled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A policy played later joins those that were played before; each has a curve and a line."""
    assert main(["run", "--into", str(tmp_path), *RUN, "--policy", "easy"]) == 0
    assert main(["run", "--into", str(tmp_path), *RUN, "--policy", "fifo"]) == 0
    file = tmp_path / "study-090.json"
    (study,) = load([file])
    assert [*by_name(study)] == ["fifo", "easy"]
    capsys.readouterr()
    assert main(["table", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Load 0.90: 30 gangs over ")
    assert [line.split(" | ")[0] for line in lines[4:6]] == ["| `fifo`", "| `easy`"]
    assert main(["draw", str(file), "--into", str(tmp_path), "--png"]) == 0
    for name in ("study-waits", "study-backlog"):
        drawing = (tmp_path / f"{name}.svg").read_text(encoding="utf-8")
        texts = {"".join(each.itertext()) for each in ET.fromstring(drawing).iter(f"{SVG}text")}  # noqa: S314 - our own
        assert {"fifo", "easy"} < texts
        assert (tmp_path / f"{name}.png").stat().st_size > 0


def test_a_file_without_study_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whether it is not there or holds something else."""
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"trace": {}}), encoding="utf-8")
    for file, message in ((tmp_path / "none.json", "cannot be read"), (other, "is not what `muster study")):
        assert main(["table", str(file)]) == 2
        assert f"{file} {message}" in capsys.readouterr().err
