"""A recording, played by another process, gives every answer again: random runs with queues, faults and failovers."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import structlog

from extender.admission.events import Rebuild
from extender.journal.anonymising import anonymise
from extender.journal.archive import unpack
from muster_lab.replay.verdict import judge
from tests.properties.replaying import run

#: Random runs. `REPLAY_RUNS=1000 pytest tests/properties/test_replay.py` plays a hundred times as many and more.
RUNS = int(os.environ.get("REPLAY_RUNS", "8"))
#: Steps of a story full of faults.
STEPS = 40
#: In how many of them it is counted how often deciding was taken up: reading a recording takes as long as making it.
_COUNTED = 10
#: How many of them are played without names too.
ANONYMOUS = 2


@pytest.fixture(autouse=True)
def silence() -> None:
    """Keep what Muster logs about all that to itself."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def test_another_process_gives_every_answer_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit, whatever the hashes are seeded with: decisions, reasons, evictions, the state at the end."""
    inputs = terms = 0
    for seed in range(RUNS):
        for number, snapshot in enumerate(run(seed, monkeypatch, STEPS)):
            (tmp_path / f"{seed}-{number}.tar.gz").write_bytes(snapshot.pack())
            inputs += snapshot.header.inputs
            terms += sum(isinstance(noted.event, Rebuild) for noted in snapshot.noted()) if seed < _COUNTED else 0
    command = [sys.executable, "-m", "tests.properties.replaying", str(tmp_path)]
    environment = os.environ | {"PYTHONHASHSEED": "4711"}
    played = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (played.stdout, played.stderr, played.returncode) == ("", "", 0)
    assert inputs > 500 * RUNS
    assert terms > min(RUNS, _COUNTED) / 2  # most of them lead, some again after others


def test_without_names_it_is_the_same_story(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pseudonyms decide as the names did, input for input, and what they decide plays again."""
    for seed in range(ANONYMOUS):
        for snapshot in run(seed, monkeypatch, STEPS):
            done = anonymise(snapshot)
            assert done.departs == 0
            assert judge(unpack(done.snapshot.pack())).same
