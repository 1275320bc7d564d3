"""Why a gang that could be placed does not fit: impossible ever, refused, held for the head, or full now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from extender.cluster.gangs import Gang
from extender.cluster.table import NodeTable
from extender.cluster.whatif import WhatIf
from extender.domain.pod import Pod
from extender.domain.quantity import format_amount
from extender.domain.reason import Reason, Wait
from extender.placement.plan import Eligible, Shortfall, group_by_shape, shortfall


@dataclass(frozen=True, slots=True)
class Misfit:
    """What was found out about a set of pods that does not fit; it holds for every set of the same shapes.

    `fits` of the pods fit now. `fits_ever` of them would on the empty cluster, None if all would. `vetoed` says that
    they would fit now but for nodes that kube-scheduler refused, `kept` that they would but for what is kept for the
    head of the queue.
    """

    fits: int
    fits_ever: int | None = None
    vetoed: bool = False
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Site:
    """Where pods could go.

    `free` and `kept` (for the head, None without one) are (resources, rows). `admitted` says which nodes admit a shape,
    `eligible` the same without those that kube-scheduler refused.
    """

    table: NodeTable
    free: NDArray[np.int64]
    kept: NDArray[np.int64] | None
    admitted: Eligible
    eligible: Eligible


def examine(gang: Gang, pods: Sequence[Pod], fits: int, site: Site) -> Misfit:
    """Find out why only `fits` of `pods` of `gang` fit, by trying them without one obstacle after the other."""

    def lack_without(free: NDArray[np.int64], eligible: Eligible) -> Shortfall | None:
        return shortfall(pods, WhatIf(site.table, free), eligible, gang.packing)

    ever = lack_without(site.table.allocatable[:, : site.table.rows], site.admitted)
    if ever is not None:
        return Misfit(fits, fits_ever=ever.fits)
    if site.eligible is not site.admitted and lack_without(site.free, site.admitted) is None:
        return Misfit(fits, vetoed=True)
    if site.kept is not None and lack_without(site.free + site.kept, site.eligible) is None:
        return Misfit(fits, kept=True)
    return Misfit(fits)


def explain(gang: Gang, pods: Sequence[Pod], misfit: Misfit, site: Site, head: str) -> Wait:
    """Say why `pods` of `gang` do not fit, in the gang's own numbers and names; `head` is who is first in the queue."""
    settled = gang.min_member - len(pods)
    for shape, alike in group_by_shape(pods).items():
        if not site.admitted(shape).any():
            return Wait(Reason.NO_NODE_MATCHES, {"nodes": len(site.table)}, {"unplaceable": alike[0].key})
    if misfit.fits_ever is not None:
        return Wait(Reason.EXCEEDS_CLUSTER, {"fits": settled + misfit.fits_ever, "minMember": gang.min_member})
    if misfit.vetoed:
        detail = "it left out planned nodes for reasons of its own, and the others are not enough"
        return Wait(Reason.REFUSED_BY_SCHEDULER, {"fits": settled + misfit.fits}, {"detail": detail})
    if misfit.kept:
        return Wait(Reason.BEHIND_HEAD, names={"head": head})
    return Wait(Reason.INSUFFICIENT_CAPACITY, {"fits": settled + misfit.fits, "minMember": gang.min_member})


def unmet_min_resources(gang: Gang, site: Site) -> Wait | None:
    """Check minResources against what is free in the cluster plus what the gang holds, as coscheduling does."""
    wanted = {} if gang.group is None else gang.group.min_resources
    if not wanted:
        return None
    totals = np.maximum(site.free, 0).sum(axis=1)
    free = dict(zip(site.table.resources, totals.tolist(), strict=True))
    for resource, needed in sorted(wanted.items()):
        held = sum(pod.shape.request(resource) for pod in gang.members.values() if pod.bound)
        if free.get(resource, 0) + held < needed:
            numbers = {"needed": needed, "free": free.get(resource, 0) + held}
            names = {"wanted": f"{format_amount(resource, needed)} {resource}"}
            return Wait(Reason.MIN_RESOURCES_UNMET, numbers, names)
    return None
