"""Flame graphs from made-up stacks: how they are read and folded, whose paths they show, and what is drawn and told."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from bench.flame.__main__ import show
from bench.flame.drawing import draw
from bench.flame.recording import explain, recording
from bench.flame.stacks import (
    FoldedError,
    Share,
    fold,
    module_folders,
    parse,
    shares,
    shorten,
    telling,
    without_common_callers,
)
from localcluster.components import REPOSITORY
from localcluster.errors import LocalClusterError

SVG = "{http://www.w3.org/2000/svg}"
FOLDERS = (Path("/home/me/muster/.venv/lib/site-packages"), Path("/usr/lib/python3.13"), Path("/home/me/muster"))
RUN, PASS, PLAN = "run (extender/a.py:1)", "decide (extender/b.py:2)", "plan (extender/c.py:3)"
STACKS = {(RUN,): 10, (RUN, PASS): 20, (RUN, PASS, PLAN): 60, (RUN, "dumps (json/__init__.py:4)"): 10}

FRAMES = st.text(st.characters(codec="ascii", categories=("L", "N", "P", "Zs"), exclude_characters=";/"), min_size=1)


def drawn(stacks: dict[tuple[str, ...], int]) -> ET.Element:
    """Return the flame graph of some stacks, parsed."""
    return ET.fromstring(draw(stacks, "Title", "and what is below"))  # noqa: S314 - written by the line itself


def frames(svg: ET.Element) -> dict[str, ET.Element]:
    """Return the boxes of a drawing by what the pointer is told about them."""
    return {group.findtext(f"{SVG}title", ""): group for group in svg.iter(f"{SVG}g")}


def boxes(svg: ET.Element) -> dict[str, tuple[float, float, float]]:
    """Return left edge, width and upper edge of the box of each function, by its name."""
    found = {}
    for title, group in frames(svg).items():
        box = group.find(f"{SVG}rect")
        assert box is not None
        found[title.partition(" ")[0]] = (float(box.attrib["x"]), float(box.attrib["width"]), float(box.attrib["y"]))
    return found


@given(st.dictionaries(st.lists(FRAMES, min_size=1).map(tuple), st.integers(1, 10**6), min_size=1))
def test_folded_stacks_are_read_as_they_were_written(stacks: dict[tuple[str, ...], int]) -> None:
    """Whatever functions are called, blanks and digits included; paths are another matter."""
    assert parse(fold(stacks), ()) == stacks


def test_stacks_that_differ_in_nothing_but_the_machine_are_one() -> None:
    """Their counts are added."""
    text = "run (/home/me/muster/extender/a.py:1) 3\nrun (extender/a.py:1) 4\n"
    assert fold(parse(text, FOLDERS)) == "run (extender/a.py:1) 7\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [("a;b 1\na;b\n", "line 2 is no folded stack"), ("a;b many\n", "line 1"), ("", "no stack was sampled")],
)
def test_what_is_no_folded_text_is_refused(text: str, said: str) -> None:
    """The message tells which line it is."""
    with pytest.raises(FoldedError, match=said):
        parse(text, ())


@pytest.mark.parametrize(
    ("frame", "shown"),
    [
        ("A.run (/home/me/muster/extender/cli/serve.py:34)", "A.run (extender/cli/serve.py:34)"),
        ("get (/home/me/muster/.venv/lib/site-packages/aiohttp/client.py:5)", "get (aiohttp/client.py:5)"),
        ("run (/usr/lib/python3.13/asyncio/runners.py:86)", "run (asyncio/runners.py:86)"),
        ("run (/home/you/other/place/mod.py:1)", "run (place/mod.py:1)"),
        ("run (/mod.py:1)", "run (mod.py:1)"),
        ("f.<locals>.g (/home/me/muster/bench/x.py)", "f.<locals>.g (bench/x.py)"),
        ("_load (<frozen importlib._bootstrap>:9)", "_load (<frozen importlib._bootstrap>:9)"),
        ("__init__ (<string>:2)", "__init__ (<string>:2)"),
        ("loop (uvloop/loop.pyx:9)", "loop (uvloop/loop.pyx:9)"),
        ("native", "native"),
    ],
)
def test_a_path_is_shown_as_it_is_imported(frame: str, shown: str) -> None:
    """Nothing of the machine is left; what is no path stays."""
    assert shorten(frame, FOLDERS) == shown


def test_packages_are_found_before_the_folder_that_holds_them() -> None:
    """A virtual environment may lie in the repository, and installed packages in the standard library's folder."""
    folders = module_folders()
    assert REPOSITORY in folders
    assert all(not later.is_relative_to(one) for number, one in enumerate(folders) for later in folders[number + 1 :])
    assert shorten(f"f ({ET.__file__}:1)", folders) == "f (xml/etree/ElementTree.py:1)"
    assert shorten(f"f ({pytest.__file__}:1)", folders) == "f (pytest/__init__.py:1)"
    assert shorten(f"f ({__file__}:1)", folders) == "f (tests/bench/test_flame.py:1)"


def test_a_function_has_what_it_calls_too() -> None:
    """Percent of all samples, the most first."""
    assert shares(STACKS)[:3] == [Share(RUN, 100, 10), Share(PASS, 80, 20), Share(PLAN, 60, 60)]


def test_a_function_that_calls_itself_counts_once() -> None:
    """No function has more than everything."""
    assert shares({("walk", "walk", "walk"): 3, ("walk",): 1}) == [Share("walk", 100, 100)]


