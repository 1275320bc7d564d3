"""The status, and the gauges that say the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from extender.explain.documents import GangPhase
from extender.objects.reason import Reason
from extender.service.board.documents import (
    GangRow,
    StatusDocument,
)
from tests.control.conftest import Muster
from tests.properties.truth.story import QUOTAS
from tests.properties.truth.world import GPU, Recomputed, taken


class TrueWhole(Recomputed):
    """How the cluster stands, and what the metrics say of that."""

    def status(self, document: StatusDocument, rows: list[GangRow], muster: Muster) -> None:
        """Compare the status."""
        objects = self.objects
        names = list(objects.nodes)
        gpus = {name: objects.total(name) for name in names}
        self.same("status.nodes.total", document.nodes.total, len(names))
        self.same("status.nodes.schedulable", document.nodes.schedulable, sum(map(objects.takes_pods, names)))
        self.same("status.nodes.withGpus", document.nodes.with_gpus, sum(count > 0 for count in gpus.values()))
        promised = sum(taken(objects.holding(name, promised=True)) for name in names)
        used = sum(taken(objects.holding(name, promised=False)) for name in names)
        self.same("status.gpus.allocatable", document.gpus.allocatable, sum(gpus.values()))
        self.same("status.gpus.used", document.gpus.used, used)
        self.same("status.gpus.reserved", document.gpus.reserved, promised)
        self.same("status.gpus.free", document.gpus.free, sum(gpus.values()) - used - promised)
        self.same("status.queues", document.queues, len(QUOTAS) + 1)
        phases, reasons = Counter(row.phase for row in rows), Counter(row.reason.code for row in rows if row.reason)
        self.same("status.gangs{}", +Counter(document.gangs), phases)
        self.same("status.waiting{}", document.waiting, dict(reasons))
        oldest = min((row.since or "" for row in rows if row.reason), default=None)
        assert (document.oldest_wait and document.oldest_wait.since) == oldest
        there = [row for row in rows if any(ref.name == row.name for ref in objects.groups if objects.members(ref))]
        self.metrics(muster, there, {"allocatable": sum(gpus.values()), "used": used, "reserved": promised})

    def metrics(self, muster: Muster, rows: Iterable[GangRow], gpus: Mapping[str, int]) -> None:
        """Compare the gauges that say the same of gangs that have pods."""
        sample = muster.sample
        phases, reasons = Counter(row.phase for row in rows), Counter(row.reason.code for row in rows if row.reason)
        for phase in GangPhase:
            assert sample("muster_gangs", phase=phase) == phases[phase], phase
        for reason in Reason:
            assert sample("muster_gangs_waiting", reason=reason) == reasons[reason], reason
        for state, number in gpus.items():
            assert sample("muster_gpus", state=state) == number
        assert sample("muster_reserved_unbound", resource=GPU) == sum(
            self.objects.pods[name].shape.request(GPU) for name in self.objects.promised
        )
        for name in () if self.objects.clearing else QUOTAS:
            bound = [
                pod
                for ref, group in self.objects.groups.items()
                if group.options.queue == name
                for pod in self.objects.members(ref)
                if pod.bound or pod.name in self.objects.promised
            ]
            assert sample("muster_queue_used", queue=name, flavor="any", resource=GPU) == taken(bound)
