"""The life of gangs: they arrive, run, rendezvous, train and finish, and their pods with them."""

from __future__ import annotations

import asyncio
import datetime as dt
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby, zip_longest

from extender.control.ports import ApiError, WatchedKind
from extender.objects.meta import write_timestamp
from extender.objects.pod import Phase, Pod
from extender.objects.podgroup import GroupRef
from muster_lab.simulation.accounting import Activity, GpuMeter, claimed_gpus
from muster_lab.simulation.cluster import Cluster
from muster_lab.simulation.manifests import disruption_budget_manifest, pod_manifest
from muster_lab.simulation.objects import Json, ObjectChange, Stored
from muster_lab.simulation.podgroups import GROUP_APIS, group_ref, pod_group_manifest, roles_do
from muster_lab.simulation.scenario import PlacedState, ScenarioGang, ScenarioMember
from muster_lab.simulation.virtual_time import LoopClock

#: When a Job makes a new pod for one that failed: it waits that long, doubled with each failure up to the longest.
#: Source: k8s.io/kubernetes pkg/controller/job, DefaultJobPodFailureBackOff and MaxJobPodFailureBackOff.
_BACKOFF_SECONDS, _LONGEST_BACKOFF_SECONDS = 10.0, 600.0


@dataclass(slots=True)
class SimulatedMemberState:
    """One member: its present pod (None before it is created, or after it was deleted), and its last node.

    `failures` counts its pods that a kubelet rejected.
    """

    pod: Pod | None = None
    node: str | None = None
    failures: int = 0


@dataclass(frozen=True, slots=True)
class WorkloadSite:
    """Where gangs are created: the cluster, its clock, and the scheduler that their pods name."""

    cluster: Cluster
    clock: LoopClock
    scheduler_name: str


