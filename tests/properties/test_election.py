"""The model of leader election: one leads, another follows it, and whoever is cut off or stopped gives up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from extender.control.leadership import LeaseHolder
from extender.control.ports import WatchedKind
from extender.objects.lease import read_lease
from muster_lab.simulation.cluster import Cluster
from tests.properties.faults.election import LEASE, Election
from tests.properties.faults.process import MachineClock, Process, ProcessLoop


class Candidate:
    """A kube-scheduler that does nothing but lead, on a host of its own."""

    def __init__(self, name: str, cluster: Cluster, loop: ProcessLoop) -> None:
        """Stand."""
        self.clock = MachineClock(loop)
        self.cut_off = False
        self.process = Process(name, loop)
        self.leads = False
        self._election = Election(cluster, self.clock, f"{name}_1", lambda: not self.cut_off)
        self.process.start(self._run())

    async def _run(self) -> None:
        await self._election.win()
        self.leads = True
        await self._election.keep()
        self.leads = False


class Pair:
    """Two candidates for one Lease."""

    def __init__(self, loop: ProcessLoop) -> None:
        """Let the first win."""
        self.loop = loop
        self.cluster = Cluster(MachineClock(loop))
        self.first, self.second = (Candidate(name, self.cluster, loop) for name in ("first", "second"))

    def leaders(self) -> list[bool]:
        """Tell who leads."""
        return [self.first.leads, self.second.leads]

    async def at(self, seconds: float) -> list[bool]:
        """Let time come to `seconds`, and tell who leads then."""
        await self.loop.reach(seconds)
        return self.leaders()


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Return a pair, and close its loop."""
    loop = ProcessLoop()
    pair = Pair(loop)
    yield pair
    for candidate in (pair.first, pair.second):
        loop.run_until_complete(candidate.process.bury())
    loop.close()


def test_the_second_leads_once_the_lease_of_the_first_has_lapsed(pair: Pair) -> None:
    """Not before, and the first does not come back."""
    assert pair.loop.run_until_complete(pair.at(30)) == [True, False]
    pair.first.process.kill()
    assert pair.loop.run_until_complete(pair.at(42)) == [True, False]
    assert pair.loop.run_until_complete(pair.at(48)) == [True, True]  # the first is dead, and cannot say so


def test_who_is_cut_off_gives_up_before_another_leads(pair: Pair) -> None:
    """After ten seconds without a renewal, while the Lease lasts for fifteen."""
    pair.loop.run_until_complete(pair.at(30))
    pair.first.cut_off = True
    seen = [tuple(pair.loop.run_until_complete(pair.at(second))) for second in range(31, 60)]
    assert list(dict.fromkeys(seen)) == [(True, False), (False, False), (False, True)]


def test_muster_leads_beside_the_leader_and_stops_before_the_lease_lapses(pair: Pair) -> None:
    """Its fence ends before another candidate can take the Lease."""
    pair.loop.run_until_complete(pair.at(30))
    leadership = LeaseHolder("first", pair.first.clock)
    stored = pair.cluster.get(WatchedKind.LEASE, *LEASE.split("/"))
    leadership.lease_seen(read_lease(stored.item))
    assert 38 < leadership.held_until() < 45
    other = LeaseHolder("second", pair.second.clock)
    other.lease_seen(read_lease(stored.item))
    assert other.held_until() < 0
