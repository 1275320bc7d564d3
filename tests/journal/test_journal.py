"""The journal: written in a thread, bounded, and ended rather than cut."""

from __future__ import annotations

import datetime as dt
import os
import sys
import threading

from extender.admission.events import Decide, PodGone, Rebuild, Tick
from extender.clock import ManualClock
from extender.journal.journal import Journal
from extender.ledger.effects import Effects
from extender.settings import Settings
from tests.journal.conftest import Recorder, Story
from tests.state import State

MOMENT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def journal(limit: int = 1 << 20) -> Journal:
    """Return an empty journal."""
    return Journal(limit, ManualClock(MOMENT))


def written(journal: Journal, inputs: int) -> None:
    """Note so many inputs, and wait until they are written."""
    for _ in range(inputs):
        journal.note(Tick(), Effects(None))
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
    broken.note(PodGone(object()), Effects(None))  # type: ignore[arg-type]  # no such event
    excerpt = broken.excerpt()
    assert excerpt is not None
    assert excerpt.rest[0].exception() is not None
    assert "object cannot be recorded" in broken.standing().ended


def test_nothing_is_kept_where_none_is_wanted() -> None:
    """With recording_megabytes 0 there is no journal, no thread, and no snapshot."""
    recorder = Recorder(Settings(recording_megabytes=0), ManualClock())
    recorder.apply(Rebuild())
    recorder.apply(Decide())
    recording = recorder.journal.standing()
    assert recorder.journal.excerpt() is None
    assert (recording.on, recording.inputs, recording.ended) == (False, 0, "")


def test_the_event_loop_goes_before_the_thread_that_writes() -> None:
    """Where both share a processor, compressing what was recorded does not hold up an answer.

    Only Linux has a priority for each thread.
    """
    before = {thread.ident for thread in threading.enumerate()}
    noted = journal()
    written(noted, 1)
    (writer,) = (thread for thread in threading.enumerate() if thread.ident not in before)
    assert writer.native_id is not None
    lower = 19 if sys.platform == "linux" else 0
    assert os.getpriority(os.PRIO_PROCESS, writer.native_id) == lower


def test_an_engine_decides_alike_with_and_without_a_recording() -> None:
    """Noting changes nothing of what is decided."""
    with_one, without = Story(), Story(Settings(recording_megabytes=0))
    for story in (with_one, without):
        story.open()
        story.start()
        story.crowd()
    states = [State(each.recorder) for each in (with_one, without)]
    assert states[0].waits() == states[1].waits()
    assert (states[0].free() == states[1].free()).all()
