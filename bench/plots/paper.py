"""What all plots share: colours, style, a page with a title, and SVG that is the same for equal results."""

from __future__ import annotations

import io
from contextlib import AbstractContextManager
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure as Sheet

#: Colours that people with any kind of colour vision tell apart. Source: Okabe and Ito, Color Universal Design (2008).
BLUE, ORANGE, GREEN, PURPLE, RED, GREY = "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#7f7f7f"
INK = "#24292f"
#: Ticks as plain numbers, instead of powers of ten.
PLAIN = "{x:,g}"
#: Inches: as wide as a page of documentation shows.
_WIDTH = 9.6
_STYLE = Path(__file__).with_name("muster.mplstyle")


def style() -> AbstractContextManager[None]:
    """Draw in the style of muster.mplstyle for a while; what users have in a matplotlibrc does not count."""
    return mpl.rc_context(mpl.rc_params_from_file(_STYLE, use_default_template=True))


def sheet(title: str, caption: str, *, height: float) -> Sheet:
    """Return an empty sheet, `height` inches high, which lays out its panels between its title and its caption."""
    empty = Sheet(figsize=(_WIDTH, height), layout="constrained")
    empty.suptitle(title)
    empty.supxlabel(caption, fontsize=8, color=INK)
    return empty


def svg(drawn: Sheet) -> str:
    """Return the drawing as SVG, without date, version of its writer and indentation."""
    out = io.StringIO()
    drawn.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return "\n".join(line.strip() for line in out.getvalue().splitlines()) + "\n"


def write(drawn: Sheet, file: Path, *, png: bool) -> None:
    """Write the drawing to `file`, and as PNG beside it for those who look at it where SVG is not shown."""
    file.write_text(svg(drawn), encoding="utf-8")
    if png:
        drawn.savefig(file.with_suffix(".png"), dpi=110)
