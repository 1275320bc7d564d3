"""Everything that is worked out about one gang."""

from __future__ import annotations

from dataclasses import dataclass, replace

from extender.admission.admission import Admission
from extender.admission.explaining.choice import Choice, choice_of, places_of
from extender.admission.explaining.holders import Holder, Holding, holdings, identify
from extender.admission.explaining.nearest import NearestMiss, nearest_miss
from extender.admission.explaining.scene import Scene
from extender.admission.explaining.standing import Standing, stand
from extender.admission.explaining.waterfall import Waterfall, waterfalls
from extender.placement.better import Better, next_better
from extender.placement.placement import Placement, describe


@dataclass(frozen=True, slots=True)
class Account:
    """What there is to say of a gang beside its phase and reason.

    Attributes:
        standing: where it stands in line.
        waterfalls: which constraint takes how many nodes from the members that it needs, by shape.
        nearest: where these come closest to finding room, None if they would find it.
        holdings: who holds what they lack there; `name_holders` makes `holders` of it.
        placement: where the gang is, or is promised to be, None while it holds no node.
        better: what a faster placement would take.
        choice: how else it could have been placed.
    """

    standing: Standing
    waterfalls: tuple[Waterfall, ...] = ()
    nearest: NearestMiss | None = None
    holdings: tuple[Holding, ...] = ()
    holders: tuple[Holder, ...] = ()
    placement: Placement | None = None
    better: Better | None = None
    choice: Choice | None = None


def explain_gang(scene: Scene) -> Account:
    """Work out everything about the gang of a scene, which need not be one that the cluster knows.

    Complexity: O(shapes x nodes + claims on the nodes of the nearest miss).
    """
    falls = waterfalls(scene)
    miss = nearest_miss(scene, falls)
    objective, places = scene.gang.topology.objective, places_of(scene)
    placement = describe(places, scene.table, scene.tree, objective)
    better = None if placement is None else next_better(places, placement, scene.table, scene.tree, objective)
    return Account(
        standing=stand(scene),
        waterfalls=falls,
        nearest=miss,
        holdings=holdings(scene, miss),
        placement=placement,
        better=better,
        choice=choice_of(scene, placement),
    )


def name_holders(admission: Admission, account: Account) -> Account:
    """Fill in who the holders are, on the event loop: it takes tens of microseconds."""
    return replace(account, holders=identify(admission, account.holdings))
