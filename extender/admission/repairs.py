"""Running gangs that have fewer members than they need: their places are kept, and in the end the rest is let go."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from extender.admission.clearances import Clearances
from extender.admission.effects import EvictionReason
from extender.admission.keep import Keep
from extender.admission.queue import position
from extender.admission.reservations import Reservations
from extender.clock import Clock
from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel
from extender.domain.keys import BelowMinimum
from extender.domain.node import Node
from extender.domain.pod import Phase, Pod, Shape


@dataclass(slots=True)
class _Wound:
    """What a gang has lost since it last had its minimum.

    `since` is when it first had too few members, or was told that it would (seconds, monotonic). `places` are the nodes
    of members that are gone, by their UID, and what those took there.
    """

    gang: Gang
    since: float
    places: dict[str, tuple[str, Shape]] = field(default_factory=dict)
    keep: Keep | None = None


class Repairs:
    """Follow gangs that ran and lost members.

    For as long as the grace lasts, nobody else gets the nodes of lost members that are still sound; a gang that holds
    nodes is placed before all others as well. If it has not been repaired by then, what is left of it is evicted, since
    it holds nodes and cannot run. A node that is announced to go counts as lost from the announcement on.
    """

    def __init__(
        self, model: ClusterModel, reservations: Reservations, clearances: Clearances, grace: float, clock: Clock
    ) -> None:
        """Start with nobody wounded; `grace` is in seconds."""
        self._model = model
        self._reservations = reservations
        self._clearances = clearances
        self._grace = grace
        self._clock = clock
        self._doomed: set[str] = set()
        self._wounds: dict[str, _Wound] = {}

    def follow(self, gang: Gang) -> None:
        """Take in how a gang stands."""
        started = gang.census().bound > 0 and self._model.concerns(gang)
        if not started or gang.is_growing or (gang.has_minimum and not self._is_threatened(gang)):
            self.forget(gang.uid)
        elif gang.uid not in self._wounds and gang.below_minimum is not BelowMinimum.IGNORE:
            self._wounds[gang.uid] = _Wound(gang, self._clock.monotonic())

    def node_seen(self, node: Node) -> None:
        """Take in how a node stands: its gangs' grace begins when it is announced to go."""
        if node.doomed:
            self._doomed.add(node.name)
            for uid, _ in self._model.table.claims_on(node.name):
                pod = self._model.pods.get(uid)
                gang = None if pod is None else self._model.gang_of(pod)
                if gang is not None:
                    self.follow(gang)
        else:
            self._doomed.discard(node.name)

    def node_gone(self, name: str) -> None:
        """Forget a node."""
        self._doomed.discard(name)

    def lost(self, pod: Pod, gang: Gang) -> None:
        """Take in that a member which held a node holds it no more."""
        if pod.phase is Phase.SUCCEEDED:
            return
        if self._clearances.leaving_for(gang.ref) is not None:
            self.forget(gang.uid)  # it gave its place up
            return
        self.follow(gang)
        wound = self._wounds.get(gang.uid)
        if wound is not None:
            wound.places[pod.uid] = (pod.node_name, pod.shape)
            wound.keep = None

    def forget(self, uid: str) -> None:
        """Forget a gang that is gone, or that nothing is kept for any more."""
        self._wounds.pop(uid, None)

    def begin_pass(self) -> None:
        """Begin a pass: let go what is left of gangs whose grace is over."""
        now = self._clock.monotonic()
        for uid, wound in list(self._wounds.items()):
            gang = wound.gang
            if self._model.gangs.get(gang.ref) is not gang or gang.uid != uid:
                self.forget(uid)
            elif now >= wound.since + self._grace:
                self.forget(uid)
                if not gang.has_minimum and not gang.is_growing and gang.below_minimum is BelowMinimum.EVICT:
                    have, need = gang.census().secured, gang.min_member
                    why = f"because {have} of {need} members are left, and no others came in {self._grace:.0f} s"
                    self._clearances.evict_gang(gang, EvictionReason.BELOW_MINIMUM, why)

    def keeps(self) -> dict[str, Keep]:
        """Return what is kept for whom, by the UID of the gang: for those whose members have no other place yet."""
        keeps = {}
        for uid, wound in self._wounds.items():
            if wound.places and self._reservations.ledger.of_gang(uid) is None:
                keeps[uid] = wound.keep = wound.keep or self._keep(wound)
        return keeps

    def pass_time(self) -> bool:
        """Tell whether a pass is due because a grace is over."""
        now = self._clock.monotonic()
        return any(wound.since + self._grace <= now for wound in self._wounds.values())

    def next_end(self) -> float | None:
        """Return when the next grace ends (seconds, monotonic), or None."""
        now = self._clock.monotonic()
        ends = (wound.since + self._grace for wound in self._wounds.values())
        return min((end for end in ends if end > now), default=None)

    def _is_threatened(self, gang: Gang) -> bool:
        """Tell whether a member is on a node that is announced to go."""
        table = self._model.table
        for uid in gang.members if self._doomed else ():
            claim = table.claim_of(uid)
            if claim is not None and claim.node in self._doomed:
                return True
        return False

    def _keep(self, wound: _Wound) -> Keep:
        table = self._model.table
        kept = np.zeros((len(table.resources), table.rows), dtype=np.int64)
        for name, shape in wound.places.values():
            node, row = table.find(name), table.row(name)
            if node is not None and row is not None and not node.doomed:
                vector = table.vector(shape.requests)
                kept[vector.columns, row] += vector.amounts
        return Keep(wound.gang, position(wound.gang), kept, firm=True)
