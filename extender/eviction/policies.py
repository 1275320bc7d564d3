"""Which gangs may be evicted for which: what policies, quota of their queues and PodDisruptionBudgets allow."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from heapq import heapify, heappop, heappush
from typing import Final, Protocol

from extender.cluster.gangs import Gang, member_order, shed, split
from extender.cluster.model import ClusterModel
from extender.eviction.search.units import Piece, Victim, VictimEviction
from extender.judge import Case
from extender.ledger.effects import EvictionReason
from extender.objects.meta import read_timestamp
from extender.objects.podgroup import GroupRef
from extender.objects.queue import BorrowWithin, FairSharingStrategy, PreemptionPolicy, WithinQueue
from extender.queues.sharing import NAMELESS, Option, Sharing
from extender.queues.tree import reclaimable

#: When a gang that is just being placed is looked at again as a victim (seconds): before it is bound it cannot leave.
_SETTLING_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Claimant:
    """A gang that others may have to leave for: what it asks for in one flavor of its queue.

    Claimants of one `kind` may have the same evicted, unless age decides. `raised` is a priority to ask for instead of
    the gang's own. What is `lasting` could not be evicted once it is placed. One that `repairs` asks for what members
    on lost nodes had.
    """

    gang: Gang
    queue: str
    flavor: str
    amounts: Mapping[str, int]
    kind: Hashable
    raised: int | None = None
    lasting: bool = False
    repairs: bool = False

    @classmethod
    def of(cls, case: Case, option: Option, kind: Hashable = None, raised: int | None = None) -> Claimant:
        """Return the claimant that the gang of a case is in one flavor."""
        lasting = case.quota is not None and bool(case.quota.fixed)
        repairs = bool(case.replaced)
        return cls(case.gang, case.queue, option.flavor, case.pod_set.amounts, kind, raised, lasting, repairs)

    @property
    def priority(self) -> int:
        """Return the priority that it has, or would have."""
        return self.gang.priority if self.raised is None else self.raised

    @property
    def has_started(self) -> bool:
        """Tell whether it asks for members beyond its minimum, which takes less from others than a start does.

        Of its own queue only such members leave for those, of a lower priority; others give back what they have
        borrowed of its queue's nominal quota.
        """
        return self.gang.has_minimum and not self.repairs


class Spared(Protocol):
    """Say whether a holder is not to be evicted, whether quota is `reclaimed` from it or not."""

    def __call__(self, holder: GroupRef, *, reclaimed: bool) -> bool:
        """Tell whether it is spared."""


class Policies:
    """Say which gangs may be evicted for a gang: by rank in its own queue, by right of quota in others of its tree."""

    def __init__(
        self, model: ClusterModel, sharing: Sharing, gang_of: Callable[[GroupRef], Gang | None] | None = None
    ) -> None:
        """Read who holds what from `sharing`, and of gangs what `gang_of` returns, else those of `model`."""
        self._model = model
        self._gang_of = gang_of or model.gangs.get
        self._sharing = sharing
        self._seen: tuple[tuple[int, float], dict[GroupRef, Victim | None]] = ((-1, 0.0), {})

    def victims(self, claimant: Claimant, spared: Spared, now: float) -> tuple[list[Victim], float | None]:
        """Return who may be evicted, and when (epoch seconds) the first of those may who may not yet.

        `spared` are those that are evicted already, or must not be preempted.
        """
        patience = self._patience(claimant, now)
        victims, later = [], now + patience if 0.0 < patience < math.inf else None
        for found in self.each(claimant, spared, now):
            if isinstance(found, Victim):
                victims.append(found)
            else:
                later = _earlier(later, found)
        return victims, later

    def each(self, claimant: Claimant, spared: Spared, now: float) -> Iterator[Victim | float]:
        """Yield who may be evicted, and when (epoch seconds) one may who may not yet: those of its own queue last."""
        outranks = self._in_own_queue(claimant)
        ours = () if outranks is None else self._holding(claimant, claimant.queue, outranks, spared, now)
        if claimant.queue == NAMELESS:  # it has lent nothing: of thousands, only as many are looked at as are asked for
            yield from ours
            return
        own = list(ours)
        below = [pod.uid for each in own if isinstance(each, Victim) for pod in (*each.core, *each.extras)]
        for queue, gives_way in self._lent(claimant, below, now):
            yield from self._holding(claimant, queue, gives_way, spared, now)
        yield from own

    def _holding(
        self, claimant: Claimant, queue: str, gives_way: Callable[[Gang], bool], spared: Spared, now: float
    ) -> Iterator[Victim | float]:
        """Yield who may be evicted of a queue of those that give way, and when one may who may not yet."""
        shield = self._preemption(queue).min_runtime
        for holder, uids in self._sharing.charges.holders(queue).items():
            if holder == claimant.gang.ref or spared(holder, reclaimed=queue != claimant.queue):
                continue
            gang = self._gang_of(holder)
            if gang is None or not (gang.preemptible or gang.spare) or not gives_way(gang):
                continue
            victim = self._known(holder, queue, uids, now)
            if victim is None:
                if self._is_settling(uids):
                    yield now + _SETTLING_SECONDS
            elif victim.seconds < shield:
                yield now + shield - victim.seconds
            elif (leaving := _as_far_as(victim, claimant)) is not None:
                yield leaving

    def all_victims(self, spared: Callable[[GroupRef], bool], now: float) -> list[Victim]:
        """Return all that may be evicted at all, in any queue and for any gang."""
        tree, charges = self._sharing.tree, self._sharing.charges
        names = (name for name in charges.held() if name == NAMELESS or name in tree)
        holders = ((queue, *each) for queue in names for each in charges.holders(queue).items())
        found = (self._known(holder, queue, uids, now) for queue, holder, uids in holders if not spared(holder))
        return [victim for victim in found if victim is not None]

    def may_help(self, gang: Gang, queue: str) -> bool:
        """Tell whether anyone might be evicted for members beyond the minimum of a gang that has started; O(queues)."""
        if gang.never_preempts or not gang.has_minimum:
            return False
        charges = self._sharing.charges
        lowest = charges.lowest_priority(queue)
        beside = () if queue == NAMELESS else self._sharing.tree.charged_beside(queue)
        return (lowest is not None and lowest < gang.priority) or any(other != queue for other in beside)

    def by_age(self, claimant: Claimant) -> bool:
        """Tell whether a gang's age, and not only its priority, decides which gangs may be evicted for it."""
        return self._preemption(claimant.queue).within_queue is WithinQueue.LOWER_OR_NEWER

    def _patience(self, claimant: Claimant, now: float) -> float:
        """Return how long a gang has still to wait before others leave so that shares even out, inf if none ever do."""
        policy = self._preemption(claimant.queue)
        if policy.fair_sharing is FairSharingStrategy.NEVER:
            return math.inf
        created = (read_timestamp(pod.created) for pod in claimant.gang.members.values() if not pod.bound)
        return policy.fair_sharing_delay - now + min((moment for moment in created if moment is not None), default=now)

    def _in_own_queue(self, claimant: Claimant) -> Callable[[Gang], bool] | None:
        """Return which gangs of its own queue give way to a claimant; None if none of those that are there do."""
        policy, own, created = self._preemption(claimant.queue), claimant.priority, claimant.gang.created
        newer = policy.within_queue is WithinQueue.LOWER_OR_NEWER and not claimant.has_started
        lowest = self._sharing.charges.lowest_priority(claimant.queue)
        if policy.within_queue is WithinQueue.NEVER or lowest is None or lowest >= own + newer:
            return None
        return lambda holder: _is_below(holder, own, created, newer=newer)

    def _lent(
        self, claimant: Claimant, below: Iterable[str], now: float
    ) -> Iterator[tuple[str, Callable[[Gang], bool]]]:
        """Iterate over the other queues that have borrowed, once the pods `below` have left, and who gives way.

        A queue that has borrowed only for a gang whose place is being cleared is left out: none of its gangs that run
        leaves for that one.
        """
        tree, name, charges = self._sharing.tree, claimant.queue, self._sharing.charges
        policy, flavor, amounts = self._preemption(name), claimant.flavor, claimant.amounts
        with ExitStack() as gone:
            gone.enter_context(charges.without(below))
            new, evens = set(reclaimable(tree, name, flavor, amounts)), self._patience(claimant, now) <= 0.0
            new |= self._sharing.uneven(name, flavor, amounts) if evens else set()
            owed = set(new)
            while evens and new:  # once these have left, shares may even out with others too
                uids = (uid for each in new for held in charges.holders(each).values() for uid in held)
                gone.enter_context(charges.without(uids))
                new = self._sharing.uneven(name, flavor, amounts) - owed
                owed |= new
        reclaimed, taken = policy.most_reclaimed(claimant.priority), _most_taken(policy, claimant)
        for other in sorted(tree.charged_beside(name), key=self._sharing.excess):
            if other == name or not charges.holders(other):
                continue
            most = reclaimed if other in owed else -math.inf
            if most < taken and tree.borrows_from(other, name, flavor, amounts):
                most = taken
            if most > -math.inf and not charges.exceeds_ahead_only(other, flavor):
                yield other, partial(_is_up_to, most)

    def _preemption(self, queue: str) -> PreemptionPolicy:
        return preemption_of(queue, self._sharing)

    def _is_settling(self, uids: Iterable[str]) -> bool:
        """Tell whether a holder is just being placed: what is promised to it cannot be evicted."""
        return any(not pod.bound for pod in filter(None, map(self._model.pods.get, uids)))

    def _known(self, holder: GroupRef, queue: str, uids: Iterable[str], now: float) -> Victim | None:
        """Return a holder as a victim, put together once as long as no claim changes and no time passes."""
        moment = (self._model.table.generation, now)
        if self._seen[0] != moment:
            self._seen = moment, {}
        if holder not in self._seen[1]:
            self._seen[1][holder] = self._victim(holder, queue, uids, now)
        return self._seen[1][holder]

    def _victim(self, holder: GroupRef, queue: str, uids: Iterable[str], now: float) -> Victim | None:
        """Return a holder as a victim; None for one that may not be evicted, or is leaving by itself."""
        if self._is_settling(uids):
            return None
        pods = list(filter(None, map(self._model.pods.get, uids)))
        staying = sorted((pod for pod in pods if not pod.deleting), key=member_order)
        if not staying or not all(map(self._model.manages, pods)):
            return None
        charge = self._sharing.charges.of(staying[0].uid)
        flavor = "" if charge is None else charge.flavor
        started = min((pod.started_at for pod in staying if pod.started_at is not None), default=now)
        seconds = max(now - started, 0.0)
        gang = self._gang_of(holder)
        if gang is None:
            return None
        core, extras = split(gang, staying)
        together = shed(gang, staying, extras)
        units = {pod.uid: pods[0].uid for pods, _ in together if len(pods) > 1 for pod in pods}
        beside = {pods[0].uid: others for pods, others in together if others}
        extras = [pod for pods, _ in together for pod in pods]
        core = core if gang.preemptible else []
        if not core and not extras:
            return None
        preempts = self._preemption(queue).within_queue is not WithinQueue.NEVER and not gang.never_preempts
        members, notice = (tuple(core), tuple(extras)), notice_of(gang, self._preemption(queue))
        who = str(holder), gang.uid, queue, flavor, gang.held_priority, gang.created
        return Victim(*who, *members, seconds, gang.unsaved_at_most(now), preempts, notice, units, beside)


