"""Why nodes have no devices for the claims of a pod, however empty they are: in one sentence for every explanation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import Enum, auto
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from extender.cluster.table import NodeTable
from extender.objects.deviceclass import UNREADY, barred_column
from extender.objects.devicewords import nodes_in_words, none_in_words, resource_in_words, short_in_words
from extender.objects.pod import Shape
from extender.objects.requests import CLASS_RESOURCE_PREFIX, is_asked_for

#: So many sentences of so many characters fit beside the rest of an Event, which has 1,024.
_MOST_TOLD: Final = 3
_LONGEST: Final = 250


class Lack(Enum):
    """What is wrong with the devices of a node, in the order in which it is asked."""

    UNREADY = auto()
    TAINTED = auto()
    NONE = auto()
    TOO_FEW = auto()


class DeviceLack(NamedTuple):
    """Nodes, (rows,), that lack devices for one reason.

    `there` is (rows,) how many they have of the `amount` that is asked for by `name`.
    """

    lack: Lack
    rows: NDArray[np.bool_]
    name: str
    amount: int
    there: NDArray[np.int64]

    def text(self, rows: NDArray[np.bool_]) -> str:
        """Return the reason in words, as it is on those nodes that are among `rows`, (rows,)."""
        if self.lack is Lack.UNREADY:
            return "ResourceSlices of a pool are missing or invalid"
        if self.lack is Lack.TAINTED:
            return f"{resource_in_words(self.name)} are tainted"
        if self.lack is Lack.NONE:
            return none_in_words(self.name)
        most = int(self.there[rows & self.rows].max(initial=0))
        return short_in_words(self.name, self.amount, most, "even when empty")


def device_lacks(table: NodeTable, shape: Shape) -> Iterator[DeviceLack]:
    """Yield what devices nodes lack for pods of a shape; a node may be in several, of which the first counts.

    Where a driver has not published what a node has nothing else is known of it; taints are to blame where the node
    would have enough without them. Complexity: O(demands of the shape x nodes).
    """
    asked = [(name, amount) for name, amount in shape.requests if amount and _is_of_class(name)]
    if not asked:
        return
    places = {name: index for index, name in enumerate(table.resources)}

    def has(name: str) -> NDArray[np.int64]:
        at = places.get(name)
        return np.zeros(table.rows, np.int64) if at is None else table.allocatable[at, : table.rows]

    short = [(name, amount, has(name)) for name, amount in asked]
    for name, amount, there in short:
        yield DeviceLack(Lack.UNREADY, (there < amount) & (has(UNREADY) > 0), name, amount, there)
    for name, amount, there in short:
        enough = there + has(barred_column(name)) >= amount
        yield DeviceLack(Lack.TAINTED, (there < amount) & enough, name, amount, there)
    for lack in (Lack.NONE, Lack.TOO_FEW):
        for name, amount, there in short:
            yield DeviceLack(lack, there < (1 if lack is Lack.NONE else amount), name, amount, there)


def lacks_in_words(table: NodeTable, shape: Shape, rows: NDArray[np.bool_]) -> str:
    """Return what devices the nodes in `rows`, (rows,), lack for pods of a shape, what most lack first."""
    found = Counter[str]()
    left = rows.copy()
    for each in device_lacks(table, shape):
        removed = left & each.rows
        if removed.any():
            found[each.text(removed)] += int(removed.sum())
            left &= ~removed
    return most_told(found)


def most_told(found: Counter[str]) -> str:
    """Return the most frequent of some causes, each with its number of nodes, "" if there are none."""
    told = sorted(+found, key=lambda text: (-found[text], text))[:_MOST_TOLD]
    short = {text: text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..." for text in told}
    return "; ".join(f"{short[text]}: {nodes_in_words(found[text])}" for text in told)


def _is_of_class(resource: str) -> bool:
    return resource.startswith(CLASS_RESOURCE_PREFIX) and is_asked_for(resource)
