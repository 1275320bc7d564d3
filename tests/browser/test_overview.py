"""The page on a running Muster."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]  # it ships no types
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import Watched, drawn
from tests.browser.services import Muster

pytestmark = pytest.mark.browser

_SERIOUS = {"serious", "critical"}
#: What has the focus: its id, else its text; and whether that can be seen.
_FOCUS = """() => {
    const element = document.activeElement;
    const style = getComputedStyle(element);
    return [element.id || element.textContent.trim(), style.outlineStyle !== "none" && style.outlineWidth !== "0px"];
}"""


@pytest.fixture
def overview(page: Page, watched: Watched, muster: Muster) -> Page:
    """Return the page once it shows the cluster with one gang that runs and one that waits."""
    page.goto(muster.url)
    drawn(page)
    expect(page.locator("#running")).to_contain_text("default/first")
    expect(page.locator("#waiting")).to_contain_text("default/large")
    assert watched.problems == []
    return page


def test_the_page_shows_the_cluster_without_help_from_elsewhere(
    overview: Page, watched: Watched, muster: Muster
) -> None:
    """No errors on the console, no request to another host, and what is told is there."""
    expect(overview.locator("#connection")).to_have_text("live")
    expect(overview.locator("#role")).to_have_text("leading")
    expect(overview.locator("#status")).to_contain_text(" of 64 GPUs used (")
    expect(overview.locator("#waiting")).to_contain_text("QuotaExceeded")
    waiting, running = (overview.locator(f"#{name}").get_by_role("row") for name in ("waiting", "running"))
    expect(waiting.filter(has_text="default/large")).to_contain_text("0 / 5")  # bound or succeeded, of minMember
    expect(running.filter(has_text="default/first")).to_contain_text("4 / 4")
    expect(overview.locator("#queues")).to_contain_text("team-a")
    expect(overview.locator("#events")).to_contain_text("started")
    expect(overview.locator("#latency")).to_contain_text("bind")
    assert watched.problems == []
    assert [url for url in watched.asked if not url.startswith((muster.url, "data:"))] == []


def test_a_click_on_a_gang_explains_it(overview: Page, watched: Watched) -> None:
    """Its page says why it waits, lists parts and members, draws the cluster, and has an address of its own."""
    overview.locator("#waiting").get_by_role("link", name="default/large").click()
    expect(overview.get_by_role("heading", level=1)).to_have_text("default/large")
    expect(overview).to_have_url(re.compile(r"#/gangs/default/large$"))
    expect(overview).to_have_title("default/large · Muster")
    expect(overview.locator("#gang")).to_contain_text("QuotaExceeded")
    expect(overview.locator("#gang")).to_contain_text("Members (5)")
    parts = overview.get_by_role("region", name="Parts").get_by_role("row")
    expect(parts).to_have_text(
        [re.compile(name) for name in ("^Part", "^large", r"^\s*r0waiting0 / 2.*5 pods", r"^\s*prefill", r"^\s*decode")]
    )
    expect(overview.locator("#overview")).to_be_hidden()
    overview.wait_for_function("() => document.querySelector('.gang-picture')?.naturalWidth > 0")
    overview.reload()
    expect(overview.locator("#gang")).to_contain_text("Members (5)")
    overview.get_by_role("link", name="All of the cluster").click()
    expect(overview.locator("#waiting").get_by_role("link", name="default/large")).to_be_visible()
    assert watched.problems == []


def test_a_click_on_a_gpu_leads_to_the_gang_that_holds_it(overview: Page) -> None:
    """The pointer says what is there, a click opens it."""
    box = overview.locator("#canvas").bounding_box()
    assert box is not None
    link = overview.locator("#pointed").get_by_role("link", name="default/first")
    places = [(x, y) for y in range(40, int(box["height"]), 30) for x in range(30, int(box["width"]), 30)]
    found = next(
        place for place in places if _points_at(overview, box["x"] + place[0], box["y"] + place[1], link.count)
    )
    overview.mouse.click(box["x"] + found[0], box["y"] + found[1])
    expect(overview).to_have_url(re.compile(r"#/gangs/default/first$"))


def _points_at(page: Page, x: float, y: float, count: Callable[[], int]) -> bool:
    """Move the pointer, and return whether a GPU of a gang is there."""
    page.mouse.move(x, y)
    return count() > 0 and "GPU " in page.locator("#pointed").inner_text()


#: Texts of a page that are sentences or at least phrases, with hidden ones left out.
_SENTENCES = """() => [...document.querySelectorAll("#gang :is(p, li, dd, h1, h2)")]
    .filter((element) => element.checkVisibility() && !element.closest(".commands"))
    .map((element) => element.innerText.trim().toLowerCase())"""


@pytest.mark.parametrize("gang", ["large", "first"])
def test_a_gangs_page_says_each_sentence_once(page: Page, muster: Muster, gang: str) -> None:
    """Nothing of five words or more occurs in two places."""
    page.goto(f"{muster.url}#/gangs/default/{gang}")
    expect(page.locator("#gang")).to_contain_text("Members (")
    texts = page.evaluate(_SENTENCES)
    sentences = [each for text in texts for each in re.split(r"[:;.]\s", text) if len(each.split()) >= 5]
    assert len(sentences) > 2
    for sentence in sentences:
        assert sum(sentence in text for text in texts) == 1, sentence


def test_what_can_be_done_is_a_command_to_copy(overview: Page, context: BrowserContext) -> None:
    """From a row and from a gang's page; the page itself sends nothing that changes anything."""
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    asked: list[str] = []
    overview.on("request", lambda request: asked.append(request.method))
    overview.get_by_role("button", name="Commands for default/large").click()
    box = overview.get_by_role("dialog")
    expect(box).to_contain_text("muster explain default/large")
    box.get_by_role("button", name="Copy muster hold default/large").click()
    assert overview.evaluate("() => navigator.clipboard.readText()") == "muster hold default/large"
    overview.keyboard.press("Escape")
    expect(box).to_have_count(0)
    overview.locator("#running").get_by_role("link", name="default/first").click()
    expect(overview.locator("#gang")).to_contain_text("muster requeue default/first")
    assert set(asked) <= {"GET"}


