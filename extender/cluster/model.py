"""The model of the cluster that every decision reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from extender.cluster.gangs import Gang
from extender.cluster.hardware import Hardware
from extender.cluster.levelsources import LevelSources
from extender.cluster.registry import GangRegistry
from extender.cluster.table import NodeTable
from extender.cluster.tree import Tree, TreeKeeper
from extender.domain.devices import DeviceReport
from extender.domain.hypernodes import HyperNode
from extender.domain.levelchoice import AUTO
from extender.domain.levelobjects import LevelList
from extender.domain.levels import Level, Levels
from extender.domain.membership import GroupRef
from extender.domain.node import Node
from extender.domain.objectref import ObjectRef
from extender.domain.pod import Pod
from extender.domain.podgroup import PodGroup
from extender.domain.reason import Problem
from extender.numa.nodetopology import NodeTopology


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

    def __init__(self, scheduler_names: Collection[str], levels: Sequence[Level] = (), preset: str = AUTO) -> None:
        """Start empty.

        Args:
            scheduler_names: `spec.schedulerName` of the pods that Muster manages.
            levels: the network's tiers, where they are configured.
            preset: what to believe of the network otherwise, as the setting `topology_preset` says.
        """
        self._scheduler_names = frozenset(scheduler_names)
        self.table = NodeTable()
        self._tree = TreeKeeper(self.table)
        self.gangs = GangRegistry()
        self.pods: dict[str, Pod] = {}
        self._network = LevelSources(levels, preset)
        self._hardware = Hardware(self.table.occupancy)
        self.table.occupancy.bound_on = self._bound_on

    @property
    def levels(self) -> Levels:
        """Return the network's tiers; the same object for as long as they stay the same."""
        return self._network.levels()

    @property
    def tree(self) -> Tree:
        """Return which domain of each tier every node is in."""
        return self._tree.tree(self.levels)

    def _bound_on(self, node: str) -> list[Pod]:
        """Return the pods that are bound to a node."""
        pods = (self.pods.get(uid) for uid, _ in self.table.claims_on(node))
        return [pod for pod in pods if pod is not None and pod.bound and pod.node_name == node]

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
            self.table.claim(
                pod.uid,
                pod.node_name,
                pod.shape,
                lasting=not self.manages(pod),
                observed=pod.observed,
                predicted=pod.predicted,
            )
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
        self._network.put_node(node)
        self._hardware.put_node(node)
        return self.table.upsert(node)

    def drop_node(self, name: str) -> bool:
        """Forget a node; return whether it was there."""
        self._network.drop_node(name)
        self._hardware.drop_node(name)
        return self.table.remove(name)

    def put_group(self, group: PodGroup, now: float) -> tuple[Gang, str | None]:
        """Take in a PodGroup; return its gang and the UID of the life that this ended, if any."""
        return self.gangs.put_group(group, now)

    def drop_group(self, ref: GroupRef, uid: str) -> Gang | None:
        """Forget a PodGroup; return its gang."""
        return self.gangs.drop_group(ref, uid)

    def put_hyper_node(self, hyper_node: HyperNode) -> bool:
        """Take in a HyperNode; return whether anything changed."""
        return self._outdate(changed=self._network.put_hyper_node(hyper_node))

    def drop_hyper_node(self, name: str) -> bool:
        """Forget a HyperNode; return whether it was there."""
        return self._outdate(changed=self._network.drop_hyper_node(name))

    def put_levels(self, levels: LevelList) -> bool:
        """Take in an object that lists network tiers; return whether anything changed."""
        return self._outdate(changed=self._network.put_list(levels))

    def drop_levels(self, group: str, name: str) -> bool:
        """Forget the object of an API group that listed network tiers; return whether it was there."""
        return self._outdate(changed=self._network.drop_list(group, name))

    def put_node_topology(self, topology: NodeTopology) -> bool:
        """Take in a node's NUMA zones; return whether anything changed."""
        return self._reassess(topology.node, changed=self._hardware.put_topology(topology))

    def drop_node_topology(self, name: str) -> bool:
        """Forget the NUMA zones of the node called `name`; return whether there were any."""
        return self._reassess(name, changed=self._hardware.drop_topology(name))

    def put_device(self, report: DeviceReport) -> bool:
        """Take in what is said of a node's GPUs; return whether anything changed."""
        return self._reassess(report.node, changed=self._hardware.put_report(report))

    def drop_device(self, name: str) -> bool:
        """Forget what was said of the GPUs of the node called `name`; return whether anything was."""
        return self._reassess(name, changed=self._hardware.drop_report(name))

    def put_calibration(self, about: ObjectRef, data: Mapping[str, str]) -> bool:
        """Take in measured bandwidths; return whether anything changed."""
        return self._outdate(changed=self._hardware.put_calibration(about, data))

    def drop_calibration(self) -> bool:
        """Forget the measured bandwidths; return whether there were any."""
        return self._outdate(changed=self._hardware.drop_calibration())

    def problems(self) -> Mapping[ObjectRef, tuple[Problem, ...]]:
        """Return what is wrong with the objects that describe network and hardware, for the people who wrote them."""
        return {**self._network.problems(), **self._hardware.problems()}

    def _reassess(self, node: str, *, changed: bool) -> bool:
        """Let nothing stand that was decided on what was known of a node before; return `changed`."""
        if changed:
            self.table.reassess(node)
        return changed

    def _outdate(self, *, changed: bool) -> bool:
        """Let no verdict stand that rests on what was known before; return `changed`."""
        if changed:
            self.table.outdate()
        return changed
