"""The parts of gangs: how far each has come, by the members of each role that there are.

Trees are read as they were declared. Which parts a gang counts on, how many members each lacks and what holds is worked
out here, by what docs/gangs.md says: of parts that do as well, those that lack the fewest members that are not there
yet, then those that have begun, then those that are declared first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from extender.explain.documents import MemberState, PartRow, PartState
from extender.objects.branches import Branch
from extender.objects.pod import Phase
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.reason import Reason
from extender.service.board.documents import GangRow
from tests.properties.truth.world import Objects, Recomputed, state_of

_PLACED = {MemberState.BOUND, MemberState.RESERVED, MemberState.SUCCEEDED}
_BOUND = {MemberState.BOUND, MemberState.SUCCEEDED}
_THERE = _PLACED | {MemberState.WAITING, MemberState.GATED}


@dataclass(frozen=True)
class Counts:
    """How many members of one role exist, have no gates, have a place, are bound, and run; ended ones are all that."""

    exist: int = 0
    free: int = 0
    placed: int = 0
    bound: int = 0
    running: int = 0


class Standing:
    """How the parts of one gang stand."""

    def __init__(self, objects: Objects, ref: GroupRef) -> None:
        self.group = objects.groups[ref]
        pods = [(pod, state_of(pod, objects.promised)) for pod in objects.members(ref)]
        self.roles: dict[str, Counts] = {}
        for role in {pod.role for pod, _ in pods}:
            own = [(pod, state) for pod, state in pods if pod.role == role and state in _THERE]
            states = [state for _, state in own]
            self.roles[role] = Counts(
                exist=len(own),
                free=sum(state is not MemberState.GATED for state in states),
                placed=sum(state in _PLACED for state in states),
                bound=sum(state in _BOUND for state in states),
                running=sum(
                    state is MemberState.SUCCEEDED or (state is MemberState.BOUND and pod.phase is Phase.RUNNING)
                    for pod, state in own
                ),
            )
        self.tree = declared(self.group)

    def of(self, role: str) -> Counts:
        """Return how many members a role has."""
        return self.roles.get(role, Counts())

    @property
    def needs(self) -> Mapping[str, int]:
        """Return how many members of which role the gang cannot start without."""
        return {} if self.tree is None else {leaf.name: leaf.least for leaf in self.leaves(self.tree)}

    @property
    def least(self) -> int:
        """Return how many members the gang cannot start without."""
        return max(self.group.min_member, sum(self.needs.values()))

    @property
    def gaps(self) -> int:
        """Return how many members that are needed of some role have no place."""
        return sum(max(least - self.of(role).placed, 0) for role, least in self.needs.items())

    @property
    def has_minimum(self) -> bool:
        """Tell whether all that the gang cannot start without is bound, or has succeeded."""
        bound = sum(each.bound for each in self.roles.values())
        return bound >= self.group.min_member and (self.tree is None or self.holds(self.tree, "bound"))

    def amount(self, part: Branch, measure: str) -> int:
        """Return how many of its parts hold by one measure, or of its members count."""
        if part.parts:
            return sum(self.holds(each, measure) for each in part.parts)
        counted: int = getattr(self.of(part.name), measure)
        return counted

    def holds(self, part: Branch, measure: str) -> bool:
        """Tell whether a part has its minimum by one measure."""
        return self.amount(part, measure) >= part.least

    def leaves(self, part: Branch) -> Iterator[Branch]:
        """Iterate over the roles that a part counts on."""
        for each in self.chosen(part):
            yield from self.leaves(each)
        if not part.parts:
            yield part

    def chosen(self, part: Branch) -> list[Branch]:
        """Return the parts inside it that a part counts on."""
        return sorted(part.parts, key=self._far)[: part.least]

    def lacks(self, part: Branch) -> int:
        """Return how many members must get a place until a part holds."""
        return sum(max(leaf.least - self.of(leaf.name).placed, 0) for leaf in self.leaves(part))

    def _far(self, part: Branch) -> tuple[int, bool, int, int]:
        leaves = [(leaf.least, self.of(leaf.name)) for leaf in self.leaves(part)]
        absent = sum(max(least - have.free, 0) for least, have in leaves)
        begun = any(have.placed for _, have in leaves)
        unbound = sum(max(least - have.bound, 0) for least, have in leaves)
        return absent, not begun, self.lacks(part) if begun else 0, unbound if begun else 0


def declared(group: PodGroup) -> Branch | None:
    """Return the parts that a PodGroup declares, None if it has none."""
    if group.tree is None and group.role_minimums:
        leaves = tuple(Branch(role, least) for role, least in group.role_minimums)
        return Branch("", len(leaves), leaves)
    return group.tree


def all_of(part: Branch) -> Iterator[Branch]:
    """Iterate over a part and all inside it."""
    yield part
    for each in part.parts:
        yield from all_of(each)


class TrueParts(Recomputed):
    """How far the parts of a gang have come."""

    def row(self, row: GangRow, ref: GroupRef) -> None:
        """Compare how many of the outermost parts are bound."""
        standing = Standing(self.objects, ref)
        assert (row.parts is None) == (standing.tree is None)
        if row.parts is not None and standing.tree is not None:
            self.same("gangs[].parts.bound", row.parts.bound, standing.amount(standing.tree, "bound"))
            self.same("gangs[].parts.minimum", row.parts.minimum, standing.tree.least)
            self.same("gangs[].parts.total", row.parts.total, len(standing.tree.parts))

    def tree(self, shown: PartRow | None, row: GangRow, ref: GroupRef) -> None:
        """Compare all parts of a gang."""
        standing = Standing(self.objects, ref)
        assert (shown is None) == (standing.tree is None)
        if shown is not None and standing.tree is not None:
            if row.reason is not None:
                assert shown.reason == row.reason.code
            self._part(shown, standing.tree, standing, needed=True)
            for part, each in zip(inside(shown), list(all_of(standing.tree))[1:], strict=True):
                self._whereabouts(part, each, ref)

    def _part(self, shown: PartRow, part: Branch, standing: Standing, *, needed: bool) -> None:
        assert (shown.name, shown.needed) == (part.name, needed)
        self.same("explain.parts.minimum", shown.minimum, part.least)
        for measure in ("exist", "placed", "bound", "running"):
            self.same(f"explain.parts.{measure}", getattr(shown, measure), standing.amount(part, measure))
        self.same("explain.parts.lacks", shown.lacks, standing.lacks(part))
        assert (shown.required, shown.preferred) == (part.required or None, part.preferred or None)
        steps = {
            PartState.MISSING: "exist",
            PartState.GATED: "free",
            PartState.WAITING: "placed",
            PartState.RESERVED: "bound",
            PartState.BOUND: "running",
        }
        state = next((each for each, step in steps.items() if not standing.holds(part, step)), PartState.RUNNING)
        if shown.state != PartState.SUCCEEDED:
            assert shown.state == state
        if part.name and state in {PartState.MISSING, PartState.GATED}:
            own = {PartState.MISSING: Reason.ROLE_MEMBERS_MISSING, PartState.GATED: Reason.ROLE_MEMBERS_GATED}
            assert shown.reason == own[state]
        chosen = standing.chosen(part)
        for row, each in zip(shown.parts, part.parts, strict=True):
            self._part(row, each, standing, needed=needed and any(each is one for one in chosen))

    def _whereabouts(self, shown: PartRow, part: Branch, ref: GroupRef) -> None:
        """Compare the smallest domain around all members of a part that have a place."""
        roles = {each.name for each in all_of(part) if not each.parts}
        nodes = {node for name, node in self.objects.placed(ref).items() if self.objects.pods[name].role in roles}
        if not nodes:
            assert (shown.level, shown.domain) == (None, None)
            return
        labels = [{"node": node, **self.objects.nodes[node].labels} for node in nodes]
        for level in ("node", "rack", "block"):
            found = {each.get(level) for each in labels}
            if len(found) == 1 and None not in found:
                (domain,) = found
                assert (shown.level, (shown.domain or "").rpartition("/")[2]) == (level, domain)
                return
        assert shown.level == "cluster"


def inside(shown: PartRow) -> Iterable[PartRow]:
    """Iterate over all parts inside one."""
    for each in shown.parts:
        yield each
        yield from inside(each)
