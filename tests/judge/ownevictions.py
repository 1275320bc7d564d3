"""P7 No surprise evictions: those that Muster makes itself, through the Eviction API."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tests.judge.history import Change, Violation
from tests.judge.lives import Lives, Moment, Step
from tests.judge.objects import GroupFact, GroupKey, NodeFact, PodFact, QueueFact
from tests.judge.quota import Account, Books, Queues, Usage, is_usable, limits, path, queues_lately

#: How Muster's Event about a pod that it evicts for a gang begins.
_FOR = re.compile(r"evicted for ([^\s:]+)/([^\s:]+): ")

#: How a node is tainted that does not answer. Source: k8s.io/api/core/v1/well_known_taints.go.
_SILENT = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})

#: The reasons of such Events by which somebody's rank or quota is the reason.
_BY_RIGHT = frozenset({"Preempted", "Reclaimed", "FairSharing"})


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod that was evicted, as it was, and with the change; for which gang, None if nobody says."""

    change: Change
    pod: PodFact
    beneficiary: GroupKey | None
    reason: str


def gangs_leave_whole(lives: Lives) -> Iterator[Violation]:
    """P7: an eviction takes a gang whole, or only members beyond minMember.

    Whoever lost its minimum by it keeps nobody on a node for longer than an eviction may take. Evictions that were
    refused, or whose Muster died, are nobody's intention; neither is what is lost otherwise. A gang with a member on a
    node that does not answer has lost that one already, and may have it replaced, and others with it.
    """
    for eviction in _evictions(lives):
        key, at = eviction.pod.group, eviction.change.at
        late = at + lives.tolerance.eviction_window + lives.tolerance.settle
        if key is None or not lives.ours(eviction.pod) or late > lives.history.end or _hindered(lives, at, late):
            continue
        moments = lives.moments(key)
        place = next(place for place, moment in enumerate(moments) if moment.change.version >= eviction.change.version)
        if not _breaks(lives, moments, place) or _lacks_a_node(lives, key, eviction.change.version):
            continue
        group = lives.groups.get(key)
        uids = {fact.uid for fact in group.within(at - lives.tolerance.window, 1 << 60)} if group is not None else set()
        left = [pod for pod in _bound(lives, key, eviction.change.version) if _stays(lives, pod, late)]
        if left and len(uids) == 1:
            text = (
                f"pod {eviction.pod.name} was evicted, which left gang {key[2]} without its minimum, but "
                f"{', '.join(pod.name for pod in left)} stayed"
            )
            yield Violation(at, "P7", text, (eviction.change, *_last(lives, left)))


def evicted_for_a_start(lives: Lives) -> Iterator[Violation]:
    """P7: whoever is evicted for a gang is so once, and that gang starts, unless something else came between.

    What may come between: nodes, Queues, pods of other schedulers, the gang's own PodGroup and members, budgets,
    kube-scheduler's own reasons, deaths of Muster, now or shortly before the eviction. What is lost counts, not what
    is added. Members that restrict their nodes may be refused once others have left, but only that once.
    """
    by_gang: dict[GroupKey, list[Eviction]] = {}
    for eviction in _evictions(lives):
        if eviction.beneficiary is not None and eviction.reason in _BY_RIGHT:
            by_gang.setdefault(eviction.beneficiary, []).append(eviction)
    for key, evictions in by_gang.items():
        starts = _starts(lives, key)
        for number, eviction in enumerate(evictions):
            at = eviction.change.at
            start = next((start for start in starts if start >= at), lives.history.end)
            allowed = lives.tolerance.eviction_window + _START_SECONDS
            one_batch = at + _ONE_BATCH_SECONDS + lives.tolerance.eviction
            again = [each.change.at for each in evictions[number:] if one_batch < each.change.at < start]
            until = min([start, at + allowed, *again])
            if until == start or _disturbed(lives, key, at - lives.tolerance.eviction_window, until):
                continue
            members = lives.members_at(key, eviction.change.version)
            if not again and any(pod.picky for pod in members):
                continue
            what = "and others after it" if again else f"and that had not started {allowed:.0f} s later"
            text = f"pod {eviction.pod.name} was evicted for gang {key[2]}, {what}"
            yield Violation(at, "P7", text, (eviction.change, *_last(lives, members)))


def evicted_by_right(lives: Lives) -> Iterator[Violation]:
    """P7: nobody is evicted for a gang of the same queue that has no higher priority, or of another by no right.

    By right is whoever runs in a queue that has more than its own quota, and so have all above it up to where both
    meet. What is promised to its other gangs counts. For members beyond the minimum of a gang only such members leave
    in the same queue, of a lower priority; one that has a member on a node that does not answer is repaired instead.
    """
    evictions = {eviction.change.version: eviction for eviction in _evictions(lives)}
    books = Books(lives)
    for step in lives.steps:
        eviction = evictions.get(step.change.version)
        if eviction is not None and eviction.beneficiary is not None and eviction.reason in _BY_RIGHT:
            wrong = _wrong(lives, books, eviction)
            if wrong:
                text = f"pod {eviction.pod.name} was evicted for gang {eviction.beneficiary[2]}, {wrong}"
                yield Violation(step.change.at, "P7", text, (step.change,))
        books.take(step)