class GangRun:
    """One gang from its arrival on.

    It trains while minMember members run or have succeeded, with those that its parts need. Members that are lost, or
    that a kubelet rejected, are created again, as a Job does; if too few are left, training stops, and goes on from its
    last checkpoint after another rendezvous. Without checkpoints it starts from the beginning. What it did before it
    arrived counts as done, and is part of no figure.

    Attributes:
        spec: what the scenario says of it.
        members: its pods by name, in order.
        wanted: the names of those that its owner wants now.
        admitted_at: when minMember members were on nodes for the first time (seconds), or None.
        finished_at: when training was over and the members had succeeded (seconds), or None.
    """

    def __init__(self, spec: ScenarioGang, site: WorkloadSite, changed: Callable[[], None]) -> None:
        """Create nothing before `arrive`; call `changed` when it holds other GPUs or does something else with them."""
        self.spec = spec
        self.members = {member.name: SimulatedMemberState() for member in spec.members}
        self.wanted = spec.scaling[0].members if spec.scaling else frozenset(self.members)
        self.admitted_at: float | None = None
        self.finished_at: float | None = None
        self.arrived = False
        self._site = site
        self._changed = changed
        self._meter = GpuMeter(site.clock.elapsed)
        self._roles_do: Callable[[Mapping[str, int]], bool] = lambda _: True
        self._role_of = {member.name: member.role for member in spec.members}
        self._pace = 1.0
        self._trained = 0.0
        self._training_since = 0.0
        self._head_start = spec.head_start
        self._timer: asyncio.TimerHandle | None = None
        self._turned_away: set[str] = set()

    @property
    def ref(self) -> GroupRef:
        """Return what Muster calls it."""
        return group_ref(self.spec, lambda: next((pod.uid for pod in self._pods()), ""))

    @property
    def collections(self) -> tuple[str, ...]:
        """Return where its PodGroup is: one collection, or none for a pod that names no group."""
        api = GROUP_APIS.get(self.spec.source)
        return () if api is None else (api.collection,)

    @property
    def meter(self) -> GpuMeter:
        """Return what measures its GPUs."""
        return self._meter

    @property
    def activity(self) -> Activity:
        """Return what it does with what it holds."""
        return self._meter.activity

    def arrive(self) -> Iterable[ScenarioMember]:
        """Create the PodGroup, and its budget if it has one; return the members, whose pods are to be created next."""
        self.arrived = True
        for collection in self.collections:
            group = self._site.cluster.create(collection, pod_group_manifest(self.spec), age=self.spec.age)
            self._roles_do = roles_do(group)
        if self.spec.disruption_budget is not None:
            manifest = disruption_budget_manifest(self.spec, self.spec.disruption_budget)
            self._site.cluster.create(WatchedKind.DISRUPTION_BUDGET, manifest, age=self.spec.age)
        for step in self.spec.scaling[1:]:
            asyncio.get_running_loop().call_later(step.at - self._site.clock.elapsed(), self._scale, step.members)
        return [member for member in self.spec.members if member.name in self.wanted]

    def _scale(self, wanted: frozenset[str]) -> None:
        """Delete the pods that its owner does not want any more, and create those that it wants from now on."""
        if self.finished_at is not None:
            return
        before, self.wanted = self.wanted, wanted
        for member in self.spec.members:
            if member.name in wanted - before and self._find(member) is None:
                self.create(member, again=True)
            elif member.name in before - wanted:
                with suppress(ApiError):  # another client deleted it meanwhile
                    self._site.cluster.delete(WatchedKind.POD, self.spec.namespace, member.name)

    def create(self, member: ScenarioMember, *, again: bool = False) -> None:
        """Create a member's pod. One that was placed already is not placed there `again`."""
        manifest = pod_manifest(self.spec, member, self._site.scheduler_name, placed=not again)
        place = None if again else self.spec.placed.get(member.name)
        if place is not None and place.state is PlacedState.RUNNING:
            since = self._site.clock.now() - dt.timedelta(seconds=place.running_for)
            manifest["status"]["startTime"] = write_timestamp(since)
        self._site.cluster.create(WatchedKind.POD, manifest, age=0.0 if again else self.spec.age)
        if place is not None and place.terminating is not None:
            self._site.cluster.delete(WatchedKind.POD, self.spec.namespace, member.name, left=place.terminating)

    def pod_changed(self, pod: Pod) -> None:
        """Take in a new version of a member's pod."""
        member = self.members[pod.name]
        member.pod = pod
        member.node = pod.node_name or member.node
        self._follow()
        if pod.rejection is not None and pod.uid not in self._turned_away:
            self._turned_away.add(pod.uid)
            member.failures += 1
            pause = min(_BACKOFF_SECONDS * 2 ** (member.failures - 1), _LONGEST_BACKOFF_SECONDS)
            asyncio.get_running_loop().call_later(pause, self._replace, pod)

    def pod_deleted(self, pod: Pod) -> None:
        """Take in that a member's pod is gone; while there is work left, another one takes its place."""
        member = self.members[pod.name]
        if member.pod is None or member.pod.uid != pod.uid:
            return
        member.pod = None
        self._follow()
        if self.finished_at is None and pod.name in self.wanted:
            self.create(next(spec for spec in self.spec.members if spec.name == pod.name), again=True)

    def _find(self, member: ScenarioMember) -> Stored | None:
        return self._site.cluster.find(WatchedKind.POD, self.spec.namespace, member.name)

    def _replace(self, pod: Pod) -> None:
        """Delete a pod that a kubelet rejected, if there is still work for the one that takes its place."""
        if self.finished_at is None:
            with suppress(ApiError):  # another client deleted it meanwhile
                self._site.cluster.delete(WatchedKind.POD, pod.namespace, pod.name, pod.uid)

    def node_changed(self, node: str) -> None:
        """Take in that a node failed, or is back."""
        if any(pod.node_name == node for pod in self._pods()):
            self._follow()

    def held(self) -> dict[str, int]:
        """Return how many GPUs it holds on each node."""
        pods = self._pods()
        held = claimed_gpus(self._site.cluster, pods)
        for pod in pods:
            if pod.bound:
                held[pod.node_name] += pod.shape.gpus
        return held

    def _set(self, held: int, activity: Activity) -> None:
        if (held, activity) != (self._meter.held, self._meter.activity):
            self._meter.set(held, activity)
            self._changed()

    def _pods(self) -> list[Pod]:
        return [member.pod for member in self.members.values() if member.pod is not None]

    def _follow(self) -> None:
        """Let what the gang does follow from how its members stand."""
        pods = self._pods()
        if self.admitted_at is None and self._does(
            pod for pod in pods if pod.node_name and pod.phase is not Phase.FAILED
        ):
            self.admitted_at = self._site.clock.elapsed()
        away = self._site.cluster.unreachable
        staying = (pod for pod in pods if not pod.deleting and pod.node_name not in away)
        running = [pod for pod in staying if pod.phase is Phase.RUNNING]
        complete = bool(running) and self._does((*running, *(pod for pod in pods if pod.phase is Phase.SUCCEEDED)))
        self._set(sum(self.held().values()), self.activity)
        if complete and self.activity is Activity.IDLE and self.finished_at is None:
            self._rendezvous()
        elif not complete and self.activity is not Activity.IDLE:
            self._stop()
        if self.spec.elastic and complete and len(running) != self._pace * self.spec.min_member:
            self._change_pace(len(running) / self.spec.min_member)

    def _does(self, pods: Iterable[Pod]) -> bool:
        """Tell whether these members do for the gang to work."""
        roles = Counter(self._role_of[pod.name] for pod in pods)
        return roles.total() >= self.spec.min_member and self._roles_do(roles)

    def _change_pace(self, pace: float) -> None:
        """Train so many times as fast from now on as minMember members do."""
        trains = self.activity is Activity.PRODUCTIVE
        self._trained = self._reached if trains else self._trained
        self._pace = pace
        if trains:
            self._cancel()
            self._train()

    @property
    def _reached(self) -> float:
        """Return how far training is, with what no checkpoint holds yet."""
        return self._trained + (self._site.clock.elapsed() - self._training_since) * self._pace

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _rendezvous(self) -> None:
        """Begin the rendezvous; a gang that ran before the start goes on where it was."""
        self._set(self._meter.held, Activity.INIT)
        before, self._head_start = self._head_start, 0.0
        self._trained = max(self._trained, before - self.spec.rendezvous)
        if self.spec.rendezvous > before:
            self._after(self.spec.rendezvous - before, self._train)
        else:
            self._train()

    def _train(self) -> None:
        self._timer = None
        self._set(self._meter.held, Activity.PRODUCTIVE)
        self._training_since = self._site.clock.elapsed()
        if self.spec.duration is not None:
            self._after(max(self.spec.duration - self._trained, 0.0) / self._pace, self._finish)

    def _stop(self) -> None:
        """Stop working: too few members are left."""
        self._cancel()
        if self.activity is Activity.PRODUCTIVE:
            reached = self._reached
            self._trained = checkpointed(reached, self.spec.checkpoint_interval)
            self._meter.lose((reached - self._trained) / self._pace)
        self._set(self._meter.held, Activity.IDLE)

    def _finish(self) -> None:
        """Let the members on nodes succeed, and withdraw those that never got one: the job is done."""
        self._timer = None
        self.finished_at = self._site.clock.elapsed()
        self._set(0, Activity.IDLE)
        for pod in self._pods():
            try:
                if pod.bound:
                    self._site.cluster.update(WatchedKind.POD, (pod.namespace, pod.name), _succeed, pod.uid)
                elif not pod.done:
                    self._site.cluster.delete(WatchedKind.POD, pod.namespace, pod.name, pod.uid)
            except ApiError:
                continue  # another client deleted it in the same moment

    def _after(self, seconds: float, then: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(seconds, then)


def checkpointed(reached: float, interval: float | None) -> float:
    """Return how much of `reached` seconds of training the last checkpoint holds.

    One is written whenever another `interval` seconds are done, all the time if it is 0, never if it is None.
    """
    if interval is None:
        return 0.0
    if interval == 0:
        return reached
    nearly = 1e-9  # a sum of fractions may miss the very moment of a checkpoint
    return min(math.floor(reached / interval + nearly) * interval, reached)


def _succeed(json: Json) -> None:
    json["status"]["phase"] = Phase.SUCCEEDED.value


class Workload:
    """Create gangs as they arrive and follow their pods.

    Gangs that arrive at the same moment are created pod by pod in turns, as their controllers do side by side.

    Attributes:
        gangs: all gangs, in the order of the scenario, those that have not arrived included.
        finished: set once every gang has finished.
    """

    def __init__(self, site: WorkloadSite) -> None:
        self._site = site
        self._cluster = site.cluster
        self._watchers: list[Callable[[], None]] = []
        self._by_key: dict[tuple[str, str], GangRun] = {}
        self._by_pod: dict[tuple[str, str], GangRun] = {}
        self.finished = asyncio.Event()
        self._cluster.watch(self._take_in)

    @property
    def gangs(self) -> list[GangRun]:
        """Return all gangs in the order in which they were added."""
        return list(self._by_key.values())

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` when a gang holds other GPUs than before, or does something else with them."""
        self._watchers.append(watcher)

    def gang(self, namespace: str, name: str) -> GangRun:
        """Return a gang; raise KeyError for an unknown one."""
        return self._by_key[namespace, name]

    def find(self, namespace: str, pod: str) -> GangRun | None:
        """Return the gang that a pod belongs to by its name, or None."""
        return self._by_pod.get((namespace, pod))

    def scale(self, pod: Pod) -> tuple[str, int] | None:
        """Return the name of the gang that a pod belongs to, and how many pods it wants; None for a pod of no gang."""
        run = self.find(pod.namespace, pod.name)
        return None if run is None else (run.spec.key, len(run.wanted))

    def add(self, gangs: Iterable[ScenarioGang]) -> None:
        """Have gangs arrive, each `arrival` seconds after the start; those that are due arrive at once."""
        runs = [GangRun(spec, self._site, self._changed) for spec in gangs]
        for run in runs:
            self._by_key[run.spec.namespace, run.spec.name] = run
            for member in run.spec.members:
                self._by_pod[run.spec.namespace, member.name] = run
        now = self._site.clock.elapsed()
        by_arrival = sorted(runs, key=lambda run: run.spec.arrival)
        for arrival, together in groupby(by_arrival, key=lambda run: run.spec.arrival):
            batch = list(together)
            if arrival <= now:
                self._arrive(batch)
            else:
                asyncio.get_running_loop().call_later(arrival - now, self._arrive, batch)

    def forget(self, run: GangRun) -> None:
        """Delete what is left of a gang, and forget it."""
        key = (run.spec.namespace, run.spec.name)
        del self._by_key[key]
        for member in run.spec.members:
            del self._by_pod[run.spec.namespace, member.name]
            if self._cluster.find(WatchedKind.POD, run.spec.namespace, member.name) is not None:
                self._cluster.delete(WatchedKind.POD, run.spec.namespace, member.name)
        for kind in (*run.collections, WatchedKind.DISRUPTION_BUDGET):
            if self._cluster.find(kind, *key) is not None:
                self._cluster.delete(kind, *key)

    def _arrive(self, runs: list[GangRun]) -> None:
        members = [[(run, member) for member in run.arrive()] for run in runs]
        for turn in zip_longest(*members):
            for entry in turn:
                if entry is not None:
                    run, member = entry
                    run.create(member)

    def _changed(self) -> None:
        for watcher in self._watchers:
            watcher()

    def _take_in(self, change: ObjectChange) -> None:
        version = change.object
        if version.key.kind is WatchedKind.NODE:
            for each in self._by_key.values():
                each.node_changed(version.key.name)
        if version.key.kind is not WatchedKind.POD:
            return
        run = self._by_pod.get((version.key.namespace, version.key.name))
        if run is None:
            return
        if change.after is None:
            run.pod_deleted(version.pod)
        else:
            run.pod_changed(version.pod)
        if all(gang.finished_at is not None for gang in self._by_key.values()):
            self.finished.set()
