"""Kueue's ClusterQueues, Cohorts, LocalQueues, ResourceFlavors and WorkloadPriorityClasses as Muster's Queues."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from extender.objects.requests import QuantityError, parse_quantity
from muster_lab.tools import foreignqueues as wire
from muster_lab.tools.importing.objects import (
    NAMESPACE_NAME,
    NO_NAMESPACE,
    ForeignObject,
    ImportDifference,
    Imported,
    ImportingError,
    priority_class_manifest,
    queue_manifest,
)

GROUP = "kueue.x-k8s.io"

#: The LocalQueue that takes what names none. Source: Kueue's LocalQueueDefaulting.
_DEFAULT = "default"
#: A weight of 0 means to Kueue: after all others that borrow. Muster's weights are positive.
_LAST_WEIGHT = "0.000001"
#: Values that an expression of a Queue's namespace selector may list. Source: manifests/queue-crd.yaml.
_MOST_NAMESPACES = 64

#: ClusterQueue's fields without an equal, and what Muster does instead.
_CLUSTER_QUEUE_FIELDS = {
    "spec.admissionChecks": "gangs start without these checks",
    "spec.admissionChecksStrategy": "gangs start without these checks",
    "spec.admissionScope": "usage is remembered for all queues or for none: setting fair_share_half_life_seconds",
    "spec.concurrentAdmissionPolicy": "a gang stays in the flavor in which it has started",
}
#: What Muster does by itself: resources without quota are not limited.
_CLUSTER_QUEUE_EQUAL = frozenset({"spec.excludeResourcePrefixes"})
_LOCAL_QUEUE_FIELDS = {
    "spec.stopPolicy": "the Queue is stopped for all namespaces or for none: set its stopPolicy",
    "spec.fairSharing": "namespaces of one Queue have no shares of their own: give each a child Queue with a weight",
    "spec.fairSharing.weight": "namespaces of one Queue have no shares of their own: give each a child Queue",
    "spec.wallTimePolicy": "GPU-hours are not limited",
}
_FLAVOR_FIELDS = {
    "spec.nodeTaints": "the taints count that the nodes have",
    "spec.tolerations": "Muster adds no tolerations to pods: write them into the pod templates",
    "spec.resourceWeights": "all resources count alike in a share",
}
#: Muster reads Kueue's Topology itself, for all nodes.
_FLAVOR_EQUAL = frozenset({"spec.topologyName"})


class Naming(StrEnum):
    """After what Queues are named."""

    LOCAL_QUEUE = "local-queue"
    CLUSTER_QUEUE = "cluster-queue"


@dataclass(slots=True)
class _Kueue:
    """What the files hold, by name, and what is found on the way."""

    cluster_queues: dict[str, tuple[ForeignObject, wire.ClusterQueueSpec]] = field(default_factory=dict)
    cohorts: dict[str, tuple[ForeignObject, wire.CohortSpec]] = field(default_factory=dict)
    flavors: dict[str, tuple[ForeignObject, wire.ResourceFlavorSpec]] = field(default_factory=dict)
    local_queues: list[tuple[ForeignObject, wire.LocalQueueSpec]] = field(default_factory=list)
    priorities: list[ForeignObject] = field(default_factory=list)
    differences: list[ImportDifference] = field(default_factory=list)

    def differ(self, about: object, path: str, instead: str) -> None:
        """Note what is done otherwise."""
        self.differences.append(ImportDifference(str(about), path, instead))

    def leftover(
        self, one: ForeignObject, kind: type[Any], known: Mapping[str, str], equal: frozenset[str] = frozenset()
    ) -> None:
        """Note each field of an object's spec that is not read, once."""
        for path in dict.fromkeys(path for path, _ in one.unmapped("spec", kind)):
            if path not in equal:
                self.differ(one, path, known.get(path, "left out: nothing is known of this field"))


