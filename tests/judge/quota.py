"""Quota holds: what the Queues allow is all that is bound; a small model of quota of the judge's own."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TypeAlias

from tests.judge.history import Change, Violation
from tests.judge.lives import Lives, Step
from tests.judge.objects import PodFact, QueueFact, Quota

Queues: TypeAlias = Mapping[str, QueueFact]

#: What runs in each queue, by resource (thousandths).
Usage: TypeAlias = Mapping[str, Mapping[str, int]]

_NO_QUOTA = Quota(0, None, None)


@dataclass(slots=True)
class Books:
    """What is bound in which queue, kept from step to step; pods that end or leave count no more.

    `log` has when it changed (seconds) and how it stood from then on. `strangers` are the pods that were put on their
    nodes without a scheduler, with when that was (seconds).
    """

    lives: Lives
    log: list[tuple[float, Usage]] = field(default_factory=list)
    strangers: dict[str, float] = field(default_factory=dict)
    _bound: dict[str, PodFact] = field(default_factory=dict)

    def take(self, step: Step) -> None:
        """Take in one step."""
        uid = (step.before or step.after).uid if isinstance(step.before or step.after, PodFact) else ""  # type: ignore[union-attr] # only of pods
        if not uid:
            return
        before, pod = self._bound.pop(uid, None), step.after
        if isinstance(pod, PodFact) and pod.node and not pod.ended and not pod.deleting and pod.queue:
            self._bound[uid] = pod
            if step.before is None:
                self.strangers[uid] = step.change.at
        if (before is None) != (uid not in self._bound):
            self.log.append((step.change.at, self.usage()))

    def usage(self, known: float = inf, leaving: Container[str] = ()) -> Usage:
        """Return what is bound now, without what was put on nodes without a scheduler after `known` (seconds).

        Pods with the UIDs `leaving` are left out too.
        """
        usage: dict[str, Counter[str]] = defaultdict(Counter)
        for uid, pod in self._bound.items():
            if self.lives.ours(pod) and self.strangers.get(uid, known) <= known and uid not in leaving:
                usage[pod.queue].update(pod.requests)
        return usage

    def stranded(self, since: float, version: int) -> set[str]:
        """Return the UIDs of pods on nodes that were missing at some time between a time (seconds) and a version.

        The control plane removes these pods: nothing runs there.
        """
        missing = {name for name, life in self.lives.nodes.items() if life.lacked(since, version)}
        return {uid for uid, pod in self._bound.items() if pod.node in missing}

    def lately(self, since: float) -> Iterator[Usage]:
        """Iterate over how it stood since a time, newest first."""
        yield self.usage()
        for at, usage in reversed(self.log):
            yield usage
            if at < since:
                return


def quota_holds(lives: Lives) -> Iterator[Violation]:
    """With every Binding of a pod in a queue, what runs there stays within what that queue and those above allow.

    Judged by Kueue's rules, with what the Queues said at any time since the place may have been promised. Pods that are
    on their way out count no more, nor do those whose eviction is on its way, or whose node was missing meanwhile. A
    queue that does not exist, or has no parent that it names, lets nobody in.
    """
    books = Books(lives)
    evicted: dict[str, float] = {}
    for step in lives.steps:
        if isinstance(step.after, PodFact) and step.after.evicted_by_api:
            evicted.setdefault(step.after.uid, step.change.at)
    for step in lives.steps:
        books.take(step)
        pod = step.bound
        if pod is None or not pod.queue or not lives.ours(pod):
            continue
        leaving = {uid for uid, at in evicted.items() if at <= step.change.at + lives.tolerance.eviction}
        since = lives.since(step.change) - lives.tolerance.reservation
        usage = books.usage(lives.since(step.change), leaving | books.stranded(since, step.change.version))
        complaints = [_complaint(queues, pod, usage) for queues in queues_lately(lives, since, step.change.version)]
        if all(complaints):
            text = f"pod {pod.name} was bound although {complaints[0]}"
            yield Violation(step.change.at, "quota", text, _evidence(lives, pod.queue, step.change))


def queues_lately(lives: Lives, since: float, version: int) -> Iterator[Queues]:
    """Iterate over how all Queues were together between a time and a version, newest first."""
    yield _queues_at(lives, version)
    changes = [change for life in lives.queues.values() for change in life.changes if change.version <= version]
    for change in sorted(changes, key=lambda change: -change.version):
        if change.at < since:
            return
        yield _queues_at(lives, change.version - 1)


def is_usable(queues: Queues, name: str) -> bool:
    """Tell whether a queue and all above it exist and are sound."""
    seen = set()
    while name:
        if name in seen or name not in queues or queues[name].invalid:
            return False
        seen.add(name)
        name = queues[name].parent
    return True


def path(queues: Queues, name: str) -> list[str]:
    """Return a usable queue and those above it."""
    found = []
    while name:
        found.append(name)
        name = queues[name].parent
    return found


@dataclass(frozen=True, slots=True)
class Account:
    """One flavor and resource in all Queues: quota, and what is used of it."""

    queues: Queues
    usage: Usage
    flavor: str
    resource: str

    def quota(self, name: str) -> Quota:
        """Return a queue's own quota."""
        return self.queues[name].quotas.get((self.flavor, self.resource), _NO_QUOTA)

    def children(self, name: str) -> list[str]:
        """Return the usable queues right below one."""
        return [each for each, fact in self.queues.items() if fact.parent == name and is_usable(self.queues, each)]

    def subtree(self, name: str) -> int:
        """Return what a queue has together with what those below it lend."""
        return self.quota(name).nominal + sum(self.subtree(each) - self.kept(each) for each in self.children(name))

    def kept(self, name: str) -> int:
        """Return what a queue does not lend."""
        lending = self.quota(name).lending
        return 0 if lending is None else max(self.subtree(name) - lending, 0)

    def used(self, name: str) -> int:
        """Return what a queue uses, and those below it beyond what they keep."""
        own = self.usage.get(name, {}).get(self.resource, 0)
        return own + sum(max(self.used(each) - self.kept(each), 0) for each in self.children(name))

    def free(self, name: str) -> int:
        """Return how much more a queue may use; below zero, it uses too much. Source: Kueue's resource_node.go.

        Other than in Kueue, what a queue keeps for itself is there even when the others use more than there is, as with
        pods that were put on nodes without any scheduler.
        """
        parent = self.queues[name].parent
        if not parent:
            return self.subtree(name) - self.used(name)
        kept, used = self.kept(name), self.used(name)
        beyond = self.free(parent)
        if (borrowing := self.quota(name).borrowing) is not None:
            beyond = min(beyond, self.subtree(name) - kept - max(used - kept, 0) + borrowing)
        return kept - used + max(beyond, 0) if used <= kept else beyond


