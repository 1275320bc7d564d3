"""The cluster as nested domains, in as much detail as a picture can bear."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from extender.domain.names import natural_key
from extender.drawing.picture import Picture, PictureNode

#: How many rows and boxes a picture may have before it shows less detail: a screen or two.
_MOST_ITEMS = 160


@dataclass(frozen=True, slots=True)
class Sum:
    """Nodes that are not drawn one by one: what they are called, and their GPUs (in all, in use, of the gang)."""

    label: str
    nodes: int
    gpus: int
    used: int
    own: int


@dataclass(frozen=True, slots=True)
class Domain:
    """A domain with what is drawn in it; the root stands for the cluster and has no name."""

    level: str
    name: str
    domains: tuple[Domain, ...] = ()
    nodes: tuple[PictureNode, ...] = ()
    sums: tuple[Sum, ...] = ()

    @property
    def items(self) -> int:
        """Count the boxes and rows that it takes to draw."""
        return 1 + len(self.nodes) + len(self.sums) + sum(domain.items for domain in self.domains)


class _Detail(IntEnum):
    """How much is drawn by itself; each leaves out what the one before it has."""

    EVERYTHING = 0
    NODES_OF_THE_GANG = 1
    DOMAINS_OF_THE_GANG = 2
    SUMS = 3


def tree(picture: Picture) -> Domain:
    """Return the cluster as a tree: everything if that is not too much, else what has to do with the gang, and sums."""
    depth = len(picture.levels)
    root = _root(picture, depth, _Detail.EVERYTHING)
    for detail in list(_Detail)[1:]:
        if root.items <= _MOST_ITEMS:
            return root
        root = _root(picture, depth, detail)
    while root.items > _MOST_ITEMS and depth:
        depth -= 1
        root = _root(picture, depth, _Detail.SUMS)
    return root


def is_summed(domain: Domain) -> bool:
    """Tell whether some nodes are not drawn one by one."""
    return bool(domain.sums) or any(map(is_summed, domain.domains))


def walk(domain: Domain) -> Iterator[Domain]:
    """Yield a domain and all domains within."""
    yield domain
    for inner in domain.domains:
        yield from walk(inner)


def _root(picture: Picture, depth: int, detail: _Detail) -> Domain:
    return _domain(("", ""), picture.nodes, 0, picture.levels[:depth], _Builder(picture.gang, detail))


@dataclass(frozen=True, slots=True)
class _Builder:
    """What to draw of a domain's nodes."""

    gang: str
    detail: _Detail

    def leaves_out(self, nodes: Sequence[PictureNode]) -> bool:
        """Tell whether a domain of these nodes is not drawn by itself."""
        return self.detail >= _Detail.DOMAINS_OF_THE_GANG and not any(node.held_by(self.gang) for node in nodes)

    def leaf(self, domain: Domain, nodes: Sequence[PictureNode]) -> Domain:
        """Return an innermost domain with its nodes."""
        ordered = sorted(nodes, key=lambda node: natural_key(node.name))
        own = [node for node in ordered if node.held_by(self.gang)]
        if self.detail is _Detail.EVERYTHING:
            return replace(domain, nodes=tuple(ordered))
        if self.detail < _Detail.SUMS:
            others = [node for node in ordered if not node.held_by(self.gang)]
            return replace(domain, nodes=tuple(own), sums=self.sums("node", len(others), others))
        return replace(domain, sums=self.sums("node", len(ordered), ordered))

    def sums(self, what: str, count: int, nodes: Sequence[PictureNode]) -> tuple[Sum, ...]:
        """Return the sum over nodes, none if there are none; `count` of `what` are summed."""
        if not nodes:
            return ()
        gpus, used = sum(len(node.cells) for node in nodes), sum(node.used for node in nodes)
        own = sum(node.held_by(self.gang) for node in nodes)
        return (Sum(f"{count}x {what}", len(nodes), gpus, used, own),)


def _domain(
    name: tuple[str, str], nodes: Sequence[PictureNode], index: int, levels: Sequence[str], builder: _Builder
) -> Domain:
    """Return the domain called `name` (level, name) with the levels from `index` on inside."""
    domain = Domain(*name)
    if index == len(levels):
        return builder.leaf(domain, nodes)
    groups: dict[str, list[PictureNode]] = {}
    for node in nodes:
        groups.setdefault(node.domains[index], []).append(node)
    if list(groups) == [""]:  # no node of it is in any domain of this level
        return _domain(name, nodes, index + 1, levels, builder)
    inner: list[Domain] = []
    empty: list[PictureNode] = []
    left_out = 0
    for key in sorted(groups, key=natural_key):
        if builder.detail >= _Detail.DOMAINS_OF_THE_GANG and not any(
            node.held_by(builder.gang) for node in groups[key]
        ):
            empty += groups[key]
            left_out += 1
        else:
            inner.append(_domain((levels[index], key), groups[key], index + 1, levels, builder))
    return replace(domain, domains=tuple(inner), sums=builder.sums(levels[index], left_out, empty))
