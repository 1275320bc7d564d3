"""The multi-node NVLink domain of a node: which nodes form one island of GPUs."""

from __future__ import annotations

from collections.abc import Mapping

#: Written by GPU feature discovery, and by the compute-domain plugin of NVIDIA's DRA driver, once every GPU of the node
#: has joined the same clique. Source: k8s-device-plugin internal/lm/imex.go.
CLIQUE_LABEL = "nvidia.com/gpu.clique"

#: Some stacks report a fabric without a name on nodes that have none at all (torchcomms#1385): whoever believed it
#: would take unrelated nodes for one island.
_NO_CLUSTER = "00000000-0000-0000-0000-000000000000"


def clique_of(labels: Mapping[str, str]) -> str:
    """Return the clique of a node with `labels`, "" if it has none, or one that cannot be told from others.

    The agents write `<cluster UUID>.<clique ID>`; whoever labels by hand may call it anything else.
    """
    clique = labels.get(CLIQUE_LABEL, "")
    return "" if clique.startswith(_NO_CLUSTER) else clique
