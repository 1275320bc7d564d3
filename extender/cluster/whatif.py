"""A snapshot of what is free, to try placements on and take them back; and a copy of it for a thread of its own."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from extender.cluster.claims import Claim
from extender.cluster.occupancy import NO_NODE, HoldingScope, Occupancy
from extender.cluster.table import NodeTable, Vector
from extender.objects.holdings import DeviceHolding
from extender.objects.pod import Shape

#: Shapes whose rooms a snapshot remembers; of more that take turns each is counted every time.
_MOST_SHAPES = 16
#: Changes that are remembered for them; beyond, everything is counted again.
_MOST_CHANGES = 256
#: Up to this share of the nodes, one in so many, it costs less to count those that changed by themselves.
_ONE_IN = 8

#: More pods on one node than are told apart.
MOST_PODS: Final = 128

#: Values are close together if they span at most so many times their number.
_CLOSE = 4

_MANY: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Mark:
    """A point to undo to."""

    length: int


@dataclass(frozen=True, slots=True)
class _Taken:
    """Capacity taken: `counts[i]` times `vector` from `rows[i]`."""

    rows: NDArray[np.intp]
    vector: Vector
    counts: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Settled:
    """GPUs and zones taken: the states of `rows` before."""

    rows: NDArray[np.intp]
    states: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Vacated:
    """Claims given back: what each shape gained on which rows, the states of `rows` before, and whose claims they were.

    A row occurs in `gains` as often as it gained.
    """

    gains: tuple[tuple[Vector, NDArray[np.intp]], ...]
    rows: NDArray[np.intp]
    states: NDArray[np.int64]
    uids: Mapping[str, list[str]]


class NodeRoom(NamedTuple):
    """What a node does for pods of one shape: the state of its GPUs and zones, and how many pods it takes."""

    state: int
    pods: int


class RoomFollower(Protocol):
    """What is worked out from rooms, and worked out again where they change."""

    def follow(self, rooms: ShapeRooms, rows: NDArray[np.intp]) -> None:
        """Take in that `rooms` have been counted again on some rows."""


# Example. Pods of 2 GPUs, nodes n1 to n4 of 8 GPUs, of which n1 and n2 have 6 free (state 1), n3 and n4 all (state 0).
#
#   counts   3  3  4  4      kinds   1  1  0  0      known   [NodeRoom(0, 4), NodeRoom(1, 3)]
#
# A pod goes to n3, which is in state 1 then. Only its column is counted again:
#
#   counts   3  3  3  4      kinds   1  1  1  0
class ShapeRooms:
    """How many pods of one shape each node takes of what is free there, whichever nodes admit them.

    Attributes:
        counts: (rows,) how many; as many as there are for pods that ask for nothing.
        kinds: (rows,) int64: the index in `known` of what each node does, where it takes any; the same for nodes alike.
        known: what there is, or was.
        seen: how many changes of its snapshot it has taken in.
        followers: what others have worked out from it, by what they ask; forgotten when everything is counted again.
    """

    def __init__(self, occupancy: Occupancy, shape: Shape, vector: Vector, rows: int) -> None:
        """Count nothing yet; `vector` is what `shape` asks for in the indices of the columns of `rows` nodes."""
        self._occupancy = occupancy
        self._shape = shape
        self._vector = vector
        self._limits: dict[int, int] = {NO_NODE: 0}
        self._numbers: dict[NodeRoom, int] = {}
        self.known: list[NodeRoom] = []
        self.seen = 0
        self.followers: dict[Hashable, RoomFollower] = {}
        self.counts: NDArray[np.int64] = np.zeros(rows, dtype=np.int64)
        self.kinds: NDArray[np.int64] = np.zeros(rows, dtype=np.int64)

    def count(self, free: NDArray[np.int64], states: NDArray[np.int64], rows: NDArray[np.intp] | None) -> None:
        """Count nodes again.

        Args:
            free: (resources, rows) what is free.
            states: (rows,) the states of GPUs and zones.
            rows: those that have changed, None for all.
        """
        self._count(free, states, rows)
        if rows is None:
            self.followers.clear()
            return
        for follower in self.followers.values():
            follower.follow(self, rows)

    def _count(self, free: NDArray[np.int64], states: NDArray[np.int64], rows: NDArray[np.intp] | None) -> None:
        some, counts = self._by_columns(free if rows is None else free[:, rows])
        if rows is None:
            self.counts[:] = 0
        else:
            self.counts[rows] = 0
        if not some.shape[0]:
            return
        at = some if rows is None else rows[some]
        found, which = distinct(states[at])
        limits = np.array([self._limit(state) for state in found.tolist()], dtype=np.int64)
        self.counts[at] = np.minimum(counts, limits[which], out=counts)
        # One number for nodes that are alike, so that thousands of them are looked at once.
        mixed, where = distinct(which * (MOST_PODS + 1) + np.minimum(counts, MOST_PODS))
        rooms = [NodeRoom(int(found[each // (MOST_PODS + 1)]), each % (MOST_PODS + 1)) for each in mixed.tolist()]
        self.kinds[at] = np.array([self._number(room) for room in rooms], dtype=np.int64)[where]

    @property
    def limited(self) -> bool:
        """Tell whether kubelets that align pods admit fewer than the columns of free capacity have room for."""
        return any(limit < _MANY for state, limit in self._limits.items() if state != NO_NODE)

    def _by_columns(self, free: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Return which of the nodes with `free` have all that a pod asks for, and how many pods each of these takes.

        Most nodes of a busy cluster lack something: a comparison, which is cheaper than a division, leaves them out.
        """
        vector = self._vector
        asked = [pair for pair in zip(vector.columns.tolist(), vector.amounts.tolist(), strict=True) if pair[1] > 0]
        takes = np.full(free.shape[1], not vector.unknown)
        for column, amount in asked:
            takes &= free[column] >= amount
        some = np.flatnonzero(takes)
        fits: NDArray[np.int64] = np.full(some.shape[0], _MANY)
        for column, amount in asked:
            np.minimum(fits, free[column][some] // amount, out=fits)
        return some, fits

    def _limit(self, state: int) -> int:
        """Return how many pods a kubelet admits in a state; a full table says that it sets no limit."""
        limit = self._limits.get(state)
        if limit is None:
            pods = self._occupancy.offer(state, self._shape, MOST_PODS).pods
            limit = self._limits[state] = _MANY if pods >= MOST_PODS else pods
        return limit

    def _number(self, room: NodeRoom) -> int:
        number = self._numbers.get(room)
        if number is None:
            number = self._numbers[room] = len(self.known)
            self.known.append(room)
        return number


class WhatIf:
    """Free capacity that can be taken, and given back in reverse order.

    Attributes:
        free: (resources, rows) int64: milli-CPU, bytes, counts; may start negative on overcommitted nodes.
    """

    def __init__(
        self, table: NodeTable, free: NDArray[np.int64] | None = None, holding: HoldingScope = HoldingScope.ALL
    ) -> None:
        """Start from what is free in `table` now, or from `free`, which is copied.

        `holding` says whose GPUs and zones count as held; it goes with `free`.
        """
        self.table = table
        table.occupancy.refresh()  # with what has been promised since the event began
        self._free: NDArray[np.int64] = table.free() if free is None else free.copy()
        self._holding = holding
        self._states: NDArray[np.int64] | None = None
        self._taken: list[_Taken | _Settled | _Vacated] = []
        self._gone: dict[str, set[str]] = {}
        self._rooms: dict[Shape, ShapeRooms] = {}
        self._changes: list[NDArray[np.intp]] = []  # the rows of each, as far as any rooms have not seen it

    @property
    def free(self) -> NDArray[np.int64]:
        """Return (resources, rows) what is free; read-only."""
        view = self._free.view()
        view.flags.writeable = False
        return view

    @property
    def states(self) -> NDArray[np.int64]:
        """Return (rows,) the state of each node's GPUs and zones, as `Occupancy` numbers them.

        They are those of the table when first asked for: ask before anything is settled, and before the table changes.
        """
        if self._states is None:
            self._states = self.table.occupancy.states(self._holding).copy()
        return self._states

    def take(self, row: int, vector: Vector, count: int = 1) -> None:
        """Take `count` times `vector` from the node at `row`; the caller has checked that it fits."""
        self.take_from(np.array([row], dtype=np.intp), vector, np.array([count], dtype=np.int64))

    def take_from(self, rows: NDArray[np.intp], vector: Vector, counts: NDArray[np.int64]) -> None:
        """Take `vector` from several nodes, `counts[i]` times from `rows[i]`; no row occurs twice."""
        self._free[vector.columns[:, None], rows] -= vector.amounts[:, None] * counts
        self._taken.append(_Taken(rows, vector, counts))
        self._note(rows)

    def settle(self, rows: NDArray[np.intp], shape: Shape, counts: NDArray[np.int64]) -> None:
        """Take GPUs and zones for `counts[i]` pods of `shape` at `rows[i]`; no row occurs twice.

        Columns are not touched: that is `take_from`.
        """
        occupancy = self.table.occupancy
        if not occupancy.concerns(shape):
            return
        states = self.states
        before = states[rows]
        pairs = list(zip(before.tolist(), counts.tolist(), strict=True))
        after = {(state, count): occupancy.after(state, shape, count) for state, count in dict.fromkeys(pairs)}
        states[rows] = [after[pair] for pair in pairs]  # a few answers for thousands of nodes
        self._taken.append(_Settled(rows, before))
        self._note(rows)

    def give_back(self, uid: str) -> None:
        """Give back what pod `uid` claims of its node's columns in the table, for good."""
        claim = self.table.claim_of(uid)
        row = None if claim is None else self.table.row(claim.node)
        if claim is not None and row is not None:
            vector = self.table.vector(claim.shape.requests)
            self._free[vector.columns, row] += vector.amounts
            self._note(np.array([row], dtype=np.intp))

    def vacate(self, uids: Iterable[str]) -> None:
        """Give back, until undone, what these pods claim in the table of columns, GPUs and zones, each at most once.

        Claims on nodes that are not there give nothing back.
        """
        going: dict[str, list[str]] = {}
        gains: dict[Shape, list[int]] = {}
        for uid in dict.fromkeys(uids):
            claim = self.table.claim_of(uid)
            row = None if claim is None else self.table.row(claim.node)
            if claim is None or row is None or uid in self._gone.get(claim.node, ()):
                continue
            going.setdefault(claim.node, []).append(uid)
            gains.setdefault(claim.shape, []).append(row)
        if not going:
            return
        vectors = tuple((self.table.vector(shape.requests), np.array(at, np.intp)) for shape, at in gains.items())
        for vector, at in vectors:
            np.add.at(self._free, (vector.columns[:, None], at), vector.amounts[:, None])
        rows, before = self._leave(going)
        for name, leaving in going.items():
            self._gone.setdefault(name, set()).update(leaving)
        self._taken.append(_Vacated(vectors, rows, before, going))
        self._note(rows)

    def _leave(self, going: Mapping[str, list[str]]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Give back GPUs and zones; return the rows whose states change, and the states before."""
        table, states = self.table, self.states
        rows = table.rows_of(list(going))
        before = states[rows]
        after = [
            table.occupancy.vacated(state, name, uids, self._gone.get(name, ()), self._holding)
            for state, (name, uids) in zip(before.tolist(), going.items(), strict=True)
        ]
        states[rows] = after
        return rows, before

    def withhold(self, kept: NDArray[np.int64]) -> None:
        """Take what is kept, (resources, rows), off what is free, for good; less than nothing gives it back."""
        withhold(self._free, kept)
        self._note(None)

    def follow(self, rows: NDArray[np.intp], free: NDArray[np.int64]) -> None:
        """Take in that other pods claim something of `rows` in the table now: `free` is what is free of them.

        Nothing may have been taken that was not given back.
        """
        self._free[:, rows] = free
        if self._states is not None:
            self._states[rows] = self.table.occupancy.states(self._holding)[rows]
        self._note(rows)

    def rooms(self, shape: Shape) -> ShapeRooms:
        """Return how many pods of `shape` each node takes, by itself; right until the next change."""
        rooms = self._rooms.pop(shape, None)
        if rooms is None:
            rooms = ShapeRooms(self.table.occupancy, shape, self.table.vector(shape.requests), self._free.shape[1])
            self._count(rooms, None)
            if len(self._rooms) >= _MOST_SHAPES:
                del self._rooms[next(iter(self._rooms))]
        elif rooms.seen < len(self._changes):
            self._count(rooms, self._changed_since(rooms.seen))
        self._rooms[shape] = rooms
        return rooms

    def mark(self) -> Mark:
        """Return the present point."""
        return Mark(len(self._taken))

    def undo(self, mark: Mark) -> None:
        """Give back everything taken since `mark`."""
        while len(self._taken) > mark.length:
            taken = self._taken.pop()
            if isinstance(taken, _Taken):
                self._free[taken.vector.columns[:, None], taken.rows] += taken.vector.amounts[:, None] * taken.counts
                self._note(taken.rows)
                continue
            self._note(taken.rows)
            self.states[taken.rows] = taken.states
            if isinstance(taken, _Vacated):
                for vector, rows in taken.gains:
                    np.subtract.at(self._free, (vector.columns[:, None], rows), vector.amounts[:, None])
                for name, uids in taken.uids.items():
                    self._gone[name].difference_update(uids)

    def counts(self, vector: Vector, eligible: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return (rows,) how many pods of one shape each eligible node still takes; zero elsewhere."""
        rows = self._free.shape[1]
        if vector.unknown or not rows:
            return np.zeros(rows, dtype=np.int64)
        asked = vector.amounts > 0
        fits: NDArray[np.int64] = np.full(rows, _MANY)
        for column, amount in zip(vector.columns[asked], vector.amounts[asked], strict=True):
            np.minimum(fits, self._free[column] // amount, out=fits)
        fits[~eligible] = 0
        np.maximum(fits, 0, out=fits)
        return fits

    def _count(self, rooms: ShapeRooms, rows: NDArray[np.intp] | None) -> None:
        rooms.count(self._free, self.states, rows)
        rooms.seen = len(self._changes)

    def _note(self, rows: NDArray[np.intp] | None) -> None:
        """Note which rows have changed, None for all, for the rooms that have been counted."""
        if rows is None or len(self._changes) >= _MOST_CHANGES:
            self._rooms.clear()
            self._changes.clear()
        elif self._rooms:
            self._changes.append(rows)

    def _changed_since(self, seen: int) -> NDArray[np.intp] | None:
        """Return the rows of all changes from one on, None for all rows."""
        rows = self._changes[-1] if seen == len(self._changes) - 1 else np.concatenate(self._changes[seen:])
        return rows if rows.shape[0] * _ONE_IN <= self._free.shape[1] else None


def distinct(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Return which values there are, ascending, and the index among them of each; none is negative.

    Complexity: O(values) if they lie close together, as numbers of states do; otherwise they are sorted.
    """
    least = int(values.min(initial=_MANY))
    span = int(values.max(initial=-1)) - least + 1
    if span == 1:
        return np.array([least]), np.zeros(values.shape[0], dtype=np.intp)
    if not 0 < span <= _CLOSE * values.shape[0]:
        found, inverse = np.unique(values, return_inverse=True)
        return found, inverse
    there = np.zeros(span, dtype=np.bool_)
    there[values - least] = True
    return np.flatnonzero(there) + least, (np.cumsum(there) - 1)[values - least]


def withhold(free: NDArray[np.int64], kept: NDArray[np.int64]) -> None:
    """Take what is kept off `free`, (resources, rows), which may have grown since."""
    resources, rows = (min(pair) for pair in zip(kept.shape, free.shape, strict=True))
    free[:resources, :rows] -= kept[:resources, :rows]


#: The arrays of a table.
_COLUMNS: Final = ("allocatable", "used", "lasting", "present", "changed_at", "moved_at", "freed_at")


class Replica(NodeTable):
    """The nodes of a table as they were, with claims of its own from then on.

    Columns, indices and what is known of GPUs and zones are copied at once, in some hundred microseconds for 5,000
    nodes. Claims are not: of a node, or of a pod, they are copied when they are first read, as they are then; so a
    reader in a thread may see a claim that came or went since. What is free is as it was.
    """

    def __init__(self, table: NodeTable) -> None:
        """Copy `table`, on the thread that changes it."""
        self.__dict__.update(vars(table))
        for name in _COLUMNS:
            setattr(self, name, getattr(self, name).copy())
        self._column, self._row, self._nodes = dict(self._column), dict(self._row), list(self._nodes)
        self._free_rows, self._sorted = list(self._free_rows), list(self._sorted)
        self.touched, self.claimed, self.moved = {}, {}, {}
        if not isinstance(table, Replica):
            self._their_claims: Mapping[str, Claim] = self._claims
            self._their_claimants: Mapping[str, Mapping[str, None]] = self._claimants
            self._claims, self._claimants, self._released = {}, {}, set[str]()
        self._their_claimants = dict(self._their_claimants)
        self._claims, self._released = dict(self._claims), set(self._released)
        self._claimants = {node: dict(uids) for node, uids in self._claimants.items()}
        # Weak, so that table and occupancy do not keep each other alive until a full collection.
        self.occupancy = self.occupancy.snapshot()(weakref.proxy(self))

    def claim(  # noqa: PLR0913 - as of the table
        self,
        uid: str,
        node: str,
        shape: Shape,
        *,
        lasting: bool = False,
        observed: DeviceHolding | None = None,
        predicted: DeviceHolding | None = None,
    ) -> bool:
        """Let pod `uid` take what `shape` asks for on `node`, in this copy alone."""
        self._copy_claims(node)
        self.claim_of(uid)
        self._released.discard(uid)
        return super().claim(uid, node, shape, lasting=lasting, observed=observed, predicted=predicted)

    def release(self, uid: str) -> bool:
        """Give back whatever pod `uid` claims, in this copy alone."""
        if (claim := self.claim_of(uid)) is not None:
            self._copy_claims(claim.node)
        self._released.add(uid)
        return super().release(uid)

    def claim_of(self, uid: str) -> Claim | None:
        """Return what pod `uid` claims, or None."""
        own = self._claims.get(uid)
        if own is not None or uid in self._released:
            return own
        theirs = self._their_claims.get(uid)
        if theirs is not None:
            self._copy_claims(theirs.node)
        return self._claims.get(uid)

    def claims_on(self, node: str) -> Iterator[tuple[str, Claim]]:
        """Iterate over UIDs and claims of the pods that claim something on `node`, in the order of the claims."""
        self._copy_claims(node)
        return super().claims_on(node)

    def _copy_claims(self, node: str) -> None:
        """Take over the claims on a node, once."""
        if node in self._claimants:
            return
        uids = self._claimants[node] = dict[str, None]()
        for uid in tuple(self._their_claimants.get(node, ())):  # in one step of the interpreter
            claim = self._their_claims.get(uid)
            if claim is not None and claim.node == node and uid not in self._released and uid not in self._claims:
                uids[uid] = None
                self._claims[uid] = claim
