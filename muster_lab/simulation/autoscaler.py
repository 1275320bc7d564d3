"""The autoscaler: it makes nodes for ProvisioningRequests and for pods that wait, and removes those that are not used.

Of nodes that are there and on their way a pod takes the first that has room, and else one that a group may still have:

    waiting        free nodes   group, of 4    what is made
    3 pods of 8    1            1 there        2
    5 pods of 8    0            1 there        3; the last two wait on
    a request for 5 pods of 8   1 there        nothing: best-effort-atomic-scale-up makes all or none

Sources: kubernetes/autoscaler cluster-autoscaler/provisioningrequest (conditions, besteffortatomic, checkcapacity) and
processors/provreq; kubernetes-sigs/karpenter pkg/utils/pod/scheduling.go, pkg/controllers/disruption.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from extender.control.ports import ApiError, PodKey, WatchedKind
from extender.objects.meta import read_timestamp, write_timestamp
from extender.objects.node import Node
from extender.objects.pod import Pod
from extender.objects.podspec import first_untolerated
from extender.objects.requests import count_gpus
from muster_lab.simulation.accounting import SECONDS_PER_HOUR
from muster_lab.simulation.cluster import Cluster, has_condition, set_condition
from muster_lab.simulation.evictions import evict
from muster_lab.simulation.manifests import node_manifest
from muster_lab.simulation.objects import POD_TEMPLATES, Json, ObjectChange, Stored, stored
from muster_lab.simulation.scenario import Autoscaling, NodeGroup, ProvisioningClass, ScenarioNode
from muster_lab.simulation.scheduler.nodes import NodeInfo
from muster_lab.simulation.virtual_time import LoopClock

#: How often an autoscaler looks (seconds). Source: cluster-autoscaler, --scan-interval.
SCAN_SECONDS: Final = 10.0
#: How long what a request has found is kept for it (seconds). Source: provisioningrequest, defaultReservationTime.
BOOKING_SECONDS: Final = 600.0
#: After how long a request that found nothing is looked at again, twice as long each time, up to the longest (seconds).
#: Source: --provisioning-request-initial-backoff-time and --provisioning-request-max-backoff-time.
_AGAIN_SECONDS, _LONGEST_AGAIN_SECONDS = 60.0, 600.0

#: Annotations of pods whose node is to stay. Sources: karpenter pkg/apis/v1; cluster-autoscaler/utils/drain.
_STAYS: Final = {("karpenter.sh/do-not-disrupt", "true"), ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false")}
_LEAVING: Final = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
#: Annotation of pods that use what a request provides. Source: ProvisioningRequestPodAnnotationKey of its API.
_CONSUMES: Final = "autoscaling.x-k8s.io/consume-provisioning-request"

_Rooms: TypeAlias = dict[str, NodeInfo]


@dataclass(slots=True)
class NodeStay:
    """One time that a node of a group was there, with so many GPUs: asked for, ready, and removed (seconds)."""

    name: str
    group: str
    gpus: int
    asked: float = 0.0
    ready: float | None = None
    removed: float | None = None


class Autoscaler:
    """Make and remove the nodes of some groups. What changes is looked at within ten seconds.

    Attributes:
        stays: when each node was there, in the order in which they were asked for.
    """

    def __init__(self, cluster: Cluster, clock: LoopClock, autoscaling: Autoscaling, first: Iterable[str] = ()) -> None:
        """Do nothing where there is no group; the nodes called `first` are there from the start."""
        self._cluster = cluster
        self._clock = clock
        self._groups = autoscaling.groups
        self._class = autoscaling.provisioning_class
        self._group_of = {node.name: group for group in self._groups for node in group.nodes}
        self._manifests = {node.name: node_manifest(node) for group in self._groups for node in group.nodes}
        self._values = {name: _node(manifest) for name, manifest in self._manifests.items()}
        self._coming: dict[str, NodeStay] = {}
        self._leaving: set[str] = set()
        self._quiet_since: dict[str, float] = {}  # since when no pod has come or gone, by node
        self._again: dict[str, tuple[float, float]] = {}  # UID of a request -> when to look again, and the pause
        self._scan_at: asyncio.TimerHandle | None = None
        self._scanned = -math.inf
        there = [name for name in first if name in self._group_of]
        self.stays = [self._stay(name, ready=0.0) for name in there]
        if self._groups:
            cluster.audit(self._note)
            cluster.watch(self._take_in)

    def node_hours(self, others: Iterable[ScenarioNode]) -> tuple[float, float]:
        """Return the hours of all nodes until now, and those of their GPUs; the `others` are always there."""
        now = self._clock.elapsed()
        spans = [((now if s.removed is None else s.removed) - s.asked, s.gpus) for s in self.stays]
        spans += [(now, count_gpus(_node(node_manifest(node)).allocatable.items())) for node in others]
        return (
            sum(seconds for seconds, _ in spans) / SECONDS_PER_HOUR,
            sum(seconds * gpus for seconds, gpus in spans) / SECONDS_PER_HOUR,
        )

    def makes(self, name: str) -> bool:
        """Tell whether a node is one of a group."""
        return name in self._group_of

    def _stay(self, name: str, ready: float | None = None) -> NodeStay:
        gpus = count_gpus(self._values[name].allocatable.items())
        return NodeStay(name, self._group_of[name].name, gpus, self._clock.elapsed(), ready)

    def _note(self, change: ObjectChange) -> None:
        """Note on which node a pod came or went; what is idle must not be told from old news."""
        if change.object.key.kind is WatchedKind.POD:
            before, after = (_held(each) for each in (change.before, change.after))
            if before != after:
                self._quiet_since |= dict.fromkeys((before, after), self._clock.elapsed())

    def _take_in(self, change: ObjectChange) -> None:
        if change.object.key.kind in {WatchedKind.POD, WatchedKind.NODE, WatchedKind.PROVISIONING_REQUEST}:
            self._look(math.nextafter(self._clock.elapsed(), math.inf))

    def _look(self, by: float) -> None:
        """Have the next scan not before that time, and not much later."""
        due = max(math.ceil(by / SCAN_SECONDS) * SCAN_SECONDS, self._scanned + SCAN_SECONDS)
        delay = due - self._clock.elapsed()
        loop = asyncio.get_running_loop()
        if self._scan_at is not None and self._scan_at.when() <= loop.time() + delay:
            return
        if self._scan_at is not None:
            self._scan_at.cancel()
        self._scan_at = loop.call_later(delay, self._scan)

    def _scan(self) -> None:
        """Look at everything once: first at what leaves, then at requests, at pods that wait, and at what is idle."""
        self._scan_at, self._scanned = None, self._clock.elapsed()
        for name in sorted(self._leaving):
            self._empty(name)
        rooms = self._answer(self._rooms())
        waiting = [version.pod for version in self._cluster.list(WatchedKind.POD) if self._waits(version)]
        rooms, new, _ = self._pack(waiting, rooms, self._groups)
        self._make(new)
        self._scale_down(rooms)

    def _rooms(self) -> _Rooms:
        """Return what is on each node that is there or on its way, with what kube-scheduler is about to put there."""
        rooms = {version.key.name: NodeInfo(version.node) for version in self._cluster.list(WatchedKind.NODE)}
        rooms |= {name: NodeInfo(self._values[name]) for name in self._coming}
        for version in self._cluster.list(WatchedKind.POD):
            pod = version.pod
            node = _held(version) or pod.nominated_node
            if node in rooms and not pod.done:
                rooms[node].add(pod)
        return rooms

    def _waits(self, version: Stored) -> bool:
        """Tell whether a pod waits for a node of its own: one that uses a request waits for what that finds."""
        pod, annotations = version.pod, version.json["metadata"].get("annotations") or {}
        if not pod.placeable or pod.nominated_node or (self._class is not None and _CONSUMES in annotations):
            return False
        refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        # What kube-scheduler has said at this very moment Muster may be answering yet.
        since = {"lastTransitionTime": write_timestamp(self._clock.now())}
        return has_condition(version.json, refused) and not has_condition(version.json, refused | since)

    def _pack(
        self, pods: Iterable[Pod], rooms: _Rooms, groups: Iterable[NodeGroup]
    ) -> tuple[_Rooms, list[str], list[Pod]]:
        """Put pods where there is room, the largest first; return the rooms then, nodes to be made, and pods left."""
        rooms = {name: info.copy() for name, info in rooms.items()}
        new: list[str] = []
        left: list[Pod] = []
        for pod in sorted(pods, key=lambda each: -each.shape.gpus):
            room = next((info for info in rooms.values() if _takes(info, pod)), None)
            if room is None:
                spare = (next((each.name for each in group.nodes if each.name not in rooms), None) for group in groups)
                infos = (NodeInfo(self._values[name]) for name in spare if name is not None)
                room = next((info for info in infos if _takes(info, pod)), None)
                if room is None:
                    left.append(pod)
                    continue
                new.append(room.node.name)
                rooms[room.node.name] = room
            room.add(pod)
        return rooms, new, left

    def _answer(self, rooms: _Rooms) -> _Rooms:
        """Answer requests, in order of their creation; return the rooms with what they have found kept for them."""
        now = self._clock.elapsed()
        for version in list(self._cluster.list(WatchedKind.PROVISIONING_REQUEST)):
            spec, told = version.json["spec"], _conditions(version)
            if not {"Failed", "BookingExpired"}.isdisjoint(told):
                continue
            pods = list(self._asked(version))
            if "Provisioned" in told:
                left = BOOKING_SECONDS - (self._clock.now().timestamp() - told["Provisioned"])
                if left > 0:
                    rooms, _, _ = self._pack(pods, rooms, ())
                    self._look(now + left)
                else:
                    self._tell(version, "BookingExpired", "CapacityReservationTimeExpired")
                continue
            due, pause = self._again.get(version.uid, (now, _AGAIN_SECONDS))
            if now < due:
                self._look(due)  # a change in between may have had this scan come sooner
                continue
            self._tell(version, "Accepted", "Accepted", "ProvisioningRequest is accepted by ClusterAutoscaler")
            atomic = self._class is ProvisioningClass.ATOMIC
            found, new, missing = self._pack(pods, rooms, self._groups if atomic else ())
            if not missing:
                rooms = found
                self._make(new)
                self._tell(version, "Provisioned", "CapacityIsProvisioned" if new else "CapacityIsFound")
            elif not atomic and spec.get("parameters", {}).get("noRetry") == "true":
                self._tell(version, "Failed", "CapacityIsNotFound", "CA could not find requested capacity")
            else:
                message = "Capacity is not found, CA will try to find it later."
                self._tell(version, "Provisioned", "CapacityIsNotFound", message, status="False")
                self._again[version.uid] = (now + pause, min(2 * pause, _LONGEST_AGAIN_SECONDS))
                self._look(now + pause)
        return rooms

    def _asked(self, version: Stored) -> Iterator[Pod]:
        """Iterate over the pods that a request is about, as its templates make them."""
        namespace = version.key.namespace
        for each in version.json["spec"]["podSets"]:
            name = each["podTemplateRef"]["name"]
            template = self._cluster.get(POD_TEMPLATES.name, namespace, name).json["template"]
            for number in range(each["count"]):
                metadata = {"name": f"{name}-{number}", "namespace": namespace, "uid": f"{version.uid}/{name}/{number}"}
                pod = {"metadata": metadata, "spec": template["spec"], "status": {}}
                yield stored(WatchedKind.POD, pod).pod

    def _tell(self, version: Stored, kind: str, reason: str, message: str = "", status: str = "True") -> None:
        condition = {"type": kind, "status": status, "reason": reason, "message": message}
        key, write = (version.key.namespace, version.key.name), partial(set_condition, condition=condition)
        self._cluster.update(WatchedKind.PROVISIONING_REQUEST, key, partial(write, clock=self._clock), version.uid)

    def _make(self, names: Iterable[str]) -> None:
        for name in names:
            self._coming[name] = self._stay(name)
            self.stays.append(self._coming[name])
            asyncio.get_running_loop().call_later(self._group_of[name].ready_after, self._appear, name)

    def _appear(self, name: str) -> None:
        stay = self._coming.pop(name)
        stay.ready = self._quiet_since[name] = self._clock.elapsed()
        self._cluster.create(WatchedKind.NODE, self._manifests[name])

    def _scale_down(self, rooms: _Rooms) -> None:
        """Remove nodes that have been empty for long, and let pods leave one whose pods have room elsewhere."""
        now = self._clock.elapsed()
        drained = False
        for group in self._groups:
            for name in [each.name for each in group.nodes[group.least :] if each.name in rooms]:
                if name in self._coming or name in self._leaving:
                    continue
                due = self._quiet_since.get(name, 0.0) + group.remove_after
                if now < due:
                    self._look(due)
                elif not rooms[name].pods:
                    self._remove(name)
                elif group.consolidates and not drained:
                    drained = self._drain(name, rooms)

    def _drain(self, name: str, rooms: _Rooms) -> bool:
        """Have the pods of a node leave, if they may and have room on other nodes; return whether they do."""
        on = [version for version in self._cluster.list(WatchedKind.POD) if _held(version) == name]
        if {each.uid for each in on} != rooms[name].pods.keys():
            return False  # others are about to come
        targets = [PodKey(each.key.namespace, each.key.name, each.uid) for each in on]
        others = {other: info for other, info in rooms.items() if other != name and other not in self._coming}
        if any(map(_stays, on)) or self._pack((each.pod for each in on), others, ())[2]:
            return False
        try:
            for target in targets:
                evict(self._cluster, self._clock, target, dry_run=True)
        except ApiError:
            return False
        self._leaving.add(name)
        self._cluster.update(WatchedKind.NODE, ("", name), _close)
        self._empty(name)
        return True

    def _empty(self, name: str) -> None:
        """Evict the pods of a node that leaves, as far as their budgets allow now, and remove it after the last one."""
        on = [version for version in self._cluster.list(WatchedKind.POD) if _held(version) == name]
        for version in on:
            if not version.pod.deleting:
                with suppress(ApiError):
                    evict(self._cluster, self._clock, PodKey(version.key.namespace, version.key.name, version.uid))
                self._look(self._scanned + SCAN_SECONDS)
        if not on:
            self._remove(name)

    def _remove(self, name: str) -> None:
        self._leaving.discard(name)
        self._cluster.delete(WatchedKind.NODE, "", name)
        stay = next(each for each in reversed(self.stays) if each.name == name)
        stay.removed = self._clock.elapsed()


def _node(manifest: Json) -> Node:
    return stored(WatchedKind.NODE, {**manifest, "metadata": {**manifest["metadata"], "uid": ""}}).node


def _held(version: Stored | None) -> str:
    """Return the node that a pod is on, "" for none."""
    return version.pod.node_name if version is not None and version.pod.bound else ""


def _takes(info: NodeInfo, pod: Pod) -> bool:
    """Tell whether a node is one for a pod, and has room for it."""
    node, shape = info.node, pod.shape
    if first_untolerated(node.taints, shape.tolerations) is not None:
        return False
    return shape.selector.matches(node.name, node.labels) and info.fits(pod)


def _stays(version: Stored) -> bool:
    return not _STAYS.isdisjoint((version.json["metadata"].get("annotations") or {}).items())


def _close(json: Json) -> None:
    json["spec"]["taints"] = [*(json["spec"].get("taints") or ()), _LEAVING]


def _conditions(version: Stored) -> dict[str, float]:
    """Return which conditions of a request are true, and since when (epoch seconds)."""
    conditions = version.json.get("status", {}).get("conditions", ())
    since = {each["type"]: each["lastTransitionTime"] for each in conditions if each["status"] == "True"}
    return {kind: read_timestamp(text) or 0.0 for kind, text in since.items()}
