"""Notices: gangs that are to be evicted are told before, and go when they are ready or when their time is over.

    told at 10:00, until 10:10     its pods have `muster.dev/eviction-planned: 10:00/10:10`, and a condition
    it acknowledges at 10:02       by the annotation `muster.dev/eviction-acknowledged`, or a newer checkpoint: it goes
    no word until 10:10            it goes
    the need ends at 10:05         the annotation is removed, and the condition is False

What is said stands in the pods alone. After a restart the same victims are told nothing new and go at 10:10; those that
are not to go any more have it taken back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from extender.clock import Clock
from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel
from extender.ledger.effects import CollectedEffects, EvictionReason, Note, PodNotice
from extender.objects.jobsigns import NoticePeriod
from extender.objects.pod import Pod
from extender.objects.podgroup import GroupRef

#: How long a notice that stands for nothing known is left alone (seconds): after a restart the gang that it was given
#: for has to be looked at first.
_LOOSE_SECONDS: Final = 60.0


def in_number(pods: Sequence[Pod]) -> str:
    """Say how many pods there are."""
    return "1 pod" if len(pods) == 1 else f"{len(pods)} pods"


class NoticeEnd(StrEnum):
    """How a notice ended; the value is the metric's label."""

    ACKNOWLEDGED = "acknowledged"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


@dataclass(slots=True)
class StandingNotice:
    """What a gang was told: the `period`, and the UIDs of the pods that are to go. One that is `over` was acted on.

    From `due` on it may go (seconds, monotonic), whether it is ready or not.
    """

    gang: Gang
    period: NoticePeriod
    due: float
    pods: set[str] = field(default_factory=set)
    over: bool = False


