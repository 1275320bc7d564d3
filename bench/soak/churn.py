"""The load of a soak: gangs and single pods come, run and go, some are deleted half-way, nodes change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random
from types import TracebackType
from typing import Self, TypeVar

import httpx

from localcluster.client import CREATE_WORKERS, NODES, POD_GROUPS, PODS, ApiClient, JsonObject
from localcluster.errors import ApiError
from localcluster.nodes import NodeShape, numbered_nodes
from localcluster.workloads import GangSpec, PodTemplate, Role

NAMESPACE = "default"

_T = TypeVar("_T")

#: More pods than this at once are not created: the load stays churn, whatever stands still.
MOST_LIVE_PODS = 600
#: Seconds after which a workload is deleted, whether it waits or runs.
LONGEST_LIFE_SECONDS = 60.0
#: Seconds between two changes of nodes, and between two looks for pods that have succeeded.
NODE_CHANGE_SECONDS = 3.0
CLEAN_UP_SECONDS = 1.0

#: GPUs of a pod, and how often each number is asked for.
_GPUS = ((0, 1, 2, 4, 8), (10, 45, 25, 12, 8))
_GANG_SHARE = 0.5  # of the workloads; most of the pods
_LARGEST_GANG = 16
_IMPATIENT_SHARE = 0.1  # of the workloads: deleted while they wait or run
_RUN_SECONDS = (2, 9)


@dataclass(slots=True)
class Workload:
    """A gang or a single pod: what is left of it, and when it is deleted at the latest."""

    name: str
    gang: bool
    ends: float
    pods: set[str]


@dataclass(slots=True)
class Tally:
    """What was done so far."""

    created: int = 0
    gangs: int = 0
    succeeded: int = 0
    deleted: int = 0
    skipped: int = 0
    node_changes: int = 0


@dataclass(slots=True)
class Churn:
    """Keep up a rate of new pods on a cluster that is otherwise empty; equal seeds give equal workloads.

    Times are seconds of whatever clock the caller counts in.
    """

    api: ApiClient
    nodes: int
    pods_per_minute: float
    random: Random
    tally: Tally = field(default_factory=Tally)
    _workloads: dict[str, Workload] = field(default_factory=dict)
    _altered: set[str] = field(default_factory=set)
    _owed: float = 0.0
    _last: float | None = None
    _next_node: float = NODE_CHANGE_SECONDS
    _next_clean: float = 0.0
    _serial: int = 0
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(CREATE_WORKERS))

    @property
    def live_pods(self) -> int:
        """Count the pods that were created and not deleted."""
        return sum(len(workload.pods) for workload in self._workloads.values())

    def prepare(self) -> None:
        """Create the nodes."""
        self._each(self.api.create, numbered_nodes(self.nodes, NodeShape()))

    def step(self, now: float) -> None:
        """Do what is due at `now`."""
        if now >= self._next_clean:
            self._next_clean = now + CLEAN_UP_SECONDS
            self.clean_up(now)
        if now >= self._next_node:
            self._next_node = now + NODE_CHANGE_SECONDS
            self._change_a_node()
        elapsed = 0.0 if self._last is None else now - self._last
        self._last = now
        self._owed += elapsed * self.pods_per_minute / 60.0
        self._create(list(self._arrivals(now)))

    def clean_up(self, now: float) -> None:
        """Delete the pods that have succeeded, and the workloads whose time is up."""
        done = {
            pod["metadata"]["name"]
            for pod in self.api.list_items(PODS, NAMESPACE, fieldSelector="status.phase=Succeeded")
        }
        over = [workload for workload in self._workloads.values() if workload.ends <= now]
        late = set().union(*(workload.pods for workload in over)) - done
        self.tally.succeeded += len(done)
        self.tally.deleted += len(late)
        self._each(self._delete_pod, done | late)
        for workload in self._workloads.values():
            workload.pods -= done | late
        ended = [workload for workload in self._workloads.values() if not workload.pods]
        self._each(self._delete_group, [workload.name for workload in ended if workload.gang])
        for workload in ended:
            del self._workloads[workload.name]

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the threads."""
        self._pool.shutdown()

    def _arrivals(self, now: float) -> Iterator[tuple[Workload, list[JsonObject]]]:
        """Yield the workloads that are due, as long as there is room for their pods."""
        while self._owed >= 1:
            gang = self.random.random() < _GANG_SHARE
            size = self.random.randint(2, _LARGEST_GANG) if gang else 1
            self._owed -= size
            if self.live_pods + size > MOST_LIVE_PODS:
                self.tally.skipped += size
                continue
            yield self._workload(now, size, gang=gang)

    def _workload(self, now: float, size: int, *, gang: bool) -> tuple[Workload, list[JsonObject]]:
        """Return a new workload and its objects, the PodGroup first."""
        self._serial += 1
        name = f"{'gang' if gang else 'pod'}-{self._serial}"
        (gpus,) = self.random.choices(*_GPUS)
        template = PodTemplate(gpus=gpus, run_seconds=self.random.randint(*_RUN_SECONDS))
        if gang:
            minimum = size - self.random.choice((0, 0, 0, 1))
            spec = GangSpec(name, NAMESPACE, min_member=minimum, roles=(Role("", size, template),))
            objects = [spec.pod_group(), *spec.pods()]
        else:
            objects = [template.pod(name, NAMESPACE)]
        impatient = self.random.random() < _IMPATIENT_SHARE
        ends = now + (self.random.uniform(0.0, max(_RUN_SECONDS)) if impatient else LONGEST_LIFE_SECONDS)
        workload = Workload(name, gang, ends, {item["metadata"]["name"] for item in objects if item["kind"] == "Pod"})
        self._workloads[name] = workload
        return workload, objects

    def _create(self, arrivals: list[tuple[Workload, list[JsonObject]]]) -> None:
        """Create PodGroups, then pods, the pods of all arrivals in a random order: gangs arrive interleaved."""
        objects = [item for _, items in arrivals for item in items]
        pods = [item for item in objects if item["kind"] == "Pod"]
        self.random.shuffle(pods)
        self._each(self.api.create, [item for item in objects if item["kind"] != "Pod"])
        self._each(self.api.create, pods)
        self.tally.created += len(pods)
        self.tally.gangs += sum(workload.gang for workload, _ in arrivals)

    def _change_a_node(self) -> None:
        """Cordon, taint or label a node, or let it go and come back; what was altered before is set right."""
        name = f"node-{self.random.randrange(self.nodes)}"
        self.tally.node_changes += 1
        if name in self._altered:
            self._altered.remove(name)
            self.api.patch(NODES, name, {"spec": {"unschedulable": None, "taints": None}})
            return
        match self.random.randrange(4):
            case 0:
                self._altered.add(name)
                self.api.patch(NODES, name, {"spec": {"unschedulable": True}})
            case 1:
                self._altered.add(name)
                self.api.patch(NODES, name, {"spec": {"taints": [{"key": "soak", "effect": "NoSchedule"}]}})
            case 2:
                self.api.patch(NODES, name, {"metadata": {"labels": {"soak": str(self.tally.node_changes)}}})
            case _:
                number = int(name.removeprefix("node-"))
                self.api.delete(NODES, name)
                self.api.create(*numbered_nodes(1, NodeShape(), first=number))

    def _delete_pod(self, name: str) -> None:
        self._delete(lambda: self.api.delete(PODS, name, NAMESPACE, grace_seconds=0))

    def _delete_group(self, name: str) -> None:
        self._delete(lambda: self.api.delete(POD_GROUPS, name, NAMESPACE))

    @staticmethod
    def _delete(delete: Callable[[], None]) -> None:
        """Delete what may have gone already."""
        try:
            delete()
        except ApiError as error:
            if error.status != httpx.codes.NOT_FOUND:
                raise

    def _each(self, call: Callable[[_T], object], items: Iterable[_T]) -> None:
        """Call for every item, several at a time, and raise what failed."""
        for _ in self._pool.map(call, items):
            pass