def test_a_gang_that_does_not_exist_is_said_to(page: Page, muster: Muster) -> None:
    """A stale link tells what is wrong, and what to look at."""
    page.goto(f"{muster.url}#/gangs/default/nobody")
    expect(page.locator("#gang")).to_contain_text("no gang default/nobody")


def test_a_job_that_starts_is_seen_at_once(
    overview: Page, muster: Muster, record_property: Callable[..., None]
) -> None:
    """Within a moment of its arrival, on the same page, without a reload."""
    overview.evaluate("() => { globalThis.before = performance.now(); }")
    muster.submit("sudden", members=1)
    row = overview.locator("#running tr", has_text="default/sudden")
    expect(row).to_contain_text("Running")
    waited = overview.evaluate("() => performance.now() - globalThis.before")
    record_property("milliseconds", waited)
    assert waited < 5_000
    expect(overview.locator("#events")).to_contain_text("default/sudden")


def test_the_filter_keeps_what_has_all_its_words(overview: Page) -> None:
    """In the tables, and Escape takes it away."""
    overview.keyboard.press("/")
    overview.keyboard.type("default large")
    expect(overview.locator("#running")).to_contain_text("No such gang matches the filter.")
    expect(overview.locator("#waiting")).to_contain_text("default/large")
    expect(overview.locator("#filter-found")).to_contain_text("1 of ")
    overview.keyboard.press("Escape")
    expect(overview.locator("#running")).to_contain_text("default/first")


