"""Every knob of the service, with its unit, its default, why that default, and what breaks at the extremes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from extender.strictyaml import load_documents

_COMMAND_LINE = "command line"
#: How much of a refused value is shown, in characters.
_MOST_SHOWN = 200

#: Source: apimachinery/pkg/api/validate/content IsLabelKey.
_LABEL_KEY = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"

#: Source: apimachinery/pkg/util/validation IsDNS1123Subdomain.
_CLASS_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")

#: The node itself and the cluster always are levels: what these are called, and the label that names a node.
_HOST_LABEL = "kubernetes.io/hostname"
_NODE_NAMES = frozenset({"node", "host", "hostname"})
_NO_LEVELS = _NODE_NAMES | {"cluster", _HOST_LABEL}


class SettingsError(ValueError):
    """A configuration that Muster refuses to start with; the message names file, key and value."""


#: Conditions by which a node is of no use to what runs on it. Those of NVSentinel are True for fatal errors only.
#: Sources: kubernetes/node-problem-detector config/kernel-monitor.json and readonly-monitor.json; NVIDIA/NVSentinel
#: docs/INTEGRATIONS.md, "Standard Condition Types", without those of heat, power and maintenance; Azure's "GPU health
#: monitoring in Node Problem Detector"; aws/eks-node-monitoring-agent README.
LOST_CONDITIONS: Final = (
    *("KernelDeadlock", "ReadonlyFilesystem"),
    *("GpuMemWatch", "GpuPcieWatch", "GpuInforomWatch", "GpuSmWatch", "GpuNvlinkWatch", "GpuMcuWatch", "GpuPmuWatch"),
    *("GpuDriverWatch", "SysLogsXIDError", "SysLogsSXIDError", "SysLogsGPUFallenOff"),
    *("NVSwitchFatalError", "NVSwitchDown"),
    *("GPUMissing", "AcceleratedHardwareReady"),
)

#: Sources: NVIDIA/NVSentinel docs/INTEGRATIONS.md, "Default Taint Examples"; k8s.io/api/core/v1 TaintNodeOutOfService.
LOST_TAINTS: Final = (
    *("nvidia.com/gpu-xid-error", "nvidia.com/gpu-nvlink-error", "nvidia.com/syslog-xid-error", "nvidia.com/gpu-error"),
    "node.kubernetes.io/out-of-service",
)


class TopologyLevel(BaseModel):
    """One tier of the network, as `topology_levels` lists it."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str = Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
    node_label: str = Field(alias="nodeLabel", max_length=317, pattern=_LABEL_KEY)
    allreduce_factor: float | None = Field(default=None, alias="allreduceFactor", gt=0, le=1)
    alltoall_factor: float | None = Field(default=None, alias="alltoallFactor", gt=0, le=1)


#: Names of resources that are not counted in devices. Source: k8s.io/api/core/v1 ResourceName.
_NO_DEVICES = frozenset({"cpu", "memory", "ephemeral-storage", "storage", "pods"})


