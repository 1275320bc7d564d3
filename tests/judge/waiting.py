"""P3 All or nothing in time, P4 Deadlock free, and P6 The cluster is the database: how things end."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.judge.history import Change, Violation
from tests.judge.lives import Lives, Moment
from tests.judge.objects import GroupKey, PodFact

#: A nomination that is gone for less than this (seconds) was only written again, to wake the pod.
_NUDGE_SECONDS = 0.5

#: How long after a death of Muster what goes wrong is taken to be its consequence (seconds).
_AFTERMATH_SECONDS = 10.0


def whole_or_nothing(lives: Lives) -> Iterator[Violation]:
    """P3 and P6: in quiet, no gang keeps nodes for fewer than minMember members although the others could run.

    "Could run" is judged by existence: enough members, none of them gated, and by quiet there is room. If Muster died
    while the gang was partial, the promise is P6.
    """
    for key in lives.members:
        for partial, until in _spells(lives, lives.moments(key), lambda moment: moment.partial):
            late = _overdue(lives, partial.change.at, until, lives.tolerance.settle)
            if late is None:
                continue
            died = any(partial.change.at <= death <= until for death in lives.history.restarts)
            text = (
                f"gang {key[2]} stayed with {partial.secured} of {partial.min_member} members bound or succeeded, "
                f"from {partial.change.at:.3f} on"
            )
            yield Violation(late, "P6" if died else "P3", text, _evidence(lives, key))


def nominations_end(lives: Lives) -> Iterator[Violation]:
    """P3 and P6: in quiet, a nomination of a gang that has not started does not outlive its reservation.

    It sees a waiting member that is kept on one node for longer than the time of a reservation and `settle`: what
    blocks that node for nothing. A nomination left over from before a death of Muster is P6.
    """
    for key, uids in lives.members.items():
        whole_at = [moment.change.at for moment in lives.moments(key) if moment.whole]
        for uid in uids:
            for began, until, fact in _nominations(lives, uid):
                allowed = lives.tolerance.settle + _timeout(lives, key, began)
                late = _overdue(lives, began.at, until, allowed)
                if late is None or any(began.at <= at <= until for at in whole_at) or not lives.ours(fact):
                    continue
                died = any(began.at <= death for death in lives.history.restarts)
                text = f"pod {fact.name} stayed nominated to {fact.nominated} for {until - began.at:.1f} s, unbound"
                yield Violation(late, "P6" if died else "P3", text, _evidence(lives, key))


def everyone_runs(lives: Lives) -> Iterator[Violation]:
    """P4: in quiet, every gang that fits alone, on the nodes as they are at the end, is whole at the end.

    "Alone" is beside what others than Muster put there. Gangs that restrict their nodes in ways that the judge does
    not read (affinity, spread, volumes), or whose pods it cannot place by first fit, are not judged.
    """
    end = lives.history.end
    for key in lives.members:
        spells = list(_spells(lives, lives.moments(key), lambda moment: moment.able and not moment.whole))
        if not spells or spells[-1][1] < end:
            continue
        waiting = spells[-1][0]
        late = _overdue(lives, waiting.change.at, end, lives.tolerance.settle)
        if late is None or waiting.secured or not _fits_alone(lives, key, waiting.min_member):
            continue
        text = f"gang {key[2]} of {waiting.min_member} fits alone and still waits, since {waiting.change.at:.3f}"
        yield Violation(late, "P4", text, _evidence(lives, key))


def survives(lives: Lives, found: list[Violation]) -> Iterator[Violation]:
    """P6: right after a death of Muster, none of the other promises is broken."""
    for violation in found:
        for death in lives.history.restarts:
            if violation.promise in {"P1", "P2", "P5", "P7"} and 0 <= violation.at - death <= _AFTERMATH_SECONDS:
                text = f"{violation.at - death:.3f} s after Muster died: {violation.promise} {violation.text}"
                yield Violation(violation.at, "P6", text, violation.evidence)
                break


def _overdue(lives: Lives, began: float, until: float, allowed: float) -> float | None:
    """Return when a state that lasted from `began` to `until` had lasted too long in quiet; None if it had not.

    Every death of Muster in quiet gives it the time again.
    """
    quiet = lives.history.quiet
    if quiet is None:
        return None
    deaths = [death for death in lives.history.restarts if death <= until]
    late = max([began, quiet, *deaths]) + allowed
    return late if until > late else None


def _spells(lives: Lives, moments: list[Moment], holds: Callable[[Moment], bool]) -> Iterator[tuple[Moment, float]]:
    """Iterate over the spells, in one life of a PodGroup, in which something holds: first moment and end."""
    first: Moment | None = None
    for moment in moments:
        true = holds(moment)
        if first is not None and (not true or moment.uid != first.uid):
            yield first, moment.change.at
            first = None
        if true and first is None:
            first = moment
    if first is not None:
        yield first, lives.history.end


def _nominations(lives: Lives, uid: str) -> Iterator[tuple[Change, float, PodFact]]:
    """Iterate over the spells in which a waiting pod was nominated to one node: first change, end, the pod."""
    life = lives.pods[uid]
    began: tuple[Change, PodFact] | None = None
    lost: float | None = None
    for change, fact in zip(life.changes, life.facts, strict=True):
        if began is not None and lost is not None and change.at - lost > _NUDGE_SECONDS:
            yield began[0], lost, began[1]
            began = lost = None
        nominated = fact is not None and fact.placeable and fact.nominated
        if began is not None and nominated == began[1].nominated:
            lost = None
        elif began is not None and (nominated or fact is None or not fact.placeable):
            yield began[0], change.at if lost is None else lost, began[1]
            began = lost = None
        elif began is not None and lost is None:
            lost = change.at
        if began is None and nominated and fact is not None:
            began = change, fact
    if began is not None:
        yield began[0], lives.history.end if lost is None else lost, began[1]


def _timeout(lives: Lives, key: GroupKey, change: Change) -> float:
    group = lives.groups[key].at(change.version) if key in lives.groups else None
    return lives.tolerance.reservation if group is None or group.timeout is None else group.timeout


def _fits_alone(lives: Lives, key: GroupKey, needed: int) -> bool:
    """Tell whether the gang surely fits beside strangers: all that wait by first fit, or as many alike as it needs."""
    last = lives.steps[-1].change.version
    nodes = [node for life in lives.nodes.values() if (node := life.at(last)) is not None]
    free = {node.name: dict(node.allocatable) for node in nodes}
    members = [pod for pod in lives.members_at(key, last) if pod.placeable]
    for life in lives.pods.values():
        pod = life.at(last)
        if pod is not None and pod.node in free and not pod.ended and not lives.ours(pod):
            _place(pod, free[pod.node])
    if any(pod.picky for pod in members):
        return False
    placed = 0
    for pod in sorted(members, key=lambda pod: sorted(pod.requests.items()), reverse=True):
        node = next((n for n in nodes if pod.admitted_by(n) and _has_room(pod, free[n.name])), None)
        if node is not None:
            _place(pod, free[node.name])
            placed += 1
    alike = all((pod.requests, pod.selector) == (members[0].requests, members[0].selector) for pod in members)
    return placed >= (needed if alike else len(members))


def _has_room(pod: PodFact, free: dict[str, int]) -> bool:
    return all(free.get(resource, 0) >= amount for resource, amount in pod.requests.items())


def _place(pod: PodFact, free: dict[str, int]) -> None:
    for resource, amount in pod.requests.items():
        free[resource] = free.get(resource, 0) - amount


def _evidence(lives: Lives, key: GroupKey) -> tuple[Change, ...]:
    """Return the PodGroup's and the members' creation, and what was done to their nodes and phases."""
    changes = list(lives.groups[key].changes[-1:]) if key in lives.groups else []
    for uid in lives.members[key]:
        life = lives.pods[uid]
        changes += life.changes[-1:]
    return tuple(changes)