def test_everything_is_reached_by_keyboard(overview: Page) -> None:
    """From the skip link on, always with a visible focus; the picture is walked with arrows."""
    met: list[str] = []
    while not met or met[-1] != "canvas":
        overview.keyboard.press("Tab")
        name, visible = overview.evaluate(_FOCUS)
        assert visible, name
        met.append(name)
    assert met[:8] == ["skip", "Muster", "Overview", "Queues", "Teams", "Users", "Nodes", "History"]
    assert met[8:11] == ["filter", "theme", "default/large"]  # the last one has waited for longest
    assert met[-8:] == ["default/large", "⋯", "team-b", "colour", "zoom-out", "zoom-in", "zoom-fit", "canvas"]
    expect(overview.locator("#pointed")).to_contain_text("gpu-0")
    overview.keyboard.press("ArrowRight")
    expect(overview.locator("#pointed")).not_to_contain_text("gpu-0")
    overview.keyboard.press("Home")
    expect(overview.locator("#pointed")).to_contain_text("gpu-0")
    for _ in range(8):
        if overview.locator("#pointed a").count():
            break
        overview.keyboard.press("ArrowRight")
    overview.keyboard.press("Enter")
    expect(overview.locator("#gang h1")).to_be_focused()
    overview.keyboard.press("Escape")
    expect(overview.locator("#gang")).to_be_hidden()
    overview.keyboard.press("w")
    expect(overview.locator("#waiting").get_by_role("link").first).to_be_focused()


def test_the_skip_link_leads_past_the_header(overview: Page) -> None:
    """To the main landmark, without leaving the page."""
    overview.keyboard.press("Tab")
    overview.keyboard.press("Enter")
    expect(overview.locator("main")).to_be_focused()
    expect(overview.locator("#overview")).to_be_visible()


def test_the_picture_is_there_in_words(overview: Page) -> None:
    """A table of domains and nodes with their GPUs."""
    overview.locator("#domains summary").click()
    rows = overview.locator("#domains-table tbody tr")
    expect(rows).to_have_count(1 + 2 + 4 + 8)
    expect(rows.nth(0)).to_contain_text("cluster")
    expect(overview.locator("#domains-table")).to_contain_text("gpu-7")


@pytest.mark.parametrize("where", ["", "#/gangs/default/large"])
def test_nothing_keeps_readers_with_other_means_out(page: Page, muster: Muster, where: str) -> None:
    """axe-core finds nothing serious: names, roles, landmarks, tables; and enough contrast in light and dark."""
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    page.goto(muster.url + where)
    expect(page.locator("#gang .panel" if where else "#waiting").first).to_contain_text(
        "gpu" if where else "default/large"
    )
    assert _violations(page, {"resultTypes": ["violations"]}) == []
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    assert _violations(page, {"resultTypes": ["violations"], "runOnly": ["color-contrast"]}) == []


def _violations(page: Page, options: dict[str, object]) -> list[tuple[str, str]]:
    """Return what axe-core finds serious: the rule, and the first element that breaks it."""
    found = Axe().run(page, options=options).response["violations"]
    return [(each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in _SERIOUS]


def test_the_theme_can_be_chosen_and_is_kept(overview: Page) -> None:
    """Dark as the system is, then light, also after a reload."""
    button = overview.locator("#theme")
    paper = "() => getComputedStyle(document.body).backgroundColor"
    dark = overview.evaluate(paper)
    button.click()
    expect(button).to_have_text("Theme: light")
    assert overview.evaluate(paper) != dark
    overview.reload()
    expect(button).to_have_text("Theme: light")
    button.click()
    assert overview.evaluate(paper) == dark


def test_a_narrow_window_has_everything_in_one_column(overview: Page) -> None:
    """A phone's width scrolls down, never sideways."""
    overview.set_viewport_size({"width": 360, "height": 700})
    expect(overview.locator("#latency")).to_be_attached()
    assert overview.evaluate("() => document.documentElement.scrollWidth") == 360
