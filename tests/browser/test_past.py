"""The pages of queues, teams, users, nodes and the past."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]  # it ships no types
from playwright.sync_api import Page, expect

from extender.clock import SystemClock
from tests.browser.conftest import Watched, drawn
from tests.browser.pasts import past
from tests.browser.services import Muster

pytestmark = pytest.mark.browser

#: Address, and a text that is there once all is.
PAGES = {
    "queues": "team-b",
    "queues/team-a": "vision/train",
    "queues/research": "Above",
    "teams": "language",
    "teams/language": "language/resumed",
    "users": "user-3",
    "users/user-3": "language/resumed",
    "nodes": "gpu-7",
    "nodes/gpu-0": "language/resumed",
    "history": "language/resumed",
    "history/language/resumed": "evicted: Preempted for robots/urgent",
}
SIZES = ((390, 844), (1440, 900))
_SERIOUS = {"serious", "critical"}


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    """Return a Muster that has a past."""
    running = Muster(past=past(tmp_path_factory.mktemp("past") / "history.db", SystemClock().now().timestamp()))
    yield running
    with suppress(AssertionError):
        running.stop()


@pytest.mark.parametrize("path", PAGES)
def test_a_page_shows_what_there_is_in_any_width_and_theme(
    page: Page, watched: Watched, muster: Muster, path: str
) -> None:
    """Nothing is wider than the window, axe finds nothing serious, and nothing fails."""
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        for width, height in SIZES:
            page.set_viewport_size({"width": width, "height": height})
            page.goto(f"{muster.url}#/{path}?span=7d")
            article = page.locator("main > article:not([hidden])")
            expect(article).to_contain_text(PAGES[path])
            page.wait_for_function("() => !document.querySelector('.chart:empty')")
            if folder := os.environ.get("MUSTER_SCREENSHOTS"):
                page.screenshot(path=Path(folder) / f"{path.replace('/', '-')}-{width}-{scheme}.png", full_page=True)
            widest = page.evaluate("() => document.documentElement.scrollWidth")
            assert widest <= width, f"{path} is {widest} px wide in a window of {width}"
            found = Axe().run(page).response["violations"]
            serious = [(each["id"], each["nodes"][0]["html"][:120]) for each in found if each["impact"] in _SERIOUS]
            assert serious == []
    assert watched.problems == []


def test_a_queue_has_the_curves_of_those_below_it(page: Page, muster: Muster) -> None:
    """Each with its own, and not those of others."""
    page.goto(f"{muster.url}#/queues/research?span=7d")
    key = page.locator(".chart-key").first
    expect(key.get_by_role("link")).to_have_text(["team-a", "team-b"])
    expect(key).not_to_contain_text("none")
    page.get_by_role("button", name="24h").click()
    expect(page.get_by_role("button", name="24h")).to_have_attribute("aria-pressed", "true")
    assert page.url.endswith("#/queues/research")


def test_a_node_shows_what_ran_there_only(page: Page, muster: Muster) -> None:
    """Of a gang with two runs the one that was on this node."""
    page.goto(f"{muster.url}#/nodes/gpu-0?span=7d")
    lane = page.locator(".gang-lanes li", has=page.get_by_role("link", name="language/resumed"))
    expect(lane.get_by_role("img")).to_have_attribute("aria-label", "ran 1 h")
    expect(page.get_by_role("img", name="GPUs in use")).to_have_attribute("aria-label", re.compile("on average"))
    names = page.evaluate(
        """async () => {
            const link = document.querySelector("link[rel=modulepreload][href$='past.js']");
            const { unfolded } = await import(new URL(link.href, location).href);
            return [...unfolded("a0,gpu-[08-10,12],b")];
        }"""
    )
    assert names == ["a0", "gpu-08", "gpu-09", "gpu-10", "gpu-12", "b"]


def test_each_name_leads_to_its_page(page: Page, muster: Muster) -> None:
    """From the overview to a queue, from there to a team, and to a gang that ended and its user."""
    page.goto(muster.url)
    drawn(page)
    page.locator("#waiting").get_by_role("link", name="team-b", exact=True).click()
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_have_text("Queue team-b")
    expect(page.locator(".chart-key").first).to_contain_text("language")
    page.locator(".chart-key").first.get_by_role("link", name="language").click()
    expect(heading).to_have_text("Team language")
    page.get_by_role("link", name="language/resumed").first.click()
    expect(heading).to_have_text("language/resumed")
    expect(page.get_by_role("row")).to_have_count(5)
    page.get_by_role("link", name="user-3").first.click()
    expect(heading).to_have_text("User user-3")


def test_gangs_that_ended_are_found(page: Page, muster: Muster) -> None:
    """By how their names begin, by node and by outcome; the address has what is looked for, and older ones follow."""
    page.goto(f"{muster.url}#/history?span=30d")
    rows = page.get_by_role("table", name="Gangs that ended").locator("tbody:not(.gap) tr")
    expect(rows).to_have_count(100)
    page.get_by_role("button", name="Older gangs").click()
    expect(page.get_by_text("200 gangs, and older ones")).to_be_visible()
    page.get_by_label("Name begins with").fill("train-41")
    expect(page.get_by_text("gangs, and older ones")).to_have_count(0)
    expect(rows.first).to_contain_text("train-41")
    page.get_by_label("Name begins with").fill("resu")
    page.get_by_role("textbox", name="Node").fill("gpu-5")
    page.get_by_label("Outcome").select_option("Succeeded")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("language/resumed")
    assert "prefix=resu" in page.url
    page.reload()
    expect(rows).to_have_count(1)
    page.get_by_role("textbox", name="Node").fill("gpu-55")
    expect(page.get_by_text("No such gang is in the history.")).to_be_visible()


def test_a_gang_that_is_gone_leads_to_its_past(page: Page, muster: Muster) -> None:
    """Its page says that there is none, and where to look."""
    page.goto(f"{muster.url}#/gangs/language/resumed")
    page.get_by_role("link", name="What the history has of it").click()
    expect(page.get_by_text("Succeeded").first).to_be_visible()


def test_without_a_history_the_pages_say_so(page: Page) -> None:
    """And show what there is now."""
    running = Muster()
    page.goto(f"{running.url}#/queues/team-a")
    expect(page.get_by_text("The past cannot be shown: no history is kept")).to_be_visible()
    expect(page.get_by_role("table", name="Started gangs")).to_contain_text("default/first")
    running.stop()
