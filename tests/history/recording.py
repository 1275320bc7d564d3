"""A cluster as the API server has it, with its own account of who held GPUs when, and a Muster that can be killed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

from extender.admission.engine import Engine
from extender.admission.events import A, Event, GroupSeen, NodeSeen, PodGone, PodSeen, Rebuild
from extender.clock import ManualClock
from extender.history.accountant import Accountant
from extender.history.records import GangQuery, GangRecord, Payer
from extender.history.store import HistoryStore
from extender.ledger.effects import Effects, Evict, EvictionReason
from extender.objects.keys import Options
from extender.objects.meta import write_timestamp
from extender.objects.pod import Phase, Pod
from extender.objects.podgroup import PodGroup
from extender.settings import Settings
from tests.builders import node, pod

USER_LABEL = "example.com/user"


@dataclass
class Cluster:
    """What the API server has, and the integral of what it had: GPU-seconds by queue."""

    clock: ManualClock
    pods: dict[str, Pod] = field(default_factory=dict)
    groups: dict[str, PodGroup] = field(default_factory=dict)
    gpu_seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    _bound: dict[str, tuple[str, int, float]] = field(default_factory=dict)

    @property
    def now(self) -> float:
        """Return the time (epoch seconds)."""
        return self.clock.now().timestamp()

    def create(self, name: str, gpus: int, *, queue: str = "", **fields: Any) -> Pod:
        """Create a pod."""
        made = pod(name, gpus, created=write_timestamp(self.clock.now()), options=Options(queue=queue), **fields)
        self.pods[made.uid] = made
        return made

    def bind(self, uid: str, to: str = "node-1") -> Pod:
        """Bind a pod; its condition says when, in whole seconds."""
        was = self.pods[uid]
        self._bound[uid] = (was.options.queue, was.shape.gpus, self.now)
        return self._put(was, node_name=to, phase=Phase.RUNNING, scheduled_at=float(int(self.now)))

    def end(self, uid: str, phase: Phase = Phase.SUCCEEDED) -> Pod:
        """Let a pod end; it stays until it is deleted."""
        self._count(uid)
        return self._put(self.pods[uid], phase=phase, finished_at=float(int(self.now)))

    def delete(self, uid: str) -> str:
        """Delete a pod."""
        self._count(uid)
        del self.pods[uid]
        return uid

    def integral(self) -> dict[str, float]:
        """Return the GPU-seconds by queue until now."""
        sums = defaultdict(float, self.gpu_seconds)
        for queue, gpus, since in self._bound.values():
            sums[queue] += gpus * (self.now - since)
        return {queue: amount for queue, amount in sums.items() if amount}

    def _count(self, uid: str) -> None:
        """Close the account of a pod."""
        if uid in self._bound:
            queue, gpus, since = self._bound.pop(uid)
            self.gpu_seconds[queue] += gpus * (self.now - since)

    def _put(self, was: Pod, **changes: Any) -> Pod:
        self.pods[was.uid] = replace(was, **changes)
        return self.pods[was.uid]


class RecordingMuster:
    """An engine and its accountant, as the controller has them, with a store that outlives both."""

    def __init__(self, cluster: Cluster, store: HistoryStore | None, settings: Settings | None = None) -> None:
        """Start, and list what there is in the cluster."""
        self.cluster, self.store = cluster, store
        settings = settings or Settings(history_user_label=USER_LABEL)
        self.engine = Engine(settings, cluster.clock)
        self.admission = self.engine.admission
        self.accountant = Accountant(
            self.admission, cluster.clock, settings.history_user_label, recording=store is not None
        )
        self._seq = 0
        self._seen: set[str] = set()
        self.tell(NodeSeen(node("node-1", 512)))
        for group in cluster.groups.values():
            self.tell(GroupSeen(group))
        for each in cluster.pods.values():
            self.tell(PodSeen(each))
        self.tell(Rebuild())

    def tell(self, event: Event[A]) -> Effects[A]:
        """Tell the engine, then the accountant, as the controller does."""
        told: Event[Any] = event
        new = isinstance(told, PodSeen) and told.pod.uid not in self._seen
        effects = self.engine.apply(event)
        self.accountant.follow(effects)
        if isinstance(told, PodSeen):
            self._seen.add(told.pod.uid)
            self.accountant.pod_seen(told.pod.uid, new=new)
        elif isinstance(told, PodGone):
            self.accountant.pod_gone(told.uid)
        return effects

    def start(self, made: Pod) -> Pod:
        """Tell of a pod that has been created, and then that it is bound; return it as it was created."""
        self.tell(PodSeen(made))
        self.tell(PodSeen(self.cluster.bind(made.uid)))
        return made

    def evict(self, each: Pod, by: str) -> None:
        """Tell the accountant that the engine asks for an eviction."""
        wish = Evict(each, by, EvictionReason.PREEMPTED, "for a test")
        self.accountant.follow(Effects(None, empty=False, evictions={each.uid: wish}))

    def write(self, capacity: int = 512) -> None:
        """Write what has changed, all of it."""
        assert self.store is not None
        list(self.accountant.settle(capacity))
        if not self.accountant.adopted:
            self.accountant.adopt(self.store.load("writer", self.accountant.known()))
            self._seq = 0
        while True:
            self._seq += 1
            self.store.write("writer", self._seq, self.accountant.take())
            if not self.accountant.behind:
                break


def used_by_queue(store: HistoryStore) -> dict[str, float]:
    """Return the GPU-seconds that a store has by queue."""
    return usage_by(store, "queue", "used")


def usage_by(store: HistoryStore, by: str, use: str) -> dict[str, float]:
    """Return the GPU-seconds of one use that a store has, by a field of the payer."""
    sums: defaultdict[str, float] = defaultdict(float)
    for _, key, amounts in store.usage(0, 10**9, by, Payer()):
        sums[key] += getattr(amounts, use)
    return {key: amount for key, amount in sums.items() if abs(amount) > 1e-6}


def gangs_of(store: HistoryStore, *, running: bool = False) -> dict[str, GangRecord]:
    """Return the gangs of a store that ended, or that did not, by name."""
    page = store.gangs(GangQuery(limit=10_000, running=running))
    return {record.name: record for record in page.gangs}
