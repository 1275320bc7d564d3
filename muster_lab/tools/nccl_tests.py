"""What nccl-tests and rccl-tests print: which GPUs took part, and the bus bandwidth of each size.

Reads the text as it comes out of a terminal, `mpirun --tag-output`, `srun --label` or `kubectl logs --timestamps`: what
stands before a line does not matter. Formats: NVIDIA/nccl-tests up to 2.20, ROCm/rccl-tests.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from extender.objects.topology import Objective

_RANK = re.compile(
    r"# *Rank +(?P<rank>\d{1,9}) +(?:Group +\d+ +)?Pid +\d+ on +(?P<host>\S+) device +\d+ \[[^\]]*\] (?P<device>.+?) *$"
)
_NAME = re.compile(r"Collective test (?:starting|concluded): *(?P<name>\w+)|(?P<command>\w+_perf)(?:_mpi)?\b")
_HEADER = re.compile(r"# *size +count +type\b.*\btime +algbw +busbw +(?P<errors>#?\w+)")
_OUT_OF_BOUNDS = re.compile(r"# Out of bounds values *: *(?P<count>\d{1,18}) *(?P<verdict>\w+)")
_AVERAGE = re.compile(r"# Avg bus bandwidth *: *(?P<gbps>\d+(?:\.\d+)?)")

_NUMBER = r"\d{1,18}(?:\.\d{1,9})?(?:e[+-]?\d{1,2})?"
_TIMES = rf"{_NUMBER} +({_NUMBER}) +({_NUMBER}) +({_NUMBER}|N/A)"
_ROW = re.compile(
    rf"(?<!\d)(?P<size>\d{{1,18}}) +\d+ +(?P<type>[a-z]\w*)(?: +[a-z]\w*)?(?: +-?\d+)? +{_TIMES}(?: +{_TIMES})? *$"
)

#: What training sends; a run over all types is read for the first of these that it has.
_TYPES = ("float", "bfloat16", "half")

_ALLREDUCE, _ALLTOALL = "all_reduce", "alltoall"
_MORE_THAN_SIZE = 1.1


class NotUsableError(ValueError):
    """Output that gives no measurement; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class NcclRow:
    """One size in bytes, in GB/s: the bus bandwidth out of place and (None where it was not run) in place.

    `algorithm` is the algorithm bandwidth out of place: the size over the time.
    """

    size: int
    type: str
    algorithm: float
    out_of_place: float
    in_place: float | None
    wrong: int


@dataclass(frozen=True, slots=True)
class NcclRun:
    """One test: what it was, on which GPUs, and what came out.

    `collective` is None where the output does not say; `gpus`, `nodes` and `gpus_per_node` are 0 where it does not
    list its ranks. `gbps` is the mean of the largest two sizes in GB/s, `spread` the range of what it is the mean of,
    as a share of it; `largest` is the largest size in bytes; `average` is what the test itself gives over all sizes.
    """

    collective: Objective | None
    gpus: int
    nodes: int
    gpus_per_node: int
    device: str
    gbps: float
    spread: float
    largest: int
    average: float | None


@dataclass(frozen=True, slots=True)
class _NcclRank:
    number: int
    host: str
    device: str


def parse(text: str) -> NcclRun:
    """Read the output of one test; raise NotUsableError for one that failed, is cut off or measured something else."""
    lines = text.splitlines()
    ranks = [
        _NcclRank(int(match["rank"]), match["host"], match["device"]) for line in lines if (match := _RANK.search(line))
    ]
    hosts = _hosts(ranks)
    _check_verdict(lines)
    rows = _rows(lines)
    best, rates = _largest(rows)
    gbps = fmean(rates)
    if gbps <= 0:
        raise NotUsableError("its bandwidth is 0: fewer than two GPUs communicated; build nccl-tests with MPI=1")
    return NcclRun(
        collective=_collective(lines, best),
        gpus=len(ranks),
        nodes=len(hosts),
        gpus_per_node=next(iter(hosts.values()), 0),
        device=ranks[0].device if ranks else "",
        gbps=gbps,
        spread=(max(rates) - min(rates)) / gbps,
        largest=best.size,
        average=next((float(match["gbps"]) for line in lines if (match := _AVERAGE.search(line))), None),
    )


