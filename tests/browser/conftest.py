"""A real Chromium, and what it is pointed at.

Everything lives as long as a module: while Playwright runs, nothing else may use asyncio in its thread.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect, sync_playwright

from tests.browser.services import Muster
from tests.patience import HANGS

#: Where Debian, Ubuntu, Fedora and Google put it.
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_WIDTH, _HEIGHT = 1440, 900
expect.set_options(timeout=1000 * HANGS)


def chromium() -> str:
    """Return the path of the browser; fail with the command that installs it."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.fail("these tests need Chromium: sudo apt-get install -y chromium", pytrace=False)
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return a running browser."""
    path = chromium()
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield running
        running.close()


class Watched:
    """What went wrong on a page, and where it asked for something."""

    def __init__(self, page: Page) -> None:
        """Watch a page from now on."""
        self.problems: list[str] = []
        self.asked: list[str] = []
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", self._requested)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.problems.append(message.text)

    def _requested(self, request: Request) -> None:
        self.asked.append(request.url)


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """Return a fresh profile of the browser, in the dark."""
    fresh = browser.new_context(viewport={"width": _WIDTH, "height": _HEIGHT}, color_scheme="dark")
    fresh.set_default_timeout(1000 * HANGS)
    yield fresh
    fresh.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    """Return an empty page."""
    return context.new_page()


@pytest.fixture
def watched(page: Page) -> Watched:
    """Return what goes wrong on the page."""
    return Watched(page)


@pytest.fixture(scope="module")
def muster() -> Iterator[Muster]:
    """Return a Muster that runs for all tests of a module."""
    running = Muster()
    yield running
    with suppress(AssertionError):  # a test may have stopped it
        running.stop()


def drawn(page: Page) -> None:
    """Wait until the picture of the cluster is there."""
    page.wait_for_selector("canvas[data-drawn]", state="attached")
