"""What nccl-tests prints, made to order: the shape of the output of a real run with figures of our own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

H100 = "NVIDIA H100 80GB HBM3"
GIB = 2**30

_HEADER = """\
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw {errors}     time   algbw   busbw {errors}
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""


def ranks(nodes: int, gpus: int, device: str = H100) -> list[str]:
    """Return the lines that list the ranks, `gpus` of them on each of `nodes` hosts."""
    return [
        f"#  Rank {rank:2d} Group  0 Pid {4100 + rank:6d} on   gpu-{rank // gpus:04d} device {rank % gpus:2d} "
        f"[0000:{16 + rank:02x}:00] {device}"
        for rank in range(nodes * gpus)
    ]


def row(size: int, busbw: float, in_place: float | None = None, *, wrong: str = "0", ratio: float = 1.75) -> str:
    """Return one line of results; `ratio` is bus over algorithm bandwidth."""
    both = (busbw, busbw if in_place is None else in_place)
    times = "".join(
        f"  {size / rate * ratio / 1e3:8.1f}  {rate / ratio:6.2f}  {rate:6.2f}   {wrong:>4}" for rate in both
    )
    return f"{size:12d}  {size // 4:12d}     float     sum      -1{times}"


def output(
    nodes: int = 1,
    gpus: int = 8,
    *,
    device: str = H100,
    rows: Sequence[str] | None = None,
    test: str = "all_reduce_perf",
    listed: Iterable[str] | None = None,
    errors: str = "#wrong",
    verdict: str = "0 OK",
) -> str:
    """Return the output of one run as nccl-tests 2.18 prints it."""
    measured = [row(4 * GIB, 470.0), row(8 * GIB, 472.0, 474.0)] if rows is None else rows
    named = ranks(nodes, gpus, device) if listed is None else listed
    return "\n".join(
        [
            "# nccl-tests version 2.18.3 nccl-headers=23005 nccl-library=23005",
            *([f"# Collective test starting: {test}"] if test else []),
            "# nThread 1 nGpus 1 minBytes 4294967296 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20",
            "#",
            "# Using devices",
            *named,
            _HEADER.format(errors=errors).rstrip("\n"),
            *measured,
            f"# Out of bounds values : {verdict}",
            "# Avg bus bandwidth    : 471.5 ",
            "#",
            *([f"# Collective test concluded: {test}"] if test else []),
            "",
        ]
    )
