"""Which pods have to share which domain, as a tree: bundles in bundles, and pods as the leaves.

Pods of one shape are alike, and so are bundles with the same content: only their numbers matter until they are handed
out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from extender.cluster.tree import Tree
from extender.objects.pod import Pod, Shape
from extender.objects.topology import RoleGroup, TopologyRequest, nested
from extender.placement.candidates import counted_off, firm_groups, group_by_shape


@dataclass(frozen=True)
class Bundle:
    """A kind of bundle: what shares a domain of `level`, and how much of which kinds that is.

    `beside` are levels further out of which its nodes must have a domain, too.
    """

    level: int
    content: tuple[tuple[Kind, int], ...]
    beside: frozenset[int] = frozenset()
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        """Hash once: content is deep."""
        object.__setattr__(self, "_hash", hash((self.level, self.content, self.beside)))

    def __hash__(self) -> int:
        """Return the precomputed hash."""
        return self._hash


Kind: TypeAlias = Shape | Bundle
"""What is counted: pods of a shape, or bundles of a kind."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """A bundle with its own pods, by kind; or the pods that are in none."""

    pods: Mapping[Shape, tuple[Pod, ...]]
    parcels: Mapping[Bundle, tuple[Parcel, ...]]

    @property
    def content(self) -> tuple[tuple[Kind, int], ...]:
        """Return how much of each kind is in it; equal for parcels with equal content."""
        counts: list[tuple[Kind, int]] = [(shape, len(own)) for shape, own in self.pods.items()]
        counts += [(kind, len(own)) for kind, own in self.parcels.items()]
        return tuple(sorted(counts, key=lambda each: _sort_key(each[0])))


# Example. A leader, and four workers in slices of two by node; all of them in one rack. Levels: 0 rack, 1 node.
#
#   gather(..., within=0)   Parcel(pods {leader: 1}, parcels {Bundle(1, worker x 2): 2})
#
# Where the slices were by rack, the rack that holds all of them would hold each: the workers would not be in bundles.
def gather(pods: Iterable[Pod], topology: TopologyRequest, tree: Tree, within: int) -> tuple[Parcel, frozenset[int]]:
    """Return the pods by what of them has to share domains, and levels of which their nodes must have a domain.

    `pods` are in member order. `within` is the level of the domain that is to hold all of them, -1 for the cluster.
    """
    rest = list(pods)
    if not (topology.slices or topology.role_groups):
        return Parcel({shape: tuple(own) for shape, own in group_by_shape(rest).items()}, {}), frozenset()
    beside: set[int] = set()
    firm = firm_groups(topology.role_groups, tree)
    parts = _gathered(rest, firm, topology, tree)
    return _packed(parts, within, beside, tree.depth), frozenset(beside)


@dataclass(frozen=True, slots=True)
class _Part:
    """Pods that share a domain of `level`, or a single pod (level -1), before it is known which levels decide."""

    level: int
    parts: Sequence[_Part] = ()
    pod: Pod | None = None


def _gathered(pods: Sequence[Pod], groups: Sequence[RoleGroup], topology: TopologyRequest, tree: Tree) -> list[_Part]:
    """Return the pods of each group as a part, groups inside it as parts of that one, and slices of the others."""
    rest, parts = pods, list[_Part]()
    for group, inside in nested(groups):
        level = tree.levels.find(group.level)
        chosen = [pod for pod in rest if pod.role in group.roles]
        rest = [pod for pod in rest if pod.role not in group.roles]
        if chosen and level is not None:
            parts.append(_Part(level, _gathered(chosen, inside, topology, tree)))
    return parts + _sliced(rest, topology, tree)


def _sliced(pods: Sequence[Pod], topology: TopologyRequest, tree: Tree) -> list[_Part]:
    """Return the slices that pods, in member order, are counted off in, and the pods that are in none."""
    return [part for slices, members in counted_off(pods, topology, tree) for part in _cut(members, slices)]


def _cut(pods: Sequence[Pod], slices: Sequence[tuple[int, int]]) -> list[_Part]:
    if not slices:
        return [_Part(-1, pod=pod) for pod in pods]
    (level, size), *inner = slices
    deeper = [each for each in inner if each[0] > level]
    return [_Part(level, _cut(pods[first : first + size], deeper)) for first in range(0, len(pods), size)]


def _packed(parts: Iterable[_Part], within: int, beside: set[int], node: int) -> Parcel:
    """Return parts as a parcel; what a domain of the level `within` holds anyway is no bundle of its own."""
    pods: dict[Shape, list[Pod]] = {}
    parcels: dict[Bundle, list[Parcel]] = {}
    pending = list(parts)[::-1]
    while pending:
        part = pending.pop()
        if part.level == node and len(part.parts) == 1 and part.parts[0].pod is not None:
            part = part.parts[0]  # one pod is always on one node
        if part.pod is not None:
            pods.setdefault(part.pod.shape, []).append(part.pod)
        elif part.level <= within:
            beside.add(part.level)
            pending += reversed(part.parts)
        else:
            outer: set[int] = set()
            parcel = _packed(part.parts, part.level, outer, node)
            kind = Bundle(part.level, parcel.content, frozenset(outer - {part.level}))
            parcels.setdefault(kind, []).append(parcel)
    bundles = {kind: tuple(own) for kind, own in parcels.items()}
    return Parcel({shape: tuple(own) for shape, own in pods.items()}, bundles)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What is counted in the domains of one level: bundles of levels further in are still closed there.

    Attributes:
        kinds: what is counted, the most numerous last.
        caps: how many of each there are.
        opened: for each kind, its content in terms of the kinds of the next vocabulary, as pairs (index, count).
    """

    kinds: tuple[Kind, ...]
    caps: tuple[int, ...]
    opened: tuple[tuple[tuple[int, int], ...], ...] = ()


def vocabularies(content: Parcel, levels: Sequence[int]) -> list[Vocabulary]:
    """Return what is counted: in the domain around all, then after opening the bundles of each of `levels` in turn.

    The last one is of pods alone; `levels` are those of all bundles, outermost first.
    """
    steps = [dict(content.content)]
    for level in levels:
        opened: Counter[Kind] = Counter()
        for kind, count in steps[-1].items():
            for inner, each in _content_of(kind, level):
                opened[inner] += each * count
        steps.append(dict(opened))
    found: list[Vocabulary] = []
    for index in range(len(steps) - 1, -1, -1):
        kinds = tuple(sorted(steps[index], key=lambda kind: (steps[index][kind], _sort_key(kind))))
        opened_to: tuple[tuple[tuple[int, int], ...], ...] = ()
        if found:
            places = {kind: place for place, kind in enumerate(found[0].kinds)}
            opened_to = tuple(
                tuple((places[inner], each) for inner, each in _content_of(kind, levels[index])) for kind in kinds
            )
        found.insert(0, Vocabulary(kinds, tuple(steps[index][kind] for kind in kinds), opened_to))
    return found


def _content_of(kind: Kind, level: int) -> tuple[tuple[Kind, int], ...]:
    """Return what there is of a kind once bundles of a level are opened."""
    return kind.content if isinstance(kind, Bundle) and kind.level == level else ((kind, 1),)


def _sort_key(kind: Kind) -> tuple[object, ...]:
    """Return what orders kinds that are equally numerous: the same in every process."""
    if isinstance(kind, Bundle):
        return (1, kind.level, tuple(sorted((_sort_key(inner), count) for inner, count in kind.content)))
    return (0, kind.requests, repr(kind.selector), repr(kind.tolerations), repr(kind.containers), kind.guaranteed)