class Notices:
    """Tell gangs that they are to be evicted, and hear when they are ready.

    Attributes:
        standing: what gangs were told, by UID.
        loose: pods that carry a notice, and since when it stands for nothing known (seconds, monotonic).
    """

    def __init__(self, model: ClusterModel, clock: Clock, effects: CollectedEffects) -> None:
        """Start with none; `recover` reads those that pods carry."""
        self._model = model
        self._clock = clock
        self._effects = effects
        self.standing: dict[str, StandingNotice] = {}
        self.loose: dict[str, float] = {}

    def recover(self) -> None:
        """Take in what pods carry from the process before."""
        for pod in self._model.pods.values():
            self.follow(pod)

    def follow(self, pod: Pod) -> None:
        """Take in a pod that was added or changed."""
        if pod.signs.planned is not None:
            self.loose.setdefault(pod.uid, self._clock.monotonic())

    def due(  # noqa: PLR0913, PLR0917 - who is told what, and why
        self, gang: Gang, pods: Sequence[Pod], seconds: float, reason: EvictionReason, why: str, latest: float = 0.0
    ) -> float:
        """Return when pods of a gang may be evicted (seconds, monotonic), having told it so many seconds before.

        It is told that it goes after so many seconds, or after `latest` where others have more and all go together.
        What it was told before stands: asked again, or by the process after this one, it gets no second time. It is
        told again only of an earlier end.
        """
        now, due = self._clock.now().timestamp(), self._clock.monotonic() + seconds
        latest, standing = max(seconds, latest), self.standing.get(gang.uid)
        if standing is None and latest <= 0.0:
            return -math.inf
        if standing is None or (due < standing.due and not standing.over):
            period, carried = NoticePeriod.from_now(now, latest), self._carried(gang)
            if standing is None and carried is not None and carried.until <= period.until:
                period, due = carried, min(due, due - seconds + carried.until - now)
            else:
                text = f"{in_number(pods)} to be evicted in {latest:.0f} s {why}"
                self._effects.notes.append(Note(gang.ref, warning=True, reason="EvictionNotice", message=text))
            standing = self.standing[gang.uid] = StandingNotice(gang, period, due)
        self._tell(standing, pods, reason, why)
        return -math.inf if standing.over or self._is_ready(standing, now) else standing.due

    def until(self, refs: Iterable[GroupRef]) -> str:
        """Return when the last of some gangs goes at the latest (RFC 3339), "" if none of them has notice."""
        gangs = filter(None, map(self._model.gangs.get, refs))
        told = (self.standing[gang.uid].period for gang in gangs if gang.uid in self.standing)
        last = max(told, key=lambda period: period.until, default=None)
        return "" if last is None else str(last).partition("/")[2]

    def acted_on(self, gang: Gang) -> None:
        """Take in that a gang is evicted."""
        standing = self.standing.get(gang.uid)
        if standing is not None and not standing.over:
            standing.over = True
            ready = self._is_ready(standing, self._clock.now().timestamp())
            self._effects.notices_ended.append(NoticeEnd.ACKNOWLEDGED if ready else NoticeEnd.EXPIRED)

    def withdraw(self, gang: Gang, why: str) -> None:
        """Take back what a gang was told: it may stay."""
        standing = self.standing.pop(gang.uid, None)
        if standing is not None:
            if not standing.over:
                self._effects.notices_ended.append(NoticeEnd.WITHDRAWN)
            if gang.listens:
                self._take_back(standing.pods, why)

    def tidy(self, *, searching: bool) -> None:
        """Forget notices of those that have gone, and take back those that stand for nothing.

        While victims are still to be searched for gangs that wait, a notice may stand for one of these.
        """
        for uid, standing in list(self.standing.items()):
            if not any(pod.stays for pod in self._known(standing.pods)):
                del self.standing[uid]
        claimed = {uid for standing in self.standing.values() for uid in standing.pods}
        now = self._clock.monotonic()
        for uid, since in list(self.loose.items()):
            pod = self._model.pods.get(uid)
            if pod is None or pod.signs.planned is None or pod.deleting or pod.done:
                del self.loose[uid]
            elif uid in claimed or searching:
                self.loose[uid] = now
            elif now >= since + _LOOSE_SECONDS:
                self._take_back([uid], "nothing asks for its place any more")
                self.loose[uid] = now

    def next_turn(self) -> float:
        """Return when time alone asks for something (seconds, monotonic), inf for never."""
        return min(self.loose.values(), default=math.inf) + _LOOSE_SECONDS

    def _carried(self, gang: Gang) -> NoticePeriod | None:
        """Return what the gang was told by the process before this one, the first to end."""
        told = (pod.signs.planned for pod in gang.members.values() if pod.stays)
        return min((each for each in told if each is not None), key=lambda each: each.until, default=None)

    def _tell(self, standing: StandingNotice, pods: Iterable[Pod], reason: EvictionReason, why: str) -> None:
        """Write it to those pods that do not have it, if their job listens.

        Each write to a pod has kube-scheduler try all those again that Muster has refused, as any update does.
        """
        listens = standing.gang.listens
        text = f"to be evicted at {str(standing.period).partition('/')[2]}, or once acknowledged, {why}"
        for pod in pods:
            if pod.uid in standing.pods:
                continue
            standing.pods.add(pod.uid)
            known = self._model.pods.get(pod.uid)
            told = not listens or (known is not None and known.signs.planned == standing.period)
            if known is not None and not told and not standing.over:
                self._effects.notices[pod.uid] = PodNotice(known, str(standing.period), reason, text)

    def _is_ready(self, standing: StandingNotice, now: float) -> bool:
        """Tell whether a gang has acknowledged what it was told, or saved its work since."""
        saved = standing.gang.last_checkpoint(now)
        if saved is not None and saved > standing.period.given:
            return True
        return any(sign.acknowledged == standing.period for sign in standing.gang.signs)

    def _take_back(self, uids: Iterable[str], why: str) -> None:
        for pod in self._known(uids):
            if pod.stays:
                self._effects.notices[pod.uid] = PodNotice(pod, "", "Withdrawn", f"no pod is evicted: {why}")

    def _known(self, uids: Iterable[str]) -> list[Pod]:
        return [self._model.pods[uid] for uid in uids if uid in self._model.pods]
