"""Preemption: whom a gang may have evicted, looked for as often as that can help and costs little."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from extender.admission.budgets import Budgets
from extender.admission.charges import Holder
from extender.admission.clearances import PATIENCE_SECONDS, Clearances
from extender.admission.effects import EvictionReason
from extender.admission.quotarights import QuotaRights
from extender.admission.sharing import Sharing
from extender.admission.site import Party
from extender.admission.victims import Claimant, Policies
from extender.clock import Clock
from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel
from extender.cluster.whatif import WhatIf
from extender.placement.ground import Ground
from extender.preemption.search import Preemption, search
from extender.preemption.victim import Victim

#: How long a gang for which nobody can be evicted waits before it is looked at again (seconds), doubled each time: a
#: search costs milliseconds, and whenever anything changes in a full cluster all that wait would ask for one.
_SEARCH_PAUSE_SECONDS: Final = 1.0
_LONGEST_SEARCH_PAUSE_SECONDS: Final = 30.0

#: The same after the API server has refused an eviction (seconds).
_REFUSED_PAUSE_SECONDS: Final = 60.0

#: Searches of one pass at most: what is found changes what the next would find, and others wait for an answer. After
#: each there is none for so many times as long as it took.
_MOST_SEARCHES: Final = 4
_REST_PER_SEARCH: Final = 4.0


class _Pause(NamedTuple):
    """How long nobody is looked for, and until when (seconds, monotonic)."""

    seconds: float
    until: float


class Preemptions:
    """Find victims for gangs that do not fit, and have their place cleared.

    Attributes:
        hopeless: kinds of claimants for whom nobody may be evicted, found out in this pass.
    """

    def __init__(
        self, model: ClusterModel, sharing: Sharing, budgets: Budgets, clearances: Clearances, clock: Clock
    ) -> None:
        """Look among those that hold nodes in `model`; their places are for `clearances` to clear."""
        self._model = model
        self._sharing = sharing
        self._budgets = budgets
        self._clearances = clearances
        self._clock = clock
        self._policies = Policies(model, sharing)
        self._wanting: dict[str, None] = {}  # who was not looked for because others were
        self._resting_until = 0.0
        self._paused: dict[str, float] = {}  # until when nobody is looked for
        self._pauses: dict[str, dict[str, _Pause]] = {}  # of that, in one flavor, because nobody was found there
        self._due: dict[str, float] = {}  # when it is to be judged again
        self._leaving: list[str] | None = None
        self._searches = 0
        self.hopeless: set[Hashable] = set()

    def begin_pass(self) -> None:
        """Begin a pass."""
        self._searches, self._leaving = 0, None
        self.hopeless.clear()
        for uid in self._clearances.begin_pass():
            self._paused[uid] = self._clock.monotonic() + PATIENCE_SECONDS

    def placed(self, gang: Gang) -> None:
        """Take in that a gang has been placed: if nobody was evicted yet, nobody needs to be."""
        self._clearances.placed(gang)
        self.forget(gang.uid)

    def forget(self, uid: str) -> None:
        """Forget a gang that is gone, or that waits no more."""
        for remembered in (self._paused, self._pauses, self._due, self._wanting, self._clearances.told):
            remembered.pop(uid, None)

    def refused(self, uid: str, why: str) -> None:
        """Take in that the API server refuses to evict a pod; the place it stands in is given up."""
        for gang_uid in self._clearances.refused(uid, why):
            self._paused[gang_uid] = self._clock.monotonic() + _REFUSED_PAUSE_SECONDS

    def look_again(self) -> None:
        """Take in that somebody may be evicted now who might not before."""
        for uid in dict.fromkeys([*self._paused, *self._pauses]):
            self._model.gangs.touch(uid)
        self._paused.clear()
        self._pauses.clear()

    @property
    def is_busy(self) -> bool:
        """Tell whether so much has been searched that others have to wait."""
        return self._searches >= _MOST_SEARCHES or self._clock.monotonic() < self._resting_until

    def want(self, uid: str) -> None:
        """Have a gang judged again as soon as there is time for a search."""
        self._wanting[uid] = None

    def attempt(self, party: Party, claimant: Claimant, free: Callable[[], WhatIf], ground: Ground) -> bool:
        """Look for whom the party could have evicted; return whether a place is being cleared now.

        `free` says what is free beside what is kept for others.
        """
        gang, now = claimant.gang, self._clock.monotonic()
        if gang.never_preempts:
            return False
        pause = self._pauses.get(gang.uid, {}).get(claimant.flavor, _Pause(0.0, now))
        until = max(self._paused.get(gang.uid, now), pause.until, self._clearances.waits_until(gang))
        if now < until:
            self._look_at(gang.uid, until)  # something has changed meanwhile
            return False
        self._wanting.pop(gang.uid, None)
        epoch = self._clock.now().timestamp()
        victims, later = self._policies.victims(claimant, self._is_spared, epoch)
        if later is not None:
            self._look_at(gang.uid, now + later - epoch)
        leaving = self._leaving_pods()
        if not victims and not leaving:
            if later is None and not self._policies.by_age(claimant):
                self.hopeless.add(claimant.kind)
            return False
        self._searches += 1
        room = free()
        room.vacate(leaving)
        quota = QuotaRights(self._sharing, claimant, leaving)
        found = self._search(party, quota, room, ground, victims)
        took = self._clock.monotonic() - now
        self._resting_until = now + took + took * _REST_PER_SEARCH
        if found is None:
            seconds = min(max(2 * pause.seconds, _SEARCH_PAUSE_SECONDS), _LONGEST_SEARCH_PAUSE_SECONDS)
            self._pauses.setdefault(gang.uid, {})[claimant.flavor] = _Pause(seconds, now + seconds)
            return False
        self._begin(claimant, found, leaving)
        return True

    def next_turn(self) -> float | None:
        """Return when time alone asks for something (seconds, monotonic), or None."""
        times = list(self._due.values())
        if self._wanting:
            times.append(self._resting_until)
        return min(times, default=None)

    def pass_time(self) -> bool:
        """Take in what time alone has changed; return whether a pass is due for it."""
        now = self._clock.monotonic()
        ended = [uid for uid, at in self._due.items() if at <= now]
        if now >= self._resting_until:
            ended += islice(self._wanting, _MOST_SEARCHES)
        for uid in ended:
            self._due.pop(uid, None)
            self._wanting.pop(uid, None)
            self._model.gangs.touch(uid)
        turn = self._clearances.next_turn()
        return bool(ended) or (turn is not None and turn <= now)

    def _look_at(self, uid: str, at: float) -> None:
        """Have a gang judged again at some time (seconds, monotonic), or before."""
        self._due[uid] = min(at, self._due.get(uid, at))

    def _is_spared(self, holder: Holder, *, reclaimed: bool) -> bool:
        """Tell whether a gang, or a pod, is not to be evicted: it is leaving, or cost others their place just now."""
        return self._clearances.is_leaving(holder) or (not reclaimed and self._clearances.is_sheltered(holder))

    def _leaving_pods(self) -> list[str]:
        """Return the UIDs of pods that are being deleted and still hold something: their place will be free."""
        if self._leaving is None:
            self._leaving = [pod.uid for pod in self._model.pods.values() if pod.deleting and pod.bound]
        return self._leaving

    def _search(
        self,
        party: Party,
        quota: QuotaRights,
        free: WhatIf,
        ground: Ground,
        victims: Sequence[Victim],
    ) -> Preemption | None:
        """Search; of a queue from which more was taken than it has borrowed, only who goes first is offered again."""
        terms = party.demand.terms
        found = search(party.pods, free, ground, terms, victims, quota, self._budgets)
        if found is None or quota.is_rightful(found.evictions):
            return found
        few = quota.rightful(victims)
        return search(party.pods, free, ground, terms, few, quota, self._budgets)

    def _begin(self, claimant: Claimant, found: Preemption, leaving: Sequence[str]) -> None:
        """Have the place cleared, with the notice that the victims' queues give them."""
        reasons, notice = {}, 0.0
        for eviction in found.evictions:
            reclaims = self._policies.is_reclaim(claimant, eviction.victim)
            reasons[eviction.victim.uid] = EvictionReason.RECLAIMED if reclaims else EvictionReason.PREEMPTED
            notice = max(notice, self._policies.notice(eviction.victim.queue))
        nodes = frozenset(found.plan.nodes.values())
        there = [uid for uid in leaving if self._model.pods[uid].node_name in nodes]
        rights, evicted = QuotaRights(self._sharing, claimant), [(each.victim, each.pods) for each in found.evictions]
        if not rights.allows(evicted):  # it takes the quota of others that are leaving as well
            there += filter(rights.concern, leaving)
        self._clearances.start(claimant, found, reasons, notice=notice, leaving=there)
