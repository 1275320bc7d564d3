"""What mkdocs is told of these pages (a hook, named in mkdocs.yml): links and lists as GitHub and editors read them.

The pages are written to be read in the repository. There, a link may lead to a file outside docs/, headings have
GitHub's anchors, and what belongs to an item of a list is indented as far as the item's text. None of that holds for
mkdocs by itself.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

_LOG = logging.getLogger("mkdocs")

#: Pages outside docs/ -> where they are on the site. Those that are there already are not added.
_OUTSIDE = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "README.md": "index.md"}
#: Where files that pages link to are on the site.
_FILES = PurePosixPath("files")

_FENCE = re.compile(r"(^ *```.*?^ *```[^\n]*$)", re.MULTILINE | re.DOTALL)
#: A link as (its words, its target); or code, in which brackets are no link.
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)|`[^`\n]*`")
_ITEM = re.compile(r"(?:[-*]|\d+\.) +(?=\S)")
#: Python-Markdown's width of one level of a list.
_LEVEL = 4
#: What is not part of a heading's anchor. Source: github-slugger.
_NOT_IN_ANCHOR = re.compile(r"[^\w\- ]")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Use GitHub's anchors, and put the pages of a folder where the navigation names the folder."""
    if config.strict:
        # Strict is to fail on warnings, but with --quiet none of them is counted.
        _LOG.setLevel(min(_LOG.getEffectiveLevel(), logging.WARNING))
    config.mdx_configs.setdefault("toc", {})["slugify"] = github_anchor
    config.nav = None if config.nav is None else list(map(_expanded, config.nav))
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages outside docs/, and every file that some page links to; of those, Markdown becomes pages as well."""
    for name, uri in _OUTSIDE.items():
        if files.get_file_from_path(uri) is None:
            files.append(File.generated(config, uri, content=(ROOT / name).read_text(encoding="utf-8")))
    pages = list(files.documentation_pages())
    while pages:
        page = pages.pop()
        for _, target in _LINK.findall(_FENCE.sub("", page.content_string)):
            path = _target(page.src_uri, target) if target else None
            if path is None or not path.is_file() or files.get_file_from_path(_on_site(path)) is not None:
                continue
            found = File.generated(config, _on_site(path), abs_src_path=str(path), inclusion=InclusionLevel.NOT_IN_NAV)
            files.append(found)
            if found.is_documentation_page():
                pages.append(found)
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return a page with links and lists as mkdocs wants them."""
    del config, files
    return with_lists("".join(with_links(part, page.file.src_uri) for part in _FENCE.split(markdown)))


def github_anchor(title: str, separator: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    return _NOT_IN_ANCHOR.sub("", title.strip().lower()).replace(" ", separator)


def with_links(text: str, uri: str) -> str:
    """Return text of the page `uri` with links that lead out of docs/ to where that is on the site.

    A link to a folder of docs/ leads to its README.md. One to another folder becomes its words: a folder is no page.
    """
    if text.lstrip(" ").startswith("```"):
        return text

    def link(match: re.Match[str]) -> str:
        words, target = match.groups()
        path = _target(uri, target) if target else None
        if path is None or not path.exists():
            return match[0]
        if path.is_dir():
            if not path.is_relative_to(DOCS):
                return words
            path /= "README.md"
        anchor = target.partition("#")[2]
        relative = os.path.relpath(_on_site(path), PurePosixPath(uri).parent)
        return f"[{words}]({relative}{'#' if anchor else ''}{anchor})"

    return _LINK.sub(link, text)


def with_lists(text: str) -> str:
    """Return text in which everything that belongs to an item of a list is indented by four for each level.

    A list that follows a line of a paragraph gets a blank line in front, without which it is none to Python-Markdown.
    """
    return "\n".join(_indented(text.split("\n")))


def _indented(lines: list[str]) -> Iterator[str]:
    starts: list[int] = []  # columns at which the text of the open items begins, outermost first
    fenced, paragraph = False, False
    for line in lines:
        bare = line.lstrip(" ")
        column = len(line) - len(bare)
        if not fenced and bare:
            while starts and column < starts[-1]:
                starts.pop()
        shift = _LEVEL * len(starts) - (starts[-1] if starts else 0)
        item = None if fenced else _ITEM.match(bare)
        if item is not None:
            if paragraph and not starts:
                yield ""
            starts.append(column + len(item[0]))
        if bare.startswith("```"):
            fenced = not fenced
        yield " " * max(0, column + shift) + bare if bare else ""
        paragraph = bool(bare) and not starts


def _expanded(entry: object) -> object:
    """Return an entry of the navigation, with the pages of every folder in the folder's place."""
    if not isinstance(entry, dict):
        return entry
    return {
        title: _pages(value) if isinstance(value, str) else list(map(_expanded, value))
        for title, value in entry.items()
    }


def _pages(uri: str) -> object:
    if not uri.endswith("/"):
        return uri
    return [f"{uri}README.md", *(f"{uri}{file.name}" for file in sorted((DOCS / uri).glob("[0-9]*.md")))]


def _target(uri: str, target: str) -> Path | None:
    """Return the file or folder of the repository that a link on a page leads to, None for what is elsewhere."""
    name = target.partition("#")[0]
    if not name or re.match(r"[a-z][a-z+.-]*:", name):
        return None
    return (_origin(uri).parent / name).resolve()


def _origin(uri: str) -> Path:
    """Return the file of the repository that is `uri` on the site."""
    if (DOCS / uri).exists():
        return DOCS / uri
    outside = {site: name for name, site in _OUTSIDE.items()}
    return ROOT / outside.get(uri, uri.removeprefix(f"{_FILES}/"))


def _on_site(path: Path) -> str:
    """Return where a file of the repository is on the site."""
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    name = path.relative_to(ROOT).as_posix()
    return _OUTSIDE.get(name) or (_FILES / name).as_posix()
