"""How a Queue stands, for its status, metrics and people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class QuotaUse(NamedTuple):
    """What a queue has of one resource in one flavor, its children included (milli-CPU, bytes, counts).

    `borrowed` is what is used above `nominal`, `lent` what others use of it.
    """

    flavor: str
    resource: str
    nominal: int
    used: int
    borrowed: int
    lent: int


@dataclass(frozen=True, slots=True)
class QueueView:
    """How a queue stands.

    An inactive queue gives nothing to anybody; `reason` (one word) and `message` say why. An active one has a message
    if something is wrong with it all the same. `share` is the largest of its resources' shares, weighed: what the order
    of queues goes by. `pending` counts gangs that wait, `admitted` those that hold or are promised nodes, those of
    children left out. `history` is the decayed mean usage by resource, as of `history_at` (RFC 3339), both empty where
    usage is not remembered.
    """

    name: str
    parent: str
    active: bool
    message: str
    flavors: tuple[QuotaUse, ...]
    share: float
    pending: int
    admitted: int
    uid: str = ""
    generation: int = 0
    reason: str = ""
    history: tuple[tuple[str, float], ...] = ()
    history_at: str = ""
