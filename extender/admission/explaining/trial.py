"""Whether the gang of a scene would be placed now, and where: what a pass would decide that judged it alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from extender.admission.diagnosis import examine, explain, unknown_level, unmet_min_resources
from extender.admission.explaining.rivals import Rivals, lower_priority
from extender.admission.explaining.scene import Scene
from extender.admission.fitting import lacking
from extender.admission.judgement import judge
from extender.admission.keep import withhold
from extender.admission.site import Capacity, Misfit, Party, Site
from extender.cluster.occupancy import Held
from extender.domain.reason import Reason, Wait
from extender.placement.placement import Placement, describe
from extender.placement.plan import Plan, Shortfall, plan


@dataclass(frozen=True, slots=True)
class Outcome:
    """What would become of a gang: a node for each member that it needs, by UID, or why it would wait.

    `placement` is what is predicted there, `held` which GPUs and zones the members would have. `may_evict` says that
    there would be room if all went that have a lower priority and may be evicted for it; who would is not searched.
    """

    wait: Wait | None = None
    nodes: Mapping[str, str] = field(default_factory=dict)
    placement: Placement | None = None
    held: Mapping[str, Held] = field(default_factory=dict)
    may_evict: bool = False


def attempt(scene: Scene, rivals: Rivals) -> Outcome:
    """Try the gang of a scene. If it fits, the scene's table has it from then on: ask what else there is before.

    In the order of a pass: what is wrong with the gang, its queue, who is ahead, quota, nodes.
    """
    gang, material = scene.gang, scene.material
    verdict = judge(gang, len(material.promised))
    if isinstance(verdict, Wait):
        return Outcome(verdict)
    party = scene.party
    if material.unusable is not None or party is None:
        return Outcome(material.unusable)
    if rivals.ahead:
        return Outcome(Wait(Reason.BEHIND_IN_QUEUE, names={"queue": material.queue, "head": rivals.ahead}))
    first: tuple[Wait, Site] | None = None
    for offered in material.options:
        if offered.lack is not None:
            continue
        site = scene.site(offered.option)
        found = _place(scene, party, site)
        if isinstance(found, Plan):
            return _placed(scene, found)
        first = first or (found, site)
    if first is not None:
        return Outcome(first[0], may_evict=_may_evict(scene, party, first[1], rivals))
    lacks = [offered.lack for offered in material.options if offered.lack is not None]
    if lacks:
        return Outcome(lacking(next((lack for lack in lacks if not lack.ever), lacks[0])))
    detail = f"no flavor has quota for all that is asked for: {', '.join(sorted(party.amounts))}"
    return Outcome(Wait(Reason.INVALID_QUEUE, names={"queue": material.queue, "detail": detail}))


def fits(scene: Scene, party: Party, site: Site) -> bool:
    """Tell whether a party would be placed on a site; nothing is taken."""
    if unknown_level(party.demand.topology, scene.tree.levels) or unmet_min_resources(party.gang, site) is not None:
        return False
    return site.lack(Capacity.FREE, party, scene.eligible(site)) is None


def beyond_rank(scene: Scene, site: Site, priority: int, holders: Mapping[int, list[str]]) -> Site:
    """Return a site as it were if all had left that have a lower priority, and nothing was kept for those who wait.

    `holders` are the UIDs of pods that may be evicted, by priority. What is being cleared for others stays theirs.
    """
    keeps = [keep for keep in scene.material.keeps if keep.firm or keep.gang.priority >= priority]
    kept = None
    if keeps:
        kept = np.zeros((len(scene.table.resources), scene.table.rows), dtype=np.int64)
        for keep in keeps:
            withhold(kept, -keep.kept)
    cleared = Site(scene, kept, site.admitted, site.possible)
    leaving = [uid for own, uids in holders.items() if own < priority for uid in uids]
    cleared.snapshot(Capacity.FREE).vacate(leaving)
    return cleared


def _may_evict(scene: Scene, party: Party, site: Site, rivals: Rivals) -> bool:
    holders = lower_priority(scene, rivals, party)
    if not any(priority < rivals.priority for priority in holders):
        return False
    return fits(scene, party, beyond_rank(scene, site, rivals.priority, holders))


def _place(scene: Scene, party: Party, site: Site) -> Plan | Wait:
    """Plan the party on a site, which stays as it is, or say why it does not fit, as `Fitting` does."""
    keeps = scene.material.keeps
    if (unmet := unmet_min_resources(party.gang, site)) is not None:
        return unmet
    eligible = scene.eligible(site)
    misfit: Misfit | None = None
    if unknown := unknown_level(party.demand.topology, site.tree.levels):
        misfit = Misfit(Shortfall(party.demand.pods, 0), unknown=unknown)
    elif (short := site.count(Capacity.FREE, party, eligible)) is not None:
        misfit = examine(party, short, site, eligible)
    else:
        whatif = site.snapshot(Capacity.FREE)
        mark = whatif.mark()
        result = plan(party.pods, whatif, site.ground(party, eligible), party.demand.terms)
        whatif.undo(mark)
        if isinstance(result, Plan):
            return result
        misfit = examine(party, result, site, eligible)
    return explain(party, misfit, site, str(keeps[0].gang.ref) if keeps else "")


def _placed(scene: Scene, found: Plan) -> Outcome:
    """Return what is predicted of a plan, by making it true on the copy."""
    table, gang = scene.table, scene.gang
    for uid, node in found.nodes.items():
        table.claim(uid, node, gang.members[uid].shape)
    places = {uid: claim.node for uid in gang.members if (claim := table.claim_of(uid)) is not None}
    placement = describe(places, table, scene.tree, gang.topology.objective)
    held = {uid: had for uid in places if (had := table.occupancy.held(uid)) is not None}
    return Outcome(None, found.nodes, placement, held)
