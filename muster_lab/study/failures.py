"""Nodes that fail in a study: how often, for how long, and what the control plane says of them meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Final, NamedTuple

from extender.objects.node import READY, UNREACHABLE_TAINT, Ailment, Node

#: Until the node lifecycle controller says that a node does not answer (seconds).
#: Source: k8s.io/kubernetes cmd/kube-controller-manager, --node-monitor-grace-period.
SILENCE_SECONDS: Final = 50.0

_DAY: Final = 86_400.0


class Outage(NamedTuple):
    """The node of that number fails `at`, and is `back` (seconds since the trace began)."""

    node: int
    at: float
    back: float


@dataclass(frozen=True, slots=True)
class FailureModel:
    """How often nodes fail: `rate` times in 1,000 days of a node. They are back after `repair` seconds.

    Failures are independent of each other, and equally likely at any time: equal seeds give equal ones, whatever policy
    is played.
    Published rates: 6.5 and 2.3 in two clusters of Meta (Kokolis et al., Revisiting Reliability in Large-Scale Machine
    Learning Research Clusters, HPCA 2025); 3.8 for Llama 3, which was interrupted 419 times in 54 days on 2,048 nodes
    (Dubey et al., The Llama 3 Herd of Models, 2024).
    """

    rate: float = 0.0
    repair: float = 12 * 3600.0
    seed: int = 0

    def outages(self, nodes: int, until: float) -> Iterator[Outage]:
        """Iterate over what happens until then, the first first; a node that is away does not fail."""
        random, at, away = Random(self.seed), 0.0, dict[int, float]()
        while self.rate > 0:
            at += random.expovariate(self.rate * nodes / 1_000 / _DAY)
            if at >= until:
                return
            node = random.randrange(nodes)
            if away.get(node, 0.0) <= at:
                away[node] = at + self.repair
                yield Outage(node, at, away[node])


NO_FAILURES: Final = FailureModel()


def silent(node: Node, since: float) -> Node:
    """Return a node as the API server has it that does not answer, `since` epoch seconds."""
    return replace(node, taints=(*node.taints, UNREACHABLE_TAINT), ailments=(*node.ailments, Ailment(READY, since)))
