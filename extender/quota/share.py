"""Shares: how much of what there is a queue uses, by the resource of which it uses most.

Dominant resource fairness (Ghodsi et al., NSDI 2011), weighted, over a tree. As in Kueue what counts first is what a
queue borrows, relative to what its cohort could lend (kubernetes-sigs/kueue pkg/cache/scheduler/fair_sharing.go).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Share:
    """How much of its share a queue uses, divided by its weight: 0 for nothing, 1 for all there is at weight 1.

    `borrowed` is what is above its nominal quota, of what the queues below its parent could use at most; without any
    quota, all of it, of what the cluster has. `used` is all of it, of what the cluster has.
    """

    borrowed: float
    used: float


def dominant(amounts: Iterable[tuple[str, float]], *wholes: Mapping[str, int]) -> float:
    """Return the largest part that an amount is of its resource's whole; the first of `wholes` that has any counts."""
    largest = 0.0
    for resource, amount in amounts:
        if amount > 0:
            whole = next((there for each in wholes if (there := each.get(resource, 0)) > 0), 0)
            if whole:
                largest = max(largest, amount / whole)
    return largest
