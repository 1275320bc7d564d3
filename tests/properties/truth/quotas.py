"""What an explanation says of quota: what a Queue has, who holds the rest, and when enough of it comes back.

There are two Queues, red and green, below one that has no quota of its own. What a Queue lends goes into the one above,
and what its gangs use goes first on what it keeps for itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from extender.explain.documents import Explanation, QuotaStanding
from extender.objects.meta import time_text
from extender.objects.podgroup import GroupRef
from extender.objects.reason import Reason
from tests.properties.truth.story import LIMITS, QUOTAS
from tests.properties.truth.world import Recomputed, taken

_OF_QUOTA = {Reason.QUOTA_EXCEEDED, Reason.EXCEEDS_QUOTA}


def kept(queue: str) -> int:
    """Return how much of its quota a Queue never lends."""
    quota = QUOTAS[queue]
    return 0 if quota.lending_limit is None else max(quota.nominal - quota.lending_limit, 0)


class TrueQuota(Recomputed):
    """How the Queue of a gang stands that waits for quota."""

    def standing(self, shown: Explanation, queue: str, ref: GroupRef, now: float) -> None:
        """Compare all that is said of quota, at `now` (epoch seconds)."""
        quota = shown.quota
        if self.objects.clearing:
            return
        if quota is None:
            waits = shown.reason is not None and shown.reason.code in _OF_QUOTA
            assert not waits or self.limited(ref, self.asked(shown, ref)), "it waits for quota, and is told nothing"
            return
        held = {name: self.held(name) for name in QUOTAS}
        used = {name: sum(amounts.values()) for name, amounts in held.items()}
        assert (quota.queue, quota.flavor, quota.resource) == (queue, "any", "nvidia.com/gpu")
        self.same("explain.quota.nominal", quota.nominal, QUOTAS[queue].nominal)
        self.same("explain.quota.borrowingLimit", quota.borrowing_limit, QUOTAS[queue].borrowing_limit)
        self.same("explain.quota.lendingLimit", quota.lending_limit, QUOTAS[queue].lending_limit)
        self.same("explain.quota.used", quota.used, used[queue])
        self.same("explain.quota.available", quota.available, max(available(queue, used), 0))
        self.same("explain.quota.asked", quota.asked, self.asked(shown, ref))
        assert quota.asked > quota.available
        own = QUOTAS[queue].nominal - used[queue] + (QUOTAS[queue].borrowing_limit or 0)
        limited = QUOTAS[queue].borrowing_limit is not None and own < quota.asked
        assert quota.short_at == (queue if limited else "all")
        self.holders(quota, held, now)
        self.returns(quota, held, now, ref)
        if shown.reason is not None and shown.reason.code == Reason.QUOTA_EXCEEDED:
            assert shown.reason.numbers["asked"] == quota.asked  # what was left is as of when it was judged

    def held(self, queue: str) -> dict[GroupRef, int]:
        """Return how many GPUs each gang of a Queue has bound, or promised."""
        objects, found = self.objects, dict[GroupRef, int]()
        for ref in (ref for ref, group in objects.groups.items() if group.options.queue == queue):
            pods = [pod for pod in objects.members(ref) if pod.bound or pod.name in objects.promised]
            if amount := taken(pods):
                found[ref] = amount
        return found

    def limited(self, ref: GroupRef, asked: int) -> bool:
        """Tell whether a user or a group of a gang would run more with it than the Queue above lets them."""
        objects = self.objects
        in_queues = [each for each, group in objects.groups.items() if group.options.queue in QUOTAS]
        running = [objects.pods[name] for each in in_queues for name in objects.placed(each)]
        for limit in LIMITS:
            for payer in {pod.labels.get(limit.label, "") for pod in objects.members(ref)}:
                own = [pod for pod in running if pod.labels.get(limit.label, "") == payer]
                if limit.gpus is not None and taken(own) + asked > limit.gpus:
                    return True
                if limit.gangs is not None and len({pod.group for pod in own} | {ref}) > limit.gangs:
                    return True
        return False

    def asked(self, shown: Explanation, ref: GroupRef) -> int:
        """Return how many GPUs the members ask for that a gang needs next; how many they are its waterfall says."""
        pods = sum(fall.pods for fall in shown.waterfall)
        return taken(self.next_members(ref)[:pods])

    def holders(self, quota: QuotaStanding, held: Mapping[str, Mapping[GroupRef, int]], now: float) -> None:
        """Compare who holds what is short: each Queue, and three of its gangs."""
        queues = sorted(((sum(held[name].values()), name) for name in held if held[name]), reverse=True)
        assert [row.queue for row in quota.holders] == [name for _, name in queues]
        where = "explain.quota.holders[]"
        for row in quota.holders:
            gangs = sorted(((amount, ref) for ref, amount in held[row.queue].items()), reverse=True)
            used, nominal = sum(amount for amount, _ in gangs), QUOTAS[row.queue].nominal
            self.same(f"{where}.nominal", row.nominal, nominal)
            self.same(f"{where}.used", row.used, used)
            self.same(f"{where}.borrowed", row.borrowed, max(used - nominal, 0))
            self.same(f"{where}.others", row.others, max(len(gangs) - 3, 0))
            told = [(each.amount, each.gang) for each in row.gangs]
            self.same(f"{where}.gangs[].amount", told, [(amount, str(ref)) for amount, ref in gangs[:3]])
            for each, (_, ref) in zip(row.gangs, gangs, strict=False):
                end = self.end(ref, now)
                if end is not None:
                    assert (each.ends_at, each.overdue) == (time_text(end), end < now)

    def returns(
        self, quota: QuotaStanding, held: Mapping[str, Mapping[GroupRef, int]], now: float, ref: GroupRef
    ) -> None:
        """Compare after whose ends there is enough, and when the last of them is."""
        others = {str(each): each for gangs in held.values() for each in gangs if each != ref}

        def enough(ended: Collection[str]) -> bool:
            """Tell whether there is enough without some gangs."""
            used = {
                name: sum(amount for each, amount in gangs.items() if str(each) not in ended)
                for name, gangs in held.items()
            }
            return quota.asked <= available(quota.queue, used)

        back = quota.returns_with
        assert set(back) <= others.keys()
        assert bool(back) == enough(others.keys())
        if not back:
            assert quota.returns_at is None
            return
        assert enough(back), "these are too few"
        assert not any(enough(set(back) - {each}) for each in back), "not all of these are needed"
        ends = {name: self.end(each, now) for name, each in others.items()}
        known = [end for name in back if (end := ends[name]) is not None]
        if len(known) == len(back):
            assert quota.returns_at == (time_text(max(known)) if min(known) >= now else None)
            sooner = [name for name, end in ends.items() if end is not None and end < max(known)]
            assert not enough(sooner), "others end sooner, and are enough"

    def end(self, ref: GroupRef, now: float) -> float | None:
        """Return when a gang ends that says how long it runs (epoch seconds), None for one that does not."""
        seconds = self.objects.groups[ref].options.expected_duration
        began = [pod.started_at for pod in self.objects.members(ref) if pod.bound and pod.started_at]
        return None if seconds is None else min(began, default=now) + seconds


def available(queue: str, used: Mapping[str, int]) -> int:
    """Return how much more may be charged to a Queue; less than nothing where too much is used."""
    own, keeps = QUOTAS[queue], kept(queue)
    common = sum(QUOTAS[name].nominal - kept(name) - max(used[name] - kept(name), 0) for name in QUOTAS)
    if own.borrowing_limit is not None:
        common = min(common, own.nominal - keeps - max(used[queue] - keeps, 0) + own.borrowing_limit)
    return max(keeps - used[queue], 0) + common
