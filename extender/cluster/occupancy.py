"""Which GPUs and NUMA zones are taken on each node, by which pods, and what the rest is worth to later pods."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from itertools import count

import numpy as np
from numpy.typing import NDArray

from extender.caches import SizedDict, size_of
from extender.cluster.claims import Claim, Claims, Handout, Offer, OfferShare, offer_of, reseat, share_of, state_without
from extender.cluster.noderoom import (
    Demand,
    NodeFacts,
    NodeKind,
    NodeKinds,
    NodeStates,
    Room,
    Taking,
    gpus_asked,
)
from extender.hardware.fingerprint import vouches
from extender.hardware.gpusets import members
from extender.hardware.links import Partitions
from extender.hardware.products import Products
from extender.objects import holdings
from extender.objects.nodetopology import NodeTopology
from extender.objects.pod import Pod, Shape

__all__ = ["NO_NODE", "Held", "HoldingScope", "Occupancy", "Offer", "OfferShare"]

#: The state of a row without node.
NO_NODE = -1

#: When states take so much, or twice what the present ones did (bytes), everything is computed again: most of what is
#: remembered has passed.
_STATES_BYTES = 32 << 20
#: What offers may take that are remembered (bytes).
_OFFERS_BYTES = 16 << 20


class HoldingScope(Enum):
    """Which claims count: all, those that never end, or none (the empty cluster)."""

    ALL = "all"
    LASTING = "lasting"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Held:
    """What one claim holds: GPUs by device index and NUMA zones by id, both ascending.

    They are empty where there are none, or they are unknown. `observed` says that the node reported what the pod holds;
    otherwise it is a prediction.
    """

    gpus: tuple[int, ...]
    zones: tuple[int, ...]
    observed: bool


# Example. Nodes n1 and n2 have the same 8 GPUs, node cpu has none. Pod x claims 4 GPUs of n1; y, then z claim 2 each of
# n2. States are numbers: equal numbers mean that a pod can be given the same on both nodes.
#
#   claims on n1, n2                 x            y and z        states of n1, n2, cpu
#   x; y, z                          0-3          0-1 and 2-3    1, 1, 3     4 to 7 are free on both
#   x; z            (y leaves)       0-3          2-3            1, 4, 3     z keeps what it was given
#   x; z, v         (v asks for 4)   0-3          2-3, v 4-7     1, 5, 3     four that leave 0-1 as a pair
#
# An `Offer` is computed once for a state, a demand and a number of pods. For 2 GPUs each in state 1: 2 pods, 365 GB/s
# among the GPUs of one, 94 GB/s of network, 730 GB/s lost to later requests; 188 GB/s and 1095 GB/s for both.
class Occupancy:
    """Keep, for each node, which claim holds which GPUs and zones, and number the states that follow.

    Only nodes of which something changed are computed again, by `refresh`. A claim keeps what it has been given for as
    long as it stands; only what was observed of another pod takes it away. Nodes without GPUs whose kubelet aligns
    nothing are all in one state, and claims on them cost nothing.

    So what a claim is given depends on which others stood at the next `refresh`. The engine calls it after every event,
    and every trial (`WhatIf`) when it begins. Whatever reads finds what the last one computed, and changes nothing.

    Attributes:
        changed: the nodes that the next `refresh` computes.
        numberings: how often the states have been numbered again.
        bound_on: returns the pods that are bound to a node; for the keeper of pods to fill in. With it, what a
            NodeResourceTopology says is `available` corrects the zones of pods, if it reflects the very same pods.
    """

    def __init__(self, claims: Claims) -> None:
        self._claims = claims
        self.bound_on: Callable[[str], Iterable[Pod]] = _nobody
        self._products = Products()
        self._kinds = NodeKinds()
        self._numbers = count()
        self._states = NodeStates(self._numbers)
        self._former = self._states
        self._topologies: dict[str, NodeTopology] = {}
        self._partitions: dict[str, Partitions] = {}
        self._facts: dict[str, NodeFacts] = {}
        self._aligned: set[str] = set()
        self._held: dict[str, Handout] = {}
        self.changed: dict[str, None] = {}
        self.numberings = 0
        self._offers: SizedDict[tuple[int, Demand, int], Offer] = SizedDict(_OFFERS_BYTES)
        self._most_bytes = _STATES_BYTES
        self._ids = {holding: np.full(0, NO_NODE, dtype=np.int64) for holding in HoldingScope}

    @property
    def products(self) -> Products:
        """Return the table of products."""
        return self._products

    @products.setter
    def products(self, products: Products) -> None:
        self._products = products
        self._rebuild()

    def snapshot(self) -> Callable[[Claims], Occupancy]:
        """Return what makes an occupancy of its own of a copy of the claims of now, later and in whatever thread.

        What has changed since the last `refresh` is computed in the copy, and not here. There is no keeper of
        pods beside the copy, so zones that follow from what an exporter saw left stay as they are here.
        """
        own = {
            "bound_on": _nobody,
            "_kinds": self._kinds.copied(),
            "_states": self._states.copied(),
            "_former": self._former.copied(),
            "_topologies": dict(self._topologies),
            "_partitions": dict(self._partitions),
            "_facts": dict(self._facts),
            "_aligned": set(self._aligned),
            "_held": dict(self._held),
            "changed": dict(self.changed),
            "_offers": SizedDict(_OFFERS_BYTES),
            "_ids": {holding: ids.copy() for holding, ids in self._ids.items()},
        }
        state = vars(self) | own

        def beside(claims: Claims) -> Occupancy:
            twin = Occupancy.__new__(Occupancy)
            vars(twin).update(state, _claims=claims)
            return twin

        return beside

    def put_topology(self, topology: NodeTopology) -> bool:
        """Take in the NUMA zones of a node, there or not; return whether they are new."""
        if self._topologies.get(topology.node) == topology:
            return False
        self._topologies[topology.node] = topology
        self.node_changed(topology.node)
        return True

    def drop_topology(self, name: str) -> bool:
        """Forget the NUMA zones of the node called `name`; return whether there were any."""
        if self._topologies.pop(name, None) is None:
            return False
        self.node_changed(name)
        return True

    def put_partitions(self, name: str, partitions: Partitions) -> None:
        """Take in which sets of GPUs can be one NVLink partition on the node called `name`."""
        self._partitions[name] = partitions
        self.node_changed(name)

    def drop_partitions(self, name: str) -> None:
        """Forget the partitions of the node called `name`."""
        if self._partitions.pop(name, None) is not None:
            self.node_changed(name)

    def node_changed(self, name: str) -> None:
        """Take in that a node, or what is known of it, came, changed or went."""
        self._facts.pop(name, None)
        self._aligned.discard(name)
        self.changed[name] = None

    def row_emptied(self, row: int) -> None:
        """Take in that a row has no node any more."""
        for ids in self._ids.values():
            if row < ids.shape[0]:
                ids[row] = NO_NODE

    def claim_changed(self, claim: Claim) -> None:
        """Take in that a claim was made or given back."""
        if claim.node in self._aligned or _asks_for_gpus(claim.shape):
            self.changed[claim.node] = None

    def keeps(self, uid: str, claim: Claim) -> bool:
        """Tell whether a claim keeps what it has been given whatever is predicted of it, and so do all on its node."""
        if claim.node in self._aligned or claim.node in self.changed:
            return False
        on_node = self._held.get(claim.node)
        return not _asks_for_gpus(claim.shape) or (on_node is not None and on_node.settled and uid in on_node.takings)

    def concerns(self, shape: Shape) -> bool:
        """Tell whether GPUs or zones can matter to a pod at all; otherwise there is nothing to ask about it."""
        return bool(self._aligned) or _asks_for_gpus(shape)

    def states(self, holding: HoldingScope) -> NDArray[np.int64]:
        """Return (rows,) the number of the state of each node, `NO_NODE` without one; read-only.

        Nodes in equal states have equal numbers, whatever counts as held.
        """
        ids = self._ids[holding][: self._claims.rows]
        ids.flags.writeable = False
        return ids

    def empty_states(self) -> NDArray[np.int64]:
        """Return (rows,) the states of all nodes as if it were empty; read-only."""
        return self.states(HoldingScope.NONE)

    def offer(self, state: int, shape: Shape, most: int) -> Offer:
        """Return what a node in `state` does for up to `most` pods of `shape`."""
        states = self._states_with(state)
        key = (state, states.demand(state, shape), most)
        offer = self._offers.get(key)
        if offer is None:
            offer = offer_of(states, state, shape, most)
            self._offers.keep(key, offer, 500 + size_of(key[1]) + 80 * len(offer.inner))
        return offer

    def after(self, state: int, shape: Shape, pods: int) -> int:
        """Return the state once so many pods more of `shape` are there; those that do not fit change nothing."""
        states = self._states_with(state)
        for _ in range(pods):
            step = states.step(state, shape)
            if step is None or step.after == state:
                break
            state = step.after
        return state

    def admit(self, state: int, shape: Shape) -> int | None:
        """Return the state once one pod more of `shape` is there; None if its kubelet would not admit it."""
        step = self._states_with(state).step(state, shape)
        return None if step is None else step.after

    def vacated(
        self, state: int, name: str, uids: Collection[str], gone: Collection[str], holding: HoldingScope
    ) -> int:
        """Return the state of a node in `state` once the pods `uids` hold nothing of it any more.

        `gone` are those of which that is true of `state` already, `holding` says whose claims count in it. A pod that
        stays keeps what it has, and gets what it lacked: as if the claims had been given back in the table.
        """
        facts, on_node = self._facts_of(name), self._held.get(name)
        if facts is None or on_node is None or holding is HoldingScope.NONE:
            return state
        kind, states = on_node.kind, self._states_with(state)
        if holding is HoldingScope.ALL and kind.topology is None and on_node.settled:
            room = states.room(state)
            for uid in uids:
                room.gpus |= 0 if (taking := on_node.takings.get(uid)) is None else taking.gpus
            return states.number(room)
        before = self._without(name, facts, on_node, gone, holding)
        after = self._without(name, facts, on_node, {*gone, *uids}, holding)
        if state == before:
            return after
        room = states.room(state)
        room.shift(self._states_with(before).room(before), self._states_with(after).room(after))
        return states.number(room)

    def held(self, uid: str) -> Held | None:
        """Return what the pod `uid` holds; None if that is neither GPUs nor zones, or its node is not there."""
        claim = self._claims.claim_of(uid)
        if claim is None:
            return None
        on_node = self._held.get(claim.node)
        taking = None if on_node is None else on_node.takings.get(uid)
        if taking is None or not (taking.gpus or taking.zones):
            return None
        return Held(members(taking.gpus), taking.zones, claim.observed is not None)

    def share(self, name: str, uids: Iterable[str]) -> OfferShare | None:
        """Return what the pods `uids` have together of the node called `name`; None without such a node or its GPUs."""
        facts, row = self._facts_of(name), self._claims.row(name)
        if facts is None or row is None or not facts.kind.resource:
            return None
        on_node = self._held.get(name)
        own = 0
        for uid in uids:
            taking = None if on_node is None else on_node.takings.get(uid)
            own |= 0 if taking is None else taking.gpus
        return share_of(facts.kind, own, free=self._states.gpus(int(self._ids[HoldingScope.ALL][row])))

    def indices(self, name: str, uuids: Collection[str]) -> tuple[int, ...]:
        """Return the device indices of GPUs of the node called `name`, ascending; () if any of them is not known."""
        facts = self._facts_of(name)
        if facts is None or not all(uuid in facts.uuids for uuid in uuids):
            return ()
        return tuple(sorted(facts.uuids.index(uuid) for uuid in uuids))

    def distrust(self, name: str) -> str:
        """Return why something of a node's NodeResourceTopology is not considered, "" if all of it is."""
        facts = self._facts_of(name)
        return "" if facts is None else facts.distrust

    def topology(self, name: str) -> NodeTopology | None:
        """Return how the kubelet of a node aligns pods, as far as that is known and trusted; None if it does not."""
        facts = self._facts_of(name)
        return None if facts is None else facts.kind.topology

    def _facts_of(self, name: str) -> NodeFacts | None:
        return self._facts.get(name)

    def _states_with(self, state: int) -> NodeStates:
        """Return the states that a number belongs to: a reader may still have those from before a rebuild."""
        return self._states if state in self._states else self._former

    def _rebuild(self) -> None:
        """Compute everything again, but for what is held."""
        self._former, self._states = self._states, NodeStates(self._numbers)
        self.numberings += 1
        self._kinds = NodeKinds()
        self._offers.clear()
        self._facts.clear()
        self._aligned.clear()
        self.changed = dict.fromkeys(node.name for node in self._claims.nodes())

    def refresh(self) -> None:
        """Bring everything up to date with what has changed."""
        if not self.changed:
            return
        rebuilt = self._states.bytes > self._most_bytes
        if rebuilt:
            self._rebuild()
        missing = self._claims.rows - self._ids[HoldingScope.ALL].shape[0]
        if missing > 0:
            for holding, ids in self._ids.items():
                self._ids[holding] = np.pad(ids, (0, max(missing, ids.shape[0])), constant_values=NO_NODE)
        changed, self.changed = self.changed, {}
        for name in changed:
            self._fold(name)
        if rebuilt:
            self._most_bytes = max(_STATES_BYTES, 2 * self._states.bytes)

    def _fold(self, name: str) -> None:
        """Work out who holds what on one node."""
        row, node = self._claims.row(name), self._claims.find(name)
        former = self._held.pop(name, None)
        if row is None or node is None:
            return
        facts = self._facts.get(name)
        if facts is None:
            facts = self._facts[name] = self._kinds.facts(
                node, self._products, self._topologies.get(name), self._partitions.get(name)
            )
        kind = facts.kind
        (self._aligned.discard if kind.topology is None else self._aligned.add)(name)
        empty = self._states.number(Room.empty(kind))
        self._ids[HoldingScope.NONE][row] = empty
        claims: list[tuple[str, Claim]] = []
        if kind.topology is not None:
            claims = list(self._claims.claims_on(name))
        elif kind.resource:
            claims = [each for each in self._claims.claims_on(name) if gpus_asked(each[1].shape, kind.resource)]
        if not claims:
            self._ids[HoldingScope.ALL][row] = self._ids[HoldingScope.LASTING][row] = empty
            return
        on_node = Handout(kind)
        state = None if former is not None else on_node.hand_out_alike(claims, empty, self._states)
        if state is None:
            state = on_node.hand_out(claims, facts, former, self._states)
        seats = self._seats(name, on_node, dict(claims))
        if seats:
            seated = [(uid, _seen_in(claim, seats.get(uid), kind, on_node.takings[uid])) for uid, claim in claims]
            former, on_node = on_node, Handout(kind)
            state = on_node.hand_out(seated, facts, former, self._states)
        self._ids[HoldingScope.ALL][row] = state
        self._held[name] = on_node
        lasting = [on_node.takings[uid] for uid, claim in claims if claim.lasting]
        self._ids[HoldingScope.LASTING][row] = state_without(kind, lasting, self._states) if lasting else empty

    def _without(
        self, name: str, facts: NodeFacts, on_node: Handout, gone: Collection[str], holding: HoldingScope
    ) -> int:
        """Return the state of a node on which the pods `gone` claim nothing."""
        left = [(uid, c) for uid, c in self._claims.claims_on(name) if uid in on_node.takings and uid not in gone]
        if holding is HoldingScope.LASTING:
            return state_without(on_node.kind, [on_node.takings[uid] for uid, c in left if c.lasting], self._states)
        return Handout(on_node.kind).hand_out(left, facts, on_node, self._states)

    def _seats(self, name: str, on_node: Handout, claims: Mapping[str, Claim]) -> dict[str, int]:
        """Return in which zones pods must be, going by what an exporter saw left; {} if that tells nothing new."""
        report = self._topologies.get(name)
        if on_node.kind.topology is None or report is None or not report.fingerprint:
            return {}
        pods = list(self.bound_on(name))
        takings = {pod.uid: on_node.takings[pod.uid] for pod in pods if pod.uid in on_node.takings}
        unseen = [uid for uid in takings if claims[uid].observed is None]
        seats = reseat(on_node.kind, report, takings, unseen) if unseen else {}
        return seats if seats and vouches(report, pods) else {}


def _nobody(_: str) -> Iterable[Pod]:
    """Know of no pod on any node."""
    return ()


def _seen_in(claim: Claim, zone: int | None, kind: NodeKind, taking: Taking) -> Claim:
    """Return a claim as if its pod had been seen in a zone, with the GPUs that it has if they are there."""
    if zone is None:
        return claim
    stays = not taking.gpus & ~kind.sets.zone_mask(zone)
    return replace(claim, observed=holdings.DeviceHolding(members(taking.gpus) if stays else (), (zone,)))


def _asks_for_gpus(shape: Shape) -> bool:
    return shape.whole_gpus > 0
