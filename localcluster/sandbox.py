"""The cluster as a story sees it: emptied before it begins, small words to fill it, and what happened in it since."""

import contextlib
import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypedDict, Unpack

from localcluster.client import (
    CREATE_WORKERS,
    EVENTS,
    NAMESPACES,
    NATIVE_POD_GROUPS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    ApiClient,
    JsonObject,
    Resource,
)
from localcluster.errors import ApiError, LocalClusterError
from localcluster.nodes import GPU, NodeShape, numbered_nodes
from localcluster.story import DEFAULT_TIMEOUT_SECONDS, Gang, Pod, Scene, delete_pod_group
from localcluster.watching import LiveView, Signal
from localcluster.workloads import GangSpec, PodTemplate, Role

NAMESPACE = "default"

#: kwok says nothing of nodes and pods that carry this (`kwok/stages.yaml`).
SILENT = "kwok.muster.dev/silent"

_ENDED = frozenset({"Succeeded", "Failed"})


class PodOptions(TypedDict, total=False):
    """The fields of a PodTemplate, each optional."""

    gpus: int
    cpu: str
    memory: str
    scheduler: str
    priority_class: str
    run_seconds: int
    node_selector: Mapping[str, str]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    gates: tuple[str, ...]
    node_name: str
    host_port: int
    finalizers: tuple[str, ...]
    spec: JsonObject


class GangOptions(PodOptions, total=False):
    """What may be said of a gang: its size or its roles, of its PodGroup, and of all its pods.

    `members` pods alike, or `roles`. `min_member` is the number of all pods unless given. `create` is how many members
    to create at once: all unless given, with 0 not even the PodGroup.
    """

    members: int
    roles: Sequence[Role]
    min_member: int
    create: int
    timeout_seconds: int
    min_resources: Mapping[str, str]
    group_annotations: Mapping[str, str]


class NodeOptions(TypedDict, total=False):
    """The fields of a NodeShape, each optional."""

    gpus: int
    cpu: str
    memory: str
    pods: int
    labels: Mapping[str, str]
    taints: tuple[JsonObject, ...]


@dataclass(frozen=True, slots=True)
class Binding:
    """A pod that was bound to a node, and when that was seen (`time.monotonic` seconds)."""

    at: float
    pod: str
    uid: str
    node: str


