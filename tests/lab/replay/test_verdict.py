"""Playing a recording: the same, or what is different first."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace

import pytest

from extender.admission.events import Arrive
from extender.journal.archive import Snapshot, SnapshotError
from extender.journal.entries import EntryWriter, Noted, Readings
from extender.journal.playing import JournalPlayer
from extender.journal.tape import Chunk
from extender.settings import Settings
from muster_lab.replay.verdict import describe, details, judge, outcome


def changed(snapshot: Snapshot, name: str, change: Callable[[Noted], Noted]) -> Snapshot:
    """Return a snapshot in which the first input called `name` is another."""
    noted = list(snapshot.noted())
    place = next(index for index, each in enumerate(noted) if each.name == name)
    noted[place] = change(noted[place])
    return replace(snapshot, chunks=[Chunk(len(noted), zlib.compress(EntryWriter().rewrite(noted)))])


def test_the_same_comes_out(snapshot: Snapshot) -> None:
    """All inputs, the passes that filter asked for too, the state at the end."""
    told: list[int] = []
    verdict = judge(snapshot, tell=told.append)
    assert (verdict.same, verdict.whole, verdict.played, verdict.passes) == (True, True, snapshot.header.inputs, 3)
    assert told == []  # too few to be told about


def test_it_can_be_played_in_part(snapshot: Snapshot) -> None:
    """Up to an input, without a look at the end."""
    verdict = judge(snapshot, until=3)
    assert (verdict.same, verdict.whole, verdict.played) == (True, False, 3)


def test_another_answer_is_the_first_difference(snapshot: Snapshot) -> None:
    """It is told with what was expected, what came, and what was before it."""
    verdict = judge(changed(snapshot, "Filter", lambda noted: noted._replace(came=b"\x93\xa1a\x90\xc0")))
    assert verdict.difference is not None
    assert verdict.difference.noted.name == "Filter"
    assert outcome(verdict.difference.expected) == '["a",[],null]'
    assert outcome(verdict.difference.got).startswith('{"answer":["pinned",["zebra-')
    assert [each.name for each in verdict.before][-1] == "PodSeen"
    assert not verdict.same


def test_another_time_is_a_difference(snapshot: Snapshot) -> None:
    """A clock that is read more or less often than then means that something else was done."""
    more = judge(changed(snapshot, "Decide", lambda noted: noted._replace(readings=Readings())))
    assert more.difference is not None
    assert "read more often than recorded" in more.difference.clock
    late = Readings([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0])
    less = judge(changed(snapshot, "PodSeen", lambda noted: noted._replace(readings=late)))
    assert less.difference is not None
    assert "less often than recorded" in less.difference.clock


def test_another_state_at_the_end_is_a_difference(snapshot: Snapshot) -> None:
    """Though every answer was the same."""
    state = {**snapshot.state, "passes": 7}
    verdict = judge(replace(snapshot, state=state))
    assert (verdict.difference, verdict.state) == (None, "passes: expected 7, got 3")
    assert not verdict.same


def test_other_settings_decide_otherwise(snapshot: Snapshot) -> None:
    """Settings are a part of what is played."""
    other = replace(snapshot, header=replace(snapshot.header, settings=Settings(scheduler_names=("else",))))
    assert not judge(other).same


def test_a_number_of_inputs_that_is_not_true_is_refused(snapshot: Snapshot) -> None:
    """A file that lacks its end says that it has more."""
    with pytest.raises(SnapshotError, match="it says that it has 999 inputs"):
        judge(replace(snapshot, header=replace(snapshot.header, inputs=999)))


def test_a_value_that_cannot_be_fails_as_an_outcome(snapshot: Snapshot) -> None:
    """Crafted events end in a difference, never in a traceback."""
    crafted = Arrive([], "zebra-0")  # type: ignore[arg-type]  # no UID
    (difference,) = JournalPlayer(snapshot.header.settings, snapshot.header.first).play(
        [Noted(crafted, Readings(), b"")]
    )
    assert difference is not None
    assert "TypeError" in outcome(difference.got)


def test_inputs_are_told_in_a_line(snapshot: Snapshot) -> None:
    """Who it is about, and long lists by their ends."""
    lines = [describe(noted) for noted in snapshot.noted()]
    assert lines[0] == "NodeSeen(node zebra-0)"
    assert "Tick()" in lines
    assert any(line.startswith("Filter(") and "4 nodes: zebra-0 to zebra-3" in line for line in lines)
    assert any(line.startswith("Arrive(5e0f-0, zebra-") for line in lines)
    assert details(next(iter(snapshot.noted())))[0]["name"] == "zebra-0"  # type: ignore[index]  # plain values
