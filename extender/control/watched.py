"""Which kinds are watched: where they are, how they are read, and what is told of them. One row for each kind.

The watches of the API server and the simulated one both work from this table.
How fresh each cache is is kept beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, Protocol, TypeVar

import structlog

from extender.admission import events
from extender.clock import Clock
from extender.control.metrics import Metrics
from extender.control.ports import LeaseGone, LeaseSeen, News, WatchedKind
from extender.hardware.calibration import ConfigMap, decode_config_map
from extender.objects.budget import decode_disruption_budget, read_budget
from extender.objects.computedomain import decode_compute_domain, read_compute_domain
from extender.objects.deviceclass import decode_device_class, read_device_class
from extender.objects.devices import decode_device, read_device
from extender.objects.devicetaintrule import decode_device_taint_rule, read_device_taint_rule
from extender.objects.hypernodes import decode_hyper_node, read_hyper_node
from extender.objects.jobs import decode_job, read_job
from extender.objects.keys import QUEUE
from extender.objects.lease import decode_lease, read_lease
from extender.objects.levelobjects import (
    NETWORK_TOPOLOGY_GROUP,
    decode_grove_topology,
    decode_network_topology,
    decode_topology,
    read_grove_topology,
    read_network_topology,
    read_topology,
)
from extender.objects.meta import (
    Identity,
    MetadataOnly,
    ObjectDecoder,
    ObjectMeta,
    ObjectRef,
    decode_metadata,
    identify,
    share_labels,
)
from extender.objects.node import decode_node, read_node
from extender.objects.noderequest import (
    ASKED_BY_MUSTER,
    ProvisioningRequest,
    decode_provisioning_request,
    read_node_request,
)
from extender.objects.nodetopology import decode_node_resource_topology, read_node_topology
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.priority import PriorityClass, PriorityClasses, decode_priority_class
from extender.objects.queue import decode_queue, read_queue
from extender.objects.reason import Problem
from extender.objects.resourceclaim import (
    decode_resource_claim,
    decode_resource_claim_template,
    read_resource_claim,
    read_resource_claim_template,
)
from extender.objects.resourceslice import decode_resource_slice, read_resource_slice
from extender.objects.seenpod import decode_seen_pod
from extender.objects.sources.controllers import Job
from extender.objects.sources.source import WorkloadKind
from extender.objects.sources.table import SOURCES
from extender.objects.suspendables import read_suspendable
from extender.objects.workload import Suspendable, is_part

T = TypeVar("T")

log = structlog.get_logger("muster.control")

#: Kinds of objects that may be gangs in place of those that they make.
_MAKERS: Final = frozenset(
    kind.kind for source in SOURCES for kind in source.kinds if kind.suspending is not None and kind.suspending.by_part
)


class DescribedGangs:
    """What objects say of gangs; of several objects that describe one gang the newest counts.

    The pods of Kubeflow do not say of which kind their job is: two that run at a time would make pods of the same
    names, which the API server refuses, but a job that has ended may stand beside another one.
    """

    def __init__(self) -> None:
        self._of_object: dict[str, tuple[GroupRef, ...]] = {}
        self._by_ref: dict[GroupRef, dict[str, PodGroup]] = {}

    def seen(self, uid: str, groups: Sequence[PodGroup]) -> Iterator[News]:
        """Take in the gangs that the object with this UID describes now, none for one that was deleted."""
        described = tuple(group.ref for group in groups)
        for ref in self._of_object.pop(uid, ()):
            if ref not in described:
                yield from self._drop(ref, uid)
        if described:
            self._of_object[uid] = described
        for group in groups:
            objects = self._by_ref.setdefault(group.ref, {})
            objects[uid] = group
            if _newest(objects) is group:
                yield events.GroupSeen(group)

    def _drop(self, ref: GroupRef, uid: str) -> Iterator[News]:
        """Forget what an object says of a gang; the newest of the others counts now."""
        objects = self._by_ref[ref]
        counted = _newest(objects)
        dropped = objects.pop(uid)
        if not objects:
            del self._by_ref[ref]
        if counted is dropped:
            yield events.GroupGone(ref, dropped.uid)
            if objects:
                yield events.GroupSeen(_newest(objects))


def _newest(objects: Mapping[str, PodGroup]) -> PodGroup:
    return max(objects.values(), key=lambda group: (group.created, group.uid))


class Known:
    """What objects said before that decides how others are read."""

    def __init__(self) -> None:
        self.priorities = PriorityClasses()
        self.gangs = DescribedGangs()
        self._suspendable: set[str] = set()
        self._parts: set[str] = set()

    def suspendable(self, uid: str, workload: Suspendable | None) -> Iterator[News]:
        """Take in an object as one that Muster may resume, or, with None, as one that it may not, or that is gone."""
        if workload is not None:
            self._suspendable.add(uid)
            yield events.WorkloadSeen(workload)
        elif uid in self._suspendable:
            self._suspendable.discard(uid)
            yield events.WorkloadGone(uid)

    def part(self, uid: str, news: events.PartSeen | None) -> Iterator[News]:
        """Take in that another object, which may be the gang in its place, has made this one; None if it is gone."""
        if news is not None:
            self._parts.add(uid)
            yield news
        elif uid in self._parts:
            self._parts.discard(uid)
            yield events.PartGone(uid)


@dataclass(frozen=True, slots=True)
class Watched(Generic[T]):
    """One watched kind.

    Attributes:
        name: what the API calls its collection in full, the label in metrics: `queues.muster.dev`.
        kind: what an object says of itself: `Queue`.
        paths: the collection over all namespaces, under the newest version of the API first; of the others one counts
            where the server does not have the newer ones.
        decode: reads an object's JSON.
        seen: returns what an object that was added or changed amounts to.
        gone: returns what it means that an object was deleted.
        namespaced: whether its objects are in namespaces.
        optional: whether a server without this API counts as one without objects.
        vital: whether nothing may be decided while it is out of date.
        selector: a part of every query, for a watch of some objects only.
    """

    name: str
    kind: str
    paths: tuple[str, ...]
    decode: ObjectDecoder[T]
    seen: Callable[[T, Known], Iterator[News]]
    gone: Callable[[Identity, Known], Iterator[News]]
    namespaced: bool = False
    optional: bool = True
    vital: bool = False
    selector: Mapping[str, str] = field(default_factory=dict)

    @property
    def api_version(self) -> str:
        """Return the newest version of its API, as objects say it: `muster.dev/v1alpha1`."""
        return "/".join(self.paths[0].split("/")[2:-1])


def _row(  # noqa: PLR0913, PLR0917 - a row of the table
    name: str,
    kind: str,
    paths: str | tuple[str, ...],
    decode: ObjectDecoder[T],
    seen: Callable[[T], News],
    gone: Callable[[Identity], News],
    *,
    namespaced: bool = False,
    optional: bool = True,
    vital: bool = False,
) -> Watched[T]:
    """Return the row of a kind of which each object is one thing to tell, whatever others said."""
    return Watched(
        name,
        kind,
        (paths,) if isinstance(paths, str) else paths,
        decode,
        lambda item, _known: iter((seen(item),)),
        lambda who, _known: iter((gone(who),)),
        namespaced,
        optional,
        vital,
    )


def _priority_seen(item: PriorityClass, known: Known) -> Iterator[News]:
    name, value = identify(item.metadata).name, item.value or 0
    known.priorities.put(name, value, global_default=bool(item.global_default))
    yield events.PriorityClassSeen(name, value, global_default=bool(item.global_default))


def _priority_gone(who: Identity, known: Known) -> Iterator[News]:
    known.priorities.drop(who.name)
    yield events.PriorityClassGone(who.name)


def _groups(kind: WorkloadKind[Any]) -> Watched[Any]:
    """Return the row of a kind by which a source describes gangs, of which some may be suspended."""
    by_part = kind.suspending is not None and kind.suspending.by_part

    def seen(item: Any, known: Known) -> Iterator[News]:  # noqa: ANN401 - what the row decodes
        meta, groups = item.metadata or ObjectMeta(), kind.read(item, known.priorities.values)
        uid, above = identify(meta).uid, meta.owner
        if above is not None:
            groups = [replace(group, owner=above) for group in groups]
        if any(owner.controller and owner.kind in _MAKERS for owner in meta.owner_references or ()):
            yield from known.part(uid, events.PartSeen(uid, groups[0].ref, meta.controller))
        if not by_part:
            yield from known.gangs.seen(uid, groups)
        held = kind.suspending is not None and QUEUE in (meta.labels or {}) and not is_part(meta)
        if kind.suspending is not None and by_part and groups[0].problem is not None:
            held = held and kind.suspending.is_set(item)  # else what it has made is the gang
        yield from known.suspendable(uid, read_suspendable(kind, item, groups[0]) if held else None)

    def gone(who: Identity, known: Known) -> Iterator[News]:
        yield from known.suspendable(who.uid, None)
        yield from known.gangs.seen(who.uid, ())
        yield from known.part(who.uid, None)

    return Watched(
        kind.name,
        kind.kind,
        tuple(f"/apis/{kind.group}/{version}/{kind.resource}" for version in kind.versions),
        kind.decode,
        seen,
        gone,
        namespaced=True,
        vital=kind.vital,
        selector={"labelSelector": QUEUE} if by_part else {},
    )


def _topologies(name: str, group: str, *versions: str) -> Watched[Any]:
    """Return the row of a Topology, of which Kueue and KAI have one each."""
    return _row(
        name,
        "Topology",
        tuple(f"/apis/{group}/{version}/topologies" for version in versions),
        decode_topology,
        lambda item: events.LevelsSeen(read_topology(item, f"{group}/{versions[0]}")),
        lambda who: events.LevelsGone(group, who.name),
    )


class _Checked(Protocol):
    @property
    def problem(self) -> Problem | None: ...


C = TypeVar("C", bound=_Checked)


def _checked(value: C, kind: str, meta: ObjectMeta | None) -> C:
    """Return what an object says, after a line in the log about what is wrong with it."""
    if value.problem is not None:
        log.warning("an object has a problem", kind=kind, object=identify(meta).key, problem=str(value.problem))
    return value


def _namespace(item: MetadataOnly) -> News:
    """Return a namespace's labels alone, which say whose queues its gangs may be in."""
    meta = item.metadata or ObjectMeta()
    return events.NamespaceSeen(meta.name or "", share_labels(meta.labels or {}))


