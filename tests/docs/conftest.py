"""Markdown pages as the tests read them: headings, fenced blocks, links, words in backticks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")
#: The target of a link; or code, in which brackets are no link.
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|`[^`\n]*`")
#: What is not part of a heading's anchor. Source: github-slugger.
_NOT_IN_ANCHOR = re.compile(r"[^\w\- ]")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: the language it claims to be in, and its text."""

    language: str
    text: str

    def documents(self) -> list[dict[str, Any]]:
        """Return the YAML documents of the block."""
        return list(yaml.safe_load_all(self.text))


@dataclass(frozen=True, slots=True)
class Page:
    """One Markdown file.

    `prose` is its text without fenced blocks; `sections` holds, by its heading, what stands under each `##`.
    """

    path: Path
    text: str
    blocks: tuple[Block, ...] = field(init=False)
    prose: str = field(init=False)
    sections: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        """Take the page apart."""
        prose = _FENCE.sub("", self.text)
        blocks = tuple(Block(language, text) for language, text in _FENCE.findall(self.text))
        object.__setattr__(self, "blocks", blocks)
        object.__setattr__(self, "prose", prose)
        object.__setattr__(self, "sections", dict(_sections(self.text)))

    def __str__(self) -> str:
        """Render as the path from the repository's root."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def anchors(self) -> set[str]:
        """Return what a link to a heading of the page may name."""
        return {_NOT_IN_ANCHOR.sub("", title.lower()).replace(" ", "-") for _, title in _HEADING.findall(self.prose)}

    @property
    def links(self) -> list[str]:
        """Return the targets of all links."""
        return [target for target in _LINK.findall(self.prose) if target]

    @property
    def code(self) -> list[str]:
        """Return what stands in backticks."""
        return _CODE.findall(self.prose)


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Yield second-level headings and what stands under each."""
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        yield title, body


def read_page(path: Path) -> Page:
    """Read one file."""
    return Page(path, path.read_text(encoding="utf-8"))


PAGES = [
    read_page(path) for path in sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
]


@pytest.fixture(scope="session")
def page() -> Callable[[str], Page]:
    """Return how to read a page by its path from the repository's root."""
    return lambda name: read_page(ROOT / name)
