"""Clusters of 8-GPU nodes with running work that says when it ends, and gangs that wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from extender.cluster.table import NodeTable
from extender.cluster.whatif import WhatIf
from extender.objects.levels import Level, Levels
from extender.objects.pod import Pod, Shape
from extender.placement.backfill.outlook import Calendar, Release
from extender.placement.backfill.start import Blocked, Start, earliest_start
from extender.placement.candidates import Candidates, PlacementTerms
from tests.cluster.conftest import GPU, node, pod, shape, table_of
from tests.placement.conftest import ground_of

RACKS = Levels((Level("rack", "rack"),))


@dataclass
class Site:
    """A cluster, and what runs there until when (epoch seconds)."""

    table: NodeTable
    releases: list[Release]

    def run(self, name: str, until: float | None, **gpus: int) -> None:
        """Let work run that has so many GPUs of which node (_ for -); `until` None: it does not say how long."""
        uids = []
        for host, number in gpus.items():
            uids.append(f"{name}-{host}")
            self.table.claim(uids[-1], host.replace("_", "-"), shape(number))
        if until is not None:
            self.releases.append(Release(until, tuple(uids), name))

    def calendar(self, now: float = 0.0) -> Calendar:
        """Return when what runs is expected to end."""
        return Calendar(self.releases, now)

    @property
    def candidates(self) -> Candidates:
        """Return where gangs may go."""
        return ground_of(self.table, RACKS)

    def start(
        self,
        pods: Sequence[Pod],
        terms: PlacementTerms | None = None,
        *,
        now: float = 0.0,
        promised: Start | None = None,
    ) -> Start | None:
        """Return when pods can start."""
        free, calendar = WhatIf(self.table), self.calendar(now)
        return earliest_start(pods, free, self.candidates, terms or PlacementTerms(), calendar, promised=promised)

    def blocked(
        self, name: str, pods: Sequence[Pod], duration: float | None = None, promised: Start | None = None
    ) -> Blocked:
        """Return a gang that waits."""
        return Blocked(name, pods, self.candidates, PlacementTerms(), duration, promised)

    def gpus(self, kept: NDArray[np.int64]) -> Mapping[str, int]:
        """Return node name -> GPUs of an array of (resources, rows), where there are any."""
        row = kept[self.table.resources.index(GPU)].tolist()
        return {each.name: row[at] for each in self.table.nodes() if row[at := self.table.rows_of([each.name])[0]]}


def site(*racks: int) -> Site:
    """Return racks with so many nodes of 8 GPUs each: `a-0`, `a-1`, ... `b-0`, ..., on which nothing runs."""
    names = [(f"{rack}-{index}", rack) for rack, size in zip("abcdef", racks, strict=False) for index in range(size)]
    return Site(table_of(node(name, 8, labels={"rack": rack}) for name, rack in names), [])


def workers(count: int, gpus: int = 8, name: str = "w", **fields: Any) -> list[Pod]:
    """Return equal pods."""
    each = shape(gpus, **fields)
    return [pod(f"{name}-{index}", shape=each) for index in range(count)]


def found(start: Start | None) -> Start:
    """Return a start that there must be."""
    assert start is not None
    return start


def mixed(*gpus: int) -> list[Pod]:
    """Return pods with so many GPUs each."""
    shapes: dict[int, Shape] = {}
    return [pod(f"m-{index}", shape=shapes.setdefault(number, shape(number))) for index, number in enumerate(gpus)]
