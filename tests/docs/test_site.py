"""The site that mkdocs makes of the pages: complete, without broken links, and without a word to anybody else."""

from __future__ import annotations

import html
import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TypeAlias

import pytest
from mkdocs.config import load_config

from docsite.site import github_anchor, on_config, with_links, with_lists
from tests.docs.conftest import PAGES, ROOT

#: Attributes by which a page makes the browser fetch something.
_FETCHED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "object": "data"}
_TAG = re.compile(r"<(script|link|img|iframe|source|object|a)\b([^>]*)>")
_ATTRIBUTE = re.compile(r"([a-z-]+)=\"([^\"]*)\"")
#: Page, tag, attributes.
Tags: TypeAlias = list[tuple[str, str, dict[str, str]]]

_STYLE_FETCH = re.compile(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site once, in a second or two; whatever mkdocs warns of is an error."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def tags(site: Path) -> Tags:
    """Return every tag of the site that fetches something, and every link."""
    pages = ((path.relative_to(site).as_posix(), path.read_text(encoding="utf-8")) for path in site.rglob("*.html"))
    return [
        (page, tag, {name: html.unescape(value) for name, value in _ATTRIBUTE.findall(rest)})
        for page, text in pages
        for tag, rest in _TAG.findall(text)
    ]


def test_every_page_is_on_the_site_and_in_its_navigation(site: Path, tags: Tags) -> None:
    """Each file under docs/ has become a page that the first page's navigation leads to; so have the two outside."""
    own = {str(page).removeprefix("docs/") for page in PAGES if str(page).startswith("docs/")}
    expected = {re.sub(r"(?:README|index)\.md$", "index.html", name).replace(".md", ".html") for name in own}
    expected |= {"contributing.html", "changelog.html"}
    linked = {values["href"] for page, tag, values in tags if (page, tag) == ("index.html", "a") and "href" in values}
    assert {name for name in expected if not (site / name).is_file()} == set()
    assert expected - linked == set()


def test_a_reader_fetches_nothing_from_elsewhere(site: Path, tags: Tags) -> None:
    """Scripts, styles, fonts and pictures of every page are the site's own."""
    outside = [
        (page, attributes[name])
        for page, tag, attributes in tags
        if (name := _FETCHED.get(tag, "")) in attributes and re.match(r"(?:[a-z]+:)?//", attributes[name])
    ]
    styles = [path.name for path in site.rglob("*.css") if _STYLE_FETCH.search(path.read_text(encoding="utf-8"))]
    inline = [path.name for path in site.rglob("*.html") if _STYLE_FETCH.search(path.read_text(encoding="utf-8"))]
    assert (outside, styles, inline) == ([], [], [])


def test_every_picture_has_a_text(tags: Tags) -> None:
    """Who cannot see a picture is told what is on it."""
    pictures = [(page, attributes) for page, tag, attributes in tags if tag == "img"]
    assert pictures
    assert [(page, each["src"]) for page, each in pictures if not each.get("alt", "").strip()] == []


def test_the_site_can_be_searched(site: Path) -> None:
    """The index for the search is there and knows the pages."""
    index = (site / "search" / "search_index.json").read_text(encoding="utf-8")
    assert "reasons.html#backingoff" in index


def test_files_that_pages_link_to_are_on_the_site(site: Path) -> None:
    """An example can be taken from the site as it is in the repository."""
    example = Path("examples") / "gang.yaml"
    assert (site / "files" / example).read_bytes() == (ROOT / example).read_bytes()


def test_a_quiet_build_is_as_strict() -> None:
    """Warnings count as errors with --quiet too, which otherwise keeps mkdocs from counting them."""
    log = logging.getLogger("mkdocs")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        on_config(load_config(str(ROOT / "mkdocs.yml"), strict=False))
        assert log.level == logging.ERROR
        on_config(load_config(str(ROOT / "mkdocs.yml"), strict=True))
        assert log.level == logging.WARNING
    finally:
        log.setLevel(before)


def test_a_folder_in_the_navigation_stands_for_its_pages() -> None:
    """Every decision record is listed without a line of its own in mkdocs.yml."""
    config = load_config(str(ROOT / "mkdocs.yml"))
    config.nav = ["index.md", {"Develop": [{"Decisions": "decisions/"}]}]
    assert on_config(config).nav == [
        "index.md",
        {
            "Develop": [
                {
                    "Decisions": [
                        "decisions/README.md",
                        *(f"decisions/{path.name}" for path in sorted((ROOT / "docs" / "decisions").glob("0*.md"))),
                    ]
                }
            ]
        },
    ]


@pytest.mark.parametrize(
    ("text", "uri", "expected"),
    [
        ("[a](gangs.md#roles)", "queues.md", "[a](gangs.md#roles)"),
        ("[a](../examples/gang.yaml)", "install.md", "[a](files/examples/gang.yaml)"),
        ("[a](../../examples/gang.yaml)", "migration/kueue.md", "[a](../files/examples/gang.yaml)"),
        ("[a](../CONTRIBUTING.md#tests)", "index.md", "[a](contributing.md#tests)"),
        ("[a](../README.md)", "limits.md", "[a](index.md)"),
        ("[a](gang.yaml)", "files/examples/README.md", "[a](gang.yaml)"),
        ("[a](../docs/gangs.md)", "files/examples/README.md", "[a](../../gangs.md)"),
        ("[a](docs/decisions)", "contributing.md", "[a](decisions/README.md)"),
        ("[`tests`](../tests/docs)", "install.md", "`tests`"),
        ("[a](../no/such/file)", "install.md", "[a](../no/such/file)"),
        ("[a](https://kubernetes.io/)", "install.md", "[a](https://kubernetes.io/)"),
        ("[a](#here)", "install.md", "[a](#here)"),
        ("`[a](../examples/gang.yaml)`", "install.md", "`[a](../examples/gang.yaml)`"),
        ("```\n[a](../examples/gang.yaml)\n```", "install.md", "```\n[a](../examples/gang.yaml)\n```"),
    ],
)
def test_links_lead_where_things_are_on_the_site(text: str, uri: str, expected: str) -> None:
    """Pages link to each other as in the repository; files outside are copied; a folder outside is no page."""
    assert with_links(text, uri) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- a\n  b\n- c", "- a\n    b\n- c"),
        ("- a\n  - b\n    c", "- a\n    - b\n        c"),
        ("1. a\n\n   ```sh\n   b\n     c\n   ```\n\n2. d", "1. a\n\n    ```sh\n    b\n      c\n    ```\n\n2. d"),
        ("text\n- a", "text\n\n- a"),
        ("- a\n\ntext", "- a\n\ntext"),
        ("```\ntext\n- a\n  b\n```", "```\ntext\n- a\n  b\n```"),
        ("| - |\n    code", "| - |\n    code"),
    ],
)
def test_lists_are_indented_for_mkdocs(text: str, expected: str) -> None:
    """What belongs to an item is indented by four for each level, code included; nothing else moves."""
    assert with_lists(text) == expected


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("Replicas", "replicas"),
        ("Without docker: `make cluster`", "without-docker-make-cluster"),
        ("2 Capacity looks free", "2-capacity-looks-free"),
        ("GET /api/v1/queues", "get-apiv1queues"),
        ("a - b", "a---b"),
    ],
)
def test_headings_have_the_anchors_of_the_repository(heading: str, expected: str) -> None:
    """A link to a heading works on the site as it does in the repository."""
    assert github_anchor(heading, "-") == expected
