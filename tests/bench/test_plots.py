"""Plots from made-up figures: what is read, what is drawn of it, and what is said about figures that are missing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

import matplotlib as mpl
import pytest

from bench.__main__ import main as bench_main
from bench.controlplane.cases import Comparison
from bench.controlplane.contenders import Contender
from bench.controlplane.waitingcases import NextGang
from bench.controlplane.workload import Workload
from bench.figures import Figure, of_repeats
from bench.placement import plan_figure
from bench.plots import paper
from bench.plots.__main__ import main
from bench.plots.bars import BarPlot, Race
from bench.plots.catalogue import PLOTS, Plot
from bench.plots.curves import Bound, CurvePlot, Line, Panel
from bench.plots.results import SIZE, Results, ResultsError, load, points
from bench.service.growth import curves

SVG = "{http://www.w3.org/2000/svg}"
HREF = "{http://www.w3.org/1999/xlink}href"
STOCK, NATIVE, NATIVE_100, FLOOR, MUSTER = (
    Contender.STOCK,
    Contender.NATIVE,
    Contender.NATIVE_100,
    Contender.FLOOR,
    Contender.MUSTER,
)
MAX_BYTES = 60_000

LINEAR = {
    size: of_repeats(f"call_{size}", "ms", [size / 1000, size / 1000 * 1.2, size / 900]) for size in (10, 100, 500)
}
PANEL = Panel("A call", "nodes", "milliseconds", (Line("call", f"call_{SIZE}", "--case call"),), Bound(3.0, "at 500"))
CURVES = CurvePlot("calls", "Calls", (PANEL,), columns=1)


def named(figures: list[Figure]) -> dict[str, Figure]:
    """Return figures by name."""
    return {figure.name: figure for figure in figures}


def drawn(plot: Plot, results: Results) -> ET.Element:
    """Return the SVG of a plot, parsed."""
    with paper.style():
        return ET.fromstring(paper.svg(plot.draw(results)))  # noqa: S314 - written by the line itself


def texts(svg: ET.Element) -> list[str]:
    """Return all that can be read in a drawing."""
    return ["".join(element.itertext()) for element in svg.iter(f"{SVG}text")]


def discs(svg: ET.Element) -> int:
    """Count the round markers: uses of a path with curves in it."""
    round_paths = {
        f"#{path.get('id')}" for path in svg.iter(f"{SVG}path") if " C" in path.get("d", "").replace("\n", " ")
    }
    return sum(use.get(HREF) in round_paths for use in svg.iter(f"{SVG}use"))


def made_up(plot: Plot) -> dict[str, Figure]:
    """Return figures of every name that a plot wants; curves get five sizes."""
    names = [name for wanted in plot.missing({}).values() for name in wanted]
    sizes = (500, 1_500, 5_000, 15_000, 50_000)
    whole = [name.replace(SIZE, str(size)) for name in names for size in (sizes if SIZE in name else (1,))]
    return named([of_repeats(name, "ms", [1.0 + number % 7, 2.0 + number % 7]) for number, name in enumerate(whole)])


def write(file: Path, results: Results) -> Path:
    """Write results as `python -m bench --output json` prints them."""
    file.write_text(json.dumps({"figures": {name: figure.as_json() for name, figure in results.items()}}))
    return file


def test_results_are_what_the_benchmark_printed(tmp_path: Path) -> None:
    """Several files count together; where two have the same figure, the later one counts."""
    first = write(tmp_path / "1.json", named([Figure("a", "ms", 1, 1, 2), Figure("b", "s", 5, 4, 6)]))
    second = write(tmp_path / "2.json", named([Figure("a", "ms", 3, 2, 4, bound=5)]))
    assert load([first, second]) == named([Figure("a", "ms", 3, 2, 4), Figure("b", "s", 5, 4, 6)])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not what `make bench` prints"),
        ("[]", "not what `make bench` prints"),
        ('{"figures": {"a": {"value": "1", "min": 1, "max": 1, "unit": "s"}}}', "value"),
        ('{"figures": {"a": {"value": 1, "max": 1, "unit": "s"}}}', "min"),
    ],
)
def test_a_file_that_is_something_else_is_refused_by_name(tmp_path: Path, content: str, said: str) -> None:
    """The message names the file and what is wrong in it."""
    file = tmp_path / "odd.json"
    file.write_text(content)
    with pytest.raises(ResultsError, match=r"odd\.json") as refused:
        load([file])
    assert said in str(refused.value)


def test_a_file_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    """The message says why it cannot be read."""
    with pytest.raises(ResultsError, match=r"none\.json cannot be read: No such file"):
        load([tmp_path / "none.json"])


def test_the_figures_of_one_curve_are_found_by_their_size() -> None:
    """Names that only begin or end alike belong to other curves; sizes are numbers, not text."""
    names = ("plan_8", "plan_1000", "plan_100", "plan_1000_on_500", "plan_growth_8", "a_plan_8")
    found = points(named([of_repeats(name, "ms", [1.0]) for name in names]), f"plan_{SIZE}")
    assert list(found) == [8, 100, 1000]
    assert found[8].name == "plan_8"


def test_a_figure_of_nothing_has_no_place_on_a_logarithmic_axis() -> None:
    """It is named, since it can only be a mistake of the measurement."""
    with pytest.raises(ResultsError, match="call_10: 0 or less"):
        points(named([Figure("call_10", "ms", 1, 0, 2)]), f"call_{SIZE}")


def test_every_point_has_a_marker_and_the_legend_tells_the_exponent() -> None:
    """Axes carry what is counted and the unit; the bound is a line of its own."""
    svg = drawn(CURVES, named([*LINEAR.values()]))
    assert discs(svg) == len(LINEAR) + 1  # one is the legend's
    assert {"Calls", "A call", "nodes", "milliseconds", "call, exponent 1.00", "bound at 500: 3"} <= set(texts(svg))
    assert {"10", "100", "500"} <= set(texts(svg))


def test_a_curve_that_falls_by_nothing_is_constant() -> None:
    """No exponent reads -0.00."""
    flat = {size: of_repeats(f"call_{size}", "ms", [1 - size / 1e6]) for size in (10, 1000)}
    assert "call, exponent 0.00" in texts(drawn(CURVES, named([*flat.values()])))


def test_one_point_is_no_curve() -> None:
    """Its figures count as missing, with what measures them."""
    assert CURVES.missing(named([LINEAR[10]])) == {"--case call": ["call_{size}"]}
    assert CURVES.missing(named([LINEAR[10], LINEAR[500]])) == {}


def test_equal_results_give_equal_files() -> None:
    """Neither the time, nor a run's random numbers, nor what users have set for matplotlib shows in them."""
    results = named([*LINEAR.values()])
    with paper.style():
        first = paper.svg(CURVES.draw(results))
    with mpl.rc_context({"font.size": 30, "svg.hashsalt": "other", "lines.linewidth": 9}), paper.style():
        second = paper.svg(CURVES.draw(results))
    assert first == second


