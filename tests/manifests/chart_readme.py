"""The table of values in the chart's README, made from values.yaml and the comments in it.

`python -m tests.manifests.chart_readme` writes it into the page; a test compares the two.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import yaml

from tests.manifests.chart import CHART

README = CHART / "README.md"

_BEGIN, _END = "<!-- values: begin -->\n", "<!-- values: end -->\n"


def values_table() -> str:
    """Return the table: every value by its path, its default as JSON, and the comment above it."""
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    node = yaml.compose(text)
    assert isinstance(node, yaml.MappingNode)
    rows = ["| value | default | |", "|---|---|---|", *_rows(node, text.splitlines(), "", "")]
    return "\n".join(rows) + "\n"


def _rows(node: yaml.MappingNode, lines: list[str], path: str, inherited: str) -> Iterator[str]:
    """Yield a row for each value; of mappings in block style, one for each value in them.

    A comment above a mapping speaks for the first of its values that has none of its own.
    """
    for key, value in node.value:
        comment = _comment_above(lines, key.start_mark.line) or inherited
        inherited = ""
        if isinstance(value, yaml.MappingNode) and not value.flow_style:
            yield from _rows(value, lines, f"{path}{key.value}.", comment)
        else:
            default = json.dumps(yaml.safe_load(yaml.serialize(value)), ensure_ascii=False).replace("|", "\\|")
            yield f"| `{path}{key.value}` | `{default}` | {comment} |"


def _comment_above(lines: list[str], line: int) -> str:
    """Return the comment that ends on the line before `line`, joined to one line."""
    first = line
    while first > 0 and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return " ".join(each.strip().removeprefix("#").strip() for each in lines[first:line]).replace("|", "\\|")


def main() -> None:
    """Write the table into the README."""
    before, _, rest = README.read_text(encoding="utf-8").partition(_BEGIN)
    _, _, after = rest.partition(_END)
    README.write_text(f"{before}{_BEGIN}\n{values_table()}\n{_END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
