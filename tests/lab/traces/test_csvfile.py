"""Traces in Muster's own format: what is read, and how mistakes are named."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_lab.traces.csvfile import read_trace, write_trace
from muster_lab.traces.trace import Trace, TraceError, TraceJob

HEADER = "name,submitted,runtime,pods,gpus"


def read(folder: Path, text: str) -> Trace:
    """Read a trace from a file called t.csv."""
    file = folder / "t.csv"
    file.write_text(text, encoding="utf-8")
    return read_trace(file)


def complaint(folder: Path, text: str) -> str:
    """Return what is wrong with a trace, without the folder."""
    with pytest.raises(TraceError) as refused:
        read(folder, text)
    return str(refused.value).replace(f"{folder}/", "")


def test_five_columns_make_a_trace(tmp_path: Path) -> None:
    """What else a job may say has a default: nothing is promised, saved or prioritised."""
    trace = read(tmp_path, f"{HEADER}\nb,60,3600,4,8\na,0.5,90,1,1\n")
    assert trace.jobs == (TraceJob("a", 0.5, 90.0, 1, 1), TraceJob("b", 60.0, 3600.0, 4, 8))
    assert (trace.span, trace.gpu_seconds, trace.queues) == (60.0, 32 * 3600 + 90, ("",))


def test_columns_come_in_any_order_and_cells_may_be_empty(tmp_path: Path) -> None:
    """Optional columns say more where there is something in them."""
    header = "queue,preemptible,gpus,pods,runtime,submitted,name,priority,declared,checkpoint,cpu,memory"
    (first, second) = read(tmp_path, f"{header}\nq,false,8,2,60,0,a,-5,90,30,1000,64\n,,1.0,1,60,0,b,,,,,\n").jobs
    assert first == TraceJob("a", 0, 60, 2, 8, 1000, 64, "q", -5, 90, 30, preemptible=False)
    assert second == TraceJob("b", 0, 60, 1, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "t.csv:1: the file is empty; the first line names the columns: name, submitted, runtime, pods, gpus"),
        (HEADER, "t.csv: there is no job in it"),
        ("name,submitted,runtime,pods\n", "t.csv:1: column 'gpus' is missing"),
        (f"{HEADER},gpus\n", "t.csv:1: column 'gpus' is there twice"),
        (f"{HEADER},prioritty\n", "t.csv:1: there is no column 'prioritty'; did you mean 'priority'?"),
        (f"{HEADER},colour\n", "t.csv:1: there is no column 'colour'; known: name, "),
        (f"{HEADER}\na,0,1,1\n", "t.csv:2: 4 cells, but there are 5 columns"),
        (f"{HEADER}\n,0,1,1,1\n", "t.csv:2: column 'name': is empty"),
        (f"{HEADER}\na,0,1,1,1\n\na,1,1,1,1\n", "t.csv:4: column 'name': 'a' is in line 2 already"),
        (f"{HEADER}\na,soon,1,1,1\n", "t.csv:2: column 'submitted': 'soon' is not a number"),
        (f"{HEADER}\na,-1,1,1,1\n", "t.csv:2: column 'submitted': -1 is less than 0"),
        (f"{HEADER}\na,inf,1,1,1\n", "t.csv:2: column 'submitted': 'inf' is not a finite number"),
        (f"{HEADER}\na,0,0,1,1\n", "t.csv:2: column 'runtime': 0 is less than"),
        (f"{HEADER}\na,0,1,0,1\n", "t.csv:2: column 'pods': 0 is less than 1"),
        (f"{HEADER}\na,0,1,1,1.5\n", "t.csv:2: column 'gpus': '1.5' is not a whole number"),
        (f"{HEADER},preemptible\na,0,1,1,1,perhaps\n", "'perhaps' is neither true nor false"),
        (f"{HEADER},priority\na,0,1,1,1,1.5\n", "column 'priority': 1.5 is not a whole number up to 1000000000"),
        (f"{HEADER},communication\na,0,1,1,1,1\n", "column 'communication': 1 is not below 1"),
        (f'{HEADER}\n"a,0,1,1,1\n', "t.csv:2: not CSV"),
    ],
)
def test_a_mistake_is_named_by_line_and_column(tmp_path: Path, text: str, message: str) -> None:
    """Each message says where the mistake stands and what would do."""
    assert message in complaint(tmp_path, text)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """There may be none, or it may hold something else than text."""
    with pytest.raises(TraceError, match=r"none\.csv: No such file"):
        read_trace(tmp_path / "none.csv")
    (tmp_path / "b.csv").write_bytes(b"name,\xff\n")
    with pytest.raises(TraceError, match="not UTF-8"):
        read_trace(tmp_path / "b.csv")


_SECONDS = st.floats(0.001, 1e7)
_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=8)
_JOBS = st.builds(
    TraceJob,
    name=_TEXT.filter(bool),
    submitted=_SECONDS,
    runtime=_SECONDS,
    pods=st.integers(1, 99),
    gpus=st.integers(0, 8),
    cpu=st.integers(0, 10**6),
    memory=st.integers(0, 2**40),
    queue=_TEXT,
    priority=st.integers(-(2**31), 10**9),
    declared=st.none() | _SECONDS,
    checkpoint=st.none() | st.floats(1, 1e6),
    preemptible=st.booleans(),
    communication=st.floats(0, 0.999),
)


@settings(max_examples=50)
@given(st.lists(_JOBS, min_size=1, max_size=3, unique_by=lambda job: job.name))
def test_what_is_written_reads_back_equal(tmp_path_factory: pytest.TempPathFactory, jobs: list[TraceJob]) -> None:
    """Names with commas and quotes, and fractions of seconds, survive."""
    trace, out = Trace.of(jobs), io.StringIO()
    write_trace(trace, out)
    assert read(tmp_path_factory.mktemp("trace"), out.getvalue()) == trace