def _job(item: Job) -> News:
    meta = item.metadata or ObjectMeta()
    return events.WorkloadGone(identify(meta).uid) if is_part(meta) else events.WorkloadSeen(read_job(item))


def _node_request(item: ProvisioningRequest) -> News:
    request = read_node_request(item)
    return events.NodeRequestGone(identify(item.metadata).uid) if request is None else events.NodeRequestSeen(request)


def _calibration(item: ConfigMap) -> News:
    return events.CalibrationSeen(ObjectRef.of("v1", "ConfigMap", item.metadata or ObjectMeta()), item.data or {})


#: Watched where there is leader election; it decides nothing about gangs. One Lease of one namespace is meant.
LEASE: Final = _row(
    WatchedKind.LEASE,
    "Lease",
    "/apis/coordination.k8s.io/v1/leases",
    decode_lease,
    lambda item: LeaseSeen(read_lease(item)),
    lambda _who: LeaseGone(),
    namespaced=True,
    optional=False,
    vital=True,
)
#: The ConfigMap with measured bandwidths. One of one namespace is meant.
CALIBRATION: Final = _row(
    WatchedKind.CALIBRATION,
    "ConfigMap",
    "/api/v1/configmaps",
    decode_config_map,
    _calibration,
    lambda _who: events.CalibrationGone(),
    namespaced=True,
    optional=False,
)
#: What autoscalers have been asked for. Watched where a setting names the class of requests; then it must have been
#: listed too before the first decision: who does not know of a request asks a second time.
PROVISIONING: Final = Watched(
    WatchedKind.PROVISIONING_REQUEST,
    "ProvisioningRequest",
    ("/apis/autoscaling.x-k8s.io/v1/provisioningrequests",),
    decode_provisioning_request,
    lambda item, _known: iter((_node_request(item),)),
    lambda who, _known: iter((events.NodeRequestGone(who.uid),)),
    namespaced=True,
    selector={"labelSelector": ASKED_BY_MUSTER},
)

