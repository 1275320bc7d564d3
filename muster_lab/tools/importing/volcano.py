"""Volcano's Queues as Muster's.

Two plugins of Volcano share out a cluster. With `capacity` a queue deserves what `deserved` says, may use up to
`capability`, and keeps `guarantee` for itself. That is Kueue's and Muster's arithmetic in other words: nominal quota,
and limits of what is borrowed and lent. With `proportion` a queue deserves a part of the cluster by its weight. How
large the cluster is no Queue says, so that it has to be told. Sources in volcano-sh/volcano:
docs/design/capacity-scheduling.md, docs/design/hierarchical-queue-on-capacity-plugin.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from extender.objects.requests import QuantityError, amount, format_amount
from muster_lab.tools import foreignqueues as wire
from muster_lab.tools.importing.objects import (
    NO_NAMESPACE,
    ForeignObject,
    ImportDifference,
    Imported,
    ImportingError,
    queue_manifest,
)

GROUP = "scheduling.volcano.sh"

#: The queue above all others, and the one that takes what names none. Source: both are made by Volcano itself.
ROOT, _DEFAULT = "root", "default"
#: Volcano knows no flavors: all nodes are of one.
_FLAVOR = "default"
_CLOSED = frozenset({"Closed", "Closing"})

_FIELDS = {
    "spec.affinity": "gangs of a queue go to the nodes that their pods' selectors and affinity allow",
    "spec.dra": "resource claims are not counted",
    "spec.extendClusters": "there is one cluster",
}
#: A label for people. Source: no plugin of Volcano reads it.
_EQUAL = frozenset({"spec.type"})
_HIERARCHY = "volcano.sh/hierarchy"


@dataclass(slots=True)
class _Queue:
    """A queue as Volcano has it, its children, and what it amounts to, by resource (milli-CPU, bytes, counts).

    `due` is what it deserves, children included; `own` what it has beyond what its children deserve; `lendable` what
    of both its parent sees, and `kept` what it does not.
    """

    source: ForeignObject
    spec: wire.VolcanoQueueSpec
    children: list[_Queue] = field(default_factory=list)
    closed: bool = False
    due: dict[str, int] = field(default_factory=dict)
    own: dict[str, int] = field(default_factory=dict)
    lendable: dict[str, int] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)

    def amounts(self, name: str, quantities: wire.Quantities | None) -> dict[str, int]:
        """Return a resource list in integer units; raise ImportingError naming the field."""
        found = {}
        for resource, quantity in (quantities or {}).items():
            try:
                found[resource] = amount(resource, quantity)
            except QuantityError as error:
                raise ImportingError(f"{self.source}: spec.{name}.{resource}: {error}") from error
        return found

    @property
    def deserved(self) -> dict[str, int]:
        """Return what `deserved` says."""
        return self.amounts("deserved", self.spec.deserved)

    @property
    def capability(self) -> dict[str, int]:
        """Return what `capability` says."""
        return self.amounts("capability", self.spec.capability)

    @property
    def guarantee(self) -> dict[str, int]:
        """Return what `guarantee` says."""
        return self.amounts("guarantee.resource", None if self.spec.guarantee is None else self.spec.guarantee.resource)

    @property
    def weight(self) -> int:
        """Return its weight, 1 by default."""
        return self.spec.weight or 1


@dataclass(slots=True)
class _Volcano:
    """The tree of queues, the cluster's capacity as far as it is told, and what is found on the way."""

    root: _Queue
    capacity: Mapping[str, int]
    differences: list[ImportDifference] = field(default_factory=list)

    def differ(self, about: object, path: str, instead: str) -> None:
        """Note what is done otherwise."""
        self.differences.append(ImportDifference(str(about), path, instead))

    @property
    def by_weight(self) -> bool:
        """Tell whether shares come from weights: no queue says what it deserves."""
        return not any(queue.spec.deserved for queue in _all(self.root))