def test_what_is_set_for_matplotlib_is_so_again_afterwards() -> None:
    """Drawing here changes nothing for others in the process."""
    with mpl.rc_context({"font.size": 30}):
        with paper.style():
            assert mpl.rcParams["font.size"] == 9
        assert mpl.rcParams["font.size"] == 30


def test_each_contender_has_a_bar_with_its_time() -> None:
    """The budget's bounds are parts of the rivals' times, marked at Muster's bar."""
    times = {STOCK: 12.0, NATIVE: 8.0, NATIVE_100: 25.0, FLOOR: 5.2, MUSTER: 6.7}
    case = Comparison("gang", 5000, Workload(1, 1000), times, bounds={NATIVE: 0.65, NATIVE_100: 0.22})
    results = named(
        [of_repeats(f"gang_{contender}_s", "s", [time, time + 1, time]) for contender, time in times.items()]
    )
    read = texts(drawn(BarPlot("bars", "Bars", (Race.of_comparison("gang", case),)), results))
    assert [text for text in read if ": " in text][:5] == [
        "stock: 12 s",
        "native gang: 8 s",
        "native gang, 100 %: 25 s",
        "floor: 5.2 s",
        "Muster: 6.7 s",
    ]
    bounds = {"bound: 0.65 of native gang", "bound: 0.22 of native gang, 100 %"}
    assert {"1 gang of 1,000 on 5,000 nodes, empty", *bounds} <= set(read)


