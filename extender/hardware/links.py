"""How the GPUs of one node are joined: NVLinks and PCIe paths between pairs, NUMA zones, UUIDs, NVLink partitions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from msgspec import Struct

from extender.objects.hami import RegisteredGpu, RegisterError, read_register
from extender.objects.keys import GPU_LINKS, HAMI_REGISTER, HAMI_SCORE, NODE_ANNOTATIONS
from extender.objects.meta import DecodeError, Decoder
from extender.objects.reason import Problem
from extender.objects.text import parse_integer

#: The node label that says whether other sets than these may be given out, and the value that rules them out.
#: Source: Koordinator, apis/extension/device_share.go, GPUPartitionPolicy.
POLICY_LABEL = "node.koordinator.sh/gpu-partition-policy"

HONOR = "Honor"


class GpuScores(Struct, gc=False, frozen=True):
    """One GPU's scores with the others, by UUID: 100 for each NVLink, and 10 to 60 for the way over PCIe."""

    uuid: str
    score: dict[str, int] = {}


decode_gpu_scores = Decoder(list[GpuScores], "GPU scores")

#: What one NVLink adds to the score of a pair. Source: go-gpuallocator, besteffort_policy.go.
_NVLINK = 100

#: No node has more GPUs; no pair of them has more links (18 in NVLink 4 and 5). Beyond that it is a typing error.
_MOST_GPUS = 64
_MOST_SCORE = 6460
_LONGEST = 64 * 1024
_NVLINK_CELL = re.compile(r"NV([1-9][0-9]?)")
_ZONES_ROW = "numa"

T = TypeVar("T")


class LinksError(ValueError):
    """An annotation about GPUs that cannot be read; says where and what is expected."""


class Path(IntEnum):
    """The way between two GPUs over PCIe, as `nvidia-smi topo -m` has it; the value is the score.

    Source of the scores: go-gpuallocator, besteffort_policy.go.
    """

    UNKNOWN = 0
    SYS = 10  # between NUMA zones
    NODE = 20  # between host bridges of one zone
    PHB = 30  # over one host bridge
    PXB = 40  # over several PCIe switches
    PIX = 50  # over one PCIe switch
    BOARD = 60  # on one board


#: The cells of `nvidia-smi topo -m` that are paths.
_PATH_CELLS = ("SYS", "NODE", "PHB", "PXB", "PIX")


@dataclass(frozen=True, slots=True)
class LinkMatrix:
    """What joins each pair of a node's GPUs.

    `scores` is (GPUs, GPUs), symmetric: 100 for each NVLink plus the value of the PCIe path. `zones` are the NUMA zone
    ids of the GPUs, () where they are not stated.
    """

    scores: tuple[tuple[int, ...], ...]
    zones: tuple[int, ...] = ()

    @property
    def gpus(self) -> int:
        """Return the number of GPUs."""
        return len(self.scores)


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """What a node's annotations say about its GPUs: `zones` and `uuids` by device index, () if not stated."""

    links: LinkMatrix | None = None
    zones: tuple[int, ...] = ()
    uuids: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


_NOTHING = GpuFacts()

#: NVLinks between the GPUs of a DGX-1 with V100, and the quads' PCIe switches. Source: go-gpuallocator,
#: common_test.go.
_DGX1V_NVLINKS = {
    (0, 1): 1,
    (0, 2): 1,
    (0, 3): 2,
    (0, 4): 2,
    (1, 2): 2,
    (1, 3): 1,
    (1, 5): 2,
    (2, 3): 2,
    (2, 6): 1,
    (3, 7): 1,
    (4, 5): 1,
    (4, 6): 1,
    (4, 7): 2,
    (5, 6): 2,
    (5, 7): 1,
    (6, 7): 2,
}


def matrix_of(gpus: int, nvlinks: Mapping[tuple[int, int], int], paths: Mapping[tuple[int, int], Path]) -> LinkMatrix:
    """Build a matrix from the pairs (smaller index first) that have NVLinks, and the paths of the pairs."""
    pairs = {
        pair: _NVLINK * nvlinks.get(pair, 0) + paths.get(pair, Path.UNKNOWN)
        for first in range(gpus)
        for pair in ((first, second) for second in range(first + 1, gpus))
    }
    return LinkMatrix(
        tuple(tuple(pairs.get((min(i, j), max(i, j)), 0) for j in range(gpus)) for i in range(gpus)),
    )


