"""Which of the nodes that passed is best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from extender.domain.pod import Pod
from extender.simulation.scheduler.nodes import Columns, scored_request
from extender.wire.extender import MAX_EXTENDER_PRIORITY

#: Highest score of a plugin. Source: framework.MaxNodeScore.
MAX_NODE_SCORE = 100


def least_allocated(pod: Pod, rows: NDArray[np.intp], columns: Columns) -> NDArray[np.int64]:
    """Return the score, 0 to 100, of each node in `rows`: the free share of CPU and memory with the pod on it.

    Source: NodeResourcesFit with its default strategy, LeastAllocated over CPU and memory with equal weight.
    """
    total = np.zeros(rows.shape[0], dtype=np.int64)
    counted = np.zeros(rows.shape[0], dtype=np.int64)
    for resource, amount in scored_request(pod).items():
        capacity = columns.of(columns.allocatable, resource)[rows]
        requested = columns.scored[resource][rows] + amount
        there = capacity > 0
        share = np.maximum(capacity - requested, 0) * MAX_NODE_SCORE // np.maximum(capacity, 1)
        total += np.where(there, share, 0)
        counted += there
    return total // np.maximum(counted, 1)


def best(names: Sequence[str], scores: NDArray[np.int64], extender: Mapping[str, int], weight: int) -> str:
    """Return the name of the best node: the plugins' scores and the extender's, weighted.

    kube-scheduler decides ties by chance where an extender scored; here the earlier node wins, so that a run repeats.
    """
    factor = weight * (MAX_NODE_SCORE // MAX_EXTENDER_PRIORITY)
    totals = scores + np.array([extender.get(name, 0) * factor for name in names], dtype=np.int64)
    return names[int(np.argmax(totals))]
