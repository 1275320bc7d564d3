"""What is judged: the API server's history, and what happened around it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Json: TypeAlias = dict[str, Any]
"""A Kubernetes object as plain JSON."""

ChangeType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]


@dataclass(frozen=True, slots=True)
class Change:
    """One watch event of a pod, a node, a PodGroup (coscheduling's or native) or an Event (`events.k8s.io/v1`).

    `at` is when it happened, in seconds of any one clock; `version` orders changes of all kinds, as the API server's
    resource version does. `object` has `apiVersion` and `kind`, and is never changed.
    """

    at: float
    version: int
    type: ChangeType
    object: Json

    def __str__(self) -> str:
        """Write the change as one line, with what the judge reads in it."""
        thing = self.object
        metadata, spec, status = thing["metadata"], thing.get("spec") or {}, thing.get("status") or {}
        words = [f"{self.at:10.3f} #{self.version}", self.type, thing["kind"], metadata["name"]]
        words.append(f"uid={str(metadata.get('uid', '?'))[:8]}")
        shown = {
            "node": spec.get("nodeName"),
            "nominated": status.get("nominatedNodeName"),
            "phase": status.get("phase") if thing["kind"] == "Pod" else None,
            "deleting": metadata.get("deletionTimestamp") and "yes",
            "minMember": spec.get("minMember"),
            "unschedulable": spec.get("unschedulable"),
            "taints": spec.get("taints") and [taint["key"] for taint in spec["taints"]],
            "allocatable": status.get("allocatable") if thing["kind"] == "Node" else None,
        }
        words += [f"{name}={value}" for name, value in shown.items() if value]
        refusals = [c.get("message", "") for c in status.get("conditions") or () if _refuses(c)]
        words += [f"({refusal})" for refusal in refusals]
        return " ".join(words)


def _refuses(condition: Json) -> bool:
    """Tell whether a condition says why a pod is not scheduled."""
    return bool(condition["type"] == "PodScheduled" and condition["status"] == "False")


@dataclass(frozen=True, slots=True)
class Arrival:
    """A call of the bind verb for a pod and a node, as kube-scheduler made it of Muster.

    `until` is when it was answered (seconds; infinity while it is held): a member whose call was answered without a
    Binding has to arrive again.
    """

    at: float
    uid: str
    node: str
    until: float = math.inf


@dataclass(frozen=True, slots=True)
class History:
    """Everything that was seen from before the first object until `end` (seconds).

    `changes` need not be in order: their versions order them. `arrivals` is None if bind calls were not recorded: then
    P1 and P5 are judged by what the objects show. `restarts` are the deaths of Muster. From `quiet` on there are no
    faults and there is room for every gang in turn; None if the history ends before that, so that P3, P4 and P6 are not
    judged by how things end. A story without faults has been quiet from 0 on. `hindrances` are times (from, until) at
    which evictions were refused or kube-scheduler had reasons of its own against nodes, which no object tells.
    """

    changes: Sequence[Change]
    end: float
    arrivals: Sequence[Arrival] | None = None
    restarts: Sequence[float] = ()
    quiet: float | None = None
    hindrances: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How much the judge overlooks, because nobody could have known or acted earlier (all in seconds).

    `news` is how old Muster's knowledge of the cluster may be, `write` how long a decided write may be on its way
    (Bindings are retried for 10 s), `eviction` how long an eviction may be: what was right at any time within both is
    right. `settle` is how long things may take to come right in quiet. `reservation` is the time of a reservation where
    the PodGroup names none. `schedulers` are the `schedulerName`s whose pods go through Muster.
    """

    news: float = 1.0
    write: float = 10.0
    eviction: float = 1.0
    settle: float = 30.0
    returning: float = 15.0
    reservation: float = 60.0
    schedulers: frozenset[str] = frozenset({"muster"})

    @property
    def window(self) -> float:
        """Return how long before a write its decision may have been taken on what was known then."""
        return self.news + self.write

    @property
    def eviction_window(self) -> float:
        """Return the same for an eviction."""
        return self.news + self.eviction


@dataclass(frozen=True, slots=True, order=True)
class Violation:
    """A promise that was broken, when, and the few changes that show it."""

    at: float
    promise: str
    text: str
    evidence: tuple[Change, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        """Write the violation and its evidence, one line each."""
        lines = [f"{self.promise} at {self.at:.3f}: {self.text}"]
        return "\n    ".join([*lines, *(str(change) for change in sorted(self.evidence, key=lambda c: c.version))])
