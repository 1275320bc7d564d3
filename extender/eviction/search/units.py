"""What can be evicted, piece by piece: which room each piece leaves on which nodes, and what it costs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from extender.cluster.table import NodeTable
from extender.objects.pod import Pod, Shape
from extender.objects.podgroup import GroupRef


@dataclass(frozen=True, slots=True)
class Victim:
    """A gang that may be evicted.

    `name` is namespace/name. `core` are the bound pods that can only go together, none if they are to stay; `extras`
    those beyond minMember: each may go alone, the first to go first, but for those that have one of them in
    common in `units` (by UID), which go together, and with those that are `beside` the first of them (UIDs). `seconds`
    is how long it has run; `unsaved_at_most` is how much of that is lost at most (seconds), as far as it says. It is
    told `notice` seconds before it is evicted. One that
    `preempts` has gangs of lower priority in its queue evicted in turn, if it finds no place elsewhere.
    """

    name: str
    uid: str
    queue: str
    flavor: str
    priority: int
    created: str
    core: tuple[Pod, ...]
    extras: tuple[Pod, ...]
    seconds: float
    unsaved_at_most: float | None = None
    preempts: bool = False
    notice: float = 0.0
    units: Mapping[str, str] = field(default_factory=dict)
    beside: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def unsaved(self) -> float:
        """Return how many seconds of work are lost at most, as far as is known when it saves its work."""
        return self.seconds if self.unsaved_at_most is None else min(self.seconds, self.unsaved_at_most)

    @property
    def pieces(self) -> Iterator[Piece]:
        """Iterate over what can go: its extras, the first to go first, and its core."""
        yield from (Piece(self, pods, core=False) for pods in self.together(self.extras))
        if self.core:
            yield Piece(self, self.core, core=True)

    def together(self, extras: Sequence[Pod]) -> Iterator[tuple[Pod, ...]]:
        """Yield some of the extras, those that go together as one."""
        if not self.units:
            yield from ((pod,) for pod in extras)
            return
        for _, pods in groupby(extras, key=lambda pod: self.units.get(pod.uid, pod.uid)):
            yield tuple(pods)


class Piece(NamedTuple):
    """Pods of a victim that can only go together: one of its extras, or its core, with which its extras go."""

    victim: Victim
    pods: tuple[Pod, ...]
    core: bool

    @property
    def beside(self) -> Iterable[str]:
        """Return the UIDs of those that go with it."""
        extras = self.victim.extras if self.core else ()
        return [pod.uid for pod in extras] or self.victim.beside.get(self.pods[0].uid, frozenset())


@dataclass(frozen=True, slots=True)
class VictimEviction:
    """Which pods of a victim go: some of its extras, or all that it has."""

    victim: Victim
    pods: tuple[Pod, ...]

    @property
    def gang(self) -> GroupRef:
        """Return the name of the victim."""
        return self.pods[0].group

    @property
    def pieces(self) -> Iterator[Piece]:
        """Iterate over the pieces of the victim that go."""
        if len(self.pods) == len(self.victim.core) + len(self.victim.extras):
            yield from self.victim.pieces
        else:
            yield from (Piece(self.victim, pods, core=False) for pods in self.victim.together(self.pods))


class Cost(NamedTuple):
    """What evictions cost, the most important first: tuples of these are compared.

    The highest priority among those who lose pods; GPU-time lost with gangs that go whole, and lost by those that leave
    for these in turn (GPU-milliseconds: integers,
    so that equal costs are equal); how many go whole; GPU-time of extras, whose gangs go on; pods.
    """

    priority: int
    lost: int
    gangs: int
    extras: int
    pods: int


class Units:
    """The pieces that can be evicted: each extra by itself, and of each victim the core, with which its extras go.

    A choice of pieces is a bool for each, (units,). In a choice that has a core its extras are chosen too, and in one
    that has a part of a gang what the part has beyond its minimum.

    Attributes:
        core: (units,) which are cores.
        priority: (units,) the priorities of their victims.
        turn: (units,) when it is their turn: none goes if those before are enough.
        lost: (units,) GPU-milliseconds that its pods have run and not saved; of a core, those of its extras and those
            that others lose for it in turn too.
        sizes: (units,) how many pods it has.
        weight: (units,) float64: what each costs, as one number that puts single pieces in the order of their cost.
        of: (entries,) the piece that each entry is of.
        rows: (entries,) the row on which it leaves room; the entries of a piece follow each other, each on another row.
        freed: (columns, entries) int64: how much of each of the columns asked for (milli-CPU, bytes, counts).
        starts: (units + 1,) where the entries of each piece begin.
    """

    def __init__(
        self,
        victims: Sequence[Victim],
        table: NodeTable,
        columns: NDArray[np.intp],
        turns: Mapping[str, int] | None = None,
        in_turn: Mapping[str, int] | None = None,
    ) -> None:
        """Take the pieces of `victims`, and what they claim of `columns` of the table.

        Without `turns`, by the UIDs of the first pods of pieces, they follow from the priorities of victims. `in_turn`
        is what others lose for victims once these are evicted (GPU-milliseconds), by their UIDs.
        """
        self._victims = victims
        self._pods: list[tuple[Pod, ...]] = []
        self._victim: list[int] = []
        self._extras: list[Sequence[int]] = []
        cores: list[bool] = []
        for number, victim in enumerate(victims):
            together = list(victim.together(victim.extras))
            extras = range(len(self._pods), len(self._pods) + len(together))
            at = {pod.uid: unit for unit, pods in zip(extras, together, strict=True) for pod in pods}
            beside = (victim.beside.get(pods[0].uid, frozenset()) for pods in together)
            self._pods += together
            self._extras += [sorted({at[uid] for uid in uids if uid in at}) for uids in beside]
            if victim.core:
                self._pods.append(victim.core)
                self._extras.append(extras)
            cores += [False] * len(extras) + [True] * bool(victim.core)
            self._victim += [number] * (len(self._pods) - len(self._victim))
        self.core: NDArray[np.bool_] = np.array(cores, dtype=np.bool_)
        self.priority: NDArray[np.int64] = np.array([victims[at].priority for at in self._victim], dtype=np.int64)
        turn = self.priority.tolist() if turns is None else [turns[pods[0].uid] for pods in self._pods]
        self.turn: NDArray[np.int64] = np.array(turn, dtype=np.int64)
        self.sizes: NDArray[np.int64] = np.array([len(pods) for pods in self._pods], dtype=np.int64)
        self._worth: dict[bytes, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
        gpus = self._enter(table, columns)
        for core in np.flatnonzero(self.core).tolist():
            gpus[core] += gpus[self._extras[core]].sum()
        milliseconds = np.array([round(victims[at].unsaved * 1000) for at in self._victim], dtype=np.int64)
        follows = [(in_turn or {}).get(victims[at].uid, 0) for at in self._victim]
        self.lost = milliseconds * gpus + np.array(follows, dtype=np.int64) * self.core
        self.weight = _weights(self.lost.astype(np.float64), self.core)

    def __len__(self) -> int:
        """Count the pieces."""
        return len(self._pods)

    def _enter(self, table: NodeTable, columns: NDArray[np.intp]) -> NDArray[np.int64]:
        """Note what each piece leaves on which row; return (units,) how many GPUs that are."""
        claims = [table.claim_of(pod.uid) for pods in self._pods for pod in pods]
        shapes: dict[Shape, int] = {}
        known: dict[int, int] = {}  # by identity: nearly all pods share a few objects, and hashing one takes longer
        what: list[int] = []
        for claim in claims:
            if claim is not None:
                shape = known.get(id(claim.shape))
                if shape is None:
                    shape = known[id(claim.shape)] = shapes.setdefault(claim.shape, len(shapes))
                what.append(shape)
        amounts = np.zeros((table.allocatable.shape[0], len(shapes)), dtype=np.int64)
        for each, at in shapes.items():
            vector = table.vector(each.requests)
            amounts[vector.columns, at] = vector.amounts
        whose = np.repeat(np.arange(len(self)), self.sizes)[[claim is not None for claim in claims]]
        where = table.rows_of([claim.node for claim in claims if claim is not None])
        there = where >= 0
        of_shape = np.array(what, dtype=np.intp)[there]
        places, inverse = np.unique(whose[there] * table.rows + where[there], return_inverse=True)
        self.of: NDArray[np.int64] = places // max(table.rows, 1)
        self.rows: NDArray[np.int64] = places % max(table.rows, 1)
        self.freed: NDArray[np.int64] = np.zeros((columns.shape[0], places.shape[0]), dtype=np.int64)
        for column, taken in zip(self.freed, amounts[columns][:, of_shape], strict=True):
            np.add.at(column, inverse, taken)
        self.starts = np.searchsorted(self.of, np.arange(len(self) + 1))
        gpus = np.zeros(len(self), dtype=np.int64)
        np.add.at(gpus, whose[there], np.array([shape.whole_gpus for shape in shapes], dtype=np.int64)[of_shape])
        return gpus

    def worth(self, amounts: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return how many pods each entry leaves room for that ask for `amounts`, (columns,).

        (asked columns, entries) by each column that they ask for anything of; (entries,) by the one with most.
        """
        key = amounts.tobytes()
        if key not in self._worth:
            asked = amounts > 0
            each = self.freed[asked] / amounts[asked][:, None]
            self._worth[key] = each, each.max(axis=0, initial=0.0)
        return self._worth[key]

    @cached_property
    def by_row(self) -> NDArray[np.intp]:
        """Return (entries,) the entries in order of their rows."""
        return np.argsort(self.rows, kind="stable")

    @cached_property
    def row_starts(self) -> NDArray[np.intp]:
        """Return (rows + 1,) where the entries of each row begin in `by_row`; rows beyond the last have none."""
        last = int(self.rows.max(initial=-1))
        starts: NDArray[np.intp] = np.searchsorted(self.rows[self.by_row], np.arange(last + 2))
        return starts

    def entries(self, unit: int) -> slice:
        """Return where the entries of a piece are."""
        return slice(int(self.starts[unit]), int(self.starts[unit + 1]))

    @cached_property
    def joint(self) -> NDArray[np.intp]:
        """Return the pieces with which others go."""
        return np.array([unit for unit, others in enumerate(self._extras) if others], dtype=np.intp)

    def extras(self, unit: int) -> Sequence[int]:
        """Return the pieces that go with one: with a core all extras, with a part what it has beyond its minimum."""
        return self._extras[unit]

    def pods(self, units: Iterable[int]) -> list[Pod]:
        """Return the pods of pieces."""
        return [pod for unit in units for pod in self._pods[unit]]

    def cost(self, chosen: NDArray[np.bool_]) -> Cost:
        """Return what a choice costs."""
        units = np.flatnonzero(chosen).tolist()
        whole = [unit for unit in units if self.core[unit]]
        going = {self._victim[unit] for unit in whole}
        alone = [unit for unit in units if self._victim[unit] not in going]
        return Cost(
            priority=max((int(self.priority[unit]) for unit in units), default=0),
            lost=int(self.lost[whole].sum()),
            gangs=len(whole),
            extras=int(self.lost[alone].sum()),
            pods=int(self.sizes[units].sum()),
        )

    def price(self, chosen: NDArray[np.bool_]) -> float:
        """Return the weights of a choice together, extras that go with their core not counted twice."""
        counted = chosen.copy()
        for unit in np.flatnonzero(chosen & self.core).tolist():
            counted[self._extras[unit]] = False
        return float(self.weight[counted].sum())

    def evictions(self, chosen: NDArray[np.bool_]) -> tuple[VictimEviction, ...]:
        """Return a choice as evictions, in the order of the victims; of each the core first."""
        pods: dict[int, tuple[Pod, ...]] = {}
        units = np.flatnonzero(chosen).tolist()
        for unit in sorted(units, key=lambda unit: (self._victim[unit], not self.core[unit], unit)):
            pods[self._victim[unit]] = pods.get(self._victim[unit], ()) + self._pods[unit]
        return tuple(VictimEviction(self._victims[number], own) for number, own in pods.items())


