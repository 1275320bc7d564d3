"""The filters of kube-scheduler that are modelled, over all nodes at once, and why a node was refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from extender.objects.meta import Selector
from extender.objects.node import UNSCHEDULABLE_TAINT, Node
from extender.objects.pod import Pod, Shape
from extender.objects.podspec import Toleration, first_untolerated
from extender.objects.requests import PODS
from muster_lab.simulation.scheduler.events import SchedulerPlugin
from muster_lab.simulation.scheduler.nodes import NodeColumns
from muster_lab.simulation.scheduler.nominator import Nominator


class Code(IntEnum):
    """What became of a node. UNRESOLVABLE means that evicting pods from it would not help."""

    SUCCESS = 0
    UNSCHEDULABLE = 1
    UNRESOLVABLE = 2


#: What each plugin says. Sources: ErrReason... of the plugins' packages.
_REASONS = {
    SchedulerPlugin.NODE_UNSCHEDULABLE: "node(s) were unschedulable",
    SchedulerPlugin.TAINT_TOLERATION: "node(s) had untolerated taint(s)",
    SchedulerPlugin.NODE_AFFINITY: "node(s) didn't match Pod's node affinity/selector",
}
_PLUGINS = tuple(_REASONS)
_RULED_OUT = "node(s) didn't match pod anti-affinity rules"

RuledOut: TypeAlias = Callable[[Pod, str], bool]
"""Pod, node -> whether pod anti-affinity rules the node out. It stands for every filter that looks at more than room,
taints and labels."""


class NodeStatuses:
    """What became of each node in one attempt: a code and, if refused, reasons. The last word on a node counts.

    Attributes:
        rejectors: who refused any node.
    """

    def __init__(self, nodes: int) -> None:
        """Start with nothing said about any of so many nodes."""
        self._codes: NDArray[np.int8] = np.zeros(nodes, dtype=np.int8)
        self._reason: NDArray[np.intp] = np.zeros(nodes, dtype=np.intp)
        self._reasons: dict[tuple[str, ...], int] = {(): 0}
        self.rejectors: set[SchedulerPlugin] = set()

    def copy(self) -> NodeStatuses:
        """Return a copy to write on."""
        copy = NodeStatuses(0)
        copy._codes, copy._reason = self._codes.copy(), self._reason.copy()
        copy._reasons, copy.rejectors = dict(self._reasons), set(self.rejectors)
        return copy

    def refuse(self, rows: NDArray[np.intp], code: Code, reasons: tuple[str, ...], plugin: SchedulerPlugin) -> None:
        """Say that `plugin` refused the nodes in `rows`."""
        if rows.shape[0]:
            self._codes[rows] = code
            self._reason[rows] = self._reasons.setdefault(reasons, len(self._reasons))
            self.rejectors.add(plugin)

    def count(self, code: Code) -> int:
        """Count the nodes with a code."""
        return int(np.count_nonzero(self._codes == code))

    def among(self, rows: NDArray[np.intp], code: Code) -> NDArray[np.intp]:
        """Return those of `rows` whose nodes have a code."""
        chosen: NDArray[np.intp] = rows[self._codes[rows] == code]
        return chosen

    def code(self, row: int) -> Code:
        """Return what became of one node."""
        return Code(int(self._codes[row]))

    def histogram(self) -> Counter[str]:
        """Count the reasons over the refused nodes."""
        counts = np.bincount(self._reason, minlength=len(self._reasons))
        total: Counter[str] = Counter()
        for reasons, index in self._reasons.items():
            for reason in reasons:
                total[reason] += int(counts[index])
        return +total


def fit_error(nodes: int, reasons: Mapping[str, int], after: str = "") -> str:
    """Write why no node was found, as kube-scheduler's FitError does; `after` is what preemption came to."""
    listed = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    return f"0/{nodes} nodes are available:" + (f" {listed}." if listed else "") + (f" {after}" if after else "")


@dataclass(frozen=True, slots=True)
class Screening:
    """What the filters make of the nodes for one pod: the rows that pass, and what became of the others."""

    passed: NDArray[np.intp]
    statuses: NodeStatuses


