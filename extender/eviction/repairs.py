"""Running gangs that have fewer members than they need: their places are kept, and in the end the rest is let go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import Final

from extender.clock import Clock
from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel
from extender.eviction.pending import PendingEvictions
from extender.ledger.earmark import Earmark
from extender.ledger.effects import EvictionReason
from extender.ledger.reservations import Reservations
from extender.objects.keys import BelowMinimum
from extender.objects.node import Node
from extender.objects.pod import Phase, Pod, Shape

#: Stands for all parts of a gang: it lacks its minimum.
_WHOLE: Final[frozenset[str]] = frozenset()


@dataclass(slots=True)
class Wound:
    """What a gang has lost since it last had its minimum.

    `since` is when it first had too few members, or was told that it would (seconds, monotonic): the gang as a whole,
    and each of its parts by the roles of that. `places` are the nodes of members that are gone, by their UID, and what
    those took there.
    """

    gang: Gang
    since: dict[frozenset[str], float] = field(default_factory=dict)
    places: dict[str, tuple[str, Shape]] = field(default_factory=dict)
    keep: Earmark | None = None

    @property
    def waiting(self) -> dict[frozenset[str], float]:
        """Return since when the gang lacks what it waits for: of one that lacks its minimum no part is looked at."""
        return {_WHOLE: self.since[_WHOLE]} if _WHOLE in self.since else self.since


class Repairs:
    """Follow gangs that ran and lost members.

    For as long as the grace lasts, no other gang gets the nodes of lost members that are still sound; a gang that holds
    nodes is placed before all others as well. If it has not been repaired by then, what is left of it is evicted, since
    it holds nodes and cannot run. A node that is announced to go counts as lost from the announcement on.

    Attributes:
        wounds: what those gangs have lost, by their UID; mostly there are none.
    """

    def __init__(
        self,
        model: ClusterModel,
        reservations: Reservations,
        pending_evictions: PendingEvictions,
        grace: float,
        clock: Clock,
    ) -> None:
        """Start without wounded gangs; `grace` is in seconds."""
        self._model = model
        self._reservations = reservations
        self._pending_evictions = pending_evictions
        self._grace = grace
        self._clock = clock
        self._doomed: set[str] = set()
        self.wounds: dict[str, Wound] = {}

    def follow(self, gang: Gang) -> None:
        """Take in how a gang stands."""
        started = gang.census().bound > 0 and self._model.concerns(gang)
        doomed = self._doomed_members(gang)
        lacking = self._lacking(gang, doomed) if started and not gang.is_growing else ()
        if not lacking:
            self.forget(gang.uid)
            return
        if gang.uid not in self.wounds and gang.below_minimum is not BelowMinimum.IGNORE:
            self.wounds[gang.uid] = Wound(gang)
        wound, now = self.wounds.get(gang.uid), self._clock.monotonic()
        if wound is not None:
            wound.since = {part: wound.since.get(part, now) for part in lacking}
            if doomed and not self._lacking(gang, Counter()):
                wound.places.clear()  # others have come for those

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
        if self._pending_evictions.leaving_for(gang.ref) is not None:
            self.forget(gang.uid)  # it gave its place up
            return
        self.follow(gang)
        wound = self.wounds.get(gang.uid)
        if wound is not None:
            wound.places[pod.uid] = (pod.node_name, pod.shape)
            wound.keep = None

    def forget(self, uid: str) -> None:
        """Forget a gang that is gone, or that nothing is kept for any more."""
        self.wounds.pop(uid, None)

    def begin_pass(self) -> None:
        """Begin a pass: let go what is left of gangs whose grace is over."""
        now = self._clock.monotonic()
        for uid, wound in list(self.wounds.items()):
            gang = wound.gang
            if self._model.gangs.get(gang.ref) is not gang or gang.uid != uid:
                self.forget(uid)
            elif over := {part for part, since in wound.waiting.items() if now >= since + self._grace}:
                for part in over:
                    del wound.since[part]
                if not wound.since or _WHOLE in over:
                    self.forget(uid)
                if not gang.is_growing and gang.below_minimum is BelowMinimum.EVICT:
                    self._give_up(gang, over)

    def _give_up(self, gang: Gang, parts: Container[frozenset[str]]) -> None:
        """Evict what is left of a gang, or of those `parts` that lack members: they hold nodes and cannot run."""
        pending, reason, waited = self._pending_evictions, EvictionReason.BELOW_MINIMUM, f"{self._grace:.0f} s"
        if not gang.has_minimum:
            have, need = gang.census().secured, gang.min_member
            why = f"because {have} of {need} members are left, and no others came in {waited}"
            pending.evict_gang(gang, reason, why)
        elif self._reservations.ledger.of_gang(gang.uid) is None:  # else others are on their way
            why = f"because their part of the gang lacks members, and no others found a place beside them in {waited}"
            torn = gang.torn_parts({})
            pending.evict_part(gang, [pod for part in torn if part in parts for pod in torn[part]], reason, why)

    def keeps(self) -> dict[str, Earmark]:
        """Return what is kept, by the UID of the gang: for those whose members have no other place yet."""
        keeps = {}
        for uid, wound in self.wounds.items():
            if wound.places and self._reservations.ledger.of_gang(uid) is None:
                keeps[uid] = wound.keep = wound.keep or self._keep(wound)
        return keeps

    def pass_time(self) -> bool:
        """Tell whether a pass is due because a grace is over."""
        now = self._clock.monotonic()
        return any(end <= now for end in self._ends())

    def next_end(self) -> float | None:
        """Return when the next grace ends (seconds, monotonic), or None."""
        now = self._clock.monotonic()
        return min((end for end in self._ends() if end > now), default=None)

    def _ends(self) -> Iterator[float]:
        return (since + self._grace for wound in self.wounds.values() for since in wound.waiting.values())

    def _lacking(self, gang: Gang, doomed: Counter[str]) -> list[frozenset[str]]:
        """Return which parts of a gang lack members, or will when those go whose nodes are doomed (by role)."""
        less = {role: -count for role, count in doomed.items()}
        whole = () if gang.would_have_minimum(less) else (_WHOLE,)
        return [*whole, *gang.torn_parts(less)]

    def _doomed_members(self, gang: Gang) -> Counter[str]:
        """Count the members of each role that are to stay, and are on a node that is announced to go."""
        table, found = self._model.table, Counter[str]()
        for uid, pod in gang.members.items() if self._doomed else ():
            claim = None if pod.deleting else table.claim_of(uid)
            if claim is not None and claim.node in self._doomed:
                found[pod.role] += 1
        return found

    def _keep(self, wound: Wound) -> Earmark:
        find, places = self._model.table.find, wound.places.values()
        sound = [(name, shape) for name, shape in places if (node := find(name)) is not None and not node.doomed]
        return Earmark.firm_for(wound.gang, self._model.table.taken_by(sound))
