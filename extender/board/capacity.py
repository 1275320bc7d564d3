"""How much room there is, and in what pieces: free GPUs of each domain, by the size of the island that they make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from extender.board.document import Json
from extender.board.noderows import NodeRow
from extender.domain.levels import CLUSTER_LEVEL, NODE_LEVEL

#: Of pods with so many GPUs each it is said how many there is room for.
_POD_SIZES = (1, 2, 4, 8)


def capacity_json(levels: Sequence[str], nodes: Iterable[NodeRow]) -> Json:
    """Return the free islands of each level and product, and how many pods of usual sizes fit, by GPUs alone.

    Nodes that nobody may be placed on have no room. Complexity: O(nodes x levels).
    """
    rows = [node for node in nodes if node.cells]
    found: list[Json] = []
    for product in sorted({node.product for node in rows}):
        own = [node for node in rows if node.product == product]
        found += [_level(NODE_LEVEL, product, {node.name: _room(node) for node in own})]
        for index in reversed(range(len(levels))):
            domains: Counter[str] = Counter()
            for node in own:
                if len(node.domains) > index and node.domains[index]:
                    domains[node.domains[index]] += _room(node)
            found += [_level(levels[index], product, domains)] if domains else []
        found += [_level(CLUSTER_LEVEL, product, {"": sum(map(_room, own))})]
    sizes = [{"gpusPerPod": size, "pods": sum(_room(node) // size for node in rows)} for size in _POD_SIZES]
    return {"levels": found, "gangs": sizes}


def _room(node: NodeRow) -> int:
    return node.free if node.schedulable else 0


def _level(level: str, product: str, rooms: dict[str, int] | Counter[str]) -> Json:
    sizes = Counter(rooms.values())
    largest = max(rooms, key=lambda domain: rooms[domain])
    return {
        "level": level,
        "product": product or None,
        "domains": len(rooms),
        "islands": [{"freeGpus": size, "domains": sizes[size]} for size in sorted(sizes, reverse=True)],
        "largest": {"domain": largest, "freeGpus": rooms[largest]},
    }
