"""Preemption: search victims for gangs that do not fit, as often as that can help and costs little."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import islice
from math import inf
from typing import Final, NamedTuple

from extender.clock import Clock
from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel
from extender.eviction.pending import PATIENCE_SECONDS, PendingEvictions
from extender.eviction.policies import Claimant, Policies, QuotaRights
from extender.eviction.search.search import FoundPreemption, search
from extender.eviction.search.units import Victim
from extender.judge import Case
from extender.objects.budget import Budgets
from extender.queues.sharing import NAMELESS, Option, Sharing

#: How long a gang for which no other can be evicted waits before the next search (seconds), doubled each time: a
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
    """How long no victim is searched for, and until when (seconds, monotonic)."""

    seconds: float
    until: float


class Preemptions:
    """Find victims for gangs that do not fit, and have their place cleared."""

    def __init__(
        self, model: ClusterModel, sharing: Sharing, budgets: Budgets, pending_evictions: PendingEvictions, clock: Clock
    ) -> None:
        """Look among those that hold nodes in `model`; their places are for `pending_evictions` to clear."""
        self._model = model
        self._sharing = sharing
        self._budgets = budgets
        self._budgets_seen = budgets.version
        self._pending_evictions = pending_evictions
        self._clock = clock
        self._policies = Policies(model, sharing)
        self._wanting: dict[str, None] = {}  # gangs without a search because others had theirs
        self._resting_until = 0.0
        self._paused: dict[str, float] = {}  # until when no victim is searched for
        self._pauses: dict[str, dict[str, _Pause]] = {}  # of that, in one flavor, because no victim was found there
        self._due: dict[str, float] = {}  # when it is to be evaluated again
        self._searches = 0
        self._hopeless: set[Hashable] = set()  # kinds of claimants for which no gang may be evicted, in this pass

    @property
    def _is_clearing(self) -> bool:
        """Tell whether any place is being cleared, or kept for those that have left one, or any gang has notice."""
        pending, notices = self._pending_evictions, self._pending_evictions.notices
        clearing = pending.under_way or pending.moved.places or pending.on_the_way.spared
        return bool(clearing or notices.standing or notices.loose)

    def begin_pass(self) -> None:
        """Begin a pass; if the budgets have changed, gangs may be evicted now that might not before."""
        if self._budgets_seen != self._budgets.version:
            self._budgets_seen = self._budgets.version
            for uid in dict.fromkeys([*self._paused, *self._pauses]):
                self._model.gangs.touch(uid)
            self._paused.clear()
            self._pauses.clear()
        self._searches = 0
        self._hopeless.clear()
        if self._is_clearing:
            for uid in self._pending_evictions.begin_pass():
                self._paused[uid] = self._clock.monotonic() + PATIENCE_SECONDS
        if self._sharing.draining or self._pending_evictions.to_drain:
            self._pending_evictions.drain()
        if self._pending_evictions.notices.standing or self._pending_evictions.notices.loose:
            self._pending_evictions.notices.tidy(searching=bool(self._wanting))

    def placed(self, gang: Gang) -> None:
        """Take in that a gang has been placed: evictions that were not sent yet are cancelled."""
        if gang.uid in self._pending_evictions.under_way:
            self._pending_evictions.placed(gang)
        self.forget(gang.uid)

    def forget(self, uid: str) -> None:
        """Forget a gang that is gone, or that waits no more."""
        evictions = self._pending_evictions
        for remembered in (self._paused, self._pauses, self._due, self._wanting, evictions.told, evictions.not_cleared):
            remembered.pop(uid, None)
        evictions.in_vain.discard(uid)

    def refused(self, uid: str, why: str) -> None:
        """Take in that the API server refuses to evict a pod; the place it stands in is given up."""
        for gang_uid in self._pending_evictions.refused(uid, why):
            self._paused[gang_uid] = self._clock.monotonic() + _REFUSED_PAUSE_SECONDS

    def may_help(self, gang: Gang, queue: str) -> bool:
        """Tell whether anyone might be evicted, or is, for members beyond the minimum of a gang that has started."""
        return gang.uid in self._pending_evictions.under_way or self._policies.may_help(gang, queue)

    def is_in_vain(self, case: Case, option: Option) -> bool:
        """Tell whether no gang may be evicted in this pass for those that ask for the same as one that waits."""
        return case.gang.never_preempts or _kind(case, option, grows=False) in self._hopeless

    def attempt(self, case: Case, option: Option, larger: Iterable[Case] | None = None) -> bool:
        """Look for gangs to evict so that one is placed in a flavor; return whether a place is being cleared now.

        Where so much has been searched that others have to wait, it is evaluated again as soon as there is time. Of a
        gang that has started `larger` are cases with more of its members, else None. Once victims are found, they are
        looked for with one of these after the other, until there are none.
        """
        gang, kind = case.gang, _kind(case, option, grows=larger is not None)
        if kind in self._hopeless:
            return False
        if self._searches >= _MOST_SEARCHES or self._clock.monotonic() < self._resting_until:
            self._wanting[gang.uid] = None
            return False
        now = self._clock.monotonic()
        if gang.never_preempts:
            return False
        claimant = Claimant.of(case, option, kind)
        pause = self._pauses.get(gang.uid, {}).get(claimant.flavor, _Pause(0.0, now))
        until = max(self._paused.get(gang.uid, now), pause.until, self._pending_evictions.waits_until(gang))
        if now < until:
            self.look_at(gang.uid, until)  # something has changed meanwhile
            return False
        self._wanting.pop(gang.uid, None)
        epoch = self._clock.now().timestamp()
        victims, later = self._policies.victims(claimant, self._pending_evictions.spares, epoch)
        if later is not None:
            self.look_at(gang.uid, now + later - epoch)
        if not victims and not self._model.leaving:
            if later is None and not self._policies.by_age(claimant):
                self._hopeless.add(kind)
            return False
        self._searches += 1
        leaving = self._leaving_pods()
        found = find_evictions(case, option, claimant, victims, leaving, sharing=self._sharing, budgets=self._budgets)
        if found is not None:
            case, claimant, found = self._with_more(case, claimant, found, option, larger or ())
        took = self._clock.monotonic() - now
        self._resting_until = now + took + took * _REST_PER_SEARCH
        if found is None:
            seconds = min(max(2 * pause.seconds, _SEARCH_PAUSE_SECONDS), _LONGEST_SEARCH_PAUSE_SECONDS)
            self._pauses.setdefault(gang.uid, {})[claimant.flavor] = _Pause(seconds, now + seconds)
            return False
        self._begin(case, option, claimant, found, leaving)
        return True

    def _with_more(
        self, case: Case, claimant: Claimant, found: FoundPreemption, option: Option, larger: Iterable[Case]
    ) -> tuple[Case, Claimant, FoundPreemption]:
        """Return the largest case for which others may be evicted, looked for in turn, and what is found for it."""
        now, leaving = self._clock.now().timestamp(), self._leaving_pods()
        for each in larger:
            asking = Claimant.of(each, option, claimant.kind)
            victims, _ = self._policies.victims(asking, self._pending_evictions.spares, now)
            more = find_evictions(each, option, asking, victims, leaving, sharing=self._sharing, budgets=self._budgets)
            if more is None:
                break
            case, claimant, found = each, asking, more
        return case, claimant, found

    def puts_off(self, uid: str) -> bool:
        """Tell whether no victims were looked for, for a gang, because others had their search."""
        return uid in self._wanting

    def next_turn(self) -> float | None:
        """Return when time alone asks for something, of evictions under way as well (seconds, monotonic), or None."""
        times = list(self._due.values())
        if self._wanting:
            times.append(self._resting_until)
        if self._is_clearing:
            times.append(self._pending_evictions.next_turn())
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
        turn = self._pending_evictions.next_turn() if self._is_clearing else inf
        return bool(ended) or turn <= now

    def look_at(self, uid: str, at: float) -> None:
        """Have a gang judged again at some time (seconds, monotonic), or before."""
        self._due[uid] = min(at, self._due.get(uid, at))

    def _leaving_pods(self) -> list[str]:
        """Return the UIDs of pods whose place will be free: those that are being deleted, or evicted for others.

        What is kept for these others is not to be cleared a second time.
        """
        return list(dict.fromkeys([*self._model.leaving, *self._pending_evictions.leaving()]))

    def _begin(
        self, case: Case, option: Option, claimant: Claimant, found: FoundPreemption, leaving: Sequence[str]
    ) -> None:
        """Have the place cleared, with the notice that victims get."""
        rights = QuotaRights(self._sharing, claimant)
        reasons = {each.victim.uid: rights.reason(each.victim) for each in found.evictions}
        nodes = frozenset(found.plan.nodes.values())
        there = [uid for uid in leaving if self._model.pods[uid].node_name in nodes]
        evicted = [pod.uid for each in found.evictions for pod in each.pods]
        if case.offer(option, evicted).shortage is not None:  # it takes the quota of others that are leaving as well
            there += filter(rights.concern, leaving)
        self._pending_evictions.start(claimant, found, reasons, leaving=there, replaced=case.replaced)


def _kind(case: Case, option: Option, *, grows: bool) -> Hashable:
    """Return what is the same in gangs for which the same gangs may be evicted, their ages aside."""
    wanted = None if case.queue == NAMELESS else case.pod_set.demand  # what it may reclaim depends on that
    return case.queue, option.flavor, case.gang.priority, grows, wanted


def find_evictions(  # noqa: PLR0913 - whose evictions, for whom, and by which rules
    case: Case,
    option: Option,
    claimant: Claimant,
    victims: Sequence[Victim],
    leaving: Sequence[str] = (),
    *,
    sharing: Sharing,
    budgets: Budgets,
) -> FoundPreemption | None:
    """Find evictions after which a gang is placed in one flavor, such that no queue loses more than it has borrowed.

    What others have borrowed is reclaimed before any gang of its own queue is preempted; both happen together only
    where neither alone is enough. Pods with the UIDs `leaving` leave anyway.
    """
    rights = QuotaRights(sharing, claimant, leaving, victims)
    lent = [victim for victim in victims if victim.queue != claimant.queue]
    own = [victim for victim in victims if victim.queue == claimant.queue]
    for some in (lent, own, [*lent, *own]) if lent and own else (victims,):
        found = search(case, option, some, budgets, leaving, rights)
        if found is None and (kept := rights.rightful(some)) != list(some):
            found = search(case, option, kept, budgets, leaving, rights)
        if found is not None:
            return found
    return None
