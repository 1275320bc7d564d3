"""Which gangs could be evicted for one that waits: by the rules and the search that decide, on copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Final

from extender.admission.admission import Admission
from extender.admission.headearmarks import declared
from extender.cluster.gangs import Gang
from extender.eviction.policies import Claimant, Policies
from extender.eviction.preemptions import find_evictions
from extender.eviction.search.search import FoundPreemption
from extender.eviction.search.units import Victim
from extender.explain.account import HeldCapacity
from extender.explain.endings import Ending, ending
from extender.explain.inquiry import copying
from extender.explain.runtimes import LearnedRuntimes
from extender.judge import Case
from extender.objects.podgroup import GroupRef
from extender.objects.requests import is_extended
from extender.placement.capacityview import amounts_of
from extender.placement.plan import plan_anywhere
from extender.queues.sharing import Option, Sharing

#: How many times what a gang asks for is looked for among those that may be evicted for it, and on how many pods.
_ENOUGH: Final = 2
_MOST_PODS: Final = 2048


class Evictable:
    """What says who may be evicted for a gang, for whatever thread: queues and gangs are copied when asked for."""

    def __init__(self, admission: Admission, queue: str, now: float, runtimes: LearnedRuntimes | None = None) -> None:
        """Look for a gang of `queue` as of `now` (epoch seconds); `runtimes` tell when others end that do not say."""
        self._runtimes = runtimes or LearnedRuntimes()
        self._model, self._budgets = admission.model, admission.budgets
        self._live, self._queue = admission.sharing, queue
        self._spares = admission.tenure.pending_evictions.spares
        self._now = now
        self._gangs: dict[GroupRef, Gang | None] = {}

    @cached_property
    def sharing(self) -> Sharing:
        """Return a copy of the queues of the gang's tree, and of who holds nodes in them."""
        return self._live.snapshot(self._queue)

    @cached_property
    def _policies(self) -> Policies:
        return Policies(self._model, self.sharing, self._gang)

    def victims(self, case: Case, option: Option, priority: int, enough: float = _ENOUGH) -> list[Victim]:
        """Return who may be evicted for a gang if it had some priority, the lowest priorities first in each queue.

        They are no more than hold `enough` times what it asks for; if that is devices, those that hold some.
        """
        missing = {resource: amount * enough for resource, amount in case.pod_set.amounts.items()}
        devices = {resource for resource in missing if is_extended(resource)}
        found: list[Victim] = []
        pods = 0
        if case.gang.never_preempts:
            return found
        for each in self._policies.each(Claimant.of(case, option, raised=priority), self._spares, self._now):
            if not isinstance(each, Victim):
                continue
            held = amounts_of((pod.shape, 1) for pod in (*each.core, *each.extras))
            if devices and devices.isdisjoint(held):
                continue
            found.append(each)
            missing = {resource: amount - held.get(resource, 0) for resource, amount in missing.items()}
            pods += len(each.core) + len(each.extras)
            if pods > _MOST_PODS or all(amount <= 0 for amount in missing.values()):
                break
        return found

    def search(self, case: Case, option: Option, priority: int, enough: float = _ENOUGH) -> FoundPreemption | None:
        """Find whom a gang would have evicted in one flavor if it had some priority; None if that helps nothing."""
        victims, claimant = self.victims(case, option, priority, enough), Claimant.of(case, option, raised=priority)
        if not victims:
            return None
        # Who would be evicted is told, and not where the gang goes then: that takes as long to find as all else.
        asked = replace(case, planner=plan_anywhere, quota=case.quota and case.quota.on(self.sharing))
        found = find_evictions(asked, option, claimant, victims, sharing=self.sharing, budgets=self._budgets)
        return None if found is None or not found.evictions else found

    def candidates(self, case: Case, option: Option) -> tuple[list[Victim], float | None]:
        """Return who may be evicted for a gang, and when (epoch seconds) the first may who may not yet."""
        return self._policies.victims(Claimant.of(case, option), self._spares, self._now)

    def ending(self, ref: GroupRef, queue: str) -> Ending | None:
        """Return when a gang that is charged to a queue of the tree is expected to end; None if it is gone."""
        gang = self._gang(ref)
        uids = self.sharing.charges.holders(queue).get(ref, ())
        return None if gang is None else ending(gang, uids, self._runtimes, self.sharing, self._now)

    def ending_of(self, held: HeldCapacity) -> Ending:
        """Return when a holder of nodes is expected to end, which may be a pod of another scheduler."""
        gang, pod = self._gang(held.ref), held.pod
        if gang is not None:
            return ending(gang, gang.members, self._runtimes, self._live, self._now)
        seconds = declared(pod)
        at = None if seconds is None else (pod.started_at or self._now) + seconds
        return Ending(pod.key, (pod.uid,), at, at is not None and at < self._now)

    def other_queues(self, gang: Gang, amounts: Mapping[str, int]) -> Iterator[tuple[str, Option]]:
        """Iterate over where else a gang would have quota: Queues that take it and have no children.

        Those come first in which it would not borrow. Complexity: O(queues), copied.
        """
        sharing, found = self._live.apart(), list[tuple[bool, str, Option]]()
        fixed = {} if gang.preemptible else amounts
        for name in tuple(sharing.queues):  # Queues come and go beside this thread
            tried = name != self._queue and not sharing.tree.children(name) and not sharing.is_strict(name)
            if not tried or sharing.unusable(name, gang.ref.namespace) or sharing.barred(name, gang.ref):
                continue
            if sharing.over_limit(name, gang.uid, gang.ref, gang.members.values()) is not None:
                continue
            for option in sharing.options(name, amounts):
                if sharing.shortage(name, option, amounts, fixed) is None:
                    found.append((sharing.borrows(name, option, amounts), name, option))
        yield from ((name, option) for _, name, option in sorted(found, key=lambda each: each[:2]))

    def _gang(self, ref: GroupRef) -> Gang | None:
        """Return a copy of a gang: the original counts its members when asked, which is for the event loop to do."""
        if ref not in self._gangs:
            gang = self._model.gangs.get(ref)
            self._gangs[ref] = None if gang is None else copying(gang)()
        return self._gangs[ref]


def at_priority(case: Case, priority: int) -> Case:
    """Return a case as it would be with some priority: what is kept for those with a lower one is free."""
    return replace(case, earmarks=[each for each in case.earmarks if each.firm or each.gang.priority >= priority])


def in_words(found: FoundPreemption) -> str:
    """Say who would be evicted."""
    pods = sum(len(each.pods) for each in found.evictions)
    return f"{pods} pod{'s' if pods != 1 else ''} of {', '.join(each.victim.name for each in found.evictions)}"
