"""A cluster that is replayed: its objects, how Muster and time change them, and who hears of it."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from random import Random

from bench.service.documents import NAMESPACE, JsonObject, device_class_document
from bench.service.objects import NodeRecord, PodRecord
from bench.service.population import GroupRecord, Population

#: Objects sent in one piece at the start of a watch: some 100 kB.
_PIECE = 20
_INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}

#: What a watch says to one that wants to go on from where another ended.
EXPIRED = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}\n'

_LABELS = {"kubernetes.io/metadata.name": NAMESPACE, "team": "research-foundation"}
_NAMESPACE = json.dumps(
    {"metadata": {"name": NAMESPACE, "uid": "research-namespace", "resourceVersion": "1", "labels": _LABELS}}
).encode()


class WatchedKind:
    """One kind of objects, and the watches that are open on it.

    Attributes:
        lists: how many complete lists have been sent.
    """

    def __init__(self, kind: str, encoded: Callable[[], Iterable[bytes]]) -> None:
        """Take the objects as they are at any moment from `encoded`."""
        self._kind = kind
        self._encoded = encoded
        self._queues: set[asyncio.Queue[bytes]] = set()
        self.lists = 0

    def tell(self, lines: bytes) -> None:
        """Send whole lines to everybody."""
        for queue in self._queues:
            queue.put_nowait(lines)

    @property
    def backlog(self) -> int:
        """Count the pieces that nobody has taken off the connection yet."""
        return sum(queue.qsize() for queue in self._queues)

    def expire(self) -> None:
        """End all watches, as a server does that has forgotten where they were."""
        self.tell(EXPIRED)
        self.tell(b"")

    async def follow(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        """Send all objects, the bookmark that ends them, and then what happens, until the watch expires."""
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._queues.add(queue)
        try:
            objects = iter(self._encoded())
            while piece := list(itertools.islice(objects, _PIECE)):
                await write(b"".join(line("ADDED", encoded) for encoded in piece))
            metadata = {"resourceVersion": "1", "annotations": _INITIAL_EVENTS_END}
            await write(line("BOOKMARK", json.dumps({"kind": self._kind, "metadata": metadata}).encode()))
            self.lists += 1
            while lines := await queue.get():
                await write(lines)
        finally:
            self._queues.discard(queue)


def line(kind: str, encoded: bytes) -> bytes:
    """Return one line of a watch."""
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), encoded)


class ReplayedCluster:
    """The objects, how Muster and time change them, and who hears of it.

    Attributes:
        writes: how many requests of each sort Muster has made.
        events: how many events have been pushed.
        devices: the kinds of Dynamic Resource Allocation by name of their resource, none if no GPUs are in slices.
    """

    def __init__(self, population: Population, random: Random) -> None:
        """Begin with `population`; `random` draws what happens."""
        self.population = population
        self.writes: Counter[str] = Counter()
        self.events = 0
        self._random = random
        self._version = 1
        self._running = [pod for pod in population.pods.values() if pod.node]
        self.nodes = WatchedKind("Node", lambda: (node.encode() for node in population.nodes))
        self.pods = WatchedKind("Pod", lambda: (pod.encode() for pod in population.pods.values()))
        self.groups = WatchedKind("PodGroup", lambda: map(_encode_group, population.groups.values()))
        self.priority_classes = WatchedKind("PriorityClass", lambda: ())
        self.config_maps = WatchedKind("ConfigMap", lambda: ())
        self.namespaces = WatchedKind("Namespace", lambda: (_NAMESPACE,))
        self.queues = WatchedKind("Queue", lambda: (json.dumps(each).encode() for each in population.queues))
        self.budgets = WatchedKind("PodDisruptionBudget", lambda: ())
        sliced = [node for node in population.nodes if node.sliced]
        devices = {
            "resourceslices": WatchedKind("ResourceSlice", lambda: (node.encode_slice() for node in sliced)),
            "deviceclasses": WatchedKind("DeviceClass", lambda: (json.dumps(device_class_document()).encode(),)),
            "resourceclaims": WatchedKind("ResourceClaim", lambda: ()),
            "resourceclaimtemplates": WatchedKind("ResourceClaimTemplate", lambda: ()),
        }
        self.devices = devices if sliced else {}
        described = (self.nodes, self.pods, self.groups, self.priority_classes, self.config_maps)
        others = (self.namespaces, self.queues, self.budgets)
        self.kinds = (*described, *others, *self.devices.values())

    def page(self) -> JsonObject:
        """Return what a client that lists one object learns: how far the server is. The object is left out."""
        return {"kind": "List", "metadata": {"resourceVersion": str(self._version)}, "items": []}

    def happen(self, count: int) -> None:
        """Let so many events happen: heartbeats of nodes and news of running pods, in turn."""
        self.events += count
        for _ in range(count):
            if self._random.random() < 0.5 or not self._running:  # noqa: PLR2004 - half of them
                self._modified_node(self._random.choice(self.population.nodes))
            else:
                self._modified_pod(self._random.choice(self._running))

    def nominate(self, name: str, node: str) -> PodRecord:
        """Take in a nomination, or with an empty `node` that it is taken back."""
        self.writes["nomination"] += 1
        pod = self.population.pods[name]
        pod.nominated = node
        self._modified_pod(pod)
        return pod

    def bind(self, name: str, node: str) -> None:
        """Take in a Binding."""
        self.writes["binding"] += 1
        pod = self.population.pods[name]
        pod.node = node
        self._modified_pod(pod)

    def evict(self, name: str) -> None:
        """Take in an Eviction."""
        self.writes["eviction"] += 1
        pod = self.population.pods.pop(name)
        self._running = [each for each in self._running if each is not pod]
        pod.version = self._next_version()
        self.pods.tell(line("DELETED", pod.encode()))

    def update_status(self, name: str, status: JsonObject) -> GroupRecord:
        """Take in the status of a PodGroup."""
        self.writes["status"] += 1
        group = self.population.groups[name]
        group.version, group.status = self._next_version(), status
        self.groups.tell(line("MODIFIED", _encode_group(group)))
        return group

    def _next_version(self) -> int:
        self._version += 1
        return self._version

    def _modified_pod(self, pod: PodRecord) -> None:
        pod.version = self._next_version()
        self.pods.tell(line("MODIFIED", pod.encode()))

    def _modified_node(self, node: NodeRecord) -> None:
        node.version = self._next_version()
        self.nodes.tell(line("MODIFIED", node.encode()))


def _encode_group(group: GroupRecord) -> bytes:
    return json.dumps(group.document(), separators=(",", ":")).encode()