def test_what_only_starts_others_is_not_told() -> None:
    """The table is for functions that have a part of the time."""
    assert [share.function for share in telling(STACKS, 99)] == [PASS, PLAN, "dumps (json/__init__.py:4)"]


def test_callers_that_all_stacks_share_are_cut_but_for_the_last() -> None:
    """It is what the picture stands on; one stack alone keeps its innermost frame."""
    assert without_common_callers({("main", "serve", *stack): count for stack, count in STACKS.items()}) == STACKS
    assert without_common_callers(STACKS) == STACKS
    assert without_common_callers({("main", "serve"): 5}) == {("serve",): 5}
    apart = {("main", "serve"): 5, ("thread",): 1}
    assert without_common_callers(apart) == apart


def test_each_frame_is_as_wide_as_it_was_seen_often_and_stands_on_its_caller() -> None:
    """Own time is what nothing stands on."""
    found = boxes(drawn(STACKS))
    whole = found["run"][1]
    assert {name: round(width / whole, 2) for name, (_, width, _) in found.items()} == {
        "run": 1.0, "decide": 0.8, "plan": 0.6, "dumps": 0.1,
    }  # fmt: skip
    left, _, top = found["decide"]
    assert found["plan"][0] == left
    assert found["plan"][2] < top < found["run"][2]
    assert found["dumps"][2] == top


def test_the_pointer_is_told_the_numbers() -> None:
    """A frame that is too narrow for its name has them all the same."""
    assert set(frames(drawn(STACKS))) == {
        f"{RUN}: 100 samples, 100.0 %",
        f"{PASS}: 80 samples, 80.0 %",
        f"{PLAN}: 60 samples, 60.0 %",
        "dumps (json/__init__.py:4): 10 samples, 10.0 %",
    }


def test_a_name_is_shortened_to_its_box() -> None:
    """First the path goes, then the end, then all of it."""
    stacks: dict[tuple[str, ...], int] = {
        ("wide (m.py:1)",): 9_000,
        (f"{'n' * 30} (m.py:2)",): 900,
        ("narrow (m.py:3)",): 20,
    }
    written = [element.text for group in frames(drawn(stacks)).values() for element in group.iter(f"{SVG}text")]
    assert written[1] == "wide (m.py:1)"
    assert re.fullmatch(r"n+\.\.", written[0] or "")
    assert len(written) == 2


def test_what_nobody_could_see_is_left_out() -> None:
    """Frames below a thousandth of the samples have no box."""
    assert set(boxes(drawn({("often (m.py:1)",): 10_000, ("seldom (m.py:2)",): 9}))) == {"often"}


def test_the_picture_needs_nothing_else() -> None:
    """It has a background, no script, no address but the format's, and is always the same; names are text."""
    stacks: dict[tuple[str, ...], int] = {("<module> (m.py:1)", "a&b (extender/m.py:2)"): 1}
    text = draw(stacks, "Title <1>", "below")
    assert text == draw(dict(reversed(stacks.items())), "Title <1>", "below")
    svg = ET.fromstring(text)  # noqa: S314 - written two lines above
    assert {element.tag.removeprefix(SVG) for element in svg.iter()} == {"svg", "g", "rect", "title", "text"}
    assert re.findall(r"[a-z]+://[^\"]+", text) == ["http://www.w3.org/2000/svg"]
    background = svg.find(f"{SVG}rect")
    assert background is not None
    assert background.attrib == {"width": "100%", "height": "100%", "fill": "#ffffff"}
    assert "<module> (m.py:1): 1 samples, 100.0 %" in frames(svg)


def test_muster_has_a_colour_of_its_own() -> None:
    """Whose code it is shows from far away; a function has the same colour in every picture."""
    fills = {title: group.find(f"{SVG}rect") for title, group in frames(drawn(STACKS)).items()}
    hues = {
        title.partition(" ")[0]: int(box.attrib["fill"][4:].split(",")[0])
        for title, box in fills.items()
        if box is not None
    }
    assert all(20 <= hues[name] <= 36 for name in ("run", "decide", "plan"))
    assert 200 <= hues["dumps"] <= 220


def test_the_table_names_functions_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """Text can be compared before and after a change, where pictures cannot."""
    show([Share(f"{'f' * 60} (extender/x.py:1)", 12.345, 6.0)], Console(width=140))
    printed = capsys.readouterr().out
    assert f"{'f' * 60} (extender/x.py:1)" in printed
    assert "12.3" in printed


def test_a_py_spy_that_may_not_attach_tells_what_to_do() -> None:
    """The kernel's answer alone helps nobody."""
    told = explain("Permission Denied: Try running again with elevated permissions by going 'sudo env ...'")
    assert "sudo sysctl kernel.yama.ptrace_scope=0" in told
    assert "--cap-add SYS_PTRACE" in told
    assert "py-spy said: Permission Denied" in told
    assert "ptrace_scope" not in explain("Error: out of memory")


def test_a_process_that_is_gone_cannot_be_sampled(tmp_path: Path) -> None:
    """What py-spy said about it is in the error."""
    gone = subprocess.Popen([sys.executable, "-c", ""], env=os.environ)
    gone.wait()
    with pytest.raises(LocalClusterError, match="py-spy"), recording(gone.pid, tmp_path):
        pytest.fail("nothing can be sampled")