# Example. Gangs of one queue, all of which may be evicted for another; nothing is free that this one leaves unused.
#
#   gang     priority   GPUs   ran (s)   in turn (GPU s)
#   long            0      8       600                 0
#   short           0      4       100                 0
#   first           5      4        50               400     has short evicted: of equal priorities the least lost
#   second          5      8        10              5200     has both evicted: short is not enough
#   third           5     16        10                 0     waits: both together are not enough
def lost_in_turn(victims: Iterable[Victim], has_room: Callable[[Victim], bool]) -> dict[str, int]:
    """Return by UID what gangs of lower priority lose if victims have these evicted in turn (GPU-milliseconds).

    Only such as may be evicted now count, and nothing is lost for a victim that `has_room` elsewhere. It is an estimate
    by numbers of GPUs. Complexity: O(pods + victims log victims), O(victims) where each queue has one priority.
    """
    queues: dict[tuple[str, str], list[Victim]] = {}
    for victim in victims:
        queues.setdefault((victim.queue, victim.flavor), []).append(victim)
    found: dict[str, int] = {}
    for line in queues.values():
        if len({victim.priority for victim in line}) == 1 or not any(victim.preempts for victim in line):
            continue
        line.sort(key=lambda victim: (victim.priority, victim.unsaved, victim.uid))
        held = [sum(pod.shape.whole_gpus for pod in (*victim.core, *victim.extras)) for victim in line]
        lost = [round(victim.unsaved * 1000) * gpus for victim, gpus in zip(line, held, strict=True)]
        gpus_up_to, lost_up_to = list(accumulate(held)), list(accumulate(lost))
        priorities = [victim.priority for victim in line]
        for victim in line:
            last = bisect_left(gpus_up_to, sum(pod.shape.whole_gpus for pod in victim.core))
            if victim.preempts and victim.core and last < bisect_left(priorities, victim.priority):
                found[victim.uid] = 0 if has_room(victim) else lost_up_to[last]
    return found


def _weights(lost: NDArray[np.float64], core: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return one number for each piece: what is lost with a core; all extras together are less than half of one gang.

    A gang by itself counts as a millisecond of one GPU, shared by all there are: it decides only between equals.
    """
    number = max(lost.shape[0], 1)
    extras = (lost + 1) / (float(lost[~core].sum()) + number)
    weights: NDArray[np.float64] = np.where(core, lost + 1 / number, extras / (2 * number))
    return weights
