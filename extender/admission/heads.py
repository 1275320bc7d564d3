"""What is kept for the gangs that wait for room, and when they are expected to start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from extender.admission.contender import Contender
from extender.admission.ground import PassGround
from extender.admission.keep import Keep, withhold
from extender.admission.site import Capacity, Party, Site
from extender.backfill.calendar import Calendar, Release, expected_release
from extender.backfill.gap import Profile
from extender.backfill.start import Blocked, Start, earliest_start
from extender.clock import Clock
from extender.cluster.model import ClusterModel
from extender.cluster.occupancy import Holding
from extender.cluster.whatif import WhatIf
from extender.domain.pod import Pod
from extender.placement.earmark import earmark
from extender.placement.ground import Eligible, Ground


class Heads:
    """Keep for the first that do not fit what they wait for.

    Attributes:
        most: for how many of them room is kept.
        keeps: what was kept after the last pass, first in the queue first.
    """

    def __init__(self, model: ClusterModel, clock: Clock, *, foresight: bool, most: int = 1) -> None:
        """Read what runs from `model`. With `foresight` declared runtimes say when it ends."""
        self._model = model
        self._clock = clock
        self._foresight = foresight
        self._blocked: dict[str, Blocked] = {}
        self._due: float | None = None  # when the next start should come (seconds, monotonic)
        self.most = most
        self.keeps: tuple[Keep, ...] = ()

    def settle(self, keeps: tuple[Keep, ...]) -> None:
        """Take in what is kept at the end of a pass."""
        self.keeps = keeps
        uids = {keep.gang.uid for keep in keeps}
        self._blocked = {uid: blocked for uid, blocked in self._blocked.items() if uid in uids}
        now = self._clock.now().timestamp()
        coming = [keep.start.at - now for keep in keeps if keep.start is not None and keep.start.at > now]
        self._due = self._clock.monotonic() + min(coming) if coming else None

    def pass_time(self) -> bool:
        """Have those judged anew whose start should have come: what they wait for overruns; return whether any do."""
        if self._due is None or self._clock.monotonic() < self._due:
            return False
        self._due = None
        now = self._clock.now().timestamp()
        for keep in self.keeps:
            if keep.start is not None and keep.start.at <= now:
                self._model.gangs.touch(keep.gang.uid)
        return True

    def next_turn(self) -> float | None:
        """Return when a start should come (seconds, monotonic), or None."""
        return self._due

    def head(
        self, contender: Contender, party: Party, site: Site, eligible: Eligible, ground: PassGround
    ) -> Keep | None:
        """Keep for a gang what it waits for, if waiting can help at all; what was kept before, if that is the same.

        Where enough of what runs has said for how long, that is the place that is free first, and others may use it
        until then. Otherwise it is the place of which least is still taken, beside what is being cleared for others.
        """
        gang, where = contender.gang, site.ground(party, eligible)
        before = next((keep for keep in self.keeps if keep.gang is gang), None)
        promised = None if before is None else before.start
        free = WhatIf(self._model.table, site.snapshot(Capacity.FREE).free)
        keep: Keep | None = None
        if self._foresight:
            blocked = Blocked(
                gang.uid, party.pods, where, party.demand.terms, gang.expected_duration, promised=promised
            )
            start = self._soonest(blocked, free) if self.most == 1 else self._in_turn(blocked, ground)
            keep = None if start is None else Keep(gang, contender.position, start.kept, start)
        keep = keep or self._likeliest(contender, party, free, where, ground)
        return before if keep is not None and keep.same_as(before) else keep

    def _soonest(self, blocked: Blocked, free: WhatIf) -> Start | None:
        """Return when a gang starts on what is `free`; None if nobody knows."""
        return earliest_start(
            blocked.pods, free, blocked.ground, blocked.terms, self._calendar(), promised=blocked.promised
        )

    def _in_turn(self, blocked: Blocked, ground: PassGround) -> Start | None:
        """Return when a gang starts beside all others that have a start, none of which it may delay; None if unknown.

        Those behind it are the last pass's: what they were promised then stands.
        """
        self._blocked[blocked.name] = blocked
        ahead = [keep.gang.uid for keep in ground.heads]
        others = {keep.gang.uid: keep for keep in (*ground.heads, *self.keeps) if keep.gang.unplaced_count}
        line = [*ahead, blocked.name, *(uid for uid in others if uid not in ahead and uid != blocked.name)]
        told = [
            blocked if uid == blocked.name else replace(self._blocked[uid], promised=others[uid].start)
            for uid in line
            if uid == blocked.name or (uid in self._blocked and uid in others)
        ]
        free = WhatIf(self._model.table)
        undated = (keep for keep in ground.heads if keep.start is None)
        for keep in (*ground.firm.values(), *undated):
            withhold(free.free, keep.kept)
        return Profile(told, free, self._calendar()).starts.get(blocked.name)

    def _likeliest(
        self, contender: Contender, party: Party, free: WhatIf, where: Ground, ground: PassGround
    ) -> Keep | None:
        """Keep the place of which least is taken, for one gang at most: nobody knows when that will be free."""
        if any(keep.start is None for keep in ground.heads):
            return None
        later = WhatIf(self._model.table, self._model.table.potential(), Holding.LASTING)
        for keep in ground.firm.values():
            withhold(later.free, keep.kept)
        kept = earmark(party.pods, free, later, where, party.demand.terms)
        return None if kept is None else Keep(contender.gang, contender.position, kept)

    def _calendar(self) -> Calendar:
        now = self._clock.now().timestamp()
        return Calendar(self._releases(now), now)

    def _releases(self, now: float) -> Iterator[Release]:
        """Iterate over what is expected to end."""
        for gang in self._model.gangs:
            if gang.unplaced_count < len(gang.members) and self._model.concerns(gang):
                uids = [pod.uid for pod in gang.members.values() if self._model.table.claim_of(pod.uid) is not None]
                release = expected_release(str(gang.ref), uids, gang.started_at, gang.expected_duration, now)
                if uids and release is not None:
                    yield release
        for pod in self._model.pods.values():
            if pod.group is None and pod.bound and (duration := declared(pod)) is not None:
                release = expected_release(pod.key, (pod.uid,), pod.started_at, duration, now)
                if release is not None:
                    yield release


def declared(pod: Pod) -> float | None:
    """Return how long a pod without gang says that it runs (seconds), None if it does not say."""
    return pod.options.expected_duration if pod.options.expected_duration is not None else pod.active_deadline
