"""Everything in the cluster that describes its network, and the one list of levels that follows from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from extender.cluster.hypernodes import Domains, HyperNodeTree, tier_label
from extender.domain.hypernodes import HyperNode
from extender.domain.levelchoice import choose_levels
from extender.domain.levelobjects import LevelList
from extender.domain.levels import Level, Levels
from extender.domain.node import Node
from extender.domain.objectref import ObjectRef
from extender.domain.presets import LEVEL_NAMES
from extender.domain.reason import Problem

#: Whose list of levels comes first, by API group, where several are there.
_RANKS = {group: rank for rank, group in enumerate(("kueue.x-k8s.io", "kai.scheduler", "scheduling.koordinator.sh"))}


class LevelSources:
    """Keep what describes the network, and work out the levels when somebody asks after a change.

    A node is looked at once, and again when its labels change or the HyperNodes do.
    """

    def __init__(self, configured: Sequence[Level], preset: str) -> None:
        """Know no node and no object; `configured` and `preset` are the settings."""
        self._configured = tuple(configured)
        self._preset = preset
        self._nodes: dict[str, Node] = {}
        self._labelled: Counter[str] = Counter()
        self._lists: dict[tuple[str, str], LevelList] = {}  # by API group and name
        self._hyper_nodes: dict[str, HyperNode] = {}
        self._tree: HyperNodeTree | None = None
        self._domains: dict[str, Domains] = {}
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
        self._forget()
        return True

    def drop_list(self, group: str, name: str) -> bool:
        """Forget the object of an API group that listed levels; return whether it was there."""
        self._forget()
        return self._lists.pop((group, name), None) is not None

    def put_hyper_node(self, hyper_node: HyperNode) -> bool:
        """Take in a HyperNode; return whether that changed anything."""
        if self._hyper_nodes.get(hyper_node.name) == hyper_node:
            return False
        self._hyper_nodes[hyper_node.name] = hyper_node
        self._rearrange()
        return True

    def drop_hyper_node(self, name: str) -> bool:
        """Forget a HyperNode; return whether it was there."""
        self._rearrange()
        return self._hyper_nodes.pop(name, None) is not None

    def levels(self) -> Levels:
        """Return the levels; the same object for as long as they stay the same."""
        if not self._known:
            levels = self._choose()
            if levels != self._levels:
                self._levels = levels
            self._known = True
        return self._levels

    def problems(self) -> Mapping[ObjectRef, tuple[Problem, ...]]:
        """Return what is wrong with the objects that describe the network, for the people who wrote them."""
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

    def _rearrange(self) -> None:
        self._forget()
        self._tiers = self._tree = None
        self._domains.clear()

    def _forget(self) -> None:
        self._known = False
        self._problems = None

    def _choose(self) -> Levels:
        lists = sorted(self._lists.values(), key=lambda each: (_RANKS[each.about.group], each.about.name))
        carried = [each for each in lists if self._carries(each)]
        return choose_levels(self._configured, self._preset, self._hyper_node_levels(), carried, self._labelled)

    def _carries(self, levels: LevelList) -> bool:
        """Tell whether any node has a domain by the list: one that was left behind must not hide what nodes have."""
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
                for tier, domain in domains.by_tier.items():
                    members[tier_label(tier)][name] = domain
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

    def _all_domains(self) -> Iterator[tuple[str, Domains]]:
        tree = self._arranged()
        for name, node in self._nodes.items():
            domains = self._domains.get(name)
            if domains is None:
                domains = self._domains[name] = tree.domains(node)
            yield name, domains
