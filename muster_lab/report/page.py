"""The page: one HTML file with everything in it."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from xml.etree import ElementTree as ET

from muster_lab.report.charts import gantt, utilisation
from muster_lab.report.telemetry import Telemetry, telemetry_csv, waited
from muster_lab.simulation.notation import format_duration
from muster_lab.simulation.results import GangResult, Result

_STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1f2328; --dim: #59636e; --rule: #d1d9e0;
  --productive: #1a7f37; --init: #0969da; --idle: #bc4c00; --waits: #d0d7de; }
@media (prefers-color-scheme: dark) { :root { --paper: #0d1117; --ink: #e6edf3; --dim: #9198a1; --rule: #30363d;
  --productive: #3fb950; --init: #4493f8; --idle: #f0883e; --waits: #3d444d; } }
body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 1000px; padding: 0 1rem; }
svg { width: 100%; height: auto; font: 12px ui-monospace, monospace; }
svg text { fill: var(--ink); } svg .mark { fill: var(--dim); } svg .grid { stroke: var(--rule); }
.productive { fill: var(--productive); } .init { fill: var(--init); } .idle { fill: var(--idle); }
rect.waits { fill: var(--waits); }
.key span { display: inline-block; width: 0.9em; height: 0.9em; margin: 0 0.4em 0 1.2em; vertical-align: -0.1em; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--rule); padding: 0.25rem 1rem 0.25rem 0; text-align: left; }
td.number, th.number { text-align: right; } .scroll { overflow-x: auto; } .dim { color: var(--dim); }
"""
#: State -> what it is called in the key, in the order in which bars are read.
_KEY = {
    "productive": "trains",
    "init": "rendezvous",
    "idle": "holds GPUs, waits for the rest",
    "waits": "waits, holds nothing",
}
_HOURS = 3600.0


def report_page(title: str, result: Result, found: Telemetry, gpu_hour_price: float) -> str:
    """Return the page as HTML that loads nothing from elsewhere: charts, costs, gangs, evictions and the table as CSV.

    `gpu_hour_price` is in dollars for an hour of one GPU.
    """
    html = ET.Element("html", {"lang": "en"})
    head = ET.SubElement(html, "head")
    ET.SubElement(head, "meta", {"charset": "utf-8"})
    ET.SubElement(head, "meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"})
    ET.SubElement(head, "title").text = f"{title} - muster simulate"
    ET.SubElement(head, "style").text = _STYLE
    body = ET.SubElement(ET.SubElement(html, "body"), "main")
    ET.SubElement(body, "h1").text = title
    summary = result.summary
    sentence = (
        f"{summary.jobs_completed} of {summary.jobs_submitted} gangs finished within {format_duration(found.until)} "
        f"on {found.capacity} GPUs."
    )
    ET.SubElement(body, "p").text = sentence
    _section(body, "Timeline", gantt(found), key=_KEY)
    _section(body, "Utilisation", utilisation(found), key={state: _KEY[state] for state in list(_KEY)[:3]})
    _table(_heading(body, "What it cost"), ("", "GPU-hours", "share", "cost"), _costs(result, found, gpu_hour_price))
    gangs = [_gang_row(gang, found) for gang in result.gangs]
    columns = ("gang", "phase", "waited", "started", "finished", "bus bandwidth", "where", "why it waits")
    _table(_heading(body, "Gangs"), columns, gangs)
    if result.evictions:
        evictions = [
            (format_duration(gone.at), gone.pod, gone.node, gone.reason, gone.by or "") for gone in result.evictions
        ]
        _table(_heading(body, "Evictions"), ("after", "pod", "node", "reason", "for"), evictions)
    for warning in result.warnings:
        ET.SubElement(body, "p", {"class": "dim"}).text = f"Note: {warning}"
    data = base64.b64encode(telemetry_csv(found).encode()).decode()
    link = ET.SubElement(
        _heading(body, "Data"), "a", {"download": "telemetry.csv", "href": f"data:text/csv;base64,{data}"}
    )
    link.text = "telemetry.csv: what each gang did from when to when"
    return f"<!doctype html>\n{ET.tostring(html, encoding='unicode', method='html')}\n"


def _heading(body: ET.Element, title: str) -> ET.Element:
    section = ET.SubElement(body, "section")
    ET.SubElement(section, "h2").text = title
    return section


def _section(body: ET.Element, title: str, chart: ET.Element, key: dict[str, str]) -> None:
    section = _heading(body, title)
    words = ET.SubElement(section, "p", {"class": "key"})
    for state, meaning in key.items():
        swatch = ET.SubElement(words, "span", {"style": f"background: var(--{state})"})
        swatch.tail = meaning
    section.append(chart)


def _table(section: ET.Element, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    table = ET.SubElement(ET.SubElement(section, "div", {"class": "scroll"}), "table")
    head = ET.SubElement(ET.SubElement(table, "thead"), "tr")
    for column in columns:
        ET.SubElement(head, "th", {"scope": "col"}).text = column
    body = ET.SubElement(table, "tbody")
    for row in rows:
        line = ET.SubElement(body, "tr")
        for cell in row:
            ET.SubElement(line, "td", {"class": "number"} if cell[:1].isdigit() or cell[:1] == "$" else {}).text = cell


def _costs(result: Result, found: Telemetry, price: float) -> list[tuple[str, str, str, str]]:
    """Return where the GPU-hours went, and what they cost."""
    paid = result.autoscaling
    total = found.capacity * found.until / _HOURS if paid is None else paid.gpu_hours
    summary = result.summary
    hours = {
        "training": summary.productive_gpu_hours,
        "rendezvous": summary.init_gpu_hours,
        "idle: held while the rest was missing": summary.idle_gpu_hours,
        "lost: training that came to nothing": summary.lost_gpu_hours,
    }
    rows = {**hours, "free": max(total - sum(hours.values()), 0.0), "all": total}
    return [
        (name, f"{value:,.2f}", f"{value / total if total else 0:.1%}", f"${value * price:,.2f}")
        for name, value in rows.items()
    ]


def _gang_row(gang: GangResult, found: Telemetry) -> tuple[str, ...]:
    key, placement = f"{gang.namespace}/{gang.name}", gang.placement
    bandwidth = None if placement is None else placement.bus_bandwidth
    return (
        key,
        gang.phase.value,
        format_duration(waited(found.stretches.get(key, ()))),
        "" if gang.admitted_at is None else format_duration(gang.admitted_at),
        "" if gang.finished_at is None else format_duration(gang.finished_at),
        "" if bandwidth is None else f"{bandwidth:,.0f} GB/s",
        "" if placement is None else f"{placement.level} {placement.domain}".strip(),
        "" if gang.reason is None else f"{gang.reason.code}: {gang.reason.message}",
    )
