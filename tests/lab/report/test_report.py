"""The report of a simulation: telemetry, charts, page."""

from __future__ import annotations

import base64
import csv
import io
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_lab.cli.simulate import connect
from muster_lab.report.charts import gantt, utilisation
from muster_lab.report.page import report_page
from muster_lab.report.telemetry import Telemetry, telemetry, telemetry_csv, waited
from muster_lab.simulation.accounting import GpuSeconds
from muster_lab.simulation.results import Result, summarize
from muster_lab.simulation.scenario_file import read_scenario
from muster_lab.simulation.simulate import Playback, record
from muster_lab.simulation.timeline import TimelinePoint

SCENARIO = """
until: 1h
nodes:
  - {name: gpu, count: 2, allocatable: {cpu: 64, memory: 512Gi, pods: 110, nvidia.com/gpu: 8}}
gangs:
  - {name: first, minMember: 2, requests: {nvidia.com/gpu: 8}, duration: 10m, rendezvous: 1m}
  - {name: second, minMember: 2, requests: {nvidia.com/gpu: 8}, duration: 10m, arrival: 1m}
  - {name: never, minMember: 3, requests: {nvidia.com/gpu: 8}, duration: 10m}
"""


@pytest.fixture(scope="module")
def played() -> Playback:
    """Return three gangs played: one trains at once, one after it, one never."""
    return record(read_scenario(SCENARIO, "test.yaml"), connect)


@pytest.fixture(scope="module")
def found(played: Playback) -> Telemetry:
    """Return its telemetry."""
    return telemetry(played, 3600)


class Reader(HTMLParser):
    """Collect the texts, tags and addresses of a page."""

    def __init__(self, page: str) -> None:
        """Read a whole page."""
        super().__init__()
        self.texts: list[str] = []
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect a tag, and what it refers to."""
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in {"href", "src"}]

    def handle_data(self, data: str) -> None:
        """Collect a text."""
        self.texts.append(data.strip())


def test_each_gang_is_told_of_without_gaps(found: Telemetry) -> None:
    """From its arrival on a gang does one thing after the other, until the end."""
    assert set(found.stretches) == {"default/first", "default/second", "default/never"}
    for stretches in found.stretches.values():
        assert stretches[-1].end == 3600
        for before, after in pairwise(stretches):
            assert before.end == after.start
            assert before[:3] != after[:3]
    states = [stretch.state for stretch in found.stretches["default/first"]]
    assert states[-3:] == ["init", "productive", "finished"]


def test_waiting_is_time_without_gpus(found: Telemetry) -> None:
    """Who waits for room from arrival to start has waited for that long."""
    assert waited(found.stretches["default/never"]) == pytest.approx(3600, abs=1)
    assert waited(found.stretches["default/second"]) == pytest.approx(600, abs=5)


def test_gpus_are_accounted_for(found: Telemetry, played: Playback) -> None:
    """Used and free GPUs add up to all, and over time to the hours of the summary."""
    assert all(use.productive + use.init + use.idle + use.free == found.capacity == 16 for use in found.uses)
    assert found.uses[0].start == 0
    assert found.uses[-1].end == 3600
    hours = sum(use.productive * (use.end - use.start) for use in found.uses) / 3600
    assert hours == pytest.approx(played.result.summary.productive_gpu_hours)


def test_table_has_a_row_per_stretch(found: Telemetry) -> None:
    """The CSV is in order of time, and has what the charts are drawn from."""
    rows = list(csv.DictReader(io.StringIO(telemetry_csv(found))))
    assert len(rows) == sum(map(len, found.stretches.values()))
    assert [float(row["start_seconds"]) for row in rows] == sorted(float(row["start_seconds"]) for row in rows)
    assert {row["gang"] for row in rows} == set(found.stretches)


@given(st.lists(st.tuples(st.floats(0, 100), st.sampled_from(["waits", "idle", "productive"])), max_size=6))
def test_moments_at_one_time_leave_one_stretch(moments: list[tuple[float, str]]) -> None:
    """However close moments are to each other, stretches are longer than nothing and follow each other."""
    steps = [
        TimelinePoint(at, {"n": {"g": 1} if state != "waits" else {}}, {"g": state}, GpuSeconds())
        for at, state in moments
    ]
    first = TimelinePoint(0.0, {"n": {}}, {}, GpuSeconds())
    result = Result((), (), summarize((), 0, GpuSeconds(), 1.0))
    read = telemetry(Playback(result, (first, *sorted(steps, key=lambda step: step.at)), {"n": 1}), 100)
    for stretches in read.stretches.values():
        assert all(stretch.end > stretch.start for stretch in stretches)
    assert all(use.productive + use.init + use.idle + use.free == 1 for use in read.uses)


def test_gantt_has_a_bar_for_everything_but_the_end(found: Telemetry) -> None:
    """Each stretch before a gang has finished is a bar that says what it is, for a screen reader too."""
    bars = list(gantt(found).iter("rect"))
    stretches = [one for own in found.stretches.values() for one in own if one.state != "finished"]
    assert len(bars) == len(stretches)
    titles = [title.text or "" for bar in bars for title in bar.iter("title")]
    assert any(re.fullmatch(r"default/first productive with 16 GPUs, 1m to 11m", title) for title in titles)


@pytest.mark.parametrize("until", [0.0, 1.0, 59.0, 3600.0, 90_000.0, 1e8])
def test_time_axis_is_readable(until: float) -> None:
    """Whatever the length there are a few marks, from zero on, inside of the chart."""
    marks = [text for text in gantt(Telemetry(until, 8, {}, ())).iter("text") if text.get("class") == "mark"]
    assert 1 <= len(marks) <= 9
    assert marks[0].text == "0s"
    assert all(190 <= float(mark.get("x", "0")) <= 960 for mark in marks)


def test_utilisation_leaves_out_what_never_was(found: Telemetry) -> None:
    """What no GPU ever did has no area; an empty cluster has none at all."""
    layers = [path.get("class") for path in utilisation(found).iter("path")]
    assert "productive" in layers
    assert list(utilisation(Telemetry(10, 0, {}, ())).iter("path")) == []


def test_page_stands_alone(found: Telemetry, played: Playback) -> None:
    """One file: no script, nothing fetched; charts, costs, gangs and the table to save are in it."""
    read = Reader(report_page("test.yaml", played.result, found, 3.67))
    assert "script" not in read.tags
    assert all(address.startswith("data:text/csv;base64,") for address in read.addresses)
    assert base64.b64decode(read.addresses[0].partition(",")[2]).decode() == telemetry_csv(found)
    assert read.tags.count("svg") == 2
    assert {"Timeline", "Utilisation", "What it cost", "Gangs", "default/never"} <= set(read.texts)
    assert any(text.startswith("ExceedsCluster: ") for text in read.texts)
    assert "2 of 3 gangs finished within 1h on 16 GPUs." in read.texts


def test_names_cannot_break_out(found: Telemetry, played: Playback) -> None:
    """Whatever a file is called, its name is text."""
    read = Reader(report_page("<script>alert(1)</script>", played.result, found, 3.67))
    assert "script" not in read.tags
    assert "<script>alert(1)</script>" in read.texts