def links_of_roots(roots: Sequence[str]) -> LinkMatrix | None:
    """Return what follows from each GPU's PCIe root complex: ways over one host bridge; None if no two share one."""
    pairs = [(i, j) for j in range(len(roots)) for i in range(j) if roots[i] == roots[j]]
    return matrix_of(len(roots), {}, dict.fromkeys(pairs, Path.PHB)) if pairs else None


def _dgx1(gpus: int = 8, switch: int = 2, half: int = 4) -> dict[tuple[int, int], Path]:
    """Return the PCIe paths of a DGX-1: pairs on a switch, two switches in each zone."""
    paths = {}
    for first in range(gpus):
        for second in range(first + 1, gpus):
            if first // switch == second // switch:
                paths[first, second] = Path.PIX
            else:
                paths[first, second] = Path.PHB if first // half == second // half else Path.SYS
    return paths


#: Matrices of machines that are all built alike, by the name that a product gives.
KNOWN_MATRICES: Mapping[str, LinkMatrix] = {"DGX-1V": matrix_of(8, _DGX1V_NVLINKS, _dgx1())}


def read_gpu_facts(annotations: Mapping[str, str]) -> GpuFacts:
    """Read what a node's annotations say about its GPUs; what cannot be read becomes problems.

    Links: Muster's own annotation, else HAMi's scores. Zones: the own annotation, else HAMi's register, which has the
    UUIDs too.
    """
    if NODE_ANNOTATIONS.isdisjoint(annotations):
        return _NOTHING
    problems: list[Problem] = []
    register: tuple[RegisteredGpu, ...] = ()
    links: LinkMatrix | None = None
    if text := annotations.get(HAMI_REGISTER):
        register = _attempt(problems, HAMI_REGISTER, read_register, text) or ()
    uuids = tuple(gpu.id for gpu in register)
    if text := annotations.get(GPU_LINKS):
        links = _attempt(problems, GPU_LINKS, read_matrix, text)
    if links is None and (text := annotations.get(HAMI_SCORE)):
        scores = _attempt(problems, HAMI_SCORE, _read_scores, text) or {}
        uuids = uuids or tuple(scores)
        if scores and scores.keys() == set(uuids):
            links = _matrix_of_scores(scores, uuids)
        elif scores:
            field = f"metadata.annotations[{HAMI_SCORE}]"
            problems.append(Problem(field, f"its GPUs are not those of {HAMI_REGISTER}; restart HAMi's device plugin"))
    zones = links.zones if links is not None else ()
    if not zones and register and all(gpu.numa >= 0 for gpu in register):
        zones = tuple(gpu.numa for gpu in register)
    return GpuFacts(links, zones, uuids, tuple(problems))


def read_matrix(text: str) -> LinkMatrix:
    """Read Muster's own form: the GPU part of `nvidia-smi topo -m`, rows separated by semicolons or line ends.

    For example `X NV2 SYS SYS; NV2 X SYS SYS; SYS SYS X NV2; SYS SYS NV2 X; numa 0 0 1 1`. The row `numa` has the zone
    of each GPU and may be left out. Raises LinksError naming row and column.
    """
    rows = [row.split() for row in re.split(r"[;\n]", text[:_LONGEST]) if row.strip()]
    zones: tuple[int, ...] = ()
    if rows and rows[-1][0].lower() == _ZONES_ROW:
        zones = _read_zones(rows.pop()[1:], len(rows))
    if not 1 <= len(rows) <= _MOST_GPUS:
        raise LinksError(f"has {len(rows)} rows of GPUs; expected 1 to {_MOST_GPUS}, one for each GPU")
    for number, row in enumerate(rows):
        if len(row) != len(rows):
            raise LinksError(f"row {number} has {len(row)} cells; expected {len(rows)}, one for each GPU")
    scores = tuple(tuple(_read_cell(cell, i, j) for j, cell in enumerate(row)) for i, row in enumerate(rows))
    for i, row in enumerate(scores):
        for j in range(i):
            if row[j] != scores[j][i]:
                raise LinksError(f"row {i}, column {j} says {rows[i][j]}, but row {j}, column {i} says {rows[j][i]}")
    return LinkMatrix(scores, zones)


