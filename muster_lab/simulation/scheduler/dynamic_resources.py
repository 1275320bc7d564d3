"""The plugin DynamicResources: devices for the claims of pods, given when a pod is bound and taken back later.

Filter finds which devices a pod's claims would get on each node, Reserve keeps them in memory, PreBind writes them, and
writes that the pod may use them. When the bind call fails, Unreserve takes the pod off its claims, whose allocations
stay; PostFilter ends one that keeps the pod from all other nodes.

Source: k8s.io/kubernetes pkg/scheduler/framework/plugins/dynamicresources, release 1.37.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from extender.control.ports import ApiError, WatchedKind
from extender.devices.allocator import AskedClaim, DeviceCause, DeviceRefusal, DeviceView, allocate
from extender.devices.selectors import Selectors
from extender.objects.node import Node
from extender.objects.pod import Pod
from extender.objects.resourceclaim import ClaimAllocation, ResourceClaim
from muster_lab.simulation.cluster import Cluster
from muster_lab.simulation.objects import Json
from muster_lab.simulation.scheduler.claims import ClaimCache, allocation_json
from muster_lab.simulation.scheduler.events import SchedulerPlugin
from muster_lab.simulation.scheduler.filters import Code, NodeStatuses
from muster_lab.simulation.scheduler.nodes import NodeColumns

#: How many pods may use one claim. Source: k8s.io/api/resource/v1 ResourceClaimReservedForMaxSize.
_MOST_USERS = 256

_LACKING = "cannot allocate all claims"
_ELSEWHERE = "resourceclaim not available on the node"
_DEALLOCATED = "deallocation of ResourceClaim completed"


class DynamicResourcesError(Exception):
    """An attempt that ends with an error: a claim or class is at fault, or was changed by another client."""


@dataclass(slots=True)
class ClaimCycle:
    """What one attempt finds out about a pod's claims.

    `refusal` says why the pod can be on no node, "" for none. `found` is what its claims without devices would get on
    each node; those `elsewhere` have devices that some node cannot use.
    """

    claims: list[ResourceClaim] = field(default_factory=list)
    refusal: str = ""
    found: dict[str, tuple[ClaimAllocation, ...]] = field(default_factory=dict)
    elsewhere: dict[str, None] = field(default_factory=dict)

    @property
    def unallocated(self) -> list[ResourceClaim]:
        """Return the claims that have no devices."""
        return [claim for claim in self.claims if claim.allocation is None]


class DynamicResources:
    """Give devices to claims.

    Attributes:
        claims: what is known of devices and claims.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._selectors = Selectors()
        self.claims = ClaimCache()

    # Filtering.

    def begin(self, pod: Pod) -> ClaimCycle:
        """Start an attempt. Source: PreFilter."""
        if not pod.claims.claims:
            return ClaimCycle()
        if missing := self.claims.missing(pod):
            return ClaimCycle(refusal=missing)
        cycle = ClaimCycle(self.claims.of(pod))
        cycle.refusal = next(filter(None, (self._obstacle(pod, claim) for claim in cycle.claims)), "")
        return cycle

    def _obstacle(self, pod: Pod, claim: ResourceClaim) -> str:
        """Say why a claim keeps its pod from every node, "" if it does not."""
        if claim.allocation is not None:
            in_use = len(claim.reserved_for) >= _MOST_USERS and not _may_use(pod, claim)
            return "resourceclaim in use" if in_use else ""
        if self.claims.is_in_flight(claim):
            return f"resource claim {claim.key} is in the process of being allocated"
        for request in claim.spec.requests:
            for option in request.options:
                if self.claims.inventory.device_class(option.device_class) is None:
                    return f"request {option.name}: device class {option.device_class} does not exist"
        return ""

    def screen(
        self, cycle: ClaimCycle, columns: NodeColumns, rows: NDArray[np.intp], statuses: NodeStatuses
    ) -> NDArray[np.intp]:
        """Return which of the nodes in `rows` have devices for the pod, and write down why others do not.

        Raises DynamicResourcesError where a claim or class is at fault. Source: Filter.
        """
        if not cycle.claims:
            return rows
        said: dict[str, list[int]] = {"": []}
        for row in rows.tolist():
            said.setdefault(self._refusal(cycle, columns.nodes[row]), []).append(row)
        passed = said.pop("")
        for reason, refused in said.items():
            where = np.array(refused, dtype=np.intp)
            statuses.refuse(where, Code.UNRESOLVABLE, (reason,), SchedulerPlugin.DYNAMIC_RESOURCES)
        return np.array(passed, dtype=np.intp)

    def passes(self, cycle: ClaimCycle, node: Node) -> bool:
        """Tell whether a node has devices for the pod; raise DynamicResourcesError as `screen` does."""
        return not cycle.claims or not self._refusal(cycle, node)

    def _refusal(self, cycle: ClaimCycle, node: Node) -> str:
        """Say why a node has no devices for a pod; else note which, and return ""."""
        bound_elsewhere = [
            claim.key
            for claim in cycle.claims
            if claim.allocation is not None and not claim.allocation.reachable_from(node.name, node.labels)
        ]
        cycle.elsewhere |= dict.fromkeys(bound_elsewhere)
        if wanted := cycle.unallocated:
            pools = self.claims.inventory.pools_of(node.name, node.labels)
            classes = self.claims.inventory.classes
            view = DeviceView(node.name, pools, self.claims.in_use, classes, self._selectors)
            result = allocate([AskedClaim(claim.key, claim.spec) for claim in wanted], view)
            if isinstance(result, DeviceRefusal):
                if result.everywhere or result.cause is DeviceCause.SEARCH_GAVE_UP:
                    raise DynamicResourcesError(f"node {node.name}: {result}")
                return _LACKING
            cycle.found[node.name] = result
        return _ELSEWHERE if bound_elsewhere else ""

    # Giving, and taking back.

    def reserve(self, cycle: ClaimCycle, node: str) -> None:
        """Keep the devices that the pod's claims get on its node. Source: Reserve."""
        for claim, allocation in zip(cycle.unallocated, cycle.found.get(node, ()), strict=True):
            self.claims.start_flight(claim, allocation)

    def bind(self, cycle: ClaimCycle, pod: Pod, node: str) -> None:
        """Write what the pod's claims were given, and that it uses them. Source: PreBind.

        Raises DynamicResourcesError for a claim that is gone, or that another client has changed.
        """
        given = dict(zip((claim.key for claim in cycle.unallocated), cycle.found.get(node, ()), strict=True))
        for number, claim in enumerate(cycle.claims):
            if not _may_use(pod, claim):
                cycle.claims[number] = self._give(pod, claim, given.get(claim.key))
        for claim in cycle.claims:
            self.claims.end_flight(claim)

    def _give(self, pod: Pod, claim: ResourceClaim, allocation: ClaimAllocation | None) -> ResourceClaim:
        def patch(json: Json) -> None:
            status = json.setdefault("status", {})
            if allocation is not None:
                if status.get("allocation") is not None:
                    raise DynamicResourcesError(f"claim {claim.key} got allocated elsewhere in the meantime")
                status["allocation"] = allocation_json(allocation)
            elif status.get("allocation") is None:
                raise DynamicResourcesError(f"claim {claim.key} got deallocated elsewhere in the meantime")
            user = {"resource": "pods", "name": pod.name, "uid": pod.uid}
            status["reservedFor"] = [*status.get("reservedFor", ()), user]

        try:
            version = self._cluster.update(WatchedKind.RESOURCE_CLAIM, (claim.namespace, claim.name), patch, claim.uid)
        except ApiError as error:
            raise DynamicResourcesError(f"add allocation and reservation to claim {claim.key}: {error}") from error
        self.claims.wrote(version)
        return version.claim

    def unreserve(self, cycle: ClaimCycle, pod: Pod) -> None:
        """Take a pod that was not bound off its claims; allocations that were written stay. Source: Unreserve."""
        for claim in cycle.claims:
            self.claims.end_flight(claim)
            if claim.allocation is not None and _may_use(pod, claim):
                self._update(claim, lambda json: _take_off(json, (pod.uid,)))

    def end_an_allocation(self, cycle: ClaimCycle, pod: Pod) -> str:
        """End the first allocation that keeps a pod from nodes; return what is said of it. Source: PostFilter.

        kube-scheduler picks one by chance.
        """
        for claim in cycle.claims:
            unused = {each.uid for each in claim.reserved_for} <= {pod.uid}
            if claim.key in cycle.elsewhere and unused:
                self._update(claim, deallocate)
                return _DEALLOCATED
        return ""

    def _update(self, claim: ResourceClaim, patch: Callable[[Json], None]) -> None:
        """Write to a claim, unless it is gone."""
        with suppress(ApiError):
            key = (claim.namespace, claim.name)
            self.claims.wrote(self._cluster.update(WatchedKind.RESOURCE_CLAIM, key, patch, claim.uid))


def _may_use(pod: Pod, claim: ResourceClaim) -> bool:
    return any(each.uid == pod.uid for each in claim.reserved_for)


def deallocate(json: Json) -> None:
    """End the allocation of a claim."""
    for key in ("allocation", "reservedFor"):
        json.get("status", {}).pop(key, None)


def _take_off(json: Json, uids: Iterable[str]) -> None:
    """Take users off a claim, which keeps its allocation."""
    status = json["status"]
    status["reservedFor"] = [each for each in status.get("reservedFor", ()) if each["uid"] not in uids]
