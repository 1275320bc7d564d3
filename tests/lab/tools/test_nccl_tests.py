"""Reading what nccl-tests prints, whole, prefixed, old and broken."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.objects.topology import Objective
from muster_lab.tools.nccl_tests import NotUsableError, parse
from tests.lab.tools.outputs import GIB, H100, output, ranks, row

#: What nccl-tests printed until 2.10: no root, the largest error instead of a count, ranks without a group.
OLD = """\
# nThread 1 nGpus 1 minBytes 4294967296 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 validation: 1
#
# Using devices
#   Rank  0 Pid   9100 on node-a device  0 [0x07] NVIDIA A100-SXM4-40GB
#   Rank  1 Pid   9482 on node-b device  0 [0x07] NVIDIA A100-SXM4-40GB
#
#                                                     out-of-place                       in-place
#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
  4294967296    1073741824   float     sum   190887   22.50   22.50  1e-07   190462   22.55   22.55  1e-07
  8589934592    2147483648   float     sum   380082   22.60   22.60  4e-07   379242   22.65   22.65  5e-07
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 22.575
"""


def test_the_mean_of_the_largest_two_sizes() -> None:
    """Sizes below do not count; both places do, and the spread is their range."""
    rows = [row(GIB, 100.0), row(4 * GIB, 470.0), row(8 * GIB, 472.0, 478.0)]
    run = parse(output(2, 8, rows=rows))
    assert run.gbps == pytest.approx((470 + 470 + 472 + 478) / 4)
    assert run.spread == pytest.approx(8 / 472.5)
    assert (run.collective, run.largest, run.average) == (Objective.ALLREDUCE, 8 * GIB, 471.5)
    assert (run.gpus, run.nodes, run.gpus_per_node, run.device) == (16, 2, 8, H100)


@pytest.mark.parametrize(
    "prefix",
    ["[1,0]<stdout>:", "0: ", "2026-03-01T09:30:00.123456789Z ", "launcher  | "],
    ids=["mpirun", "srun", "kubectl", "compose"],
)
def test_what_stands_before_a_line_does_not_matter(prefix: str) -> None:
    """Output that went through a launcher or a log reads the same."""
    plain = output(2, 8)
    assert parse("".join(prefix + line + "\n" for line in plain.splitlines())) == parse(plain)


def test_old_output_is_read() -> None:
    """The error column of old versions is a fraction, not a count of wrong values."""
    run = parse(OLD)
    assert run.gbps == pytest.approx(22.575)
    assert (run.nodes, run.gpus_per_node, run.device) == (2, 1, "NVIDIA A100-SXM4-40GB")
    assert run.collective is None


def test_an_error_of_exactly_one_is_not_a_wrong_value() -> None:
    """Under the old header whole numbers are errors too."""
    assert parse(output(rows=[row(GIB, 470.0, wrong="1")], errors=" error")).gbps == 470


def test_an_all_to_all_has_no_check_in_place() -> None:
    """`N/A` wrong values are none; the name tells what was measured."""
    line = (
        " 17179869184      33554432     float    none      -1   357610   48.04   47.67      0   358715   47.89   47.52"
        "    N/A"
    )
    run = parse(output(2, 8, rows=[line], test="alltoall_perf"))
    assert run.collective is Objective.ALLTOALL
    assert run.gbps == pytest.approx((47.67 + 47.52) / 2)


def test_results_without_in_place_columns() -> None:
    """rccl-tests can leave one place out."""
    assert (
        parse(
            output(rows=["  8589934592    2147483648     float     sum      -1    36956  232.43  406.76      0"])
        ).gbps
        == 406.76
    )


@pytest.mark.parametrize(
    ("test", "ratio", "expected"),
    [
        ("all_reduce_perf_mpi", 1.75, Objective.ALLREDUCE),
        ("", 1.75, Objective.ALLREDUCE),
        ("", 0.875, None),
    ],
    ids=["by its MPI name", "by its figures", "not to be told"],
)
def test_what_was_measured(test: str, ratio: float, expected: Objective | None) -> None:
    """The name says it; without one only an all-reduce moves more over the bus than its size."""
    assert parse(output(test=test, rows=[row(8 * GIB, 470.0, ratio=ratio)])).collective is expected


def test_the_command_line_names_the_test() -> None:
    """The echoed command is as good as the test's own line."""
    text = "$ mpirun -np 8 /opt/nccl-tests/build/all_reduce_perf -b 1G -e 8G\n" + output(
        test="", rows=[row(GIB, 9.0, ratio=0.9)]
    )
    assert parse(text).collective is Objective.ALLREDUCE


def test_a_run_over_all_types_is_read_for_what_training_sends() -> None:
    """With --datatype all, `float` counts, although int8 is slower."""
    slow = row(8 * GIB, 390.0).replace("float", " int8")
    assert parse(output(rows=[slow, row(8 * GIB, 485.0), slow])).gbps == 485


def test_output_without_ranks_leaves_the_nodes_open() -> None:
    """Who took part must then be said by hand."""
    run = parse(output(listed=[]))
    assert (run.gpus, run.nodes, run.gpus_per_node, run.device) == (0, 0, 0, "")


@given(cuts=st.lists(st.tuples(st.integers(0, 2000), st.text("0123456789.e-+ #:\nN/A", max_size=4)), max_size=6))
def test_damaged_output_is_read_or_refused(cuts: list[tuple[int, str]]) -> None:
    """Whatever was cut out or pasted in, there is a positive bandwidth or the one error that is meant for it."""
    text = output(2, 2)
    for at, new in cuts:
        text = text[:at] + new + text[at + len(new) + 1 :]
    with suppress(NotUsableError):
        run = parse(text)
        assert run.gbps > 0
        assert run.spread >= 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no line of results"),
        (output(rows=[]), "no line of results"),
        (output(rows=[row(GIB, 470.0, wrong="3")]), "6 wrong values at 1073741824 bytes"),
        (output(verdict="2 FAILED"), "Out of bounds values : 2 FAILED"),
        (output(test="sendrecv_perf"), "this is sendrecv_perf"),
        (output(listed=ranks(1, 4) + ranks(1, 4)), "rank 0 is there more than once"),
        (output(listed=ranks(2, 8)[:3] + ranks(2, 8)[-1:]), "16 ranks, but only 4 of them are listed"),
        (output(listed=ranks(1, 8)[:7] + ranks(1, 8, "NVIDIA H200")[7:]), "GPUs of several products"),
        (
            output(listed=[line.replace("0001 device  7", "0002 device  0") for line in ranks(2, 8)]),
            "gpu-0001 7, gpu-0002 1",
        ),
        (
            output(rows=["  8589934592    2147483648     float     sum      -1    35.15    0.00    0.00       0"]),
            "MPI=1",
        ),
    ],
    ids=[
        "empty",
        "cut off",
        "wrong values",
        "failed",
        "another test",
        "two runs",
        "ranks cut",
        "mixed",
        "uneven",
        "alone",
    ],
)
def test_output_that_measures_nothing_is_refused(text: str, message: str) -> None:
    """The message says what is wrong with the run and what to do."""
    with pytest.raises(NotUsableError, match=message):
        parse(text)
