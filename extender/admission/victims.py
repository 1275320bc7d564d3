"""Who may be evicted for whom: what the policies of the queues allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple, Protocol

from extender.admission.charges import Holder
from extender.admission.sharing import NAMELESS, Sharing
from extender.cluster.gangs import Gang, member_order
from extender.cluster.model import ClusterModel
from extender.domain.membership import GroupRef
from extender.domain.pod import Pod
from extender.domain.queue import BorrowWithin, Preemption, Reclaim, WithinQueue
from extender.preemption.victim import Victim
from extender.quota.reclaiming import reclaimable

#: When a gang that is just being placed is looked at again as a victim (seconds): before it is bound it cannot leave.
_SETTLING_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Claimant:
    """A gang that others may have to leave for: what it asks for in one flavor of its queue.

    Claimants of one `kind` may have the same evicted, unless age decides.
    """

    gang: Gang
    queue: str
    flavor: str
    amounts: Mapping[str, int]
    kind: Hashable


class _Rank(NamedTuple):
    """What decides whether somebody may be evicted by rank: priority, and age (RFC 3339)."""

    priority: int
    created: str


class Spared(Protocol):
    """Say whether a holder is not to be evicted, whether quota is `reclaimed` from it or not."""

    def __call__(self, holder: Holder, *, reclaimed: bool) -> bool:
        """Tell whether it is spared."""
        ...


class Policies:
    """Say whom a gang may have evicted: by rank in its own queue, and by right of quota in others of its tree."""

    def __init__(self, model: ClusterModel, sharing: Sharing) -> None:
        """Read who holds what from `sharing`."""
        self._model = model
        self._sharing = sharing
        self._seen: tuple[tuple[int, float], dict[Holder, Victim | None]] = ((-1, 0.0), {})

    def victims(self, claimant: Claimant, spared: Spared, now: float) -> tuple[list[Victim], float | None]:
        """Return who may be evicted, and when (epoch seconds) the first of those may who may not yet.

        `spared` are those of whom somebody else disposes already, or who are not to be preempted.
        """
        victims, later = [], None
        for queue, outranks in self._queues(claimant):
            shield = self._preemption(queue).min_runtime
            for holder, uids in self._sharing.charges.holders(queue).items():
                if holder == claimant.gang.ref or spared(holder, reclaimed=queue != claimant.queue):
                    continue
                rank = self._rank(holder)
                if rank is None or not outranks(rank):
                    continue
                victim = self._known(holder, queue, uids, now)
                if victim is None:
                    if self._is_settling(uids):
                        later = _earlier(later, now + _SETTLING_SECONDS)
                elif victim.seconds < shield:
                    later = _earlier(later, now + shield - victim.seconds)
                else:
                    victims.append(victim)
        return victims, later

    def everybody(self, spared: Callable[[Holder], bool], now: float) -> list[Victim]:
        """Return all that may be evicted at all, in whatever queue, whoever asks."""
        names = (NAMELESS, *self._sharing.tree)
        holders = ((queue, *each) for queue in names for each in self._sharing.charges.holders(queue).items())
        found = (self._known(holder, queue, uids, now) for queue, holder, uids in holders if not spared(holder))
        return [victim for victim in found if victim is not None]

    def by_age(self, claimant: Claimant) -> bool:
        """Tell whether a gang's age, and not only its priority, decides whom it may have evicted."""
        return self._preemption(claimant.queue).within_queue is WithinQueue.LOWER_OR_NEWER

    def notice(self, queue: str) -> float:
        """Return how long gangs of a queue are warned before they are evicted (seconds)."""
        return self._preemption(queue).grace

    def is_reclaim(self, claimant: Claimant, victim: Victim) -> bool:
        """Tell whether a gang has the victim evicted because the quota is its own queue's."""
        return victim.queue != claimant.queue

    def _queues(self, claimant: Claimant) -> Iterator[tuple[str, Callable[[_Rank], bool]]]:
        """Iterate over the queues from which somebody may be evicted, and who in them."""
        gang, name = claimant.gang, claimant.queue
        policy, own = self._preemption(name), gang.priority
        newer = policy.within_queue is WithinQueue.LOWER_OR_NEWER
        lowest = self._sharing.charges.lowest_priority(name)
        if policy.within_queue is not WithinQueue.NEVER and lowest is not None and lowest < own + newer:
            yield name, lambda rank: _is_below(rank, own, gang.created, newer=newer)
        if name == NAMELESS:
            return
        tree = self._sharing.tree
        owed = frozenset(reclaimable(tree, name, claimant.flavor, claimant.amounts))
        reclaim, borrow = policy.reclaim_within_cohort, policy.borrow_within_cohort
        for other in _below(tree.path(name)[-1], tree.children):
            if other == name or not self._sharing.charges.holders(other):
                continue
            if reclaim is not Reclaim.NEVER and other in owed:
                anybody = reclaim is Reclaim.ANY
                yield other, lambda rank, anybody=anybody: anybody or rank.priority < own  # type: ignore[misc] # a default binds it now
            elif borrow is BorrowWithin.LOWER_PRIORITY and tree.borrows_from(
                other, name, claimant.flavor, claimant.amounts
            ):
                most = policy.max_priority_threshold
                yield (
                    other,
                    lambda rank, most=most: (  # type: ignore[misc] # the same
                        rank.priority < own and (most is None or rank.priority <= most)
                    ),
                )

    def _preemption(self, queue: str) -> Preemption:
        return Preemption() if queue == NAMELESS else self._sharing.tree.queue(queue).preemption

    def _rank(self, holder: Holder) -> _Rank | None:
        """Return how a holder ranks; None for one that may never be evicted."""
        if isinstance(holder, GroupRef):
            gang = self._model.gangs.get(holder)
            return _Rank(gang.priority, gang.created) if gang is not None and gang.preemptible else None
        pod = self._model.pods.get(holder)
        return None if pod is None or pod.options.preemptible is False else _Rank(pod.priority, pod.created)

    def _is_settling(self, uids: Iterable[str]) -> bool:
        """Tell whether a holder is just being placed: what is promised to it cannot be evicted."""
        pods = self._model.pods
        return any(uid in pods and not pods[uid].bound for uid in uids)

    def _known(self, holder: Holder, queue: str, uids: Iterable[str], now: float) -> Victim | None:
        """Return a holder as a victim, put together once as long as nobody moves and no time passes."""
        moment = (self._model.table.generation, now)
        if self._seen[0] != moment:
            self._seen = moment, {}
        if holder not in self._seen[1]:
            self._seen[1][holder] = self._victim(holder, queue, uids, now)
        return self._seen[1][holder]

    def _victim(self, holder: Holder, queue: str, uids: Iterable[str], now: float) -> Victim | None:
        """Return a holder as a victim; None for one that may not be evicted, or is leaving by itself."""
        if self._is_settling(uids):
            return None
        pods = [self._model.pods[uid] for uid in uids if uid in self._model.pods]
        staying = sorted((pod for pod in pods if not pod.deleting), key=member_order)
        if not staying or not all(map(self._model.manages, pods)):
            return None
        first = min(staying, key=lambda pod: pod.created)
        charge = self._sharing.charges.of(staying[0].uid)
        flavor = "" if charge is None else charge.flavor
        started = min((pod.started_at for pod in staying if pod.started_at is not None), default=now)
        seconds = max(now - started, 0.0)
        if not isinstance(holder, GroupRef):
            if first.options.preemptible is False:
                return None
            return Victim(
                first.key, first.uid, queue, flavor, first.priority, first.created, tuple(staying), (), seconds
            )
        gang = self._model.gangs.get(holder)
        if gang is None or not gang.preemptible:
            return None
        core, extras = split(gang, staying)
        return Victim(
            str(holder), gang.uid, queue, flavor, gang.priority, gang.created, tuple(core), tuple(extras), seconds
        )


def split(gang: Gang, bound: Sequence[Pod]) -> tuple[list[Pod], list[Pod]]:
    """Split the bound members of a gang, in member order, into those it needs and those it can spare, last first."""
    spare = gang.census().secured - gang.min_member
    if spare <= 0:
        return list(bound), []
    extras: list[Pod] = []
    less: Counter[str] = Counter()
    for pod in reversed(bound):
        if len(extras) == spare:
            break
        less[pod.role] -= 1
        if gang.would_have_minimum(less):
            extras.append(pod)
        else:
            less[pod.role] += 1
    spared = {pod.uid for pod in extras}
    return [pod for pod in bound if pod.uid not in spared], extras


def _earlier(one: float | None, other: float) -> float:
    return other if one is None else min(one, other)


def _is_below(rank: _Rank, priority: int, created: str, *, newer: bool) -> bool:
    if rank.priority != priority:
        return rank.priority < priority
    return newer and rank.created > created


def _below(name: str, children: Callable[[str], Iterable[str]]) -> Iterator[str]:
    """Iterate over a queue and all below it."""
    yield name
    yield from chain.from_iterable(_below(child, children) for child in children(name))
