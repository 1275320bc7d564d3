"""The domains of the network: the objects that describe them, their levels, and each node's domain as a column.

Node labels, Topologies and HyperNodes describe the network.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic_core import SchemaError, SchemaValidator, core_schema

from extender.cluster.table import NodeTable
from extender.objects.hypernodes import HyperNode
from extender.objects.levelobjects import LEVEL_GROUPS, LevelList, choose_levels
from extender.objects.levels import LEVEL_NAMES, RESERVED_NAMES, Level, Levels
from extender.objects.meta import ObjectRef, Requirement
from extender.objects.node import CLIQUE_LABEL, Node, clique_of
from extender.objects.reason import Problem
from extender.objects.text import natural_key

#: What the level is called that multi-node NVLink domains make where no list of levels has it.
CLIQUE_LEVEL = "clique"


@dataclass(frozen=True, slots=True)
class Tree:
    """Which domain every node is in, on each level.

    Attributes:
        levels: the tiers, outermost first, their factors written out, NVLink domains among them where there are any.
        domains: (levels, rows) int64: the index of each node's domain on a level, -1 for a node that has none there.
        names: per level, the name of each domain. Namesakes below different domains of the level above are two.
        ranks: per level, (domains,) int64: each domain's place in the natural order of names.
        cliques: the index of the level of NVLink domains, None where there are none.
        outermost: the factors of members that have only the cluster in common.
        goal: what a place in it is chosen for, a PlacementGoal.
    """

    levels: Levels
    domains: NDArray[np.int64]
    names: tuple[tuple[str, ...], ...]
    ranks: tuple[NDArray[np.int64], ...]
    cliques: int | None
    outermost: tuple[float, float]
    goal: str = "balanced"

    @property
    def depth(self) -> int:
        """Return how many levels there are between the cluster and the node."""
        return len(self.levels.levels)

    def factors(self, level: int) -> tuple[float, float]:
        """Return the factors (all-reduce, all-to-all) of members whose lowest common domain is at `level`."""
        return self.outermost if level < 0 else self.levels.factor(level)

    def common(self, rows: NDArray[np.intp]) -> tuple[int, int]:
        """Return level and index of the lowest domain that all of `rows` are in; (-1, 0) is the cluster.

        Nodes without a domain share none on that level. A single row's is the node itself: level `depth`, the row.
        """
        if rows.shape[0] and (rows == rows[0]).all():
            return self.depth, int(rows[0])
        for level in range(self.depth - 1, -1, -1):
            domains = self.domains[level, rows]
            if domains.shape[0] and domains[0] >= 0 and (domains == domains[0]).all():
                return level, int(domains[0])
        return -1, 0

    def sums(self, level: int, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return (domains,) the sum of (rows,) `values` over each domain of a level.

        The cluster, level -1, is one domain; on the level of nodes, `depth`, each row is.
        """
        if level < 0:
            return np.array([values.sum()], dtype=np.int64)
        if level >= self.depth:
            return values
        path = self.domains[level]
        inside = path >= 0
        sums = np.zeros(len(self.names[level]), dtype=np.int64)
        np.add.at(sums, path[inside], values[inside])
        return sums

    def path(self, level: int) -> NDArray[np.int64]:
        """Return (rows,) the domain of each node on a level, -1 for none; on the level of nodes each row itself.

        The cluster, level -1, is one domain, number 0.
        """
        if level < 0:
            return np.zeros(self.domains.shape[1], dtype=np.int64)
        return np.arange(self.domains.shape[1]) if level >= self.depth else self.domains[level]

    def domain_name(self, level: int, domain: int, node: Callable[[int], Node]) -> str:
        """Return what a domain is called; `node` names rows, for the level of nodes."""
        if level < 0:
            return ""
        return node(domain).name if level >= self.depth else self.names[level][domain]


class TreeKeeper:
    """Keep the tree in step with nodes and levels; rebuilt only when labels, or the levels themselves, changed."""

    def __init__(self, table: NodeTable, goal: str = "balanced") -> None:
        self._table = table
        self._goal = goal
        self._tree: Tree | None = None
        self._built_on: tuple[int, Levels | None] = (-1, None)

    def tree(self, levels: Levels) -> Tree:
        """Return the tree of `levels` over the nodes as they are."""
        change = self._table.last_change
        if self._tree is None or self._built_on[0] != change or self._built_on[1] is not levels:
            self._tree = build(self._table, levels, self._goal)
            self._built_on = (change, levels)
        return self._tree


