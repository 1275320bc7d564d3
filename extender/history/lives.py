"""One gang from when it is first seen until it is gone, as the history tells of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from extender.history.meters import Meter
from extender.history.records import MOST_TEXT, GangOutcome, GangRecord, PastRun, Payer, fold_names, runs_of
from extender.objects.podgroup import GroupRef
from extender.objects.reason import Wait

#: Runs of one gang that are told apart, the latest.
MOST_RUNS: Final = 20


class GpuCount(NamedTuple):
    """GPUs of one resource."""

    resource: str
    number: int


@dataclass(slots=True, eq=False)
class HeldNode:
    """A pod that holds a node, since when (epoch seconds), and with which GPUs; `evicting` says why and for whom."""

    uid: str
    life: Life
    began: float
    gpus: tuple[GpuCount, ...]
    count: int
    evicting: tuple[str, str] | None = None


@dataclass(slots=True, eq=False)
class Life:
    """What has become of a gang so far; times are in epoch seconds.

    `pods` are the members that hold a node now, by UID, and `resources` what GPUs they hold by name. `waits_since` is
    since when it lacks its minimum, None while it has it. `wait` is why it last waited. `spent` and `kept` are the
    areas under the GPUs that it uses and that are reserved for it. `saved` is when it last saved its work, `interval`
    after how much work it does so (seconds), as far as it says; `ready` that it has saved it for its eviction.
    `wanted` are the most members that there were, `leaving` those that are being evicted, and `torn` tells that one of
    them has left. `runs` are the latest that are over; the one now `run_began` then, and is on `run_nodes`. `before` is
    what a store had.
    """

    ref: GroupRef
    uid: str
    created: float
    payer: Payer
    waits_since: float | None
    owner: str = ""
    flavor: str = ""
    priority: int = 0
    started: float | None = None
    ended: float | None = None
    outcome: GangOutcome | None = None
    waited: float = 0.0
    wait: Wait | None = None
    pods: dict[str, HeldNode] = field(default_factory=dict)
    resources: Counter[str] = field(default_factory=Counter)
    most_members: int = 0
    wanted: int = 0
    most: dict[str, int] = field(default_factory=dict)
    last_began: float = 0.0
    last_ended: float | None = None
    nodes: set[str] = field(default_factory=set)
    evictions: int = 0
    evicted: str = ""
    evicted_by: str = ""
    leaving: dict[str, None] = field(default_factory=dict)  # while it is empty a set would take more
    torn: bool = False
    saved: float | None = None
    interval: float | None = None
    ready: bool = False
    spent: Meter = field(default_factory=Meter)
    kept: Meter = field(default_factory=Meter)
    lost: float = 0.0
    runs: list[PastRun] = field(default_factory=list)
    run_began: float | None = None
    run_nodes: set[str] = field(default_factory=set)
    before: GangRecord | None = None

    def hold(self, pod: HeldNode, node: str) -> None:
        """Take in that a member holds a node."""
        self.pods[pod.uid] = pod
        self.most_members = max(self.most_members, len(self.pods))
        self.last_began = max(self.last_began, pod.began)
        self.nodes.add(node)
        self.run_nodes.add(node)
        for name, count in pod.gpus:
            self.resources[name] += count
            self.most[name] = max(self.most.get(name, 0), self.resources[name])
        self.ended = self.outcome = None

    def let_go(self, pod: HeldNode, at: float) -> None:
        """Take in that a member holds its node no more."""
        del self.pods[pod.uid]
        self.last_ended = at if self.last_ended is None else max(self.last_ended, at)
        for name, count in pod.gpus:
            self.resources[name] -= count

    def start(self) -> None:
        """Take in that the gang has its minimum, since the last of its members was bound."""
        if self.waits_since is not None:
            self.waited += max(self.last_began - self.waits_since, 0.0)
            self.waits_since = None
        if self.started is None:
            self.started = self.last_began
        if self.run_began is None:
            self.run_began = self.last_began

    def stop(self, at: float, left: tuple[str, str] | None) -> None:
        """Take in that no member holds a node since `at`; `left` says why and for whom the last one was evicted."""
        if self.run_began is not None:
            self.runs.append(
                PastRun(self.run_began, max(at, self.run_began), fold_names(self.run_nodes), *(left or ("", "")))
            )
            del self.runs[:-MOST_RUNS]
        self.run_began = None
        self.run_nodes.clear()

    def end(self, at: float, outcome: GangOutcome) -> None:
        """Take in that the gang has ended; what it has not begun it has waited for until then."""
        if self.waits_since is not None:
            self.waited += max(at - self.waits_since, 0.0)
            self.waits_since = None
        self.ended, self.outcome = at, outcome

    def ended_before(self, told: float, at: float) -> None:
        """Take in that what was taken to have ended when it was `told` had ended at another time, which is likelier."""
        if self.last_ended == told:
            self.last_ended = at
        if self.ended == told:
            self.ended = at

    def evict(self, reason: str, by: str) -> None:
        """Take in that a member has left because it was evicted; those that leave together count once."""
        if not self.torn:
            self.evictions += 1
        self.torn = bool(self.leaving)
        self.evicted, self.evicted_by = reason, by

    def unsaved(self, began: float, ended: float) -> float:
        """Return how many seconds of work a member loses that was bound at `began` and is evicted at `ended`."""
        if self.ready:
            return 0.0
        known = [ended - began, self.interval, None if self.saved is None else ended - self.saved]
        return max(min(seconds for seconds in known if seconds is not None), 0.0)

    def forget(self, now: float) -> None:
        """Forget what a store has of the gang, which is to be adopted again."""
        self.before, self.evictions, self.lost = None, 0, 0.0
        self.runs.clear()
        self.kept = self.kept.afresh(now)

    def resume(self, stored: GangRecord, since: float) -> None:
        """Go on from what a store has of the gang, as of `since`; what it has used is told by its pods."""
        self.before = stored
        self.created = min(self.created, stored.created)
        if stored.started is not None:
            self.started = stored.started
            if self.waits_since is None:
                self.waited = stored.waited  # while it was not followed it had its minimum
            else:
                self.waited, self.waits_since = stored.waited, max(self.waits_since, stored.as_of)
        self._resume_runs(stored, since)
        self.evictions += stored.evictions
        self.evicted, self.evicted_by = self.evicted or stored.evicted, self.evicted_by or stored.evicted_by
        self.lost += stored.lost
        self.kept.add(stored.reserved)
        self.most_members = max(self.most_members, stored.members)

    def record(self, now: float) -> GangRecord:
        """Return the gang as the store is to have it."""
        before, wait = self.before, self.wait
        gpus = sum(self.most.values())
        resources = ",".join(f"{name}={count}" for name, count in sorted(self.most.items()) if count)
        if before is not None and before.gpus > gpus:
            gpus, resources = before.gpus, before.resources
        told = ("", "") if before is None else (before.reason, before.message)
        reason, message = told if wait is None else (str(wait.reason), wait.message[:MOST_TEXT])
        at = now if self.ended is None else max(self.ended, 0.0)
        nodes = fold_names(self.nodes) if self.nodes or before is None else before.nodes
        return GangRecord(
            uid=self.uid,
            namespace=self.ref.namespace,
            name=self.ref.name,
            api=self.ref.api,
            owner=self.owner,
            queue=self.payer.queue,
            flavor=self.flavor,
            user=self.payer.user,
            priority=self.priority,
            members=self.most_members or self.wanted,
            gpus=gpus,
            resources=resources,
            created=self.created,
            started=self.started,
            ended=self.ended,
            outcome=self.outcome or "",
            waited=self.waited if self.waits_since is None else self.waited + max(now - self.waits_since, 0.0),
            reason=reason,
            message=message,
            evictions=self.evictions,
            evicted=self.evicted,
            evicted_by=self.evicted_by,
            nodes=nodes,
            node_count=len(self.nodes) if self.nodes or before is None else before.node_count,
            used=max(self.spent.area(at), 0.0),
            reserved=max(self.kept.area(at), 0.0),
            lost=self.lost,
            using=self.spent.value,
            reserving=self.kept.value,
            as_of=at,
            runs=self._runs(),
        )

    def _resume_runs(self, stored: GangRecord, since: float) -> None:
        """Put the runs that a store has before those that are known from pods that are still there."""
        known = self.runs[0].began if self.runs else self.run_began
        ends = ((run, since if run.ended is None else run.ended) for run in runs_of(stored))
        before = [run._replace(ended=max(end, run.began)) for run, end in ends if known is None or end <= known]
        self.runs = (before + self.runs)[-MOST_RUNS:]

    def _runs(self) -> str:
        """Return the runs as the store is to have them: "" where when the gang started and ended tells the same."""
        runs = [*self.runs]
        if self.run_began is not None:
            runs.append(PastRun(self.run_began, None, fold_names(self.run_nodes)))
        told = len(runs) == 0 or (len(runs) == 1 and runs[0].ended in {None, self.ended})
        return "" if told else msgspec.json.encode(runs).decode()
