"""An observer that keeps what it is told."""

from __future__ import annotations

from extender.admission import events
from extender.control.ports import LeaseGone, LeaseSeen, News, WatchedKind
from extender.control.watched import REQUIRED_KINDS
from extender.objects.lease import Lease
from extender.objects.node import Node
from extender.objects.pod import Pod
from extender.objects.podgroup import PodGroup
from tests.kube.changes import Changes

Told = tuple[str, ...]


class Recorder(Changes):
    """Keep every call, and the objects themselves; implements `extender.control.ports.EventSink`."""

    def __init__(self) -> None:
        """Know nothing yet."""
        super().__init__()
        self.told: list[Told] = []
        self.pods: list[Pod] = []
        self.nodes: list[Node] = []
        self.groups: list[PodGroup] = []
        self.leases: list[Lease] = []
        self.synced_kinds: list[str] = []
        self.restarts: list[str] = []
        self.failures: list[str] = []
        self.skipped_kinds: list[str] = []
        self.heard_of = 0

    def tell(self, event: News) -> None:
        """Keep an event."""
        match event:
            case events.PodSeen(pod):
                self.pods.append(pod)
            case events.NodeSeen(node):
                self.nodes.append(node)
            case events.GroupSeen(group):
                self.groups.append(group)
            case LeaseSeen(lease):
                self.leases.append(lease)
        self.keep(*_words(event))

    def keep(self, *words: str) -> None:
        """Keep something that was told, in words."""
        self.told.append(words)
        self.changed()

    def skipped(self, kind: str) -> None:
        """Keep that something was skipped."""
        self.skipped_kinds.append(kind)

    def synced(self, kind: str) -> None:
        """Keep that a kind is complete."""
        self.synced_kinds.append(kind)
        self.keep("synced")

    def heard(self, kind: str) -> None:
        """Count signs of life."""
        assert kind == WatchedKind.LEASE or kind in REQUIRED_KINDS
        self.heard_of += 1
        self.changed()

    def watch_restarted(self, kind: str, cause: str, detail: str = "") -> None:
        """Keep why a watch started again."""
        assert kind == WatchedKind.LEASE or kind in REQUIRED_KINDS
        self.restarts.append(str(cause))
        self.failures.append(detail)
        self.changed()


def _words(event: News) -> Told:  # noqa: C901, PLR0911, PLR0912 - one line for each kind
    """Return what an event is, and about what."""
    match event:
        case events.PodSeen(pod):
            return "pod seen", pod.key, pod.uid
        case events.PodGone(uid):
            return "pod gone", uid
        case events.NodeSeen(node):
            return "node seen", node.name
        case events.NodeGone(name):
            return "node gone", name
        case events.GroupSeen(group):
            return "group seen", group.ref.api, str(group.ref), group.uid
        case events.GroupGone(ref, uid):
            return "group gone", ref.api, str(ref), uid
        case events.QueueSeen(queue):
            return "queue seen", queue.name, queue.uid, *map(str, queue.problems)
        case events.QueueGone(name):
            return "queue gone", name
        case events.NamespaceSeen(name, labels):
            return "namespace seen", name, *(f"{key}={value}" for key, value in labels.items())
        case events.NamespaceGone(name):
            return "namespace gone", name
        case events.BudgetSeen(budget):
            return "budget seen", budget.key, str(budget.allowed)
        case events.BudgetGone(namespace, name):
            return "budget gone", f"{namespace}/{name}"
        case events.PriorityClassSeen(name, value, global_default):
            return "class seen", name, str(value), "default" if global_default else ""
        case events.PriorityClassGone(name):
            return "class gone", name
        case LeaseSeen():
            return ("lease seen",)
        case LeaseGone():
            return ("lease gone",)
        case events.NodeTopologySeen(topology):
            return "node topology seen", topology.node, str(topology.policy)
        case events.NodeTopologyGone(name):
            return "node topology gone", name
        case events.HyperNodeSeen(hyper_node):
            return "hyper node seen", hyper_node.name, str(hyper_node.tier)
        case events.HyperNodeGone(name):
            return "hyper node gone", name
        case events.LevelsSeen(levels):
            return "levels seen", levels.about.group, levels.about.name, *(level.label for level in levels.levels)
        case events.LevelsGone(api_group, name):
            return "levels gone", api_group, name
        case events.DeviceSeen(report):
            return "device seen", report.node, report.partitions
        case events.DeviceGone(name):
            return "device gone", name
        case events.CalibrationSeen(about, data):
            return "calibration seen", str(about), *data.values()
        case events.CalibrationGone():
            return ("calibration gone",)
        case _:
            raise AssertionError(event)
