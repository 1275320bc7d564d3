"""Named points in a gang's way, and what a story makes happen there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal

import httpx

from localcluster.faults.api import ApiProxy
from localcluster.faults.fault import Call, Drop, Lose
from localcluster.faults.proxy import Proxy
from localcluster.faults.request import Exchange
from localcluster.faults.rules import FOREVER, Match, Rule
from localcluster.faults.verbs import VerbProxy
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from localcluster.story import Gang
from localcluster.waiting import wait_until
from tests.patience import HANGS

#: Records a property of a test: its name and its value.
Record = Callable[[str, object], None]

#: How many members the gangs of these stories have.
MEMBERS = 4


@dataclass(frozen=True, slots=True)
class Point:
    """A moment in a gang's way: a request of this kind, so many of which have passed before.

    `when` says whether the request is forwarded first. `held` is how many members must be in the barrier by then.
    """

    kind: str
    after: int = 0
    when: Literal["before", "after"] = "before"
    held: int = 0


POINTS: Mapping[str, Point] = {
    # All members of such a gang (`gang_to_nominate`) but the one that completes it are nominated.
    "before the first nomination": Point("nomination"),
    "between two nominations": Point("nomination", 1),
    "after the last nomination": Point("nomination", MEMBERS - 2, "after"),
    "first member in the barrier": Point("bind", 1, held=1),
    "all but one in the barrier": Point("bind", MEMBERS - 1, held=MEMBERS - 1),
    "before the first Binding": Point("binding"),
    "between two Bindings": Point("binding", 2),
    "after the last Binding, before its answer": Point("binding", MEMBERS - 1, "after"),
    "during an event": Point("event"),
    "after an event, before its answer": Point("event", when="after"),
    "during a PodGroup's status": Point("group status"),
    "after a PodGroup's status, before its answer": Point("group status", when="after"),
}


def gang_to_nominate(cluster: Sandbox, name: str = "gang") -> Gang:
    """Create a gang whose last member comes when the others have been turned away: they need nominations to wake."""
    gang = cluster.gang(name, members=MEMBERS, gpus=8, create=MEMBERS - 1)
    for member in gang.created:
        member.wait_message(f"{MEMBERS - 1} of {MEMBERS} members exist")
    gang.create_next()
    return gang


def start_evict_and_wait(cluster: Sandbox, hindered: AbstractContextManager[object], record: Record) -> None:
    """Let gangs start, evict others and wait on six nodes while something hinders their writes.

    A gang that runs is there before. Then another starts, one of higher priority has the first evicted and starts, and
    one that is too large says so; how long they took is recorded. No pod is bound twice.
    """
    cluster.nodes(6, gpus=8)
    cluster.gang("low", members=2, gpus=8).wait_running(timeout=30)
    with hindered:
        first = gang_to_nominate(cluster, "first")
        record("seconds until a gang was whole", first.wait_bound(4, timeout=60))
        urgent = cluster.priority_class("urgent", 1000)
        high = cluster.gang("high", members=2, gpus=8, priority_class=urgent)
        record("seconds until one was whole that evicts", high.wait_bound(2, timeout=90))
        cluster.gang("large", members=7, gpus=8).wait_condition("False", "ExceedsCluster", timeout=90)
    bound = [binding.uid for binding in cluster.bindings()]
    assert len(bound) == len(set(bound))
    assert max(cluster.peak_gpus().values()) <= 8


class Blow:
    """Something that happens once, at a named point."""

    def __init__(self, muster_url: str, point: Point, strike: Callable[[], None]) -> None:
        """Be ready to `strike`."""
        self._muster_url = muster_url
        self._point = point
        self._strike = strike
        self._lock = threading.Lock()
        self._struck = threading.Event()

    def rule(self, *, lost: bool) -> Rule:
        """Return the rule that makes it happen; with `lost`, nothing of that kind passes from then on, nor its answer.

        What a killed process had under way is lost with it; a paused one will send it, and read the answer.
        """
        loss = (Drop() if self._point.when == "before" else Lose(),) if lost else ()
        times = FOREVER if lost else 1
        return Rule(Match(kind=self._point.kind), (Call(self._hit, self._point.when), *loss), times, self._point.after)

    def wait(self) -> None:
        """Wait until it has happened."""
        assert self._struck.wait(HANGS), f"no {self._point} within {HANGS:g} s"

    def _hit(self, _exchange: Exchange) -> None:
        with self._lock:
            if self._struck.is_set():
                return
            if self._point.held:
                wait_until(
                    lambda: f"muster_binds_held {self._point.held}.0\n" in self._metrics(),
                    timeout_seconds=5,
                    description=f"{self._point.held} members held",
                )
            self._strike()
            self._struck.set()

    def _metrics(self) -> str:
        return httpx.get(f"{self._muster_url}/metrics", trust_env=False).text


class Blows:
    """Where a story says what is to happen at which point.

    Attributes:
        deaths: when Muster was killed, in `time.monotonic` seconds.
    """

    def __init__(self, muster_url: str, api_proxy: ApiProxy, verb_proxy: VerbProxy) -> None:
        """Watch for points in what passes the two proxies."""
        self.deaths: list[float] = []
        self._muster_url = muster_url
        self._api_proxy = api_proxy
        self._verb_proxy = verb_proxy

    def kill(self, point: Point, muster: Server) -> Blow:
        """Have Muster killed at this point; what it was sending or waiting for is lost."""

        def strike() -> None:
            muster.kill()
            self.deaths.append(time.monotonic())

        return self._at(point, strike, lost=True)

    def call(self, point: Point, strike: Callable[[], None]) -> Blow:
        """Have anything happen at this point; what passes passes."""
        return self._at(point, strike, lost=False)

    def clear(self) -> None:
        """Let everything pass again."""
        self._api_proxy.clear()
        self._verb_proxy.clear()

    def _at(self, point: Point, strike: Callable[[], None], *, lost: bool) -> Blow:
        blow = Blow(self._muster_url, point, strike)
        proxy: Proxy = self._verb_proxy if point.kind == "bind" else self._api_proxy
        proxy.add(blow.rule(lost=lost))
        return blow
