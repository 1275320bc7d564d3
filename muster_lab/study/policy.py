"""The policies that a study compares: settings and Queues of Muster, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from extender.objects.queue import (
    Flavor,
    PreemptionPolicy,
    Queue,
    QueueingStrategy,
    Quota,
    Reclaim,
    SparePolicy,
    WithinQueue,
)
from extender.settings import Settings
from muster_lab.study.fleet import GPU, Fleet
from muster_lab.traces.trace import Trace

#: The one Queue of policies that have one for all users, and the root of those that have one for each.
_EVERYBODY, _ROOT, _FLAVOR = "everybody", "cluster", "all-nodes"


@dataclass(frozen=True, slots=True)
class StudyPolicy:
    """What is set, and who stands in which Queue.

    `queue` is that of all gangs; with `shares` each queue of the trace is one, with an equal part of the GPUs as its
    nominal quota, which others may borrow. With neither there is no Queue. One that keeps spares has all GPUs as its
    quota. `priorities` says whether those of the trace count, `told` whether Muster hears of each checkpoint.
    """

    name: str
    says: str
    options: Mapping[str, Any] = field(default_factory=dict)
    queue: Queue | None = None
    shares: bool = False
    priorities: bool = False
    told: bool = False

    def settings(self) -> Settings:
        """Return Muster's settings."""
        return Settings.model_validate(dict(self.options))

    def queues(self, trace: Trace, fleet: Fleet) -> tuple[Queue, ...]:
        """Return the Queues that are defined, parents first."""
        if self.queue is not None:
            flavors = (Flavor(_FLAVOR, {GPU: Quota(fleet.all_gpus)}),) if self.queue.spares else ()
            return (replace(self.queue, flavors=flavors),)
        if not self.shares:
            return ()
        names = sorted(set(queue_names(trace.queues).values()))
        nominal, rest = divmod(fleet.all_gpus, len(names))
        return (
            Queue(_ROOT, uid=_ROOT),
            *(
                Queue(
                    name,
                    uid=name,
                    parent=_ROOT,
                    flavors=(Flavor(_FLAVOR, {GPU: Quota(nominal + (index < rest))}),),
                    preemption=PreemptionPolicy(reclaim_within_cohort=Reclaim.ANY),
                )
                for index, name in enumerate(names)
            ),
        )

    def names(self, trace: Trace) -> Mapping[str, str]:
        """Return which Queue each queue of the trace is under this policy, "" for none."""
        if self.shares:
            return queue_names(trace.queues)
        return dict.fromkeys(trace.queues, "" if self.queue is None else self.queue.name)

    def with_spares(self, nodes: int) -> StudyPolicy:
        """Return the policy with so many nodes kept for repairs, if its Queue keeps any."""
        if self.queue is None or self.queue.spares is None:
            return self
        return replace(self, queue=replace(self.queue, spares=replace(self.queue.spares, nodes=nodes)))


def queue_names(written: Sequence[str]) -> Mapping[str, str]:
    """Return a name for each queue of a trace that Kubernetes allows, different ones for different queues."""
    names: dict[str, str] = {}
    for text in written:
        base = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60] or "unnamed"
        name, number = base, 1
        while name in names.values() or name == _ROOT:
            number += 1
            name = f"{base}-{number}"
        names[text] = name
    return names


def _everybody(within: WithinQueue, strategy: QueueingStrategy = QueueingStrategy.BEST_EFFORT_FIFO) -> Queue:
    return Queue(_EVERYBODY, uid=_EVERYBODY, strategy=strategy, preemption=PreemptionPolicy(within_queue=within))


_SPARING = replace(_everybody(WithinQueue.NEVER), spares=SparePolicy(1))
_NONE, _EASY, _CONSERVATIVE = ({"backfill": value} for value in ("none", "easy", "conservative"))

#: By name, in the order in which they are explained.
POLICIES: Mapping[str, StudyPolicy] = MappingProxyType(
    {
        policy.name: policy
        for policy in (
            StudyPolicy(
                "fifo",
                "strictly in order of arrival: no gang starts before the first that waits",
                _NONE,
                _everybody(WithinQueue.NEVER, QueueingStrategy.STRICT_FIFO),
            ),
            StudyPolicy("earmark", "in order of arrival; others use what is not kept for the first that waits", _NONE),
            StudyPolicy(
                "easy", "as earmark; others use also what is kept if they end before the first can start", _EASY
            ),
            StudyPolicy(
                "bandwidth",
                "as easy, and the fastest place, whatever it breaks up",
                _EASY | {"placement_goal": "bandwidth"},
            ),
            StudyPolicy(
                "capacity",
                "as easy, and the place that breaks up least, however slow it is",
                _EASY | {"placement_goal": "capacity"},
            ),
            StudyPolicy(
                "unrepaired",
                "as easy, but pods of lost nodes are left to Kubernetes, which deletes them after five minutes",
                _EASY | {"node_lost_seconds": 0},
            ),
            StudyPolicy("spares", "as easy, but some nodes stay empty for repairs", _EASY, _SPARING),
            StudyPolicy(
                "conservative", "as easy, but no gang that waits may be delayed, not the first alone", _CONSERVATIVE
            ),
            StudyPolicy(
                "priority",
                "higher priority first; no backfill, no gang is evicted",
                _NONE,
                _everybody(WithinQueue.NEVER),
                priorities=True,
            ),
            StudyPolicy(
                "preemptive",
                "higher priority first; lower priority is evicted for it; easy backfill",
                _EASY,
                _everybody(WithinQueue.LOWER_PRIORITY),
                priorities=True,
            ),
            StudyPolicy(
                "told",
                "as preemptive, and jobs say when they have saved their progress: who loses least is evicted",
                _EASY,
                _everybody(WithinQueue.LOWER_PRIORITY),
                priorities=True,
                told=True,
            ),
            StudyPolicy(
                "shares",
                "a Queue with an equal quota for each queue of the trace, borrowed and reclaimed; easy backfill",
                _EASY,
                shares=True,
                priorities=True,
            ),
        )
    }
)
