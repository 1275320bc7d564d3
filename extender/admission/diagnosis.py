"""Why a gang that could be placed does not fit: impossible ever, refused, held for the head, or full now."""

from __future__ import annotations

from extender.admission.site import Capacity, Misfit, Party, Site
from extender.cluster.gangs import Gang
from extender.cluster.nodekinds import whole_gpus
from extender.cluster.table import is_extended
from extender.domain.levels import Levels
from extender.domain.quantity import format_amount
from extender.domain.reason import Reason, Wait
from extender.domain.topology import TopologyRequest
from extender.placement.ground import Eligible
from extender.placement.plan import Shortfall


def unknown_level(topology: TopologyRequest, levels: Levels) -> str:
    """Return the first level that is required and that nobody knows, "" if all are known."""
    asked = [topology.required, *(part.level for part in topology.slices)]
    asked += [group.level for group in topology.role_groups if group.required]
    return next((level for level in asked if level and levels.find(level) is None), "")


def examine(party: Party, now: Shortfall, site: Site, eligible: Eligible) -> Misfit:
    """Find out why the party falls short by `now`, by trying it without one obstacle after the other.

    `eligible` says which nodes admit a shape and were not refused by kube-scheduler.
    """
    if not all(site.admits(shape) for shape, _ in party.demand.shapes):
        return Misfit(now, unmatched=True)
    ever = site.lack_ever(party)
    if ever is not None:
        return Misfit(now, ever, unaligned=_unaligned(Capacity.EMPTY, party, ever, site, site.possible))
    if eligible is not site.admitted and site.lack(Capacity.FREE, party, site.admitted) is None:
        return Misfit(now, vetoed=True)
    if site.possible is not site.admitted and site.lack(Capacity.FREE, party, site.possible) is None:
        return Misfit(now, rejected=True)
    if site.kept is not None and site.lack(Capacity.UNKEPT, party, eligible) is None:
        return Misfit(now, kept=True)
    return Misfit(now, unaligned=_unaligned(Capacity.FREE, party, now, site, eligible))


def _unaligned(capacity: Capacity, party: Party, short: Shortfall, site: Site, eligible: Eligible) -> int | None:
    """Return how many would fit by their number alone, None if that is no more than fit.

    Each shape counts as if it had the nodes to itself, with zones and without: shapes that have no room beside each
    other lack something else than zones.
    """
    counted = site.counted(capacity, party, eligible)
    aligned = sum(min(site.room(capacity, shape, eligible), wanted) for shape, wanted in party.demand.shapes)
    return counted if not short.level and counted > aligned else None


def explain(party: Party, misfit: Misfit, site: Site, head: str) -> Wait:
    """Say why the party does not fit, in the gang's own numbers and names; `head` is who is first in the queue."""
    minimum = party.gang.min_member
    settled = minimum - party.demand.pods
    now = {"fits": settled + misfit.now.fits, "minMember": minimum}
    if misfit.unknown:
        known = ", ".join(level.name for level in site.tree.levels.levels) or "none"
        return Wait(Reason.UNKNOWN_LEVEL, names={"level": misfit.unknown, "known": f"{known}, node"})
    if misfit.unmatched:
        unplaceable = next(pod.key for pod in party.pods if not site.admits(pod.shape))
        return Wait(Reason.NO_NODE_MATCHES, {"nodes": len(site.table)}, {"unplaceable": unplaceable})
    if misfit.ever is not None:
        return _never(party, misfit, misfit.ever, {"fits": settled + misfit.ever.fits, "minMember": minimum})
    if misfit.vetoed or misfit.rejected:
        return _refused(misfit, now)
    if misfit.kept:
        return Wait(Reason.BEHIND_HEAD, names={"head": head})
    if misfit.now.level:
        return Wait(Reason.DOMAIN_FULL, now, {"level": misfit.now.level})
    if misfit.unaligned is not None:
        return Wait(Reason.ZONES_FULL, now | {"counted": settled + misfit.unaligned})
    return Wait(Reason.INSUFFICIENT_CAPACITY, now)


def _refused(misfit: Misfit, now: dict[str, int]) -> Wait:
    """Say who does not want the party where it would fit now."""
    if misfit.rejected:
        return Wait(Reason.REJECTED_BY_KUBELET, now)
    detail = "it left out planned nodes for reasons of its own, and the others are not enough"
    return Wait(Reason.REFUSED_BY_SCHEDULER, {"fits": now["fits"]}, {"detail": detail})


def _never(party: Party, misfit: Misfit, ever: Shortfall, numbers: dict[str, int]) -> Wait:
    """Say why the party would not even fit on the empty cluster."""
    if ever.level:
        return Wait(Reason.EXCEEDS_DOMAIN, numbers, {"level": ever.level})
    if misfit.unaligned is not None:
        request = ", ".join(
            f"{format_amount(resource, value)} {resource}" for resource, value in _aligned_request(party)
        )
        return Wait(Reason.NEVER_ALIGNED, numbers, {"request": request})
    return Wait(Reason.EXCEEDS_CLUSTER, numbers)


def _aligned_request(party: Party) -> list[tuple[str, int]]:
    """Return what the most demanding member asks for of what kubelets align: devices; CPUs if they are its own."""
    shape = max((shape for shape, _ in party.demand.shapes), key=lambda each: (whole_gpus(each), each.requests))
    aligned = ("cpu",) if shape.guaranteed else ()
    return [(resource, value) for resource, value in shape.requests if is_extended(resource) or resource in aligned]


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