def preemption_of(queue: str, sharing: Sharing) -> PreemptionPolicy:
    """Return by what policies gangs of a queue evict and are evicted; the usual ones for those without a Queue."""
    return sharing.tree.queue(queue).preemption if queue in sharing.tree else PreemptionPolicy()


def notice_of(gang: Gang, policy: PreemptionPolicy) -> float:
    """Return how long before its eviction a gang is told (seconds): as its queue says, or as it asks."""
    return max(policy.grace, min(gang.eviction_notice, policy.max_notice))


def own_notice(gang: Gang, sharing: Sharing) -> float:
    """Return how long before its eviction a gang is told (seconds), in the queue that it is in."""
    return notice_of(gang, preemption_of(sharing.queue_of(gang), sharing))


def _earlier(one: float | None, other: float) -> float:
    return other if one is None else min(one, other)


def _is_below(gang: Gang, priority: int, created: str, *, newer: bool) -> bool:
    return gang.held_priority < priority or (newer and gang.held_priority == priority and gang.created > created)


def _as_far_as(victim: Victim, claimant: Claimant) -> Victim | None:
    """Return what of a victim may leave for a claimant; None for nothing."""
    if not claimant.has_started or victim.queue != claimant.queue:
        return victim
    return replace(victim, core=()) if victim.extras else None


