"""Charts over time as SVG: who did what when, and what became of the GPUs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from xml.etree import ElementTree as ET

from muster_lab.report.telemetry import Stretch, Telemetry, Use
from muster_lab.simulation.notation import format_duration

_WIDTH, _LEFT, _RIGHT, _TOP = 960, 190, 36, 24
_PLOT = _WIDTH - _LEFT - _RIGHT
_ROW, _BAR = 20, 14
_CHART_HEIGHT = 180
#: Characters of a gang's name that fit in front of its bars; all of it is in the bar's title.
_NAME_LENGTH = 26
#: Seconds between two marks of the time axis, and how many there are about.
_STEPS = (1, 5, 10, 30, 60, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400, 604800)
_MARKS = 8
#: What is drawn upon what: the GPUs that were of use at the bottom.
_LAYERS = ("productive", "init", "idle")


def gantt(found: Telemetry) -> ET.Element:
    """Return a chart with a row per gang, in order of arrival: bars for what it did."""
    height = _TOP + _ROW * max(len(found.stretches), 1) + 4
    svg = _svg(height, "Timeline: what each gang did when")
    for mark, x in _marks(found.until):
        _line(svg, x, _TOP - 4, x, height, "grid")
        _text(svg, x, _TOP - 8, mark, "mark", anchor="middle")
    for row, (gang, stretches) in enumerate(found.stretches.items()):
        y = _TOP + row * _ROW
        name = gang if len(gang) <= _NAME_LENGTH else f"{gang[: _NAME_LENGTH - 1]}…"
        _text(svg, _LEFT - 8, y + _BAR - 2, name, "name", anchor="end")
        for stretch in stretches:
            if stretch.state != "finished":
                _bar(svg, stretch, found.until, y)
    return svg


def utilisation(found: Telemetry) -> ET.Element:
    """Return a chart of how many GPUs did what over time; what is left of the height was free."""
    height = _TOP + _CHART_HEIGHT + 4
    svg = _svg(height, f"Utilisation: what became of {found.capacity} GPUs")
    scale = _CHART_HEIGHT / max(found.capacity, 1)
    for mark, x in _marks(found.until):
        _line(svg, x, _TOP - 4, x, _TOP + _CHART_HEIGHT, "grid")
        _text(svg, x, _TOP - 8, mark, "mark", anchor="middle")
    for share in (0.0, 0.5, 1.0):
        y = _TOP + _CHART_HEIGHT * (1 - share)
        _line(svg, _LEFT, y, _WIDTH - _RIGHT, y, "grid")
        _text(svg, _LEFT - 8, y + 4, f"{share * found.capacity:g} GPUs", "name", anchor="end")
    below = [0] * len(found.uses)
    for layer in _LAYERS:
        above = [base + getattr(use, layer) for base, use in zip(below, found.uses, strict=True)]
        if any(above):
            path = _area(found.uses, below, above, found.until, scale)
            shape = ET.SubElement(svg, "path", {"class": layer, "d": path})
            ET.SubElement(shape, "title").text = layer
        below = above
    return svg


def _area(uses: Sequence[Use], below: Sequence[int], above: Sequence[int], until: float, scale: float) -> str:
    """Return the outline of a layer: along its upper edge, and back along its lower one."""
    bottom = _TOP + _CHART_HEIGHT

    def edge(heights: Sequence[int]) -> list[tuple[float, float]]:
        points = []
        for use, value in zip(uses, heights, strict=True):
            points += [(x, bottom - value * scale) for x in (_x(use.start, until), _x(use.end, until))]
        return points

    points = [*edge(above), *reversed(edge(below))]
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) + "Z"


def _bar(svg: ET.Element, stretch: Stretch, until: float, y: float) -> None:
    x, end = _x(stretch.start, until), _x(stretch.end, until)
    box = {"class": stretch.state, "x": f"{x:.1f}", "y": f"{y:g}", "height": f"{_BAR}"}
    bar = ET.SubElement(svg, "rect", {**box, "width": f"{max(end - x, 0.5):.1f}"})
    times = f"{format_duration(stretch.start)} to {format_duration(stretch.end)}"
    held = f" with {stretch.gpus} GPUs" if stretch.gpus else ""
    ET.SubElement(bar, "title").text = f"{stretch.gang} {stretch.state}{held}, {times}"


def _marks(until: float) -> Iterator[tuple[str, float]]:
    """Yield the marks of the time axis: what each says, and where it is."""
    longest = math.ceil(until / _MARKS / _STEPS[-1]) * _STEPS[-1]
    step = next((step for step in _STEPS if until / step <= _MARKS), longest)
    for number in range(int(until // step) + 1):
        yield format_duration(number * step), _x(number * step, until)


def _x(seconds: float, until: float) -> float:
    return _LEFT + _PLOT * (seconds / until if until else 0.0)


def _svg(height: float, label: str) -> ET.Element:
    return ET.Element("svg", {"viewBox": f"0 0 {_WIDTH} {height:g}", "role": "img", "aria-label": label})


def _line(svg: ET.Element, x1: float, y1: float, x2: float, y2: float, style: str) -> None:  # noqa: PLR0913, PLR0917 - two points and a style
    ends = {"x1": f"{x1:.1f}", "y1": f"{y1:.1f}", "x2": f"{x2:.1f}", "y2": f"{y2:.1f}"}
    ET.SubElement(svg, "line", {"class": style, **ends})


def _text(svg: ET.Element, x: float, y: float, text: str, style: str, *, anchor: str) -> None:  # noqa: PLR0913 - where, what and how
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor}
    ET.SubElement(svg, "text", {"class": style, **place}).text = text