def import_kueue(objects: Iterable[ForeignObject], naming: Naming = Naming.LOCAL_QUEUE) -> Imported:
    """Translate what there is of Kueue; raise ImportingError for fields that cannot be read.

    A ClusterQueue becomes a Queue, a cohort the Queue above. Kueue's word for a queue on a pod is a LocalQueue's name.
    So with `naming` LOCAL_QUEUE a Queue is named after its LocalQueues where they share one name that no other
    ClusterQueue's have, and no pod needs to be changed.
    """
    kueue = _sorted(objects)
    names = _names(kueue, naming)
    cohorts = _cohort_names(kueue, set(names.values()))
    manifests = [
        *(_priority_class(kueue, one) for one in kueue.priorities),
        *(_cohort(kueue, name, cohorts) for name in cohorts),
        *(_cluster_queue(kueue, name, names, cohorts) for name in kueue.cluster_queues),
    ]
    if not names and not cohorts:
        raise ImportingError("no ClusterQueue or Cohort in these files")
    return Imported(tuple(manifests), tuple(kueue.differences))


def _sorted(objects: Iterable[ForeignObject]) -> _Kueue:
    """Put each object where it belongs, and note those that are none of the import's business."""
    kueue = _Kueue()
    for one in objects:
        match one.group, one.kind:
            case (group, "ClusterQueue") if group == GROUP:
                kueue.cluster_queues[one.name] = (one, one.part("spec", wire.ClusterQueueSpec))
                kueue.leftover(one, wire.ClusterQueueSpec, _CLUSTER_QUEUE_FIELDS, _CLUSTER_QUEUE_EQUAL)
            case (group, "Cohort") if group == GROUP:
                kueue.cohorts[one.name] = (one, one.part("spec", wire.CohortSpec))
                kueue.leftover(one, wire.CohortSpec, {})
            case (group, "LocalQueue") if group == GROUP:
                kueue.local_queues.append((one, one.part("spec", wire.LocalQueueSpec)))
                kueue.leftover(one, wire.LocalQueueSpec, _LOCAL_QUEUE_FIELDS)
            case (group, "ResourceFlavor") if group == GROUP:
                kueue.flavors[one.name] = (one, one.part("spec", wire.ResourceFlavorSpec))
                kueue.leftover(one, wire.ResourceFlavorSpec, _FLAVOR_FIELDS, _FLAVOR_EQUAL)
            case (group, "WorkloadPriorityClass") if group == GROUP:
                kueue.priorities.append(one)
            case (group, "Topology") if group == GROUP:
                pass  # Muster reads it from the cluster
            case _:
                kueue.differ(one, "", "not imported")
    return kueue


def _names(kueue: _Kueue, naming: Naming) -> dict[str, str]:
    """Return the Queue's name for each ClusterQueue, and note which names on pods have to be changed."""
    leading: dict[str, set[str]] = defaultdict(set)  # LocalQueue's name -> ClusterQueues it leads to
    reached: dict[str, set[str]] = defaultdict(set)  # ClusterQueue -> names of its LocalQueues
    for one, spec in kueue.local_queues:
        leading[one.name].add(spec.cluster_queue)
        reached[spec.cluster_queue].add(one.name)
    names = {}
    for name in kueue.cluster_queues:
        own = min(reached[name], default=name)
        alone = len(reached[name]) == 1 and len(leading[own]) == 1 and (own == name or own not in kueue.cluster_queues)
        names[name] = own if naming is Naming.LOCAL_QUEUE and alone else name
    for one, spec in kueue.local_queues:
        if spec.cluster_queue not in names:
            kueue.differ(one, "spec.clusterQueue", f"ClusterQueue {spec.cluster_queue} is not in these files")
        elif names[spec.cluster_queue] != one.name:
            kueue.differ(
                one,
                "metadata.name",
                f"pods say {GROUP}/queue-name: {one.name}; let them say muster.dev/queue: {names[spec.cluster_queue]}",
            )
    return names


def _cohort_names(kueue: _Kueue, taken: set[str]) -> dict[str, str]:
    """Return the Queue's name for each cohort, those included that are only named, parents before children."""
    parents = {name: spec.parent_name or spec.parent or "" for name, (_, spec) in kueue.cohorts.items()}
    wanted = [_cohort_of(spec) for _, spec in kueue.cluster_queues.values()]
    for name in (*parents.values(), *wanted):
        if name:
            parents.setdefault(name, "")
    names: dict[str, str] = {}
    for name in sorted(parents, key=lambda one: (len(_ancestors(one, parents)), one)):
        names[name] = f"{name}-cohort" if name in taken else name
        if names[name] != name:
            kueue.differ(f"Cohort {name}", "metadata.name", f"is called {names[name]}: a Queue has its name")
    return names


