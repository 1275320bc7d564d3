"""From nodes and pods to a picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from extender.domain.clique import CLIQUE_LABEL, clique_of
from extender.domain.levels import Levels
from extender.domain.node import Node
from extender.domain.pod import Pod
from extender.domain.requests import count_gpus
from extender.drawing.picture import Holding, Picture, PictureNode, cells


@dataclass(frozen=True, slots=True)
class Survey:
    """What there is of a cluster at one moment: values that do not change, so that a picture can be drawn later.

    `pods` are all there are, `promised` those without a node that one is kept for, with its name. `held` are the GPUs
    of some of them by UID, where that is known better than from the pods themselves; `zones` the NUMA zone of each GPU
    by node, where known.
    """

    levels: Levels
    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...] = ()
    promised: tuple[tuple[Pod, str], ...] = ()
    held: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    zones: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def draw(survey: Survey, gang: str, title: str, lines: tuple[str, ...]) -> Picture:
    """Return the picture of a cluster's GPU nodes with the gang called `gang` (`namespace/name`) on them."""
    holdings: dict[str, list[Holding]] = {}
    places = ((pod, pod.node_name) for pod in survey.pods if pod.node_name)
    for pod, node in (*places, *survey.promised):
        gpus = count_gpus(pod.shape.requests)
        if gpus and not pod.done:
            name = pod.key if pod.group is None else str(pod.group)
            holdings.setdefault(node, []).append(Holding(name, gpus, survey.held.get(pod.uid) or written_gpus(pod)))
    levels = survey.levels
    depth = range(len(levels.levels))
    nodes = (
        PictureNode(
            node.name,
            tuple(_domain(levels, index, node) for index in depth),
            cells(gpus, holdings.get(node.name, ())),
            survey.zones.get(node.name, ()),
        )
        for node in survey.nodes
        if (gpus := count_gpus(node.allocatable.items()))
    )
    return Picture(title, lines, tuple(level.name for level in levels.levels), tuple(nodes), gang)


def _domain(levels: Levels, index: int, node: Node) -> str:
    """Return the domain of a node; a clique's label may name none."""
    is_clique = levels.levels[index].label == CLIQUE_LABEL
    return clique_of(node.labels) if is_clique else levels.domain(index, node)


def written_gpus(pod: Pod) -> tuple[int, ...]:
    """Return the GPUs that the pod is annotated with: those it was seen to hold, else those predicted."""
    known = pod.observed if pod.observed is not None and pod.observed.gpus else pod.predicted
    return () if known is None else known.gpus
