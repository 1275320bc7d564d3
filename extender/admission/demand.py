"""What waiting gangs lack that more nodes would give them: for autoscalers, and for whoever buys nodes.

A gang is in demand of nodes only while capacity is what it waits for. Who waits for quota, for members or for
somebody's decision would not run on a new node either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from extender.admission.site import Demand
from extender.cluster.core import core_size
from extender.cluster.gangs import Gang
from extender.domain.membership import GroupRef
from extender.domain.pod import Shape
from extender.domain.reason import Reason, Wait
from extender.domain.requests import PODS

#: Why gangs wait that would not if there were more nodes, or some with other labels.
CAPACITY_BOUND = frozenset(
    {
        Reason.MIN_RESOURCES_UNMET,
        Reason.NO_NODE_MATCHES,
        Reason.EXCEEDS_CLUSTER,
        Reason.EXCEEDS_DOMAIN,
        Reason.INSUFFICIENT_CAPACITY,
        Reason.DOMAIN_FULL,
        Reason.ZONES_FULL,
        Reason.BEHIND_HEAD,
    }
)


@dataclass(frozen=True, slots=True)
class PodSet:
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
    pod_sets: tuple[PodSet, ...]

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
        gangs: all gangs.
        waits: gang UID -> why it waits.
    """
    for gang in gangs:
        wait = waits.get(gang.uid)
        if wait is None or wait.reason not in CAPACITY_BOUND:
            continue
        lacking = core_size(gang, 0)
        if not lacking:
            continue
        demand = Demand.of_gang(gang, lacking)
        shapes = sorted(demand.shapes, key=lambda part: (-part[1], part[0].requests))
        level = demand.topology.required or wait.names.get("level", "")
        pod_sets = tuple(PodSet(count, shape) for shape, count in shapes)
        yield UnmetDemand(gang.ref, gang.uid, wait.reason, level, gang.created, pod_sets)
