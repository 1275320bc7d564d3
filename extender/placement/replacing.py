"""Members that need another place than the node that they are on: what is to be placed instead of them, and with whom.

Where a member goes depends on the others: its slice shares a domain, or its roles do, or the whole gang. It joins those
that stay; where there is no room beside them, the smallest unit that has to be together may move as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from extender.cluster.gangs import Gang, member_order
from extender.cluster.table import NodeTable
from extender.cluster.tree import Tree
from extender.objects.pod import Phase, Pod
from extender.placement.capacityview import PodSet, PodSetRequest, settled_on
from extender.placement.joining import Joining

#: How the UIDs begin of the pods that are thought of in place of members: no such pod holds anything.
_INSTEAD = "instead-of:"


# Example. Slices of two by rack: g-0 and g-1 run in rack a, g-2 and g-3 in rack b. The node of g-1 is lost:
#
#   units       g-1; then g-0 and g-1, which may go to rack c; then all, if all have to be in one zone
#   replaced    for g-1 a pod that joins g-0: its node has to be in rack a
def units(gang: Gang, lost: Sequence[Pod], table: NodeTable, tree: Tree) -> Iterator[list[Pod]]:
    """Yield which bound members may move together, in member order: those that are `lost` first, then with others."""
    yield list(lost)
    topology, moving = gang.topology, {pod.uid for pod in lost}
    if topology.has_parts:
        parts = Joining(gang, table, tree).parts
        while wider := _wider(parts, moving):
            moving = wider
            yield _bound(gang, moving)
    everyone = {pod.uid for pod in _bound(gang, gang.members)}
    if (topology.required or topology.has_parts) and moving < everyone:
        yield _bound(gang, everyone)


def _wider(parts: Sequence[frozenset[str]], moving: set[str]) -> set[str]:
    """Return the members that move, with the smallest parts that hold one of them and more; none if there are none."""
    wider = set(moving)
    for uid in moving:
        around = (part for part in parts if uid in part and not part <= moving)
        wider |= min(around, key=len, default=frozenset())
    return wider if wider != moving else set()


def _bound(gang: Gang, uids: Iterable[str]) -> list[Pod]:
    pods = (gang.members[uid] for uid in uids)
    return sorted((pod for pod in pods if pod.stays), key=member_order)


def replaced(gang: Gang, moving: Sequence[Pod], table: NodeTable, tree: Tree) -> tuple[PodSet, dict[str, Pod]]:
    """Return what is to be placed instead of members that move, and by the UID of each pod of it whom it is for."""
    gone = {pod.uid for pod in moving}
    whom = {_INSTEAD + pod.uid: pod for pod in moving}
    others = [_unplaced(pod, uid) for uid, pod in whom.items()]
    members = {uid: pod for uid, pod in gang.members.items() if uid not in gone} | {pod.uid: pod for pod in others}
    shadow = Gang(gang.ref, gang.uid, gang.first_seen, gang.group, members)
    settled = settled_on(shadow, table)
    pod_set = PodSet(shadow, PodSetRequest.of_members(shadow, others), settled, _pods=others)
    if settled and shadow.topology.has_parts:
        pod_set = Joining(shadow, table, tree).join(pod_set)
    pod_set.gang = gang  # what is kept for it, and what it may have cleared, it has under its own name
    return pod_set, whom


def _unplaced(pod: Pod, uid: str) -> Pod:
    pending = replace(pod, uid=uid, node_name="", nominated_node="", phase=Phase.PENDING, deleting=False)
    return replace(pending, observed=None, predicted=None, started_at=None)
