"""The pages of docs/reference, each with the function that makes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from docsite import api, cli, events, labels, metrics, reasons, settings
from docsite.places import DOCS, ROOT

FOLDER = DOCS / "reference"

PAGES: Mapping[str, Callable[[], str]] = {
    "annotations.md": labels.render,
    "api.md": api.render,
    "cli.md": cli.render,
    "events.md": events.render,
    "metrics.md": metrics.render,
    "reasons.md": reasons.render,
    "settings.md": settings.render,
}


def write_pages() -> Iterator[str]:
    """Write every page, and yield the paths of those that have changed, from the repository's root."""
    FOLDER.mkdir(exist_ok=True)
    for name, render in PAGES.items():
        path, text = FOLDER / name, render()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            yield path.relative_to(ROOT).as_posix()
