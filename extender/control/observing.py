"""What the watches tell, taken in: the way from news of an object to the admission and to whoever waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog

from extender.control.arrivals import Arrivals
from extender.control.expectation import Expectation
from extender.control.leadership import Leadership
from extender.control.metrics import Metrics
from extender.control.nominations import Nominations
from extender.control.ports import REQUIRED_KINDS, Kind
from extender.control.watches import Watches
from extender.domain.budget import DisruptionBudget
from extender.domain.devices import DeviceReport
from extender.domain.hypernodes import HyperNode
from extender.domain.lease import Lease
from extender.domain.levelobjects import LevelList
from extender.domain.membership import GroupRef
from extender.domain.node import Node
from extender.domain.objectref import ObjectRef
from extender.domain.pod import Pod
from extender.domain.podgroup import PodGroup
from extender.domain.queue import Queue
from extender.numa.nodetopology import NodeTopology
from extender.recording.recorder import Recorder

log = structlog.get_logger("muster.control")


@dataclass(frozen=True, slots=True)
class Reactions:
    """What the controller does about news: carry out what the admission asks for, and do as health demands."""

    settle: Callable[[], None]
    follow_health: Callable[[], object]
    end_lapsed_term: Callable[[], None]


class Observing:
    """Take in what the watches tell. Implements `extender.control.observer.Observer`; nothing here blocks.

    Attributes:
        listed: set whenever all kinds have been listed, and one of them anew.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - whoever waits for news is told here
        self,
        recorder: Recorder,
        watches: Watches,
        leadership: Leadership,
        metrics: Metrics,
        expected: Expectation[str],
        arrivals: Arrivals,
        nominations: Nominations,
        reactions: Reactions,
    ) -> None:
        """Tell these."""
        self._recorder = recorder
        self._model = recorder.admission.model
        self._watches = watches
        self._leadership = leadership
        self._metrics = metrics
        self._expected = expected
        self._arrivals = arrivals
        self._nominations = nominations
        self._reactions = reactions
        self._default_priorities: dict[str, int] = {}
        self.priorities: dict[str, int] = {}
        self.listed = asyncio.Event()

    # Who wants to be placed.

    def pod_seen(self, pod: Pod) -> None:
        """Take in a pod."""
        joined = pod.group if pod.uid not in self._model.pods else None
        self._recorder.pod_seen(pod)
        self._expected.met(pod.uid)
        if joined is not None and not self._completes(joined):
            self._arrivals.joined(joined)
        self._reactions.settle()

    def pod_gone(self, uid: str) -> None:
        """Forget a pod."""
        self._recorder.pod_gone(uid)
        self._nominations.forget(uid)
        self._reactions.settle()

    def group_seen(self, group: PodGroup) -> None:
        """Take in a PodGroup."""
        self._recorder.group_seen(group)
        self._completes(group.ref)
        self._reactions.settle()

    def group_gone(self, ref: GroupRef, uid: str) -> None:
        """Forget a PodGroup."""
        self._recorder.group_gone(ref, uid)
        self._reactions.settle()

    def default_priority(self) -> int:
        """Return the highest value among global default PriorityClasses, 0 without one."""
        return max(self._default_priorities.values(), default=0)

    def priority_class_seen(self, name: str, value: int, *, global_default: bool) -> None:
        """Take in a PriorityClass; only a global default changes anything, and only for pods seen later."""
        self.priorities[name] = value
        if global_default:
            self._default_priorities[name] = value
        else:
            self._default_priorities.pop(name, None)

    def priority_class_gone(self, name: str) -> None:
        """Forget a PriorityClass."""
        self.priorities.pop(name, None)
        self._default_priorities.pop(name, None)

    # Who shares the room, and what protects those who have some.

    def queue_seen(self, queue: Queue) -> None:
        """Take in a Queue."""
        self._recorder.queue_seen(queue)
        self._reactions.settle()

    def queue_gone(self, name: str) -> None:
        """Forget a Queue."""
        self._recorder.queue_gone(name)
        self._reactions.settle()

    def namespace_seen(self, name: str, labels: Mapping[str, str]) -> None:
        """Take in a namespace."""
        self._recorder.namespace_seen(name, labels)
        self._reactions.settle()

    def namespace_gone(self, name: str) -> None:
        """Forget a namespace."""
        self._recorder.namespace_gone(name)
        self._reactions.settle()

    def budget_seen(self, budget: DisruptionBudget) -> None:
        """Take in a PodDisruptionBudget."""
        self._recorder.budget_seen(budget)
        self._reactions.settle()

    def budget_gone(self, namespace: str, name: str) -> None:
        """Forget a PodDisruptionBudget."""
        self._recorder.budget_gone(namespace, name)
        self._reactions.settle()

    # Where there is room, and how it is connected.

    def node_seen(self, node: Node) -> None:
        """Take in a node."""
        if node.problem is not None:
            log.warning("node is not usable", node=node.name, problem=str(node.problem))
        self._recorder.node_seen(node)
        self._reactions.settle()

    def node_gone(self, name: str) -> None:
        """Forget a node."""
        self._recorder.node_gone(name)
        self._reactions.settle()

    def node_topology_seen(self, topology: NodeTopology) -> None:
        """Take in a node's NUMA zones."""
        if topology.problem is not None:
            log.warning("NodeResourceTopology has a problem", node=topology.node, problem=str(topology.problem))
        self._learned(new=self._recorder.node_topology_seen(topology))

    def node_topology_gone(self, name: str) -> None:
        """Forget a node's NUMA zones."""
        self._learned(new=self._recorder.node_topology_gone(name))

    def hyper_node_seen(self, hyper_node: HyperNode) -> None:
        """Take in a HyperNode."""
        self._learned(new=self._recorder.hyper_node_seen(hyper_node))

    def hyper_node_gone(self, name: str) -> None:
        """Forget a HyperNode."""
        self._learned(new=self._recorder.hyper_node_gone(name))

    def levels_seen(self, levels: LevelList) -> None:
        """Take in an object that lists network tiers."""
        self._learned(new=self._recorder.levels_seen(levels))

    def levels_gone(self, group: str, name: str) -> None:
        """Forget an object that listed network tiers."""
        self._learned(new=self._recorder.levels_gone(group, name))

    def device_seen(self, report: DeviceReport) -> None:
        """Take in what is said of a node's GPUs."""
        self._learned(new=self._recorder.device_seen(report))

    def device_gone(self, name: str) -> None:
        """Forget what was said of a node's GPUs."""
        self._learned(new=self._recorder.device_gone(name))

    def calibration_seen(self, about: ObjectRef, data: Mapping[str, str]) -> None:
        """Take in measured bandwidths."""
        self._learned(new=self._recorder.calibration_seen(about, data))

    def calibration_gone(self) -> None:
        """Forget the measured bandwidths."""
        self._learned(new=self._recorder.calibration_gone())

    # Who decides.

    def lease_seen(self, lease: Lease) -> None:
        """Take in the scheduler's Lease, which may make this replica the active one, or end that.

        Somebody else may have led between a Lease that lapsed and this one, however it came back.
        """
        self._reactions.end_lapsed_term()
        self._leadership.lease_seen(lease)
        self._reactions.follow_health()

    def lease_gone(self) -> None:
        """Take in that there is no Lease."""
        self._leadership.lease_gone()
        self._reactions.follow_health()

    # How the watches are.

    def synced(self, kind: Kind) -> None:
        """Learn that a list of a kind is complete; when there is one of each, take up work."""
        before = self._watches.complete(REQUIRED_KINDS)
        self._watches.synced(kind)
        if self._watches.complete(REQUIRED_KINDS):
            self.listed.set()
            if not before:
                levels = self._model.levels
                log.info(
                    "synced",
                    gangs=len(self._model.gangs),
                    nodes=len(self._model.table),
                    levels=[level.name for level in levels.levels],
                    levels_from=levels.source,
                )
        self._reactions.follow_health()

    def heard(self, kind: Kind) -> None:
        """Learn that a watch is alive."""
        stale = self._watches.stale()
        self._watches.heard(kind)
        if stale:
            self._reactions.follow_health()

    def skipped(self, kind: Kind) -> None:
        """Learn that an object could not be decoded."""
        self._metrics.undecodable.labels(kind).inc()

    def watch_restarted(self, kind: Kind, cause: str) -> None:
        """Learn that a watch had to start again."""
        self._watches.restarted(kind, cause)

    def _completes(self, ref: GroupRef) -> bool:
        """Tell whether a gang has all its members now, and let nobody wait for more of it."""
        gang = self._model.gangs.get(ref)
        complete = gang is None or gang.is_complete
        if complete:
            self._arrivals.completed(ref)
        return complete

    def _learned(self, *, new: bool) -> None:
        """Have everybody judged anew when something is known that was not."""
        if new:
            self._reactions.settle()