def _rank(piece: Piece) -> tuple[bool, int, float, str]:
    """Return the sort key by which extras, the least important and the latest go first."""
    victim = piece.victim
    return piece.core, victim.priority, victim.seconds, victim.name


def _is_up_to(priority: float, gang: Gang) -> bool:
    return gang.held_priority <= priority


def _most_taken(policy: PreemptionPolicy, claimant: Claimant) -> float:
    """Return the highest priority of gangs that borrow and give way to one that does so too, in order to start."""
    if policy.borrow_within_cohort is not BorrowWithin.LOWER_PRIORITY or claimant.has_started:
        return -math.inf
    most = claimant.priority - 1
    return most if policy.max_priority_threshold is None else min(most, policy.max_priority_threshold)


# Example. Queue a (16 GPUs) lends 12 of them to b, which has none; low of a runs on 4. urgent of a asks for 16.
#
#   evictions         order                                                         rightful
#   borrower          a would use 20 of 16 with urgent: it takes back nothing       no
#   low               within the queue, by priority                                 yes, but there are 12 too few
#   low, borrower     low; then a uses 16 of 16 with urgent, and b has borrowed     yes
class QuotaRights:
    """By what right a gang takes quota from others: only what their queues have borrowed, within its own as a rule.

    The members that gangs can spare count as borrowed before what any gang needs: a core that is within the quota of
    its queue once all extras of the victims have left stays.
    """

    def __init__(
        self, sharing: Sharing, claimant: Claimant, leaving: Iterable[str] = (), victims: Iterable[Victim] = ()
    ) -> None:
        """Ask on behalf of `claimant` what `sharing` says, as if the pods with the UIDs `leaving` had left.

        `victims` are all that may be evicted for it.
        """
        self._sharing = sharing
        self._claimant = claimant
        self._leaving = tuple(leaving)
        victims = list(victims)
        others = [victim for victim in victims if victim.extras and not self._is_own(victim)]
        if others and self._evens_shares():
            others = self._that_might_go(others, filter(self._is_own, victims))
        self._extras = [pod.uid for victim in others for pod in victim.extras]

    def concern(self, uid: str) -> bool:
        """Tell whether a pod takes quota that the gang could have instead."""
        charge, claimant, sharing = self._sharing.charges.of(uid), self._claimant, self._sharing
        return (
            charge is not None
            and charge.flavor == claimant.flavor
            and sharing.root(charge.queue) == sharing.root(claimant.queue)
        )

    def matter(self, evictions: Iterable[VictimEviction]) -> bool:
        """Tell whether it matters which of these are made: not all may be, or some only after others.

        So it does where shares even out: each that leaves makes them more even, and leaves less right to the others.
        """
        lent = [each for each in evictions if not self._is_own(each.victim)]
        gone = frozenset[str]()
        if lent and self._evens_shares():
            return True
        with self._sharing.charges.without(self._leaving):
            at_once = all(self._may_take(piece, gone) for each in lent for piece in each.pieces)
        return not at_once or not self.allow(lent)

    def allow(self, evictions: Iterable[VictimEviction]) -> bool:
        """Tell whether in some order each of these takes what its queue has still borrowed by then.

        Fewer of them never turn a yes into a no.
        """
        return self._in_some_order(evictions, self._has_borrowed)

    def entitle(self, evictions: Sequence[VictimEviction]) -> bool:
        """Tell whether in some order the gang has a right to each of these by then; its own queue's come first."""
        if self._evens_shares() and self._is_any_lent_back(evictions):
            return False
        if self._in_some_order(evictions, self._may_take):
            return True
        # Those that leave so that shares even out go before those that give way in any case.
        return self._evens_shares() and self._in_some_order(evictions, self._may_take, self._is_taken)

    def _is_any_lent_back(self, evictions: Sequence[VictimEviction]) -> bool:
        """Tell whether one of these leaves only so that the branch it shares with the gang has less than another.

        The gang has enough without it. It would take its place again, and evictions would go round in circles.
        """
        claimant, tree, charges = self._claimant, self._sharing.tree, self._sharing.charges
        above = set(tree.path(claimant.queue))
        pieces = [piece for each in evictions for piece in each.pieces]
        shared = [len(above.intersection(tree.path(piece.victim.queue))) for piece in pieces]
        for piece, common in zip(pieces, shared, strict=True):
            if self._is_own(piece.victim) or common == min(shared):
                continue
            others = (pod.uid for other in pieces if other is not piece for pod in other.pods)
            with charges.without([*self._leaving, *others]):
                if tree.shortage(claimant.queue, claimant.flavor, claimant.amounts) is None:
                    return True
        return False

    def reason(self, victim: Victim) -> EvictionReason:
        """Return why a victim leaves for the gang."""
        if self._is_own(victim):
            return EvictionReason.PREEMPTED
        return EvictionReason.FAIR_SHARING if self._evens_shares() else EvictionReason.RECLAIMED

    def turns(self, victims: Iterable[Victim]) -> dict[str, int]:
        """Return when it is the turn of each piece, by the UID of its first pod: in its queue extras, then priorities.

        The queue that is furthest above its weighted share gives back until another is, then that, and so on; of equals
        the one of lower priority. Those of the gang's own queue come last. Complexity: O(pieces), of each its share.
        """
        lines: dict[str, list[Piece]] = {}
        pieces = [piece for victim in victims for piece in victim.pieces]
        for piece in sorted(pieces, key=_rank)[::-1]:
            lines.setdefault(piece.victim.queue, []).append(piece)
        own = lines.pop(self._claimant.queue, [])
        turns: dict[str, int] = {}
        turn, before = 0, None
        for piece in (*self._giving_back(lines), *reversed(own)):
            now = piece.victim.queue, piece.core, piece.victim.priority
            turn += now != before
            turns[piece.pods[0].uid], before = turn, now
        return turns

    def _giving_back(self, lines: Mapping[str, list[Piece]]) -> Iterator[Piece]:
        """Yield the pieces of queues, the last of each line first, as it is the turn of each queue."""
        sharing = self._sharing
        with ExitStack() as gone:
            gone.enter_context(sharing.charges.without(self._leaving))
            queues = [(sharing.excess(queue), queue) for queue in lines] if len(lines) > 1 else []
            heapify(queues)
            while queues:
                known, queue = heappop(queues)
                if not lines[queue]:
                    continue
                if (now := sharing.excess(queue)) == known:
                    piece = lines[queue].pop()
                    gone.enter_context(sharing.charges.without(pod.uid for pod in piece.pods))
                    yield piece
                    now = sharing.excess(queue)
                heappush(queues, (now, queue))
        yield from (piece for line in lines.values() for piece in reversed(line))

    def rightful(self, victims: Sequence[Victim]) -> list[Victim]:
        """Return as much of the victims, in order of their turns, as leaves no queue with less than its own."""
        turns = self.turns(victims)
        pieces = [piece for victim in victims for piece in victim.pieces]
        may_take = self._may_take if self._evens_shares() else self._has_borrowed
        gone: set[str] = set()
        with ExitStack() as left:
            left.enter_context(self._sharing.charges.without(self._leaving))
            for piece in sorted(pieces, key=lambda piece: (turns[piece.pods[0].uid], *_rank(piece))):
                whole = gone.issuperset(piece.beside)
                if self._is_own(piece.victim) or (whole and may_take(piece, gone)):
                    uids = [pod.uid for pod in piece.pods]
                    left.enter_context(self._sharing.charges.without(uids))
                    gone.update(uids)
        kept = (
            replace(
                victim,
                core=victim.core if gone.issuperset(pod.uid for pod in victim.core) else (),
                extras=tuple(pod for pod in victim.extras if pod.uid in gone),
            )
            for victim in victims
        )
        return [victim for victim in kept if victim.core or victim.extras]

    def _evens_shares(self) -> bool:
        """Tell whether others may leave so that shares even out: the gang would take its queue beyond its quota."""
        claimant, tree = self._claimant, self._sharing.tree
        if claimant.queue not in tree:  # that of a gang which runs may be gone
            return False
        fair = tree.queue(claimant.queue).preemption.fair_sharing is not FairSharingStrategy.NEVER
        return fair and tree.borrows(claimant.queue, claimant.flavor, claimant.amounts)

    def _is_own(self, victim: Victim) -> bool:
        return victim.queue == self._claimant.queue

    def _size(self, piece: Piece) -> tuple[bool, float]:
        """Return whether a piece is a core, and how many times it gives back what the gang asks for.

        That is of the resource of which it is most.
        """
        given, asked = Counter[str](), self._claimant.amounts
        for charge in filter(None, (self._sharing.charges.of(pod.uid) for pod in piece.pods)):
            given.update(charge.amounts)
        limited = self._sharing.tree.limited(self._claimant.queue, self._claimant.flavor)
        return piece.core, max((given[each] / asked[each] for each in limited if asked.get(each)), default=0.0)

    def _in_some_order(
        self,
        evictions: Iterable[VictimEviction],
        may_take: Callable[[Piece, Collection[str]], bool],
        later: Callable[[Piece], bool] = lambda _: False,
    ) -> bool:
        """Tell whether each may be taken in turn, those last that are to go `later`."""
        evictions = list(evictions)
        pieces = (piece for each in evictions if not self._is_own(each.victim) for piece in each.pieces)
        # Of one that is larger than what its queue has borrowed nothing is left to take back for those after it.
        left, charges = sorted(pieces, key=lambda piece: (later(piece), *self._size(piece))), self._sharing.charges
        if not left:
            return True
        own = (pod.uid for each in evictions if self._is_own(each.victim) for pod in each.pods)
        gone: set[str] = set()
        with ExitStack() as away:
            away.enter_context(charges.without([*self._leaving, *own]))
            while left:
                waiting: list[Piece] = []
                for piece in left:
                    if may_take(piece, gone):
                        uids = [pod.uid for pod in piece.pods]
                        away.enter_context(charges.without(uids))
                        gone.update(uids)
                    else:
                        waiting.append(piece)
                if len(waiting) == len(left):
                    return False
                left = waiting
        return True

    def _has_borrowed(self, piece: Piece, gone: Collection[str]) -> bool:
        """Tell whether the queue of a piece has borrowed what the gang asks for, extras before cores.

        Those with the UIDs `gone` have left.
        """
        claimant, extras = self._claimant, self._extras if piece.core else ()
        with self._sharing.charges.without(uid for uid in extras if uid not in gone):
            return self._sharing.tree.borrows_from(
                piece.victim.queue, claimant.queue, claimant.flavor, claimant.amounts
            )

    def _is_taken(self, piece: Piece) -> bool:
        """Tell whether a piece gives way also to a gang that borrows itself."""
        policy = self._sharing.tree.queue(self._claimant.queue).preemption
        return piece.victim.priority <= _most_taken(policy, self._claimant)

    def _that_might_go(self, victims: Iterable[Victim], own: Iterable[Victim]) -> list[Victim]:
        """Return the victims that can spare members to which the gang has a right now, or once its `own` have left."""
        found, left = [], list(victims)
        for gone in ((), [pod.uid for victim in own for pod in (*victim.core, *victim.extras)]):
            with self._sharing.charges.without([*self._leaving, *gone]):
                might = [self._may_take(next(iter(victim.pieces)), gone) for victim in left]
            found += [victim for victim, may in zip(left, might, strict=True) if may]
            left = [victim for victim, may in zip(left, might, strict=True) if not may]
        return found

    def _may_take(self, piece: Piece, gone: Collection[str]) -> bool:
        """Tell whether the gang may have a piece of another queue evicted, as things stand."""
        claimant, tree, victim = self._claimant, self._sharing.tree, piece.victim
        policy = tree.queue(claimant.queue).preemption
        right = self._is_taken(piece)
        if not right and victim.priority <= policy.most_reclaimed(claimant.priority):
            queue, flavor, amounts = claimant.queue, claimant.flavor, claimant.amounts
            right = tree.reclaims(queue, victim.queue, flavor, amounts) or (
                self._evens_shares()
                and self._sharing.evens(queue, flavor, amounts, victim.queue, (pod.uid for pod in piece.pods))
            )
        return right and self._has_borrowed(piece, gone)
