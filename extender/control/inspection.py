"""Looking at the state for people: collected in one go, from which answers and pictures are made later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from extender.admission.admission import Admission
from extender.admission.demand import UnmetDemand, unmet_demand
from extender.admission.ledger import Reservation
from extender.admission.queueview import QueueView
from extender.admission.queueviews import queue_views
from extender.cluster.gangs import Gang
from extender.cluster.nodekinds import gpus_of
from extender.cluster.occupancy import Held
from extender.control.explanation import Explanation
from extender.control.views import GangView
from extender.domain.membership import GroupApi, GroupRef
from extender.domain.node import Node
from extender.drawing.survey import Survey

#: In a cluster with more nodes, zones are looked up for those of the gang alone: hardly any other is drawn by itself.
_MOST_ZONED = 500


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
        """Return how a gang stands; raise KeyError if there is none."""
        model = self._admission.model
        gang = model.gangs.get(ref)
        if gang is None:
            raise KeyError(ref)
        reservation, placement = self._reservation(gang), self._admission.placement_of(ref)
        nodes = () if placement is None else placement.gpus_per_node
        return Explanation(
            view=self._view(gang),
            levels=model.tree.levels,
            placement=placement,
            members=tuple(gang.members.values()),
            promised={} if reservation is None else {uid: slot.node for uid, slot in reservation.slots.items()},
            held=self._held(gang),
            doubts={node: doubt for node in nodes if (doubt := model.table.occupancy.distrust(node))},
            better=None if placement is None else self._admission.next_better(gang, placement),
            start=next((keep.start for keep in self._admission.heads if keep.gang is gang), None),
        )

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
            held={} if gang is None else {uid: held.gpus for uid, held in self._held(gang).items()},
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

    def _held(self, gang: Gang) -> dict[str, Held]:
        occupancy = self._admission.model.table.occupancy
        return {uid: held for uid in gang.members if (held := occupancy.held(uid)) is not None}