def build(table: NodeTable, levels: Levels, goal: str = "balanced") -> Tree:
    """Build the tree of `levels` over the nodes of `table`. Complexity: O(nodes x levels)."""
    rows = table.rows
    present = np.flatnonzero(table.present[:rows]).tolist()
    nodes = [(row, table.node(row)) for row in present]
    values = [{row: levels.domain(index, node) for row, node in nodes} for index in range(len(levels.levels))]
    listed = [
        replace(level, allreduce=levels.factor(index)[0], alltoall=levels.factor(index)[1])
        for index, level in enumerate(levels.levels)
    ]
    known = levels.find(CLIQUE_LABEL)
    cliques = {row: clique for row, node in nodes if (clique := clique_of(node.labels))}
    if known is not None and known < len(listed):
        values[known] = {row: cliques.get(row, "") for row, _ in nodes}
    elif cliques:
        known = _place_of_cliques(cliques, values)
        inner = levels.factor(len(listed) - 1) if listed else (1.0, 1.0)
        listed.insert(known, Level(CLIQUE_LEVEL, CLIQUE_LABEL, *inner))
        values.insert(known, {row: cliques.get(row, "") for row, _ in nodes})
    domains = np.full((len(listed), rows), -1, dtype=np.int64)
    names: list[tuple[str, ...]] = []
    path: dict[int, tuple[str, ...]] = dict.fromkeys(present, ())
    for index, value in enumerate(values):
        seen: dict[tuple[str, ...], int] = {}
        for row in present:
            own = value[row]
            path[row] = (*path[row], own)
            if own:
                domains[index, row] = seen.setdefault(path[row], len(seen))
        names.append(tuple(name for *_, name in seen))
    return Tree(
        levels=Levels(tuple(listed), levels.source, levels.members),
        domains=domains,
        names=tuple(names),
        ranks=tuple(_ranks(level) for level in names),
        cliques=known if known is not None and known < len(listed) else None,
        outermost=levels.factor(-1),
        goal=goal,
    )


def _place_of_cliques(cliques: dict[int, str], values: list[dict[int, str]]) -> int:
    """Return the innermost place at which every NVLink domain lies within one domain of the level above."""
    for place in range(len(values), 0, -1):
        above: dict[str, set[tuple[str, ...]]] = {}
        for row, clique in cliques.items():
            above.setdefault(clique, set()).add(tuple(value[row] for value in values[:place]))
        if all(len(paths) == 1 for paths in above.values()):
            return place
    return 0


def _ranks(names: tuple[str, ...]) -> NDArray[np.int64]:
    ranks = np.empty(len(names), dtype=np.int64)
    ranks[sorted(range(len(names)), key=lambda index: natural_key(names[index]))] = np.arange(len(names))
    return ranks


#: Longest pattern that is tried: node names have 253 characters at most.
LONGEST_PATTERN = 1024

Match: TypeAlias = Callable[[str], bool]
"""Tell whether a pattern is found in a name."""

_RANKS = {group: rank for rank, group in enumerate(LEVEL_GROUPS)}


class NamePatternError(ValueError):
    """A pattern that cannot be used; the message says why."""


def compile_pattern(pattern: str) -> Match:
    """Return a function that tells whether `pattern` is found anywhere in a name; raise NamePatternError.

    HyperNodes have patterns of Go's regexp, and Python's `re` would not do: it takes exponential time on some, and
    reads some otherwise. Validation of strings in pydantic uses Rust's regex crate, which has the same syntax as Go's
    but for rare escapes, takes linear time, bounds the memory, and refuses look-around and back-references as Go does.
    """
    if len(pattern) > LONGEST_PATTERN:
        msg = f"is longer than {LONGEST_PATTERN} characters"
        raise NamePatternError(msg)
    try:
        validator = SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError as error:
        *_, last = str(error).strip().splitlines()
        msg = f"is not a regular expression of Go: {last.removeprefix('error: ')}"
        raise NamePatternError(msg) from error
    return validator.isinstance_python


