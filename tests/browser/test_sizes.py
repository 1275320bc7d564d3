"""The page in the sizes and themes that people have: nothing runs out of it, nothing is cut off, axe finds nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]  # it ships no types
from playwright.sync_api import Browser, expect

from tests.browser.boards import board
from tests.browser.conftest import drawn
from tests.browser.services import Muster
from tests.browser.test_crowd import Load
from tests.patience import HANGS

pytestmark = pytest.mark.browser

_SIZES = ((390, 844), (768, 1024), (1024, 768), (1280, 800), (1440, 900), (1920, 1080))
_THEMES = ("light", "dark")
#: What is wider than the page, or than the table that it is in.
_CUT_OFF = """() => [...document.querySelectorAll(".scroll, main, header")]
    .filter((element) => element.checkVisibility() && element.scrollWidth > element.clientWidth + 1)
    .map((element) => `${element.className} ${element.getAttribute("aria-label")} ${element.scrollWidth}`)"""


@pytest.fixture(scope="module")
def places(muster: Muster) -> Iterator[dict[str, str]]:
    """Return pages by name: an overview of some nodes and of thousands, and gangs that wait and run."""
    small, large = Load(board(64, waiting=12)), Load(board(5000))
    yield {
        "overview": small.url,
        "crowd": large.url,
        "waits": f"{muster.url}#/gangs/default/large",
        "runs": f"{muster.url}#/gangs/default/first",
    }
    small.stop()
    large.stop()


@pytest.mark.parametrize("theme", _THEMES)
@pytest.mark.parametrize("size", _SIZES, ids=lambda size: "x".join(map(str, size)))
def test_every_size_and_theme_has_room_for_everything(
    browser: Browser, places: dict[str, str], size: tuple[int, int], theme: str, tmp_path: Path
) -> None:
    """The pictures lie in the test's folder: `--basetemp build/pages` keeps them where they can be looked at."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme="dark" if theme == "dark" else "light"
    )
    context.set_default_timeout(1000 * HANGS)
    for name, url in places.items():
        page = context.new_page()
        page.goto(url)
        if "#" in url:
            expect(page.locator("#gang")).to_contain_text("Members (")
        else:
            drawn(page)
            expect(page.locator("#waiting")).to_contain_text("default/wait-1")
            expect(page.locator("#islands")).to_contain_text("rack")
        page.screenshot(path=tmp_path / f"{name}-{size[0]}-{theme}.png", full_page=True)
        assert page.evaluate("() => document.documentElement.scrollWidth") == size[0], name
        assert page.evaluate(_CUT_OFF) == [], name
        if size[0] in {390, 1440}:
            found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
            assert [(each["id"], each["nodes"][0]["html"]) for each in found] == [], name
        page.close()
    context.close()