def import_volcano(objects: Iterable[ForeignObject], capacity: Mapping[str, int]) -> Imported:
    """Translate Volcano's Queues; raise ImportingError for fields that cannot be read.

    `capacity` is what the cluster has, by resource (milli-CPU, bytes, counts). What no queue deserves of it is there
    for all to borrow, as it is in Volcano.
    """
    volcano = _tree(objects, capacity)
    for resource in _resources(volcano):
        _entitle(volcano, resource)
    manifests = tuple(_manifest(volcano, queue, parent) for queue, parent in _walk(volcano.root, ""))
    return Imported(manifests, tuple(volcano.differences))


def _tree(objects: Iterable[ForeignObject], capacity: Mapping[str, int]) -> _Volcano:
    """Hang each queue under its parent, all others under the root; a cycle is refused, as Volcano refuses it."""
    differences: list[ImportDifference] = []
    queues: dict[str, _Queue] = {}
    for one in objects:
        if (one.group, one.kind) != (GROUP, "Queue"):
            differences.append(ImportDifference(str(one), "", "not imported"))
            continue
        state = one.part("status", wire.VolcanoQueueStatus).state
        queues[one.name] = _Queue(one, one.part("spec", wire.VolcanoQueueSpec), closed=state in _CLOSED)
        differences += _leftover(one)
    if not queues:
        raise ImportingError("no Queue of Volcano's in these files")
    root = queues.pop(ROOT, None) or _Queue(ForeignObject(GROUP, "Queue", ROOT), wire.VolcanoQueueSpec())
    for queue in queues.values():
        parent = queue.spec.parent or ROOT
        if parent != ROOT and parent not in queues:
            raise ImportingError(f"{queue.source}: spec.parent: there is no Queue {parent} in these files")
        (root if parent == ROOT else queues[parent]).children.append(queue)
    if lost := queues.keys() - {queue.source.name for queue in _all(root)}:
        raise ImportingError(f"Queue {min(lost)}: spec.parent: its parents are a cycle")
    return _Volcano(root, capacity, differences)


def _leftover(one: ForeignObject) -> Iterator[ImportDifference]:
    """Yield each field that is not read."""
    for path in dict.fromkeys(path for path, _ in one.unmapped("spec", wire.VolcanoQueueSpec)):
        if path not in _EQUAL:
            yield ImportDifference(str(one), path, _FIELDS.get(path, "left out: nothing is known of this field"))
    annotations = (one.body.get("metadata") or {}).get("annotations") or {}
    if _HIERARCHY in annotations:
        instead = "left out: the tree is what spec.parent says"
        yield ImportDifference(str(one), f"metadata.annotations.{_HIERARCHY}", instead)


def _all(queue: _Queue) -> Iterator[_Queue]:
    yield queue
    for child in queue.children:
        yield from _all(child)


def _walk(queue: _Queue, parent: str) -> Iterator[tuple[_Queue, str]]:
    """Yield each queue with its parent's name, parents first."""
    yield queue, parent
    for child in queue.children:
        yield from _walk(child, queue.source.name)


def _resources(volcano: _Volcano) -> list[str]:
    """Return the resources that are limited: those whose amount in the cluster is given, or that a queue deserves."""
    known: dict[str, None] = dict.fromkeys(volcano.capacity)
    for queue in _all(volcano.root):
        known |= dict.fromkeys([*queue.deserved, *queue.guarantee])
    for queue in _all(volcano.root):
        for resource in queue.capability.keys() - known.keys():
            instead = f"not limited: how much there is to borrow is not known; give --capacity {resource}=QUANTITY"
            volcano.differ(queue.source, f"spec.capability.{resource}", instead)
    for resource in known.keys() - volcano.capacity.keys():
        instead = f"what no queue deserves of the cluster stays unused; give --capacity {resource}=QUANTITY"
        volcano.differ(volcano.root.source, f"spec.deserved.{resource}", instead)
    return list(known)


