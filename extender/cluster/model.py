"""The model of the cluster that every decision reads."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from extender.cluster.gangs import Gang, GangRegistry
from extender.cluster.table import NodeTable
from extender.domain.membership import GroupRef
from extender.domain.node import Node
from extender.domain.pod import Pod
from extender.domain.podgroup import PodGroup


@dataclass(frozen=True, slots=True)
class PodChange:
    """What taking in a pod changed: the pod before and after (None: unknown, gone) and its gang."""

    before: Pod | None
    after: Pod | None
    gang: Gang | None


class ClusterModel:
    """Hold nodes, pods and gangs, and who claims what.

    Every bound pod claims its request on its node, whichever scheduler bound it; a pod that ended claims nothing; one
    that is being deleted claims until it is gone. Reservations claim too, but they are made by the admission's ledger.
    """

    def __init__(self, scheduler_names: Collection[str]) -> None:
        """Start empty.

        Args:
            scheduler_names: `spec.schedulerName` of the pods that Muster manages.
        """
        self._scheduler_names = frozenset(scheduler_names)
        self.table = NodeTable()
        self.gangs = GangRegistry()
        self.pods: dict[str, Pod] = {}

    def manages(self, pod: Pod) -> bool:
        """Tell whether the pod belongs to one of Muster's schedulers."""
        return pod.scheduler_name in self._scheduler_names

    def concerns(self, gang: Gang) -> bool:
        """Tell whether any member at all belongs to one of Muster's schedulers."""
        return any(kind.scheduler in self._scheduler_names for kind in gang.kinds)

    def looks_after(self, gang: Gang) -> bool:
        """Tell whether any member without a node belongs to one of Muster's schedulers."""
        return any(kind.unbound and kind.scheduler in self._scheduler_names for kind in gang.kinds)

    def gang_of(self, pod: Pod) -> Gang | None:
        """Return the gang of a pod that the model knows, or None."""
        return None if pod.group is None else self.gangs.get(pod.group)

    def put_pod(self, pod: Pod, now: float) -> PodChange:
        """Take in a pod that was added or changed."""
        before = self.pods.get(pod.uid)
        if before is not None and before.group != pod.group:
            # Labels can be edited: the pod leaves one gang for another.
            self.gangs.drop_pod(before)
        self.pods[pod.uid] = pod
        gang = self.gangs.put_pod(pod, now)
        if pod.bound:
            self.table.claim(pod.uid, pod.node_name, pod.shape.requests, lasting=not self.manages(pod))
        elif pod.done or (before is not None and before.bound):
            self.table.release(pod.uid)
        return PodChange(before, pod, gang)

    def drop_pod(self, uid: str) -> PodChange:
        """Forget a pod that was deleted."""
        before = self.pods.pop(uid, None)
        gang = None if before is None else self.gangs.drop_pod(before)
        self.table.release(uid)
        return PodChange(before, None, gang)

    def put_node(self, node: Node) -> bool:
        """Take in a node; return whether anything that matters changed."""
        return self.table.upsert(node)

    def drop_node(self, name: str) -> bool:
        """Forget a node; return whether it was there."""
        return self.table.remove(name)

    def put_group(self, group: PodGroup, now: float) -> tuple[Gang, str | None]:
        """Take in a PodGroup; return its gang and the UID of the life that this ended, if any."""
        return self.gangs.put_group(group, now)

    def drop_group(self, ref: GroupRef, uid: str) -> Gang | None:
        """Forget a PodGroup; return its gang."""
        return self.gangs.drop_group(ref, uid)
