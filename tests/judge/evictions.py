"""P7 No surprise evictions: whom kube-scheduler may preempt, and for whom."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tests.judge.history import Change, Violation
from tests.judge.lives import Lives, Moment
from tests.judge.objects import PodFact


def gangs_stay_whole(lives: Lives) -> Iterator[Violation]:
    """P7: no preemption takes a gang that had its minimum below it.

    It sees the victims by their DisruptionTarget condition (reason PreemptionByScheduler); those of other schedulers
    are not Muster's. If the gang had members to spare, or was below its minimum, shortly before, that could not be
    known to be over. Deletions by others are nobody's surprise.
    """
    for key in lives.members:
        moments = lives.moments(key)
        for place, moment in enumerate(moments):
            if not _evicts(lives, moment):
                continue
            before = moments[place - 1]
            if moment.whole or _could_spare(lives, moments[: place + 1]):
                continue
            victim = moment.change.object["metadata"]["name"]
            text = f"pod {victim} was preempted, which left gang {key[2]} with {moment.secured} of {moment.min_member}"
            yield Violation(moment.change.at, "P7", text, (before.change, moment.change))


def none_for_members(lives: Lives) -> Iterator[Violation]:
    """P7: kube-scheduler preempts nobody for a gang member.

    It sees for whom by the Preempted event, which names the preemptor; where that event is missing, by exclusion: no
    pod without gang waits that has a higher priority than the victim and the victim's node among its own.
    """
    preemptors = {
        event.object["regarding"]["uid"]: event
        for event in lives.events
        if event.object.get("reason") == "Preempted" and "regarding" in event.object
    }
    for step in lives.steps:
        before, after = step.before, step.after
        if not isinstance(before, PodFact) or not isinstance(after, PodFact) or before.evicted or not after.evicted:
            continue
        event = preemptors.get(after.uid)
        uid = None if event is None else (event.object.get("related") or {}).get("uid")
        if uid is not None:
            preemptor = next((f for f in reversed(lives.pods[uid].facts) if f), None) if uid in lives.pods else None
            guilty = preemptor is not None and preemptor.group is not None and lives.ours(preemptor)
        else:
            guilty = _only_members_wait(lives, after, step.change)
        if guilty:
            text = f"pod {after.name} on {after.node} was preempted for a gang member"
            yield Violation(step.change.at, "P7", text, tuple(c for c in (step.change, event) if c is not None))


def _evicts(lives: Lives, moment: Moment) -> bool:
    """Tell whether a moment began with kube-scheduler's choosing a member as victim, for a pod of Muster's."""
    change = moment.change
    if change.object["kind"] != "Pod" or change.type == "DELETED":
        return False
    life = lives.pods[change.object["metadata"]["uid"]]
    now, before = life.at(change.version), life.at(change.version - 1)
    if now is None or not now.evicted or (before is not None and before.evicted):
        return False
    return _preempting_scheduler(change) in lives.tolerance.schedulers


def _preempting_scheduler(change: Change) -> str:
    """Return who preempted; the condition's message begins with it. Source: kube-scheduler's preemption executor."""
    for condition in change.object["status"]["conditions"]:
        if condition["type"] == "DisruptionTarget":
            return str(condition.get("message", "")).partition(":")[0]
    return ""


def _could_spare(lives: Lives, moments: list[Moment]) -> bool:
    """Tell whether the last moment's eviction was right by what may have been known: spare members, or none to keep.

    Victims taken since count as lost by whoever took them.
    """
    since, taken = lives.since(moments[-1].change), 0
    for later, moment in pairwise(reversed(moments)):
        taken += _evicts(lives, later)
        if moment.secured < moment.min_member or moment.secured - taken >= moment.min_member:
            return True
        if moment.change.at <= since:
            break
    return False


def _only_members_wait(lives: Lives, victim: PodFact, change: Change) -> bool:
    """Tell whether, of Muster's pods that wait and may preempt the victim, all are members of gangs, and some are."""
    if _preempting_scheduler(change) not in lives.tolerance.schedulers:
        return False
    waiting = [
        pod
        for life in lives.pods.values()
        for pod in life.within(lives.since(change), change.version)
        if lives.ours(pod) and pod.placeable and pod.priority > victim.priority
    ]
    return bool(waiting) and all(pod.group is not None for pod in waiting)