def _hosts(ranks: Sequence[_NcclRank]) -> Counter[str]:
    """Return how many GPUs each host has; raise NotUsableError if they are not one job on equal nodes."""
    if not ranks:
        return Counter()
    if len({rank.number for rank in ranks}) < len(ranks):
        raise NotUsableError(
            f"rank {Counter(rank.number for rank in ranks).most_common(1)[0][0]} is there more than once: these are "
            "several runs, or processes that did not find each other; give one run per file, and build nccl-tests "
            "with MPI=1"
        )
    if len(ranks) <= max(rank.number for rank in ranks):
        raise NotUsableError(
            f"{max(rank.number for rank in ranks) + 1} ranks, but only {len(ranks)} of them are listed: keep the "
            "lines `#  Rank ..`, they say how many nodes took part"
        )
    devices = sorted({rank.device for rank in ranks})
    if len(devices) > 1:
        raise NotUsableError(f"GPUs of several products took part: {', '.join(devices)}; measure one at a time")
    hosts = Counter(rank.host for rank in ranks)
    if len(set(hosts.values())) > 1:
        counts = ", ".join(f"{host} {count}" for host, count in sorted(hosts.items()))
        raise NotUsableError(f"nodes took part with different numbers of GPUs: {counts}; use the same number on each")
    return hosts


def _check_verdict(lines: Sequence[str]) -> None:
    """Raise NotUsableError if the test itself found values that are wrong."""
    for line in lines:
        match = _OUT_OF_BOUNDS.search(line)
        if match and (int(match["count"]) or match["verdict"] != "OK"):
            raise NotUsableError(f"{match[0].lstrip('# ')}: results are wrong, so is the time; check GPUs and links")


def _rows(lines: Sequence[str]) -> list[NcclRow]:
    """Return the result lines; raise NotUsableError if one of them has wrong values, or if there is none."""
    rows: list[NcclRow] = []
    counts_wrong = True
    for line in lines:
        if header := _HEADER.search(line):
            counts_wrong = header["errors"] == "#wrong"  # before 2.13 the column was the largest error, a fraction
        elif found := _ROW.search(line):
            size, kind, algorithm, out_of_place, wrong, _, in_place, wrong_in_place = found.groups()
            wrongs = [int(text) for text in (wrong, wrong_in_place) if counts_wrong and text and text.isdigit()]
            rows.append(
                NcclRow(
                    size=int(size),
                    type=kind,
                    algorithm=float(algorithm),
                    out_of_place=float(out_of_place),
                    in_place=None if in_place is None else float(in_place),
                    wrong=sum(wrongs),
                )
            )
    if not rows:
        raise NotUsableError("no line of results: give the whole output of all_reduce_perf or alltoall_perf")
    for row in rows:
        if row.wrong:
            raise NotUsableError(f"{row.wrong} wrong values at {row.size} bytes: check GPUs and links, then repeat")
    return rows


def _largest(rows: Sequence[NcclRow]) -> tuple[NcclRow, list[float]]:
    """Return the row of the largest size, and the rates of the largest two sizes, in and out of place."""
    types = {row.type for row in rows}
    wanted = next((one for one in _TYPES if one in types), rows[-1].type)
    chosen = [row for row in rows if row.type == wanted]
    sizes = sorted({row.size for row in chosen})[-2:]
    rates = [
        rate for row in chosen if row.size in sizes for rate in (row.out_of_place, row.in_place) if rate is not None
    ]
    return max(chosen, key=lambda row: row.size), rates


def _collective(lines: Sequence[str], largest: NcclRow) -> Objective | None:
    """Return which collective it was, by the test's name or by its figures; None if neither says."""
    for line in lines:
        if match := _NAME.search(line):
            name = match["name"] or match["command"]
            if name.startswith(_ALLREDUCE):
                return Objective.ALLREDUCE
            if name.startswith(_ALLTOALL):
                return Objective.ALLTOALL
            raise NotUsableError(f"this is {name}: only all_reduce_perf and alltoall_perf measure what is predicted")
    # Of an all-reduce alone, among more than two GPUs, the bus carries more than the size (doc/PERFORMANCE.md).
    return Objective.ALLREDUCE if largest.out_of_place > _MORE_THAN_SIZE * largest.algorithm else None