def _entitle(volcano: _Volcano, resource: str) -> None:
    """Work out what every queue has of a resource: what it deserves downwards, what it lends upwards."""
    root = volcano.root
    stated = root.deserved.get(resource, root.capability.get(resource, 0))
    _deserve(volcano, root, resource, volcano.capacity.get(resource, stated))
    _lend(root, resource)
    if (told := volcano.capacity.get(resource)) is not None and root.due[resource] > told:
        has, due = format_amount(resource, told), format_amount(resource, root.due[resource])
        volcano.differ(root.source, f"spec.deserved.{resource}", f"queues deserve {due} of {has}: quota without nodes")


def _deserve(volcano: _Volcano, queue: _Queue, resource: str, due: int) -> None:
    """Say what a queue deserves, and its children: what they state, or their weights' parts of what it deserves."""
    total = sum(child.weight for child in queue.children)
    for child in queue.children:
        part = due * child.weight // total if volcano.by_weight else child.deserved.get(resource, 0)
        part = max(part, child.guarantee.get(resource, 0))
        _deserve(volcano, child, resource, min(part, child.capability.get(resource, part)))
    children = sum(child.due[resource] for child in queue.children)
    queue.due[resource] = max(due, children)
    queue.own[resource] = queue.due[resource] - children


def _lend(queue: _Queue, resource: str) -> None:
    """Say how much of what a queue has its parent sees: all but what it guarantees, children's guarantees included."""
    for child in queue.children:
        _lend(child, resource)
    below = sum(child.kept[resource] for child in queue.children)
    seen = queue.own[resource] + sum(child.lendable[resource] for child in queue.children)
    here = min(seen, max(0, queue.guarantee.get(resource, 0) - below))
    queue.lendable[resource], queue.kept[resource] = seen - here, below + here


def _manifest(volcano: _Volcano, queue: _Queue, parent: str) -> dict[str, Any]:
    spec, one = queue.spec, queue.source
    if spec.reclaimable is False and parent:
        instead = (
            "what it uses above its nominal quota can be reclaimed; muster.dev/preemptible: 'false' protects a gang"
        )
        volcano.differ(one, "spec.reclaimable", instead)
    if (spec.weight or 1) != 1:
        volcano.differ(one, "spec.weight", _weight_instead(volcano))
    strategy = {"fifo": "StrictFIFO", "traverse": "BestEffortFIFO", None: None}.get(spec.dequeue_strategy, "")
    if strategy == "":
        raise ImportingError(f"{one}: spec.dequeueStrategy: '{spec.dequeue_strategy}' is neither fifo nor traverse")
    resources = [_quota(queue, resource, limits=bool(parent)) for resource in queue.due]
    return queue_manifest(
        one.name,
        {
            "parent": parent or None,
            "flavors": [{"name": _FLAVOR, "resources": resources}] if resources else None,
            "weight": str(queue.weight) if volcano.by_weight and queue.weight != 1 else None,
            "priority": spec.priority or None,
            "namespaceSelector": NO_NAMESPACE if queue.children or not parent else None,
            "default": True if one.name == _DEFAULT else None,
            "queueingStrategy": strategy,
            "preemption": {"withinQueue": "LowerPriority", "reclaimWithinCohort": "Any"} if parent else None,
            "stopPolicy": "Hold" if queue.closed else None,
        },
    )


def _weight_instead(volcano: _Volcano) -> str:
    if not volcano.by_weight:
        return "left out: the capacity plugin does not look at it either"
    if volcano.capacity:
        return "its part of --capacity is nominal quota once and for all; Volcano keeps dividing what is not asked for"
    return "orders the queues, and none reclaims: without --capacity no queue has a part of the cluster"


def _quota(queue: _Queue, resource: str, *, limits: bool) -> dict[str, Any]:
    quota: dict[str, Any] = {"name": resource, "nominalQuota": format_amount(resource, queue.own[resource])}
    if not limits:
        return quota
    if (capability := queue.capability.get(resource)) is not None:
        quota["borrowingLimit"] = format_amount(resource, max(0, capability - queue.due[resource]))
    if queue.guarantee.get(resource):
        quota["lendingLimit"] = format_amount(resource, queue.lendable[resource])
    return quota