def _ancestors(name: str, parents: Mapping[str, str]) -> list[str]:
    """Return who is above a cohort; of a cycle every one once, which Muster refuses as Kueue does."""
    found: list[str] = []
    while (name := parents.get(name, "")) and name not in found:
        found.append(name)
    return found


def _cohort_of(spec: wire.ClusterQueueSpec) -> str:
    return spec.cohort_name or spec.cohort or ""


def _cohort(kueue: _Kueue, name: str, cohorts: Mapping[str, str]) -> dict[str, Any]:
    """Return the Queue of a cohort: it holds quota for its children, and no gangs."""
    one, spec = kueue.cohorts.get(name, (ForeignObject(GROUP, "Cohort", name), wire.CohortSpec()))
    parent = spec.parent_name or spec.parent or ""
    return queue_manifest(
        cohorts[name],
        {
            "parent": cohorts[parent] if parent else None,
            "flavors": _flavors(kueue, one, spec.resource_groups, limits=bool(parent)),
            "weight": _weight(kueue, one, spec.fair_sharing),
            "namespaceSelector": NO_NAMESPACE,
        },
    )


def _cluster_queue(kueue: _Kueue, name: str, names: Mapping[str, str], cohorts: Mapping[str, str]) -> dict[str, Any]:
    """Return the Queue of a ClusterQueue; what Kueue's defaults are is written out, because Muster's are others."""
    one, spec = kueue.cluster_queues[name]
    _fungibility(kueue, one, spec.flavor_fungibility)
    cohort = _cohort_of(spec)
    local = [local for local, of in kueue.local_queues if of.cluster_queue == name]
    return queue_manifest(
        names[name],
        {
            "parent": cohorts[cohort] if cohort else None,
            "flavors": _flavors(kueue, one, spec.resource_groups, limits=bool(cohort)),
            "weight": _weight(kueue, one, spec.fair_sharing),
            "namespaceSelector": _namespaces(kueue, one, spec.namespace_selector, local),
            "default": True if local and all(queue.name == _DEFAULT for queue in local) else None,
            "queueingStrategy": spec.queueing_strategy or "BestEffortFIFO",
            "preemption": _preemption(spec.preemption or wire.ClusterQueuePreemption()),
            "stopPolicy": spec.stop_policy if spec.stop_policy != "None" else None,
        },
    )


def _namespaces(
    kueue: _Kueue, one: ForeignObject, selector: Mapping[str, Any] | None, local: Sequence[ForeignObject]
) -> Mapping[str, Any] | None:
    """Return who may use a queue: in Kueue whom the selector matches and who has a LocalQueue that leads to it.

    Files without any LocalQueue say nothing about those.
    """
    if selector is None or (kueue.local_queues and not local):
        return NO_NAMESPACE
    if not local:
        return selector or None
    names = sorted({queue.namespace for queue in local})
    if len(names) > _MOST_NAMESPACES:
        instead = f"namespaces without a LocalQueue may use it too: {len(names)} are too many to be listed"
        kueue.differ(one, "spec.namespaceSelector", instead)
        return selector or None
    only = {"key": NAMESPACE_NAME, "operator": "In", "values": names}
    return {**selector, "matchExpressions": [*(selector.get("matchExpressions") or []), only]}


def _preemption(preemption: wire.ClusterQueuePreemption) -> dict[str, Any]:
    borrowing = preemption.borrow_within_cohort or wire.ForeignBorrowWithinCohort()
    limits: dict[str, Any] = {"policy": borrowing.policy or "Never"}
    if borrowing.max_priority_threshold is not None:
        limits["maxPriorityThreshold"] = borrowing.max_priority_threshold
    return {
        "withinQueue": preemption.within_cluster_queue or "Never",
        "reclaimWithinCohort": preemption.reclaim_within_cohort or "Never",
        "borrowWithinCohort": limits,
    }