#: All that is watched of every cluster. Each must have been listed before the first decision; the vital ones must be
#: fresh: who knows too little of these gives a node twice, or starts a gang in part. The others make placements better,
#: or are rules that people seldom change. Of what changed unheard a kubelet, the API server (of budgets), or the next
#: list will tell: no watch of theirs that hangs may keep gangs waiting.
WATCHED: Final[tuple[Watched[Any], ...]] = (
    _row(
        WatchedKind.NODE,
        "Node",
        "/api/v1/nodes",
        decode_node,
        lambda item: events.NodeSeen(_checked(read_node(item), "Node", item.metadata)),
        lambda who: events.NodeGone(who.name),
        optional=False,
        vital=True,
    ),
    Watched(
        WatchedKind.PRIORITY_CLASS,
        "PriorityClass",
        ("/apis/scheduling.k8s.io/v1/priorityclasses",),
        decode_priority_class,
        _priority_seen,
        _priority_gone,
        optional=False,
    ),
    *(_groups(kind) for source in SOURCES for kind in source.kinds),
    _row(
        WatchedKind.NODE_TOPOLOGY,
        "NodeResourceTopology",
        "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies",
        decode_node_resource_topology,
        lambda item: events.NodeTopologySeen(_checked(read_node_topology(item), "NodeResourceTopology", item.metadata)),
        lambda who: events.NodeTopologyGone(who.name),
    ),
    _row(
        WatchedKind.HYPER_NODE,
        "HyperNode",
        "/apis/topology.volcano.sh/v1alpha1/hypernodes",
        decode_hyper_node,
        lambda item: events.HyperNodeSeen(read_hyper_node(item)),
        lambda who: events.HyperNodeGone(who.name),
    ),
    # Kueue has served its Topology in each of these, and nothing that is read here has changed.
    _topologies(WatchedKind.KUEUE_TOPOLOGY, "kueue.x-k8s.io", "v1beta2", "v1beta1", "v1alpha1"),
    _topologies(WatchedKind.KAI_TOPOLOGY, "kai.scheduler", "v1alpha1"),
    _row(
        "clustertopologybindings.grove.io",
        "ClusterTopologyBinding",
        ("/apis/grove.io/v1alpha1/clustertopologybindings", "/apis/grove.io/v1alpha1/clustertopologies"),
        decode_grove_topology,
        lambda item: events.LevelsSeen(read_grove_topology(item)),
        lambda who: events.LevelsGone("grove.io", who.name),
    ),
    _row(
        WatchedKind.NETWORK_TOPOLOGY,
        "ClusterNetworkTopology",
        f"/apis/{NETWORK_TOPOLOGY_GROUP}/v1alpha1/clusternetworktopologies",
        decode_network_topology,
        lambda item: events.LevelsSeen(read_network_topology(item)),
        lambda who: events.LevelsGone(NETWORK_TOPOLOGY_GROUP, who.name),
    ),
    _row(
        WatchedKind.DEVICE,
        "Device",
        "/apis/scheduling.koordinator.sh/v1alpha1/devices",
        decode_device,
        lambda item: events.DeviceSeen(read_device(item)),
        lambda who: events.DeviceGone(who.name),
    ),
    _row(
        WatchedKind.NAMESPACE,
        "Namespace",
        "/api/v1/namespaces",
        decode_metadata,
        _namespace,
        lambda who: events.NamespaceGone(who.name),
        optional=False,
    ),
    _row(
        WatchedKind.QUEUE,
        "Queue",
        "/apis/muster.dev/v1alpha1/queues",
        decode_queue,
        lambda item: events.QueueSeen(read_queue(item)),
        lambda who: events.QueueGone(who.name),
    ),
    _row(
        WatchedKind.DISRUPTION_BUDGET,
        "PodDisruptionBudget",
        "/apis/policy/v1/poddisruptionbudgets",
        decode_disruption_budget,
        lambda item: events.BudgetSeen(read_budget(item)),
        lambda who: events.BudgetGone(who.namespace, who.name),
        namespaced=True,
    ),
    Watched(
        WatchedKind.JOB,
        "Job",
        ("/apis/batch/v1/jobs",),
        decode_job,
        lambda item, _known: iter((_job(item),)),
        lambda who, _known: iter((events.WorkloadGone(who.uid),)),
        namespaced=True,
        selector={"labelSelector": QUEUE},
    ),
    # Before pods: what a pod asks for by its claims stands in these.
    _row(
        WatchedKind.DEVICE_CLASS,
        "DeviceClass",
        "/apis/resource.k8s.io/v1/deviceclasses",
        decode_device_class,
        lambda item: events.DeviceClassSeen(_checked(read_device_class(item), "DeviceClass", item.metadata)),
        lambda who: events.DeviceClassGone(who.name),
    ),
    _row(
        WatchedKind.RESOURCE_SLICE,
        "ResourceSlice",
        "/apis/resource.k8s.io/v1/resourceslices",
        decode_resource_slice,
        lambda item: events.SliceSeen(_checked(read_resource_slice(item), "ResourceSlice", item.metadata)),
        lambda who: events.SliceGone(who.name),
    ),
    _row(
        WatchedKind.DEVICE_TAINT_RULE,
        "DeviceTaintRule",
        ("/apis/resource.k8s.io/v1/devicetaintrules", "/apis/resource.k8s.io/v1beta2/devicetaintrules"),
        decode_device_taint_rule,
        lambda item: events.TaintRuleSeen(read_device_taint_rule(item)),
        lambda who: events.TaintRuleGone(who.name),
    ),
    _row(
        WatchedKind.RESOURCE_CLAIM_TEMPLATE,
        "ResourceClaimTemplate",
        "/apis/resource.k8s.io/v1/resourceclaimtemplates",
        decode_resource_claim_template,
        lambda item: events.ClaimTemplateSeen(read_resource_claim_template(item)),
        lambda who: events.ClaimTemplateGone(who.namespace, who.name),
        namespaced=True,
    ),
    # Who does not know of an allocation promises its devices again.
    _row(
        WatchedKind.RESOURCE_CLAIM,
        "ResourceClaim",
        "/apis/resource.k8s.io/v1/resourceclaims",
        decode_resource_claim,
        lambda item: events.ClaimSeen(_checked(read_resource_claim(item), "ResourceClaim", item.metadata)),
        lambda who: events.ClaimGone(who.namespace, who.name),
        namespaced=True,
        vital=True,
    ),
    _row(
        WatchedKind.COMPUTE_DOMAIN,
        "ComputeDomain",
        "/apis/resource.nvidia.com/v1beta1/computedomains",
        decode_compute_domain,
        lambda item: events.ComputeDomainSeen(read_compute_domain(item)),
        lambda who: events.ComputeDomainGone(who.namespace, who.name),
        namespaced=True,
    ),
    # All of them: members that have succeeded count, and pods of other schedulers take room.
    Watched(
        WatchedKind.POD,
        "Pod",
        ("/api/v1/pods",),
        decode_seen_pod,
        lambda item, known: iter((events.PodSeen(item.pod(known.priorities.default)),)),
        lambda who, _known: iter((events.PodGone(who.uid),)),
        namespaced=True,
        optional=False,
        vital=True,
    ),
    CALIBRATION,
)

