"""Nodes as columns: one contiguous int64 column per resource, one row index per node."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from extender.cluster.claims import Claim
from extender.cluster.occupancy import Occupancy
from extender.objects.holdings import DeviceHolding
from extender.objects.node import Node
from extender.objects.pod import CHARGED, Shape
from extender.objects.requests import MOST_AMOUNT, is_extended
from extender.objects.text import NaturalKey, natural_key

#: Resources that nearly every cluster has; others get a column when a node first lists them.
_BASE_RESOURCES = ("cpu", "memory", "pods", "ephemeral-storage")
_INITIAL_ROWS = 64

#: Larger amounts count as this much: the sum over 65,000 pods of a node stays within int64.
_LIMIT = MOST_AMOUNT

#: Columns that claims may open, for what nodes list no more or not yet. Pods can name any number of resources, and
#: each column takes 24 bytes a node; what no node lists is counted beyond that once one does.
_MOST_CLAIMED_COLUMNS = 32

_NOTHING: dict[str, int] = {}

#: From so many nodes on it costs less to count by column than by node.
_MANY_NODES = 16


@dataclass(frozen=True, slots=True)
class Vector:
    """A request in the table's own indices.

    `columns` are resource indices, `amounts` the amounts (milli-CPU, bytes, counts) in the same order. `unknown` says
    that some requested resource has never been listed by any node, so that the request fits nowhere; what others
    account for is no part of it.
    """

    columns: NDArray[np.intp]
    amounts: NDArray[np.int64]
    unknown: bool


class NodeTable:
    """Keep every node's capacity and what is taken of it.

    Rows are recycled and never move, so a row index stays valid as long as its node exists. Claims name nodes, not
    rows: a claim on a node that is not there (yet) counts from the moment it appears.

    Attributes:
        allocatable: (resources, rows) int64; zero for absent nodes and resources.
        used: (resources, rows) int64; the sum of all claims.
        lasting: (resources, rows) int64; the sum of the lasting claims.
        present: (rows,) bool; which rows hold a node.
        generation: grows with every mutation.
        changed_at: (rows,) int64; the generation at which a row's labels, taints or presence last changed.
        last_change: the newest of these generations; a cache that has seen it is up to date.
        moved_at: (rows,) int64; the generation at which anything of a row last changed, claims included.
        last_node_change: the generation at which any node last changed in any way, came or went.
        freed_at: (rows,) int64; the generation at which a claim on a row was last given back.
        touched: names of nodes of which anything changed or more was taken since the reader took the names out.
        claimed: UIDs of pods whose claim, or whose node's labels, changed since the reader took the UIDs out.
        moved: UIDs of pods whose claim changed since the reader took the UIDs out, for another reader.
        occupancy: which GPUs and zones the claims hold.
        left_to_others: resources that requests may name although no node lists them: others account for them.
    """

    def __init__(self, others: Iterable[str] = ()) -> None:
        """Start empty; `others` are resources that are counted only as long as a node lists them."""
        self._listing = dict.fromkeys(others, 0)  # on how many nodes
        self.left_to_others = frozenset(self._listing)
        self._column: dict[str, int] = {resource: index for index, resource in enumerate(_BASE_RESOURCES)}
        self._row: dict[str, int] = {}
        self._free_rows: list[int] = []
        self._nodes: list[Node | None] = []
        self._provided: dict[str, dict[str, int]] = {}
        self._claims: dict[str, Claim] = {}
        self._claimants: dict[str, dict[str, None]] = {}  # in the order of the claims
        self.allocatable: NDArray[np.int64] = np.zeros((len(_BASE_RESOURCES), _INITIAL_ROWS), dtype=np.int64)
        self.used: NDArray[np.int64] = np.zeros_like(self.allocatable)
        self.lasting: NDArray[np.int64] = np.zeros_like(self.allocatable)
        self.present: NDArray[np.bool_] = np.zeros(_INITIAL_ROWS, dtype=np.bool_)
        self.generation = 0
        self.changed_at: NDArray[np.int64] = np.zeros(_INITIAL_ROWS, dtype=np.int64)
        self.last_change = self.last_node_change = 0
        self.moved_at: NDArray[np.int64] = np.zeros(_INITIAL_ROWS, dtype=np.int64)
        self.freed_at: NDArray[np.int64] = np.zeros(_INITIAL_ROWS, dtype=np.int64)
        self.touched: dict[str, None] = {}
        self.claimed: dict[str, None] = {}
        self.moved: dict[str, None] = {}
        self._sorted: list[tuple[NaturalKey, str, int]] = []
        self._order: NDArray[np.int64] | None = None
        self.occupancy = Occupancy(self)

    def __len__(self) -> int:
        """Count the nodes."""
        return len(self._row)

    @property
    def rows(self) -> int:
        """Return the number of row indices in use or recyclable: the length of every per-node array."""
        return len(self._nodes)

    @property
    def resources(self) -> tuple[str, ...]:
        """Return the resource of each column."""
        return tuple(self._column)

    def row(self, name: str) -> int | None:
        """Return the row of the node called `name`, or None."""
        return self._row.get(name)

    def rows_of(self, names: Sequence[str]) -> NDArray[np.intp]:
        """Return the rows of `names`, -1 for nodes that are not there."""
        try:
            return np.fromiter(map(self._row.__getitem__, names), dtype=np.intp, count=len(names))
        except KeyError:  # seldom, and looking for that first would take half as long again
            get = self._row.get
            return np.fromiter((get(name, -1) for name in names), dtype=np.intp, count=len(names))

    def node(self, row: int) -> Node:
        """Return the node of a row; raise KeyError for an empty one."""
        node = self._nodes[row]
        if node is None:
            raise KeyError(row)
        return node

    def find(self, name: str) -> Node | None:
        """Return the node called `name`, or None."""
        row = self._row.get(name)
        return None if row is None else self._nodes[row]

    def nodes_at(self, rows: Iterable[int]) -> list[Node]:
        """Return the nodes of those of the rows that have one."""
        return [node for node in map(self._nodes.__getitem__, rows) if node is not None]

    def nodes(self) -> list[Node]:
        """Return all nodes in row order."""
        return [node for node in self._nodes if node is not None]

    def order(self) -> NDArray[np.int64]:
        """Return (rows,) each node's place in the natural order of names: what decides between equal nodes."""
        if self._order is None:
            rows = [row for _, _, row in self._sorted]
            self._order = np.full(self.rows, self.rows, dtype=np.int64)
            self._order[rows] = np.arange(len(rows))
        return self._order

    def extended(self) -> NDArray[np.bool_]:
        """Return (resources,) which columns are extended resources."""
        return np.fromiter(map(is_extended, self._column), dtype=np.bool_)

    def free(self) -> NDArray[np.int64]:
        """Return (resources, rows) of what is left; negative where a node shrank or was overcommitted by others."""
        return self.allocatable[:, : self.rows] - self.used[:, : self.rows]

    def potential(self) -> NDArray[np.int64]:
        """Return (resources, rows) of what is left once everything that can end has ended."""
        return self.allocatable[:, : self.rows] - self.lasting[:, : self.rows]

    def vector(self, requests: Sequence[tuple[str, int]]) -> Vector:
        """Translate requests into column indices."""
        counted = self.counted(requests)
        known = [(self._column[resource], value) for resource, value in counted if resource in self._column]
        return Vector(
            columns=np.array([column for column, _ in known], dtype=np.intp),
            amounts=np.array([min(value, _LIMIT) for _, value in known], dtype=np.int64),
            unknown=len(known) < len(counted),
        )

    def leave_to_others(self, resource: str) -> None:
        """Count a resource from now on only as long as a node lists it."""
        if resource not in self._listing:
            self._listing[resource] = 0
            self.left_to_others |= {resource}

    def counted(self, requests: Sequence[tuple[str, int]]) -> Sequence[tuple[str, int]]:
        """Return those of the requests that no other accounts for."""
        left = self.left_to_others
        if not left or left.isdisjoint(resource for resource, _ in requests):
            return requests
        return [each for each in requests if each[0] not in left]

    def taken_by(self, places: Iterable[tuple[str, Shape]]) -> NDArray[np.int64]:
        """Return (resources, rows) what pods of some shapes take on nodes, of which some may be gone."""
        amounts = np.zeros((len(self.resources), self.rows), dtype=np.int64)
        rows_of: dict[Shape, list[int]] = {}
        for name, shape in places:
            if (row := self._row.get(name)) is not None:
                rows_of.setdefault(shape, []).append(row)
        for shape, rows in rows_of.items():
            vector = self.vector(shape.requests)
            np.add.at(amounts, (vector.columns[:, None], np.array(rows)), vector.amounts[:, None])
        return amounts

    def upsert(self, node: Node) -> bool:
        """Take in a node; return whether anything that matters to a decision changed."""
        row = self._row.get(node.name)
        if row is None:
            row = self._new_row(node.name)
            before = None
        else:
            before = self._nodes[row]
            if before == node:
                return False
        self._nodes[row] = node
        self.occupancy.node_changed(node.name)
        self.present[row] = True
        if before is None or before.allocatable != node.allocatable:
            self._set_allocatable(row, node)
            self._list({} if before is None else before.allocatable, node.allocatable)
        self.generation += 1
        self.last_node_change = self.moved_at[row] = self.generation
        self.touched[node.name] = None
        if before is None or before.labels != node.labels:
            self.claimed |= self._claimants.get(node.name, {})
        if before is None or _entry_terms(before) != _entry_terms(node):
            self.changed_at[row] = self.last_change = self.generation
        return True

    def provide(self, name: str, amounts: dict[str, int]) -> bool:
        """Let a node have amounts besides what it lists itself, in place of former ones; return if that is news.

        They are there as soon as the node is.
        """
        if self._provided.get(name, _NOTHING) == amounts:
            return False
        if amounts:
            self._provided[name] = amounts
        else:
            self._provided.pop(name, None)
        node = self.find(name)
        if node is not None:
            row = self._row[name]
            self._set_allocatable(row, node)
            self.generation += 1
            self.last_node_change = self.moved_at[row] = self.generation
            self.touched[name] = None
        return True

    def remove(self, name: str) -> bool:
        """Forget a node; claims on it stay and count again should it come back. Return whether it was there."""
        row = self._row.pop(name, None)
        if row is None:
            return False
        gone, self._nodes[row] = self._nodes[row], None
        self._list({} if gone is None else gone.allocatable, {})
        self.occupancy.node_changed(name)
        self.occupancy.row_emptied(row)
        del self._sorted[bisect_left(self._sorted, (natural_key(name), name, row))]
        self._order = None
        self.present[row] = False
        self.allocatable[:, row] = 0
        self.used[:, row] = 0
        self.lasting[:, row] = 0
        self._free_rows.append(row)
        self.generation += 1
        self.touched[name] = None
        self.claimed |= self._claimants.get(name, {})
        self.changed_at[row] = self.last_change = self.last_node_change = self.moved_at[row] = self.generation
        return True

    def claim(  # noqa: PLR0913 - three of them are keywords that few need
        self,
        uid: str,
        node: str,
        shape: Shape,
        *,
        lasting: bool = False,
        observed: DeviceHolding | None = None,
        predicted: DeviceHolding | None = None,
    ) -> bool:
        """Let pod `uid` take what `shape` asks for on `node`, in place of its former claim; return if that is new.

        `observed` and `predicted` are which GPUs and zones it holds, as far as its annotations say.
        """
        claim, before = Claim(node, shape, lasting, observed, predicted), self._claims.get(uid)
        if before == claim:
            return False
        if before is not None and before.expecting(predicted) == claim and self.occupancy.keeps(uid, claim):
            self._claims[uid] = claim  # as it is bound, the pod is said to hold what it was given with the promise
            return False
        self.release(uid)
        self._claims[uid] = claim
        self._claimants.setdefault(node, {})[uid] = None
        self._count(claim, 1)
        self.generation += 1
        self.touched[node] = self.claimed[uid] = self.moved[uid] = None
        self._moved(node)
        self.occupancy.claim_changed(claim)
        return True

    def claim_alike(self, shape: Shape, nodes: Mapping[str, Collection[str]]) -> None:
        """Let pods of one shape that claim nothing take what it asks for, as `claim` would: node -> their UIDs.

        Complexity: O(nodes), and for each pod what it takes to note it.
        """
        self.generation += 1
        many = len(nodes) >= _MANY_NODES
        for node, uids in nodes.items():
            claim = Claim(node, shape)
            self._claims |= dict.fromkeys(uids, claim)
            self._claimants.setdefault(node, {}).update(dict.fromkeys(uids))
            self.claimed |= dict.fromkeys(uids)
            self.moved |= dict.fromkeys(uids)
            self.touched[node] = None
            self.occupancy.claim_changed(claim)
            if not many:
                self._count(claim, len(uids))
                self._moved(node)
        if many:
            self._count_alike(shape, nodes)

    def _count_alike(self, shape: Shape, nodes: Mapping[str, Collection[str]]) -> None:
        """Count pods of one shape on many nodes: a few microseconds for each column, however many there are."""
        rows = self.rows_of(list(nodes))
        pods = np.fromiter(map(len, nodes.values()), dtype=np.int64, count=len(nodes))
        rows, pods = rows[rows >= 0], pods[rows >= 0]
        for resource, value in shape.requests:
            column = self._column_claimed(resource)
            if column is not None:
                self.used[column, rows] += min(value, _LIMIT) * pods
        self.moved_at[rows] = self.generation

    def release(self, uid: str) -> bool:
        """Give back whatever pod `uid` claims; return whether it claimed anything."""
        claim = self._claims.pop(uid, None)
        if claim is None:
            return False
        claimants = self._claimants[claim.node]
        del claimants[uid]
        if not claimants:
            del self._claimants[claim.node]
        self._count(claim, -1)
        self.generation += 1
        self.claimed[uid] = self.moved[uid] = None
        self._moved(claim.node)
        if (row := self._row.get(claim.node)) is not None:
            self.freed_at[row] = self.generation
        self.occupancy.claim_changed(claim)
        return True

    def most_freed(self, generation: int) -> Mapping[str, int] | None:
        """Return the most that is free of each resource on any of the nodes where a claim was given back since.

        None if none was. More than that fits on none of them. Complexity: O(rows).
        """
        rows = np.flatnonzero(self.freed_at[: self.rows] > generation)
        if not rows.size:
            return None
        most = (self.allocatable[:, rows] - self.used[:, rows]).max(axis=1)
        return dict(zip(self._column, most.tolist(), strict=True))

    def touch(self, node: str) -> None:
        """Take in that something of what is remembered elsewhere about a node has changed."""
        self.touched[node] = None

    def reassess(self, node: str) -> None:
        """Take in that a node takes other pods now than before, for a reason that does not stand in the table."""
        self.touched[node] = None
        self.outdate()

    def outdate(self) -> None:
        """Take in that nodes are something else now than before, for a reason that does not stand in the table."""
        self.generation += 1
        self.last_node_change = self.generation

    def touch_all(self) -> None:
        """Count every node as changed, those included that are gone and still claimed."""
        self.touched |= dict.fromkeys((*self._row, *self._claimants))

    def claim_of(self, uid: str) -> Claim | None:
        """Return what pod `uid` claims, or None."""
        return self._claims.get(uid)

    def claims_on(self, node: str) -> Iterator[tuple[str, Claim]]:
        """Iterate over UIDs and claims of the pods that claim something on `node`, in the order of the claims."""
        return ((uid, self._claims[uid]) for uid in self._claimants.get(node, ()))

    def short_of(self, node: str) -> frozenset[str]:
        """Return the resources of which more is claimed on `node` than there is; none for a node that is not there."""
        row = self._row.get(node)
        if row is None:
            return frozenset()
        over = self.used[:, row] > self.allocatable[:, row]
        return (
            frozenset(self.resources[column] for column in np.flatnonzero(over).tolist()) - self.left_to_others
            if over.any()
            else frozenset()
        )

    def _new_row(self, name: str) -> int:
        if self._free_rows:
            row = self._free_rows.pop()
        else:
            row = len(self._nodes)
            self._nodes.append(None)
            if row >= self.present.shape[0]:
                self._grow(rows=2 * self.present.shape[0])
        self._row[name] = row
        insort(self._sorted, (natural_key(name), name, row))
        self._order = None
        for uid in self._claimants.get(name, ()):
            self._count(self._claims[uid], 1)
        return row

    def _set_allocatable(self, row: int, node: Node) -> None:
        self.allocatable[:, row] = 0
        for resource, value in (self._provided.get(node.name, _NOTHING) | dict(node.allocatable)).items():
            column = self._column_of(resource)  # may replace the array
            self.allocatable[column, row] = min(value, _LIMIT - 1)

    def _list(self, before: Mapping[str, int], now: Mapping[str, int]) -> None:
        """Take in what a node lists in place of what it listed before."""
        changed = [each for each in self._listing if bool(before.get(each)) != bool(now.get(each))]
        for resource in changed:
            self._listing[resource] += 1 if now.get(resource) else -1
        if changed:
            self.left_to_others = frozenset(name for name, nodes in self._listing.items() if not nodes)

    def _moved(self, node: str) -> None:
        row = self._row.get(node)
        if row is not None:
            self.moved_at[row] = self.generation

    def _count(self, claim: Claim, times: int) -> None:
        """Count what so many pods claim, each the same; less than none are taken off."""
        row = self._row.get(claim.node)
        if row is None:
            return
        for resource, value in claim.shape.requests:
            column = self._column_claimed(resource)
            if column is not None:
                self._add(column, row, times * min(value, _LIMIT), lasting=claim.lasting)

    def _add(self, column: int, row: int, change: int, *, lasting: bool) -> None:
        self.used[column, row] += change
        if lasting:
            self.lasting[column, row] += change

    def _column_of(self, resource: str) -> int:
        """Return the column of a resource that a node lists; a new one begins with what is claimed of it."""
        column = self._column.get(resource)
        if column is None:
            column = self._new_column(resource)
            for claim in self._claims.values():
                row, value = self._row.get(claim.node), claim.shape.request(resource)
                if row is not None and value:
                    self._add(column, row, min(value, _LIMIT), lasting=claim.lasting)
        return column

    def _column_claimed(self, resource: str) -> int | None:
        """Return the column of a resource that is claimed, None where it has none and there is no room for one."""
        column = self._column.get(resource)
        if column is None and len(self._column) < _MOST_CLAIMED_COLUMNS and not resource.endswith(CHARGED):
            column = self._new_column(resource)
        return column

    def _new_column(self, resource: str) -> int:
        column = self._column[resource] = len(self._column)
        self._grow(columns=column + 1)
        return column

    def _grow(self, rows: int | None = None, columns: int | None = None) -> None:
        shape = (columns or self.allocatable.shape[0], rows or self.allocatable.shape[1])
        for name in ("allocatable", "used", "lasting"):
            old: NDArray[np.int64] = getattr(self, name)
            new = np.zeros(shape, dtype=np.int64)
            new[: old.shape[0], : old.shape[1]] = old
            setattr(self, name, new)
        self.present = np.pad(self.present, (0, shape[1] - self.present.shape[0]))
        self.changed_at = np.pad(self.changed_at, (0, shape[1] - self.changed_at.shape[0]))
        self.moved_at = np.pad(self.moved_at, (0, shape[1] - self.moved_at.shape[0]))
        self.freed_at = np.pad(self.freed_at, (0, shape[1] - self.freed_at.shape[0]))


def _entry_terms(node: Node) -> tuple[object, ...]:
    """Return all of a node that decides which pods it admits."""
    return (node.labels, node.taints, node.soft_taints, node.deleting)
