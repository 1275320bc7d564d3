"""docs/reasons.md against the enum that it explains."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from extender.objects.reason import Reason, Wait
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


def _named(pattern: re.Pattern[str], section: str) -> list[str]:
    match = pattern.search(section)
    return [] if match is None else _NAME.findall(match[1])
