"""Tables of the pages: every row has the cells of its head, so that nothing slips into another column."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.docs.conftest import PAGES, Page

#: What ends a cell; an escaped bar does not.
_BAR = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r"\|(?:\s*:?-+:?\s*\|)+")


def _tables(page: Page) -> Iterator[list[str]]:
    rows: list[str] = []
    for line in [*page.prose.splitlines(), ""]:
        if line.startswith("|"):
            rows.append(line.rstrip())
        elif rows:
            yield rows
            rows = []


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_row_of_a_table_is_as_long_as_its_head(page: Page) -> None:
    """A table has a rule below its head, and no row has more or fewer cells than that."""
    wrong = [
        row
        for rows in _tables(page)
        for row in rows
        if len(_BAR.findall(row)) != len(_BAR.findall(rows[0])) or not _RULE.fullmatch(rows[1])
    ]
    assert wrong == []


def test_tables_are_found() -> None:
    """The test above does find tables, with all their rows."""
    (page,) = [page for page in PAGES if str(page) == "docs/comparison.md"]
    widths = [len(_BAR.findall(rows[0])) - 1 for rows in _tables(page)]
    assert widths == [3, 9, 9, 9, 9, 9]