REQUIRED_KINDS: Final = tuple(row.name for row in WATCHED)
VITAL_KINDS: Final = tuple(row.name for row in (*WATCHED, LEASE) if row.vital)


class Watches:
    """Keep, per kind, whether its first list is complete and when its watch was last heard of."""

    def __init__(self, clock: Clock, metrics: Metrics, stale_after: float, required: Collection[str]) -> None:
        """Call a watch stale that has been silent for `stale_after` seconds; all of `required` are to be listed."""
        self._required = required
        self._clock = clock
        self._metrics = metrics
        self._stale_after = stale_after
        self._synced: set[str] = set()
        self._heard: dict[str, float] = {}
        self._vital: dict[str, float] = {}
        self._failures: dict[str, str] = {}  # of those that have not been heard of since

    def synced(self, kind: str) -> None:
        """Learn that a kind's first list is complete."""
        self._synced.add(kind)
        self.heard(kind)

    def heard(self, kind: str) -> None:
        """Learn that a kind's watch is alive."""
        self._heard[kind] = self._clock.monotonic()
        self._failures.pop(kind, None)
        if kind in VITAL_KINDS:
            self._vital[kind] = self._heard[kind]

    def restarted(self, kind: str, cause: str, detail: str) -> None:
        """Count a restart, and keep what failed, in words, until the watch is heard of."""
        self._metrics.watch_restarts.labels(kind, cause).inc()
        if detail:
            self._failures[kind] = detail

    @property
    def complete(self) -> bool:
        """Tell whether all that is required has been listed."""
        return self._synced.issuperset(self._required)

    def stale_at(self) -> float:
        """Return when the first vital watch will have been silent for too long (seconds, monotonic); or infinity."""
        return min(self._vital.values(), default=math.inf) + self._stale_after

    def stale(self) -> bool:
        """Tell whether any vital watch has been silent for too long."""
        return self._clock.monotonic() >= self.stale_at()

    def silent(self) -> list[str]:
        """Return the vital kinds whose watches have been silent for too long."""
        now = self._clock.monotonic()
        return [kind for kind, heard in self._vital.items() if now >= heard + self._stale_after]

    def unsynced(self) -> list[str]:
        """Return the kinds that are not listed yet."""
        return [kind for kind in self._required if kind not in self._synced]

    def complaints(self) -> list[str]:
        """Return, for people, which kinds are not listed yet or silent for too long.

        What fails is said with it, where that is known; kinds of which it is the same are in one line.
        """
        now = self._clock.monotonic()
        said = [(kind, "not synced") for kind in self.unsynced()]
        said += [(kind, f"silent for {now - self._heard[kind]:.0f} s") for kind in self.silent()]
        lines: dict[tuple[str, str], list[str]] = {}
        for kind, what in said:
            failure = self._failures.get(kind, "")
            lines.setdefault((f"{what}: {failure}", "") if failure else (what, kind), []).append(kind)
        return [f"{', '.join(kinds)} {what}" for (what, _), kinds in lines.items()]

    def scrape(self) -> None:
        """Set the age gauges."""
        now = self._clock.monotonic()
        for kind, heard in self._heard.items():
            self._metrics.watch_age.labels(kind).set(now - heard)
