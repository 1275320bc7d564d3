"""Hot spares: nodes that a Queue keeps free for repairs of its gangs, or lends to gangs that leave when one needs them.

A worked example. Queue team keeps one node in each rack, and lends below priority 0:

    rack a   n1 runs train (priority 5)   n2 is empty                        n2 is the spare, and free
    rack b   n3 runs train                n4 runs batch (priority -5)        n4 is the spare, lent, if it was one before
    rack c   n5 and n6 run train          no node is empty                   one is missing

Only members that replace others have them, and gangs that they are lent to; what is free there is kept from all others.
One that is needed is empty when who has it has been evicted: by rank, as for any gang of the Queue. Which nodes these
are changes as little as can be.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel
from extender.eviction.pending import PendingEvictions
from extender.ledger.earmark import Earmark
from extender.objects.node import CLOSED_TAINTS, Node
from extender.objects.podgroup import GroupRef
from extender.objects.queue import Queue, WithinQueue
from extender.objects.requests import is_extended
from extender.queues.sharing import Sharing

_Flavor: TypeAlias = tuple[tuple[tuple[str, str], ...], frozenset[str]]
"""The labels of a flavor's nodes, and the resources of which there is quota."""


@dataclass(frozen=True, slots=True)
class SpareCount:
    """How many nodes a Queue is to keep, in all domains together, and how many of these are `free` or `lent`."""

    wanted: int = 0
    free: int = 0
    lent: int = 0

    @property
    def missing(self) -> int:
        """Return how many there are too few."""
        return self.wanted - self.free - self.lent


@dataclass(slots=True)
class _Candidates:
    """(rows,) which nodes a Queue with some flavors may keep, as of a generation of their table."""

    flavors: list[_Flavor]
    seen: int
    are: NDArray[np.bool_]


