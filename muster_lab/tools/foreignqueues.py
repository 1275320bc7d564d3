"""Queues and what belongs to them as Kueue and Volcano have them: the fields that can be imported.

Sources: kubernetes-sigs/kueue apis/kueue/v1beta1 and v1beta2 (`cohort` and `parent` became `cohortName` and
`parentName`), volcano-sh/volcano staging/src/volcano.sh/apis/pkg/apis/scheduling/v1beta1/types.go.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct

Quantity: TypeAlias = str | int | float
"""A Kubernetes quantity as YAML has it: `16`, `500m`, `1.5`."""

Quantities: TypeAlias = dict[str, Quantity]


class ForeignResourceQuota(Struct, gc=False, frozen=True, rename="camel"):
    """What a queue has of one resource in one flavor."""

    name: str = ""
    nominal_quota: Quantity = 0
    borrowing_limit: Quantity | None = None
    lending_limit: Quantity | None = None


class ForeignFlavorQuotas(Struct, gc=False, frozen=True, rename="camel"):
    """What a queue has in one flavor."""

    name: str = ""
    resources: list[ForeignResourceQuota] = []


class ResourceGroup(Struct, gc=False, frozen=True, rename="camel"):
    """Resources that a workload takes from one flavor, and the flavors that it may take them from."""

    covered_resources: list[str] = []
    flavors: list[ForeignFlavorQuotas] = []


class FlavorFungibility(Struct, gc=False, frozen=True, rename="camel"):
    """Whether the next flavor is tried before borrowing or preempting in this one."""

    when_can_borrow: str | None = None
    when_can_preempt: str | None = None
    preference: str | None = None


class ForeignBorrowWithinCohort(Struct, gc=False, frozen=True, rename="camel"):
    """Who may be preempted by a workload that borrows."""

    policy: str | None = None
    max_priority_threshold: int | None = None


class ClusterQueuePreemption(Struct, gc=False, frozen=True, rename="camel"):
    """Who may be preempted by the workloads of a ClusterQueue."""

    reclaim_within_cohort: str | None = None
    borrow_within_cohort: ForeignBorrowWithinCohort | None = None
    within_cluster_queue: str | None = None


class FairSharing(Struct, gc=False, frozen=True):
    """The weight of a ClusterQueue or Cohort among its siblings."""

    weight: Quantity | None = None


class ClusterQueueSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Kueue's ClusterQueue."""

    resource_groups: list[ResourceGroup] | None = None
    cohort: str | None = None
    cohort_name: str | None = None
    queueing_strategy: str | None = None
    namespace_selector: dict[str, Any] | None = None
    flavor_fungibility: FlavorFungibility | None = None
    preemption: ClusterQueuePreemption | None = None
    stop_policy: str | None = None
    fair_sharing: FairSharing | None = None


class CohortSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Kueue's Cohort."""

    parent: str | None = None
    parent_name: str | None = None
    resource_groups: list[ResourceGroup] | None = None
    fair_sharing: FairSharing | None = None


class LocalQueueSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Kueue's LocalQueue: by which name a namespace reaches a ClusterQueue."""

    cluster_queue: str = ""


class ResourceFlavorSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Kueue's ResourceFlavor: which nodes are of it."""

    node_labels: dict[str, str] | None = None


class Guarantee(Struct, gc=False, frozen=True):
    """What a Volcano queue keeps for itself."""

    resource: Quantities | None = None


class VolcanoQueueSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Volcano's Queue."""

    weight: int | None = None
    capability: Quantities | None = None
    deserved: Quantities | None = None
    guarantee: Guarantee | None = None
    reclaimable: bool | None = None
    parent: str | None = None
    priority: int | None = None
    dequeue_strategy: str | None = None


class VolcanoQueueStatus(Struct, gc=False, frozen=True):
    """Whether a Volcano queue takes jobs."""

    state: str | None = None
