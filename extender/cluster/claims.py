"""What pods take of nodes, which GPUs and NUMA zones they are given, and what a node in some state offers to a pod."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Protocol, TypeAlias

from extender.caches import sized_cache
from extender.cluster.noderoom import NodeFacts, NodeKind, NodeStates, Room, Taking, gpus_asked
from extender.hardware.bandwidth import NOMINAL
from extender.hardware.gpusets import mask_of
from extender.hardware.products import Product
from extender.objects import holdings
from extender.objects.holdings import DeviceHolding
from extender.objects.node import Node
from extender.objects.nodetopology import NodeTopology
from extender.objects.pod import Shape

_Held: TypeAlias = dict[tuple[int, str], int]
"""(zone id, resource) -> milli-CPU, bytes or count, zeros left out."""

#: Ways of seating pods that are tried before the report is left alone: a few milliseconds.
_MOST_TRIES = 2000


@dataclass(frozen=True, slots=True)
class Claim:
    """What one pod takes, or is promised, on one node.

    A lasting claim is one that Muster cannot expect to end: pods of other schedulers, DaemonSets among them. `observed`
    and `predicted` are which GPUs and zones it holds, as annotations of the pod say.
    """

    node: str
    shape: Shape
    lasting: bool = False
    observed: DeviceHolding | None = None
    predicted: DeviceHolding | None = None

    def expecting(self, predicted: DeviceHolding | None) -> Claim:
        """Return the claim of a pod of which something else is predicted."""
        return Claim(self.node, self.shape, self.lasting, self.observed, predicted)


class Claims(Protocol):
    """What occupancy reads of the node table."""

    @property
    def rows(self) -> int:
        """Return the number of rows."""

    def row(self, name: str) -> int | None:
        """Return the row of a node, or None."""

    def find(self, name: str) -> Node | None:
        """Return the node called `name`, or None."""

    def nodes(self) -> list[Node]:
        """Return all nodes in row order."""

    def claim_of(self, uid: str) -> Claim | None:
        """Return what a pod claims, or None."""

    def claims_on(self, node: str) -> Iterable[tuple[str, Claim]]:
        """Iterate over UIDs and claims of the pods that claim something on a node, in the order of the claims."""


class Handout:
    """What each claim holds on one node.

    Attributes:
        kind: the node's kind, as it was when this was worked out.
        takings: what each claim holds, by UID.
        settled: whether every claim keeps its GPUs, and needs no more, whichever others go.
    """

    __slots__ = ("kind", "settled", "takings")

    def __init__(self, kind: NodeKind) -> None:
        self.kind = kind
        self.takings: dict[str, Taking] = {}
        self.settled = True

    def hand_out(
        self, claims: list[tuple[str, Claim]], facts: NodeFacts, former: Handout | None, states: NodeStates
    ) -> int:
        """Give every claim its GPUs and zones, and return the state of what is left.

        First what was observed, then what a claim has had before, then what was predicted of it, then the others, each
        in the order of the claims. A claim that finds too little gets what there is, and the rest when there is more.
        """
        room = Room.empty(self.kind)
        claims = [each for each in claims if not self._observe(*each, facts, room)]
        if former is not None:
            claims = [each for each in claims if not self._keep(*each, former, room)]
        claims = [each for each in claims if not self._believe(*each, room)]
        if former is not None:
            claims = [each for each in claims if not self._complete(*each, former, room)]
        state = states.number(room)
        for uid, claim in claims:
            step = states.step(state, claim.shape)
            if step is None:
                room = states.room(state)
                self._give(uid, claim, room.suppose(claim.shape), room)
                state = states.number(room)
            else:
                self.takings[uid], state = step
        return state

    def hand_out_alike(self, claims: list[tuple[str, Claim]], empty: int, states: NodeStates) -> int | None:
        """Do what `hand_out` does on a node in the state `empty` for pods of one claim; return None for others."""
        first = claims[0][1]
        if any(claim is not first for _, claim in claims) or first.observed is not None or first.predicted is not None:
            return None
        served = states.serve(empty, first.shape, len(claims))
        if served is None:
            return None
        takings, state = served
        self.takings.update(zip((uid for uid, _ in claims), takings, strict=True))
        return state

    def _give(self, uid: str, claim: Claim, taking: Taking, room: Room) -> bool:
        asked = gpus_asked(claim.shape, self.kind.resource)
        self.settled &= not taking.gpus & ~room.gpus and taking.gpus.bit_count() == asked
        self.takings[uid] = taking
        room.take(taking)
        return True

    def _observe(self, uid: str, claim: Claim, facts: NodeFacts, room: Room) -> bool:
        seen = claim.observed
        if seen is None:
            return False
        gpus = mask_of(seen.gpus) if seen.gpus else _mask_of_uuids(seen, facts)
        self.settled &= bool(gpus & self.kind.sets.all)  # else they are chosen again with every change
        return self._give(uid, claim, room.suppose(claim.shape, gpus, seen.zones), room)

    def _keep(self, uid: str, claim: Claim, former: Handout, room: Room) -> bool:
        taking = former.takings.get(uid)
        if taking is None or taking.gpus.bit_count() != gpus_asked(claim.shape, self.kind.resource):
            return False
        if former.kind is not self.kind:  # the GPUs are the same ones, but what is known of the node is not
            taking = room.suppose(claim.shape, taking.gpus & room.gpus, taking.zones)
        return room.fits(taking) and self._give(uid, claim, taking, room)

    def _complete(self, uid: str, claim: Claim, former: Handout, room: Room) -> bool:
        """Let a claim that had too few GPUs keep these and have more."""
        taking = former.takings.get(uid)
        if taking is None or not taking.gpus:
            return False
        number = min(gpus_asked(claim.shape, self.kind.resource), room.gpus.bit_count())
        gpus = self.kind.sets.choose(room.gpus, number, required=taking.gpus)
        return gpus is not None and self._give(uid, claim, room.suppose(claim.shape, gpus), room)

    def _believe(self, uid: str, claim: Claim, room: Room) -> bool:
        said = claim.predicted
        if said is None:
            return False
        gpus = mask_of(said.gpus)
        if gpus & ~room.gpus or gpus.bit_count() != gpus_asked(claim.shape, self.kind.resource):
            return False
        taking = room.suppose(claim.shape, gpus, said.zones)
        return room.fits(taking) and self._give(uid, claim, taking, room)


def _mask_of_uuids(seen: holdings.DeviceHolding, facts: NodeFacts) -> int:
    return mask_of(tuple(facts.uuids.index(uuid) for uuid in seen.uuids if uuid in facts.uuids))


def state_without(kind: NodeKind, takings: list[Taking], states: NodeStates) -> int:
    """Return the state of a node of which nothing but `takings` is taken."""
    room = Room.empty(kind)
    for taking in takings:
        room.take(taking)
    return states.number(room)


def reseat(
    kind: NodeKind, report: NodeTopology, takings: Mapping[str, Taking], movable: Collection[str]
) -> dict[str, int]:
    """Return the zone of each pod such that the zones have left what `report` says.

    Empty if that is so already, or cannot be explained by pods of one zone each.

    Args:
        kind: the node's kind.
        report: what an exporter saw, of exactly the pods in `takings`.
        takings: what each pod is supposed to hold.
        movable: those whose zones were not observed.
    """
    held = {uid: _held(kind, taking) for uid, taking in takings.items()}
    resources = {resource for amounts in held.values() for _, resource in amounts}
    missing = {
        (zone.id, resource): gone
        for zone in report.zones
        for resource in resources
        if (gone := zone.allocatable.get(resource, 0) - zone.available.get(resource, 0))
    }
    if missing == _sum(held.values()):
        return {}
    seats = {uid: next(iter(held[uid]))[0] for uid in movable if len({zone for zone, _ in held[uid]}) == 1}
    left = _difference(missing, _sum(amounts for uid, amounts in held.items() if uid not in seats))
    wants = {uid: {resource: amount for (_, resource), amount in held[uid].items()} for uid in seats}
    # The most demanding first: what they cannot have is found out soonest.
    order = sorted(seats, key=lambda uid: sorted(wants[uid].items(), reverse=True), reverse=True)
    zones = [zone.id for zone in report.zones]
    found = _SeatSearch(wants, zones).seat(order, left) if min(left.values(), default=0) >= 0 else None
    return found or {}


class _SeatSearch:
    """Seat pods in zones, each whole in one, so that nothing is left over."""

    def __init__(self, wants: Mapping[str, Mapping[str, int]], zones: list[int]) -> None:
        self._wants = wants
        self._zones = zones
        self._tries = 0

    def seat(self, uids: list[str], left: _Held) -> dict[str, int] | None:
        """Return the zone of each pod, None if there is no way or too many were tried."""
        if not uids:
            return None if left else {}
        self._tries += 1
        uid = uids[0]
        for zone in self._zones if self._tries <= _MOST_TRIES else ():
            wanted = {(zone, resource): amount for resource, amount in self._wants[uid].items()}
            rest = _difference(left, wanted)
            if min(rest.values(), default=0) >= 0:
                seats = self.seat(uids[1:], rest)
                if seats is not None:
                    return {uid: zone, **seats}
        return None


def _held(kind: NodeKind, taking: Taking) -> _Held:
    """Return what is taken of each zone, with the GPUs where the zones list them."""
    held = {(zone, resource): n for zone, amounts in taking.amounts.items() for resource, n in amounts.items() if n}
    for zone in kind.topology.zones if kind.topology is not None else ():
        gpus = (taking.gpus & kind.sets.zone_mask(zone.id)).bit_count()
        if gpus and kind.resource in zone.allocatable:
            held[zone.id, kind.resource] = gpus
    return held


def _sum(parts: Iterable[_Held]) -> _Held:
    total: _Held = {}
    for part in parts:
        for key, amount in part.items():
            total[key] = total.get(key, 0) + amount
    return total


def _difference(whole: _Held, part: _Held) -> _Held:
    """Subtract; zeros are left out, so that nothing left is an empty dictionary."""
    keys = whole.keys() | part.keys()
    return {key: left for key in keys if (left := whole.get(key, 0) - part.get(key, 0))}


#: What offers of nodes that set no limit may take together (bytes).
_UNCOUNTED_BYTES = 4 << 20

#: GB/s of network for each GPU of an unknown product: one adapter of 100 Gb/s. Any number will do, as it only
#: tells more GPUs of a node from fewer.
_NOMINAL_NIC = 12.5


@dataclass(frozen=True, slots=True)
class Offer:
    """What a node in some state does for pods of one shape that come one after the other.

    `pods` is how many its GPUs and zones take, at most as many as were asked about; what has a column in the node table
    is counted elsewhere. `gpus` is how many whole GPUs one pod asks for. The tuples are by number of pods, one pod
    first, in GB/s: of an all-reduce among all GPUs that so many pods get there (infinite for one GPU or none), of the
    network cards local to those, and what future requests lose by them. `worth` is what they could get of the whole
    node (GB/s for each of its GPUs). Without `product` the figures are nominal: they tell better from worse, and
    predict nothing.
    """

    pods: int
    gpus: int
    product: Product | None
    nvls: bool
    inner: tuple[float, ...]
    outer: tuple[float, ...]
    loss: tuple[float, ...]
    worth: float = 0.0


@dataclass(frozen=True, slots=True)
class OfferShare:
    """What some pods have of one node together.

    `gpus` is how many; in GB/s: `inner` of an all-reduce among them (infinite for one or none), `outer` of the network
    cards local to them, `lost` what future requests could get of the node besides if these were free. `others` says
    whether other pods hold any of its GPUs. The figures are nominal without `product`.
    """

    gpus: int
    inner: float
    outer: float
    lost: float
    product: Product | None
    others: bool


def offer_of(states: NodeStates, state: int, shape: Shape, most: int) -> Offer:
    """Return what a node in `state` does for up to `most` pods of `shape`."""
    kind = states.kind(state)
    if kind.topology is None:
        demand = states.demand(state, shape)
        if isinstance(demand, int) and not (demand and kind.resource):
            return _uncounted(demand, most)
    return _counted(states, state, shape, most)


def share_of(kind: NodeKind, own: int, free: int) -> OfferShare:
    """Return what pods have that hold the GPUs `own` of a node where `free` are free; both are bit masks."""
    sets = kind.sets
    return OfferShare(
        gpus=own.bit_count(),
        inner=sets.inner(own),
        outer=_outer(kind.product, own.bit_count()),
        lost=sets.value(free | own) - sets.value(free),
        product=kind.product,
        others=free | own != sets.all,
    )


@sized_cache(_UNCOUNTED_BYTES, lambda gpus, most: 300 + 80 * most)  # noqa: ARG005 - by name, as the function has it
def _uncounted(gpus: int, most: int) -> Offer:
    """Return the offer of a node that sets no limit: for pods without GPUs, or where they are not told apart."""
    inner = tuple(NOMINAL if pods * gpus > 1 else inf for pods in range(1, most + 1))
    outer = tuple(_NOMINAL_NIC * pods * gpus if gpus else inf for pods in range(1, most + 1))
    return Offer(most, gpus, None, nvls=False, inner=inner, outer=outer, loss=(0.0,) * most)


def _counted(states: NodeStates, state: int, shape: Shape, most: int) -> Offer:
    """Return the offer of a node whose GPUs or zones are counted, one pod after the other."""
    kind = states.kind(state)
    gpus, product, before = gpus_asked(shape, kind.resource), kind.product, kind.sets.value(states.gpus(state))
    inner, outer, loss = [], [], []
    taken = 0
    for _ in range(most):
        step = states.step(state, shape)
        if step is None:
            break
        if step.after == state:
            return _uncounted(0, most)
        state = step.after
        taken |= step.taking.gpus
        inner.append(kind.sets.inner(taken))
        outer.append(_outer(product, taken.bit_count()))
        loss.append(before - kind.sets.value(states.gpus(state)))
    nvls = product is not None and product.nvls
    sets = kind.sets
    worth = sets.value(sets.all) / max(sets.layout.gpus, 1)
    return Offer(len(inner), gpus, product, nvls, tuple(inner), tuple(outer), tuple(loss), worth)


def _outer(product: Product | None, gpus: int) -> float:
    if not gpus:
        return inf
    return _NOMINAL_NIC * gpus if product is None else product.outer(gpus)