class DeviceClassMapping(BaseModel):
    """A resource by whose name Queues have quota for devices of some classes, as `device_class_mappings` lists it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(max_length=317, pattern=_LABEL_KEY)
    device_class_names: tuple[str, ...] = Field(alias="deviceClassNames", min_length=1)


class Settings(BaseModel):
    """The configuration of one Muster process; unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    scheduler_names: tuple[str, ...] = ("muster",)
    """`spec.schedulerName` of the pods that Muster manages. Pods of other schedulers pass through filter untouched, are
    only counted, and are never bound by Muster. It must name the profiles of the kube-scheduler that calls this
    Muster."""

    reservation_timeout_seconds: float = Field(default=60.0, gt=0)
    """How long a reservation may wait for minMember members to reach bind, where the PodGroup names no
    scheduleTimeoutSeconds; of more than 1,000 members each has 10 ms more. 60 s is coscheduling's default. Too short:
    slow kube-schedulers never start a large gang; too long: a gang that cannot start keeps others out."""

    bind_hold_seconds: float = Field(default=20.0, gt=0)
    """How long one bind call may wait for the rest of its gang. Keep it under the extender's httpTimeout (30 s in the
    sample config): beyond that kube-scheduler gives up while Muster still binds."""

    http_timeout_seconds: float = Field(default=30.0, gt=0)
    """The extender's `httpTimeout` in the KubeSchedulerConfiguration. Muster only checks other settings against it."""

    debounce_seconds: float = Field(default=0.003, ge=0)
    """How long the cycle waits after a change for more of them. Zero evaluates after every change; more than some
    tens of milliseconds is felt as latency."""

    observe_wait_seconds: float = Field(default=0.05, ge=0)
    """How long filter waits for the watch to deliver a gang member that kube-scheduler already knows. Both watch the
    same API server, so it is a matter of milliseconds; kube-scheduler schedules nothing else meanwhile."""

    arrival_wait_seconds: float = Field(default=0.1, ge=0)
    """How long filter waits for what is on its way: the rest of a gang whose newest member was created less than that
    ago, and nominations of the next members. An attempt made too early costs kube-scheduler more: a look at every
    node, and for a refusal an event, a status, and another attempt. kube-scheduler schedules nothing else meanwhile, so
    longer is felt by others; zero answers at once."""

    backfill: Literal["easy", "conservative", "none"] = "easy"
    """Who may use what is kept for a gang that waits for room: with `easy` gangs that end, by their declared runtime,
    before that gang is expected to start; with `conservative` those that delay none of the first gangs that wait;
    with `none` no gang. Without declared runtimes all three are the same. Conservative keeps more promises and leaves
    more room unused."""

    dashboard: bool = True
    """Whether `/` shows the cluster live. It names gangs, namespaces and nodes to all who can reach the listener, as
    the rest of `/api` does; the verbs' listener is on loopback unless callers show certificates."""

    anonymous_reads: bool = True
    """Whether the listener for people answers callers without a token, and shows them everything. Who shows a bearer
    token is answered about the namespaces whose PodGroups they may list, about nodes and Queues by their rights to
    these. With `false` a token is needed; the API server's proxy takes tokens away, so that `muster` has to ask at an
    address then. The verbs' listener does not ask: who reaches it can place pods."""

    ageing_seconds: float = Field(default=86_400.0, gt=0)
    """How old a waiting gang gets before it goes ahead of higher priorities and of queues that have less of their
    share. Nothing is evicted for its age. Shorter makes first come, first served of priorities; longer lets what is
    unimportant wait for longer on a cluster that is always full."""

    below_minimum_grace_seconds: float = Field(default=300.0, gt=0)
    """How long a running gang that lost members has its places kept, and may be below minMember. Then what is left of
    it is evicted, unless it says otherwise with muster.dev/below-minimum. Shorter than its controller takes to make new
    pods evicts for nothing; longer lets nodes idle that hold a gang which cannot run."""

    node_lost_seconds: float = Field(default=40.0, ge=0)
    """How long a node may be not ready or unreachable before it counts as lost, and its members are replaced elsewhere.
    It has to be well for as long to count as well again. 40 s ride out a kubelet's restart, and are well under the
    300 s after which Kubernetes deletes such pods. Shorter replaces what would have come back; longer lets the rest of
    a gang wait. 0 counts no node as lost, whatever it says."""

    node_lost_conditions: tuple[str, ...] = LOST_CONDITIONS
    """Types of node conditions with which a node counts as lost at once: where they are True, or where their names end
    in Ready or Healthy, False. By default those of node-problem-detector, NVSentinel and clouds that say that nothing
    runs there any more, or no GPU does. One that only warns replaces what still works."""

    node_lost_taints: tuple[str, ...] = LOST_TAINTS
    """Keys of taints with which a node counts as lost at once. By default those of NVSentinel's examples for broken
    GPUs, and the one that says that a node is out of service."""

    provisioning_class: str = Field(default="", max_length=253, pattern=rf"^({_CLASS_NAME.pattern})?$")
    """By which class of ProvisioningRequest (autoscaling.x-k8s.io/v1) gangs that lack nodes ask an autoscaler for them:
    best-effort-atomic-scale-up.autoscaling.x-k8s.io, check-capacity.autoscaling.x-k8s.io, or one of a cloud's, such as
    queued-provisioning.gke.io. Empty: nothing is asked for, and ProvisioningRequests are not watched. Needs rights of
    its own (docs/autoscaling.md)."""

    provisioning_parameters: tuple[str, ...] = ()
    """Parameters of these requests that the class takes, as KEY=VALUE: maxRunDurationSeconds=86400, say."""

    provisioning_retry_seconds: float = Field(default=60.0, gt=0)
    """Pause after a request that failed, before the gang asks again; it doubles with every failure, up to 30 times as
    long. Shorter asks in vain for what is sold out; longer leaves nodes unused that could be had again."""

    history_store: str = Field(default="", max_length=1000)
    """Where the history of gangs and GPU-seconds is kept, for `muster history` and `muster report`: the path of a file
    for SQLite, on a volume that outlives the pod, or postgresql://USER@HOST/DATABASE. The password of PostgreSQL comes
    from PGPASSWORD or PGPASSFILE, never from here. Empty: no history, only counters."""

    history_retention_days: float = Field(default=400.0, ge=1)
    """How long the history keeps a gang after its end, and GPU-seconds by the hour. 400 days compare a month with the
    same one a year before; a million gangs take 0.65 GB."""

    history_write_seconds: float = Field(default=10.0, ge=0.1)
    """Pause between two writes to the history's store. Of what changed in that time a crash leaves only what the
    cluster still tells; shorter writes more often."""

    history_user_label: str = Field(default="muster.dev/user", max_length=317, pattern=rf"({_LABEL_KEY})|^$")
    """Label of pods that names the user whom GPU-seconds are charged to, beside queue and namespace. Empty: none. The
    default is the one by which Queues limit what a user runs."""

    protect_members: Literal["karpenter", "always", "never"] = "karpenter"
    """Which members of gangs are protected from autoscalers that move pods to other nodes: those without which their
    gang would fall below its minimum. karpenter: on nodes of Karpenter's (label karpenter.sh/nodepool) they are
    annotated with karpenter.sh/do-not-disrupt when they are bound. always: on all nodes, and besides with
    cluster-autoscaler.kubernetes.io/safe-to-evict=false. never: consolidation may break a gang that runs."""

    fair_share_half_life_seconds: float | None = Field(default=None, gt=0)
    """By when half of what a queue has used no longer counts for whose turn it is. Without it only what a queue uses
    now counts. Hours to days even out who had the cluster last week; much longer punishes for what is long past."""

    backoff_initial_seconds: float = Field(default=1.0, gt=0)
    """Pause before a gang whose reservation expired is placed again; it doubles with every expiry."""

    backoff_max_seconds: float = Field(default=120.0, gt=0)
    """Upper bound of that pause. Longer would leave free capacity unused after a long blockade."""

    veto_seconds: float = Field(default=30.0, gt=0)
    """How long a node that kube-scheduler refused is avoided for pods of that shape. Shorter retries sooner what may
    still be refused; longer keeps away from a node whose obstacle has gone."""

    nudge_seconds: float = Field(default=0.5, gt=0)
    """How long a nominated member may take to come back to filter before it is nominated again; doubles per attempt up
    to 32 times as long. kube-scheduler loses a nomination that lands while an attempt for the pod is in flight."""

    write_concurrency: int = Field(default=32, ge=1)
    """Writes to the API server under way at once at most; an answer 429 halves it for a while. Each needs a connection,
    which costs up to 256 KiB. 8 saturate an API server on two cores; 32 at 10 ms each are 3,200 writes a second."""

    report_rate_per_second: float = Field(default=500.0, gt=0)
    """Upper bound of statuses and events written per second. What starts a gang (nominations and Bindings) has no rate.
    Lower delays the answer to "why is it pending?" when many gangs change at once; higher takes from the API server."""

    write_retry_seconds: float = Field(default=30.0, gt=0)
    """How long one write is retried while the API server does not answer, refuses with 429, or fails with 5xx."""

    backlog_seconds: float = Field(default=5.0, gt=0)
    """How long nominations may wait without one of them getting through before no further gang is placed. Shorter stops
    at every hiccup of the API server; longer promises capacity to gangs that cannot be told of it."""

    scheduler_lease: str | None = Field(
        default=None, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-.a-z0-9]*[a-z0-9])?$"
    )
    """Lease by which the kube-schedulers of several replicas elect the active one, as NAMESPACE/NAME: what
    `leaderElection` in the scheduler config names. Muster then decides and writes only while the kube-scheduler beside
    it holds that Lease. Without it Muster always does: right for one replica, and two gangs get one node with more."""

    stale_after_seconds: float = Field(default=60.0, gt=0)
    """A watch silent for longer makes readiness false. A quiet watch is renewed after 45 s without a word, and
    counts as heard then: keep this above that."""

    report_delay_seconds: float = Field(default=0.5, ge=0)
    """How long changes of a gang are collected before its status and events are written. Zero writes one for every pod
    that joins; more delays the answer to "why is it pending?"."""

    body_limit_bytes: int = Field(default=64 * 1024 * 1024, ge=1024)
    """Largest request body accepted; 15,000 node names are 0.7 MB, 5,000 whole nodes about 42 MB."""

    bodies_limit_bytes: int = Field(default=192 * 1024 * 1024, ge=1024)
    """Largest size of all request bodies being read or answered at once; a call beyond it is refused. kube-scheduler
    asks one question at a time. Less than body_limit_bytes would refuse what that allows; more than the memory there is
    lets callers end the process."""

    head_limit_bytes: int = Field(default=16 * 1024, ge=512)
    """Largest request line with headers. kube-scheduler sends about 200 bytes."""

    header_limit: int = Field(default=64, ge=8)
    """Most headers of a request. kube-scheduler sends five."""

    head_timeout_seconds: float = Field(default=5.0, gt=0)
    """How long a request line with its headers may take to come in, and a TLS handshake. Much less, and a machine under
    load cuts its own kube-scheduler off; more lets silent callers keep connections."""

    body_timeout_seconds: float = Field(default=15.0, gt=0)
    """How long a body may take to come in, and how long a caller may leave an answer unread. A body takes milliseconds
    over loopback, 42 MB at 100 Mbit/s about 4 s."""

    connection_limit: int = Field(default=20_000, ge=16)
    """Most connections at once, on each listener. Every held bind has its own, so keep it above bind_limit; the process
    may need as many files (`ulimit -n`)."""

    bind_limit: int = Field(default=16_384, ge=1)
    """Most bind calls at once, held ones included; one more is refused. Fewer than the members of the largest gang, and
    that gang can never start; a held one takes some 15 kB."""

    call_limit: int = Field(default=64, ge=1)
    """Most calls of filter at once; the same for prioritize and preempt. kube-scheduler makes one at a time, but may
    have given up on some that are still being answered."""

    answer_margin_seconds: float = Field(default=1.0, gt=0)
    """How long before http_timeout_seconds a bind call is answered at the latest, so that kube-scheduler hears why it
    failed. Too short, and it only hears of a timeout."""

    certificate_check_seconds: float = Field(default=10.0, gt=0)
    """How often the files of a TLS certificate are read again. They are small; a certificate that is renewed some hours
    before it ends leaves room for any value below that."""

    topology_levels: tuple[TopologyLevel, ...] = ()
    """The tiers of the network, outermost first, each as {name, nodeLabel} and, if measured, {allreduceFactor,
    alltoallFactor}: the share of the network's bandwidth that is left to a gang whose members have nothing closer in
    common. The node itself need not be listed. Empty takes what topology_preset finds. A wrong list places gangs by
    it."""

    topology_preset: Literal[
        "auto", "none", "gke", "eks", "oci", "coreweave", "topograph", "topograph-legacy", "alibaba", "generic"
    ] = "auto"
    """Where the tiers are read from without topology_levels. auto: HyperNodes, else a Topology of Kueue or KAI, else a
    ClusterNetworkTopology, else the known labels that most nodes carry. A name: that cloud's or tool's labels, whatever
    else is there. none: all nodes count as equally near."""

    placement_goal: Literal["bandwidth", "balanced", "capacity"] = "balanced"
    """What a place is chosen for where a faster one breaks up more of what is whole (nodes, halves of them, NVLink
    domains). balanced weighs both in GPUs: what the gang does not do while it waits for its collectives against what
    later gangs cannot use. bandwidth: the fastest place, and of those the one that breaks up least; up to an eighth
    fewer nodes stay whole. capacity: the place that breaks up least, and of those the fastest; gangs of several nodes
    are slower by a tenth."""

    single_pods: Literal["pinned", "ranked"] = "pinned"
    """What filter answers for a pod that is a gang of one. pinned: the node planned for it, which is the fastest.
    ranked: all offered nodes that have room for it by the same rules, and prioritize ranks them by what the plan was
    made by, so that kube-scheduler's own preferences count too (preferred affinity, spread, images). Then every pod
    costs kube-scheduler a look at all nodes, and it may bind where Muster would not. Gangs of several stay pinned."""

    ignored_resources: tuple[str, ...] = ()
    """Extended resources that another extender accounts for, as it has kube-scheduler ignore them
    (`managedResources` with `ignoredByScheduler`). Muster counts one of them as long as any node has some of it, and
    leaves it to the other where none has. Those of HAMi are known and need not be listed. Of a name that is missing
    Muster says that no node has it; one that no other accounts for lets pods start without it."""

    device_class_mappings: tuple[DeviceClassMapping, ...] = ()
    """By which resources Queues have quota for devices, each as {name, deviceClassNames}: what Kueue's configuration
    calls deviceClassMappings. What claims ask for of these classes is charged to the Queue under that name too, beside
    the class's extendedResourceName and deviceclass.resource.kubernetes.io/CLASS, and so is what pods ask for by the
    extendedResourceName. Without a mapping these two names are all. A class that does not exist is told in the log."""

    calibration_config_map: str = Field(
        default="muster-system/muster-calibration",
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-.a-z0-9]*[a-z0-9])?$",
    )
    """ConfigMap with measured bandwidths, as NAMESPACE/NAME: what `muster calibrate` prints. It need not exist. Under
    another name or in another namespace, Muster needs the right to read it there (Role muster:calibration-reader)."""

    recording_megabytes: int = Field(default=32, ge=0, le=4096)
    """How much memory the recording may take from which `muster snapshot save` makes a file that `muster replay` plays:
    all that was seen, asked and decided since this process started. When it is full it ends, and begins again with the
    next start; 32 MB hold about a million inputs. 0 records nothing."""

    @field_validator("ignored_resources")
    @classmethod
    def _extended_resources(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        """Refuse names that no extender may account for alone: CPUs, memory and pods are the kubelet's."""
        for name in names:
            if "/" not in name:
                msg = f"{name!r} is no extended resource (example: nvidia.com/gpumem)"
                raise ValueError(msg)
        return names

    @field_validator("history_store")
    @classmethod
    def _store(cls, where: str) -> str:
        """Refuse databases that are not supported, and passwords: settings are logged."""
        scheme, found, rest = where.partition("://")
        if found and scheme not in {"postgres", "postgresql"}:
            raise ValueError("expected the path of a file, or postgresql://USER@HOST/DATABASE")
        if found and (":" in rest.rpartition("@")[0] or "password=" in rest):
            raise ValueError("settings are logged: give the password by PGPASSWORD or PGPASSFILE")
        return where

    @field_validator("provisioning_parameters")
    @classmethod
    def _parameters(cls, parameters: tuple[str, ...]) -> tuple[str, ...]:
        """Refuse what is no KEY=VALUE, and keys that are there twice."""
        keys = [each.partition("=")[0] for each in parameters]
        for key, text in zip(keys, parameters, strict=True):
            if "=" not in text or not key or keys.count(key) > 1:
                msg = f"{text!r} is no KEY=VALUE of a key of its own (example: maxRunDurationSeconds=86400)"
                raise ValueError(msg)
        return parameters

    @field_validator("device_class_mappings")
    @classmethod
    def _one_name_for_each_class(cls, mappings: tuple[DeviceClassMapping, ...]) -> tuple[DeviceClassMapping, ...]:
        """Refuse two names for one class, two mappings of one name, and names that count no devices."""
        mapped: dict[str, str] = {}
        names: set[str] = set()
        for index, mapping in enumerate(mappings):
            place = f"mapping {index} ({mapping.name})"
            if mapping.name in _NO_DEVICES or mapping.name.startswith("hugepages-"):
                msg = f"{place}: name: counts no devices"
                raise ValueError(msg)
            if mapping.name in names:
                msg = f"{place}: name: is that of another mapping too; list all its classes in one"
                raise ValueError(msg)
            names.add(mapping.name)
            for each in mapping.device_class_names:
                if _CLASS_NAME.fullmatch(each) is None:
                    msg = f"{place}: deviceClassNames: {each!r} is no name of a DeviceClass (example: gpu.nvidia.com)"
                    raise ValueError(msg)
                if each in mapped:
                    msg = f"{place}: deviceClassNames: {each!r} is listed in {mapped[each]}; a class has one name"
                    raise ValueError(msg)
                mapped[each] = place
        return mappings

    @field_validator("topology_levels")
    @classmethod
    def _sound_levels(cls, levels: tuple[TopologyLevel, ...]) -> tuple[TopologyLevel, ...]:
        """Refuse levels that cannot be told apart, or gain bandwidth with distance; leave out the node itself."""
        if levels and levels[-1].node_label == _HOST_LABEL and levels[-1].name in _NODE_NAMES:
            levels = levels[:-1]
        for index, level in enumerate(levels):
            outer = levels[:index]
            if taken := {level.name, level.node_label} & _NO_LEVELS:
                msg = (
                    f"level {index} ({level.name}: {level.node_label}): {min(taken)!r} is a level by itself; leave it "
                    "out, the node always is the innermost domain and the cluster the outermost"
                )
                raise ValueError(msg)
            if level.name in {each.name for each in outer} or level.node_label in {each.node_label for each in outer}:
                msg = f"level {index} ({level.name}: {level.node_label}): name and nodeLabel must differ between levels"
                raise ValueError(msg)
            for key, factor, others in (
                ("allreduceFactor", level.allreduce_factor, [each.allreduce_factor for each in outer]),
                ("alltoallFactor", level.alltoall_factor, [each.alltoall_factor for each in outer]),
            ):
                most = max((each for each in others if each is not None), default=0.0)
                if factor is not None and factor < most:
                    msg = (
                        f"level {index} ({level.name}): {key} {factor:g} is below {most:g} of a level further out: "
                        "levels are listed outermost first, and what is closer is not slower"
                    )
                    raise ValueError(msg)
        return levels

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """Refuse settings that contradict each other."""
        if not self.scheduler_names or not all(self.scheduler_names):
            msg = "scheduler_names: at least one name is needed, and none may be empty"
            raise ValueError(msg)
        if self.topology_levels and self.topology_preset != "auto":
            msg = (
                f"topology_levels and topology_preset ({self.topology_preset}) contradict each other: give a list, or "
                "name a preset"
            )
            raise ValueError(msg)
        if self.bind_hold_seconds >= self.http_timeout_seconds:
            msg = (
                f"bind_hold_seconds ({self.bind_hold_seconds:g}) must be below http_timeout_seconds "
                f"({self.http_timeout_seconds:g}), or kube-scheduler gives up on binds that Muster still holds"
            )
            raise ValueError(msg)
        if self.bind_hold_seconds + self.answer_margin_seconds >= self.http_timeout_seconds:
            msg = (
                f"answer_margin_seconds ({self.answer_margin_seconds:g}) leaves no time to bind after "
                f"bind_hold_seconds ({self.bind_hold_seconds:g}) within http_timeout_seconds "
                f"({self.http_timeout_seconds:g})"
            )
            raise ValueError(msg)
        if self.bodies_limit_bytes < self.body_limit_bytes:
            msg = (
                f"bodies_limit_bytes ({self.bodies_limit_bytes}) must not be below body_limit_bytes "
                f"({self.body_limit_bytes}), or bodies that are allowed are refused"
            )
            raise ValueError(msg)
        if self.connection_limit < self.bind_limit:
            msg = (
                f"connection_limit ({self.connection_limit}) must not be below bind_limit ({self.bind_limit}): each "
                "held bind has a connection of its own"
            )
            raise ValueError(msg)
        if self.backoff_initial_seconds > self.backoff_max_seconds:
            msg = (
                f"backoff_initial_seconds ({self.backoff_initial_seconds:g}) must not exceed backoff_max_seconds "
                f"({self.backoff_max_seconds:g})"
            )
            raise ValueError(msg)
        return self


#: Settings that are lists of objects, and what these are.
_LISTED: Final[Mapping[str, type[BaseModel]]] = {
    "topology_levels": TopologyLevel,
    "device_class_mappings": DeviceClassMapping,
}


def load_settings(path: Path | None, overrides: Mapping[str, Any]) -> Settings:
    """Read settings from a YAML file, then apply `overrides` (from the command line).

    Raises SettingsError naming the file, the key and the value.
    """
    values: dict[str, Any] = {}
    if path is not None:
        try:
            documents = load_documents(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:  # ValueError: not UTF-8, or not YAML
            msg = f"{path}: {error}"
            raise SettingsError(msg) from error
        if len(documents) > 1:
            msg = f"{path}: expected a single document, found {len(documents)}"
            raise SettingsError(msg)
        document = documents[0] if documents else None
        if document is not None and not isinstance(document, dict):
            msg = f"{path}: expected a mapping of settings, found {type(document).__name__}"
            raise SettingsError(msg)
        values.update(document or {})
    values.update(overrides)
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        lines = [_describe(details, path, overrides) for details in error.errors()]
        raise SettingsError("\n".join(lines)) from error


def missing_classes(settings: Settings, exists: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
    """Yield the place and the name of each DeviceClass that the settings name and that does not exist.

    Muster works on without it, as a driver may be installed later.
    """
    for index, mapping in enumerate(settings.device_class_mappings):
        for at, name in enumerate(mapping.device_class_names):
            if not exists(name):
                yield f"device_class_mappings.{index}.deviceClassNames.{at}", name


def _describe(details: ErrorDetails, path: Path | None, overrides: Mapping[str, Any]) -> str:
    """Say where a refused value stands, what it is and what is wrong with it."""
    if not details["loc"]:  # settings that contradict each other; the message names them
        return f"{path or _COMMAND_LINE}: {details['msg'].removeprefix('Value error, ')}"
    key = str(details["loc"][0])
    source = _COMMAND_LINE if path is None or key in overrides else path
    message = details["msg"].removeprefix("Value error, ")
    if details["type"] == "extra_forbidden":
        *outer, wrong = map(str, details["loc"])
        model = _LISTED.get(outer[0], Settings) if outer else Settings
        known = [field.alias or name for name, field in model.model_fields.items()]
        similar = get_close_matches(wrong, known, n=1)
        message = f"there is no such setting; did you mean {similar[0]}?" if similar else "there is no such setting"
    shown = repr(details["input"])
    if key == "history_store":
        shown = "what is not shown"
    if len(shown) > _MOST_SHOWN:
        shown = f"{shown[:_MOST_SHOWN]}..."
    return f"{source}: {'.'.join(map(str, details['loc']))}: {message} (got {shown})"