#: How long a gang may take to start once others have been told to leave for it: they end within a few seconds, and
#: kube-scheduler may pause for ten before it tries a pod again.
_START_SECONDS = 20.0

#: Evictions that were decided together are this close (seconds), unless something was late.
_ONE_BATCH_SECONDS = 1.0


def _evictions(lives: Lives) -> Iterator[Eviction]:
    """Iterate over the evictions from nodes through the Eviction API.

    What was said last before one is about it: a Muster that said so may have died before it evicted the pod. If that
    was long before, the pod was not evicted for that after all, and what was said next is about it.
    """
    said: dict[str, list[Change]] = {}
    for event in lives.events:
        if "regarding" in event.object and _FOR.match(event.object.get("note", "")):
            said.setdefault(event.object["regarding"]["uid"], []).append(event)
    for step in lives.steps:
        before, after = step.before, step.after
        if not (isinstance(before, PodFact) and isinstance(after, PodFact) and after.node) or before.ended:
            continue
        if before.evicted_by_api or not after.evicted_by_api or before.deleting:
            continue
        if after.uid not in said:
            yield Eviction(step.change, before, None, "")
            continue
        events, at = sorted(said[after.uid], key=_at), step.change.at
        since = at - lives.tolerance.eviction_window
        lately = [each for each in events if since <= each.at <= at]
        later = [each for each in events if each.at > at]
        told = (lately[-1:] or later[:1] or events[-1:])[0].object
        found = _FOR.match(told["note"])
        yield Eviction(step.change, before, found and _known(lives, found[1], found[2]), told["reason"])


def _at(change: Change) -> float:
    return change.at


def _known(lives: Lives, namespace: str, name: str) -> GroupKey | None:
    return next((key for key in lives.members if key[1:] == (namespace, name)), None)


def _breaks(lives: Lives, moments: list[Moment], place: int) -> bool:
    """Tell whether an eviction took a gang's minimum, whatever of what was known lately it was decided on."""
    since = moments[place].change.at - lives.tolerance.eviction_window
    known = [moments[place]]
    for moment in reversed(moments[:place]):
        if not moment.whole:
            return False
        known.append(moment)
        if moment.change.at < since:
            break
    least = min(moment.min_member for moment in known)
    # The mark of an eviction, and the deletion that follows.
    return any(moment.secured < least for moment in moments[place : place + 2])


def _bound(lives: Lives, key: GroupKey, version: int) -> list[PodFact]:
    """Return a gang's members on nodes that are not leaving."""
    pods = lives.members_at(key, version)
    return [pod for pod in pods if pod.node and not (pod.ended or pod.deleting or pod.evicted_by_api)]


def _lacks_a_node(lives: Lives, key: GroupKey, version: int) -> bool:
    """Tell whether a member of a gang is on a node that does not answer."""
    nodes = (lives.nodes[pod.node].at(version) for pod in lives.members_at(key, version) if pod.node in lives.nodes)
    return any(taint.key in _SILENT for node in nodes if node is not None for taint in node.taints)


def _stays(lives: Lives, pod: PodFact, until: float) -> bool:
    """Tell whether a pod is still there, and not about to leave, at a time."""
    life = lives.pods[pod.uid]
    after = [fact for change, fact in zip(life.changes, life.facts, strict=True) if change.at <= until]
    return bool(after) and after[-1] is not None and not (after[-1].deleting or after[-1].ended)


def _starts(lives: Lives, key: GroupKey) -> list[float]:
    """Return when a gang came to have its minimum, or more than that (seconds)."""
    moments = lives.moments(key)
    return [
        moment.change.at
        for place, moment in enumerate(moments)
        if moment.whole and (place == 0 or not moments[place - 1].whole or moment.secured > moments[place - 1].secured)
    ]


def _is_whole(lives: Lives, key: GroupKey, since: float, version: int) -> bool:
    """Tell whether a gang had its minimum all the time from `since` (seconds) up to a version."""
    moments = [moment for moment in lives.moments(key) if moment.change.version <= version]
    last = [moment for moment in moments if moment.change.at <= since][-1:]
    return bool(last) and all(moment.whole for moment in (*last, *(each for each in moments if each.change.at > since)))


def _takes_minimum(lives: Lives, eviction: Eviction) -> bool:
    """Tell whether an eviction took the minimum of the gang of its pod, or the only pod of that."""
    if eviction.pod.group is None:
        return True
    moments = lives.moments(eviction.pod.group)
    place = next(at for at, moment in enumerate(moments) if moment.change.version >= eviction.change.version)
    return _breaks(lives, moments, place)