class Filters:
    """Run the filters for a pod: NodeUnschedulable, TaintToleration, NodeAffinity, NodeResourcesFit, InterPodAffinity.

    Pods that are nominated to a node count as running there for pods of no higher priority. The members of a gang get
    the same answer one after the other, so answers are kept as long as nothing changes.
    """

    #: Distinct constraints remembered.
    _MOST_CONSTRAINTS = 512

    def __init__(self, nominator: Nominator, ruled_out: RuledOut | None = None) -> None:
        """Leave room for those whom `nominator` knows; `ruled_out` is what InterPodAffinity says, if anything."""
        self._nominator = nominator
        self._ruled_out = ruled_out
        self._admission: dict[tuple[Selector, tuple[Toleration, ...]], tuple[int, NDArray[np.int8]]] = {}
        self._known: dict[tuple[Shape, int], Screening] = {}
        self._known_at = (-1, -1)

    def screen(self, pod: Pod, columns: NodeColumns) -> Screening:
        """Run the filters on all nodes. The statuses are the caller's to write on."""
        now = (columns.revision, self._nominator.revision)
        if now != self._known_at:
            self._known.clear()
            self._known_at = now
        # Its own nomination does not stand in its way; and a rule may tell pods of one shape apart.
        if self._ruled_out is not None or self._nominator.knows(pod.uid):
            return self._run(pod, columns, np.arange(len(columns.names), dtype=np.intp))
        key = (pod.shape, pod.priority)
        screening = self._known.get(key)
        if screening is None:
            screening = self._run(pod, columns, np.arange(len(columns.names), dtype=np.intp))
            self._known[key] = screening
        return Screening(screening.passed, screening.statuses.copy())

    def passes(self, pod: Pod, columns: NodeColumns, row: int) -> bool:
        """Run the filters on one node; tell whether it passes."""
        return bool(self._run(pod, columns, np.array([row], dtype=np.intp)).passed.shape[0])

    def _run(self, pod: Pod, columns: NodeColumns, rows: NDArray[np.intp]) -> Screening:
        statuses = NodeStatuses(len(columns.names))
        closed = self._closed(pod.shape, columns)[rows]
        for index, plugin in enumerate(_PLUGINS, start=1):
            statuses.refuse(rows[closed == index], Code.UNRESOLVABLE, (_REASONS[plugin],), plugin)
        rows = rows[closed == 0]
        rows = rows[self._fit(pod, columns, rows, statuses)]
        if self._ruled_out is None:
            return Screening(rows, statuses)
        ruled_out = np.array([self._ruled_out(pod, columns.names[row]) for row in rows.tolist()], dtype=np.bool_)
        statuses.refuse(rows[ruled_out], Code.UNSCHEDULABLE, (_RULED_OUT,), SchedulerPlugin.INTER_POD_AFFINITY)
        return Screening(rows[~ruled_out], statuses)

    def nominated_beside(self, pod: Pod, node: str) -> list[Pod]:
        """Return the pods nominated to a node that `pod` must leave room for."""
        return [other for other in self._nominator.on(node) if other.priority >= pod.priority and other.uid != pod.uid]

    def _fit(self, pod: Pod, columns: NodeColumns, rows: NDArray[np.intp], statuses: NodeStatuses) -> NDArray[np.bool_]:
        """Return (rows,) which nodes have room, and write down what the others lack."""
        promised = self._promised(pod, columns)
        lacks = np.zeros(rows.shape[0], dtype=np.int64)
        never = np.zeros(rows.shape[0], dtype=np.bool_)
        for bit, (resource, amount) in enumerate(pod.shape.requests):
            allocatable = columns.of(columns.allocatable, resource)[rows]
            free = allocatable - columns.of(columns.requested, resource)[rows]
            if resource in promised:
                free -= promised[resource][rows]
            lacks |= (free < amount).astype(np.int64) << bit
            if resource != PODS:
                never |= allocatable < amount
        never &= lacks > 0
        for bits in np.unique(lacks[lacks > 0]).tolist():
            reasons = tuple(
                "Too many pods" if resource == PODS else f"Insufficient {resource}"
                for bit, (resource, _) in enumerate(pod.shape.requests)
                if bits >> bit & 1
            )
            for hopeless, code in ((False, Code.UNSCHEDULABLE), (True, Code.UNRESOLVABLE)):
                lacking = rows[(lacks == bits) & (never == hopeless)]
                statuses.refuse(lacking, code, reasons, SchedulerPlugin.NODE_RESOURCES_FIT)
        roomy: NDArray[np.bool_] = lacks == 0
        return roomy

    def _promised(self, pod: Pod, columns: NodeColumns) -> dict[str, NDArray[np.int64]]:
        """Return (nodes,) per resource what pods nominated there, and of no lower priority, will take."""
        promised: dict[str, NDArray[np.int64]] = {}
        for name in self._nominator.nodes():
            row = columns.row.get(name)
            if row is None:
                continue
            for other in self.nominated_beside(pod, name):
                for resource, amount in other.shape.requests:
                    column = promised.setdefault(resource, np.zeros(len(columns.names), dtype=np.int64))
                    column[row] += amount
        return promised

    def _closed(self, shape: Shape, columns: NodeColumns) -> NDArray[np.int8]:
        """Return (nodes,) the first plugin that refuses each node whatever runs there: its place among them, or 0."""
        key = (shape.selector, shape.tolerations)
        known = self._admission.get(key)
        if known is not None and known[0] == columns.version:
            return known[1]
        closed = np.fromiter((_refuser(node, shape) for node in columns.nodes), dtype=np.int8)
        if len(self._admission) >= self._MOST_CONSTRAINTS:
            self._admission.clear()
        self._admission[key] = (columns.version, closed)
        return closed


def _refuser(node: Node, shape: Shape) -> int:
    if UNSCHEDULABLE_TAINT in node.taints and first_untolerated([UNSCHEDULABLE_TAINT], shape.tolerations):
        return 1 + _PLUGINS.index(SchedulerPlugin.NODE_UNSCHEDULABLE)
    if first_untolerated(node.taints, shape.tolerations) is not None:
        return 1 + _PLUGINS.index(SchedulerPlugin.TAINT_TOLERATION)
    if not shape.selector.matches(node.name, node.labels):
        return 1 + _PLUGINS.index(SchedulerPlugin.NODE_AFFINITY)
    return 0
