"""What waiting gangs lack that more nodes would give them: for autoscalers and capacity planning.

A gang is in demand of nodes only while capacity is what it waits for. Who waits for quota, for members or for
a decision of people would not run on a new node either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from extender.admission.noderequests import MENDED_BY_NODES
from extender.cluster.gangs import Gang, core_size
from extender.explain.documents import DemandRow, NodeRequirement, NodeTerm, PodSetDemand
from extender.objects.meta import Requirement, Selector
from extender.objects.pod import Shape
from extender.objects.podgroup import GroupRef
from extender.objects.podspec import Toleration
from extender.objects.reason import Reason, Wait
from extender.objects.requests import PODS, format_amount, is_asked_for
from extender.placement.capacityview import PodSetRequest

#: Why gangs wait that would not if there were more nodes, or some with other labels.
CAPACITY_BOUND = MENDED_BY_NODES | {Reason.AWAITING_NODES, Reason.BEHIND_HEAD}


@dataclass(frozen=True, slots=True)
class WaitingPodSet:
    """So many pods of one shape."""

    count: int
    shape: Shape


@dataclass(frozen=True, slots=True)
class UnmetDemand:
    """What one gang lacks to start: pods that have no place, and belong together.

    `level` is the network tier of which they all have to be in one domain, "" if they need not. `since` is when the
    gang was created (RFC 3339).
    """

    gang: GroupRef
    uid: str
    reason: Reason
    level: str
    since: str
    pod_sets: tuple[WaitingPodSet, ...]

    @property
    def pods(self) -> int:
        """Count the pods."""
        return sum(pod_set.count for pod_set in self.pod_sets)

    @property
    def requests(self) -> Mapping[str, int]:
        """Return what the pods ask for in all, in milli-CPU, bytes and counts."""
        sums: Counter[str] = Counter()
        for pod_set in self.pod_sets:
            for resource, value in pod_set.shape.requests:
                if resource != PODS:
                    sums[resource] += value * pod_set.count
        return sums


def unmet_demand(gangs: Iterable[Gang], waits: Mapping[str, Wait]) -> Iterator[UnmetDemand]:
    """Return what each of `gangs` lacks that waits for capacity; members beyond the minimum are not among it.

    Args:
        gangs: all that wait, and others or none.
        waits: gang UID -> why it waits.
    """
    for gang in gangs:
        wait = waits.get(gang.uid)
        if wait is None or wait.reason not in CAPACITY_BOUND or not (lacking := core_size(gang, 0)):
            continue
        demand = PodSetRequest.of_gang(gang, lacking)
        shapes = sorted(demand.shapes, key=lambda part: (-part[1], part[0].requests))
        level = demand.topology.required or wait.names.get("level", "")
        pod_sets = tuple(WaitingPodSet(count, shape) for shape, count in shapes)
        yield UnmetDemand(gang.ref, gang.uid, wait.reason, level, gang.created, pod_sets)


def demand_row(row: UnmetDemand) -> DemandRow:
    """Write down one gang's demand, its pod sets in the words of a pod's spec."""
    return DemandRow(
        namespace=row.gang.namespace,
        name=row.gang.name,
        api=row.gang.api,
        uid=row.uid,
        reason=row.reason,
        since=row.since,
        pods=row.pods,
        level=row.level or None,
        pod_sets=tuple(map(_pod_set, row.pod_sets)),
    )


def _pod_set(pod_set: WaitingPodSet) -> PodSetDemand:
    shape = pod_set.shape
    return PodSetDemand(
        count=pod_set.count,
        requests={
            name: format_amount(name, value) for name, value in shape.requests if name != PODS and is_asked_for(name)
        },
        node_selector=dict(shape.selector.equals),
        node_selector_terms=_terms(shape.selector),
        tolerations=tuple(map(_toleration, shape.tolerations)),
    )


def _terms(selector: Selector) -> tuple[NodeTerm, ...] | None:
    if selector.terms is None:
        return None
    return tuple(
        NodeTerm(tuple(map(_requirement, term.labels)), tuple(map(_requirement, term.fields)))
        for term in selector.terms
    )


def _requirement(requirement: Requirement) -> NodeRequirement:
    return NodeRequirement(requirement.key, requirement.operator, tuple(requirement.values))


def _toleration(toleration: Toleration) -> dict[str, str]:
    fields = ("key", toleration.key), ("operator", toleration.operator), ("value", toleration.value)
    return {name: text for name, text in (*fields, ("effect", toleration.effect)) if text}
