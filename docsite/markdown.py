"""Pieces of Markdown: tables, cells, the head of a page that is made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

#: What every page that is made begins with, for whoever opens the file to change it.
_MARK = "<!-- Made from the code by `python -m docsite`: change the code, not this page. -->"


def page(title: str, *parts: str) -> str:
    """Return a page: the mark that it is made, its title, and its parts with blank lines between them."""
    return "\n\n".join([_MARK, f"# {title}", *(part.strip("\n") for part in parts)]) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells are Markdown, and may not hold line ends."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines).replace("|  |", "| |")


def cell(text: str) -> str:
    """Return prose as it can stand in a cell of a table: on one line, bars escaped."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    """Return a word as code, fit for a cell of a table; nothing for the empty word."""
    return f"`{cell(text)}`" if text else ""


def codes(words: Iterable[str]) -> str:
    """Return words as code, with commas between them."""
    return ", ".join(code(word) for word in words)


def anchor(heading: str) -> str:
    """Return what a link to a heading names after `#`: lower case, spaces as dashes, other signs left out."""
    kept = (sign for sign in heading.lower() if sign.isalnum() or sign in "_- ")
    return "".join(kept).replace(" ", "-")
