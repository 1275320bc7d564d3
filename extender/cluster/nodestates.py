"""States of nodes as numbers: nodes of one kind with the same GPUs and zones free share one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from extender.cluster.nodekinds import NodeKind, whole_gpus
from extender.cluster.noderoom import Room, Taking, gpus_asked
from extender.domain.pod import Shape

_Zones: TypeAlias = tuple[tuple[int, tuple[tuple[str, int], ...]], ...]

Demand: TypeAlias = Shape | int
"""All of a shape that matters to a kind of node: where nothing is aligned, how many GPUs it asks for."""


class NodeState(NamedTuple):
    """What is free of a node of one kind: GPUs as a bit mask, amounts of zones where pods are aligned with them."""

    kind: NodeKind
    gpus: int
    zones: _Zones


class Step(NamedTuple):
    """One pod more: what it takes, and the state that it leaves."""

    taking: Taking
    after: int


class NodeStates:
    """Number the states that nodes are in, and remember what one pod more does to each."""

    def __init__(self, numbers: Iterator[int]) -> None:
        """Start without any state; each new one takes the next of `numbers`."""
        self._numbers = numbers
        self._ids: dict[NodeState, int] = {}
        self._states: dict[int, NodeState] = {}
        self._steps: dict[tuple[int, Demand], Step | None] = {}
        self._demands: dict[Shape, Shape] = {}

    def __len__(self) -> int:
        """Count the states."""
        return len(self._states)

    def __contains__(self, state: int) -> bool:
        """Tell whether a number is of one of these states."""
        return state in self._states

    def copied(self) -> NodeStates:
        """Return the same states, to which others come than to these; no number is given twice among both."""
        twin = NodeStates(self._numbers)
        twin._ids, twin._states = dict(self._ids), dict(self._states)
        return twin

    def kind(self, state: int) -> NodeKind:
        """Return the kind of node that a state is of."""
        return self._states[state].kind

    def gpus(self, state: int) -> int:
        """Return the GPUs that are free in a state, as a bit mask."""
        return self._states[state].gpus

    def room(self, state: int) -> Room:
        """Return what is free in a state."""
        kind, gpus, zones = self._states[state]
        return Room(kind, gpus, {zone: dict(amounts) for zone, amounts in zones})

    def number(self, room: Room) -> int:
        """Return the number of the state in which that much is free."""
        zones = tuple((zone, tuple(sorted(amounts.items()))) for zone, amounts in room.zones.items())
        state = NodeState(room.kind, room.gpus, zones)
        number = self._ids.get(state)
        if number is None:
            number = self._ids[state] = next(self._numbers)
            self._states[number] = state
        return number

    def step(self, state: int, shape: Shape) -> Step | None:
        """Return what one pod of `shape` would be given in a state, and the state then; None if nothing."""
        key = (state, self.demand(state, shape))
        if key not in self._steps:
            room = self.room(state)
            taking = room.serve(shape)
            if taking is not None:
                room.take(taking)
            self._steps[key] = None if taking is None else Step(taking, self.number(room))
        return self._steps[key]

    def demand(self, state: int, shape: Shape) -> Demand:
        """Return what of a shape matters in a state; equal demands are answered alike."""
        kind = self.kind(state)
        if kind.topology is None:
            return gpus_asked(shape, kind.resource) if kind.resource else whole_gpus(shape)
        known = self._demands.get(shape)
        if known is None:
            bare = Shape(shape.requests, containers=shape.containers, guaranteed=shape.guaranteed)
            known = self._demands[shape] = self._demands.setdefault(bare, bare)
        return known
