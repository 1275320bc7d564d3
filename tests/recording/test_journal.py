"""The journal: written in a thread, bounded, and ended rather than cut."""

from __future__ import annotations

import datetime as dt

from extender.clock import ManualClock
from extender.recording.clocks import Readings
from extender.recording.entries import Entry
from extender.recording.inputs import INPUTS
from extender.recording.journal import Journal
from extender.recording.recorder import Recorder
from extender.settings import Settings
from tests.recording.conftest import Story

MOMENT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
TICK = Entry(INPUTS["tick"], (), None, Readings([1.0]), None)


def journal(limit: int = 1 << 20) -> Journal:
    """Return an empty journal."""
    return Journal(limit, MOMENT, Readings())


def written(journal: Journal, inputs: int, entry: Entry = TICK) -> None:
    """Note so many inputs, and wait until they are written."""
    for _ in range(inputs):
        journal.add(entry)
    excerpt = journal.excerpt()
    if excerpt is not None:
        excerpt.collect()


def test_everything_is_kept_in_order() -> None:
    """An excerpt has all that was noted until then, whole chunks and what is left over."""
    noted = journal()
    written(noted, 600)
    excerpt = noted.excerpt()
    assert excerpt is not None
    assert sum(chunk.inputs for chunk in excerpt.collect()) == excerpt.inputs == 600
    standing = noted.standing()
    assert (standing.on, standing.inputs, standing.since, standing.ended) == (True, 600, MOMENT, "")
    assert 0 < standing.size < 600 * 5


def test_a_full_journal_ends_and_is_let_go() -> None:
    """Without its beginning it could not be played: it says when it ended, and takes no more."""
    full = journal(limit=50)
    written(full, 600)
    standing = full.standing()
    assert (standing.on, standing.size) == (False, 0)
    assert standing.ended.endswith(" inputs since 2026-01-01T00:00:00Z fill recording_megabytes")
    written(full, 10)
    assert full.standing() == standing
    assert full.excerpt() is None


def test_what_cannot_be_written_ends_it() -> None:
    """A recording with a gap would be a wrong one."""
    broken = journal()
    broken.add(Entry(INPUTS["pod_gone"], (object(),), None, Readings(), None))
    excerpt = broken.excerpt()
    assert excerpt is not None
    assert excerpt.rest[0].exception() is not None
    assert "object cannot be recorded" in broken.standing().ended


def test_nothing_is_kept_where_none_is_wanted() -> None:
    """With recording_megabytes 0 there is no journal, no thread, and no snapshot."""
    recorder = Recorder(Settings(recording_megabytes=0), ManualClock())
    recorder.rebuild()
    recorder.decide()
    assert recorder.snapshot() is None
    assert (recorder.recording.on, recorder.recording.inputs, recorder.recording.ended) == (False, 0, "")


def test_a_recorder_decides_alike_with_and_without_a_recording() -> None:
    """Noting changes nothing of what is decided."""
    with_one, without = Story(), Story(Settings(recording_megabytes=0))
    for story in (with_one, without):
        story.open()
        story.start()
        story.crowd()
    on = [each.admission.reservations.waits for each in (with_one.recorder, without.recorder)]
    assert on[0] == on[1]
    tables = [each.admission.model.table for each in (with_one.recorder, without.recorder)]
    assert (tables[0].free() == tables[1].free()).all()
