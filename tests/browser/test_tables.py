"""Tables sort and filter, say so in the address, and make the rows that are seen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.boards import board
from tests.browser.conftest import Watched, drawn
from tests.browser.test_crowd import Load

pytestmark = pytest.mark.browser

_WAITING = 2000


@pytest.fixture(scope="module")
def crowd() -> Iterator[Load]:
    """Return a service with more waiting gangs than fit on a page."""
    running = Load(board(64, waiting=_WAITING))
    yield running
    running.stop()


def _first(page: Page) -> str:
    return page.locator("#waiting tbody:not(.gap) tr").first.get_by_role("link").first.inner_text()


def test_a_head_sorts_and_says_how(page: Page, crowd: Load) -> None:
    """Numbers from the largest on, then the other way, then as given; by pointer and keyboard; the address keeps it."""
    page.goto(crowd.url)
    drawn(page)
    assert _first(page) == "default/wait-1"
    head = page.locator("#waiting").get_by_role("columnheader", name="GPUs")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    expect(page.locator("#waiting tbody:not(.gap) tr").first).to_contain_text("64 / 64")
    page.keyboard.press("Enter")
    expect(head).to_have_attribute("aria-sort", "ascending")
    assert page.url.endswith("#/?waiting.sort=gpus")
    page.reload()
    expect(head).to_have_attribute("aria-sort", "ascending")
    expect(page.locator("#waiting tbody:not(.gap) tr").first).to_contain_text("4 / 4")
    head.get_by_role("button").click()
    expect(head).not_to_have_attribute("aria-sort", "ascending")
    assert (_first(page), page.url) == ("default/wait-1", f"{crowd.url}#/")


def test_names_sort_as_people_do(page: Page, crowd: Load) -> None:
    """With their numbers as numbers."""
    page.goto(f"{crowd.url}#/?waiting.sort=-gang")
    drawn(page)
    expect(page.locator("#waiting")).to_contain_text(f"default/wait-{_WAITING}")
    assert _first(page) == f"default/wait-{_WAITING}"


def test_only_rows_within_sight_are_made(page: Page, watched: Watched, crowd: Load) -> None:
    """Scrolling to the end comes to the last one, and each says which it is of how many."""
    page.goto(crowd.url)
    drawn(page)
    table = page.locator("#waiting table")
    expect(table).to_have_attribute("aria-rowcount", str(_WAITING + 1))
    assert table.locator("tbody:not(.gap) tr").count() < 300
    frame = page.locator("#waiting .scroll")
    frame.evaluate("(frame) => frame.scrollIntoView({block: 'end'})")
    for _ in range(3):  # what is not made yet has a height that is guessed
        frame.evaluate("(frame) => frame.scrollTo(0, frame.scrollHeight)")
        page.wait_for_timeout(100)
    last = page.locator("#waiting tr", has_text=f"default/wait-{_WAITING}")
    expect(last).to_be_in_viewport()
    expect(last).to_have_attribute("aria-rowindex", str(_WAITING + 1))
    assert watched.problems == []


def test_a_link_carries_what_is_looked_for(page: Page, crowd: Load) -> None:
    """Whoever opens it sees the same rows, and Back leads to them from a gang's page."""
    page.goto(crowd.url)
    drawn(page)
    page.locator("#filter").fill("wait-77 team-b")
    expect(page.locator("#waiting")).to_contain_text("default/wait-77")
    link = page.url
    assert link.endswith("#/?q=wait-77+team-b")
    page.goto("about:blank")
    page.goto(link)
    expect(page.locator("#filter")).to_have_value("wait-77 team-b")
    expect(page.locator("#filter-found")).to_contain_text("6 of ")
    assert page.locator("#waiting tbody:not(.gap) tr").count() == 6


def test_a_place_that_is_not_there_is_said_to(page: Page, crowd: Load) -> None:
    """With a way to what is."""
    page.goto(f"{crowd.url}#/nowhere/at/all")
    expect(page.locator("#missing")).to_contain_text("There is nothing at nowhere/at/all.")
    page.locator("#missing").get_by_role("link").click()
    expect(page.locator("#overview")).to_be_visible()
