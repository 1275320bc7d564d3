"""P2 No double promise: no node holds more than it has, bound and nominated together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.judge.history import Change, Violation
from tests.judge.lives import Life, Lives, Step
from tests.judge.objects import NodeFact, PodFact


@dataclass(slots=True)
class _Load:
    """What is on one node, by UID: pods that hold room, and waiting gang members that are nominated there.

    `strangers` are those bound without Muster, with when that was (seconds). `over_since` is the change with which
    the nominations began to be too many, None while they are not.
    """

    bound: dict[str, PodFact] = field(default_factory=dict)
    nominated: dict[str, PodFact] = field(default_factory=dict)
    strangers: dict[str, float] = field(default_factory=dict)
    over_since: Change | None = None


def room_for_bound(lives: Lives) -> Iterator[Violation]:
    """P2: with every Binding through Muster, what is bound to the node stays within what the node has.

    Judged at the Binding, for the resources that the pod asks for: a node that shrinks later breaks nothing. What
    others put there, or what the node lost, shortly before the Binding could not be known. It cannot see reservations
    that were never written.
    """
    loads: dict[str, _Load] = defaultdict(_Load)
    for step in lives.steps:
        _take(lives, loads, step)
        pod = step.bound
        if pod is None or not lives.ours(pod):
            continue
        load, since = loads[pod.node], lives.since(step.change)
        offers = list(lives.nodes[pod.node].within(since, step.change.version)) if pod.node in lives.nodes else []
        counted = [other for uid, other in load.bound.items() if load.strangers.get(uid, since) <= since]
        for resource in pod.requests:
            used = sum(other.requests.get(resource, 0) for other in counted)
            most = max((node.allocatable.get(resource, 0) for node in offers), default=0)
            if offers and used > most:
                text = f"node {pod.node} has {most / 1000:g} {resource}, and {used / 1000:g} with pod {pod.name}"
                yield Violation(step.change.at, "P2", text, _evidence(lives, pod.node, counted, step.change))
                break


def open_nodes(lives: Lives) -> Iterator[Violation]:
    """P2: every Binding is to a node that existed, and that let the pod in, when it may have been decided.

    Judged by taints (a cordon is one) and node selectors. What changed shortly before the Binding could not be known.
    """
    for step in lives.steps:
        pod = step.bound
        if pod is None or not lives.ours(pod):
            continue
        since = lives.since(step.change)
        known = lives.nodes.get(pod.node)
        offers = [] if known is None else list(known.within(since, step.change.version))
        if any(pod.admitted_by(node) for node in offers):
            continue
        why = "was closed to it" if offers else "did not exist"
        text = f"pod {pod.name} was bound to {pod.node}, which {why}"
        yield Violation(step.change.at, "P2", text, _evidence(lives, pod.node, [], step.change))


def room_for_nominated(lives: Lives) -> Iterator[Violation]:
    """P2: in quiet, bound pods and nominated gang members do not stay together beyond what their node has.

    Nominations that are being taken back while others are written overlap for a moment; beyond `settle` they are a
    promise made twice. Judged in quiet alone: before, a write that takes one back may fail.
    """
    quiet, settle = lives.history.quiet, lives.tolerance.settle
    if quiet is None:
        return
    loads: dict[str, _Load] = defaultdict(_Load)
    for step in lives.steps:
        for name in _take(lives, loads, step):
            load = loads[name]
            began, over = load.over_since, _overbooked(load, lives.nodes.get(name), step.change.version)
            if not over:
                load.over_since = None
            elif began is None:
                load.over_since = step.change
            if began is not None and not over and step.change.at - max(began.at, quiet) > settle:
                yield _twice(lives, name, load, began)
    for name, load in loads.items():
        if load.over_since is not None and lives.history.end - max(load.over_since.at, quiet) > settle:
            yield _twice(lives, name, load, load.over_since)


def _twice(lives: Lives, node: str, load: _Load, began: Change) -> Violation:
    promised = [*load.bound.values(), *load.nominated.values()]
    text = f"node {node} was promised to more than it holds for longer than {lives.tolerance.settle:g} s"
    return Violation(began.at, "P2", text, _evidence(lives, node, promised, began))


def _overbooked(load: _Load, life: Life[NodeFact] | None, version: int) -> bool:
    """Tell whether a node is short of something that a nominated member asks for."""
    node = None if life is None else life.at(version)
    if node is None or not load.nominated:
        return False
    promised = [*load.bound.values(), *load.nominated.values()]
    asked = {resource for pod in load.nominated.values() for resource in pod.requests}
    return any(sum(p.requests.get(r, 0) for p in promised) > node.allocatable.get(r, 0) for r in asked)


def _take(lives: Lives, loads: dict[str, _Load], step: Step) -> list[str]:
    """Take in one step; return the nodes that it concerns."""
    if isinstance(step.after, NodeFact) or isinstance(step.before, NodeFact):
        return [step.change.object["metadata"]["name"]]
    concerned = []
    if isinstance(step.before, PodFact):
        for name in {step.before.node, step.before.nominated} - {""}:
            loads[name].bound.pop(step.before.uid, None)
            loads[name].nominated.pop(step.before.uid, None)
            concerned.append(name)
    pod = step.after
    if not isinstance(pod, PodFact):
        return concerned
    if pod.node and not pod.ended:
        load = loads[pod.node]
        load.bound[pod.uid] = pod
        through_us = lives.ours(pod) and (step.bound is not None or pod.uid not in load.strangers) and step.before
        if not through_us:
            load.strangers.setdefault(pod.uid, step.change.at)
        concerned.append(pod.node)
    elif pod.placeable and pod.nominated and pod.group is not None and lives.ours(pod):
        loads[pod.nominated].nominated[pod.uid] = pod
        concerned.append(pod.nominated)
    return list(dict.fromkeys(concerned))


def _evidence(lives: Lives, node: str, pods: list[PodFact], change: Change) -> tuple[Change, ...]:
    """Return the change, the node as it was, and what put each pod there."""
    known = lives.nodes[node].change_at(change.version) if node in lives.nodes else None
    seen = [lives.pods[pod.uid].change_at(change.version) for pod in pods]
    return tuple({id(c): c for c in (known, *seen, change) if c is not None}.values())
