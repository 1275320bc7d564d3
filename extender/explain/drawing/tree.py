"""A picture of the cluster: nodes and pods as nested domains, in as much detail as a picture can bear."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from extender.objects.levels import Levels
from extender.objects.node import CLIQUE_LABEL, Node, clique_of
from extender.objects.pod import Pod
from extender.objects.requests import count_gpus
from extender.objects.text import natural_key


@dataclass(frozen=True, slots=True)
class DrawnHolding:
    """GPUs of one node that one pod holds: how many, and which of them where that is known."""

    gang: str
    gpus: int
    which: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PictureNode:
    """One node.

    `domains` has one name per level, outermost first, "" where the node has none; `cells` one entry per GPU, the gang
    that holds it or "" for a free one; `zones` the NUMA zone of each GPU, or is empty where that is not known.
    """

    name: str
    domains: tuple[str, ...]
    cells: tuple[str, ...]
    zones: tuple[int, ...] = ()

    def held_by(self, gang: str) -> int:
        """Count the GPUs that a gang holds."""
        return self.cells.count(gang)

    @property
    def used(self) -> int:
        """Count the GPUs that are held."""
        return len(self.cells) - self.cells.count("")


@dataclass(frozen=True, slots=True)
class TreePicture:
    """A cluster with one gang on it. `levels` are the names of the levels, outermost first; `lines` explain."""

    title: str
    lines: tuple[str, ...]
    levels: tuple[str, ...]
    nodes: tuple[PictureNode, ...]
    gang: str


def cells(gpus: int, holdings: Iterable[DrawnHolding]) -> tuple[str, ...]:
    """Return who holds each of so many GPUs: the known ones first, then the others from the left.

    What does not fit (the node is overcommitted, or two pods claim one GPU) goes to any free one, or is left out.
    """
    row = [""] * gpus
    floating: list[str] = []
    for holding in holdings:
        wanted = dict.fromkeys(holding.which)
        known = [index for index in wanted if 0 <= index < gpus and not row[index]][: holding.gpus]
        for index in known:
            row[index] = holding.gang
        floating += [holding.gang] * (min(holding.gpus, gpus) - len(known))
    free = (index for index, holder in enumerate(row) if not holder)
    for gang, index in zip(floating, list(free), strict=False):
        row[index] = gang
    return tuple(row)


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


def tree(picture: TreePicture) -> Domain:
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


def _root(picture: TreePicture, depth: int, detail: _Detail) -> Domain:
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
        if builder.leaves_out(groups[key]):
            empty += groups[key]
            left_out += 1
        else:
            inner.append(_domain((levels[index], key), groups[key], index + 1, levels, builder))
    return replace(domain, domains=tuple(inner), sums=builder.sums(levels[index], left_out, empty))


@dataclass(frozen=True, slots=True)
class Survey:
    """What there is of a cluster at one moment: values that do not change, so that a picture can be drawn later.

    `pods` are all there are, `promised` those without a node that one is kept for, with its name. `held` are the GPUs
    of some of them by UID, where that is known better than from the pods themselves; `zones` the NUMA zone of each GPU
    by node, where known. `beside` are GPUs by node that claims hold beyond those of pods.
    """

    levels: Levels
    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...] = ()
    promised: tuple[tuple[Pod, str], ...] = ()
    held: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    zones: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    beside: tuple[tuple[str, DrawnHolding], ...] = ()


def draw(survey: Survey, gang: str, title: str, lines: tuple[str, ...]) -> TreePicture:
    """Return the picture of a cluster's GPU nodes with the gang called `gang` (`namespace/name`) on them."""
    holdings: dict[str, list[DrawnHolding]] = {}
    places = ((pod, pod.node_name) for pod in survey.pods if pod.node_name)
    for pod, node in (*places, *survey.promised):
        gpus = pod.shape.gpus
        if gpus and not pod.done:
            holdings.setdefault(node, []).append(
                DrawnHolding(str(pod.group), gpus, survey.held.get(pod.uid) or written_gpus(pod))
            )
    for node, holding in survey.beside:
        holdings.setdefault(node, []).append(holding)
    levels = survey.levels
    depth = range(len(levels.levels))
    nodes = (
        PictureNode(
            node.name,
            tuple(_drawn_domain(levels, index, node) for index in depth),
            cells(gpus, holdings.get(node.name, ())),
            survey.zones.get(node.name, ()),
        )
        for node in survey.nodes
        if (gpus := count_gpus(node.allocatable.items()))
    )
    return TreePicture(title, lines, tuple(level.name for level in levels.levels), tuple(nodes), gang)


def _drawn_domain(levels: Levels, index: int, node: Node) -> str:
    """Return the domain of a node; a clique's label may name none."""
    is_clique = levels.levels[index].label == CLIQUE_LABEL
    return clique_of(node.labels) if is_clique else levels.domain(index, node)


def written_gpus(pod: Pod) -> tuple[int, ...]:
    """Return the GPUs that the pod is annotated with: those it was seen to hold, else those predicted."""
    known = pod.observed if pod.observed is not None and pod.observed.gpus else pod.predicted
    return () if known is None else known.gpus
