"""The lives of objects: what each was, and when, in the order of the API server."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from tests.judge.history import Change, History, Tolerance
from tests.judge.objects import (
    GroupFact,
    GroupKey,
    NodeFact,
    PodFact,
    QueueFact,
    needs_object,
    read_group,
    read_job,
    read_node,
    read_pod,
    read_queue,
)

T = TypeVar("T")
Fact: TypeAlias = PodFact | NodeFact | GroupFact | QueueFact


@dataclass(slots=True)
class Life(Generic[T]):
    """What one object was after each of its changes, None after its deletion."""

    changes: list[Change] = field(default_factory=list)
    facts: list[T | None] = field(default_factory=list)
    _versions: list[int] = field(default_factory=list)

    def add(self, change: Change, fact: T | None) -> None:
        """Go on with the next change."""
        self.changes.append(change)
        self.facts.append(fact)
        self._versions.append(change.version)

    def at(self, version: int) -> T | None:
        """Return what the object was at a version, None if it did not exist."""
        place = bisect_right(self._versions, version) - 1
        return self.facts[place] if place >= 0 else None

    def change_at(self, version: int) -> Change | None:
        """Return the newest change up to a version."""
        place = bisect_right(self._versions, version) - 1
        return self.changes[place] if place >= 0 else None

    def within(self, since: float, version: int) -> Iterator[T]:
        """Iterate over all that the object was between a time (seconds) and a version, newest first."""
        return (fact for fact in self._within(since, version) if fact is not None)

    def lacked(self, since: float, version: int) -> bool:
        """Tell whether the object was missing at some time between a time (seconds) and a version."""
        facts = list(self._within(since, version))
        return None in facts or not facts

    def _within(self, since: float, version: int) -> Iterator[T | None]:
        for place in range(bisect_right(self._versions, version) - 1, -1, -1):
            yield self.facts[place]
            if self.changes[place].at <= since:
                return


@dataclass(frozen=True, slots=True)
class Step:
    """One change, and what the object was before and after it."""

    change: Change
    before: Fact | None
    after: Fact | None

    @property
    def bound(self) -> PodFact | None:
        """Return the pod if this put it on a node; one that was created there was never bound."""
        before, after = self.before, self.after
        if isinstance(before, PodFact) and isinstance(after, PodFact) and after.node and not before.node:
            return after
        return None

    @property
    def nominated(self) -> PodFact | None:
        """Return the pod if this gave it a nomination while it waited."""
        before, after = self.before, self.after
        if not isinstance(after, PodFact) or not after.nominated or after.node:
            return None
        known = isinstance(before, PodFact) and before.nominated == after.nominated
        return None if known else after


@dataclass(frozen=True, slots=True)
class Moment:
    """A gang between two changes of its own: how many members are secured, and how many could be or are.

    `holding` counts those that hold nodes: of the secured, those that have not succeeded.
    `uid` is the PodGroup's, "" for a gang without object, None while its PodGroup is missing. `ours` says that no
    member belongs to another scheduler.
    """

    change: Change
    uid: str | None
    min_member: int
    secured: int
    holding: int
    contributing: int
    ours: bool

    @property
    def able(self) -> bool:
        """Tell whether enough members exist, none of them gated, for the gang to start."""
        return self.uid is not None and self.ours and self.contributing >= self.min_member

    @property
    def whole(self) -> bool:
        """Tell whether the gang has its minimum."""
        return self.secured >= self.min_member

    @property
    def partial(self) -> bool:
        """Tell whether the gang holds nodes without having its minimum, although its members could run."""
        return self.able and self.holding > 0 and self.secured < self.min_member


@dataclass(slots=True)
class Lives:
    """A history, read: `steps` in the API server's order, every object's life, and who belongs to which gang.

    Pods go by UID, nodes and Queues by name, PodGroups and members by the gang's key; who ever was a member is one.
    """

    history: History
    tolerance: Tolerance
    steps: list[Step] = field(default_factory=list)
    pods: dict[str, Life[PodFact]] = field(default_factory=lambda: defaultdict(Life))
    nodes: dict[str, Life[NodeFact]] = field(default_factory=lambda: defaultdict(Life))
    groups: dict[GroupKey, Life[GroupFact]] = field(default_factory=lambda: defaultdict(Life))
    queues: dict[str, Life[QueueFact]] = field(default_factory=lambda: defaultdict(Life))
    members: dict[GroupKey, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    events: list[Change] = field(default_factory=list)
    _moments: dict[GroupKey, list[Moment]] = field(default_factory=dict)

    @classmethod
    def read(cls, history: History, tolerance: Tolerance) -> Lives:
        """Read a history; raise ValueError naming a kind that is not judged."""
        lives = cls(history, tolerance)
        for change in sorted(history.changes, key=lambda change: change.version):
            lives._take(change)
        return lives

    def ours(self, pod: PodFact) -> bool:
        """Tell whether the pod's scheduler asks Muster."""
        return pod.scheduler in self.tolerance.schedulers

    def since(self, change: Change) -> float:
        """Return from when on what was known may have led to this write (seconds)."""
        return change.at - self.tolerance.window

    def facts_of(self, key: GroupKey, since: float, version: int) -> Iterator[list[PodFact]]:
        """Iterate over a gang's pods, each with all that it was in the gang between a time and a version."""
        for uid in self.members.get(key, ()):
            if facts := [fact for fact in self.pods[uid].within(since, version) if fact.group == key]:
                yield facts

    def members_at(self, key: GroupKey, version: int) -> list[PodFact]:
        """Return the pods of a gang at a version."""
        pods = (self.pods[uid].at(version) for uid in self.members.get(key, ()))
        return [pod for pod in pods if pod is not None and pod.group == key]

    def min_member(self, key: GroupKey, since: float, version: int) -> int | None:
        """Return the least minMember between a time and a version, None if there was no PodGroup."""
        if key in self.groups:
            return min((group.min_member for group in self.groups[key].within(since, version)), default=None)
        if needs_object(key):
            return None
        said = [max(fact.min_member for fact in facts) for facts in self.facts_of(key, since, version)]
        return max(said, default=1)

    def moments(self, key: GroupKey) -> list[Moment]:
        """Return how a gang stood after every change of its PodGroup and of its members."""
        if key not in self._moments:
            self._moments[key] = self._all_moments(key)
        return self._moments[key]

    def _all_moments(self, key: GroupKey) -> list[Moment]:
        lives: list[Life[PodFact] | Life[GroupFact]] = [self.pods[uid] for uid in self.members.get(key, ())]
        if key in self.groups:
            lives.append(self.groups[key])
        changes: list[tuple[Change, PodFact | GroupFact | None]] = [
            pair for life in lives for pair in zip(life.changes, life.facts, strict=True)
        ]
        changes.sort(key=lambda pair: pair[0].version)
        group: GroupFact | None = None
        pods: dict[str, PodFact] = {}
        moments = []
        for change, fact in changes:
            if change.object["kind"] in {"PodGroup", "Job"}:
                group = fact if isinstance(fact, GroupFact) else None
            elif isinstance(fact, PodFact) and fact.group == key:
                pods[fact.uid] = fact
            else:
                pods.pop(change.object["metadata"]["uid"], None)
            moments.append(self._moment(key, change, group, pods))
        return moments

    def _moment(self, key: GroupKey, change: Change, group: GroupFact | None, pods: dict[str, PodFact]) -> Moment:
        by_label = not needs_object(key)
        said = max((pod.min_member for pod in pods.values()), default=1) if by_label else 1
        return Moment(
            change,
            uid=group.uid if group is not None else "" if by_label else None,
            min_member=group.min_member if group is not None else said,
            secured=sum(pod.secured for pod in pods.values()),
            holding=sum(pod.secured and not pod.ended for pod in pods.values()),
            contributing=sum(pod.contributes for pod in pods.values()),
            ours=all(self.ours(pod) for pod in pods.values()),
        )

    def _take(self, change: Change) -> None:
        kind = change.object["kind"]
        if kind == "Event":
            self.events.append(change)
            return
        gone = change.type == "DELETED"
        match kind:
            case "Pod":
                pod = read_pod(change.object)
                if pod.group is not None and pod.uid not in self.members[pod.group]:
                    self.members[pod.group][pod.uid] = None
                self._enter(self.pods[pod.uid], change, None if gone else pod)
            case "Node":
                node = read_node(change.object)
                self._enter(self.nodes[node.name], change, None if gone else node)
            case "PodGroup":
                group = read_group(change.object)
                self._enter(self.groups[group.key], change, None if gone else group)
            case "Job":
                job = read_job(change.object)
                self._enter(self.groups[job.key], change, None if gone else job)
            case "Queue":
                queue = read_queue(change.object)
                self._enter(self.queues[queue.name], change, None if gone else queue)
            case _:
                raise ValueError(f"{kind} {change.object['metadata']['name']}: this kind is not judged")

    def _enter(self, life: Life[T], change: Change, fact: T | None) -> None:
        before = life.facts[-1] if life.facts else None
        life.add(change, fact)
        self.steps.append(Step(change, before, fact))  # type: ignore[arg-type] # T is one of the facts
