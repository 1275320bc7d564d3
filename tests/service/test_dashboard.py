"""Serving the dashboard's files."""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import AsyncIterator
from importlib.resources import files

import httpx
import pytest

from extender.service.app import Application, create_app
from extender.service.dashboard.pages import Page, Pages, dashboard_routes, read_pages
from muster_lab.simulation.virtual_time import LoopClock
from tests.control.conftest import Muster

#: What the page may weigh, all of its files together, uncompressed.
_MOST_BYTES = 500_000
_FILES = {"index.html": b'<link href="{{assets}}/a.css">\n{{modules}}', "a.css": b"a{}", "b.js": b"let b;"}


@pytest.fixture
async def dashboard() -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of an application with nothing but the dashboard."""
    app = Application(dashboard_routes(shown=True))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://muster") as client:
        yield client


def linked(page: str) -> list[str]:
    """Return what a page refers to, in order."""
    return [link for link in re.findall(r'(?:href|src)="([^"#]+)"', page) if not link.startswith("data:")]


async def test_the_page_and_all_that_it_links_to_are_served(dashboard: httpx.AsyncClient) -> None:
    """From relative paths, so that it also works behind the API server's proxy."""
    page = await dashboard.get("/")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    links = linked(page.text)
    assert {link.rpartition(".")[2] for link in links} == {"css", "js"}
    for link in links:
        assert not link.startswith(("/", "http"))
        assert (await dashboard.get(f"/{link}")).status_code == 200, link


def test_every_module_is_linked_and_every_import_exists() -> None:
    """The browser asks for all modules at once, and none of them names one that is not there."""
    pages = read_pages()
    modules = {name for name in pages.assets if name.endswith(".js")}
    assert {link.rpartition("/")[2] for link in linked(pages.index.body.decode())} == set(pages.assets)
    for name in modules:
        imported = set(re.findall(r'from "\./([^"]+)"', pages.assets[name].body.decode()))
        assert imported <= modules, name


async def test_nothing_but_its_own_modules_may_run(dashboard: httpx.AsyncClient) -> None:
    """The policy allows what comes from the service itself; the page has no inline script or style that needs more."""
    page = await dashboard.get("/")
    policy = page.headers["content-security-policy"].split("; ")
    assert policy[0] == "default-src 'none'"
    assert set(policy) >= {
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "frame-ancestors 'none'",
    }
    assert re.search(r"<script(?![^>]*\bsrc=)|<style|\bon\w+=|\bstyle=", page.text) is None
    asset = await dashboard.get(f"/{linked(page.text)[0]}")
    assert asset.headers["content-security-policy"] == page.headers["content-security-policy"]


def test_names_never_become_markup() -> None:
    """No module has a way from text to elements."""
    for name, page in read_pages().assets.items():
        if name.endswith(".js"):
            found = re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", page.body.decode())
            assert found == [], name


def test_the_page_is_light_and_asks_nobody_else() -> None:
    """All files together stay below 500 kB, and none names another host."""
    pages = read_pages()
    bodies = {"index.html": pages.index.body} | {name: page.body for name, page in pages.assets.items()}
    assert sum(map(len, bodies.values())) < _MOST_BYTES
    for name, body in bodies.items():
        hosts = re.findall(rb"https?://[^\s'\"]+", body)
        assert [host for host in hosts if host != b"http://www.w3.org/2000/svg"] == [], name


def test_the_files_come_with_the_package() -> None:
    """As data of the installed package, wherever that is."""
    names = {file.name for file in files("extender.service.dashboard").joinpath("static").iterdir()}
    assert names == {"index.html", *read_pages().assets}


async def test_an_asset_is_kept_for_ever_and_a_page_asked_for_again(dashboard: httpx.AsyncClient) -> None:
    """The path of an asset has the hash of all files in it; who has the page already gets a 304."""
    page = await dashboard.get("/")
    assert page.headers["cache-control"] == "no-cache"
    asset = await dashboard.get(f"/{linked(page.text)[0]}")
    assert "immutable" in asset.headers["cache-control"]
    again = await dashboard.get("/", headers={"If-None-Match": f'"other", {page.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["content-security-policy"] == page.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("gzip", "gzip"),
        ("br, GZIP;q=0.5", "gzip"),
        ("gzip;q=0", None),
        ("gzip; q=0.000", None),
        ("br", None),
        ("", None),
        ("x-gzip", None),
    ],
)
async def test_files_are_compressed_for_who_reads_that(
    dashboard: httpx.AsyncClient, accepted: str, coding: str | None
) -> None:
    """And sent as they are to others."""
    answer = await dashboard.get("/", headers={"Accept-Encoding": accepted})
    assert answer.headers.get("content-encoding") == coding
    assert answer.headers["vary"] == "Accept-Encoding"
    assert answer.text.startswith("<!doctype html>")
    assert (int(answer.headers["content-length"]) < len(answer.content)) == (coding == "gzip")


async def test_an_asset_of_another_release_is_not_found(dashboard: httpx.AsyncClient) -> None:
    """The answer says what to do; a name that leads out of the folder leads nowhere."""
    gone = await dashboard.get("/dashboard/0123456789abcdef/main.js")
    assert gone.status_code == 404
    assert "load the page again" in gone.json()["detail"]
    version = read_pages().version
    assert (await dashboard.get(f"/dashboard/{version}/..%2fpages.py")).status_code == 404
    assert (await dashboard.get(f"/dashboard/{version}/nothing.js")).status_code == 404


async def test_only_reading_is_possible(dashboard: httpx.AsyncClient) -> None:
    """HEAD tells the size, anything that could change something is 405."""
    assert (await dashboard.head("/")).status_code == 200
    assert (await dashboard.post("/")).status_code == 405


async def test_a_dashboard_that_is_off_says_so() -> None:
    """404 in words, with the setting and what tells the same."""
    app = Application(dashboard_routes(shown=False))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://muster") as client:
        answer = await client.get("/")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/plain; charset=utf-8")
    assert "dashboard: false" in answer.text
    assert "muster status" in answer.text


@pytest.mark.parametrize(("shown", "status"), [(True, 200), (False, 404)])
async def test_the_setting_takes_the_page_away_and_leaves_the_reads(muster: Muster, shown: bool, status: int) -> None:
    """With its files; what programs read stays, the stream of `muster watch` too."""
    muster.sync()
    settings = muster.settings.model_copy(update={"dashboard": shown})
    app = create_app(muster.controller, settings, muster.metrics, LoopClock(asyncio.get_running_loop()))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://muster") as client:
        assert (await client.get("/")).status_code == status
        assert (await client.get(f"/dashboard/{read_pages().version}/main.js")).status_code == status
        assert (await client.get("/api/v1/status")).status_code == 200
    assert "/api/v1/stream" in {getattr(route, "path", "") for route in app.routes}


def test_the_version_follows_the_content() -> None:
    """Any change of any file gives all assets other paths; equal files give equal bytes."""
    pages = Pages.of(_FILES)
    assert pages == Pages.of(dict(reversed(_FILES.items())))
    assert pages.version != Pages.of({**_FILES, "a.css": b"b{}"}).version
    base = f"dashboard/{pages.version}"
    assert pages.index.body.decode() == (f'<link href="{base}/a.css">\n<link rel="modulepreload" href="{base}/b.js">')
    assert gzip.decompress(pages.assets["b.js"].packed) == b"let b;"


def test_a_file_of_an_unknown_kind_is_refused() -> None:
    """Nobody could say how it is to be read."""
    with pytest.raises(ValueError, match=r"logo\.webp: the dashboard has files of the kinds html, css, js only"):
        Page.of("logo.webp", b"")
