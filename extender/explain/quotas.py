"""How the Queue of a gang stands that waits for quota: what it has, who has the rest, when that comes back, and why.

The numbers are those of the tree that decides, on a copy; whether others are evicted for the gang is what the search
says that decides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from heapq import nlargest
from typing import Final

from msgspec.structs import replace

from extender.explain.documents import QuotaGangRow, QuotaHolderRow, QuotaStanding
from extender.explain.endings import Ending, ends_in_words, first_ends, when
from extender.explain.evictable import Evictable, in_words
from extender.explain.inquiry import Inquiry
from extender.judge import Case
from extender.objects.meta import time_text
from extender.objects.podgroup import GroupRef
from extender.objects.queue import BorrowWithin, FairSharingStrategy, PreemptionPolicy, Reclaim
from extender.objects.requests import format_amount
from extender.queues.sharing import FlavorOffer, Option
from extender.queues.tree import QueueTree, QuotaShortage

#: Queues, and gangs of each, that are listed: those that hold most.
_MOST_QUEUES: Final = 8
_MOST_GANGS: Final = 3
#: Gangs whose ends are looked at: those that hold most.
_MOST_ENDS: Final = 256


def quota_standing(inquiry: Inquiry, evictable: Evictable) -> QuotaStanding | None:
    """Return how the Queue of a gang stands that waits for quota; None for one that does not.

    Complexity: O(pods of the tree of Queues), and a search for victims.
    """
    case = inquiry.case
    offers = [(each, each.shortage) for each in case.offers if each.shortage is not None]
    if not case.pod_set.demand.pods or case.obstacle is not None or not offers or len(offers) < len(case.offers):
        return None
    offer, shortage = min(offers, key=lambda each: each[1].ever)
    return _QuotaLook(case, offer, shortage, evictable).document()


class _QuotaLook:
    """Look at one resource of one flavor, in the tree of the gang's Queue."""

    def __init__(self, case: Case, offer: FlavorOffer, shortage: QuotaShortage, evictable: Evictable) -> None:
        self._case = case
        self._offer = offer
        self._short = shortage
        self._evictable = evictable
        self._tree: QueueTree = evictable.sharing.tree
        self._held = {name: self._holders(name) for name in self._tree.charged_beside(case.queue)}
        ends = first_ends(self._endings(), within_quota(case, offer.option, evictable)) if not shortage.ever else ()
        self._ends = ends

    def document(self) -> QuotaStanding:
        """Write it down."""
        name, flavor, resource = self._case.queue, self._short.flavor, self._short.resource
        quota = next(
            (each.quotas.get(resource) for each in self._tree.queue(name).flavors if each.name == flavor), None
        )
        at = when(self._ends)
        reclaims, why = self._reclaim()
        standing = QuotaStanding(
            queue=name,
            flavor=flavor,
            resource=resource,
            asked=self._short.asked,
            nominal=self._tree.nominal(name, flavor, resource),
            used=self._tree.used(name, flavor, resource),
            available=max(self._short.available, 0),
            borrowing_limit=None if quota is None else quota.borrowing_limit,
            lending_limit=None if quota is None else quota.lending_limit,
            short_at=self._short.queue,
            holders=tuple(self._rows()),
            returns_with=tuple(each.name for each in self._ends),
            returns_at=None if at is None else time_text(at),
            reclaims=reclaims,
        )
        lines = (self._numbers(standing), *self._cohort(standing), self._return(), why)
        return replace(standing, lines=tuple(filter(None, lines)))

    # Who holds it.

    def _holders(self, queue: str) -> dict[GroupRef, int]:
        """Return how much each gang of a Queue holds of what is short."""
        charges, held = self._evictable.sharing.charges, dict[GroupRef, int]()
        for ref, uids in charges.holders(queue).items():
            found = (charge for uid in uids if (charge := charges.of(uid)) is not None)
            amount = sum(
                each.amounts.get(self._short.resource, 0) for each in found if each.flavor == self._short.flavor
            )
            if amount:
                held[ref] = amount
        return held

    def _endings(self) -> Iterator[Ending]:
        every = ((amount, ref, queue) for queue, held in self._held.items() for ref, amount in held.items())
        for _, ref, queue in nlargest(_MOST_ENDS, every, key=lambda each: (each[0], each[1])):
            if ref != self._case.gang.ref and (found := self._evictable.ending(ref, queue)) is not None:
                yield found

    def _rows(self) -> Iterator[QuotaHolderRow]:
        tree, flavor, resource = self._tree, self._short.flavor, self._short.resource
        most = nlargest(_MOST_QUEUES, self._held.items(), key=lambda each: (sum(each[1].values()), each[0]))
        for queue, held in most:
            if not held:
                continue
            gangs = []
            for ref, amount in nlargest(_MOST_GANGS, held.items(), key=lambda each: (each[1], each[0])):
                end = self._evictable.ending(ref, queue)
                at = None if end is None or end.at is None else time_text(end.at)
                gangs.append(QuotaGangRow(str(ref), amount, at, end is not None and end.overdue))
            yield QuotaHolderRow(
                queue=queue,
                nominal=tree.nominal(queue, flavor, resource),
                used=sum(held.values()),
                borrowed=tree.excess(queue, flavor).get(resource, 0),
                gangs=tuple(gangs),
                others=len(held) - len(gangs),
            )

    # In words.

    def _numbers(self, standing: QuotaStanding) -> str:
        parts = [f"nominal {self._write(standing.nominal)}", f"used {self._write(standing.used)}"]
        if standing.borrowing_limit is not None:
            parts.append(f"borrows at most {self._write(standing.borrowing_limit)}")
        if standing.lending_limit is not None:
            parts.append(f"lends at most {self._write(standing.lending_limit)}")
        where = "" if standing.short_at == standing.queue else f", short in Queue {standing.short_at} above it"
        numbers = ", ".join(parts)
        return f"quota of Queue {standing.queue} for {standing.resource}{self._flavor}: {numbers}{where}"

    @property
    def _flavor(self) -> str:
        return f" of flavor {self._short.flavor}" if self._short.flavor else ""

    def _cohort(self, standing: QuotaStanding) -> Iterator[str]:
        for row in standing.holders:
            borrows = f", of which it borrows {self._write(row.borrowed)}" if row.borrowed else ""
            gangs = [f"{each.gang} {self._write(each.amount)}{_until(each)}" for each in row.gangs]
            if row.others:
                gangs.append(f"{row.others} more")
            yield f"in Queue {row.queue} gangs hold {self._write(row.used)}{borrows}: {', '.join(gangs)}"

    def _return(self) -> str:
        if self._short.ever:
            return ""
        if not self._ends:
            return "it comes back when gangs end that are not among those listed, or quota is raised"
        return f"enough of it comes back when {ends_in_words(self._ends)}"

    def _write(self, amount: int) -> str:
        return format_amount(self._short.resource, amount)

    # Whether others leave for it.

    def _reclaim(self) -> tuple[bool, str]:
        """Tell whether the gang has others evicted now, and say so or why not."""
        case, option = self._case, self._offer.option
        if self._short.ever:
            return False, ""
        found = self._evictable.search(case, option, case.gang.priority)
        if found is not None:
            notice = max((each.victim.notice for each in found.evictions), default=0.0)
            told = f", {notice:.0f} s after they are told" if notice else ""
            return True, f"reclaim: {in_words(found)} may be evicted for it now{told}"
        return False, f"nothing is reclaimed for it: {self._why_not(option)}"

    def _why_not(self, option: Option) -> str:
        case, tree, name = self._case, self._tree, self._case.queue
        if case.gang.never_preempts:
            return "its preemptionPolicy is Never"
        victims, later = self._evictable.candidates(case, option)
        if victims:
            who = f"{sum(len(each.core) + len(each.extras) for each in victims)} pods of {len(victims)} gangs"
            return f"{who} may be evicted, but PodDisruptionBudgets, quota and nodes leave no choice that makes room"
        if later is not None:
            return f"those that may be evicted are protected until {time_text(later)} (minRuntime, fairSharingDelay)"
        if not any(tree.excess(each, option.flavor) for each in self._held if each != name):
            return "no other Queue has borrowed"
        return self._by_policy(tree.queue(name).preemption, borrows=tree.borrows(name, option.flavor, self._amounts))

    def _by_policy(self, policy: PreemptionPolicy, *, borrows: bool) -> str:
        """Return what policy keeps those that borrow where they are; `borrows` says that the gang would, too."""
        name = self._case.queue
        if borrows:
            never = policy.borrow_within_cohort is BorrowWithin.NEVER
            never &= policy.fair_sharing is FairSharingStrategy.NEVER
            why = "borrowWithinCohort and fairSharing are Never" if never else "no gang of others gives way to that"
            return f"Queue {name} would borrow for it, and {why}"
        if policy.reclaim_within_cohort is Reclaim.NEVER:
            return f"reclaimWithinCohort of Queue {name} is Never"
        if policy.reclaim_within_cohort is Reclaim.LOWER_PRIORITY:
            priority = self._case.gang.priority
            return f"reclaimWithinCohort is LowerPriority, and none that borrows has a priority below {priority}"
        return "those that borrow cannot be evicted, or are leaving already"

    @property
    def _amounts(self) -> Mapping[str, int]:
        return self._case.pod_set.amounts


def within_quota(case: Case, option: Option, evictable: Evictable) -> Callable[[Collection[str]], bool]:
    """Return what tells whether there is quota for a gang in a flavor once pods with some UIDs have left."""
    quota = None if case.quota is None else case.quota.on(evictable.sharing)
    return lambda uids: quota is None or quota.offer(option, uids).shortage is None


def _until(row: QuotaGangRow) -> str:
    if row.ends_at is None:
        return ""
    return " (overdue)" if row.overdue else f" until {row.ends_at}"
