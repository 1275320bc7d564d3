"""A report as one page of HTML with everything in it: who used what, at which price, and curves over time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final
from xml.etree import ElementTree as ET

from extender.cli.printing import read_time
from extender.history.documents import CurvesDocument, ReportDocument, ReportRow

#: Hues that differ in lightness too (after Okabe and Ito), light and dark; the last is of all others together.
_HUES: Final = (
    ("#0072b2", "#3b9ddd"),
    ("#e69f00", "#f0b13c"),
    ("#009e73", "#1fbf93"),
    ("#cc79a7", "#e097bf"),
    ("#56b4e9", "#8accf5"),
    ("#d55e00", "#f07f34"),
    ("#6f4fa3", "#a98be0"),
    ("#a3a500", "#c9cb3a"),
    ("#9aa4af", "#66727f"),
)
_STYLE: Final = """
:root { color-scheme: light dark; --paper: light-dark(#fff, #0d1117); --ink: light-dark(#1f2328, #e6edf3);
  --dim: light-dark(#59636e, #9198a1); --rule: light-dark(#d1d9e0, #30363d); }
body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 1000px; padding: 0 1rem; font-variant-numeric: tabular-nums; }
h1 { line-height: 1.2; overflow-wrap: anywhere; } .dim, caption { color: var(--dim); }
dl { display: flex; flex-wrap: wrap; gap: 0.5rem 2.5rem; } dt { color: var(--dim); }
dd { margin: 0; font-size: 1.4rem; font-weight: 600; }
svg { width: 100%; height: auto; font: 12px system-ui, sans-serif; } svg text { fill: var(--dim); }
.grid { stroke: var(--rule); } .capacity { fill: none; stroke: var(--ink); stroke-width: 1.5; stroke-dasharray: 5 4; }
ul.key { display: flex; flex-wrap: wrap; gap: 0 1.2rem; list-style: none; padding: 0; margin: 0; }
ul.key i { display: inline-block; width: 0.9em; height: 0.9em; margin-right: 0.4em; vertical-align: -0.1em; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; margin: 0.5rem 0 1rem; min-width: min(100%, 30rem); }
th, td { border-bottom: 1px solid var(--rule); padding: 0.25rem 1rem 0.25rem 0; text-align: left; }
tbody th { font-weight: 400; } tfoot > tr > * { font-weight: 600; border-bottom: 0; }
td.number, th.number { text-align: right; white-space: nowrap; } summary { cursor: pointer; }
@media print { body { margin: 0; max-width: none; } }
"""
_NOTE: Final = (
    "Used: by pods that were bound. Lost: the part of it whose work was lost with evictions. Reserved: kept for pods "
    "that were not bound yet. Share: used and reserved, of what the cluster had."
)
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 960, 240, 56, 12, 26
_TICKS: Final = 7
#: From so many seconds on the axis has days.
_DAYS: Final = 2 * 86_400
_TITLES: Final = {"queue": "Queues", "namespace": "Teams (namespaces)", "user": "Users"}


def report_page(reports: Sequence[ReportDocument], course: CurvesDocument, about: str, zone: dt.tzinfo) -> str:
    """Return the page as HTML that loads nothing from elsewhere.

    Each of `reports` is of the same time by something else; `about` names what they are limited to, "" for nothing.
    Times are those of `zone`.
    """
    first = reports[0]
    since, until = (_day(text, zone) for text in (first.since, first.until))
    title = f"GPU report {since} to {until}{about and f', {about}'}"
    html = ET.Element("html", {"lang": "en"})
    head = ET.SubElement(html, "head")
    ET.SubElement(head, "meta", {"charset": "utf-8"})
    ET.SubElement(head, "meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"})
    ET.SubElement(head, "title").text = title
    hues = "".join(f" --hue-{place}: light-dark({light}, {dark});" for place, (light, dark) in enumerate(_HUES))
    ET.SubElement(head, "style").text = f"{_STYLE}:root {{{hues} }}\n"
    main = ET.SubElement(ET.SubElement(html, "body"), "main")
    ET.SubElement(main, "h1").text = title
    _summary(main, first)
    names = [(curve.key or "none", curve) for curve in course.curves[: len(_HUES) - 1]]
    if course.others is not None:
        names.append(("others", course.others))
    _chart(main, "GPUs in use", course, [(name, curve.used) for name, curve in names], zone, capacity=True)
    _chart(main, "GPUs that gangs waited for", course, [(name, curve.waiting_gpus) for name, curve in names], zone)
    for each in reports:
        _tables(main, each)
    ET.SubElement(main, "p", {"class": "dim"}).text = f"{_NOTE} Times are those of {zone}."
    return f"<!doctype html>\n{ET.tostring(html, encoding='unicode', method='html')}\n"


def _summary(main: ET.Element, report: ReportDocument) -> None:
    used, reserved, lost = _sums(report.rows)
    whole = sum(report.capacity.values())
    facts = [("Used", f"{used:,.0f} GPU-hours"), ("Of the cluster", f"{used / whole:.1%}" if whole else "-")]
    facts += [("Reserved", f"{reserved:,.0f} GPU-hours"), ("Lost to evictions", f"{lost:,.0f} GPU-hours")]
    if report.price is not None:
        facts.append((f"Cost at {report.price:g} a GPU-hour", f"{used * report.price:,.2f}"))
    listed = ET.SubElement(main, "dl")
    for name, value in facts:
        pair = ET.SubElement(listed, "div")
        ET.SubElement(pair, "dt").text = name
        ET.SubElement(pair, "dd").text = value


def _tables(main: ET.Element, report: ReportDocument) -> None:
    """Add what each used in all, and folded away what each used in each period."""
    section = ET.SubElement(main, "section")
    ET.SubElement(section, "h2").text = _TITLES.get(report.by, report.by)
    if not report.rows:
        ET.SubElement(section, "p", {"class": "dim"}).text = "Nothing was used."
        return
    whole = sum(report.capacity.values())
    by_key = groupby(sorted(report.rows, key=lambda row: row.key), key=lambda row: row.key)
    sums = sorted(((key, _sums(rows)) for key, rows in by_key), key=lambda each: (-each[1][0], each[0]))
    total = _sums(report.rows)
    cells = [[key or "none", *_figures(amounts, whole, report.price)] for key, amounts in sums]
    foot = ["all", *_figures(total, whole, report.price)]
    _table(section, [report.by.capitalize(), *_headings(report.price)], cells, foot)
    folded = ET.SubElement(section, "details")
    ET.SubElement(folded, "summary").text = f"By {report.per}"
    rows = [
        [row.period, row.key or "none", *_figures(_sums([row]), report.capacity.get(row.period, 0.0), report.price)]
        for row in report.rows
    ]
    _table(folded, [report.per.capitalize(), report.by.capitalize(), *_headings(report.price)], rows, heads=2)


def _sums(rows: Iterable[ReportRow]) -> tuple[float, float, float]:
    """Return how many GPU-hours were used, reserved and lost."""
    used = reserved = lost = 0.0
    for row in rows:
        used, reserved, lost = used + row.used, reserved + row.reserved, lost + row.lost
    return used, reserved, lost


def _headings(price: float | None) -> list[str]:
    return ["Used", "Reserved", "Lost", "Share", *(["Cost"] if price is not None else [])]


def _figures(amounts: tuple[float, float, float], capacity: float, price: float | None) -> list[str]:
    used, reserved, lost = amounts
    share = f"{(used + reserved) / capacity:.1%}" if capacity else "-"
    return [
        f"{used:,.1f}",
        f"{reserved:,.1f}",
        f"{lost:,.1f}",
        share,
        *([f"{used * price:,.2f}"] if price is not None else []),
    ]


def _table(
    parent: ET.Element, columns: Sequence[str], rows: Iterable[Sequence[str]], foot: Sequence[str] = (), heads: int = 1
) -> None:
    """Add a table whose first columns are names, and the others figures."""
    frame = ET.SubElement(
        parent, "div", {"class": "scroll", "tabindex": "0", "role": "region", "aria-label": columns[0]}
    )
    table = ET.SubElement(frame, "table")
    parts = [("thead", [columns]), ("tbody", rows), ("tfoot", [foot] if foot else [])]
    for part, lines in parts:
        body = ET.SubElement(table, part)
        for line in lines:
            row = ET.SubElement(body, "tr")
            for place, text in enumerate(line):
                number = {"class": "number"} if place >= heads else {}
                if part == "thead":
                    ET.SubElement(row, "th", {"scope": "col", **number}).text = text
                elif place < heads:
                    ET.SubElement(row, "th", {"scope": "row"}).text = text
                else:
                    ET.SubElement(row, "td", number).text = text


def _chart(  # noqa: PLR0913 - what a chart is made of
    main: ET.Element,
    title: str,
    course: CurvesDocument,
    series: Sequence[tuple[str, Sequence[float]]],
    zone: dt.tzinfo,
    *,
    capacity: bool = False,
) -> None:
    """Add areas on top of each other, one step for each stretch of time."""
    section = ET.SubElement(main, "section")
    ET.SubElement(section, "h2").text = title
    series = [(name, values) for name, values in series if any(values)]
    steps = len(course.capacity)
    if not steps or not series:
        ET.SubElement(section, "p", {"class": "dim"}).text = "None in this time."
        return
    tops = [sum(values[place] for _, values in series) for place in range(steps)]
    most = _round_up(max([*tops, *(course.capacity if capacity else ())]))
    said = f"{title}, on average {sum(tops) / steps:,.1f}, at most {max(tops):,.1f}"
    svg = ET.SubElement(section, "svg", {"viewBox": f"0 0 {_WIDTH} {_HEIGHT}", "role": "img", "aria-label": said})

    def y(value: float) -> float:
        return round(_HEIGHT - _BOTTOM - value / most * (_HEIGHT - _TOP - _BOTTOM), 1)

    def x(place: float) -> float:
        return round(_LEFT + place / steps * (_WIDTH - _LEFT), 1)

    for part in range(5):
        level = y(most * part / 4)
        ET.SubElement(
            svg, "line", {"class": "grid", "x1": str(_LEFT), "x2": str(_WIDTH), "y1": str(level), "y2": str(level)}
        )
        place = {"x": str(_LEFT - 8), "y": str(level + 4), "text-anchor": "end"}
        ET.SubElement(svg, "text", place).text = f"{most * part / 4:,.4g}"
    begin = read_time(course.since)
    form = "%b %d" if steps * course.step_seconds > _DAYS else "%H:%M"
    for tick in range(_TICKS):
        if begin is None:
            break
        at = begin + dt.timedelta(seconds=steps * course.step_seconds * tick / _TICKS)
        place = {"x": str(x(steps * tick / _TICKS)), "y": str(_HEIGHT - 8)}
        ET.SubElement(svg, "text", place).text = at.astimezone(zone).strftime(form)
    below = [0.0] * steps
    key = ET.Element("ul", {"class": "key"})
    for hue, (name, values) in enumerate(series):
        above = [low + value for low, value in zip(below, values, strict=True)]
        colour = len(_HUES) - 1 if name == "others" else hue
        edge = [f"{x(place + end)},{y(value)}" for place, value in enumerate(above) for end in (0, 1)]
        back = [f"{x(place + end)},{y(value)}" for place, value in reversed([*enumerate(below)]) for end in (1, 0)]
        style = f"fill: var(--hue-{colour})"
        area = ET.SubElement(svg, "polygon", {"points": " ".join((*edge, *back)), "style": style})
        ET.SubElement(area, "title").text = f"{name}: {sum(values) / steps:,.1f} on average"
        entry = ET.SubElement(key, "li")
        ET.SubElement(entry, "i", {"style": f"background: var(--hue-{colour})"}).tail = name
        below = above
    if capacity:
        points = [f"{x(place + end)},{y(value)}" for place, value in enumerate(course.capacity) for end in (0, 1)]
        ET.SubElement(svg, "polyline", {"class": "capacity", "points": " ".join(points)})
        ET.SubElement(key, "li", {"class": "dim"}).text = "dashed: GPUs of the cluster"
    section.append(key)


def _round_up(value: float) -> float:
    """Return the next number whose quarters are round."""
    size = 1.0
    while size * 10 < value:
        size *= 10
    return next(size * factor for factor in (1, 2, 4, 6, 8, 10) if size * factor >= value)


def _day(text: str, zone: dt.tzinfo) -> str:
    moment = read_time(text)
    return "-" if moment is None else moment.astimezone(zone).strftime("%Y-%m-%d")
