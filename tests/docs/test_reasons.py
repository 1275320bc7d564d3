"""docs/reasons.md against the enum that it explains."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from extender.admission.attempts import MOST_SEARCHES
from extender.eviction.pending import PATIENCE_SECONDS
from extender.ledger.rejections import LONGEST_SECONDS
from extender.objects.reason import Reason, Wait
from extender.settings import Settings
from tests.docs.conftest import Page

_NUMBERS = re.compile(r"^Numbers: (.+?)\.", re.MULTILINE | re.DOTALL)
_WORDS = re.compile(r"Words: (.+?)\.", re.DOTALL)
_NAME = re.compile(r"`(\w+)`")


@pytest.fixture
def reasons(page: Callable[[str], Page]) -> Page:
    """Return the page of reasons."""
    return page("docs/reasons.md")


def test_every_reason_has_a_section_and_nothing_else_has(reasons: Page) -> None:
    """There is one section for each value of Reason, under exactly that word, and no other section."""
    assert sorted(reasons.sections) == sorted(Reason)


@pytest.mark.parametrize("reason", Reason)
def test_a_section_shows_the_message_as_it_reads(reasons: Page, reason: Reason) -> None:
    """The example is what the code writes, with the numbers and words that the section lists filled in."""
    section = reasons.sections[reason]
    numbers, words = _named(_NUMBERS, section), _named(_WORDS, section)
    marks = {name: 10**9 + index for index, name in enumerate(numbers)}
    message = Wait(reason, marks, {name: f"<{name}>" for name in words}).message
    pattern = re.escape(message)
    for mark in marks.values():
        pattern = pattern.replace(str(mark), r"\d+")
    for name in words:
        pattern = pattern.replace(re.escape(f"<{name}>"), ".*" if name == "whose" else ".+")
    example = section.partition("```text\n")[2].partition("\n```")[0]
    assert re.fullmatch(pattern, example)


@pytest.mark.parametrize("reason", Reason)
def test_a_section_says_what_to_do(reasons: Page, reason: Reason) -> None:
    """Nobody is told why without being told what to do about it, and before that where to see more."""
    section = reasons.sections[reason]
    assert 0 < section.find("\nTo see more: ") < section.find("\nWhat to do: ")


def test_how_long_is_as_long_as_it_takes(reasons: Page) -> None:
    """Times and counts that a section tells are the constants and defaults that decide."""
    settings = Settings()
    told = {
        Reason.BACKING_OFF: f"twice as long each time up to {settings.backoff_max_seconds:g} s",
        Reason.PREEMPTING: f"after {PATIENCE_SECONDS / 60:.0f} minutes the place is given up",
        Reason.SEARCH_GAVE_UP: f"for {MOST_SEARCHES} of them",
        Reason.REJECTED_BY_KUBELET: f"for {LONGEST_SECONDS / 60:.0f} minutes at most",
        Reason.WRITES_BACKLOGGED: f"`backlog_seconds` ({settings.backlog_seconds:g} s)",
        Reason.CACHE_STALE: f"`stale_after_seconds` ({settings.stale_after_seconds:g} s)",
    }
    assert {
        reason for reason, words in told.items() if words not in " ".join(reasons.sections[reason].split())
    } == set()


def _named(pattern: re.Pattern[str], section: str) -> list[str]:
    match = pattern.search(section)
    return [] if match is None else _NAME.findall(match[1])
