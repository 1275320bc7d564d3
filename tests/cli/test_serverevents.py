"""Server-sent events from bytes that are cut anywhere."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from extender.cli.asking import lines_of
from extender.cli.following import ServerEvent, events_of

STREAM = (
    b'retry: 1000\nevent: board\nid: 1\ndata: {"a": "\xc3\xa4"}\n\n: nothing new\n\n'
    b"data:one\r\ndata: two\r\n\r\nevent: change\n\nevent: cut\ndata: off"
)
EXPECTED = [ServerEvent("board", '{"a": "\u00e4"}'), ServerEvent(""), ServerEvent("message", "one\ntwo")]


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_it_does_not_matter_where_the_bytes_are_cut(places: list[int]) -> None:
    """Names, several lines of data, comments; what has no data or no end is no event."""
    cuts = [0, *sorted(places), len(STREAM)]
    chunks = [STREAM[start:end] for start, end in itertools.pairwise(cuts)]
    assert list(events_of(lines_of(chunks))) == EXPECTED


def test_bytes_that_are_no_text_are_replaced() -> None:
    """A damaged stream is an event that nobody can read, not a crash."""
    assert list(events_of(lines_of([b"data: \xff\n\n"]))) == [ServerEvent("message", "\ufffd")]
