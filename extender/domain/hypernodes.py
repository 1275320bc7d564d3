"""Volcano's HyperNodes: domains of the network as objects that list their members."""

from __future__ import annotations

from dataclasses import dataclass

from extender.domain.integer import parse_integer
from extender.domain.labelselector import read_label_selector
from extender.domain.objectref import ObjectRef
from extender.domain.reason import Problem
from extender.domain.selectors import Requirement
from extender.wire import topology as wire
from extender.wire.kubernetes import ObjectMeta


@dataclass(frozen=True, slots=True)
class HyperNode:
    """One domain. Tiers with a lower number are closer.

    Its nodes are those that are named in `nodes`, those whose name matches one of `patterns`, and those whose labels
    satisfy all requirements of one of `selectors`; and all nodes of the HyperNodes called `children`. Without a
    readable `tier` it is no domain at all.
    """

    about: ObjectRef
    tier: int | None = None
    tier_name: str = ""
    nodes: frozenset[str] = frozenset()
    patterns: tuple[str, ...] = ()
    selectors: tuple[tuple[Requirement, ...], ...] = ()
    children: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def name(self) -> str:
        """Return the object's name, which is that of the domain."""
        return self.about.name


def read_hyper_node(item: wire.HyperNode) -> HyperNode:
    """Read a HyperNode; members that cannot be read are left out, with a problem."""
    meta = item.metadata or ObjectMeta()
    spec = item.spec or wire.HyperNodeSpec()
    problems: list[Problem] = []
    tier = parse_integer(spec.tier) if isinstance(spec.tier, str) else spec.tier
    if tier is None or tier < 0:
        problems.append(Problem("spec.tier", f"{spec.tier!r} is not a whole number of at least 0"))
        tier = None
    nodes: set[str] = set()
    patterns: list[str] = []
    selectors: list[tuple[Requirement, ...]] = []
    children: list[str] = []
    for index, member in enumerate(spec.members or ()):
        field = f"spec.members[{index}]"
        selector = member.selector or wire.MemberSelector()
        match (member.type, selector):
            case (
                ("Node" | "HyperNode") as kind,
                wire.MemberSelector(exact_match=wire.ExactMatch(name=str(name)), regex_match=None, label_match=None),
            ) if name:
                nodes.add(name) if kind == "Node" else children.append(name)
            case (
                "Node",
                wire.MemberSelector(
                    exact_match=None, regex_match=wire.RegexMatch(pattern=str(pattern)), label_match=None
                ),
            ) if pattern:
                patterns.append(pattern)
            case (
                "Node",
                wire.MemberSelector(exact_match=None, regex_match=None, label_match=wire.LabelSelector() as labels),
            ):
                selected = _requirements(labels, f"{field}.selector.labelMatch")
                if isinstance(selected, Problem):
                    problems.append(selected)
                else:
                    selectors.append(selected)
            case ("Node", _):
                problems.append(
                    Problem(
                        f"{field}.selector", "needs exactly one of exactMatch, regexMatch and labelMatch, not empty"
                    )
                )
            case ("HyperNode", _):
                problems.append(Problem(f"{field}.selector", "needs exactMatch: HyperNodes are members by their name"))
            case (kind, _):
                problems.append(Problem(f"{field}.type", f"{kind!r} is neither Node nor HyperNode"))
    return HyperNode(
        about=ObjectRef("topology.volcano.sh/v1alpha1", "HyperNode", "", meta.name or "", meta.uid or ""),
        tier=tier,
        tier_name=spec.tier_name or "",
        nodes=frozenset(nodes),
        patterns=tuple(patterns),
        selectors=tuple(selectors),
        children=tuple(children),
        problems=tuple(problems),
    )


def _requirements(selector: wire.LabelSelector, where: str) -> tuple[Requirement, ...] | Problem:
    """Return what a selector asks for, or why Volcano would not use it either."""
    read = read_label_selector(selector, where)
    if isinstance(read, Problem):
        return read
    return read.requirements or Problem(where, "is empty, which selects no node")