def _read_cell(cell: str, row: int, column: int) -> int:
    if row == column:
        if cell != "X":
            raise LinksError(f"row {row}, column {column} is {cell[:20]!r}; expected X, as it is the GPU itself")
        return 0
    if (match := _NVLINK_CELL.fullmatch(cell)) is not None:
        return _NVLINK * int(match[1])
    if cell in _PATH_CELLS:
        return Path[cell]
    known = ", ".join(_PATH_CELLS)
    raise LinksError(f"row {row}, column {column} is {cell[:20]!r}; expected {known}, or NV and the number of links")


def _read_zones(cells: Sequence[str], gpus: int) -> tuple[int, ...]:
    zones = tuple(zone for cell in cells if (zone := parse_integer(cell)) is not None and zone >= 0)
    if len(zones) != len(cells) or len(zones) != gpus:
        raise LinksError(f"the row {_ZONES_ROW} must have {gpus} zone numbers, one for each GPU")
    return zones


def _read_scores(text: str) -> dict[str, dict[str, int]]:
    """Read HAMi's scores: UUID -> UUID -> score of the pair."""
    scores = {gpu.uuid: gpu.score for gpu in decode_gpu_scores(text.encode(errors="surrogatepass"))}
    if len(scores) > _MOST_GPUS:
        raise LinksError(f"has {len(scores)} GPUs; expected {_MOST_GPUS} at most")
    if any(not 0 <= score <= _MOST_SCORE for row in scores.values() for score in row.values()):
        raise LinksError(f"has a score outside 0 to {_MOST_SCORE}")
    return scores


def _matrix_of_scores(scores: Mapping[str, Mapping[str, int]], uuids: Sequence[str]) -> LinkMatrix:
    """Order the scores by device index; a pair that is told twice has the larger score."""
    return LinkMatrix(
        tuple(tuple(0 if a == b else max(scores[a].get(b, 0), scores[b].get(a, 0)) for b in uuids) for a in uuids)
    )


def _attempt(problems: list[Problem], key: str, read: Callable[[str], T], text: str) -> T | None:
    """Read one annotation; a failure becomes a problem that names it."""
    try:
        return read(text)
    except (LinksError, RegisterError, DecodeError) as error:
        problems.append(Problem(f"metadata.annotations[{key}]", str(error)))
        return None


class GpuPartition(Struct, gc=False, frozen=True):
    """GPUs, by minor number, that the fabric manager can join into one NVLink partition."""

    minors: list[int] = []


decode_gpu_partitions = Decoder(dict[str, list[GpuPartition]], "a table of GPU partitions")


@dataclass(frozen=True, slots=True)
class Partitions:
    """The sets of GPUs, by device index, that can be one partition; in order of size and of their GPUs."""

    sets: tuple[frozenset[int], ...] = ()


def read_partitions(text: str) -> Partitions:
    """Read Koordinator's table: size -> partitions. Raises LinksError naming the entry."""
    try:
        table = decode_gpu_partitions(text.encode(errors="surrogatepass"))
    except DecodeError as error:
        raise LinksError(str(error)) from error
    found: set[tuple[int, ...]] = set()
    for size, partitions in table.items():
        for number, partition in enumerate(partitions):
            minors = tuple(sorted(set(partition.minors)))
            if not minors or str(len(minors)) != size or len(minors) != len(partition.minors):
                raise LinksError(f"partition {number} of size {size[:20]!r} has the minors {partition.minors[:16]}")
            if minors[0] < 0 or minors[-1] >= _MOST_GPUS:
                raise LinksError(f"partition {number} of size {size} has a minor outside 0 to {_MOST_GPUS - 1}")
            found.add(minors)
    return Partitions(tuple(frozenset(each) for each in sorted(found, key=lambda each: (len(each), each))))