def _fungibility(kueue: _Kueue, one: ForeignObject, fungibility: wire.FlavorFungibility | None) -> None:
    """Note where Kueue goes through flavors in another order than Muster."""
    if fungibility is None:
        return
    place = "spec.flavorFungibility"
    if fungibility.when_can_borrow == "TryNextFlavor":
        kueue.differ(one, f"{place}.whenCanBorrow", "borrows in the first flavor with room before it tries the next")
    if fungibility.when_can_preempt in {"Preempt", "MayStopSearch"}:
        kueue.differ(one, f"{place}.whenCanPreempt", "tries every flavor before it preempts in any")
    if fungibility.preference == "PreemptionOverBorrowing":
        kueue.differ(one, f"{place}.preference", "borrows where it can before it preempts")


def _weight(kueue: _Kueue, one: ForeignObject, sharing: wire.FairSharing | None) -> str | None:
    if sharing is None or sharing.weight is None:
        return None
    try:
        weight = parse_quantity(str(sharing.weight))
    except QuantityError as error:
        raise ImportingError(f"{one}: spec.fairSharing.weight: {error}") from error
    if weight == 0:
        kueue.differ(one, "spec.fairSharing.weight", f"0 becomes {_LAST_WEIGHT}: comes last, and may still borrow")
        return _LAST_WEIGHT
    return str(sharing.weight)


def _flavors(
    kueue: _Kueue, one: ForeignObject, groups: Sequence[wire.ResourceGroup] | None, *, limits: bool
) -> list[dict[str, Any]] | None:
    """Return the flavors of a queue; of several resource groups those of one, since a gang runs in one flavor."""
    if not groups:
        return None
    main = max(groups, key=_importance)
    for group in groups:
        if group is not main:
            resources = ", ".join(group.covered_resources)
            kept = ", ".join(main.covered_resources)
            kueue.differ(
                one,
                "spec.resourceGroups",
                f"a gang runs in one flavor: the group of {kept} is imported, {resources} is not limited",
            )
    return [_flavor(kueue, one, flavor, limits=limits) for flavor in main.flavors]


def _importance(group: wire.ResourceGroup) -> tuple[bool, bool]:
    """Return the larger the more a group matters: GPUs before other devices before the rest."""
    covered = group.covered_resources or [quota.name for flavor in group.flavors for quota in flavor.resources]
    return any(name.endswith("/gpu") for name in covered), any("/" in name for name in covered)


def _flavor(kueue: _Kueue, one: ForeignObject, quotas: wire.ForeignFlavorQuotas, *, limits: bool) -> dict[str, Any]:
    found = kueue.flavors.get(quotas.name)
    if found is None:
        instead = f"there is no ResourceFlavor {quotas.name} in these files: every node is of it"
        kueue.differ(one, "spec.resourceGroups.flavors", instead)
    labels = None if found is None else found[1].node_labels
    resources = list(_resources(kueue, one, quotas, limits=limits))
    return {"name": quotas.name, **({"nodeSelector": labels} if labels else {}), "resources": resources}


def _resources(
    kueue: _Kueue, one: ForeignObject, quotas: wire.ForeignFlavorQuotas, *, limits: bool
) -> Iterator[dict[str, Any]]:
    for quota in quotas.resources:
        resource = {"name": quota.name, "nominalQuota": str(quota.nominal_quota)}
        for name, value in (("borrowingLimit", quota.borrowing_limit), ("lendingLimit", quota.lending_limit)):
            if value is None:
                continue
            if limits:
                resource[name] = str(value)
            else:
                path = f"spec.resourceGroups.flavors.resources.{name}"
                kueue.differ(one, path, "left out: without a cohort there is no queue to borrow from or lend to")
        yield resource


def _priority_class(kueue: _Kueue, one: ForeignObject) -> dict[str, Any]:
    """Return the PriorityClass of a WorkloadPriorityClass: Muster goes by the priority of pods."""
    value, description = one.body.get("value", 0), one.body.get("description", "")
    if not isinstance(value, int) or isinstance(value, bool):
        raise ImportingError(f"{one}: value: '{value}' is no whole number")
    kueue.differ(
        one, "", f"becomes a PriorityClass: let pods say priorityClassName: {one.name}, not {GROUP}/priority-class"
    )
    return priority_class_manifest(one.name, value, str(description))
