"""P1 Atomic, and P5 Idempotent: who may be bound, and who may be given a node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.judge.history import Arrival, Change, Violation
from tests.judge.lives import Lives
from tests.judge.objects import GroupKey, PodFact


def atomic(lives: Lives) -> Iterator[Violation]:
    """P1: no member is bound before minMember members are bound, have succeeded, or have arrived at bind.

    It sees every Binding of a member, also of those that replace others. With recorded arrivals it counts distinct
    members whose call was not answered long before; without, only whether minMember members existed, not gated. It
    cannot see that a member's arrival was meant for an older plan of the same gang.
    """
    arrivals = _by_pod(lives)
    for step in lives.steps:
        pod = step.bound
        if pod is None or pod.group is None or not lives.ours(pod):
            continue
        change, since = step.change, lives.since(step.change)
        needed = lives.min_member(pod.group, since, change.version)
        if needed is None:
            text = f"pod {pod.name} was bound to {pod.node} although its gang {pod.group[2]} has no PodGroup"
            yield Violation(change.at, "P1", text, _evidence(lives, pod.group, change))
            continue
        ready = [facts[0] for facts in lives.facts_of(pod.group, since, change.version) if any(map(_counts, facts))]
        if len(ready) < needed:
            text = f"pod {pod.name} was bound to {pod.node} when {len(ready)} members existed, of {needed} needed"
            yield Violation(change.at, "P1", text, _evidence(lives, pod.group, change))
            continue
        if arrivals is None:
            continue
        there = {pod.uid} | {
            facts[0].uid
            for facts in lives.facts_of(pod.group, since, change.version)
            if any(fact.secured for fact in facts) or _waits(lives, arrivals[facts[0].uid], change)
        }
        if len(there) < needed:
            text = (
                f"pod {pod.name} was bound to {pod.node} when {len(there)} members had arrived at bind, were bound or "
                f"had succeeded, of {needed} needed"
            )
            yield Violation(change.at, "P1", text, _evidence(lives, pod.group, change))


def inherits_nothing(lives: Lives) -> Iterator[Violation]:
    """P5: what is created under an old name inherits no nomination and no Binding.

    It sees a pod that is bound although kube-scheduler never asked to bind that UID to that node (with arrivals), one
    that is created with a nomination, and a nomination in a gang that lacks members or its PodGroup: such a one was
    meant for what had the name before. It cannot see whether two answers to the same question were the same.
    """
    arrivals = _by_pod(lives)
    for step in lives.steps:
        bound, nominated, change = step.bound, step.nominated, step.change
        if bound is not None and arrivals is not None and lives.ours(bound):
            asked = arrivals[bound.uid]
            if not any(arrival.node == bound.node and arrival.at <= change.at for arrival in asked):
                text = f"pod {bound.name} was bound to {bound.node}, which no bind call for its UID asked for"
                yield Violation(change.at, "P5", text, _namesakes(lives, bound, change))
        if nominated is None or nominated.group is None or not lives.ours(nominated):
            continue
        if step.before is None:
            text = f"pod {nominated.name} was created with a nomination of {nominated.nominated}"
            yield Violation(change.at, "P5", text, (change,))
        elif (lack := _lack(lives, nominated.group, change)) is not None:
            text = f"pod {nominated.name} was given node {nominated.nominated} although its gang {lack}"
            yield Violation(change.at, "P5", text, _namesakes(lives, nominated, change))


def bound_once(lives: Lives) -> Iterator[Violation]:
    """P2 and P6: a pod's node never changes once it has one."""
    for step in lives.steps:
        before, after = step.before, step.after
        if isinstance(before, PodFact) and isinstance(after, PodFact) and before.node not in {"", after.node}:
            text = f"pod {after.name} was on {before.node} and is on {after.node or 'none'}"
            yield Violation(step.change.at, "P2", text, (step.change,))


def _counts(pod: PodFact) -> bool:
    return pod.contributes


def _by_pod(lives: Lives) -> dict[str, list[Arrival]] | None:
    if lives.history.arrivals is None:
        return None
    by_pod: dict[str, list[Arrival]] = defaultdict(list)
    for arrival in lives.history.arrivals:
        by_pod[arrival.uid].append(arrival)
    return by_pod


def _waits(lives: Lives, arrivals: list[Arrival], change: Change) -> bool:
    """Tell whether a member may have waited at bind when a Binding was decided, in the same life of Muster."""
    written = change.at - lives.tolerance.write
    answered = change.at - max(lives.tolerance.write, lives.tolerance.returning)
    for arrival in arrivals:
        died = any(arrival.at < death < written for death in lives.history.restarts)
        if arrival.at <= change.at and arrival.until >= answered and not died:
            return True
    return False


def _lack(lives: Lives, key: GroupKey, change: Change) -> str | None:
    """Return what a gang lacked to start, at any time at which a write may have been decided; None if nothing."""
    since = lives.since(change)
    needed = lives.min_member(key, since, change.version)
    if needed is None:
        return "has no PodGroup"
    ready = sum(any(map(_counts, facts)) for facts in lives.facts_of(key, since, change.version))
    return f"has {ready} members of {needed} needed" if ready < needed else None


def _evidence(lives: Lives, key: GroupKey, change: Change) -> tuple[Change, ...]:
    """Return the change, the PodGroup as it was, and the newest change of each member."""
    seen = [life.change_at(change.version) for life in (lives.pods[uid] for uid in lives.members[key])]
    group = lives.groups[key].change_at(change.version) if key in lives.groups else None
    return tuple(c for c in (group, *seen) if c is not None)


def _namesakes(lives: Lives, pod: PodFact, change: Change) -> tuple[Change, ...]:
    """Return the change and the last of each pod that had the name, and of each PodGroup."""
    found = [change]
    for life in lives.pods.values():
        last = life.change_at(change.version - 1)
        if last is not None and _name(last) == (pod.namespace, pod.name):
            found.append(last)
    if pod.group is not None and pod.group in lives.groups:
        found += [c for c in lives.groups[pod.group].changes if c.version < change.version and c.type != "MODIFIED"]
    return tuple(found)


def _name(change: Change) -> tuple[str, str]:
    metadata = change.object["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
