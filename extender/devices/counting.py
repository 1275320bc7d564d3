"""How many devices of a node the everyday request could have: a number for each node, as for any other resource.

Most claims ask for so many devices of one class, and most devices are whole, apart from each other and of one node.
There a node's devices are a plain count, and a gang of a thousand pods is planned with it as with GPUs of a device
plugin. Where that does not hold, for the claim or for a node, `exact` says so, and the allocator decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from extender.devices.inuse import DevicesInUse
from extender.devices.inventory import Candidate, NodePool
from extender.devices.selectors import SelectorError, Selectors
from extender.objects.deviceclass import DeviceClass
from extender.objects.dradevices import DeviceKey
from extender.objects.podspec import Toleration, first_untolerated
from extender.objects.resourceclaim import MOST_DEVICES, ClaimSpec


class DeviceQuery(NamedTuple):
    """Devices that match all `selectors`, class and request together, and whose taints `tolerations` cover.

    `device_class` is what the query is called for people.
    """

    device_class: str
    selectors: tuple[str, ...] = ()
    tolerations: tuple[Toleration, ...] = ()


def plain_queries(claims: Sequence[ClaimSpec], classes: Mapping[str, DeviceClass]) -> Mapping[DeviceQuery, int] | None:
    """Return how many devices of each query claims ask for, None where counting does not decide.

    That is so with alternatives, all devices, administrators, amounts of capacity, constraints, unknown classes, and
    more devices than fit into a claim. Two queries may be about the same devices: `QueryCounts.disjoint` knows.
    """
    asked: dict[DeviceQuery, int] = {}
    for spec in claims:
        if spec.problem is not None or spec.constraints:
            return None
        if sum(request.options[0].count or 0 for request in spec.requests) > MOST_DEVICES:
            return None
        for request in spec.requests:
            option = request.options[0]
            known = classes.get(option.device_class)
            if request.prioritized or option.count is None or option.admin or option.capacity:
                return None
            if known is None or known.problem is not None:
                return None
            selectors = tuple(dict.fromkeys((*known.selectors, *option.selectors)))
            query = DeviceQuery(option.device_class, selectors, option.tolerations)
            asked[query] = asked.get(query, 0) + option.count
    return {query: count for query, count in asked.items() if count}


@dataclass(frozen=True, slots=True)
class QueryCount:
    """The devices of one node that a query is about: `matching` ones, of which `usable` are not tainted.

    With `exact` any of the usable ones that is not in use can be had, whatever becomes of the others.
    """

    usable: tuple[DeviceKey, ...] = ()
    matching: int = 0
    exact: bool = True

    def free(self, in_use: DevicesInUse) -> int:
        """Return how many of the usable devices are not in use."""
        return sum(not in_use.holds(device) for device in self.usable)


_NONE = QueryCount()


def count_devices(query: DeviceQuery, pools: Iterable[NodePool], selectors: Selectors) -> QueryCount:
    """Count the devices of a node that a query is about."""
    usable, matching, exact = [], 0, True
    for pool in pools:
        if not pool.usable:
            continue
        for candidate in pool.candidates:
            answer = selectors.all_match(query.selectors, candidate.key.driver, candidate.device)
            if isinstance(answer, SelectorError):
                return QueryCount(exact=False)
            if not answer or not candidate.reachable:
                continue
            matching += 1
            exact = exact and _is_plain(candidate)
            if first_untolerated(candidate.device.taints, query.tolerations) is None:
                usable.append(candidate.key)
    return QueryCount(tuple(usable), matching, exact) if matching or not exact else _NONE


def _is_plain(candidate: Candidate) -> bool:
    """Tell whether a device is whole, and of this node alone."""
    device = candidate.device
    return bool(candidate.node) and not (device.shared or device.counters.uses)


class QueryCounts:
    """Keep the counts of each query that anybody asks for, node by node: contiguous columns of int64.

    Nodes have rows, which the caller hands in; rows beyond those known count nothing.
    """

    def __init__(self, selectors: Selectors) -> None:
        """Know no query yet."""
        self._selectors = selectors
        self._rows: dict[str, int] = {}
        self._pools: dict[str, Sequence[NodePool]] = {}
        self._counts: dict[DeviceQuery, dict[str, QueryCount]] = {}
        self._free: dict[DeviceQuery, NDArray[np.int64]] = {}  # (rows,): devices
        self._inexact: dict[DeviceQuery, set[str]] = {}

    @property
    def queries(self) -> tuple[DeviceQuery, ...]:
        """Return the queries that are counted."""
        return tuple(self._counts)

    def ask(self, query: DeviceQuery, in_use: DevicesInUse) -> None:
        """Count a query from now on."""
        if query in self._counts:
            return
        self._counts[query] = {}
        self._inexact[query] = set()
        self._free[query] = np.zeros(self._width(), dtype=np.int64)
        for node, pools in self._pools.items():
            self._recount(query, node, pools, in_use)

    def drop(self, query: DeviceQuery) -> None:
        """Count a query no more."""
        self._counts.pop(query, None)
        self._inexact.pop(query, None)
        self._free.pop(query, None)

    def put_node(self, node: str, row: int, pools: Sequence[NodePool], in_use: DevicesInUse) -> None:
        """Take in which pools a node sees, and the row that it has."""
        self._rows[node] = row
        self._pools[node] = pools
        for query, free in self._free.items():
            if row >= len(free):
                self._free[query] = np.concatenate([free, np.zeros(max(row + 1, len(free)), dtype=np.int64)])
            self._recount(query, node, pools, in_use)

    def drop_node(self, node: str) -> None:
        """Forget a node; its row counts nothing."""
        row = self._rows.pop(node, None)
        if row is None:
            return
        del self._pools[node]
        for query, counts in self._counts.items():
            counts.pop(node, None)
            self._inexact[query].discard(node)
            self._free[query][row] = 0

    def recount(self, node: str, in_use: DevicesInUse) -> None:
        """Count what is free of a node again, after a device of it was taken or given back."""
        row = self._rows.get(node)
        if row is None:
            return
        for query, counts in self._counts.items():
            count = counts.get(node)
            if count is not None:
                self._free[query][row] = count.free(in_use)

    def free(self, query: DeviceQuery) -> NDArray[np.int64]:
        """Return how many devices of a query are free on each node, by row; read only, (rows,)."""
        return self._free[query]

    def count(self, query: DeviceQuery, node: str) -> QueryCount:
        """Return what a query is about on one node."""
        return self._counts[query].get(node, _NONE)

    def inexact(self, query: DeviceQuery) -> frozenset[str]:
        """Return the nodes where the allocator has to decide."""
        return frozenset(self._inexact[query])

    def disjoint(self, queries: Iterable[DeviceQuery], node: str) -> bool:
        """Tell whether queries are about different devices of a node, so that each can be counted by itself."""
        seen: set[DeviceKey] = set()
        for query in queries:
            usable = self.count(query, node).usable
            if not seen.isdisjoint(usable):
                return False
            seen.update(usable)
        return True

    def _recount(self, query: DeviceQuery, node: str, pools: Sequence[NodePool], in_use: DevicesInUse) -> None:
        count = count_devices(query, pools, self._selectors)
        if count is _NONE:
            self._counts[query].pop(node, None)
        else:
            self._counts[query][node] = count
        (self._inexact[query].discard if count.exact else self._inexact[query].add)(node)
        self._free[query][self._rows[node]] = count.free(in_use)

    def _width(self) -> int:
        return max(self._rows.values(), default=-1) + 1
