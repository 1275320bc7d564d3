"""What of a gang has to be in one domain of its own: roles that share one, and every slice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from extender.cluster.gangs import member_order
from extender.cluster.tree import Tree
from extender.domain.pod import Pod, Shape
from extender.domain.topology import TopologyRequest


@dataclass(frozen=True, slots=True)
class Part:
    """Pods that share a domain of `level`, -1 for any: how many of which shape."""

    level: int
    pods: Mapping[Shape, int]


def parts_of(pods: Sequence[Pod], topology: TopologyRequest, tree: Tree) -> tuple[Part, ...]:
    """Return the parts of a gang, what has to share a domain first; of slices within slices only the outer ones."""
    rest = sorted(pods, key=member_order)
    parts: list[Part] = []
    for group in topology.role_groups:
        level = tree.levels.find(group.level)
        if group.required and level is not None:
            parts.append(_part(level, [pod for pod in rest if pod.role in group.roles]))
            rest = [pod for pod in rest if pod.role not in group.roles]
    for piece in topology.slices:
        level = tree.levels.find(piece.level)
        if level is None or piece.size < 2:  # noqa: PLR2004 - one pod alone is always together
            continue
        counted = [pod for pod in rest if not piece.roles or pod.role in piece.roles]
        parts += _slices(level, piece.size, counted)
        chosen = {pod.uid for pod in counted}
        rest = [pod for pod in rest if pod.uid not in chosen]
    parts.append(_part(-1, rest))
    return tuple(part for part in parts if part.pods)


def _slices(level: int, size: int, pods: Sequence[Pod]) -> Iterator[Part]:
    for first in range(0, len(pods), size):
        yield _part(level, pods[first : first + size])


def _part(level: int, pods: Sequence[Pod]) -> Part:
    counts: dict[Shape, int] = {}
    for pod in pods:
        counts[pod.shape] = counts.get(pod.shape, 0) + 1
    return Part(level, counts)
