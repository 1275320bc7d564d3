"""Pictures as SVG."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from xml.etree import ElementTree as ET

import pytest

from extender.explain.drawing.layout import ADVANCE, FONT
from extender.explain.drawing.svg import render
from extender.explain.drawing.tree import PictureNode, TreePicture
from tests.explain.drawing.builders import GANG, node, racks

SVG = "{http://www.w3.org/2000/svg}"

PICTURES = {
    "nothing": TreePicture("nothing there", (), (), (), GANG),
    "one node": TreePicture("one", (), (), (node(0, own=4),), GANG),
    "flat": TreePicture("flat", (), (), tuple(node(i) for i in range(30)), GANG),
    "racks": racks(64, own={1: 8, 2: 8, 3: 4}),
    "racks, summed": racks(500, own=dict.fromkeys(range(40, 60), 8)),
    "blocks": racks(5000, own=dict.fromkeys(range(700), 8)),
    "long names": TreePicture(
        "a title that goes on and on " * 12,
        ("a line that goes on and on " * 12,),
        ("a-level-with-a-long-name",),
        tuple(
            replace(node(i), name=f"gke-production-us-central1-h100-pool-{i:04d}-x7k2", domains=(f"{'d' * 60}{i % 2}",))
            for i in range(40)
        ),
        "a-namespace-of-some-length/a-gang-of-some-length-" + "g" * 60,
    ),
    "odd": TreePicture(
        "<&>\"'\x00\x1b", ("]]>",), ("<rack>",), (PictureNode("<n>", ("&\x01",), ("<g>", ""), (0, 1)),), "<g>"
    ),
}


@dataclass(frozen=True)
class Area:
    """A rectangle that something is drawn in."""

    what: str
    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Area) -> bool:
        """Tell whether both cover some point."""
        apart = self.right <= other.left or other.right <= self.left
        return not (apart or self.bottom <= other.top or other.bottom <= self.top)


def areas(element: ET.Element, x: float = 0.0, y: float = 0.0) -> Iterator[Area]:
    """Yield where texts, cells and boxes are."""
    if (transform := element.get("transform")) is not None:
        dx, dy = transform.removeprefix("translate(").removesuffix(")").split()
        x, y = x + float(dx), y + float(dy)
    if element.tag == f"{SVG}text":
        size = 15 if element.get("class") == "title" else FONT
        left, base = x + float(element.get("x", 0)), y + float(element.get("y", 0))
        width = len(element.text or "") * size * ADVANCE
        yield Area(f"text {element.text}", left, base - 0.76 * size, left + width, base + 0.2 * size)
    elif element.tag == f"{SVG}rect" and element.get("class") != "paper":
        left, top = x + float(element.get("x", 0)), y + float(element.get("y", 0))
        right, bottom = left + float(element.get("width", 0)), top + float(element.get("height", 0))
        yield Area(str(element.get("class")), left, top, right, bottom)
    for child in element:
        yield from areas(child, x, y)


def drawn(picture: TreePicture) -> tuple[ET.Element, list[Area]]:
    """Return a picture as XML, and where everything is."""
    root = ET.fromstring(render(picture))  # noqa: S314 - it is our own
    return root, list(areas(root))


@pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES)
def test_it_is_well_formed_and_everything_is_within(picture: TreePicture) -> None:
    """The view box holds every box, cell and text."""
    root, found = drawn(picture)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert root.tag == f"{SVG}svg"
    assert all(0 <= area.left <= area.right <= width + 0.5 for area in found)
    assert all(0 <= area.top <= area.bottom <= height + 0.5 for area in found)


@pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES)
def test_texts_overlap_neither_texts_nor_cells(picture: TreePicture) -> None:
    """Everything can be read: widths are those of the widest of the fonts."""
    _, found = drawn(picture)
    texts = [area for area in found if area.what.startswith("text")]
    solid = [area for area in found if area.what in {"own", "other", "free"}]
    by_row: dict[int, list[Area]] = {}
    for area in [*texts, *solid]:
        for row in range(int(area.top) // 50, int(area.bottom) // 50 + 1):
            by_row.setdefault(row, []).append(area)
    for text in texts:
        for row in range(int(text.top) // 50, int(text.bottom) // 50 + 1):
            hits = [other.what for other in by_row[row] if other is not text and text.overlaps(other)]
            assert not hits, f"{text.what} overlaps {hits[0]}"


@pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES)
def test_boxes_are_within_each_other_or_apart(picture: TreePicture) -> None:
    """No border is crossed."""
    _, found = drawn(picture)
    boxes = [area for area in found if area.what == "domain"]
    for index, one in enumerate(boxes):
        for other in boxes[:index]:  # a box comes after those that it is in
            inside = (
                other.left < one.left and one.right < other.right and other.top < one.top and one.bottom < other.bottom
            )
            assert inside or not one.overlaps(other)


def test_each_gpu_is_a_cell_that_shows_whose_it_is() -> None:
    """The gang's are coloured, others' grey, free ones empty; a line parts NUMA zones."""
    picture = TreePicture(
        "", (), ("rack",), (node(0, own=5, others=2, domains=("r",), zones=(0, 0, 0, 0, 1, 1, 1, 1)),), GANG
    )
    root, found = drawn(picture)
    kinds = [area.what for area in found if area.what in {"own", "other", "free"}]
    assert kinds[3:] == ["other"] * 2 + ["own"] * 5 + ["free"]  # the first three are the legend
    assert len(root.findall(f".//{SVG}line")) == 2  # one in the legend
    (told,) = [title.text for title in root.findall(f".//{SVG}g/{SVG}title")]
    assert told == "r/gpu-0: 7 of 8 GPUs used, 5 by default/train (2 3 4 5 6), 2 by team/other (0 1)"


def test_it_can_be_read_out() -> None:
    """Title and description say what it shows, and where the gang is."""
    root, _ = drawn(racks(64, own={1: 8, 2: 4}))
    assert root.get("role") == "img"
    labels = root.get("aria-labelledby", "").split()
    texts = [element.text for element in root if element.get("id") in labels]
    assert texts == ["default/train: 329 GB/s", "64 GPUs.; gpu-1: 8 GPUs; gpu-2: 4 GPUs"]


def test_a_description_does_not_name_hundreds_of_nodes() -> None:
    """Twenty, and how many more there are."""
    root, _ = drawn(racks(64, own=dict.fromkeys(range(30), 8)))
    assert (root.findtext(f"{SVG}desc") or "").endswith("gpu-19: 8 GPUs; and 10 nodes more")


def test_it_says_when_nodes_are_summed() -> None:
    """500 nodes stay readable, and nobody takes a sum for a node."""
    text = render(racks(500, own={1: 8}))
    assert "500 nodes: those that are not drawn one by one are summed, as used/all of their GPUs" in text
    assert "are summed" not in render(racks(40, own={1: 8}))
    assert "1x rack 9/64" in render(racks(500, own=dict.fromkeys(range(40, 60), 8)))


def test_it_follows_the_colours_of_its_reader() -> None:
    """Dark where the reader prefers that."""
    assert "prefers-color-scheme: dark" in render(PICTURES["racks"])


def test_equal_pictures_are_equal_text() -> None:
    """Nothing depends on the order in which nodes are listed."""
    picture = racks(64, own={1: 8})
    assert render(picture) == render(replace(picture, nodes=picture.nodes[::-1]))