def test_the_next_gang_on_a_full_cluster_has_bars_too() -> None:
    """The title tells that time begins with the end of another gang."""
    race = Race.of_next_gang("full", NextGang("full", 100, Workload(200, 8), ends=5, contenders=(NATIVE, MUSTER)))
    assert race.figures == {NATIVE: "full_native_next_gang_s", MUSTER: "full_muster_next_gang_s"}
    assert race.title == "200 gangs of 8 wait on 100 full nodes: from the end of one to the next bound"
    plot = BarPlot("bars", "Bars", (race,))
    assert plot.missing({}) == {"--family control-plane --case full": [*race.figures.values()]}


@pytest.mark.parametrize("plot", PLOTS, ids=lambda plot: str(plot.name))
def test_every_plot_is_a_small_picture_that_needs_nothing_else(plot: Plot) -> None:
    """At most 60 kB, with a background of its own; no script, nothing loaded from elsewhere, no date."""
    results = made_up(plot)
    assert plot.missing(results) == {}
    with paper.style():
        written = paper.svg(plot.draw(results))
    assert len(written.encode()) <= MAX_BYTES
    svg = ET.fromstring(written)  # noqa: S314 - written two lines above
    assert all(element.get(HREF, "#").startswith("#") for element in svg.iter())
    assert not {f"{SVG}script", f"{SVG}image"} & {element.tag for element in svg.iter()}
    assert "fill: #ffffff" in next(svg.iter(f"{SVG}path")).get("style", "")
    assert "date" not in written


@pytest.mark.parametrize("plot", PLOTS, ids=lambda plot: str(plot.name))
def test_what_is_said_to_measure_missing_figures_exists(plot: Plot, capsys: pytest.CaptureFixture[str]) -> None:
    """Families and cases are those of `python -m bench`."""
    for arguments in plot.missing({}):
        *family, option, case = arguments.split()
        assert option == "--case"
        assert bench_main([*family, "--list"]) == 0
        assert case in capsys.readouterr().out.split()


def test_the_names_are_those_that_the_benchmark_gives() -> None:
    """What it measures along an axis is found by the plots, and so is what a plan takes."""
    quantities = ("pinned_filter_p50", "bind_p50", "pass_full", "pass_changed", "resident_mb", "cold_start_s")
    sizes: Mapping[int, list[Figure]] = {size: [of_repeats(name, "", [1.0]) for name in quantities] for size in (5, 50)}
    measured = named([*curves("nodes", sizes), *(plan_figure(f"plan_{pods}", 10, pods, 1) for pods in (2, 4))])
    still = {name for plot in PLOTS for names in plot.missing(measured).values() for name in names}
    everything = {name for plot in PLOTS for names in plot.missing({}).values() for name in names}
    assert everything - still == {*(f"{name}_nodes_{SIZE}" for name in quantities), f"plan_{SIZE}"}


def test_plots_are_written_and_the_others_say_what_measures_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 tells that something is missing; what is there is drawn nevertheless."""
    other = CurvePlot("other", "Other", (Panel("O", "pods", "s", (Line("o", f"o_{SIZE}", "--case other"),)),))
    file = write(tmp_path / "results.json", named([*LINEAR.values()]))
    assert main(["--results", str(file), "--into", str(tmp_path / "new"), "--png"], [CURVES, other]) == 2
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["calls.png", "calls.svg"]
    told = capsys.readouterr()
    assert "calls.svg" in told.out
    assert told.err == (
        'plots: other lacks o_{size}; measure with: make bench ARGS="--case other --output json" > FILE\n'
    )
    assert main(["--results", str(file), "--into", str(tmp_path), "--plot", "calls"], [CURVES, other]) == 0


def test_a_file_that_cannot_be_read_ends_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is drawn from a part of what was named."""
    file = write(tmp_path / "results.json", named([*LINEAR.values()]))
    assert main(["--results", str(file), str(tmp_path / "no.json"), "--into", str(tmp_path / "new")], [CURVES]) == 2
    assert "no.json cannot be read" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
