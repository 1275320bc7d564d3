"""Specification of the outlook: what is free when, with and without what is promised to others."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from extender.cluster.whatif import WhatIf
from extender.objects.nodetopology import TopologyPolicy
from extender.placement.backfill import outlook as outlook_module
from extender.placement.backfill.outlook import ExpectedEnd, Outlook, seats_of
from extender.placement.room import room
from tests.cluster.conftest import GPU, pod
from tests.hardware.nodes import guaranteed, topology
from tests.placement.backfill.conftest import Site, site


def reserve(here: Site, look: Outlook, at: float, until: float, *pods_on: tuple[str, int]) -> None:
    """Reserve GPUs of nodes, (node, GPUs of one pod)."""
    takes = np.zeros_like(look.free_now)
    gang = [pod(f"r-{at}-{index}", shape=guaranteed(gpus, gpus)) for index, (_, gpus) in enumerate(pods_on)]
    nodes = {each.uid: host for each, (host, _) in zip(gang, pods_on, strict=True)}
    rows = {host: int(here.table.rows_of([host])[0]) for host, _ in pods_on}
    for host, gpus in pods_on:
        takes[here.table.resources.index(GPU), rows[host]] += gpus
    look.reservations.append(ExpectedEnd("r", at, until, takes, seats_of(gang, nodes, rows)))


def gpus_at(here: Site, look: Outlook, at: float, until: float = inf) -> list[int]:
    """Return how many GPUs each node has for somebody who is there between two times."""
    with look.at(at, until) as free:
        return [int(value) for value in free.free[here.table.resources.index(GPU)]]


def test_room_comes_back_with_time() -> None:
    """At each moment everything is free that has ended by then; going back is possible."""
    here = site(2)
    here.run("one", 100, a_0=8)
    here.run("two", 200, a_0=0, a_1=4)
    look = Outlook(WhatIf(here.table), here.calendar())
    assert [gpus_at(here, look, at) for at in (0, 100, 200, 150, 0)] == [[0, 4], [8, 4], [8, 8], [8, 4], [0, 4]]


def test_reservations_are_others_for_as_long_as_they_last() -> None:
    """Somebody who is there while others have something has that much less; afterwards it is free again."""
    here = site(1)
    look = Outlook(WhatIf(here.table), here.calendar())
    reserve(here, look, 100, 200, ("a-0", 3))
    reserve(here, look, 150, 300, ("a-0", 4))
    assert [gpus_at(here, look, *window)[0] for window in ((0, 100), (0, 101), (0, inf), (200, 300), (300, inf))] == [
        8,
        5,
        1,
        4,
        8,
    ]


def test_aligned_nodes_lack_the_zones_of_every_reservation() -> None:
    """Where pods are aligned, zones that are reserved at different times are all left to others."""
    here = site(1)
    here.table.occupancy.put_topology(replace(topology(TopologyPolicy.SINGLE_NUMA_NODE), node="a-0"))
    look = Outlook(WhatIf(here.table), here.calendar())
    everywhere = np.ones(look.free_now.shape[1], dtype=np.bool_)
    reserve(here, look, 100, 200, ("a-0", 4))
    reserve(here, look, 200, 300, ("a-0", 4))
    rooms = []
    for until in (100, 150, 300):
        with look.at(0, until) as free:
            rooms.append(int(room(free, guaranteed(4, 2), everywhere)[0]))
    assert rooms == [2, 1, 0]


def test_last_end_on_the_nodes_counts() -> None:
    """The release that somebody waits for is the last that concerns his nodes; there may be none."""
    here = site(3)
    here.run("one", 100, a_0=8)
    here.run("two", 200, a_1=8)
    look = Outlook(WhatIf(here.table), here.calendar())
    assert [
        None if (each := look.latest(200, {"w": host})) is None else each.name for host in ("a-0", "a-1", "a-2")
    ] == [
        "one",
        "two",
        None,
    ]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond so many moments the answer is worked out anew, and the same."""
    monkeypatch.setattr(outlook_module, "_MOST_REMEMBERED", 1)
    here = site(1)
    here.run("one", 100, a_0=4)
    look = Outlook(WhatIf(here.table), here.calendar())
    column = here.table.resources.index(GPU)
    assert [int(look.gained(moments)[column, 0]) for moments in (0, 1, 1, 0)] == [0, 4, 4, 0]