def _hindered(lives: Lives, since: float, until: float) -> bool:
    """Tell whether evictions were refused, kube-scheduler had reasons of its own, or Muster died between two times."""
    spells = (*lives.history.hindrances, *((death, death) for death in lives.history.restarts))
    return any(began <= until and ended >= since for began, ended in spells)


def _disturbed(lives: Lives, key: GroupKey, since: float, until: float) -> bool:
    """Tell whether anything happened between two times that can keep a gang from the place that was cleared for it."""
    if _hindered(lives, since, until):
        return True
    return any(since <= step.change.at <= until and _disturbs(lives, key, step) for step in lives.steps)


def _disturbs(lives: Lives, key: GroupKey, step: Step) -> bool:
    before, after = step.before, step.after
    if before == after:
        return False
    fact = after or before
    if isinstance(fact, NodeFact):
        return isinstance(before, NodeFact) and not (isinstance(after, NodeFact) and _keeps_all(before, after))
    if isinstance(fact, QueueFact):
        return any(pod.queue for pods in lives.facts_of(key, 0.0, step.change.version) for pod in pods)
    if isinstance(fact, GroupFact):
        return fact.key == key and before is not None
    if not isinstance(fact, PodFact):
        return False
    if not lives.ours(fact):
        return True
    if fact.group != key:
        return fact.group is None and fact.priority > 0 and bool(fact.node)  # may preempt, and was let in
    return fact.picky or after is None or (isinstance(after, PodFact) and (after.deleting or after.ended))


def _keeps_all(before: NodeFact, after: NodeFact) -> bool:
    """Tell whether a node still lets in whom it let in, and has as much."""
    less = any(after.allocatable.get(resource, 0) < amount for resource, amount in before.allocatable.items())
    return not less and set(after.taints) <= set(before.taints) and before.labels == after.labels


def _wrong(lives: Lives, books: Books, eviction: Eviction) -> str:
    """Return what is wrong with an eviction for a gang, "" if nothing is."""
    since = eviction.change.at - lives.tolerance.eviction_window
    version, victim = eviction.change.version, eviction.pod
    key = eviction.beneficiary
    claimants = [] if key is None else [fact for facts in lives.facts_of(key, since, version) for fact in facts]
    if not claimants:
        return ""
    situations = list(queues_lately(lives, since, version))
    if any(claimant.queue == victim.queue for claimant in claimants):
        equals = any(victim.queue in queues and queues[victim.queue].equals for queues in situations)
        highest = max(claimant.priority for claimant in claimants)
        if key is not None and _is_whole(lives, key, since, version) and not _lacks_a_node(lives, key, version):
            equals = False
            if _takes_minimum(lives, eviction):
                return "which had its minimum, and so had that of the pod"
        if highest > victim.priority or (equals and highest == victim.priority):
            return ""
        return f"which has priority {highest} in the same queue, where the pod has {victim.priority}"
    promised = _promised(lives, eviction.change)
    usages = [_with(usage, promised) for usage in books.lately(since)]
    for claimant in claimants:
        if any(_borrows(queues, usage, victim, claimant) for queues in situations for usage in usages):
            return ""
    return f"although its queue {victim.queue or 'without a name'} had no more than its own quota"


def _promised(lives: Lives, change: Change) -> list[PodFact]:
    """Return the pods of queues that nodes were promised to: they are nominated, or bound soon after."""
    soon = change.at + lives.tolerance.write + lives.tolerance.reservation
    found = []
    for life in lives.pods.values():
        pod = life.at(change.version)
        if pod is None or not (pod.placeable and pod.queue and lives.ours(pod)):
            continue
        later = (fact for each, fact in zip(life.changes, life.facts, strict=True) if change.at <= each.at <= soon)
        if pod.nominated or any(fact is not None and fact.node for fact in later):
            found.append(pod)
    return found


def _with(usage: Usage, pods: list[PodFact]) -> Usage:
    more = {queue: Counter(amounts) for queue, amounts in usage.items()}
    for pod in pods:
        more.setdefault(pod.queue, Counter()).update(pod.requests)
    return more


def _borrows(queues: Queues, usage: Usage, victim: PodFact, claimant: PodFact) -> bool:
    """Tell whether a victim's queues, up to where they meet the claimant's, use more than their own."""
    if not (victim.queue and claimant.queue and is_usable(queues, victim.queue) and is_usable(queues, claimant.queue)):
        return False
    above = path(queues, claimant.queue)
    branch = [name for name in path(queues, victim.queue) if name not in above]
    accounts = [Account(queues, usage, *limit) for limit in limits(queues, victim.queue)]
    return any(all(account.used(name) > account.subtree(name) for name in branch) for account in accounts)


def _last(lives: Lives, pods: list[PodFact]) -> list[Change]:
    return [lives.pods[pod.uid].changes[-1] for pod in pods]
