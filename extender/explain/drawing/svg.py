"""A picture as SVG: to be looked at in a browser, light or dark, and to be read out by a screen reader."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from extender.explain.drawing import layout
from extender.explain.drawing.layout import Box, LayoutColumns, LayoutRow, text_width
from extender.explain.drawing.tree import Domain, PictureNode, Sum, TreePicture, is_summed, tree, walk

_MARGIN = 16
_TITLE = 15
_LINE = 17
_FAMILY = "ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace"
#: A picture of one node has room for a title all the same.
_LEAST_WIDTH = 560
#: How many of the gang's nodes the description names.
_MOST_NAMED = 20

_STYLE = f"""
svg {{ font-family: {_FAMILY}; font-size: {layout.FONT}px; }} .paper {{ fill: #ffffff; }}
text {{ fill: #1f2328; }} .dim {{ fill: #59636e; }} .title {{ font-size: {_TITLE}px; font-weight: bold; }}
.domain {{ fill: #818b98; fill-opacity: 0.08; stroke: #818b98; stroke-opacity: 0.6; }}
.free {{ fill: none; stroke: #818b98; stroke-opacity: 0.6; }} .other {{ fill: #9aa4af; stroke: #9aa4af; }}
.own {{ fill: #0969da; stroke: #033d8b; }} .zone {{ stroke: #59636e; }}
@media (prefers-color-scheme: dark) {{
text {{ fill: #e6edf3; }} .dim {{ fill: #9198a1; }} .paper {{ fill: #0d1117; }}
.other {{ fill: #59636e; stroke: #59636e; }} .own {{ fill: #4493f8; stroke: #a5d6ff; }} .zone {{ stroke: #9198a1; }}
}}
"""
#: What XML 1.0 has no place for.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(picture: TreePicture) -> str:
    """Return the picture as an SVG document; equal pictures give equal text."""
    root = tree(picture)
    box, columns = layout.place(root)
    lines = list(picture.lines)
    if is_summed(root):
        lines.append(
            f"{len(picture.nodes)} nodes: those that are not drawn one by one are summed, as used/all of their GPUs"
        )
    width = max(box.width, _LEAST_WIDTH)
    heading = textwrap.wrap(picture.title, int(width / text_width("x", _TITLE))) or [""]
    words = [part for line in lines for part in textwrap.wrap(line, int(width / text_width("x")))]
    top = _MARGIN + len(heading) * (_TITLE + 4) + len(words) * _LINE + _LINE + layout.GAP
    svg = _element("svg", xmlns="http://www.w3.org/2000/svg", role="img", aria_labelledby="muster-title muster-desc")
    full = (width + 2 * _MARGIN, top + box.height + _MARGIN)
    svg.attrib |= {"viewBox": f"0 0 {_number(full[0])} {_number(full[1])}"}
    svg.attrib |= {"width": _number(full[0]), "height": _number(full[1])}
    svg.append(_element("title", picture.title, id="muster-title"))
    svg.append(_element("desc", "; ".join([*lines, *_spoken(picture)]), id="muster-desc"))
    svg.append(_element("style", _STYLE))
    paper = _element("rect", width="100%", height="100%")
    paper.set("class", "paper")
    svg.append(paper)
    y = float(_MARGIN)
    for line in heading:
        svg.append(_text(line, _MARGIN, y + _TITLE - 2, "title"))
        y += _TITLE + 4
    for line in words:
        svg.append(_text(line, _MARGIN, y + layout.FONT, "dim"))
        y += _LINE
    svg.append(_legend(picture.gang, y, zones=_has_zones(root)))
    body = _element("g", transform=f"translate({_MARGIN} {_number(top)})")
    _draw(body, box, columns, picture.gang)
    svg.append(body)
    return ET.tostring(svg, encoding="unicode") + "\n"


def _spoken(picture: TreePicture) -> list[str]:
    """Return where the gang is, in words."""
    own = [(node.name, node.held_by(picture.gang)) for node in picture.nodes if node.held_by(picture.gang)]
    words = [f"{name}: {count} GPUs" for name, count in own[:_MOST_NAMED]]
    return [*words, *([f"and {len(own) - _MOST_NAMED} nodes more"] if len(own) > _MOST_NAMED else [])]


def _has_zones(root: Domain) -> bool:
    return any(layout.zone_starts(node) for domain in walk(root) for node in domain.nodes)


def _legend(gang: str, top: float, *, zones: bool) -> ET.Element:
    group, left = _element("g"), float(_MARGIN)
    entries = [("own", gang), ("other", "others"), ("free", "free"), *([("zone", "NUMA zones")] if zones else [])]
    for kind, label in entries:
        short = layout.shorten(label, 60)
        if kind == "zone":
            group.append(_line(left + layout.CELL / 2, top))
        else:
            group.append(_cell(kind, left, top))
        group.append(_text(short, left + layout.CELL + 5, top + layout.FONT - 1, "dim"))
        left += layout.CELL + 5 + text_width(short) + 2 * layout.GAP
    return group


def _draw(group: ET.Element, box: Box, columns: LayoutColumns, gang: str) -> None:
    """Draw what is in a box; boxes inside are groups of their own."""
    for x, y, row in box.rows:
        inner = _element("g", transform=f"translate({_number(x)} {_number(y)})")
        _draw_row(inner, row, columns, gang)
        group.append(inner)
    for x, y, child in box.boxes:
        inner = _element("g", transform=f"translate({_number(x)} {_number(y)})")
        frame = _element("rect", width=_number(child.width), height=_number(child.height), rx="4")
        frame.set("class", "domain")
        inner.append(frame)
        inner.append(_text(layout.header(child), layout.PADDING, layout.HEADER - 6, "dim"))
        _draw(inner, child, columns, gang)
        group.append(inner)


def _draw_row(group: ET.Element, row: LayoutRow, columns: LayoutColumns, gang: str) -> None:
    left = columns.label + layout.GAP
    group.append(_element("title", _told(row.content, gang)))
    group.append(_text(row.label, 0, layout.FONT, "" if isinstance(row.content, PictureNode) else "dim"))
    if isinstance(row.content, Sum):
        _draw_bar(group, row.content, left)
        return
    starts = layout.zone_starts(row.content)
    for index, holder in enumerate(row.content.cells):
        if index in starts:
            group.append(_line(left + (layout.ZONE_GAP - layout.PITCH + layout.CELL) / 2, 1))
            left += layout.ZONE_GAP
        group.append(_cell("free" if not holder else "own" if holder == gang else "other", left, 1))
        left += layout.PITCH


def _draw_bar(group: ET.Element, total: Sum, left: float) -> None:
    """Draw the shares of the gang and of the others, as far as they go."""
    width = layout.BAR_CELLS * layout.PITCH - (layout.PITCH - layout.CELL)
    for kind, amount in (("free", total.gpus), ("other", total.used), ("own", total.own)):
        if amount:
            bar = _cell(kind, left, 1)
            bar.set("width", _number(width * amount / max(total.gpus, 1)))
            group.append(bar)


def _told(content: PictureNode | Sum, gang: str) -> str:
    """Return what a row says when it is pointed at."""
    if isinstance(content, Sum):
        return f"{content.nodes} nodes: {content.used} of {content.gpus} GPUs used, {content.own} by {gang}"
    place = "/".join(filter(None, (*content.domains, content.name)))
    holders = Counter(holder for holder in content.cells if holder)
    words = [f"{count} by {holder} ({_which(content.cells, holder)})" for holder, count in sorted(holders.items())]
    return f"{place}: {', '.join([f'{content.used} of {len(content.cells)} GPUs used', *words])}"


def _which(cells: Sequence[str], holder: str) -> str:
    return " ".join(str(index) for index, name in enumerate(cells) if name == holder)


def _cell(kind: str, x: float, y: float) -> ET.Element:
    cell = _element("rect", x=_number(x), y=_number(y), width=str(layout.CELL), height=str(layout.CELL), rx="2")
    cell.set("class", kind)
    return cell


def _line(x: float, y: float) -> ET.Element:
    line = _element("line", x1=_number(x), x2=_number(x), y1=_number(y - 1), y2=_number(y + layout.CELL + 1))
    line.set("class", "zone")
    return line


def _text(words: str, x: float, y: float, kind: str) -> ET.Element:
    text = _element("text", words, x=_number(x), y=_number(y))
    if kind:
        text.set("class", kind)
    return text


def _element(tag: str, text: str = "", **attributes: str) -> ET.Element:
    element = ET.Element(tag, {name.replace("_", "-"): _clean(value) for name, value in attributes.items()})
    if text:
        element.text = _clean(text)
    return element


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)


def _number(value: float) -> str:
    return f"{round(value, 1):g}"
