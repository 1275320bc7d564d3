"""A flame graph as SVG: callers below, what they call above, as wide as they were seen often; no script, no font file.

Pages show it as a picture; opened by itself it tells each frame's numbers under the pointer. For zooming and searching
there are tools that read folded stacks, such as speedscope.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.etree import ElementTree as ET
from zlib import crc32

from bench.flame.stacks import Stacks

#: Points.
_WIDTH, _MARGIN, _HEAD, _ROW = 1200, 10, 62, 16
#: Frames with a smaller part of the samples are too narrow to be seen.
_LEAST_SHARE = 0.001
#: Points of one character of the font, and of the blank at both ends of a frame; fewer characters are not written.
_CHARACTER, _PADDING, _FEWEST = 6.1, 3, 3
#: Whose code it is, as a frame's path begins, with hue, saturation and lightness; what none begins is somebody else's.
_MUSTER, _OTHERS = (28, 90, 62), (210, 28, 80)
_NAMESPACE = "http://www.w3.org/2000/svg"


@dataclass(slots=True)
class _Node:
    """A frame below others: how often it was seen there, and what it called."""

    count: int = 0
    calls: dict[str, _Node] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """Return how many frames stand above this one at most."""
        return max((1 + call.depth for call in self.calls.values()), default=0)


@dataclass(frozen=True, slots=True)
class _Box:
    """A frame in the picture: `begins` and `count` in samples, `depth` in rows from below."""

    frame: str
    begins: int
    count: int
    depth: int


def draw(stacks: Stacks, title: str, subtitle: str) -> str:
    """Return the flame graph of some stacks, at least one; equal stacks give equal text."""
    tree = _tree(stacks)
    rows = tree.depth
    height = _HEAD + rows * _ROW + _MARGIN
    root = ET.Element(
        "svg",
        {"xmlns": _NAMESPACE, "viewBox": f"0 0 {_WIDTH} {height}", "width": f"{_WIDTH}", "height": f"{height}"}
        | {"font-family": "DejaVu Sans Mono,Menlo,Consolas,monospace", "font-size": "10", "fill": "#24292f"},
    )
    ET.SubElement(root, "rect", {"width": "100%", "height": "100%", "fill": "#ffffff"})
    _text(root, _MARGIN, 20, title).attrib |= {"font-size": "14", "font-weight": "bold"}
    _text(root, _MARGIN, 36, subtitle)
    for place, (name, colour) in enumerate({"Muster": _MUSTER, "Python, its library and packages": _OTHERS}.items()):
        key = {"x": f"{_MARGIN + 90 * place}", "y": "44", "width": "10", "height": "10", "fill": _hsl(*colour)}
        ET.SubElement(root, "rect", key)
        _text(root, _MARGIN + 14 + 90 * place, 53, name)
    _draw_boxes(root, tree, height)
    return ET.tostring(root, encoding="unicode") + "\n"


def _tree(stacks: Stacks) -> _Node:
    root = _Node()
    for stack, count in sorted(stacks.items()):
        node = root
        node.count += count
        for frame in stack:
            node = node.calls.setdefault(frame, _Node())
            node.count += count
    return _pruned(root, _LEAST_SHARE * root.count)


def _pruned(node: _Node, least: float) -> _Node:
    return _Node(node.count, {frame: _pruned(call, least) for frame, call in node.calls.items() if call.count >= least})


def _boxes(node: _Node, begins: int, depth: int) -> Iterator[_Box]:
    for frame, call in sorted(node.calls.items()):
        yield _Box(frame, begins, call.count, depth)
        yield from _boxes(call, begins, depth + 1)
        begins += call.count


def _draw_boxes(root: ET.Element, tree: _Node, height: int) -> None:
    scale = (_WIDTH - 2 * _MARGIN) / tree.count
    for box in _boxes(tree, 0, 1):
        x, width = _MARGIN + box.begins * scale, box.count * scale
        y = height - _MARGIN - box.depth * _ROW
        group = ET.SubElement(root, "g")
        share = 100 * box.count / tree.count
        ET.SubElement(group, "title").text = f"{box.frame}: {box.count} samples, {share:.1f} %"
        ET.SubElement(
            group,
            "rect",
            {"x": f"{x:.1f}", "y": f"{y}", "width": f"{width:.1f}", "height": f"{_ROW - 1}", "rx": "1"}
            | {"fill": _colour(box.frame)},
        )
        room = int((width - 2 * _PADDING) / _CHARACTER)
        if room >= _FEWEST:
            _text(group, x + _PADDING, y + 11, _fitted(box.frame, room))


def _fitted(frame: str, room: int) -> str:
    """Return as much of the frame as there is room for: without its path, then without its end."""
    if len(frame) <= room:
        return frame
    function = frame.partition(" (")[0]
    return function if len(function) <= room else f"{function[: room - 2]}.."


def _text(parent: ET.Element, x: float, y: float, content: str) -> ET.Element:
    element = ET.SubElement(parent, "text", {"x": f"{x:.1f}", "y": f"{y}"})
    element.text = content
    return element


def _colour(frame: str) -> str:
    """Return a colour that tells whose code it is, a little different for each function and always the same for it."""
    hue, saturation, lightness = _MUSTER if " (extender/" in frame else _OTHERS
    variation = crc32(frame.encode()) % 16 - 8
    return _hsl(hue + variation, saturation, lightness + variation // 2)


def _hsl(hue: int, saturation: int, lightness: int) -> str:
    return f"hsl({hue},{saturation}%,{lightness}%)"
