"""HyperNodes as a tree: which domain of which tier a node is in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from extender.cluster.namepattern import Match, NamePatternError, compile_pattern
from extender.domain.hypernodes import HyperNode
from extender.domain.levels import RESERVED_NAMES, Level
from extender.domain.node import Node
from extender.domain.objectref import ObjectRef
from extender.domain.reason import Problem
from extender.domain.selectors import Requirement


@dataclass(frozen=True, slots=True)
class Domains:
    """Where one node is: tier -> HyperNode. `shared` are pairs of HyperNodes of one tier that both have it."""

    by_tier: Mapping[int, str] = field(default_factory=dict)
    shared: tuple[tuple[str, str], ...] = ()


class HyperNodeTree:
    """A fixed set of HyperNodes, ready to be asked about nodes.

    A HyperNode has one parent at most, of a higher tier: of two the closer one counts, then the first by name.

    Attributes:
        levels: one for each tier, outermost first. It is called what the tier is called, else `tier-N`; its label is
            `tier-N`, which no node carries.
        problems: what is wrong with each HyperNode, apart from what it shares with others.
    """

    def __init__(self, hyper_nodes: Iterable[HyperNode]) -> None:
        """Arrange the HyperNodes; those without a tier are left out."""
        everybody = sorted(hyper_nodes, key=lambda each: each.name)
        self.problems: dict[ObjectRef, list[Problem]] = {each.about: list(each.problems) for each in everybody}
        self._by_name = {each.name: each for each in everybody}
        self._tiers = {each.name: each.tier for each in everybody if each.tier is not None}
        usable = sorted(
            (each for each in everybody if each.name in self._tiers),
            key=lambda each: (self._tiers[each.name], each.name),
        )
        self._parents = self._find_parents(usable)
        self._named: defaultdict[str, list[str]] = defaultdict(list)
        self._patterns: list[tuple[Match, str]] = []
        self._selectors: list[tuple[tuple[Requirement, ...], str]] = []
        for each in usable:
            self._index(each)
        self.levels = self._name_levels(usable)

    def domains(self, node: Node) -> Domains:
        """Return the domains of a node: the HyperNodes that have it, and those above them."""
        direct = [
            *self._named.get(node.name, ()),
            *(name for matches, name in self._patterns if matches(node.name)),
            *(name for wanted, name in self._selectors if all(each.matches(node.labels) for each in wanted)),
        ]
        found: dict[int, set[str]] = {}
        for start in direct:
            name: str | None = start
            while name is not None:
                found.setdefault(self._tiers[name], set()).add(name)
                name = self._parents.get(name)
        ordered = {tier: sorted(names) for tier, names in found.items()}
        return Domains(
            {tier: first for tier, (first, *_) in ordered.items()},
            tuple((first, other) for first, *others in ordered.values() for other in others),
        )

    def about(self, name: str) -> ObjectRef:
        """Return the HyperNode called `name` as an object."""
        return self._by_name[name].about

    def _find_parents(self, usable: list[HyperNode]) -> dict[str, str]:
        parents: dict[str, str] = {}
        for parent in usable:
            for child in parent.children:
                known = parents.get(child)
                if child not in self._by_name:
                    self._complain(parent, "spec.members", f"there is no HyperNode {child!r}")
                elif child not in self._tiers:
                    self._complain(parent, "spec.members", f"HyperNode {child!r} has no tier")
                elif self._tiers[child] >= self._tiers[parent.name]:
                    self._complain(
                        parent,
                        "spec.members",
                        f"HyperNode {child!r} is of tier {self._tiers[child]}, which is not below tier "
                        f"{self._tiers[parent.name]} of this one; members are of lower tiers, and never in a circle",
                    )
                elif known is not None and known != parent.name:
                    self._complain(parent, "spec.members", f"HyperNode {child!r} is a member of {known!r} already")
                else:
                    parents[child] = parent.name
        return parents

    def _index(self, hyper_node: HyperNode) -> None:
        for node in sorted(hyper_node.nodes):
            self._named[node].append(hyper_node.name)
        for pattern in hyper_node.patterns:
            try:
                self._patterns.append((compile_pattern(pattern), hyper_node.name))
            except NamePatternError as error:
                self._complain(hyper_node, "spec.members", f"pattern {pattern[:80]!r} {error}")
        self._selectors += [(wanted, hyper_node.name) for wanted in hyper_node.selectors]

    def _name_levels(self, usable: list[HyperNode]) -> tuple[Level, ...]:
        names: dict[int, str] = {}
        for each in usable:
            tier, wanted = self._tiers[each.name], each.tier_name
            if not wanted or names.get(tier) == wanted:
                continue
            if tier in names:
                self._complain(each, "spec.tierName", f"{wanted!r}: tier {tier} is called {names[tier]!r} elsewhere")
            elif wanted in RESERVED_NAMES or wanted in names.values():
                self._complain(each, "spec.tierName", f"{wanted!r} is the name of something else")
            else:
                names[tier] = wanted
        tiers = sorted(set(self._tiers.values()), reverse=True)
        return tuple(Level(names.get(tier, label), label) for tier in tiers for label in [tier_label(tier)])

    def _complain(self, about: HyperNode, place: str, message: str) -> None:
        self.problems[about.about].append(Problem(place, message))


def tier_label(tier: int) -> str:
    """Return the label of a tier's level."""
    return f"tier-{tier}"
