"""Links of pages that stand beside what they are about, outside of docs/."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.conftest import read_page


def broken_links(path: Path) -> list[str]:
    """Return the relative links of a page that lead to no file, or to no heading of one."""
    page, broken = read_page(path), []
    for link in page.links:
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if not target.exists() or (anchor and anchor not in read_page(target).anchors):
            broken.append(link)
    return broken
