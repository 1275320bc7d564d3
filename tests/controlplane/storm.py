"""A storm on the real control plane: what people, controllers, administrators and bad luck do, at once and seeded."""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

import httpx

from localcluster.client import JOBS, NODES, POD_GROUPS, PODS, JsonObject, Resource
from localcluster.errors import ApiError
from localcluster.faults.fault import (
    Answer,
    CloseStream,
    Delay,
    DelayEvents,
    Drop,
    Duplicate,
    Fault,
    HalfOpen,
    Lose,
    ReplayOld,
    Truncate,
)
from localcluster.faults.rules import Match
from localcluster.nodes import GPU, NodeShape, numbered_nodes
from localcluster.workloads import POD_GROUP_LABEL, GangSpec, PodTemplate
from tests.controlplane.havoc import Havoc
from tests.controlplane.stage import Stage
from tests.controlplane.storm_script import MOST_GANGS, MOST_SINGLE_PODS, NAMESPACE, NODE_GPUS, PRIORITIES, Act, Script
from tests.controlplane.storm_script import NODES as NODE_COUNT

T = TypeVar("T")

#: How often gangs' controllers look after them in the storm and in quiet (seconds).
_STORM_ROUND, _QUIET_ROUND = 1.0, 0.3

#: Share of Muster's requests to the API server that meet each fault; of the rest nothing is wrong.
WRITE_FAULTS: dict[Fault, float] = {
    Delay(0.05): 0.03,
    Delay(0.5): 0.02,
    Drop(): 0.02,
    Lose(): 0.02,
    Duplicate(): 0.02,
    Truncate(): 0.005,
    Answer(409): 0.005,
    Answer(429, retry_after=1): 0.02,
    Answer(500): 0.01,
    Answer(503): 0.01,
}
WATCH_FAULTS: dict[Fault, float] = {
    CloseStream(after_events=20): 0.25,
    Truncate(after_events=15): 0.2,
    ReplayOld(after_events=20, events=10): 0.15,
    HalfOpen(after_events=20, seconds=2.0): 0.1,
    DelayEvents(0.2): 0.05,
    DelayEvents(1.0): 0.05,
    Answer(410): 0.1,
    Drop(): 0.05,
}
VERB_FAULTS: dict[Fault, float] = {
    Delay(0.1): 0.02,
    Delay(1.0): 0.003,
    Drop(): 0.01,
    Lose(): 0.02,
    Duplicate(): 0.02,
    Truncate(): 0.005,
    Answer(500): 0.005,
}

#: The oldest news and the slowest write that these faults can cause, with a pause and a restart of Muster (seconds).
NEWS_SECONDS, WRITE_SECONDS = 6.0, 12.0
#: For how long the API server may be away, with the pauses of those who wait for it (seconds).
OUTAGE_SECONDS = 30.0


