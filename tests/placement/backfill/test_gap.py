"""Specification of the gap: who may use what is kept for others, and until when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from extender.cluster.whatif import WhatIf
from extender.objects.nodetopology import TopologyPolicy
from extender.placement import earmark
from extender.placement.backfill.start import Blocked
from extender.placement.earmark import MARGIN_SECONDS, CapacityProfile, fits_gap
from tests.hardware.nodes import topology
from tests.placement.backfill.conftest import Site, found, site, workers


def profile(here: Site, *blocked: Blocked, now: float = 0.0, margin: float = 0.0) -> CapacityProfile:
    """Return the profile of gangs that wait."""
    return CapacityProfile(blocked, WhatIf(here.table), here.calendar(now), margin)


def kept(here: Site, found_starts: CapacityProfile, duration: float | None, besides: str = "") -> Mapping[str, int]:
    """Return node name -> GPUs that are kept from work of some duration."""
    return here.gpus(found_starts.kept(duration, besides))


@pytest.mark.parametrize(
    ("duration", "fits"),
    [(100 - MARGIN_SECONDS, True), (100.1 - MARGIN_SECONDS, False), (0, True), (None, False)],
)
def test_only_what_ends_in_time_fits(duration: float | None, fits: bool) -> None:
    """Work fits the gap if it ends a margin before the start at the latest; without a runtime it never does."""
    here = site(1)
    here.run("job", 1100, a_0=8)
    start = found(here.start(workers(1)))
    assert fits_gap(1000, duration, start) is fits


def test_nothing_fits_a_gap_without_end() -> None:
    """Where nobody knows when the other starts there is no gap."""
    assert not fits_gap(0, 1, None)


def test_each_gang_starts_beside_those_before_it() -> None:
    """In the order of the queue each gang gets the earliest start that leaves the others theirs."""
    here = site(2)
    here.run("job", 100, a_0=8)
    starts = profile(
        here,
        here.blocked("first", workers(2, name="f"), 300),
        here.blocked("fits-before", workers(1, name="b"), 100),
        here.blocked("after", workers(1, name="s"), 200),
        here.blocked("never", workers(3, name="n"), 200),
    ).starts
    assert {name: start.at for name, start in starts.items()} == {"first": 100, "fits-before": 0, "after": 400}
    assert starts["after"].because == "first"


def test_margin_lies_between_gangs() -> None:
    """A gang comes before another only if it is gone a margin before that starts."""
    here = site(2)
    here.run("job", 100, a_0=8)
    first, second = here.blocked("f", workers(2, name="f"), 300), here.blocked("b", workers(1, name="b"), 90)
    assert [profile(here, first, second, margin=margin).starts["b"].at for margin in (10, 11)] == [0, 411]


def test_work_leaves_alone_what_it_would_be_in_the_way_of() -> None:
    """From whoever outlasts a start its room is kept; whoever is gone before may use it. Each gang may use its own."""
    here = site(3)
    here.run("one", 100, a_0=8)
    here.run("two", 200, a_1=8)
    starts = profile(here, here.blocked("f", workers(2, name="f")), here.blocked("s", workers(1, name="s")))
    assert {name: start.at for name, start in starts.starts.items()} == {"f": 100, "s": 200}
    assert kept(here, starts, 100) == {}
    assert kept(here, starts, 101) == kept(here, starts, None) == {"a-2": 8}
    assert kept(here, starts, None, besides="f") == {}
    assert [starts.reach(duration) for duration in (100, 101, 201, None)] == [0, 1, 2, 2]
    starts.settle("f")
    starts.settle("nobody")
    assert kept(here, starts, None) == {}
    assert starts.reach(None) == 1


def test_nodes_of_an_aligning_kubelet_are_kept_whole() -> None:
    """What a kubelet aligns is kept whole from whoever outlasts a start there."""
    here = site(1)
    here.table.occupancy.put_topology(replace(topology(TopologyPolicy.RESTRICTED), node="a-0"))
    here.run("job", 100, a_0=4)
    starts = profile(here, here.blocked("f", workers(1, gpus=5, name="f")))
    assert kept(here, starts, None) == {"a-0": 4}
    assert here.gpus(starts.starts["f"].kept) == {"a-0": 4}


def test_promises_are_laid_before_anybody_moves_forward() -> None:
    """When room comes back early the first gang takes it only where that leaves the second what it was promised."""
    here = site(2)
    here.run("one", 100, a_0=8)
    here.run("two", 500, a_1=8)
    first, second = here.blocked("f", workers(2, name="f"), 100), here.blocked("s", workers(1, name="s"), 400)
    before = profile(here, first, second).starts
    assert {name: start.at for name, start in before.items()} == {"f": 500, "s": 100}
    here.table.release("two-a_1")
    again = [replace(each, promised=before[each.name]) for each in (first, second)]
    after = profile(here, *again, now=50).starts
    assert {name: start.at for name, start in after.items()} == {"f": 500, "s": 50}
    assert profile(here, *again[:1], now=50).starts["f"].at == 100


def test_promise_that_holds_no_more_is_made_anew() -> None:
    """A gang whose promised node is gone gets another start, behind the others' promises."""
    here = site(2)
    here.run("one", 100, a_0=8)
    here.run("two", 300, a_1=8)
    gang = here.blocked("f", workers(1, name="f"), 100)
    before = profile(here, gang).starts["f"]
    here.table.remove("a-0")
    assert (before.at, profile(here, replace(gang, promised=before)).starts["f"].at) == (100, 300)


def test_only_so_many_get_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the first few gangs nobody is given a start."""
    monkeypatch.setattr(earmark, "MOST_BLOCKED", 1)
    here = site(1)
    assert list(profile(here, here.blocked("f", workers(1)), here.blocked("s", workers(1, name="s"))).starts) == ["f"]
