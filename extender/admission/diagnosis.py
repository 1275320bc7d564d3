"""Why a gang that could be placed does not fit: impossible ever, refused, held for the head, or full now."""

from __future__ import annotations

from extender.admission.site import Capacity, Misfit, Party, Site
from extender.cluster.gangs import Gang
from extender.domain.quantity import format_amount
from extender.domain.reason import Reason, Wait
from extender.placement.plan import Eligible


def examine(party: Party, fits: int, site: Site, eligible: Eligible) -> Misfit:
    """Find out why only `fits` of the party fit, by trying them without one obstacle after the other.

    `eligible` says which nodes admit a shape and were not refused by kube-scheduler.
    """
    if not all(site.admits(shape) for shape, _ in party.demand.shapes):
        return Misfit(fits, unmatched=True)
    ever = site.lack_ever(party)
    if ever is not None:
        return Misfit(fits, fits_ever=ever)
    if eligible is not site.admitted and site.lack(Capacity.FREE, party, site.admitted) is None:
        return Misfit(fits, vetoed=True)
    if site.kept is not None and site.lack(Capacity.UNKEPT, party, eligible) is None:
        return Misfit(fits, kept=True)
    return Misfit(fits)


def explain(party: Party, misfit: Misfit, site: Site, head: str) -> Wait:
    """Say why the party does not fit, in the gang's own numbers and names; `head` is who is first in the queue."""
    minimum = party.gang.min_member
    settled = minimum - party.demand.pods
    if misfit.unmatched:
        unplaceable = next(pod.key for pod in party.pods if not site.admits(pod.shape))
        return Wait(Reason.NO_NODE_MATCHES, {"nodes": len(site.table)}, {"unplaceable": unplaceable})
    if misfit.fits_ever is not None:
        return Wait(Reason.EXCEEDS_CLUSTER, {"fits": settled + misfit.fits_ever, "minMember": minimum})
    if misfit.vetoed:
        detail = "it left out planned nodes for reasons of its own, and the others are not enough"
        return Wait(Reason.REFUSED_BY_SCHEDULER, {"fits": settled + misfit.fits}, {"detail": detail})
    if misfit.kept:
        return Wait(Reason.BEHIND_HEAD, names={"head": head})
    return Wait(Reason.INSUFFICIENT_CAPACITY, {"fits": settled + misfit.fits, "minMember": minimum})


def unmet_min_resources(gang: Gang, site: Site) -> Wait | None:
    """Check minResources against what is free in the cluster plus what the gang holds, as coscheduling does."""
    wanted = {} if gang.group is None else gang.group.min_resources
    if not wanted:
        return None
    free = site.totals()
    for resource, needed in sorted(wanted.items()):
        held = sum(pods * shape.request(resource) for shape, pods in gang.held.items())
        if free.get(resource, 0) + held < needed:
            numbers = {"needed": needed, "free": free.get(resource, 0) + held}
            names = {"wanted": f"{format_amount(resource, needed)} {resource}"}
            return Wait(Reason.MIN_RESOURCES_UNMET, numbers, names)
    return None
