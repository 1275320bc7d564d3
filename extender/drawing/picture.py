"""What a picture shows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Holding:
    """GPUs of one node that one pod holds: how many, and which of them where that is known."""

    gang: str
    gpus: int
    which: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PictureNode:
    """One node.

    `domains` has one name per level, outermost first, "" where the node has none; `cells` one entry per GPU, the gang
    that holds it or "" for a free one; `zones` the NUMA zone of each GPU, or is empty where that is not known.
    """

    name: str
    domains: tuple[str, ...]
    cells: tuple[str, ...]
    zones: tuple[int, ...] = ()

    def held_by(self, gang: str) -> int:
        """Count the GPUs that a gang holds."""
        return self.cells.count(gang)

    @property
    def used(self) -> int:
        """Count the GPUs that somebody holds."""
        return len(self.cells) - self.cells.count("")


@dataclass(frozen=True, slots=True)
class Picture:
    """A cluster with one gang on it. `levels` are the names of the levels, outermost first; `lines` explain."""

    title: str
    lines: tuple[str, ...]
    levels: tuple[str, ...]
    nodes: tuple[PictureNode, ...]
    gang: str


def cells(gpus: int, holdings: Iterable[Holding]) -> tuple[str, ...]:
    """Return who holds each of so many GPUs: the known ones first, then the others from the left.

    What does not fit (somebody overcommitted the node, or two pods claim one GPU) goes to any free one, or is left out.
    """
    row = [""] * gpus
    floating: list[str] = []
    for holding in holdings:
        wanted = dict.fromkeys(holding.which)
        known = [index for index in wanted if 0 <= index < gpus and not row[index]][: holding.gpus]
        for index in known:
            row[index] = holding.gang
        floating += [holding.gang] * (holding.gpus - len(known))
    free = (index for index, holder in enumerate(row) if not holder)
    for gang, index in zip(floating, list(free), strict=False):
        row[index] = gang
    return tuple(row)
