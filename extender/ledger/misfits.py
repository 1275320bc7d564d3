"""Members that kube-scheduler refuses on their planned node for what is their own, and who changes places with them.

What Muster does not model may be different for members that are alike to it: the volume of each is on another node.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
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
    #: Members that change places in one plan.
    MOST = 100
    #: Refusals of one gang that are remembered: each of 100 members on each of 100 nodes.
    REFUSALS = 10_000

    def __init__(self) -> None:
        self.of_gangs: LRUCache[str, dict[_Place, None]] = LRUCache(self.GANGS)
        self._news: LRUCache[str, None] = LRUCache(self.GANGS)  # gang UIDs: more is known than when it was last asked

    def add(self, gang_uid: str, uid: str, node: str) -> None:
        """Take in that kube-scheduler refuses a member on a node."""
        refused = self.of_gangs.get(gang_uid, {})
        if (uid, node) not in refused:
            self._news[gang_uid] = None
        refused[_Place(uid, node)] = None
        if len(refused) > self.REFUSALS:
            del refused[next(iter(refused))]
        self.of_gangs[gang_uid] = refused

    def forget(self, gang_uid: str) -> None:
        """Forget a gang that is gone."""
        self.of_gangs.pop(gang_uid, None)
        self._news.pop(gang_uid, None)

    def may_do_better(self, gang: Gang) -> bool:
        """Tell, once for each refusal that is news, whether others of a gang may do where some of it were refused."""
        if self._news.pop(gang.uid, self) is not None or gang.topology.slices:
            return False
        refusals = Counter(place.node for place in self.of_gangs.get(gang.uid, ()) if place.uid in gang.members)
        return max(refusals.values(), default=0) < len(gang.members)

    def arrange(self, gang: Gang, pods: Mapping[str, Pod], nodes: Mapping[str, str]) -> Mapping[str, str]:
        """Return a plan (pod UID -> node) in which members change places that were refused on theirs, if others may."""
        refused, topology = self.of_gangs.get(gang.uid, {}), gang.topology
        if topology.slices:
            return nodes
        like, alike = _like(topology), dict[tuple[Shape, str], list[str]]()
        for uid in nodes:
            alike.setdefault(like(pods[uid]), []).append(uid)
        return {uid: node for uids in alike.values() for uid, node in _seated(uids, nodes, refused).items()}

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


def _seated(uids: Sequence[str], nodes: Mapping[str, str], refused: Collection[_Place]) -> dict[str, str]:
    """Give the places of members that are alike to as many as were not refused there; the others have what is left.

    Who may stay does, unless it makes way for another. Complexity: O(places) for each member that was refused, of which
    the first MOST are looked at. Source: augmenting paths, C. Berge, "Two theorems in graph theory", PNAS 43 (1957).
    """
    seated = {uid: nodes[uid] for uid in uids if (uid, nodes[uid]) not in refused}
    misfits = [uid for uid in uids if uid not in seated]
    free = Counter(nodes[uid] for uid in misfits)
    for misfit in misfits[: Misfits.MOST]:
        seated |= _path(misfit, seated, free, refused)
    left = (Counter(nodes[uid] for uid in uids) - Counter(seated.values())).elements()
    return seated | dict(zip((uid for uid in misfits if uid not in seated), left, strict=True))


def _path(misfit: str, seated: Mapping[str, str], free: Counter[str], refused: Collection[_Place]) -> Mapping[str, str]:
    """Return who moves where so that a member has a place, itself included; nothing if there is no way to that."""
    there: dict[str, list[str]] = {node: [] for node in free}
    for uid, node in seated.items():
        there.setdefault(node, []).append(uid)
    unseen, comes, queue = list(there), dict[str, str](), deque([misfit])
    while queue:
        uid, others = queue.popleft(), list[str]()
        for node in unseen:
            if (uid, node) in refused:
                others.append(node)
                continue
            comes[node] = uid
            if free[node]:
                free[node] -= 1
                return _traced(misfit, node, comes, seated)
            queue.extend(there[node])
        unseen = others
    return {}


def _traced(misfit: str, node: str, comes: Mapping[str, str], seated: Mapping[str, str]) -> dict[str, str]:
    """Return the moves that end with a free place on a node, back to the member that had none."""
    moves = {comes[node]: node}
    while (last := next(reversed(moves))) != misfit:
        moves[comes[seated[last]]] = seated[last]
    return moves
