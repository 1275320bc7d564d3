"""What keeps pods of some constraints off each node, whatever is free there: its state, its taints, its labels."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from extender.cluster.table import NodeTable
from extender.domain.node import Node
from extender.domain.selectors import Requirement, Selector, Term
from extender.domain.taints import Taint, Toleration, first_untolerated

#: Codes of `Obstacles.codes`.
ADMITTED, UNSCHEDULABLE, TAINTED, MISMATCHED = range(4)

#: Taints that say how a node is and not for whom it is there. Source: k8s.io/api/core/v1/well_known_taints.go and
#: k8s.io/cloud-provider/api/well_known_taints.go.
_STATE_TAINTS: Final = {
    "node.kubernetes.io/unschedulable": "cordoned",
    "node.kubernetes.io/not-ready": "not ready",
    "node.kubernetes.io/unreachable": "unreachable",
    "node.kubernetes.io/memory-pressure": "short of memory",
    "node.kubernetes.io/disk-pressure": "short of disk space",
    "node.kubernetes.io/pid-pressure": "short of process IDs",
    "node.kubernetes.io/network-unavailable": "without network",
    "node.cloudprovider.kubernetes.io/uninitialized": "not initialized yet",
}


@dataclass(slots=True)
class Obstacles:
    """What keeps pods off nodes.

    Attributes:
        codes: (rows,) int8: ADMITTED, or what keeps pods off; of several things the first, in the order of the codes.
        details: by code, in words, how many nodes something keeps them off.
    """

    codes: NDArray[np.int8]
    details: dict[int, Counter[str]] = field(
        default_factory=lambda: {code: Counter() for code in (UNSCHEDULABLE, TAINTED, MISMATCHED)}
    )

    def detail(self, code: int) -> str:
        """Return what most of the nodes have that a code stands for, and how many: `cordoned: 12 nodes`."""
        return most_common(self.details[code])


def most_common(found: Counter[str]) -> str:
    """Return the most frequent of some causes with its number of nodes, "" if there are none."""
    if not found:
        return ""
    text, count = min(found.items(), key=lambda each: (-each[1], each[0]))
    return f"{text}: {nodes_in_words(count)}"


def nodes_in_words(count: int) -> str:
    """Return a number of nodes in words: `1 node`, `12 nodes`."""
    return f"{count:,} node{'s' if count != 1 else ''}"


def find_obstacles(table: NodeTable, selector: Selector, tolerations: tuple[Toleration, ...]) -> Obstacles:
    """Return what keeps pods with these constraints off each node of a table.

    Those that it admits are those that `Eligibility` does.
    """
    found = Obstacles(np.zeros(table.rows, dtype=np.int8))
    equals, terms, details = selector.equals, selector.terms, found.details
    codes = []
    for node in table.nodes():
        code, text = _refusal(node, tolerations) if node.taints or node.deleting else (ADMITTED, "")
        if not code:
            for key, value in equals:
                if node.labels.get(key) != value:
                    code, text = MISMATCHED, f"not {key}={value}"
                    break
            else:
                if terms is not None and not selector.matches(node.name, node.labels):
                    code, text = MISMATCHED, _mismatch(node, terms)
        codes.append(code)
        if code:
            details[code][text] += 1
    found.codes[np.flatnonzero(table.present[: table.rows])] = codes
    return found


def _refusal(node: Node, tolerations: tuple[Toleration, ...]) -> tuple[int, str]:
    """Return what a node has against pods with these tolerations: that it is in no state to take any, or a taint."""
    if doom := node.doomed:
        return UNSCHEDULABLE, doom
    for taint in node.taints:
        if taint.key in _STATE_TAINTS and first_untolerated((taint,), tolerations) is not None:
            return UNSCHEDULABLE, _STATE_TAINTS[taint.key]
    untolerated = first_untolerated(node.taints, tolerations)
    return (ADMITTED, "") if untolerated is None else (TAINTED, f"taint {_in_words(untolerated)}")


def _in_words(taint: Taint) -> str:
    """Return a taint as kubectl writes it: `dedicated=infra:NoSchedule`."""
    return f"{taint.key}{'=' if taint.value else ''}{taint.value}:{taint.effect}"


def _mismatch(node: Node, terms: tuple[Term, ...]) -> str:
    """Return what of a node affinity a node lacks."""
    if len(terms) != 1:
        return "no term of the node affinity matches" if terms else "the node affinity matches no node"
    lacking = next((each for each in terms[0].labels if not each.matches(node.labels)), None)
    return f"not {_condition(lacking)}" if lacking is not None else "not one of the nodes named in the node affinity"


def _condition(requirement: Requirement) -> str:
    """Return a condition on a label: `zone In a, b`."""
    return f"{requirement.key} {requirement.operator} {', '.join(requirement.values)}".rstrip()