class Sandbox:
    """The one vocabulary for stories on the local control plane.

    `native_pod_groups` says which PodGroups `gang` makes and watches: the native API's or coscheduling's.
    """

    def __init__(self, api: ApiClient, *, native_pod_groups: bool = False) -> None:
        """Prepare the live views; nothing is read before `open`."""
        self.api = api
        self._native = native_pod_groups
        signal = Signal()
        groups = NATIVE_POD_GROUPS if native_pod_groups else POD_GROUPS
        self._scene = Scene(
            api,
            signal,
            pods=LiveView(api, PODS, signal),
            pod_groups=LiveView(api, groups, signal),
            events=LiveView(api, EVENTS, signal),
        )
        self._nodes = LiveView(api, NODES, signal)
        self._made: list[tuple[Resource, str, str | None]] = []

    def open(self) -> None:
        """Start to watch pods, nodes, PodGroups and events."""
        for view in self._views:
            view.start()

    def close(self) -> None:
        """Stop watching."""
        for view in self._views:
            view.stop()

    def __enter__(self) -> Self:
        """Open."""
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def reset(self, timeout: float = DEFAULT_TIMEOUT_SECONDS) -> None:
        """Delete every pod, PodGroup and node, and what else the last story made; wait until they are gone.

        Events stay: they are told apart by the UID of what they are about.
        """
        groups = self._scene.pod_groups.resource
        for namespace in {item["metadata"]["namespace"] for item in self.api.list_items(PODS)}:
            self.api.delete_all(PODS, namespace)
        for group in self.api.list_items(groups):
            with contextlib.suppress(ApiError):  # of a Job's own PodGroup the garbage collector may be faster
                delete_pod_group(self.api, groups, group["metadata"]["name"], group["metadata"]["namespace"])
        self.api.delete_all(NODES)
        for resource, name, made_in in self._made:
            # kube-controller-manager takes finalizers off; none runs here.
            self.api.patch(resource, name, {"metadata": {"finalizers": None}}, namespace=made_in)
            self.api.delete(resource, name, made_in)
        self._made.clear()
        self._scene.wait_until(lambda: self.empty, lambda: f"cluster empty; left: {self._left()}", timeout)
        for view in self._views:
            view.forget_history()

    @property
    def empty(self) -> bool:
        """Return whether there are no pods, PodGroups and nodes."""
        return not self._left()

    @property
    def node_names(self) -> list[str]:
        """Return the names of the nodes that exist."""
        return [item["metadata"]["name"] for item in self._nodes.all()]

    def nodes(self, count: int, *, prefix: str = "node", **shape: Unpack[NodeOptions]) -> list[str]:
        """Create `count` ready nodes of one shape and return their names; numbers go on after those that exist."""
        first = sum(name.startswith(f"{prefix}-") for name in self.node_names)
        created = self.api.create_all(numbered_nodes(count, NodeShape(**shape), prefix=prefix, first=first))
        names = [item["metadata"]["name"] for item in created]
        self._scene.wait_until(
            lambda: all(self._nodes.get(name, "") for name in names), lambda: f"nodes {names} seen by the watch"
        )
        return names

    def cordon(self, node: str) -> None:
        """Mark a node unschedulable."""
        self.api.patch(NODES, node, {"spec": {"unschedulable": True}})

    def drain(self, node: str) -> None:
        """Cordon a node, then evict every pod on it, as `kubectl drain` does."""
        self.cordon(node)
        for pod in self.api.list_items(PODS, fieldSelector=f"spec.nodeName={node}"):
            metadata = {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]}
            path = PODS.path(metadata["namespace"], metadata["name"], "eviction")
            self.api.request("POST", path, body={"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata})

    def taint(self, node: str, key: str, effect: str = "NoSchedule") -> None:
        """Give a node one taint, in place of those it has."""
        self.api.patch(NODES, node, {"spec": {"taints": [{"key": key, "effect": effect}]}})

    def resize_node(self, node: str, *, gpus: int) -> None:
        """Change how many GPUs a node offers, as a device plugin does that finds some of them broken."""
        self.api.patch(NODES, node, {"status": {"allocatable": {GPU: str(gpus)}}}, subresource="status")

    def silence(self, node: str) -> float:
        """Let a node die: its kubelet says no more, and the node lifecycle controller writes what follows from that.

        Condition Ready is Unknown, two taints say unreachable, and pods that are deleted there stay. Return since when
        the condition says so (epoch seconds).
        """
        silent = {"metadata": {"annotations": {SILENT: "true"}}}
        taint = {"key": "node.kubernetes.io/unreachable"}
        taints = [taint | {"effect": effect} for effect in ("NoSchedule", "NoExecute")]
        self.api.patch(NODES, node, silent | {"spec": {"taints": taints}})
        for pod in self.api.list_items(PODS, fieldSelector=f"spec.nodeName={node}"):
            with contextlib.suppress(ApiError):  # it may be gone by now
                self.api.patch(PODS, pod["metadata"]["name"], silent, namespace=pod["metadata"]["namespace"])
        return self._tell_ready(node, "Unknown")

    def revive(self, node: str) -> None:
        """Let a node that was silenced answer again: pods that were deleted there meanwhile go."""
        self.api.patch(NODES, node, {"metadata": {"annotations": {SILENT: None}}, "spec": {"taints": None}})
        for pod in self.api.list_items(PODS, fieldSelector=f"spec.nodeName={node}"):
            with contextlib.suppress(ApiError):
                change = {"metadata": {"annotations": {SILENT: None}}}
                self.api.patch(PODS, pod["metadata"]["name"], change, namespace=pod["metadata"]["namespace"])
        self._tell_ready(node, "True")

    def _tell_ready(self, node: str, status: str) -> float:
        now = dt.datetime.now(dt.UTC).replace(microsecond=0)
        since = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {"type": "Ready", "status": status, "reason": "Told", "lastTransitionTime": since}
        self.api.patch(NODES, node, {"status": {"conditions": [ready]}}, subresource="status")
        return now.timestamp()

    def delete_node(self, node: str) -> None:
        """Delete a node."""
        self.api.delete(NODES, node)

    @contextmanager
    def namespace(self, name: str) -> Iterator[str]:
        """Create a namespace, and remove it with its pods and PodGroups at the end.

        kube-controller-manager would do the latter; none runs here.
        """
        self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        try:
            yield name
        finally:
            for pod in self.api.list_items(PODS, name):
                with contextlib.suppress(ApiError):  # its controller, or the kubelet's stand-in, may be at it too
                    self.api.patch(PODS, pod["metadata"]["name"], {"metadata": {"finalizers": None}}, namespace=name)
            self.api.delete_all(PODS, name)
            self.api.delete_all(self._scene.pod_groups.resource, name)
            with contextlib.suppress(ApiError):  # it may be terminating already
                self.api.delete(NAMESPACES, name)
            finalized = {**self.api.get(NAMESPACES, name), "spec": {"finalizers": []}}
            self.api.request("PUT", NAMESPACES.path(None, name, "finalize"), body=finalized)

    def create(self, item: JsonObject) -> None:
        """Create any other object; it goes away with the story."""
        created, resource = self.api.create(item)["metadata"], self.api.resource_of(item)
        if resource != PODS:  # `reset` deletes those of any maker
            self._made.append((resource, created["name"], created.get("namespace")))

    def pod(self, name: str, *, namespace: str = NAMESPACE, **options: Unpack[PodOptions]) -> Pod:
        """Create a pod that belongs to no gang."""
        pod = Pod(self._scene, PodTemplate(**options).pod(name, namespace))
        pod.create()
        return pod

    def role(self, name: str, count: int, **options: Unpack[PodOptions]) -> Role:
        """Describe a part of a gang, for `gang(roles=...)`."""
        return Role(name, count, PodTemplate(**options))

    def gang(self, name: str, *, namespace: str = NAMESPACE, **options: Unpack[GangOptions]) -> Gang:
        """Create a gang: `gang("job", members=4, gpus=8)`, or with `roles` of different pods."""
        members, roles = options.pop("members", None), options.pop("roles", None)
        if (members is None) == (roles is None):
            raise LocalClusterError(f"gang {name}: give either members or roles")
        count, min_member = options.pop("create", None), options.pop("min_member", None)
        timeout_seconds = options.pop("timeout_seconds", None)
        min_resources, annotations = options.pop("min_resources", {}), options.pop("group_annotations", {})
        template = PodTemplate(**options)  # type: ignore[misc] # what is left are a PodTemplate's fields
        parts = (Role("", members, template),) if members is not None else tuple(roles or ())
        spec = GangSpec(
            name,
            namespace,
            min_member=sum(role.count for role in parts) if min_member is None else min_member,
            roles=parts,
            native=self._native,
            timeout_seconds=timeout_seconds,
            min_resources=min_resources,
            annotations=annotations,
        )
        gang = Gang(self._scene, spec)
        if count is None:
            gang.create()
        elif count > 0:
            gang.create_next(count)
        return gang

    def create_at_once(self, gangs: Sequence[Gang]) -> None:
        """Create gangs, CREATE_WORKERS at a time."""
        with ThreadPoolExecutor(CREATE_WORKERS) as pool:
            list(pool.map(Gang.create, gangs))

    def interleave(self, *gangs: Gang) -> None:
        """Create the members of several gangs in turn: the first of each, then the second of each, and so on."""
        for _ in range(max(len(gang.members) for gang in gangs)):
            for gang in gangs:
                gang.create_next()

    def priority_class(self, name: str, value: int) -> str:
        """Create a PriorityClass and return its name; it goes away with the story."""
        self.create(
            {
                "apiVersion": PRIORITY_CLASSES.api_version,
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
            }
        )
        return name

    def disruption_budget(self, name: str, *, min_available: int, labels: Mapping[str, str]) -> None:
        """Create a PodDisruptionBudget for the pods with these labels; it goes away with the story."""
        self.create(
            {
                "apiVersion": POD_DISRUPTION_BUDGETS.api_version,
                "kind": POD_DISRUPTION_BUDGETS.kind,
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {"minAvailable": min_available, "selector": {"matchLabels": dict(labels)}},
            }
        )

    def wait_until(
        self, condition: Callable[[], bool], description: str, timeout: float = DEFAULT_TIMEOUT_SECONDS
    ) -> float:
        """Return the seconds until `condition()` is true; looked at again after everything that happens."""
        return self._scene.wait_until(condition, lambda: description, timeout)

    def stays_true(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Return whether `condition()` is true now and after everything that happens for `seconds`."""
        return not self._scene.signal.comes_true(lambda: not condition(), seconds)

    def bindings(self) -> list[Binding]:
        """Return every binding since the story began, in the API server's order."""
        seen: dict[str, Binding] = {}
        for change in self._scene.pods.history():
            metadata, node = change.object["metadata"], change.object["spec"].get("nodeName")
            if node and metadata["uid"] not in seen:
                seen[metadata["uid"]] = Binding(change.at, metadata["name"], metadata["uid"], node)
        return list(seen.values())

    def deleted_pods(self) -> list[str]:
        """Return the names of the pods that were deleted since the story began, in order."""
        return [change.object["metadata"]["name"] for change in self._scene.pods.history() if change.type == "DELETED"]

    def peak_gpus(self) -> dict[str, int]:
        """Return the most GPUs that bound pods that had not ended held at once: node to count."""
        held: dict[str, tuple[str, int]] = {}
        in_use: defaultdict[str, int] = defaultdict(int)
        peak: defaultdict[str, int] = defaultdict(int)
        for change in self._scene.pods.history():
            uid = change.object["metadata"]["uid"]
            node = change.object["spec"].get("nodeName")
            ended = change.type == "DELETED" or change.object["status"].get("phase") in _ENDED
            if uid in held and ended:
                where, gpus = held.pop(uid)
                in_use[where] -= gpus
            elif uid not in held and node and not ended:
                held[uid] = (node, _gpus(change.object))
                in_use[node] += held[uid][1]
                peak[node] = max(peak[node], in_use[node])
        return dict(peak)

    def _left(self) -> list[str]:
        emptied = (self._scene.pods, self._scene.pod_groups, self._nodes)
        return [f"{view.resource.kind} {item['metadata']['name']}" for view in emptied for item in view.all()]

    @property
    def _views(self) -> tuple[LiveView, ...]:
        return (self._scene.pods, self._scene.pod_groups, self._scene.events, self._nodes)


def _gpus(pod: JsonObject) -> int:
    containers: list[JsonObject] = pod["spec"]["containers"]
    return sum(int(container.get("resources", {}).get("requests", {}).get(GPU, 0)) for container in containers)
