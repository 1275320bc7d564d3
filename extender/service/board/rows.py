"""How each gang stands, and who holds what of each node: as rows of lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from extender.admission.admission import Admission
from extender.cluster.gangs import Gang
from extender.cluster.tree import Tree
from extender.control.controller import Controller
from extender.explain.documents import GangPhase
from extender.explain.drawing.tree import DrawnHolding, cells, written_gpus
from extender.explain.explanation import expected_start, rounded, start_unknown, starts_after, wait_reason
from extender.explain.views import GangView, gang_view
from extender.hardware.products import PRODUCT_LABELS
from extender.ledger.slots import Reservation
from extender.objects.meta import time_text
from extender.objects.node import CLOSED_TAINTS, Node
from extender.objects.pod import Pod
from extender.placement.placement import Placement
from extender.queues.sharing import NAMELESS
from extender.service.board.documents import GangRow, MemberCounts


class GangRows:
    """Write the rows of gangs.

    What is predicted of where a gang is takes a walk over its members, and is kept until it has others: of a gang of
    1,000 each step of each member changes the row.
    """

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._predicted: dict[str, tuple[tuple[int, int], Placement | None]] = {}

    def row(self, gang: Gang) -> GangRow | None:
        """Return the row of a gang, None for one that another scheduler looks after.

        A pod that names no group is on the list only while it waits: 50,000 of them may run.
        """
        if gang.ref.is_pod and gang.uid not in self._controller.admission.reservations.waits:
            return None
        admission = self._controller.admission
        view = gang_view(admission, gang)
        if not view.managed:
            return None
        queue = admission.sharing.queue_of(gang)
        placement = self._placement(gang, view)
        prospect = self._controller.inspection.prospects.of(gang)
        census, beside = view.census, admission.model.devices.gpus_beside(gang.members)
        held = _held(gang, admission.reservations.ledger.of_gang(gang.uid))
        return GangRow(
            namespace=gang.ref.namespace,
            name=gang.ref.name,
            api=gang.ref.api,
            phase=view.phase,
            queue=None if queue == NAMELESS else queue,
            priority=gang.priority,
            min_member=view.min_member,
            members=MemberCounts(
                exist=census.exist,
                gated=census.gated,
                waiting=max(census.placeable - view.reserved, 0),
                reserved=view.reserved,
                bound=census.bound,
                running=census.running,
                succeeded=census.succeeded,
                failed=census.failed,
            ),
            gpus=sum(pod.shape.whole_gpus for pod in gang.members.values() if not pod.done) + beside,
            gpus_held=sum(pod.shape.whole_gpus for pod, _ in held) + beside,
            reason=None if view.wait is None else wait_reason(view.wait),
            since=gang.created or None,
            started_at=None if gang.started_at is None else time_text(gang.started_at),
            expected_start=expected_start(prospect),
            start_unknown=start_unknown(prospect),
            starts_after=starts_after(prospect),
            bus_bandwidth=None if placement is None else rounded(placement.bus_bandwidth),
            level=None if placement is None else placement.level,
            domain=None if placement is None else placement.domain,
            nodes=len({node for _, node in held}),
            evicted=view.evicted or None,
            parts=view.parts,
        )

    def forget(self, uids: set[str]) -> None:
        """Forget what was predicted of all gangs but those with these UIDs."""
        self._predicted = {uid: known for uid, known in self._predicted.items() if uid in uids}

    def _placement(self, gang: Gang, view: GangView) -> Placement | None:
        """Return where a gang is, once it has places for all that it needs."""
        placed = view.census.bound + view.reserved
        if not placed or (view.phase is GangPhase.SCHEDULING and placed < view.min_member):
            return None
        key = (view.census.bound + view.census.leaving + view.reserved, len(gang.members))
        known = self._predicted.get(gang.uid)
        if known is None or known[0] != key:
            known = self._predicted[gang.uid] = key, self._controller.admission.placement_of(gang.ref)
        return known[1]


def _held(gang: Gang, reservation: Reservation | None) -> list[tuple[Pod, str]]:
    """Return the members that hold room, bound or promised, each with its node."""
    slots = {} if reservation is None else reservation.slots
    places = ((pod, pod.node_name or (uid in slots and slots[uid].node)) for uid, pod in gang.members.items())
    return [(pod, node) for pod, node in places if node and not pod.done]


#: Of these it is told how much there is.
_TOLD: Final = ("cpu", "memory")
#: What marks, in a cell, that its GPU is only promised. No namespace begins like this.
_PROMISED = "~"


Resources: TypeAlias = Mapping[str, tuple[int, int]]
"""Resource -> how much a node has of it, and has left (milli-CPU, bytes)."""


class NodeRow(NamedTuple):
    """One node.

    `domains` has one name per level, outermost first, "" where the node has none: each with the names of the domains
    around it (`b0/r1`), so that namesakes are told apart. `cells` has, for each GPU, the gang or pod (namespace/name)
    that holds it, "" for a free one; `promised` says of which that is a reservation. GPUs that share a node count as
    none here.
    """

    name: str
    domains: tuple[str, ...]
    product: str
    schedulable: bool
    cells: tuple[str, ...]
    promised: tuple[bool, ...]

    @property
    def free(self) -> int:
        """Count the free GPUs."""
        return self.cells.count("")

    @property
    def reserved(self) -> int:
        """Count the GPUs that are only promised."""
        return sum(self.promised)


@dataclass(slots=True)
class Totals:
    """Nodes counted: all, those that take pods, those with GPUs; and GPUs: all, those promised, those free."""

    nodes: int = 0
    schedulable: int = 0
    with_gpus: int = 0
    gpus: int = 0
    reserved: int = 0
    free: int = 0

    def count(self, node: NodeRow, sign: int) -> None:
        """Count a node in (1) or out (-1)."""
        self.nodes += sign
        self.schedulable += sign * node.schedulable
        self.with_gpus += sign * bool(node.cells)
        self.gpus += sign * len(node.cells)
        self.reserved += sign * node.reserved
        self.free += sign * node.free


class NodeRows:
    """Keep the rows of all nodes, and compute again those of which anything changed.

    Attributes:
        rows: the nodes by name.
        totals: all of them counted.
        changed: names of nodes whose row is another since this was last emptied, those that are gone included.
    """

    #: Nodes that are looked at before others have the event loop: some 0.3 ms.
    _NODES_PER_STEP = 8

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._seen = -1
        self._tree: Tree | None = None
        self._promised: dict[str, str] = {}
        self.rows: dict[str, NodeRow] = {}
        self.totals = Totals()
        self.changed: dict[str, None] = {}

    @property
    def levels(self) -> tuple[str, ...]:
        """Return the names of the levels that rows have domains of."""
        return () if self._tree is None else tuple(level.name for level in self._tree.levels.levels)

    def refresh(self) -> Iterator[None]:
        """Bring the rows up to date, in steps between which others may have the event loop."""
        table = self._admission.model.table
        tree = self._admission.model.tree
        if self._tree is None or self._tree.levels.levels != tree.levels.levels:
            self._seen = -1  # every node is in other domains
        self._tree = tree
        moved = np.flatnonzero(table.moved_at[: table.rows] > self._seen).tolist()
        self._seen = table.generation
        names = dict.fromkeys(table.node(row).name for row in moved if table.present[row])
        names |= dict.fromkeys(self._kept_or_broken())
        gone = [name for name in self.rows if table.row(name) is None] if len(self.rows) > len(table) or moved else []
        for name in gone:
            self.totals.count(self.rows.pop(name), -1)
            self.changed[name] = None
        for number, name in enumerate(names, start=1):
            self._put(name)
            if number % self._NODES_PER_STEP == 0:
                yield

    def resources(self) -> Callable[[str], Resources]:
        """Return what tells of each node how much CPU and memory it has and has left, as things stand now.

        Only a few arrays are copied here; the rest may be asked for in a thread.
        """
        table = self._admission.model.table
        rows = {name: row for name in self.rows if (row := table.row(name)) is not None}
        columns = [table.resources.index(resource) for resource in _TOLD]
        allocatable, free = table.allocatable[columns].copy(), table.free()[columns]

        def of(name: str) -> Resources:
            row = rows.get(name)
            if row is None:
                return {}
            both = zip(allocatable[:, row].tolist(), free[:, row].tolist(), strict=True)
            return dict(zip(_TOLD, both, strict=True))

        return of

    def _kept_or_broken(self) -> list[str]:
        """Return the nodes of promises that there are now and were not when this was last asked, or the reverse.

        A promise that becomes a Binding takes no more of its node than before: the table does not count it as moved.
        """
        ledger, before = self._admission.reservations.ledger, self._promised
        promised = {uid: slot.node for reservation in ledger for uid, slot in reservation.slots.items()}
        self._promised = promised
        uids = promised.keys() ^ before.keys()
        return sorted({node for uid in uids for node in (promised.get(uid), before.get(uid)) if node is not None})

    def _put(self, name: str) -> None:
        row, before = self._row(name), self.rows.get(name)
        if row is None or row == before:
            return
        if before is not None:
            self.totals.count(before, -1)
        self.totals.count(row, 1)
        self.rows[name] = row
        self.changed[name] = None

    def _row(self, name: str) -> NodeRow | None:
        node = self._admission.model.table.find(name)
        if node is None:
            return None
        marked = cells(node.gpus[1], self._holdings(name))
        return NodeRow(
            name=name,
            domains=self._domains(name),
            product=product_of(node),
            schedulable=not node.deleting and not any(taint.key in CLOSED_TAINTS for taint in node.taints),
            cells=tuple(cell.removeprefix(_PROMISED) for cell in marked),
            promised=tuple(cell.startswith(_PROMISED) for cell in marked),
        )

    def _holdings(self, name: str) -> Iterable[DrawnHolding]:
        # What Muster supposes of pods that are annotated with no GPUs is not asked for: that is part of deciding.
        model, pods = self._admission.model, self._admission.model.pods
        for uid, claim in model.table.claims_on(name):
            gpus, pod = claim.shape.whole_gpus, pods.get(uid)
            if gpus and pod is not None:
                holder = str(pod.group)
                yield DrawnHolding(holder if pod.node_name else f"{_PROMISED}{holder}", gpus, written_gpus(pod))
        yield from (DrawnHolding(holder, gpus, ()) for holder, gpus in model.devices.beside(name))

    def _domains(self, name: str) -> tuple[str, ...]:
        """Return the path of a node, level by level."""
        row, tree = self._admission.model.table.row(name), self._tree
        if row is None or tree is None or row >= tree.domains.shape[1]:
            return ()
        path: list[str] = []
        for level, domain in enumerate(tree.domains[:, row].tolist()):
            above = next((own for own in reversed(path) if own), "")
            own = tree.names[level][domain] if domain >= 0 else ""
            path.append(f"{above}/{own}" if own and above else own)
        return tuple(path)


def product_of(node: Node) -> str:
    """Return the product of a node's GPUs as its labels or else its ResourceSlices name it, "" if none does."""
    return next((node.labels[label] for label in PRODUCT_LABELS if node.labels.get(label)), node.described.product)