class Spares:
    """Choose the nodes that Queues keep, and keep what is free there.

    Attributes:
        counts: how many there are, by Queue.
    """

    def __init__(self, model: ClusterModel, sharing: Sharing, pending: PendingEvictions) -> None:
        """Choose among the nodes of `model`; where `pending` keeps places there is none to spare."""
        self._model = model
        self._sharing = sharing
        self._pending = pending
        self._chosen: dict[str, list[str]] = {}  # by queue, nodes in the order in which they were chosen
        self._rows: dict[str, _Candidates] = {}
        self._seen: tuple[object, ...] = ()
        self._keeps: tuple[Earmark, ...] = ()
        self.counts: dict[str, SpareCount] = {}

    def keeps(self) -> tuple[Earmark, ...]:
        """Return what is kept now, for each Queue that keeps any, in the order of their names."""
        sharing = self._sharing
        queues = [sharing.queues[name] for name in sorted(sharing.sparing) if name in sharing.tree]
        busy = self._busy()
        seen = (self._model.table.generation, self._model.tree, busy, tuple(map(id, queues)))
        if seen != self._seen:
            self._seen = seen
            self._choose(queues, busy)
        return self._keeps

    def opens(self, owner: str, gang: Gang, queue: str, *, repairs: bool = False) -> bool:
        """Tell whether a gang in `queue` may use what Queue `owner` keeps: to be repaired, or because it is lent.

        One that has started and lacks members is being repaired, and one for which places are kept.
        """
        tree = self._sharing.tree
        if queue not in tree or owner not in tree.path(queue):
            return False
        lacking = gang.census().bound > 0 and not gang.has_minimum and not gang.is_growing
        repairs = repairs or lacking or gang.uid in self._pending.moved.places
        return repairs or self._lends(self._sharing.queues[owner], gang, queue)

    def _busy(self) -> frozenset[str]:
        """Return the nodes where places are kept for those that leave, or are being cleared for others."""
        table, moved = self._model.table, self._pending.moved.places.values()
        kept = [node for each in moved for node, _ in each.places]
        for each in self._pending.under_way.values():
            kept += [node.name for node in table.nodes_at(each.keep.rows)]
        return frozenset(kept)

    def _lends(self, owner: Queue, gang: Gang, queue: str) -> bool:
        """Tell whether a Queue lends what it keeps to a gang: one that others of it may have evicted by rank."""
        policy = owner.preemption.within_queue
        below = owner.spares is not None and gang.priority < owner.spares.lend_below
        return below and queue == owner.name and gang.preemptible and policy is not WithinQueue.NEVER

    def _choose(self, queues: Sequence[Queue], busy: Collection[str]) -> None:
        """Choose nodes for each Queue, none for two."""
        before = {keep.spares: keep for keep in self._keeps}
        table, taken, keeps = self._model.table, set(busy), list[Earmark]()
        chosen, self.counts = dict[str, list[str]](), {}
        for queue in queues:
            names = chosen[queue.name] = self._of_queue(queue, taken)
            taken.update(names)
            rows = table.rows_of(names)
            kept = np.zeros((len(table.resources), table.rows), dtype=np.int64)
            kept[:, rows] = np.maximum(table.free()[:, rows], 0)
            ref = GroupRef("", "", f"the spares of Queue {queue.name}")
            keep = Earmark.firm_for(Gang(ref, f"spares:{queue.name}", 0.0), kept, spares=queue.name)
            old = before.get(queue.name)
            keeps.append(old if old is not None and old.kept.shape == kept.shape and (old.kept == kept).all() else keep)
        self._chosen, self._keeps = chosen, tuple(keeps)

    def _of_queue(self, queue: Queue, taken: Collection[str]) -> list[str]:
        """Return the nodes that a Queue keeps, those first that it kept before; count them."""
        table, tree, spares = self._model.table, self._model.tree, queue.spares
        level = tree.levels.find(spares.level) if spares is not None and spares.level else -1
        if spares is None or level is None or level >= tree.depth:
            self.counts[queue.name] = SpareCount()
            return []
        path, empty, known = tree.path(level), self._empty(), self._chosen.get(queue.name)
        rows = self._candidates(queue)
        rows = rows[path[rows] >= 0]
        left = dict.fromkeys(path[rows].tolist(), spares.nodes)
        names, lent, wanted = list[str](), 0, sum(left.values())
        there = set(rows.tolist())
        # Who runs on it was not lent it unless it was a spare before; after a restart that is not known.
        fresh = rows[empty[rows]] if known is not None else rows
        fresh = fresh[np.lexsort((table.order()[fresh], ~empty[fresh]))]
        for row in chain(table.rows_of(known or ()).tolist(), fresh.tolist()):
            domain = int(path[row])
            if row not in there or not left[domain] or (name := table.node(row).name) in taken:
                continue
            if empty[row] or self._is_lent(queue, name):
                there.remove(row)
                left[domain] -= 1
                names.append(name)
                lent += not empty[row]
        self.counts[queue.name] = SpareCount(wanted, len(names) - lent, lent)
        return names

    def _candidates(self, queue: Queue) -> NDArray[np.intp]:
        """Return the rows of the nodes of a Queue's flavors that have devices and take pods."""
        tree, table = self._sharing.tree, self._model.table
        flavors = [
            (tree.node_selector(queue.name, each), tree.limited(queue.name, each)) for each in tree.flavors(queue.name)
        ]
        known = self._rows.get(queue.name)
        if known is None or known.flavors != flavors:
            known = self._rows[queue.name] = _Candidates(flavors, -1, np.zeros(0, dtype=np.bool_))
        are = np.zeros(table.rows, dtype=np.bool_)
        are[: known.are.shape[0]] = known.are
        for row in np.flatnonzero(table.moved_at[: table.rows] > known.seen).tolist():  # of thousands few
            are[row] = bool(table.present[row]) and _is_candidate(table.node(row), flavors)
        known.seen, known.are = table.generation, are
        return np.flatnonzero(are)

    def _empty(self) -> NDArray[np.bool_]:
        """Return (rows,) on which nodes no device is taken or promised."""
        table = self._model.table
        taken = table.used[table.extended(), : table.rows].sum(axis=0)
        empty: NDArray[np.bool_] = taken == 0
        return empty

    def _is_lent(self, queue: Queue, name: str) -> bool:
        """Tell whether only gangs have devices of a node that it is lent to."""
        model = self._model
        for uid, claim in model.table.claims_on(name):
            pod = model.pods.get(uid)
            if pod is None or not any(map(is_extended, dict(claim.shape.requests))):
                continue
            gang = model.gang_of(pod)
            if gang is None or not self._lends(queue, gang, self._sharing.queue_of(gang)):
                return False
        return True


def _is_candidate(node: Node, flavors: Sequence[_Flavor]) -> bool:
    """Tell whether a node takes pods, has devices, and is of one of some flavors, if there are any."""
    if node.doomed or any(taint.key in CLOSED_TAINTS for taint in node.taints):
        return False
    devices = {resource for resource, amount in node.allocatable.items() if amount and is_extended(resource)}
    return bool(devices) and (not flavors or any(_is_of(node, devices, *each) for each in flavors))


def _is_of(node: Node, devices: Collection[str], selector: Sequence[tuple[str, str]], limited: Collection[str]) -> bool:
    """Tell whether a node is of a flavor that has quota for any of its devices, or for none at all."""
    quota = {resource for resource in limited if is_extended(resource)}
    return (not quota or not quota.isdisjoint(devices)) and all(node.labels.get(key) == text for key, text in selector)
