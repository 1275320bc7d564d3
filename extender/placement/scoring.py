"""How good each node is for a single pod, in the terms of the extender protocol."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from extender.cluster.occupancy import NO_NODE, Holding, Offer
from extender.cluster.table import NodeTable
from extender.domain.keys import Packing
from extender.domain.pod import Shape
from extender.domain.topology import Objective
from extender.fabric.bandwidth import step
from extender.numa.scores import Strategy
from extender.numa.scores import score as zone_score
from extender.placement.packing import strands
from extender.wire.extender import MAX_EXTENDER_PRIORITY

#: What a worse class costs, where the fullest and the emptiest candidate are 1 apart, and how many classes there are
#: at most: enough that no rounding makes the worst node of a class equal to the best of the next. Nodes of classes
#: beyond the last count as of the last, since it is the best that is looked for.
_SETBACK = 2.0
_CLASSES = 4

#: The worst there is: a node on which the pod would get no set of GPUs, or no zones.
_NOTHING = (0, math.inf)


@dataclass(frozen=True, slots=True)
class Wish:
    """What counts for a pod: full nodes or empty ones, which bandwidth among its GPUs, if any, and how zones are used.

    With `numa` its scores take the place of fullness and of what future requests lose.
    """

    packing: Packing = Packing.BINPACK
    objective: Objective = Objective.ALLREDUCE
    numa: Strategy | None = None


def score(table: NodeTable, rows: NDArray[np.intp], shape: Shape, wish: Wish) -> NDArray[np.int64]:
    """Return the score, 0 to 10, of each node in `rows` (-1 for an unknown node, which scores 0).

    The same objective as for gangs. In this order: the bandwidth among the GPUs that the pod would get there, in steps
    of 5 %; that it strands no more than it must; for binpack, what future requests lose by it; then, for binpack, the
    fuller node wins, for spread the emptier. Fullness is the used share of the accelerators that the pod asks for, or
    of CPU and memory on average when it asks for none, the pod included. Scores are stretched over the candidates,
    which are nodes with room for the pod.
    """
    known = rows >= 0
    scores = np.zeros(rows.shape[0], dtype=np.int64)
    if not known.any():
        return scores
    at = rows[known]
    if wish.numa is not None:
        value = _use_of_zones(table, at, shape, wish.numa)
    else:
        fullness = _fullness(table, at, shape)
        value = fullness if wish.packing is Packing.BINPACK else -fullness
    worse = np.minimum(_classes(table, at, shape, wish), _CLASSES - 1)
    scores[known] = np.rint(_stretch(_stretch(value) - _SETBACK * worse) * MAX_EXTENDER_PRIORITY).astype(np.int64)
    return scores


def _fullness(table: NodeTable, at: NDArray[np.intp], shape: Shape) -> NDArray[np.float64]:
    """Return (len(at),) which share of each node is used, the pod included."""
    vector = table.vector(shape.requests)
    accelerators = table.extended()[vector.columns]
    columns = vector.columns[accelerators] if accelerators.any() else np.array([0, 1], dtype=np.intp)
    added = np.array([shape.request(table.resources[column]) for column in columns], dtype=np.int64)
    capacity = np.maximum(table.allocatable[columns][:, at], 1)
    fullness: NDArray[np.float64] = ((table.used[columns][:, at] + added[:, None]) / capacity).mean(axis=0)
    return fullness


def _use_of_zones(table: NodeTable, at: NDArray[np.intp], shape: Shape, strategy: Strategy) -> NDArray[np.float64]:
    """Return (len(at),) the scores of NodeResourceTopologyMatch, 0 to 100; nodes of one state are scored once."""
    occupancy = table.occupancy
    states, which = np.unique(occupancy.states(Holding.ALL)[at], return_inverse=True)
    scores = [
        0 if state == NO_NODE else zone_score(strategy, *occupancy.zones(state), shape) for state in states.tolist()
    ]
    return np.array(scores, dtype=np.float64)[which]


def _classes(table: NodeTable, at: NDArray[np.intp], shape: Shape, wish: Wish) -> NDArray[np.int64]:
    """Return (len(at),) how many better classes there are than each node's: 0 is the best.

    Nodes of one state that strand as much are judged once: 5,000 of them cost as many questions as there are states.
    """
    stranded = strands(table, table.vector(shape.requests))[at]
    occupancy = table.occupancy
    classes: NDArray[np.int64]
    if not occupancy.concerns(shape):
        classes = (stranded > stranded.min()).astype(np.int64)
        return classes
    states, which = np.unique(occupancy.states(Holding.ALL)[at], return_inverse=True)
    offers = [
        _NOTHING if state == NO_NODE else _rate(occupancy.offer(state, shape, 1), wish) for state in states.tolist()
    ]
    more = int(stranded.max()) + 1
    kinds, kind_of = np.unique(which * more + stranded, return_inverse=True)
    keys = [(-offers[kind // more][0], kind % more, offers[kind // more][1]) for kind in kinds.tolist()]
    order = {key: number for number, key in enumerate(sorted(set(keys)))}
    classes = np.array([order[key] for key in keys], dtype=np.int64)[kind_of]
    return classes


def _rate(offer: Offer, wish: Wish) -> tuple[int, float]:
    """Return the step of the bandwidth (higher is better) and the loss in GB/s (lower is better) of one pod."""
    if not offer.pods:
        return _NOTHING
    bandwidth = math.inf if wish.objective is Objective.NONE else offer.inner[0]
    packed = wish.packing is Packing.BINPACK and wish.numa is None
    return step(bandwidth), offer.loss[0] if packed else 0.0


def _stretch(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Map to 0..1 over the candidates; equal candidates all get 0."""
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high > low else np.zeros_like(values)
