"""Members that kube-scheduler refuses on their planned node for what is their own, and who changes places with them.

What Muster does not model may be different for members that are alike to it: the volume of each is on another node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from cachetools import LRUCache

from extender.cluster.gangs import Gang
from extender.ledger.slots import Reservation, Slot, SlotState
from extender.objects.pod import Pod, Shape
from extender.objects.topology import TopologyRequest


class _Place(NamedTuple):
    """A member and a node, by UID and name."""

    uid: str
    node: str


class Misfits:
    """Remember which members were refused on which nodes, so that members that are alike change places.

    A veto (`Vetoes`) keeps all of one shape from a node, and is lifted when the gang finds no place with it. What is
    remembered here is one member's, keeps it from nothing, and so needs no end: a plan that others may fulfil as well
    is given to them, and where none may it stays as it is.

    Alike are members of one shape. Where some roles must be together, they have one role too; where a gang is counted
    off in slices, no members are alike: which of them belong together is said by their numbers.

    Advisory: what is forgotten costs one more refusal, so the oldest are dropped.

    Attributes:
        of_gangs: gang UID -> members and nodes.
    """

    #: Gangs of which refusals are remembered.
    GANGS = 1_000
    #: Refusals of one gang that are remembered: each of 100 members on each of 100 nodes.
    REFUSALS = 10_000

    def __init__(self) -> None:
        self.of_gangs: LRUCache[str, dict[_Place, None]] = LRUCache(self.GANGS)

    def add(self, gang_uid: str, uid: str, node: str) -> None:
        """Take in that kube-scheduler refuses a member on a node."""
        refused = self.of_gangs.get(gang_uid, {})
        refused[_Place(uid, node)] = None
        if len(refused) > self.REFUSALS:
            del refused[next(iter(refused))]
        self.of_gangs[gang_uid] = refused

    def forget(self, gang_uid: str) -> None:
        """Forget a gang that is gone."""
        self.of_gangs.pop(gang_uid, None)

    def arrange(self, gang: Gang, pods: Mapping[str, Pod], nodes: Mapping[str, str]) -> Mapping[str, str]:
        """Return a plan (pod UID -> node) in which members change places that were refused on theirs, if others may."""
        refused, topology = self.of_gangs.get(gang.uid, {}), gang.topology
        if topology.slices:
            return nodes
        places, like = dict(nodes), _like(topology)
        alike: dict[tuple[Shape, str], list[str]] = {}
        for uid in places:
            alike.setdefault(like(pods[uid]), []).append(uid)
        for uid in nodes:
            if (uid, places[uid]) in refused:
                others = alike[like(pods[uid])]
                other = next((each for each in others if _may_change(uid, each, places, refused)), uid)
                places[uid], places[other] = places[other], places[uid]
        return places

    def partner(self, gang: Gang, reservation: Reservation, slot: Slot, offered: Collection[str]) -> Slot | None:
        """Return whose place a refused member may have instead: on an offered node, and not on the way there.

        None where a node is offered that is planned for none of them: the gang can do without the refused one.
        """
        topology, slots, allowed = gang.topology, reservation.slots.values(), frozenset(offered)
        if topology.slices or not allowed.issubset(each.node for each in slots):
            return None
        refused, like = self.of_gangs.get(gang.uid, {}), _like(topology)
        for other in slots:
            waits = other.state is SlotState.RESERVED and other.expected_until == slot.expected_until
            may = other.node in allowed and (other.pod.uid, slot.node) not in refused
            if waits and may and like(other.pod) == like(slot.pod):
                return other
        return None


def _like(topology: TopologyRequest) -> Callable[[Pod], tuple[Shape, str]]:
    """Return what says what members that are alike have in common."""
    return lambda pod: (pod.shape, pod.role if topology.role_groups else "")


def _may_change(uid: str, other: str, places: Mapping[str, str], refused: Collection[_Place]) -> bool:
    """Tell whether two members were refused on neither the other's node."""
    return (uid, places[other]) not in refused and (other, places[uid]) not in refused
