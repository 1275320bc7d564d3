"""The rows of Queues: quota, usage, and what each user runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from extender.explain.documents import QueueRow
from extender.objects.keys import GROUP, USER
from extender.objects.podgroup import GroupRef
from extender.service.board.documents import (
    GangRow,
)
from tests.properties.truth.quotas import kept
from tests.properties.truth.story import QUOTAS
from tests.properties.truth.world import Recomputed, taken


class TrueQueues(Recomputed):
    """How every Queue stands, by the gangs that name it."""

    def queues(self, rows: Iterable[QueueRow], gangs: Iterable[GangRow]) -> None:
        """Compare quota and usage of Queues; what is lent is what others borrow, of what its Queue has left."""
        shown, objects = {row.name: row for row in rows}, self.objects
        if objects.clearing:
            return
        lent, borrowed = dict[str, int](), dict[str, int]()
        used_in_all = 0
        for name, quota in QUOTAS.items():
            nominal = quota.nominal
            own = [ref for ref, group in objects.groups.items() if group.options.queue == name]
            bound = sum(taken(pod for pod in objects.members(ref) if pod.bound) for ref in own)
            promised = sum(taken(pod for pod in objects.members(ref) if pod.name in objects.promised) for ref in own)
            used = bound + promised
            used_in_all += max(used - kept(name), 0)
            (use,) = shown[name].flavors
            self.same("queues[].flavors[].nominal", use.nominal, nominal)
            self.same("queues[].flavors[].reserved", use.reserved, promised)
            self.same("queues[].flavors[].used", use.used, used)
            self.same("queues[].flavors[].borrowed", use.borrowed, max(used - nominal, 0))
            assert 0 <= use.lent <= max(nominal - used, 0)
            lent[name], borrowed[name] = use.lent, max(used - nominal, 0)
            holders = [ref for ref in own if objects.placed(ref)]
            there = {ref.name for ref in own if objects.members(ref)}
            waiting = [row for row in gangs if row.name in there and row.reason is not None]
            waiting = [row for row in waiting if not any(ref.name == row.name for ref in holders)]
            self.same("queues[].admittedGangs", shown[name].admitted_gangs, len(holders))
            self.same("queues[].pendingGangs", shown[name].pending_gangs, len(waiting))
        # There are two: what one has borrowed is the other's.
        self.same("queues[].flavors[].lent", list(lent.values()), list(borrowed.values())[::-1])
        self.running(shown["all"])
        for use in shown["all"].flavors:
            assert (use.used, use.nominal) == (
                used_in_all,
                sum(each.nominal - kept(name) for name, each in QUOTAS.items()),
            )

    def running(self, row: QueueRow) -> None:
        """Compare what each user and each group runs in the Queue that limits it."""
        gpus, gangs = Counter[tuple[str, str]](), defaultdict[tuple[str, str], set[GroupRef]](set)
        for ref in (ref for ref, group in self.objects.groups.items() if group.options.queue in QUOTAS):
            for pod in (self.objects.pods[name] for name in self.objects.placed(ref)):
                for label in (USER, GROUP):
                    payer = label.partition("/")[2], pod.labels.get(label, "")
                    gpus[payer] += pod.shape.gpus
                    gangs[payer].add(ref)
        where, shown = "queues[].running[]", {(each.kind, each.name): each for each in row.running}
        self.same(
            f"{where}.gpus", {payer: each.gpus for payer, each in shown.items()}, {key: gpus[key] for key in gangs}
        )
        self.same(
            f"{where}.gangs",
            {payer: each.gangs for payer, each in shown.items()},
            {key: len(gangs[key]) for key in gangs},
        )
        most = {"user": (12, 3), "group": (None, 4)}
        for each in row.running:
            self.same(f"{where}.mostGpus", each.most_gpus, most[each.kind][0])
            self.same(f"{where}.mostGangs", each.most_gangs, most[each.kind][1])