def limits(queues: Queues, name: str) -> set[tuple[str, str]]:
    """Return the flavors and resources of which there is quota anywhere in the tree of a usable queue."""
    root = path(queues, name)[-1]
    tree = [each for each in queues if is_usable(queues, each) and path(queues, each)[-1] == root]
    return {key for each in tree for key in queues[each].quotas}


def _complaint(queues: Queues, pod: PodFact, usage: Usage) -> str:
    """Return what of the quota is exceeded with a pod, "" if nothing is."""
    name = pod.queue
    if not is_usable(queues, name):
        return f"Queue {name} cannot be used"
    for flavor, resource in sorted(limits(queues, name)):
        account = Account(queues, usage, flavor, resource)
        if pod.requests.get(resource) and account.free(name) < 0:
            over = -account.free(name) / 1000
            return f"Queue {name} then has {over:g} {resource} more than it may"
    return ""


def _queues_at(lives: Lives, version: int) -> Queues:
    return {name: fact for name, life in lives.queues.items() if (fact := life.at(version)) is not None}


def _evidence(lives: Lives, queue: str, change: Change) -> tuple[Change, ...]:
    """Return the change, the Queues as they were, and what put the pods of one there."""
    seen = [life.change_at(change.version) for life in lives.queues.values()]
    pods = [
        life for life in lives.pods.values() if (pod := life.at(change.version)) and pod.node and pod.queue == queue
    ]
    seen += [life.change_at(change.version) for life in pods]
    return tuple({id(each): each for each in (*seen, change) if each is not None}.values())
