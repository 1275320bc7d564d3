"""What tests ask about the state of an engine.

A test that moves no state asks here, and not the parts that hold the answer: it stays as it is when a class moves.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from extender.admission.admission import Admission
from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel
from extender.cluster.occupancy import Held
from extender.cluster.table import NodeTable
from extender.eviction.spares import SpareCount
from extender.ledger.earmark import Earmark
from extender.ledger.reservations import Reservations
from extender.ledger.slots import Reservation, Slot
from extender.objects.node import Node
from extender.objects.pod import Pod, Shape
from extender.objects.podgroup import GroupRef
from extender.objects.reason import Wait
from extender.placement.candidates import Eligibility
from extender.queues.sharing import Sharing


def forget_verdicts(admission: Admission) -> None:
    """Have everything evaluated anew in the next pass, as it is when deciding begins."""
    admission.tenure.decider.forget()
    admission.reconsider()
    admission.deciding = False


class Deciding(Protocol):
    """A harness with an engine, which may be another one after a restart."""

    @property
    def admission(self) -> Admission:
        """Return what the engine decides on."""


class State:
    """The answers of a harness's engine, as they are when they are asked for."""

    def __init__(self, of: Deciding) -> None:
        self._of = of

    @property
    def _admission(self) -> Admission:
        return self._of.admission

    def forget_verdicts(self) -> None:
        """Have everything evaluated anew in the next pass, though nothing has changed."""
        forget_verdicts(self._admission)

    @property
    def _model(self) -> ClusterModel:
        return self._admission.model

    @property
    def _table(self) -> NodeTable:
        return self._model.table

    @property
    def _sharing(self) -> Sharing:
        return self._admission.sharing

    @property
    def _reservations(self) -> Reservations:
        return self._admission.reservations

    # Objects, as they were last seen.

    def nodes(self) -> list[Node]:
        """Return the nodes."""
        return self._table.nodes()

    def node(self, name: str) -> Node:
        """Return a node that there is."""
        return next(node for node in self.nodes() if node.name == name)

    def pods(self) -> list[Pod]:
        """Return the pods."""
        return list(self._model.pods.values())

    def gangs(self) -> list[Gang]:
        """Return the gangs."""
        return list(self._model.gangs)

    def gang(self, ref: GroupRef) -> Gang | None:
        """Return a gang, or None if it is unknown."""
        return self._model.gangs.get(ref)

    # Where there is room.

    @property
    def table(self) -> NodeTable:
        """Return the nodes, to ask other questions of them."""
        return self._table

    def rows(self, *names: str) -> list[int]:
        """Return where nodes stand in arrays."""
        return list(self._table.rows_of(list(names)))

    def resource(self, name: str) -> int:
        """Return where a resource stands in arrays."""
        return self._table.resources.index(name)

    def free(self) -> NDArray[np.int64]:
        """Return what is free, as (resources, nodes)."""
        return self._table.free()

    def free_on(self, node: str) -> dict[str, int]:
        """Return what is free on a node, by resource."""
        row = self._table.row(node)
        assert row is not None
        return dict(zip(self._table.resources, self._table.free()[:, row].tolist(), strict=True))

    def admitting(self, shape: Shape) -> NDArray[np.bool_]:
        """Return which nodes admit pods of a shape by their taints and labels."""
        return Eligibility(self._table).mask(shape)

    def has_room(self, pod: Pod) -> bool:
        """Tell whether a pod holds room on a node, or is promised some."""
        return self._table.claim_of(pod.uid) is not None

    def devices(self, pod: Pod) -> Held | None:
        """Return which devices a pod holds, or will."""
        return self._table.occupancy.held(pod.uid)

    def keeps(self) -> list[Earmark]:
        """Return the room that is kept for gangs and repairs."""
        return self._admission.tenure.keeps

    def overcommitted(self) -> list[str]:
        """Return the nodes of which more is bound and promised than they have."""
        table = self._table
        return [node.name for node in table.nodes() if table.short_of(node.name)]

    # What is decided.

    def wait(self, uid: str) -> Wait | None:
        """Return why the life `uid` of a gang waits, or None if it does not."""
        return self.waits().get(uid)

    @property
    def is_telling(self) -> bool:
        """Tell whether the pass that is under way has decided all, and tells gangs why they wait."""
        return self._admission.deciding and self._admission.tenure.decider.is_telling

    def kinds(self, *refs: GroupRef) -> list[Hashable | None]:
        """Return the kinds of gangs that stand in line."""
        queues = self._admission.tenure.decider.queues
        return [entry.kind for entry in map(queues.get, refs) if entry is not None]

    def attempts(self, uid: str) -> int:
        """Return how often in a row the life `uid` of a gang had its nodes in vain."""
        return self._reservations.backoff.attempts(uid)

    def judged_at(self) -> dict[str, int]:
        """Return at which generation of the node table each gang that wants nodes was judged last, by UID."""
        queues = self._admission.tenure.decider.queues
        return {each.gang.uid: each.judged_on.generation for each in queues.entries if each.judged_on is not None}

    def waits(self) -> dict[str, Wait]:
        """Return why gangs wait, by the UID of their life."""
        return self._reservations.waits

    def reservations(self) -> list[Reservation]:
        """Return what is promised, and not bound yet."""
        return list(self._reservations.ledger)

    def reservation(self, uid: str) -> Reservation | None:
        """Return what is promised to the life `uid` of a gang."""
        return self._reservations.ledger.of_gang(uid)

    def reservation_for(self, pod: Pod) -> Reservation | None:
        """Return what is promised to the gang of a pod that is promised a node."""
        return next((each for each in self.reservations() if pod.uid in each.slots), None)

    def promised_gpus(self) -> int:
        """Return how many GPUs are promised."""
        return sum(each.gpus for each in self.reservations())

    def slot(self, pod: Pod) -> Slot | None:
        """Return what is promised to a pod."""
        reservation = self.reservation_for(pod)
        return None if reservation is None else reservation.slots[pod.uid]

    def failures(self, uid: str) -> int:
        """Return how often a reservation of the life `uid` of a gang has failed in a row."""
        return self._reservations.backoff.attempts(uid)

    def preemptors(self) -> set[GroupRef]:
        """Return the gangs for which others are being evicted."""
        tenure = self._admission.tenure
        return {each.gang.ref for each in tenure.pending_evictions.under_way.values()}

    def cleared_for(self, ref: GroupRef) -> Earmark | None:
        """Return what is kept for a gang while others leave for it; None if none do."""
        under_way = self._admission.tenure.pending_evictions.under_way.values()
        return next((each.keep for each in under_way if each.gang.ref == ref), None)

    def kept_from(self, ref: GroupRef) -> list[Earmark]:
        """Return what was kept for gangs that wait when a gang that waits was last judged."""
        decider = self._admission.tenure.decider
        entry = decider.queues.get(ref)
        key = None if entry is None else entry.judged_on or entry.extras_judged_on
        return [] if key is None else [each for each in key.earmarks if not each.firm]

    # What queues are charged.

    def places_kept(self) -> list[str]:
        """Return the nodes where places are kept for members that are to come, one for each place."""
        places = self._admission.tenure.pending_evictions.moved.places.values()
        return sorted(node for place in places for node, _ in place.places)

    def spares(self, queue: str) -> SpareCount:
        """Return how many nodes a Queue keeps for repairs."""
        self.spare_earmarks()
        return self._admission.tenure.spares.counts[queue]

    def spare_earmarks(self) -> tuple[Earmark, ...]:
        """Return what is kept of the nodes that Queues keep for repairs."""
        return self._admission.tenure.spares.keeps()

    def nodes_of(self, kept: Earmark) -> list[str]:
        """Return on which nodes something is kept."""
        return [self._table.node(row).name for row in np.flatnonzero(kept.kept.sum(axis=0)).tolist()]

    def used(self, queue: str, flavor: str, resource: str) -> int:
        """Return how much of a resource a Queue uses in a flavor."""
        return self._sharing.tree.used(queue, flavor, resource)

    def borrowed(self, queue: str, flavor: str, resource: str) -> int:
        """Return how much of that is more than its own quota."""
        return self._sharing.tree.borrowed(queue, flavor, resource)

    @property
    def default_priority(self) -> int:
        """Return the priority of a pod that names no PriorityClass."""
        priorities = self._admission.priorities
        return priorities.default

    def everything(self) -> tuple[object, ...]:
        """Return all by which anything is decided or told, to be compared."""
        admission = self._admission
        model, tree = admission.model, admission.sharing.tree
        table, gangs = model.table, model.gangs
        return (
            *(table.generation, table.last_change, table.used.tolist(), table.allocatable.tolist()),
            *(dict(table.touched), {uid: table.claim_of(uid) for uid in model.pods}, sorted(model.pods)),
            *(sorted(str(gang.ref) for gang in gangs), dict(gangs.changed)),
            {reservation.gang_uid: dict(reservation.slots) for reservation in self.reservations()},
            *(dict(self.waits()), admission.pending, admission.passes, admission.waiting_order(), admission.heads),
            [(name, tree.usage(name)) for name in tree],
        )
