"""What the gangs of each Queue use, by the simulation's own count of pods on nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from extender.control.ports import WatchedKind
from extender.objects.queue import Queue
from extender.queues.tree import QueueTree
from muster_lab.simulation.cluster import Cluster
from muster_lab.simulation.objects import Stored
from muster_lab.simulation.workload import Workload


@dataclass(frozen=True, slots=True)
class FlavorUse:
    """What a queue uses in one flavor: resource -> milli-CPU, bytes or count, of all resources that have a quota.

    `borrowed` is what of `used` is others' quota, `lent` what of the queue's own others use.
    """

    name: str
    used: Mapping[str, int]
    borrowed: Mapping[str, int]
    lent: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class QueueUse:
    """What a queue uses in each of its flavors, and the share that fair sharing goes by."""

    name: str
    flavors: tuple[FlavorUse, ...]
    share: float

    @property
    def used(self) -> Mapping[str, int]:
        """Return what it uses in all flavors together."""
        return self._total(lambda flavor: flavor.used)

    @property
    def borrowed(self) -> Mapping[str, int]:
        """Return what it borrows in all flavors together."""
        return self._total(lambda flavor: flavor.borrowed)

    @property
    def lent(self) -> Mapping[str, int]:
        """Return what it lends in all flavors together."""
        return self._total(lambda flavor: flavor.lent)

    def _total(self, of: Callable[[FlavorUse], Mapping[str, int]]) -> Mapping[str, int]:
        total: dict[str, int] = {}
        for flavor in self.flavors:
            for resource, amount in of(flavor).items():
                total[resource] = total.get(resource, 0) + amount
        return total


def queue_uses(cluster: Cluster, workload: Workload) -> tuple[QueueUse, ...]:
    """Return what the queues of a cluster use now, in the order of their creation.

    A pod that holds resources on a node counts in the first flavor of its gang's queue that this node is of; on a node
    of none it counts for the share alone. A queue that Muster cannot use uses nothing.
    """
    queues = [version.value for version in cluster.list(WatchedKind.QUEUE) if isinstance(version.value, Queue)]
    if not queues:
        return ()
    tree = QueueTree(queues)
    nodes = {version.key.name: version.node for version in cluster.list(WatchedKind.NODE)}
    totals: Counter[str] = Counter()
    for node in nodes.values():
        totals.update(node.allocatable)
    for version in cluster.list(WatchedKind.POD):
        if not version.pod.bound or version.pod.node_name not in nodes:
            continue
        queue, labels = queue_of(cluster, workload, tree, version), nodes[version.pod.node_name].labels
        if queue not in tree:
            continue
        flavor = next((name for name in tree.flavors(queue) if _is_of(tree, queue, name, labels)), "")
        tree.charge(queue, flavor, dict(version.pod.shape.requests))
    return tuple(_use(tree, queue.name, totals) for queue in queues)


def queue_of(cluster: Cluster, workload: Workload, tree: QueueTree, version: Stored) -> str:
    """Return the queue of a gang's pod: the one that the scenario names, else its namespace's; empty for none."""
    run = workload.find(version.key.namespace, version.key.name)
    if run is None or run.spec.queue:
        return "" if run is None else run.spec.queue
    namespace = cluster.find(WatchedKind.NAMESPACE, "", version.key.namespace)
    labels = {} if namespace is None else namespace.json["metadata"].get("labels", {})
    return tree.default_for(version.key.namespace, labels)


def _is_of(tree: QueueTree, queue: str, flavor: str, labels: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in tree.node_selector(queue, flavor))


def _use(tree: QueueTree, name: str, totals: Mapping[str, int]) -> QueueUse:
    if name not in tree:
        return QueueUse(name, (), 0.0)
    flavors = []
    for flavor in tree.flavors(name):
        limited = sorted(tree.limited(name, flavor))
        flavors.append(
            FlavorUse(
                flavor,
                {resource: tree.used(name, flavor, resource) for resource in limited},
                {resource: tree.borrowed(name, flavor, resource) for resource in limited},
                {resource: tree.lent(name, flavor, resource) for resource in limited},
            )
        )
    return QueueUse(name, tuple(flavors), tree.share(name, totals).borrowed)
