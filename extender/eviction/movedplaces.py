"""What is kept for gangs and pods that move, until they are there: no other gang may use it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from extender.clock import Clock
from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel
from extender.eviction.moves import Destination
from extender.ledger.earmark import Earmark
from extender.objects.pod import Pod, Shape
from extender.placement.capacityview import amounts_of
from extender.queues.charges import Charge
from extender.queues.sharing import Sharing


@dataclass(slots=True)
class MovedPlace:
    """What is kept for pods of one gang that move: of each the node, and what it takes there.

    `gang` is who gets it. A gang without PodGroup begins a new life when its last pod has gone; a pod without a gang is
    followed by another that the same `controller` makes, which has another name. `until` is when the place is given up
    (seconds, monotonic). `seen` are members that it is not for, or that have come.
    """

    gang: Gang
    queue: str
    flavor: str
    controller: str
    places: list[tuple[str, Shape]]
    until: float
    seen: set[str] = field(default_factory=set)
    keep: Earmark | None = None


class MovedPlaces:
    """Keep room and quota for gangs that move.

    Attributes:
        places: what is kept, by the UID of the gang; mostly there is nothing.
    """

    def __init__(self, model: ClusterModel, sharing: Sharing, clock: Clock) -> None:
        """Start without any."""
        self._model = model
        self._sharing = sharing
        self._clock = clock
        self.places: dict[str, MovedPlace] = {}

    def keep(self, destination: Destination, seconds: float) -> None:
        """Keep for pods that are to move what they need there, for so many seconds at most."""
        eviction, victim = destination.eviction, destination.eviction.victim
        gang = self._model.gangs.get(eviction.gang)
        if gang is None:
            return
        places = [(destination.nodes[pod.uid], pod.shape) for pod in eviction.pods]
        self.end(gang.uid)
        self.add(gang, victim.queue, victim.flavor, places, seconds)

    def add(self, gang: Gang, queue: str, flavor: str, places: list[tuple[str, Shape]], seconds: float) -> None:
        """Keep for members that leave what others will need in their stead, beside what is kept already."""
        until, before = self._clock.monotonic() + seconds, self.places.get(gang.uid)
        if before is not None:
            before.places, before.until = [*before.places, *places], max(before.until, until)
            self._put(before)
            return
        controller = next((pod.controller for pod in gang.members.values()), "") if gang.ref.is_pod else ""
        self._put(MovedPlace(gang, queue, flavor, controller, places, until, set(gang.members)))

    def follow(self, gang: Gang) -> None:
        """Take in that a gang has changed: a place is for who comes instead of those that moved."""
        place = self.places.get(gang.uid) or self._inherited(gang)
        if place is None:
            return
        table, before = self._model.table, len(place.places)
        for uid, pod in gang.members.items():
            claim = table.claim_of(uid)
            if uid not in place.seen and claim is not None and place.places:
                place.seen.add(uid)
                place.places.remove(_nearest(place.places, claim.node, pod.shape))
        if len(place.places) < before:
            self._put(place)

    def forsake(self, uid: str, nodes: Container[str]) -> bool:
        """Keep nothing for a gang on some nodes; return whether anything was kept there."""
        place = self.places.get(uid)
        left = [] if place is None else [each for each in place.places if each[0] not in nodes]
        if place is None or len(left) == len(place.places):
            return False
        place.places = left
        self._put(place)
        return True

    def end(self, uid: str) -> None:
        """Keep nothing more for a gang."""
        if self.places.pop(uid, None) is not None:
            self._sharing.charges.withdraw(uid)

    def end_all(self) -> None:
        """Keep nothing for anybody: another replica decides."""
        for uid in list(self.places):
            self.end(uid)

    def begin_pass(self) -> None:
        """Begin a pass: give up what no pod has come for in time."""
        now = self._clock.monotonic()
        for uid in [uid for uid, place in self.places.items() if now >= place.until]:
            self.end(uid)

    def keeps(self) -> dict[str, Earmark]:
        """Return what is kept, by the UID of the gang."""
        keeps = {}
        for uid, place in self.places.items():
            if place.keep is None:
                place.keep = Earmark.firm_for(place.gang, self._model.table.taken_by(place.places))
            keeps[uid] = place.keep
        return keeps

    def next_end(self) -> float:
        """Return when the first is given up (seconds, monotonic), inf for never."""
        return min((place.until for place in self.places.values()), default=math.inf)

    def _put(self, place: MovedPlace) -> None:
        """Keep room and quota for those that have not come yet."""
        uid, place.keep = place.gang.uid, None
        if not place.places:
            self.end(uid)
            return
        self.places[uid] = place
        amounts = amounts_of(Counter(shape for _, shape in place.places).items())
        self._sharing.charges.promise(uid, Charge(place.gang.ref, place.queue, place.flavor, amounts), ())

    def _inherited(self, gang: Gang) -> MovedPlace | None:
        """Return the place that a gang gets which has come instead of another, or of itself; None if there is none."""
        place = next((place for place in self.places.values() if self._follows(gang, place)), None)
        if place is not None:
            self.end(place.gang.uid)
            place.gang = gang
            place.seen &= gang.members.keys()
            self._put(place)
        return place

    def _follows(self, gang: Gang, place: MovedPlace) -> bool:
        if not gang.ref.is_pod:
            return gang.ref == place.gang.ref
        return (
            place.gang.ref.is_pod
            and _controllers(gang.members.values()) == {place.controller}
            and all(pod.deleting or pod.done for pod in place.gang.members.values())
        )


def _controllers(pods: Iterable[Pod]) -> set[str]:
    return {pod.controller for pod in pods if not pod.deleting and pod.controller}


def _nearest(places: list[tuple[str, Shape]], node: str, shape: Shape) -> tuple[str, Shape]:
    """Return the place that a pod has come for: on its node if there is one, else one for such a pod."""
    return max(places, key=lambda place: (place[0] == node, place[1] == shape))
