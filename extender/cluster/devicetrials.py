"""How many pods each node has devices for where their claims cannot be counted, as columns of the node table.

Requests with alternatives, for all devices, for parts of one or with constraints are tried by the allocator: the column
of such claims says how many like pods an empty node takes, and what devices are in use for, or promised to others, is
taken off it. Devices of a promise are those that kube-scheduler would choose next.

A worked example: claims of two GPUs on one PCIe root. The node has four, two on each of two roots.

    in use                     like pods fit     column     taken off
    nothing                    2                 2          0
    one GPU, of another pod    1                 2          1
    one such pod promised      1                 2          0, as the pod itself takes 1
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from extender.cluster.table import NodeTable
from extender.cluster.whatif import MOST_PODS
from extender.devices.allocator import AskedClaim, DeviceRefusal, DeviceView, allocate
from extender.devices.fitting import DeviceFits
from extender.devices.inuse import DevicesInUse
from extender.devices.inventory import Inventory
from extender.devices.selectors import Selectors
from extender.objects.pod import Shape
from extender.objects.requests import TRIAL_PREFIX
from extender.objects.resourceclaim import ClaimAllocation, ClaimSpec

#: Kinds of claims that are tried; anybody may ask for something new, and each is tried on every node with devices.
MOST_TRIALS: Final = 16


class DeviceTrials:
    """Try claims on nodes, once for nodes that look alike, and again where what is in use there has changed."""

    def __init__(
        self, table: NodeTable, inventory: Inventory, selectors: Selectors, labels: Callable[[str], Mapping[str, str]]
    ) -> None:
        """Try nothing yet; `labels` returns those of a node."""
        self._table = table
        self._inventory = inventory
        self._selectors = selectors
        self._labels = labels
        self._fits = DeviceFits()
        self._columns: dict[tuple[ClaimSpec, ...], str] = {}
        self._plain: dict[str, dict[str, int]] = {}  # what nodes have in columns that are counted
        self._held: dict[str, dict[str, ClaimAllocation]] = {}  # node -> claim -> what it has there
        self._promised: dict[str, dict[str, tuple[AskedClaim, ...]]] = {}  # node -> pod -> its claims without devices
        self._place: dict[str, str] = {}  # claim, or pod -> node
        self._stale: dict[str, None] = {}

    def column(self, specs: tuple[ClaimSpec, ...]) -> str:
        """Return the column of claims that one pod has together, "" where there are too many kinds of them."""
        known = self._columns.get(specs)
        if known is not None or len(self._columns) >= MOST_TRIALS:
            return known or ""
        column = self._columns[specs] = f"{TRIAL_PREFIX}{len(self._columns) + 1}"
        for node in self._plain:
            self.provide(node, self._plain[node])
        self.refresh()
        return column

    def provide(self, node: str, amounts: dict[str, int]) -> bool:
        """Let a node have so much in the columns that are counted, and in its own as many pods as it takes empty."""
        self._plain[node] = amounts
        self._stale[node] = None
        tried = {column: self._pods(specs, node, DevicesInUse()) for specs, column in self._columns.items()}
        return self._table.provide(node, amounts | {column: pods for column, pods in tried.items() if pods})

    def hold(self, claim: str, node: str, allocation: ClaimAllocation | None) -> None:
        """Take in what a claim has on a node; None for nothing."""
        self._leave(claim, self._held)
        if allocation is not None and node:
            self._place[claim] = node
            self._held.setdefault(node, {})[claim] = allocation
            self._stale[node] = None

    def promise(self, uid: str, node: str, claims: tuple[AskedClaim, ...]) -> None:
        """Take in that a pod is promised a node, "" for none, with claims that have no devices yet."""
        self._leave(uid, self._promised)
        if node and claims:
            self._place[uid] = node
            self._promised.setdefault(node, {})[uid] = claims
            self._stale[node] = None

    def refresh(self) -> None:
        """Try again on the nodes on which anything has changed."""
        if not self._columns:
            self._stale.clear()
        for node in list(self._stale):
            del self._stale[node]
            self._try(node)

    def _leave(
        self, key: str, where: dict[str, dict[str, ClaimAllocation]] | dict[str, dict[str, tuple[AskedClaim, ...]]]
    ) -> None:
        there = where.get(self._place.get(key, ""), {})
        if key in there:
            del there[key]
            self._stale[self._place.pop(key)] = None

    def _try(self, node: str) -> None:
        in_use = self._in_use(node)
        for specs, column in self._columns.items():
            uid = f"{column}@{node}"
            own = sum(claim.shape.request(column) for each, claim in self._table.claims_on(node) if each != uid)
            empty = self._pods(specs, node, DevicesInUse())
            off = empty - own - self._pods(specs, node, in_use)
            if off > 0:
                self._table.claim(uid, node, Shape(((column, off),)))
            else:
                self._table.release(uid)

    def _pods(self, specs: tuple[ClaimSpec, ...], node: str, in_use: DevicesInUse) -> int:
        """Return how many pods with such claims a node has devices for; many where that is not known.

        A search may give up, and a driver may be at work on its slices.
        """
        view = self._view(node, in_use)
        if any(pool.incomplete for pool in view.pools):
            return MOST_PODS
        fit = self._fits.fit(_asked(specs), view, MOST_PODS)
        return fit.pods if fit.certain else MOST_PODS

    def _in_use(self, node: str) -> DevicesInUse:
        """Return what is in use on a node, with what the pods would get that are promised it."""
        in_use = DevicesInUse(self._held.get(node, {}).values())
        for claims in self._promised.get(node, {}).values():
            given = allocate(claims, self._view(node, in_use))
            for allocation in () if isinstance(given, DeviceRefusal) else given:
                in_use.take(allocation)
        return in_use

    def _view(self, node: str, in_use: DevicesInUse) -> DeviceView:
        pools = self._inventory.pools_of(node, self._labels(node))
        return DeviceView(node, pools, in_use, self._inventory.classes, self._selectors)


def _asked(specs: Iterable[ClaimSpec]) -> list[AskedClaim]:
    return [AskedClaim(str(index), spec) for index, spec in enumerate(specs)]
