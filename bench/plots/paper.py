"""What all plots look like, and how they are written: SVG that is the same for equal results."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Sheet
from matplotlib.ticker import FuncFormatter
from matplotlib.typing import RcKeyType

#: What is finer than a hundredth of a point, in a tag: text stays as it is.
_TAG, _TOO_FINE = re.compile(r"<[^>]*>"), re.compile(r"(\.\d\d)\d+")
#: Colours that people with any kind of colour vision tell apart. Source: Okabe and Ito, Color Universal Design (2008).
BLUE, ORANGE, GREEN, PURPLE, RED, GREY = "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#7f7f7f"
INK = "#24292f"
_NOTE, _GRID, _FRAME = "#57606a", "#e1e4e8", "#8c959f"
#: Inches: as wide as a page of documentation shows.
WIDTH = 9.6

#: The font that matplotlib brings along, for which the layout is made; and what readers without it see.
_FONT, _FONTS = "DejaVu Sans", "DejaVu Sans,Verdana,sans-serif"
#: Names of groups that nothing refers to, rotations by nothing, and the font, which is said once.
_SUPERFLUOUS = re.compile(rf"""(?<=<g) id="[^"]*"| transform="rotate\(-0 [^"]*\)"|font-family: '{_FONT}'; """)
#: Text stays text. The salt makes the identifiers in a file, which are random without it, depend on the drawing alone.
_STYLE: Mapping[RcKeyType, object] = MappingProxyType(
    {
        "svg.fonttype": "none",
        "svg.hashsalt": "muster",
        "font.family": [_FONT],
        "font.size": 9,
        "text.color": INK,
        "axes.edgecolor": _FRAME,
        "axes.labelcolor": INK,
        "axes.titlesize": 10,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "grid.color": _GRID,
        "grid.linewidth": 0.8,
        "xtick.bottom": False,  # the grid shows where
        "xtick.color": INK,
        "ytick.left": False,
        "ytick.color": INK,
        "legend.frameon": False,
        "legend.fontsize": 8,
        "figure.facecolor": "white",  # of its own, so that a dark page does not swallow the text
        "figure.titlesize": 12,
        "figure.titleweight": "bold",
    }
)


@contextmanager
def style() -> Iterator[None]:
    """Draw in this style for a while; what users have in a matplotlibrc does not count."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def sheet(title: str, caption: str, *, height: float) -> Sheet:
    """Return an empty sheet of so many inches, which lays out what is put on it between its title and its caption."""
    empty = Sheet(figsize=(WIDTH, height), layout="constrained")
    empty.get_layout_engine().set(h_pad=0.12, w_pad=0.12)  # type: ignore[union-attr, call-arg]  # constrained, see above
    empty.suptitle(title)
    empty.supxlabel(caption, fontsize=8, color=_NOTE)
    return empty


def svg(drawn: Sheet) -> str:
    """Return the drawing as SVG, without date and without the version of what wrote it, a third shorter."""
    out = io.StringIO()
    drawn.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    drawing = _SUPERFLUOUS.sub("", out.getvalue()).replace("<svg ", f'<svg font-family="{_FONTS}" ', 1)
    drawing = _TAG.sub(lambda tag: _TOO_FINE.sub(r"\1", tag[0]), drawing)
    lines = (line.strip() for line in drawing.splitlines())
    return "\n".join(filter(None, lines)) + "\n"


def png(drawn: Sheet) -> bytes:
    """Return the drawing as PNG, for those who want to look at it where nothing shows SVG."""
    out = io.BytesIO()
    drawn.savefig(out, format="png", dpi=110)
    return out.getvalue()


def number(value: float) -> str:
    """Return a number for people: three digits, no exponent, thousands apart."""
    if value >= 100:  # noqa: PLR2004 - what has three digits needs no fraction
        return f"{value:,.0f}"
    return f"{value:.3g}"


def plain_numbers(axes: Axes, *, x: bool = True, y: bool = True) -> None:
    """Label the ticks with plain numbers instead of powers of ten."""
    for axis, wanted in ((axes.xaxis, x), (axes.yaxis, y)):
        if wanted:
            axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
