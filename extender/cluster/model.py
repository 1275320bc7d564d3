"""The model of the cluster that every decision reads: nodes and their hardware, pods, gangs, claims, levels."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from extender.cluster.compositions import Compositions
from extender.cluster.devicebooks import DeviceBooks
from extender.cluster.gangs import Gang
from extender.cluster.noderoom import gpu_problems
from extender.cluster.table import NodeTable
from extender.cluster.tree import LevelSources, Tree, TreeKeeper
from extender.cluster.workloads import Workloads
from extender.hardware.calibration import read_calibration
from extender.hardware.links import LinksError, read_partitions
from extender.hardware.products import PRODUCT_LABELS, Products
from extender.objects.devices import DeviceReport
from extender.objects.keys import GPU_PARTITIONS
from extender.objects.levelobjects import AUTO
from extender.objects.levels import Level, Levels
from extender.objects.meta import ObjectRef
from extender.objects.node import Node
from extender.objects.nodetopology import NodeTopology
from extender.objects.pod import Pod
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.reason import Problem


class GangRegistry:
    """Keep gangs in step with pods and PodGroups, which arrive in any order.

    Attributes:
        changed: the gangs that anything has happened to since the reader took them out; some may be gone by now.
        named: those that more than one pod may belong to; of single pods there may be 50,000.
    """

    def __init__(self) -> None:
        self._gangs: dict[GroupRef, Gang] = {}
        self._lives: dict[str, Gang] = {}
        self.changed: dict[GroupRef, Gang] = {}
        self.named: dict[GroupRef, Gang] = {}

    def __iter__(self) -> Iterator[Gang]:
        """Iterate over all gangs, PodGroups without pods included."""
        return iter(self._gangs.values())

    def __len__(self) -> int:
        """Count the gangs."""
        return len(self._gangs)

    def of(self, uids: Iterable[str]) -> Iterable[Gang]:
        """Return the gangs with these UIDs that are there: an array, as the garbage collector looks through lists."""
        return np.fromiter(filter(None, map(self._lives.get, uids)), object)

    def get(self, ref: GroupRef) -> Gang | None:
        """Return the gang called `ref`, or None."""
        return self._gangs.get(ref)

    def touch(self, gang_uid: str) -> None:
        """Take in that something of what is remembered elsewhere about the life `gang_uid` of a gang has changed."""
        gang = self._lives.get(gang_uid)
        if gang is not None:
            self.changed[gang.ref] = gang

    def touch_called(self, refs: Iterable[GroupRef]) -> None:
        """Take in the same about the gangs called `refs`, as far as they are there."""
        for ref in refs:
            if (gang := self._gangs.get(ref)) is not None:
                self.touch(gang.uid)

    def touch_all(self) -> None:
        """Count every gang as changed, and those that are gone as they were."""
        self.changed |= self._gangs

    def promise(self, ref: GroupRef, pod_uids: Iterable[str]) -> None:
        """Take in that members of the gang called `ref` have a node promised, each once."""
        gang = self._gangs.get(ref)
        if gang is not None:
            gang.promise(pod_uids)
            self.changed[ref] = gang

    def withdraw(self, ref: GroupRef, pod_uid: str) -> None:
        """Take in that a member of the gang called `ref` has no node promised any more."""
        gang = self._gangs.get(ref)
        if gang is not None:
            gang.withdraw(pod_uid)
            self.changed[ref] = gang

    def refuse(self, pod: Pod, text: str) -> bool:
        """Take in that kube-scheduler does not place a member, or with "" that it may; return whether that is news."""
        gang = self._gangs.get(pod.group)
        if gang is None or gang.refused.get(pod.uid, "") == text:
            return False
        if text:
            gang.refused[pod.uid] = text
        else:
            del gang.refused[pod.uid]
        self.changed[gang.ref] = gang
        return True

    def put_pod(self, pod: Pod, now: float) -> Gang:
        """Take in a pod that was added or changed; return its gang."""
        gang = self._gangs.get(pod.group)
        if gang is None:
            # Without an object the first pod's UID names this life of the gang.
            gang = self._gangs[pod.group] = Gang(pod.group, uid=f"pod:{pod.uid}", first_seen=now)
            self._lives[gang.uid] = gang
            if not pod.group.is_pod:
                self.named[pod.group] = gang
        gang.join(pod)
        self.changed[pod.group] = gang
        if not gang.oldest_member or pod.created < gang.oldest_member:
            gang.oldest_member = pod.created
        return gang

    def drop_pod(self, pod: Pod) -> Gang | None:
        """Forget a pod; return its gang, which is itself forgotten when nothing of it is left."""
        gang = self._gangs.get(pod.group)
        if gang is None:
            return None
        gang.leave(pod.uid)
        self.changed[gang.ref] = gang
        self._forget_empty(gang)
        return gang

    def put_group(self, group: PodGroup, now: float) -> tuple[Gang, str | None]:
        """Take in a PodGroup; return its gang and, if that starts a new life, the UID of the one that ended."""
        gang = self._gangs.get(group.ref)
        if gang is None:
            gang = self._gangs[group.ref] = self.named[group.ref] = Gang(group.ref, uid=group.uid, first_seen=now)
        ended = None
        if gang.uid != group.uid:
            ended, gang.uid, gang.first_seen, gang.outlived = gang.uid, group.uid, now, False
            self._lives.pop(ended, None)
        self._lives[group.uid] = gang
        gang.group = group
        self.changed[group.ref] = gang
        return gang, ended

    def drop_group(self, ref: GroupRef, uid: str) -> Gang | None:
        """Forget a PodGroup if it is still the one with `uid`; return its gang."""
        gang = self._gangs.get(ref)
        if gang is None or gang.group is None or gang.group.uid != uid:
            return None
        gang.group = None
        self.changed[ref] = gang
        self._forget_empty(gang)
        return gang

    def _forget_empty(self, gang: Gang) -> None:
        if not gang.members and gang.group is None:
            self._gangs.pop(gang.ref, None)
            self.named.pop(gang.ref, None)
            self._lives.pop(gang.uid, None)


class PodChange(NamedTuple):
    """What taking in a pod changed: the pod before and after (None: unknown, gone) and its gang."""

    before: Pod | None
    after: Pod | None
    gang: Gang | None


class ClusterModel:
    """Hold nodes, pods and gangs, what pods claim, and what is known of network and hardware.

    Every bound pod claims its request on its node, whichever scheduler bound it; a pod that ended claims nothing; one
    that is being deleted claims until it is gone. Reservations claim too, but they are made by the admission's ledger.

    Attributes:
        leaving: bound pods that are being deleted, by UID.
        timed: bound pods that say how long they run, by UID.
    """

    def __init__(  # noqa: PLR0913 - one is a keyword that few need
        self,
        scheduler_names: Collection[str],
        levels: Sequence[Level] = (),
        preset: str = AUTO,
        goal: str = "balanced",
        others: Collection[str] = (),
        *,
        mapped: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Start empty.

        Args:
            scheduler_names: `spec.schedulerName` of the pods that Muster manages.
            levels: the network's tiers, where they are configured.
            preset: what to believe of the network otherwise, as the setting `topology_preset` says.
            goal: what places are chosen for, a PlacementGoal.
            others: resources that others account for where no node lists them.
            mapped: by which resource Queues have quota for the devices of a class.
        """
        self._scheduler_names = frozenset(scheduler_names)
        self.table = NodeTable(others)
        self._tree = TreeKeeper(self.table, goal)
        self.gangs = GangRegistry()
        self.workloads = Workloads()
        self.compositions = Compositions()
        self.pods: dict[str, Pod] = {}
        self.leaving: dict[str, Pod] = {}
        self.timed: dict[str, Pod] = {}
        self._excessive: dict[str, Pod] = {}  # bound, and ask for more than any node has: as they were read
        self.network = LevelSources(levels, preset, self.table.outdate)
        self.hardware = Hardware(self.table)
        self.devices = DeviceBooks(self.table, self.pods, mapped)
        self.table.occupancy.bound_on = self._bound_on

    @property
    def levels(self) -> Levels:
        """Return the network's tiers; the same object for as long as they stay the same."""
        return self.network.levels()

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

    def is_member(self, pod: Pod) -> bool:
        """Tell whether the pod belongs to a gang: it names a group, or is a gang of one of Muster's."""
        return self.manages(pod) or not pod.group.is_pod

    def concerns(self, gang: Gang) -> bool:
        """Tell whether any member at all belongs to one of Muster's schedulers.

        A PodGroup without any member is for Muster if it has keys of Muster's, or its members that have gone were.
        """
        group = gang.group
        if not gang.members and group is not None:
            return gang.outlived or bool(group.told) or group.options.asks_muster
        return any(kind.scheduler in self._scheduler_names for kind in gang.kinds)

    def looks_after(self, gang: Gang) -> bool:
        """Tell whether any member without a node belongs to one of Muster's schedulers."""
        return any(kind.unbound and kind.scheduler in self._scheduler_names for kind in gang.kinds)

    def gang_of(self, pod: Pod) -> Gang | None:
        """Return the gang of a pod, None for one that names no group and belongs to another scheduler."""
        return self.gangs.get(pod.group)

    def as_asked(self, pod: Pod) -> Pod:
        """Return a pod in the gang that it is of, with the devices that it asks for, bound within what its node has."""
        if pod.controller and self.workloads.known and self.manages(pod):
            pod = self.workloads.put_pod(pod)
        if pod.group in self.compositions.groups:
            pod = self.compositions.placed(pod, pod.group)
        concerned = pod.claims.claims or pod.claims.extended or self.devices.columns.twins_of or self.devices.mapped
        return self._within_node(self.devices.pod(pod) if concerned else pod)

    def _within_node(self, pod: Pod) -> Pod:
        """Return a bound pod that asks for more than any node has as one that takes all that its node has.

        Every other pod is returned as it is. Such a pod was created with a node; what a queue is charged for it, and
        what others lack because of it, is no more than there is.
        """
        self._excessive.pop(pod.uid, None)
        if not (pod.shape.is_excessive and pod.bound):
            return pod
        self._excessive[pod.uid] = pod
        node = self.table.find(pod.node_name)
        return replace(pod, shape=pod.shape.within({} if node is None else node.allocatable))

    def excessive_on(self, node: str) -> list[Pod]:
        """Return the pods on a node that ask for more than any node has, as they were read."""
        return [pod for pod in self._excessive.values() if pod.node_name == node]

    def put_pod(self, pod: Pod, now: float) -> PodChange:
        """Take in a pod that was added or changed."""
        before = self.pods.get(pod.uid)
        if before is not None and before.group != pod.group:
            # Labels can be edited: the pod leaves one gang for another.
            self._leave(before)
        self.pods[pod.uid] = pod
        ends = pod.active_deadline is not None or pod.options.expected_duration is not None
        _note(self.leaving, pod, concerned=pod.deleting and pod.bound)
        _note(self.timed, pod, concerned=ends and pod.bound)
        gang = self.gangs.put_pod(pod, now) if self.is_member(pod) else None
        if pod.bound:
            self.table.claim(
                pod.uid,
                pod.node_name,
                pod.shape,
                lasting=not self.manages(pod),
                observed=pod.observed,
                predicted=pod.predicted,
            )
            if before is not None and before.deleting != pod.deleting:
                self.table.outdate()  # what is about to be free counts for gangs that others would have to leave for
        elif pod.done or (before is not None and before.bound):
            self.table.release(pod.uid)
        return PodChange(before, pod, gang)

    def drop_pod(self, uid: str) -> PodChange:
        """Forget a pod that was deleted."""
        before = self.pods.pop(uid, None)
        for some in (self._excessive, self.leaving, self.timed):
            some.pop(uid, None)
        if before is not None and before.controller:
            self.workloads.drop_pod(before)
        gang = None if before is None else self._leave(before)
        self.table.release(uid)
        self.devices.drop_pod(uid)
        return PodChange(before, None, gang)

    def _leave(self, pod: Pod) -> Gang | None:
        """Take a pod out of its gang; return the gang."""
        gang = self.gangs.drop_pod(pod)
        if gang is not None and not gang.members:
            gang.outlived = self.manages(pod)
        return gang

    def put_node(self, node: Node) -> bool:
        """Take in a node; return whether anything that matters changed."""
        node = self.devices.node(node)
        self.network.put_node(node)
        self.hardware.put_node(node)
        return self.table.upsert(node)

    def drop_node(self, name: str) -> bool:
        """Forget a node; return whether it was there."""
        self.devices.drop_node(name)
        self.network.drop_node(name)
        self.hardware.drop_node(name)
        return self.table.remove(name)

    def problems(self) -> Mapping[ObjectRef, tuple[Problem, ...]]:
        """Return what is wrong with the objects that describe network and hardware, for their authors."""
        return {**self.network.problems(), **self.hardware.problems()}


