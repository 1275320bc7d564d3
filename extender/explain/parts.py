"""The parts of a gang as people see them: how far each has come by the counts that decide, and where it is.

A gang that needs two replicas of `serve`, of which one is there:

    part        needs   bound   lacks
    serve       2       1       3 pods
      r0        2       2       0
        p0      4       4       0
        d0      2       2       0
      r1        2       0       3 pods
        p1      4       2       2 pods
        d1      2       1       1 pod
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from extender.cluster.gangs import Gang
from extender.explain.documents import PartRow, PartState
from extender.objects.branches import Branch, of_roles
from extender.objects.reason import Reason, Wait
from extender.placement.capacityview import CapacityViews

#: In the order in which a part reaches them; it is in the first that too few of what it needs have left behind.
_STATES: Final = tuple(PartState)
_EXIST, _, _PLACED, _BOUND, _RUNNING = range(len(_STATES) - 2)

#: Why a gang waits of which some parts lack members: that is not why others have no place.
_OF_OTHERS: Final = frozenset({Reason.ROLE_MEMBERS_MISSING, Reason.ROLE_MEMBERS_GATED})
_OWN: Final = {PartState.MISSING: Reason.ROLE_MEMBERS_MISSING, PartState.GATED: Reason.ROLE_MEMBERS_GATED}


def part_tree(gang: Gang, places: Mapping[str, str], views: CapacityViews, wait: Wait | None) -> PartRow | None:
    """Return how far the parts of a gang have come, itself outermost; None of one that has no parts.

    Args:
        gang: the gang.
        places: pod UID -> node of its members that have one, or one promised.
        views: the nodes, and which domain each is in.
        wait: why the gang waits.

    Complexity: O(members + parts^2).
    """
    if gang.tree is None:
        return None
    return _Look(gang, places, views, wait).row(_whole(gang, gang.tree), needed=True)


def _whole(gang: Gang, tree: Branch) -> Branch:
    """Return the parts of a gang with those beside them that it needs since a step of it has begun."""
    later = tuple((role, least) for role, least in gang.role_minimums.items() if role not in tree.roles)
    if not later:
        return tree
    parts = (*((tree,) if tree.has_choice else tree.parts), *of_roles(later).parts)
    return replace(tree, name="", least=len(parts), parts=parts)


class _Look:
    """Look at one gang."""

    def __init__(self, gang: Gang, places: Mapping[str, str], views: CapacityViews, wait: Wait | None) -> None:
        self._gang = gang
        self._table = views.table
        self._tree = views.tree
        self._wait = wait
        self._members: dict[str, tuple[int, ...]] = {}
        self._nodes: dict[str, set[str]] = {}  # role -> nodes on which it has members
        for uid, node in places.items():
            if views.table.row(node) is not None:
                self._nodes.setdefault(gang.members[uid].role, set()).add(node)

    def row(self, part: Branch, *, needed: bool, outermost: bool = True) -> PartRow:
        """Return how far a part has come that the gang counts on, or does without."""
        gang = self._gang
        nearest = set(map(id, part.nearest(gang.standing))) if needed else ()
        counts = [self._count(part, measure) for measure in range(len(_STATES) - 1)]
        state = next((_STATES[at] for at, count in enumerate(counts) if count < part.least), _STATES[-1])
        lacks = sum(max(least - gang.standing(role).placed, 0) for role, least in part.needs(gang.standing).items())
        level, domain = self._whereabouts(part)
        asked = gang.topology if outermost else part
        return PartRow(
            name=part.name,
            state=state,
            needed=needed,
            minimum=part.least,
            exist=counts[_EXIST],
            placed=counts[_PLACED],
            bound=counts[_BOUND],
            running=counts[_RUNNING],
            lacks=lacks,
            required=asked.required or None,
            preferred=asked.preferred or None,
            level=level,
            domain=domain,
            reason=self._reason(state, lacks, needed=needed, outermost=outermost),
            parts=tuple(self.row(each, needed=id(each) in nearest, outermost=False) for each in part.parts),
        )

    def _count(self, part: Branch, measure: int) -> int:
        """Return how many members, or parts with their minimum of them, count by one measure."""
        if part.parts:
            return sum(each.holds(lambda role: self._of(role)[measure]) for each in part.parts)
        return self._of(part.name)[measure]

    def _of(self, role: str) -> tuple[int, ...]:
        """Return how many members exist, are free of gates, have a place, are bound, run, and have succeeded."""
        known = self._members.get(role)
        if known is None:
            census, standing = self._gang.census_of(role), self._gang.standing(role)
            placed = standing.free, standing.placed, standing.secured
            known = census.exist, *placed, census.running + census.succeeded, census.succeeded
            self._members[role] = known
        return known

    def _whereabouts(self, part: Branch) -> tuple[str | None, str | None]:
        """Return the smallest domain around all members that have a place, and its level."""
        nodes = sorted(set[str]().union(*(self._nodes.get(role, ()) for role in part.roles)))
        if not nodes:
            return None, None
        level, domain = self._tree.common(self._table.rows_of(nodes))
        return self._tree.levels.name(level), self._tree.domain_name(level, domain, self._table.node)

    def _reason(self, state: PartState, lacks: int, *, needed: bool, outermost: bool) -> Reason | None:
        """Return why a part has not come further, None where nothing is in its way, or that is not known."""
        wait = self._wait
        if outermost and wait is not None:
            return wait.reason
        if state is PartState.WAITING and needed:
            return None if wait is None or wait.reason in _OF_OTHERS else wait.reason
        if state is PartState.WAITING and lacks > self._gang.spaces:
            return Reason.MAX_MEMBER_REACHED
        return _OWN.get(state)
