"""What Muster does when it cannot do its work, and how each state ends, in virtual time."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import pytest

from extender.admission.events import Outcome, PodSeen
from extender.control.health import DegradedError
from extender.control.ports import ApiError, LeaseSeen, WatchedKind
from extender.control.watched import REQUIRED_KINDS, VITAL_KINDS
from extender.objects.lease import Lease
from tests.control.conftest import Muster, Term


def lead(muster: Muster, until: float) -> None:
    """Let the watch bring a Lease that is held until then (seconds of the test's clock)."""
    muster.controller.tell(LeaseSeen(Lease("me", until, None)))


class TestSyncing:
    """Before the first lists are complete."""

    async def test_pods_of_others_pass(self, muster: Muster) -> None:
        """Nothing needs to be known to let a pod through that is not Muster's."""
        foreign = replace(muster.pod("p", 1), scheduler_name="default-scheduler")
        answer = await muster.controller.filter(foreign, ["a", "b"])
        assert (answer.outcome, answer.accepted) == (Outcome.PASSED, ["a", "b"])
        assert muster.controller.prioritize(foreign, ["a", "b"]) == [0, 0]
        assert muster.sample("muster_degraded", state="syncing") == 1

    async def test_everything_else_is_an_error(self, muster: Muster) -> None:
        """All four verbs say that the caches are not synced."""
        pod = muster.pod("p", 1)
        with pytest.raises(DegradedError, match=r"^CacheNotSynced: nodes not synced"):
            await muster.controller.filter(pod, ["a"])
        with pytest.raises(DegradedError):
            muster.controller.prioritize(pod, ["a"])
        with pytest.raises(DegradedError):
            await muster.controller.preempt(pod, {"a": ["uid"]})
        with pytest.raises(DegradedError):
            await muster.bind(pod, "a")


class TestStale:
    """A watch that has been silent for longer than stale_after_seconds."""

    async def test_nothing_is_decided_until_every_watch_speaks_again(self, muster: Muster) -> None:
        """A gang that arrives meanwhile is placed when the last watch is heard of."""
        muster.nodes(2)
        muster.sync()
        muster.fall_silent()
        await asyncio.sleep(61)
        pods = muster.gang("a", 2)
        await asyncio.sleep(1)
        assert muster.api.nominations == []
        assert muster.sample("muster_degraded", state="stale") == 1
        with pytest.raises(
            DegradedError, match=r"^CacheStale: nothing heard from the API server about nodes, podgroups.*, pods$"
        ):
            await muster.controller.filter(pods[0], ["node-0"])
        for kind in REQUIRED_KINDS:
            muster.controller.heard(kind)
        await asyncio.sleep(0.6)
        assert len(muster.api.nominations) == 2
        assert muster.sample("muster_degraded", state="stale") == 0

    async def test_what_only_makes_placements_better_holds_nobody_up(self, muster: Muster) -> None:
        """The watches of what is not vital may hang for as long as they will."""
        muster.nodes(2)
        muster.sync()
        muster.fall_silent()
        await asyncio.sleep(55)
        for kind in VITAL_KINDS:
            muster.controller.heard(kind)
        await asyncio.sleep(30)
        muster.gang("a", 2)
        await asyncio.sleep(0.6)
        assert len(muster.api.nominations) == 2
        assert muster.controller.health.ready

    async def test_held_binds_stay_held(self, muster: Muster) -> None:
        """Members at the barrier have passed; if the rest comes when the watches are back, the gang starts."""
        muster.nodes(2)
        muster.sync()
        pods = muster.gang("a", 2)
        await asyncio.sleep(55)
        for kind in set(REQUIRED_KINDS) - {WatchedKind.POD}:
            muster.controller.heard(kind)
        muster.fall_silent()
        await asyncio.sleep(30)
        held = asyncio.create_task(muster.bind(pods[0]))
        await asyncio.sleep(6)
        with pytest.raises(DegradedError, match="CacheStale"):
            await muster.bind(pods[1])
        assert not held.done()
        for kind in REQUIRED_KINDS:
            muster.controller.heard(kind)
        assert await muster.bind(pods[1]) == ""
        assert await held == ""


class TestStandby:
    """Somebody else leads."""

    @pytest.fixture
    def term(self) -> Term:
        """Begin without leadership."""
        return Term(until=-math.inf)

    async def test_a_standby_is_ready_and_writes_nothing(self, muster: Muster) -> None:
        """Its caches are warm; it judges no gang, says nothing of any, and refuses to bind."""
        muster.nodes(2)
        muster.sync()
        pods = muster.gang("a", 2)
        await asyncio.sleep(30)
        assert muster.controller.health.ready
        assert not muster.controller.leading
        assert muster.api.nominations == []
        assert muster.api.statuses == []
        assert muster.sample("muster_leading") == 0
        assert muster.sample("muster_gangs_waiting", reason="InsufficientCapacity") == 0
        with pytest.raises(DegradedError, match="NotLeading"):
            await muster.bind(pods[0], "node-0")

    async def test_with_the_lease_it_goes_on_from_what_stands_in_the_cluster(self, muster: Muster) -> None:
        """Nominations that the former leader wrote are the plan; nothing is nominated anew."""
        muster.nodes(2)
        muster.sync()
        pods = [replace(pod, nominated_node=f"node-{1 - i}") for i, pod in enumerate(muster.gang("a", 2))]
        for pod in pods:
            muster.controller.tell(PodSeen(pod))
        lead(muster, until=math.inf)
        await asyncio.sleep(0.1)
        assert muster.controller.leading
        assert muster.api.nominations == []
        answer = await muster.controller.filter(pods[0], ["node-0", "node-1"])
        assert answer.accepted == ["node-1"]
        assert muster.sample("muster_leadership_changes_total", change="began") == 1

    async def test_filter_waits_for_the_news_of_the_lease(self, muster: Muster) -> None:
        """A kube-scheduler that has just got the Lease may ask before the watch has said so."""
        muster.nodes(1)
        muster.sync()
        (pod,) = muster.gang("a", 1)
        asking = asyncio.create_task(muster.controller.filter(pod, ["node-0"]))
        await asyncio.sleep(0.2)
        lead(muster, until=math.inf)
        assert (await asking).accepted == ["node-0"]

    async def test_filter_does_not_wait_for_long(self, muster: Muster) -> None:
        """A kube-scheduler without the Lease is told so."""
        muster.nodes(1)
        muster.sync()
        (pod,) = muster.gang("a", 1)
        with pytest.raises(DegradedError, match="NotLeading"):
            await muster.controller.filter(pod, ["node-0"])

    async def test_what_is_wrong_with_an_object_is_told_by_whoever_leads(self, muster: Muster) -> None:
        """An odd key that was seen while standing by is told of when the leadership begins."""
        muster.sync()
        pod = muster.odd_pod("p")
        muster.controller.tell(PodSeen(pod))
        await asyncio.sleep(1)
        assert muster.api.events == []
        lead(muster, until=math.inf)
        await asyncio.sleep(1)
        assert [event.reason for event in muster.api.events] == ["InvalidField", "NoNodeMatches"]


class TestLostLeadership:
    """A leader whose Lease ends."""

    async def test_held_binds_are_refused_and_the_ledger_is_forgotten(self, muster: Muster, term: Term) -> None:
        """At the end of the term, without any news; what stands on the pods stays."""
        muster.nodes(2)
        muster.sync()
        pods = muster.gang("a", 2)
        await asyncio.sleep(0.6)
        held = asyncio.create_task(muster.bind(pods[0]))
        term.until = 5.0
        lead(muster, until=5.0)
        await asyncio.sleep(5)
        assert (await held).startswith("NotLeading")
        assert not muster.controller.leading
        assert muster.sample("muster_reserved_unbound", resource="nvidia.com/gpu") == 0
        assert [node for _, node in muster.api.nominations if not node] == []
        assert muster.sample("muster_leadership_changes_total", change="ceased") == 1

    async def test_a_lapse_that_went_unnoticed_is_a_lapse(self, muster: Muster, term: Term) -> None:
        """A process that was stopped while its term ended starts from the cluster, though it holds the Lease again."""
        muster.nodes(1)
        muster.sync()
        muster.gang("a", 1)
        await asyncio.sleep(0.6)
        term.until = -1.0  # it ended, and nothing in this process has run since
        lead(muster, until=math.inf)
        assert muster.controller.leading
        assert muster.sample("muster_leadership_changes_total", change="ceased") == 1

    async def test_a_binding_that_waits_to_be_repeated_is_given_up(self, muster: Muster) -> None:
        """Between two attempts the leadership ends: the second is not made."""
        muster.nodes(1)
        muster.sync()
        (pod,) = muster.gang("a", 1)
        await asyncio.sleep(0.6)
        muster.api.binding_failures = [ApiError(503, "ServiceUnavailable", "try later", retry_after=3.0)]
        lead(muster, until=2.0)
        assert "not leading" in await muster.bind(pod)
        assert muster.api.bindings == []


class TestBacklogged:
    """Nominations that do not get through."""

    async def test_no_further_gang_is_placed_until_one_gets_through(self, muster: Muster) -> None:
        """What is reserved stays so; those that come later wait with a reason of their own."""
        muster.nodes(4)
        muster.sync()
        muster.api.nominating_fails = ApiError(429, "TooManyRequests", "slow down", retry_after=1.0)
        muster.gang("a", 2)
        await asyncio.sleep(6)
        late = muster.gang("b", 1)
        await asyncio.sleep(1)
        assert muster.sample("muster_degraded", state="backlogged") == 1
        assert muster.controller.health.ready
        assert muster.sample("muster_gangs_waiting", reason="WritesBacklogged") == 1
        assert muster.sample("muster_reserved_unbound", resource="nvidia.com/gpu") == 16
        answer = await muster.controller.filter(late[0], ["node-3"])
        assert answer.text == "gang waits: WritesBacklogged: nominations do not get through to the API server"
        muster.api.nominating_fails = None
        await asyncio.sleep(10)
        assert muster.sample("muster_degraded", state="backlogged") == 0
        assert {name for name, _ in muster.api.nominations} == {"a-0", "a-1", "b-0"}