@dataclass(frozen=True, slots=True)
class HyperNodeDomains:
    """Where one node is: tier -> HyperNode. `shared` are pairs of HyperNodes of one tier that both have it.

    `within` names its domain on each level (level label -> HyperNode): the widest one that is not above the tier.
    """

    by_tier: Mapping[int, str] = field(default_factory=dict)
    shared: tuple[tuple[str, str], ...] = ()
    within: Mapping[str, str] = field(default_factory=dict)


class HyperNodeTree:
    """A fixed set of HyperNodes: finds the domains of a node.

    A HyperNode has one parent at most, of a higher tier: of two the closer one counts, then the first by name.

    Attributes:
        levels: one for each tier, outermost first. It is called what the tier is called, else `tier-N`; its label is
            `tier-N`, which no node carries.
        problems: what is wrong with each HyperNode, apart from what it shares with others.
    """

    def __init__(self, hyper_nodes: Iterable[HyperNode]) -> None:
        found = sorted(hyper_nodes, key=lambda each: each.name)
        self.problems: dict[ObjectRef, list[Problem]] = {each.about: list(each.problems) for each in found}
        self._by_name = {each.name: each for each in found}
        self._tiers = {each.name: each.tier for each in found if each.tier is not None}
        self._ascending = sorted(set(self._tiers.values()))
        usable = sorted(
            (each for each in found if each.name in self._tiers),
            key=lambda each: (self._tiers[each.name], each.name),
        )
        self._parents = self._find_parents(usable)
        self._named: defaultdict[str, list[str]] = defaultdict(list)
        self._patterns: list[tuple[Match, str]] = []
        self._selectors: list[tuple[tuple[Requirement, ...], str]] = []
        for each in usable:
            self._index(each)
        self.levels = self._name_levels(usable)

    def domains(self, node: Node) -> HyperNodeDomains:
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
        by_tier = {tier: first for tier, (first, *_) in ordered.items()}
        within, widest = dict[str, str](), ""
        for tier in self._ascending if by_tier else ():
            widest = by_tier.get(tier, widest)
            if widest:
                within[tier_label(tier)] = widest
        shared = tuple((first, other) for first, *others in ordered.values() for other in others)
        return HyperNodeDomains(by_tier, shared, within)

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
        tiers = ((tier, tier_label(tier)) for tier in reversed(self._ascending))
        return tuple(Level(names.get(tier, label), label) for tier, label in tiers)

    def _complain(self, about: HyperNode, place: str, message: str) -> None:
        self.problems[about.about].append(Problem(place, message))


def tier_label(tier: int) -> str:
    """Return the label of a tier's level."""
    return f"tier-{tier}"


