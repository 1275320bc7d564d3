"""Histories written by hand: small words that make the API server's changes."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from tests.judge.history import Arrival, Change, ChangeType, History, Json


@dataclass(slots=True)
class Tale:
    """A history while it is being told; time passes only when told so, and every change has the next version."""

    now: float = 100.0
    changes: list[Change] = field(default_factory=list)
    arrivals: list[Arrival] = field(default_factory=list)
    restarts: list[float] = field(default_factory=list)
    quiet: float | None = None
    hindrances: list[tuple[float, float]] = field(default_factory=list)
    _objects: dict[tuple[str, str], Json] = field(default_factory=dict)
    _serial: int = 0

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def calm(self) -> None:
        """Let quiet begin."""
        self.quiet = self.now

    def restart(self) -> None:
        """Let Muster die."""
        self.restarts.append(self.now)

    def node(self, name: str, gpus: int = 8, **spec: object) -> None:
        """Create a node, or give it these GPUs and this spec."""
        offers = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
        self._put("v1", "Node", name, {"spec": spec, "status": {"allocatable": offers}})

    def group(self, name: str, min_member: int, timeout: int | None = None) -> None:
        """Create a coscheduling PodGroup, or change it."""
        spec: Json = {"minMember": min_member}
        if timeout is not None:
            spec["scheduleTimeoutSeconds"] = timeout
        self._put("scheduling.x-k8s.io/v1alpha1", "PodGroup", name, {"spec": spec})

    def pod(
        self,
        name: str,
        group: str = "",
        gpus: int = 8,
        labels: Json | None = None,
        annotations: Json | None = None,
        **spec: object,
    ) -> None:
        """Create a pod for Muster's scheduler, with a coscheduling label if it is of a group."""
        requests = {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": str(gpus)}
        body: Json = {
            "spec": {
                "schedulerName": "muster",
                "containers": [{"name": "main", "resources": {"requests": requests}}],
                **spec,
            },
            "status": {"phase": "Pending"},
        }
        named = {"scheduling.x-k8s.io/pod-group": group} if group else {}
        self._put("v1", "Pod", name, body, labels={**named, **(labels or {})}, annotations=annotations or {})

    def gang(self, name: str, members: int, min_member: int | None = None, gpus: int = 8) -> list[str]:
        """Create a PodGroup and its pods; return the pods' names."""
        self.group(name, members if min_member is None else min_member)
        names = [f"{name}-{number}" for number in range(members)]
        for pod in names:
            self.pod(pod, name, gpus)
        return names

    def arrive(self, name: str, node: str, until: float = float("inf")) -> None:
        """Let kube-scheduler ask Muster to bind a pod."""
        self.arrivals.append(Arrival(self.now, self._objects["Pod", name]["metadata"]["uid"], node, until))

    def bind(self, name: str, node: str) -> None:
        """Bind a pod that has arrived."""
        self._edit(name, spec={"nodeName": node}, status={"nominatedNodeName": None})

    def start(self, *names: str, on: str) -> None:
        """Let pods arrive and be bound, all to nodes of this name and their number."""
        for number, name in enumerate(names):
            self.arrive(name, f"{on}{number}")
        for number, name in enumerate(names):
            self.bind(name, f"{on}{number}")

    def nominate(self, name: str, node: str | None) -> None:
        """Give a waiting pod a node, or take it back."""
        self._edit(name, status={"nominatedNodeName": node})

    def end(self, name: str, phase: str = "Succeeded") -> None:
        """Let a pod end."""
        self._edit(name, status={"phase": phase})

    def preempt(self, name: str, scheduler: str = "muster") -> None:
        """Let kube-scheduler choose a pod as victim."""
        message = f"{scheduler}: preempting to accommodate a higher priority pod"
        condition = {"type": "DisruptionTarget", "reason": "PreemptionByScheduler", "message": message}
        self._edit(name, status={"conditions": [condition]})

    def preempted_event(self, victim: str, preemptor: str) -> None:
        """Let kube-scheduler say for whom."""
        uids = [self._objects["Pod", name]["metadata"]["uid"] for name in (victim, preemptor)]
        self._record(
            "ADDED",
            {
                "apiVersion": "events.k8s.io/v1",
                "kind": "Event",
                "metadata": {"name": f"event-{victim}", "namespace": "default"},
                "reason": "Preempted",
                "regarding": {"kind": "Pod", "name": victim, "uid": uids[0]},
                "related": {"kind": "Pod", "name": preemptor, "uid": uids[1]},
            },
        )

    def queue(self, name: str, gpus: int, parent: str = "all", **spec: object) -> None:
        """Create a Queue of so many GPUs, or change it; the one that all are in is without quota."""
        quota = {"name": "nvidia.com/gpu", "nominalQuota": str(gpus)}
        body = {"flavors": [{"name": "any", "resources": [quota | spec.pop("limits", {})]}], "parent": parent, **spec}  # type: ignore[operator] # a dict
        self._put("muster.dev/v1alpha1", "Queue", "all", {"spec": {}})
        self._put("muster.dev/v1alpha1", "Queue", name, {"spec": body})

    def say_evicted(self, name: str, beneficiary: str, reason: str = "Preempted") -> None:
        """Let Muster say that it evicts a pod for a gang."""
        self._record(
            "ADDED",
            {
                "apiVersion": "events.k8s.io/v1",
                "kind": "Event",
                "metadata": {"name": f"eviction-{name}", "namespace": "default"},
                "reason": reason,
                "note": f"evicted for default/{beneficiary}: because",
                "regarding": {"kind": "Pod", "name": name, "uid": self._objects["Pod", name]["metadata"]["uid"]},
            },
        )

    def evict(self, name: str, beneficiary: str = "", reason: str = "Preempted", *, says: float = 0.0) -> None:
        """Let Muster evict a pod, for a gang or for nobody, and say so: before, or `says` seconds after it."""
        if beneficiary and not says:
            self.say_evicted(name, beneficiary, reason)
        self._edit(name, status={"conditions": [{"type": "DisruptionTarget", "reason": "EvictionByEvictionAPI"}]})
        if says:
            self.wait(says)
            self.say_evicted(name, beneficiary, reason)
        self.delete("Pod", name)

    def delete(self, kind: str, name: str) -> None:
        """Delete an object."""
        self._record("DELETED", self._objects.pop((kind, name)))

    def history(self, *, arrivals: bool = True) -> History:
        """Return what has been told, up to now."""
        seen = tuple(self.arrivals) if arrivals else None
        return History(tuple(self.changes), self.now, seen, tuple(self.restarts), self.quiet, tuple(self.hindrances))

    def _edit(self, name: str, **parts: Json) -> None:
        thing = copy.deepcopy(self._objects["Pod", name])
        for part, values in parts.items():
            thing[part].update(values)
        self._objects["Pod", name] = thing
        self._record("MODIFIED", thing)

    def _put(self, api_version: str, kind: str, name: str, body: Json, **metadata: Json) -> None:
        before = self._objects.get((kind, name))
        self._serial += 1
        uid = before["metadata"]["uid"] if before is not None else f"uid-{self._serial}"
        named = {"name": name, "namespace": "default", "uid": uid, **metadata}
        thing = {"apiVersion": api_version, "kind": kind, "metadata": named, **copy.deepcopy(body)}
        self._objects[kind, name] = thing
        self._record("ADDED" if before is None else "MODIFIED", thing)

    def _record(self, change_type: ChangeType, thing: Json) -> None:
        self.changes.append(Change(self.now, len(self.changes) + 1, change_type, copy.deepcopy(thing)))