class Hardware:
    """Take in NUMA zones, partitions of GPUs and measured bandwidths; no verdict stands that rests on former ones.

    Each method tells whether anything changed.
    """

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._occupancy = table.occupancy
        self._described: dict[str, tuple[object, ...]] = {}  # all that is said of the GPUs of each node
        self._reports: dict[str, DeviceReport] = {}
        self._measured: tuple[ObjectRef, Mapping[str, str]] | None = None
        self._problems: dict[tuple[str, str], tuple[ObjectRef, tuple[Problem, ...]]] = {}

    def problems(self) -> dict[ObjectRef, tuple[Problem, ...]]:
        """Return what is wrong with the objects that describe hardware."""
        return dict(self._problems.values())

    def put_node(self, node: Node) -> None:
        """Look through what is said of the GPUs of a node that was added or changed; the occupancy sees it itself."""
        labels = tuple(node.labels.get(each) for each in PRODUCT_LABELS)
        described = node.annotations, node.gpus[1], labels, node.described
        if self._described.get(node.name) != described:
            self._described[node.name] = described
            self._find("Node", ObjectRef("v1", "Node", "", node.name, node.uid), gpu_problems(node))

    def drop_node(self, name: str) -> None:
        """Forget what a node's annotations say."""
        self._described.pop(name, None)
        self._problems.pop(("Node", name), None)

    def put_topology(self, topology: NodeTopology) -> bool:
        """Take in a node's NUMA zones."""
        return self._reassess(topology.node, changed=self._occupancy.put_topology(topology))

    def drop_topology(self, name: str) -> bool:
        """Forget the NUMA zones of the node called `name`."""
        return self._reassess(name, changed=self._occupancy.drop_topology(name))

    def put_report(self, report: DeviceReport) -> bool:
        """Take in what is said of a node's GPUs; of a table that cannot be read nothing counts."""
        if self._reports.get(report.node) == report:
            return False
        self.drop_report(report.node)
        self._reports[report.node] = report
        if report.partitions:
            try:
                self._occupancy.put_partitions(report.node, read_partitions(report.partitions))
            except LinksError as error:
                problem = Problem(f"metadata.annotations[{GPU_PARTITIONS}]", str(error))
                self._find("Device", report.about, (problem,))
        return self._reassess(report.node, changed=True)

    def drop_report(self, name: str) -> bool:
        """Forget what was said of the GPUs of the node called `name`."""
        self._occupancy.drop_partitions(name)
        self._problems.pop(("Device", name), None)
        return self._reassess(name, changed=self._reports.pop(name, None) is not None)

    def put_calibration(self, about: ObjectRef, data: Mapping[str, str]) -> bool:
        """Take in measured bandwidths."""
        if self._measured == (about, data):
            return False
        self._measured = (about, data)
        products = Products(read_calibration(data))
        self._find("ConfigMap", about, products.problems)
        self._use(products)
        return True

    def drop_calibration(self) -> bool:
        """Forget the measured bandwidths."""
        if self._measured is None:
            return False
        about, _data = self._measured
        self._measured = None
        self._problems.pop(("ConfigMap", about.name), None)
        self._use(Products())
        return True

    def _use(self, products: Products) -> None:
        """Predict with another table, unless it says the same."""
        if products != self._occupancy.products:
            self._occupancy.products = products
        self._table.outdate()

    def _reassess(self, node: str, *, changed: bool) -> bool:
        """Let nothing stand that was decided on what was known of a node before; return `changed`."""
        if changed:
            self._table.reassess(node)
        return changed

    def _find(self, kind: str, about: ObjectRef, problems: tuple[Problem, ...]) -> None:
        if problems:
            self._problems[kind, about.name] = (about, problems)
        else:
            self._problems.pop((kind, about.name), None)


def _note(some: dict[str, Pod], pod: Pod, *, concerned: bool) -> None:
    """Let a pod be among some if they concern it, as it is now."""
    if concerned:
        some[pod.uid] = pod
    elif some:
        some.pop(pod.uid, None)
