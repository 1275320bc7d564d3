"""What is beyond nominal quota and beyond minMember changes hands on the real control plane, and comes to rest."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from localcluster.story import Gang
from localcluster.waiting import wait_until
from tests.controlplane.test_reclaim import gang, queue

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("judged")]

EVENS = {"fairSharing": {"strategy": "LessThanOrEqualToFinalShare", "delay": "0s"}}
#: How long shares take to even out on a quiet machine, and how long they are watched afterwards (seconds).
SOON, AFTERWARDS = 15.0, 5.0


def settled(holds: Callable[[], bool]) -> bool:
    """Wait until something holds; tell whether it still does some seconds later."""
    wait_until(holds, timeout_seconds=SOON, description="shares as they are to be")
    time.sleep(AFTERWARDS)
    return holds()


def come_again(gangs: list[Gang]) -> None:
    """Create the members again that were evicted, as a controller does."""
    for each in gangs:
        for member in each.members:
            if not member.bound:
                member.create()


def test_weighted_shares_even_out(cluster: Sandbox, muster: Server) -> None:
    """A queue of weight 3 has three quarters of the GPUs soon after it comes to a cluster that another has filled."""
    cluster.nodes(1, gpus=8)
    manifests = [queue(name, 0, parent="all", weight=weight, preemption=EVENS) for name, weight in (("a", 1), ("b", 3))]
    for manifest in (queue("all", 8), *manifests):
        cluster.create(manifest)
    first = [gang(cluster, f"a-{number}", 1, "a") for number in range(8)]
    for each in first:
        each.wait_bound(1, timeout=30)
    second = [gang(cluster, f"b-{number}", 1, "b") for number in range(8)]
    assert settled(lambda: [sum(len(each.bound) for each in gangs) for gangs in (first, second)] == [2, 6])
    evicted = [each for each in first if not each.bound]
    come_again(evicted)
    for each in evicted:
        each.wait_condition("False", "QuotaExceeded")
    assert settled(lambda: [sum(len(each.bound) for each in gangs) for gangs in (first, second)] == [2, 6])
    muster.check()


def test_members_beyond_the_minimum_reclaim_their_quota(cluster: Sandbox, muster: Server) -> None:
    """A gang that started with one pod grows to all that its queue owns, and the borrower keeps its minimum."""
    cluster.nodes(1, gpus=8)
    for manifest in (queue("all"), queue("owner", 7, parent="all"), queue("borrower", 1, parent="all")):
        cluster.create(manifest)
    borrower = cluster.gang("borrower", members=7, min_member=1, gpus=1, labels={"muster.dev/queue": "borrower"})
    borrower.wait_bound(7, timeout=30)
    owner = cluster.gang("owner", members=8, min_member=1, gpus=1, labels={"muster.dev/queue": "owner"})
    assert settled(lambda: (len(borrower.bound), len(owner.bound)) == (1, 7))
    muster.check()
