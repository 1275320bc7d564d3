"""Looking at the state for people: collected in one go, from which answers and pictures are made later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from extender.admission.admission import Admission
from extender.admission.demand import UnmetDemand, unmet_demand
from extender.admission.explaining.account import explain_gang, name_holders
from extender.admission.explaining.material import Material, gather
from extender.admission.explaining.rivals import Rivals, rivals_of
from extender.admission.explaining.scene import Scene
from extender.admission.explaining.suggestions import Suggestion, suggest
from extender.admission.ledger import Reservation
from extender.admission.queueview import QueueView
from extender.admission.queueviews import queue_views
from extender.backfill.start import Start
from extender.cluster.gangs import Gang
from extender.cluster.nodekinds import gpus_of
from extender.control.explanation import Explanation
from extender.control.views import GangView
from extender.domain.levels import Levels
from extender.domain.membership import GroupApi, GroupRef
from extender.domain.node import Node
from extender.domain.pod import Pod
from extender.drawing.survey import Survey

#: In a cluster with more nodes, zones are looked up for those of the gang alone: hardly any other is drawn by itself.
_MOST_ZONED = 500


@dataclass(frozen=True, slots=True)
class Collected:
    """What an explanation of a gang is worked out from: values and copies, for whatever thread.

    `rivals` are those whose priority decides about it, None if nobody asks what would help it. `start` is when it is
    expected to start, if it waits for others to end who have said when they will.
    """

    view: GangView
    levels: Levels
    members: tuple[Pod, ...]
    material: Material
    rivals: Rivals | None
    start: Start | None


def explain_further(collected: Collected) -> Explanation:
    """Work out how a gang stands, in whatever thread; who the holders are is for `Inspection.complete` to say.

    Complexity: O(shapes x nodes + claims): milliseconds for 5,000 nodes, in steps of microseconds.
    """
    material, scene = collected.material, Scene(collected.material)
    account, occupancy = explain_gang(scene), scene.table.occupancy
    nodes = () if account.placement is None else account.placement.gpus_per_node
    uids = (pod.uid for pod in collected.members)
    return Explanation(
        view=collected.view,
        levels=collected.levels,
        placement=account.placement,
        members=collected.members,
        promised=material.promised,
        held={uid: held for uid in uids if (held := occupancy.held(uid)) is not None},
        doubts={node: doubt for node in nodes if (doubt := occupancy.distrust(node))},
        better=account.better,
        start=collected.start,
        account=account,
        suggestions=_suggestions(collected, scene),
    )


def _suggestions(collected: Collected, scene: Scene) -> tuple[Suggestion, ...] | None:
    """Return what would help a gang that waits, None if nobody asks; members beyond a minimum that runs may wait."""
    if collected.rivals is None:
        return None
    return () if collected.view.wait is None else suggest(scene, collected.rivals)


class Inspection:
    """Collect what is to be told of a gang or of the cluster, as values that do not change afterwards."""

    def __init__(self, admission: Admission, view: Callable[[Gang], GangView]) -> None:
        """Look at `admission`; `view` tells how a gang stands."""
        self._admission = admission
        self._view = view

    def find(self, namespace: str, name: str) -> GroupRef | None:
        """Return the gang of that name, of several APIs' namesakes the first that asks for Muster; None without any."""
        model = self._admission.model
        refs = (GroupRef(api, namespace, name) for api in GroupApi)
        gangs = [gang for ref in refs if (gang := model.gangs.get(ref)) is not None]
        return max(gangs, key=model.concerns).ref if gangs else None

    def explain(self, ref: GroupRef) -> Explanation:
        """Return how a gang stands, worked out on the spot; raise KeyError if there is none."""
        return self.complete(explain_further(self.collect(ref)))

    def collect(self, ref: GroupRef, *, suggesting: bool = True) -> Collected:
        """Return what `explain_further` needs, in well under a millisecond; raise KeyError if there is no such gang.

        What would help a gang that waits is searched for if `suggesting`: that takes longer than all else.
        """
        model = self._admission.model
        gang = model.gangs.get(ref)
        if gang is None:
            raise KeyError(ref)
        material = gather(self._admission, gang)
        return Collected(
            view=self._view(gang),
            levels=model.tree.levels,
            members=tuple(gang.members.values()),
            material=material,
            rivals=rivals_of(self._admission, gang, material) if suggesting else None,
            start=next((keep.start for keep in self._admission.heads if keep.gang is gang), None),
        )

    def complete(self, explained: Explanation) -> Explanation:
        """Return an explanation with the names of those who hold what the gang needs."""
        account = explained.account
        return explained if account is None else replace(explained, account=name_holders(self._admission, account))

    def survey(self, ref: GroupRef) -> Survey:
        """Return what a picture of the cluster with a gang on it shows: who is where, and what the gang is promised."""
        model, table = self._admission.model, self._admission.model.table
        gang = model.gangs.get(ref)
        reservation = None if gang is None else self._reservation(gang)
        promised = () if reservation is None else tuple((slot.pod, slot.node) for slot in reservation.slots.values())
        nodes = tuple(table.nodes())
        shown = nodes
        if len(nodes) > _MOST_ZONED and gang is not None:
            claims = filter(None, map(table.claim_of, gang.members))
            shown = tuple(filter(None, map(table.find, {claim.node for claim in claims})))
        return Survey(
            levels=model.tree.levels,
            nodes=nodes,
            pods=tuple(model.pods.values()),
            promised=promised,
            held={} if gang is None else self._gpus_held(gang),
            zones={node.name: zones for node in shown if (zones := self._zones(node))},
        )

    def demand(self) -> tuple[UnmetDemand, ...]:
        """Return what waiting gangs lack that more nodes would give them, the oldest gang first."""
        found = unmet_demand(self._admission.model.gangs, self._admission.reservations.waits)
        return tuple(sorted(found, key=lambda row: (row.since, row.gang)))

    def queues(self) -> list[QueueView]:
        """Return how each Queue stands, in order of their names."""
        sharing, waits = self._admission.sharing, self._admission.reservations.waits
        sharing.charges.refresh()
        waiting = ((gang, sharing.queue_of(gang)) for gang in self._admission.model.gangs if gang.uid in waits)
        pending = Counter(queue for gang, queue in waiting if gang.ref not in sharing.charges.holders(queue))
        return queue_views(sharing, pending)

    def _reservation(self, gang: Gang) -> Reservation | None:
        return self._admission.reservations.ledger.of_gang(gang.uid)

    def _zones(self, node: Node) -> tuple[int, ...]:
        """Return the NUMA zone of each GPU of a node whose kubelet aligns pods with zones, zone by zone; () if not."""
        topology = self._admission.model.table.occupancy.topology(node.name)
        resource, gpus = gpus_of(node)
        zones = () if topology is None else topology.zones
        row = tuple(zone.id for zone in zones for _ in range(zone.allocatable.get(resource, 0)))
        return row if len(row) == gpus else ()

    def _gpus_held(self, gang: Gang) -> dict[str, tuple[int, ...]]:
        occupancy = self._admission.model.table.occupancy
        return {uid: held.gpus for uid in gang.members if (held := occupancy.held(uid)) is not None}
