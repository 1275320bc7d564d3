"""What is kept for the gangs that wait for room, and when they are expected to start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from weakref import WeakKeyDictionary

from extender.admission.cycle import Cycle
from extender.clock import Clock
from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel
from extender.cluster.occupancy import HoldingScope
from extender.cluster.whatif import WhatIf
from extender.judge import Case
from extender.ledger.earmark import Earmark
from extender.objects.pod import Pod
from extender.objects.podgroup import POD, GroupRef
from extender.placement.backfill.outlook import Calendar, Release, expected_release
from extender.placement.backfill.start import Blocked, Start, earliest_start
from extender.placement.candidates import Candidates
from extender.placement.capacityview import Capacity, CapacityView, PodSet, PodSetRequest
from extender.placement.earmark import CapacityProfile, earmark
from extender.queues.order import Position


class HeadEarmarks:
    """Keep for the first that do not fit what they wait for.

    Attributes:
        most: for how many of them room is kept.
        keeps: what was kept after the last pass, first in the queue first.
        timed: gangs that declare for how long they run.
        due: when the next of their starts should come (seconds, monotonic), None if none is known.
    """

    def __init__(
        self,
        model: ClusterModel,
        clock: Clock,
        *,
        foresight: bool,
        most: int = 1,
        releases: Callable[[float], Iterable[Release]] | None = None,
    ) -> None:
        """Read what runs from `model`. With `foresight` declared runtimes say when it ends.

        What `releases` returns at a time (epoch seconds) stands for what runs, if it is not None.
        """
        self._model = model
        self._clock = clock
        self._foresight = foresight
        self._told_releases = releases
        self.timed: dict[GroupRef, Gang] = {}
        self._blocked: dict[str, Blocked] = {}
        self._ends: tuple[Cycle | None, int, Calendar] = (None, -1, Calendar((), 0.0))  # of which state
        # Which demands keep nothing on a view, in one cycle, at one generation, beside what is kept for one gang alone.
        self._vain: WeakKeyDictionary[CapacityView, set[PodSetRequest]] = WeakKeyDictionary()
        self._vain_in: tuple[Cycle | None, int, Mapping[str, Earmark]] = (None, -1, {})
        self.most = most
        self.keeps: tuple[Earmark, ...] = ()
        self.due: float | None = None

    def follow(self, gang: Gang) -> None:
        """Take in a gang that has changed."""
        if gang.expected_duration is not None:
            self.timed[gang.ref] = gang
        else:
            self.forget(gang.ref)

    def forget(self, ref: GroupRef) -> None:
        """Forget a gang that is gone."""
        self.timed.pop(ref, None)

    def settle(self, keeps: tuple[Earmark, ...]) -> None:
        """Take in what is kept at the end of a pass."""
        self.keeps = keeps
        now = self._clock.now().timestamp()
        coming = [keep.start.at - now for keep in keeps if keep.start is not None and keep.start.at > now]
        self.due = self._clock.monotonic() + min(coming) if coming else None

    def pass_time(self) -> bool:
        """Have those evaluated again whose start is overdue: what they wait for overruns; return whether any do."""
        if self.due is None or self._clock.monotonic() < self.due:
            return False
        self.due = None
        now = self._clock.now().timestamp()
        for keep in self.keeps:
            if keep.start is not None and keep.start.at <= now:
                self._model.gangs.touch(keep.gang.uid)
        return True

    def may_differ(self, gang: Gang, cycle: Cycle) -> bool:
        """Tell whether room may be kept for others that ask for the same, where none is for a gang."""
        return len(cycle.heads) < self.most and (self.most > 1 or any(keep.gang is gang for keep in self.keeps))

    def stands(self, keep: Earmark) -> bool:
        """Tell whether a place stands as long as nothing is given back: its nodes have what is kept when others end."""
        return self.most == 1 and bool(
            (self._model.table.potential()[: len(keep.kept), keep.rows] >= keep.kept[:, keep.rows]).all()
        )

    def head(self, position: Position, case: Case, view: CapacityView, cycle: Cycle) -> Earmark | None:
        """Keep for a gang what it waits for, if waiting can help at all; what was kept before, if that is the same.

        Where enough of what runs has said for how long, that is the place that is free first, and others may use it
        until then. Otherwise it is the place of which least is still taken, beside what is being cleared for others.
        """
        gang, pod_set, where = case.gang, case.pod_set, view.candidates(case.pod_set, case.eligible(view))
        before = next((keep for keep in self.keeps if keep.gang is gang), None)
        vain = self._in_vain(view, cycle)
        # Of equal demands that keep nothing one is tried: there may be thousands behind it.
        alike = before is None and case.eligible(view) is view.admitted and not pod_set.settled and self.most == 1
        if alike and pod_set.demand in vain:
            return None
        promised = None if before is None else before.start
        free = WhatIf(self._model.table, view.snapshot(Capacity.FREE).free)
        keep: Earmark | None = None
        if self._foresight:
            blocked = Blocked(
                gang.uid, pod_set.pods, where, pod_set.demand.terms, gang.expected_duration, promised=promised
            )
            start = self._soonest(blocked, free, cycle) if self.most == 1 else self._in_turn(blocked, cycle)
            keep = None if start is None else Earmark(gang, position, start.kept, start)
        keep = keep or self._likeliest(position, pod_set, free, where, cycle)
        if alike and keep is None:
            vain.add(pod_set.demand)
        return before if keep is not None and keep.same_as(before) else keep

    def _in_vain(self, view: CapacityView, cycle: Cycle) -> set[PodSetRequest]:
        """Return which demands are known to keep nothing on a view, which follows claims and outlives a cycle."""
        known, generation, firm = self._vain_in
        if known is not cycle or generation != self._model.table.generation or firm is not cycle.firm:
            self._vain.clear()
            self._vain_in = cycle, self._model.table.generation, cycle.firm
        return self._vain.setdefault(view, set())

    def _soonest(self, blocked: Blocked, free: WhatIf, cycle: Cycle) -> Start | None:
        """Return when a gang starts on what is `free`; None if that is not known."""
        return earliest_start(
            blocked.pods, free, blocked.candidates, blocked.terms, self._calendar(cycle), promised=blocked.promised
        )

    def _in_turn(self, blocked: Blocked, cycle: Cycle) -> Start | None:
        """Return when a gang starts beside all others that have a start, none of which it may delay; None if unknown.

        Those behind it are the last pass's: what they were promised then stands.
        """
        ahead = [keep.gang.uid for keep in cycle.heads]
        others = {keep.gang.uid: keep for keep in (*cycle.heads, *self.keeps) if keep.gang.unplaced_count}
        self._blocked = {uid: known for uid, known in self._blocked.items() if uid in others}
        self._blocked[blocked.name] = blocked
        line = [*ahead, blocked.name, *(uid for uid in others if uid not in ahead and uid != blocked.name)]
        told = [
            blocked if uid == blocked.name else replace(self._blocked[uid], promised=others[uid].start)
            for uid in line
            if uid == blocked.name or (uid in self._blocked and uid in others)
        ]
        free = WhatIf(self._model.table)
        undated = (keep for keep in cycle.heads if keep.start is None)
        for keep in (*cycle.firm.values(), *cycle.spares, *undated):
            free.withhold(keep.kept)
        return CapacityProfile(told, free, self._calendar(cycle)).starts.get(blocked.name)

    def _likeliest(
        self, position: Position, pod_set: PodSet, free: WhatIf, where: Candidates, cycle: Cycle
    ) -> Earmark | None:
        """Keep the place of which least is taken, for one gang at most: it is not known when that will be free."""
        if any(keep.start is None for keep in cycle.heads):
            return None
        later = WhatIf(self._model.table, self._model.table.potential(), HoldingScope.LASTING)
        for keep in (*cycle.firm.values(), *cycle.spares):
            later.withhold(keep.kept)
        kept = earmark(pod_set.pods, free, later, where, pod_set.demand.terms)
        return None if kept is None else Earmark(pod_set.gang, position, kept)

    def _calendar(self, cycle: Cycle) -> Calendar:
        """Return what is expected to end; worked out once for a state. Complexity: O(gangs and pods that say when)."""
        state, generation = self._ends[:2], self._model.table.generation
        if state != (cycle, generation):
            now = self._clock.now().timestamp()
            self._ends = cycle, generation, Calendar((self._told_releases or self._releases)(now), now)
        return self._ends[2]

    def _releases(self, now: float) -> Iterator[Release]:
        """Iterate over what is expected to end."""
        for gang in self.timed.values():
            duration = gang.expected_duration if gang.unplaced_count < len(gang.members) else None
            if duration is not None and self._model.concerns(gang):
                uids = [pod.uid for pod in gang.members.values() if self._model.table.claim_of(pod.uid) is not None]
                if uids:
                    yield expected_release(str(gang.ref), uids, gang.started_at, duration, now)
        for pod in self._model.timed.values():
            if pod.group.api != POD or self._model.manages(pod):
                continue
            if (duration := declared(pod)) is not None:
                yield expected_release(pod.key, (pod.uid,), pod.started_at, duration, now)


def declared(pod: Pod) -> float | None:
    """Return how long a pod of another scheduler says that it runs (seconds), None if it does not say."""
    return pod.options.expected_duration if pod.options.expected_duration is not None else pod.active_deadline
