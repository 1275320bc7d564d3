"""Whether a gang may have others evicted by right of its queue's quota, and whether it then is within it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from extender.admission.sharing import Option, Sharing
from extender.admission.victims import Claimant
from extender.domain.pod import Pod
from extender.preemption.victim import Eviction, Victim


class QuotaRights:
    """Whether a gang is within the quota of its queue once others are gone."""

    def __init__(self, sharing: Sharing, claimant: Claimant, leaving: Iterable[str] = ()) -> None:
        """Ask on behalf of `claimant` what `sharing` says, as if the pods with the UIDs `leaving` had left."""
        self._sharing = sharing
        self._claimant = claimant
        self._leaving = tuple(leaving)

    def concern(self, uid: str) -> bool:
        """Tell whether a pod takes quota that the gang could have instead."""
        charge, claimant, sharing = self._sharing.charges.of(uid), self._claimant, self._sharing
        return (
            charge is not None
            and charge.flavor == claimant.flavor
            and sharing.root(charge.queue) == sharing.root(claimant.queue)
        )

    def allows(self, evicted: Sequence[tuple[Victim, Sequence[Pod]]]) -> bool:
        """Tell whether the gang is within its quota once these pods are gone."""
        with self._without((*self._leaving, *(pod.uid for _, pods in evicted for pod in pods))):
            claimant = self._claimant
            return self._sharing.lack(claimant.queue, Option(claimant.flavor), claimant.amounts) is None

    def is_rightful(self, evictions: Iterable[Eviction]) -> bool:
        """Tell whether in some order each eviction takes back what its queue still has borrowed by then."""
        left = list(evictions)
        with ExitStack() as gone:
            gone.enter_context(self._without(self._leaving))
            while left:
                rightful = next((each for each in left if self._may_take(each.victim)), None)
                if rightful is None:
                    return False
                left.remove(rightful)
                gone.enter_context(self._without(pod.uid for pod in rightful.pods))
        return True

    def rightful(self, victims: Sequence[Victim]) -> list[Victim]:
        """Return as many of the victims, in order of their rank, as leave no queue with less than its own."""
        ranked = sorted(victims, key=lambda victim: (victim.priority, victim.seconds, victim.name))
        kept: list[Victim] = []
        with ExitStack() as gone:
            gone.enter_context(self._without(self._leaving))
            for victim in ranked:
                if self._may_take(victim):
                    kept.append(victim)
                    gone.enter_context(self._without(pod.uid for pod in (*victim.core, *victim.extras)))
        return kept

    def _may_take(self, victim: Victim) -> bool:
        """Tell whether a victim is of the gang's own queue, or of one that has borrowed what the gang asks for."""
        claimant = self._claimant
        if victim.queue == claimant.queue:
            return True
        return self._sharing.tree.borrows_from(victim.queue, claimant.queue, claimant.flavor, claimant.amounts)

    @contextmanager
    def _without(self, uids: Iterable[str]) -> Iterator[None]:
        """Look at the queues as if these pods were gone."""
        tree = self._sharing.tree
        charges = [charge for uid in uids if (charge := self._sharing.charges.of(uid)) is not None]
        for charge in charges:
            tree.refund(charge.queue, charge.flavor, charge.amounts)
        try:
            yield
        finally:
            for charge in charges:
                tree.charge(charge.queue, charge.flavor, charge.amounts)
