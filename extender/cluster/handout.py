"""Hand out a node's GPUs and zones to the claims on it."""

from __future__ import annotations

from extender.cluster.claims import Claim
from extender.cluster.nodekinds import NodeFacts, NodeKind
from extender.cluster.noderoom import Room, Taking, gpus_asked
from extender.cluster.nodestates import NodeStates
from extender.domain import holdings
from extender.fabric.gpusets import mask_of


class Handout:
    """Who holds what on one node.

    Attributes:
        kind: the node's kind, as it was when this was worked out.
        takings: what each claim holds, by UID.
        settled: whether every claim keeps its GPUs, and needs no more, whichever others go.
    """

    __slots__ = ("kind", "settled", "takings")

    def __init__(self, kind: NodeKind) -> None:
        """Start with nobody holding anything."""
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
        self.settled &= bool(gpus & self.kind.sets.all)  # else they are chosen anew with every change
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


def _mask_of_uuids(seen: holdings.Holding, facts: NodeFacts) -> int:
    return mask_of(tuple(facts.uuids.index(uuid) for uuid in seen.uuids if uuid in facts.uuids))


def state_without(kind: NodeKind, takings: list[Taking], states: NodeStates) -> int:
    """Return the state of a node of which nothing but `takings` is taken."""
    room = Room.empty(kind)
    for taking in takings:
        room.take(taking)
    return states.number(room)
