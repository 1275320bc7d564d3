"""Volcano's HyperNodes: domains of the network as objects that list their members."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

from extender.objects.meta import (
    Decoder,
    Int64,
    LabelSelectorObject,
    ObjectMeta,
    ObjectRef,
    Requirement,
    read_label_selector,
)
from extender.objects.reason import Problem
from extender.objects.text import parse_integer


class ExactMatch(Struct, gc=False, frozen=True):
    """A member of a HyperNode by its name."""

    name: str | None = None


class RegexMatch(Struct, gc=False, frozen=True):
    """Members of a HyperNode by a pattern, in Go's syntax, that is found anywhere in a node's name."""

    pattern: str | None = None


class MemberSelector(Struct, gc=False, frozen=True, rename="camel"):
    """Which members: exactly one of the three."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelectorObject | None = None


class HyperNodeMember(Struct, gc=False, frozen=True):
    """Members of a HyperNode; `type` is Node or HyperNode."""

    type: str | None = None
    selector: MemberSelector | None = None


class HyperNodeSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Spec of a HyperNode; its first versions wrote `tier` as a string."""

    tier: Int64 | str | None = None
    tier_name: str | None = None
    members: list[HyperNodeMember] | None = None


class HyperNodeObject(Struct, gc=False, frozen=True):
    """A `topology.volcano.sh/v1alpha1` HyperNode: a performance domain of the network."""

    metadata: ObjectMeta | None = None
    spec: HyperNodeSpec | None = None


decode_hyper_node = Decoder(HyperNodeObject)


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


def read_hyper_node(item: HyperNodeObject) -> HyperNode:
    """Read a HyperNode; members that cannot be read are left out, with a problem."""
    meta = item.metadata or ObjectMeta()
    spec = item.spec or HyperNodeSpec()
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
        selector = member.selector or MemberSelector()
        match (member.type, selector):
            case (
                ("Node" | "HyperNode") as kind,
                MemberSelector(exact_match=ExactMatch(name=str(name)), regex_match=None, label_match=None),
            ) if name:
                nodes.add(name) if kind == "Node" else children.append(name)
            case (
                "Node",
                MemberSelector(exact_match=None, regex_match=RegexMatch(pattern=str(pattern)), label_match=None),
            ) if pattern:
                patterns.append(pattern)
            case (
                "Node",
                MemberSelector(exact_match=None, regex_match=None, label_match=LabelSelectorObject() as labels),
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


def _requirements(selector: LabelSelectorObject, where: str) -> tuple[Requirement, ...] | Problem:
    """Return what a selector asks for, or why Volcano would not use it either."""
    read = read_label_selector(selector, where)
    if isinstance(read, Problem):
        return read
    return read.requirements or Problem(where, "is empty, which selects no node")
