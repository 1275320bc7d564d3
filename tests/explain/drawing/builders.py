"""Clusters to draw."""

from __future__ import annotations

from extender.explain.drawing.tree import DrawnHolding, PictureNode, TreePicture, cells

GANG = "default/train"


def node(
    number: int, *, own: int = 0, others: int = 0, domains: tuple[str, ...] = (), zones: tuple[int, ...] = ()
) -> PictureNode:
    """Return a node of eight GPUs."""
    holders = cells(8, [DrawnHolding("team/other", others), DrawnHolding(GANG, own)])
    return PictureNode(f"gpu-{number}", domains, holders, zones)


def racks(count: int, *, own: dict[int, int], rack: int = 8, block: int = 32) -> TreePicture:
    """Return a cluster of so many nodes in racks and blocks; `own` is how many GPUs the gang has on which of them."""
    nodes = tuple(
        node(
            i,
            own=own.get(i, 0),
            others=3 if i % 3 == 0 and i not in own else 0,
            domains=(f"block-{i // block}", f"r{i // rack}"),
            zones=(0, 0, 0, 0, 1, 1, 1, 1),
        )
        for i in range(count)
    )
    return TreePicture(f"{GANG}: 329 GB/s", ("64 GPUs.",), ("block", "rack"), nodes, GANG)