@dataclass(slots=True)
class Wanted:
    """A gang as somebody wants it; its controller replaces what it loses, and creates no more pods than `due`.

    With a `job` that is kube-controller-manager, and `pods` is empty.
    """

    spec: GangSpec
    due: int
    pods: dict[str, JsonObject]
    job: JsonObject | None = None

    @classmethod
    def of(cls, spec: GangSpec, due: int | None = None) -> Wanted:
        """Want a gang, all of its pods at once unless told otherwise."""
        pods = {pod["metadata"]["name"]: pod for pod in spec.pods()}
        return cls(spec, len(pods) if due is None else due, pods)

    @classmethod
    def of_job(cls, spec: GangSpec) -> Wanted:
        """Want a gang of the pods of a Job."""
        (role,) = spec.roles
        template = role.template.pod("", spec.namespace)
        metadata = {**template["metadata"], "labels": {**template["metadata"]["labels"], POD_GROUP_LABEL: spec.name}}
        del metadata["name"], metadata["namespace"]
        job = {
            "completions": role.count,
            "parallelism": role.count,
            "completionMode": "Indexed",
            "backoffLimit": 1000,
            "template": {"metadata": metadata, "spec": template["spec"]},
        }
        about = {"name": spec.name, "namespace": spec.namespace}
        return cls(spec, 0, {}, {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": about, "spec": job})

    @property
    def size(self) -> int:
        """Return how many pods it has."""
        return sum(role.count for role in self.spec.roles)


@dataclass(slots=True)
class Storm:
    """Plays one script.

    Attributes:
        wanted: the gangs that somebody wants, as they are wanted now.
        havoc: what befalls processes and connections meanwhile.
        done: how often each act was carried out; one that found nobody to concern is not counted.
        begun: when the storm began (`time.monotonic` seconds).
        lasted: how long it lasted (seconds).
    """

    stage: Stage
    script: Script
    wanted: dict[str, Wanted] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)
    begun: float = 0.0
    lasted: float = 0.0
    _serial: int = 0
    _to_come: deque[Act] = field(init=False)
    havoc: Havoc = field(init=False)

    def __post_init__(self) -> None:
        """Expect the script's gangs and blows."""
        self.havoc = Havoc(self.stage, self.script)
        self._to_come = deque(self.script.arrivals)

    def rage(self) -> None:
        """Play the script to its end, under faults of both proxies."""
        stage, seed = self.stage, self.script.seed
        for name, value in PRIORITIES.items():
            stage.cluster.priority_class(name, value)
        stage.cluster.nodes(NODE_COUNT, gpus=NODE_GPUS)
        for number, site in enumerate(stage.sites):
            own = seed + 1000 * number
            site.api_proxy.random(own, WATCH_FAULTS, Match(kind="watch"))
            site.api_proxy.random(own, WRITE_FAULTS, Match(where=lambda request: not request.is_watch))
            site.verb_proxy.random(own, VERB_FAULTS)
        self.begun = time.monotonic()
        self.havoc.start()
        rounds = self._rounds()
        acts = deque(self.script.acts)
        while acts and (self._to_come or acts[0].at < self.script.seconds):
            act = acts.popleft()
            time.sleep(max(0.0, self.begun + act.at - time.monotonic()))
            self.havoc.check()
            next(rounds)
            self._let_in(act.at)
            self._perform(act)
        self.lasted = time.monotonic() - self.begun

    def calm(self) -> None:
        """End all faults, let every process run, and put the nodes right; quiet begins when this returns."""
        stage = self.stage
        for proxy in stage.proxies:
            proxy.clear()
        self.havoc.end()
        for gang in self.wanted.values():
            gang.due = len(gang.pods)
        for name, job in self._jobs().items():
            if job["spec"].get("suspend"):
                self._patch(JOBS, name, {"spec": {"suspend": False}})
        for name in self._all_node_names():
            self._repair(name)
        for pod in self._pods():
            if pod["metadata"]["name"].startswith("foreign-"):
                self._delete(PODS, pod)

    def finish(self, patience: float) -> list[str]:
        """Look after the gangs, and let in those that are still to come, until all pods of all have succeeded.

        Returns the gangs that have not when for `patience` seconds no pod has succeeded.
        """
        seen, changed = -1, time.monotonic()
        while (unfinished := self.unfinished() or [act.gang for act in self._to_come]) and (
            time.monotonic() < changed + patience
        ):
            self.havoc.tend()
            self._look_after()
            self._let_in(math.inf)
            self.stage.recorder.comes_true(lambda: not self.unfinished(), _QUIET_ROUND)
            if (succeeded := self._succeeded()) != seen:
                seen, changed = succeeded, time.monotonic()
        return unfinished

    def _succeeded(self) -> int:
        return sum(pod["status"].get("phase") == "Succeeded" for pod in self._pods())

    def unfinished(self) -> list[str]:
        """Return the names of the gangs of which not every pod has succeeded, and of single pods that still wait."""
        phases = {pod["metadata"]["name"]: pod["status"].get("phase") for pod in self._pods()}
        complete = {name for name, job in self._jobs().items() if _complete(job)}
        gangs = [
            name
            for name, gang in self.wanted.items()
            if any(phases.get(pod) != "Succeeded" for pod in gang.pods)
            or (gang.job is not None and name not in complete)
        ]
        return gangs + [pod["metadata"]["name"] for pod in self._pods() if _waits_alone(pod)]

    def _let_in(self, now: float) -> None:
        """Create the gangs whose time has come, as long as there are not too many about."""
        room = MOST_GANGS - len(self.unfinished())
        while room > 0 and self._to_come and self._to_come[0].at <= now:
            self._perform(self._to_come.popleft())
            room -= 1

    def _perform(self, act: Act) -> None:
        with contextlib.suppress(httpx.TransportError):  # the API server is away, and the act has not been done
            self.done[act.what] += ACTS[act.what](self, act)

    # Gangs and their controllers.

    def _rounds(self) -> Iterator[None]:
        """Let the controllers work whenever a round is due."""
        due = time.monotonic()
        while True:
            if time.monotonic() >= due:
                self._look_after()
                due = time.monotonic() + _STORM_ROUND
            yield

    def _look_after(self) -> None:
        """Let every gang's controller replace pods that are gone or have failed, and create those that are to come."""
        phases = {pod["metadata"]["name"]: pod["status"].get("phase") for pod in self._pods()}
        groups = {group["metadata"]["name"] for group in self.stage.recorder.present(POD_GROUPS)}
        jobs = self._jobs()
        for name, gang in self.wanted.items():
            if name not in groups:
                self._create(gang.spec.pod_group())
            if gang.job is not None:
                self._look_after_job(gang.job, jobs.get(name))
            gang.due += 1
            for pod, manifest in list(gang.pods.items())[: gang.due]:
                if pod not in phases:
                    self._create(manifest)
                elif phases[pod] == "Failed":
                    self._delete(PODS, manifest)

    def _look_after_job(self, wanted: JsonObject, job: JsonObject | None) -> None:
        """Start a Job that has lost a pod again as a whole: its controller would wait longer with each."""
        if job is None:
            self._create(wanted)
        elif job["status"].get("failed") and not _complete(job) and not job["metadata"].get("deletionTimestamp"):
            self._delete(JOBS, job)

    def create_gang(self, act: Act) -> bool:
        """Create a gang as a controller does, PodGroup first."""
        return self._create_all(Wanted.of(self.script.gangs[act.gang]))

    def create_slowly(self, act: Act) -> bool:
        """Create a gang's PodGroup, and a further pod with every round of its controller."""
        return self._create_all(Wanted.of(self.script.gangs[act.gang], due=0))

    def create_group_last(self, act: Act) -> bool:
        """Create a gang's pods, and its PodGroup with the controller's next round."""
        gang = self.wanted[act.gang] = Wanted.of(self.script.gangs[act.gang])
        for pod in gang.pods.values():
            self._create(pod)
        return True

    def create_job(self, act: Act) -> bool:
        """Create a gang of the pods of a Job, and that Job."""
        return self._create_all(Wanted.of_job(self.script.gangs[act.gang]))

    def suspend_job(self, act: Act) -> bool:
        """Suspend a Job, whose controller deletes its pods, or let one go on."""
        jobs = [job for name, job in sorted(self._jobs().items()) if name in self.wanted and not _complete(job)]
        job = _pick(jobs, act.number)
        if job is None:
            return False
        suspended = not job["spec"].get("suspend")
        return self._patch(JOBS, job["metadata"]["name"], {"spec": {"suspend": suspended}})

    def delete_member(self, act: Act) -> bool:
        """Delete a member; its controller will replace it."""
        return self._delete(PODS, _pick(self._members(), act.number))

    def fail_member(self, act: Act) -> bool:
        """Let a running member fail."""
        running = [pod for pod in self._members() if pod["status"].get("phase") == "Running"]
        pod = _pick(running, act.number)
        return pod is not None and self._patch(
            PODS, pod["metadata"]["name"], {"status": {"phase": "Failed"}}, subresource="status"
        )

    def delete_gang(self, act: Act) -> bool:
        """Delete a gang for good."""
        name = _pick(list(self.wanted), act.number)
        if name is None:
            return False
        self._delete_all(self.wanted.pop(name), pods_first=act.number % 2 == 0)
        return True

    def replace_gang(self, act: Act) -> bool:
        """Delete a gang and create another under its names, with fewer members needed or as many."""
        name = _pick(list(self.wanted), act.number)
        if name is None:
            return False
        gang = self.wanted[name]
        self._delete_all(gang, pods_first=act.number % 2 == 0)
        want = Wanted.of if gang.job is None else Wanted.of_job
        # Of pods and Jobs that take their time to go the controller creates the namesakes later.
        return self._create_all(want(replace(gang.spec, min_member=max(1, gang.spec.min_member - act.number % 3))))

    def edit_gang(self, act: Act) -> bool:
        """Change minMember of a gang, up to the number of its pods."""
        name = _pick(list(self.wanted), act.number)
        if name is None:
            return False
        gang = self.wanted[name]
        gang.spec = replace(gang.spec, min_member=1 + act.number // 16 % gang.size)
        return self._patch(POD_GROUPS, name, {"spec": {"minMember": gang.spec.min_member}})

    # Nodes and other pods.

    def cordon(self, act: Act) -> bool:
        """Cordon a node."""
        return self._on_node(act, {"spec": {"unschedulable": True}})

    def taint(self, act: Act) -> bool:
        """Taint a node."""
        return self._on_node(act, {"spec": {"taints": [{"key": "example.com/broken", "effect": "NoSchedule"}]}})

    def shrink(self, act: Act) -> bool:
        """Take GPUs off a node."""
        return self._on_node(act, {"status": {"allocatable": {GPU: str(act.number // 16 % NODE_GPUS)}}}, "status")

    def drain(self, act: Act) -> bool:
        """Cordon a node and evict its pods."""
        name = _pick(self._open_nodes(), act.number)
        if name is None:
            return False
        with contextlib.suppress(ApiError):  # a pod may be gone by itself
            self.stage.cluster.drain(name)
        return True

    def remove_node(self, act: Act) -> bool:
        """Delete a node, and the pods on it as the garbage collector does."""
        name = _pick(self._open_nodes(), act.number)
        if name is None:
            return False
        with contextlib.suppress(ApiError):
            self.stage.cluster.delete_node(name)
        for pod in self._pods():
            if pod["spec"].get("nodeName") == name:
                self._delete(PODS, pod)
        return True

    def repair_node(self, act: Act) -> bool:
        """Put a node right, or create it again."""
        name = _pick(self._all_node_names(), act.number)
        return name is not None and self._repair(name)

    def foreign_pod(self, act: Act) -> bool:
        """Put a pod on a node without asking any scheduler, where it fits by what is bound now."""
        name = _pick(self._open_nodes(), act.number)
        if name is None:
            return False
        used = sum(_gpus(pod) for pod in self._pods() if pod["spec"].get("nodeName") == name and not _ended(pod))
        gpus = 1 + act.number // 16 % 4
        if used + gpus > NODE_GPUS:
            return False
        template = PodTemplate(gpus=gpus, scheduler="nobody", node_name=name)
        return self._create(template.pod(self._next_name("foreign"), NAMESPACE))

    def end_foreign_pod(self, act: Act) -> bool:
        """Delete a pod that nobody scheduled."""
        foreign = [pod for pod in self._pods() if pod["metadata"]["name"].startswith("foreign-")]
        return self._delete(PODS, _pick(foreign, act.number))

    def single_pod(self, act: Act) -> bool:
        """Create a pod without gang, one in three of high priority: it may preempt."""
        waiting = [pod for pod in self._pods() if _waits_alone(pod)]
        if len(waiting) >= MOST_SINGLE_PODS:
            return False
        priority = "storm-high" if act.number % 3 == 0 else "storm-low"
        template = PodTemplate(gpus=1 + act.number // 16 % NODE_GPUS, run_seconds=2, priority_class=priority)
        return self._create(template.pod(self._next_name("single"), NAMESPACE))

    # How it is done.

    def _pods(self) -> list[JsonObject]:
        return self.stage.recorder.present(PODS)

    def _members(self) -> list[JsonObject]:
        return [pod for pod in self._pods() if _gang_of(pod) in self.wanted and not _ended(pod)]

    def _jobs(self) -> dict[str, JsonObject]:
        return {job["metadata"]["name"]: job for job in self.stage.others.present(JOBS)}

    def _open_nodes(self) -> list[str]:
        return sorted(self.stage.cluster.node_names)

    @staticmethod
    def _all_node_names() -> list[str]:
        return [f"node-{number}" for number in range(NODE_COUNT)]

    def _repair(self, name: str) -> bool:
        if name not in self.stage.cluster.node_names:
            (manifest,) = numbered_nodes(1, NodeShape(gpus=NODE_GPUS), first=int(name.rpartition("-")[2]))
            return self._create(manifest)
        whole = {"status": {"allocatable": {GPU: str(NODE_GPUS)}}}
        self._patch(NODES, name, whole, namespace=None, subresource="status")
        return self._patch(NODES, name, {"spec": {"unschedulable": None, "taints": None}}, namespace=None)

    def _on_node(self, act: Act, change: JsonObject, subresource: str | None = None) -> bool:
        name = _pick(self._open_nodes(), act.number)
        return name is not None and self._patch(NODES, name, change, namespace=None, subresource=subresource)

    def _create_all(self, gang: Wanted) -> bool:
        self.wanted[gang.spec.name] = gang
        job = [] if gang.job is None else [gang.job]
        for thing in (gang.spec.pod_group(), *list(gang.pods.values())[: gang.due], *job):
            self._create(thing)
        return True

    def _delete_all(self, gang: Wanted, *, pods_first: bool) -> None:
        name = gang.spec.name
        if gang.job is not None:
            self._delete(JOBS, gang.job)  # the garbage collector deletes its pods
        pods = [pod for pod in self._pods() if pod["metadata"]["name"] in gang.pods]
        groups = [group for group in self.stage.recorder.present(POD_GROUPS) if group["metadata"]["name"] == name]
        things = [(PODS, pod) for pod in pods] + [(POD_GROUPS, group) for group in groups]
        for resource, thing in things if pods_first else reversed(things):
            self._delete(resource, thing)

    def _next_name(self, stem: str) -> str:
        self._serial += 1
        return f"{stem}-{self._serial}"

    def _create(self, thing: JsonObject) -> bool:
        return _done(lambda: self.stage.cluster.api.create(thing))

    def _delete(self, resource: Resource, thing: JsonObject | None) -> bool:
        if thing is None:
            return False
        metadata = thing["metadata"]
        return _done(lambda: self.stage.cluster.api.delete(resource, metadata["name"], metadata["namespace"]))

    def _patch(
        self,
        resource: Resource,
        name: str,
        change: JsonObject,
        namespace: str | None = NAMESPACE,
        subresource: str | None = None,
    ) -> bool:
        api = self.stage.cluster.api
        return _done(lambda: api.patch(resource, name, change, namespace=namespace, subresource=subresource))


#: By its name in a script.
ACTS: dict[str, Callable[[Storm, Act], bool]] = {
    act.__name__: act
    for act in (
        Storm.create_gang,
        Storm.create_slowly,
        Storm.create_group_last,
        Storm.create_job,
        Storm.suspend_job,
        Storm.delete_member,
        Storm.fail_member,
        Storm.delete_gang,
        Storm.replace_gang,
        Storm.edit_gang,
        Storm.cordon,
        Storm.taint,
        Storm.shrink,
        Storm.drain,
        Storm.remove_node,
        Storm.repair_node,
        Storm.foreign_pod,
        Storm.end_foreign_pod,
        Storm.single_pod,
    )
}

#: Statuses that only say that the world has moved on: no such object, a name taken, a namesake; and those of an API
#: server that is away, or whose database is.
_MOVED_ON = frozenset({404, 409})
_AWAY = frozenset({429, 500, 503, 504})
#: What an API server answers besides that has just started: it does not wait for its PriorityClasses.
_STARTING = "no PriorityClass with name"


def _done(request: Callable[[], object]) -> bool:
    """Send a request; return False if what it is about is gone, or there already, or if there is no answer."""
    try:
        request()
    except ApiError as error:
        if error.status in _MOVED_ON | _AWAY or _STARTING in str(error):
            return False
        raise
    except httpx.TransportError:
        return False
    return True


def _pick(things: list[T], number: int) -> T | None:
    return things[number % len(things)] if things else None


def _waits_alone(pod: JsonObject) -> bool:
    return str(pod["metadata"]["name"]).startswith("single-") and pod["status"].get("phase") == "Pending"


def _gang_of(pod: JsonObject) -> str:
    return str((pod["metadata"].get("labels") or {}).get(POD_GROUP_LABEL, ""))


def _complete(job: JsonObject) -> bool:
    conditions = job["status"].get("conditions") or ()
    return any(condition["type"] == "Complete" and condition["status"] == "True" for condition in conditions)


def _ended(pod: JsonObject) -> bool:
    return pod["status"].get("phase") in {"Succeeded", "Failed"}


def _gpus(pod: JsonObject) -> int:
    containers: Iterable[JsonObject] = pod["spec"]["containers"]
    return sum(int(container["resources"].get("requests", {}).get(GPU, 0)) for container in containers)