class LevelSources:
    """Keep what describes the network, and compute the levels when they are first read after a change.

    A node is looked at once, and again when its labels change or the HyperNodes do.
    """

    def __init__(self, configured: Sequence[Level], preset: str, outdate: Callable[[], None] = lambda: None) -> None:
        """Know no node and no object; `configured` and `preset` are the settings.

        `outdate` is called when an object changed, so that no verdict stands that rests on what was known before.
        """
        self._outdate = outdate
        self._configured = tuple(configured)
        self._preset = preset
        self._nodes: dict[str, Node] = {}
        self._labelled: Counter[str] = Counter()
        self._lists: dict[tuple[str, str], LevelList] = {}  # by API group and name
        self._hyper_nodes: dict[str, HyperNode] = {}
        self._tree: HyperNodeTree | None = None
        self._domains: dict[str, HyperNodeDomains] = {}
        self._tiers: Levels | None = None
        self._levels = Levels()
        self._known = False  # whether the levels are those of what is known now
        self._problems: Mapping[ObjectRef, tuple[Problem, ...]] | None = None

    def put_node(self, node: Node) -> None:
        """Take in a node that was added or changed."""
        before = self._nodes.get(node.name)
        self._nodes[node.name] = node
        if before is not None and before.labels == node.labels:
            return
        self._count(before, -1)
        self._count(node, 1)
        self._look_again(node.name)

    def drop_node(self, name: str) -> None:
        """Forget a node."""
        self._count(self._nodes.pop(name, None), -1)
        self._look_again(name)

    def put_list(self, levels: LevelList) -> bool:
        """Take in an object that lists levels; return whether that changed anything."""
        key = (levels.about.group, levels.about.name)
        if self._lists.get(key) == levels:
            return False
        self._lists[key] = levels
        return self._news()

    def drop_list(self, group: str, name: str) -> bool:
        """Forget the object of an API group that listed levels; return whether it was there."""
        return self._lists.pop((group, name), None) is not None and self._news()

    def put_hyper_node(self, hyper_node: HyperNode) -> bool:
        """Take in a HyperNode; return whether that changed anything."""
        if self._hyper_nodes.get(hyper_node.name) == hyper_node:
            return False
        self._hyper_nodes[hyper_node.name] = hyper_node
        return self._rearrange()

    def drop_hyper_node(self, name: str) -> bool:
        """Forget a HyperNode; return whether it was there."""
        return self._hyper_nodes.pop(name, None) is not None and self._rearrange()

    def levels(self) -> Levels:
        """Return the levels; the same object for as long as they stay the same."""
        if not self._known:
            levels = self._choose()
            if levels != self._levels:
                self._levels = levels
            self._known = True
        return self._levels

    def problems(self) -> Mapping[ObjectRef, tuple[Problem, ...]]:
        """Return what is wrong with the objects that describe the network, for their authors."""
        if self._problems is None:
            self._problems = {about: tuple(found) for about, found in self._complaints().items() if found}
        return self._problems

    def _count(self, node: Node | None, sign: int) -> None:
        for label in () if node is None else node.labels.keys() & LEVEL_NAMES.keys():
            self._labelled[label] += sign

    def _look_again(self, node: str) -> None:
        self._forget()
        self._tiers = None
        self._domains.pop(node, None)

    def _rearrange(self) -> bool:
        self._tiers = self._tree = None
        self._domains.clear()
        return self._news()

    def _news(self) -> bool:
        self._forget()
        self._outdate()
        return True

    def _forget(self) -> None:
        self._known = False
        self._problems = None

    def _choose(self) -> Levels:
        lists = sorted(
            self._lists.values(), key=lambda each: (_RANKS.get(each.about.group, len(_RANKS)), each.about.name)
        )
        carried = [each for each in lists if self._carries(each)]
        return choose_levels(self._configured, self._preset, self._hyper_node_levels(), carried, self._labelled)

    def _carries(self, levels: LevelList) -> bool:
        """Tell whether any node has a domain by the list: a list that no node follows must not hide the others."""
        labels = [level.label for level in levels.levels]
        return any(label in node.labels for node in self._nodes.values() for label in labels)

    def _hyper_node_levels(self) -> Levels | None:
        """Return the levels that the HyperNodes amount to, None if no node is in any."""
        if not self._hyper_nodes:
            return None
        if self._tiers is None:
            levels = self._arranged().levels
            members: dict[str, dict[str, str]] = {level.label: {} for level in levels}
            for name, domains in self._all_domains():
                for label, domain in domains.within.items():
                    members[label][name] = domain
            self._tiers = Levels(levels, "HyperNodes", members)
        return self._tiers if any(self._tiers.members.values()) else None

    def _complaints(self) -> dict[ObjectRef, list[Problem]]:
        found = {each.about: list(each.problems) for each in self._lists.values()}
        if not self._hyper_nodes:
            return found
        tree = self._arranged()
        found |= {about: list(problems) for about, problems in tree.problems.items()}
        shared: dict[tuple[str, str], str] = {}
        for name, domains in self._all_domains():
            for pair in domains.shared:
                shared[pair] = min(name, shared.get(pair, name))
        for (first, other), node in sorted(shared.items()):
            message = f"shares nodes with {first!r} of the same tier, {node!r} for one; they count as nodes of that one"
            found[tree.about(other)].append(Problem("spec.members", message))
        return found

    def _arranged(self) -> HyperNodeTree:
        if self._tree is None:
            self._tree = HyperNodeTree(self._hyper_nodes.values())
        return self._tree

    def _all_domains(self) -> Iterator[tuple[str, HyperNodeDomains]]:
        tree = self._arranged()
        for name, node in self._nodes.items():
            domains = self._domains.get(name)
            if domains is None:
                domains = self._domains[name] = tree.domains(node)
            yield name, domains
