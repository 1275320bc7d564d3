"""The page while the service is away."""

from __future__ import annotations

import pytest
from fastapi import FastAPI, HTTPException
from playwright.sync_api import Page, expect

from extender.service.dashboard.pages import dashboard_routes
from tests.browser.conftest import drawn
from tests.browser.services import Muster, Thread

pytestmark = pytest.mark.browser


def test_the_page_recovers_when_the_service_is_back(page: Page) -> None:
    """It says that the connection is lost, keeps what it showed, and goes on by itself after a restart."""
    before = Muster()
    page.goto(before.url)
    drawn(page)
    page.evaluate("() => { globalThis.loadedOnce = true; }")
    before.stop()
    expect(page.locator("#connection")).to_have_text("connection lost, retrying")
    expect(page.locator("#notice")).to_contain_text("What is shown is what was told last.")
    expect(page.locator("#status")).to_contain_text("GPUs used")
    after = Muster(before.port)
    expect(page.locator("#connection")).to_have_text("live")
    expect(page.locator("#notice")).to_be_hidden()
    after.submit("later", members=1)
    expect(page.locator("#running")).to_contain_text("default/later")
    assert page.evaluate("() => globalThis.loadedOnce") is True
    after.stop()


def test_a_service_that_is_not_ready_says_why(page: Page) -> None:
    """The reasons of a 503 are shown, with what to do, in the place of the cluster; and the page tries again."""
    asked: list[str] = []

    def build() -> tuple[FastAPI, None]:
        app = FastAPI(routes=dashboard_routes(shown=True))

        @app.get("/api/v1/stream")
        async def stream() -> None:
            asked.append("stream")
            raise HTTPException(503, "not ready: pods not synced; nodes not synced")

        return app, None

    service = Thread().start(build)
    page.goto(service.url)
    unready = page.locator("#unready")
    expect(unready.get_by_role("heading")).to_have_text("Muster is not ready")
    expect(unready.get_by_role("listitem").nth(1)).to_have_text("nodes not synced")
    expect(unready).to_contain_text("Muster is reading the cluster from the API server.")
    expect(unready).to_contain_text("kubectl -n muster-system logs")
    expect(page.locator("#connection")).to_have_text("refused, retrying")
    expect(page.locator("#overview")).to_be_hidden()  # no empty frames
    page.wait_for_timeout(1_500)
    assert len(asked) > 1
    service.stop()
