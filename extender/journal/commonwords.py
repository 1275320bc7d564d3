"""Words that say nothing of whose cluster it is: those of Kubernetes, of hardware, and of programs beside Muster.

A snapshot without names keeps them, since decisions depend on what they mean. A word is kept only as a whole: what a
tenant writes below a known domain, as in `nvidia.com/our-project`, is a name like any other.
"""

from __future__ import annotations

import re
from typing import Final

from extender.hardware.links import POLICY_LABEL
from extender.hardware.products import ACCELERATOR_LABEL, INSTANCE_LABEL, PRODUCT_LABELS, REPLICAS_LABEL
from extender.objects.hami import HAMI_PARTS
from extender.objects.keys import ADMISSION_GATE, KNOWN_ANNOTATIONS, KNOWN_LABELS
from extender.objects.levels import HOST_LABELS, LEVEL_NAMES
from extender.objects.node import CLIQUE_LABEL, READY
from extender.objects.podspec import DOOM, DRAIN, LOST
from extender.objects.requests import GPU_RESOURCES
from extender.objects.sources.table import SOURCES
from extender.objects.sources.volcano import ROLE_LABELS
from extender.objects.workload import MANAGE_JOBS
from extender.settings import LOST_CONDITIONS, LOST_TAINTS

#: Labels whose values say what a node is, not which.
TELLING: Final = frozenset(
    {
        *(*PRODUCT_LABELS, ACCELERATOR_LABEL, INSTANCE_LABEL, REPLICAS_LABEL, POLICY_LABEL, MANAGE_JOBS),
        *("kubernetes.io/arch", "kubernetes.io/os"),
    }
)
#: Keys of labels, taints, gates and conditions that Muster reads, or that every cluster has.
KEYS: Final = frozenset(
    {
        *(*TELLING, *LEVEL_NAMES, *HOST_LABELS, *DOOM, *ROLE_LABELS, *LOST_CONDITIONS, *LOST_TAINTS),
        *(*KNOWN_LABELS, *KNOWN_ANNOTATIONS),
        *(ADMISSION_GATE, CLIQUE_LABEL, DRAIN, LOST, READY, "muster.dev/often-lost", "kubernetes.io/metadata.name"),
        *(key for each in SOURCES for key in (each.label, *each.gang_keys, *each.role_keys) if key),
        *("topology.kubernetes.io/region", "topology.kubernetes.io/zone", "karpenter.sh/nodepool"),
        *("node-role.kubernetes.io/control-plane", "node.cloudprovider.kubernetes.io/uninitialized"),
        *("nvidia.com/gpu", "amd.com/gpu", "kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology"),
        *(
            f"node.kubernetes.io/{what}"
            for what in (
                *("disk-pressure", "memory-pressure", "network-unavailable", "not-ready", "out-of-service"),
                *("pid-pressure", "unreachable", "unschedulable"),
            )
        ),
    }
)
_RESOURCES: Final = frozenset({"cpu", "memory", "pods", "ephemeral-storage", *GPU_RESOURCES, *HAMI_PARTS})
_RESOURCE: Final = re.compile(r"hugepages-[0-9]+[KMGT]i|nvidia\.com/mig-[0-9]g\.[0-9]{1,3}gb")

#: Drivers and DeviceClasses of Dynamic Resource Allocation, and what these drivers call attributes and capacities.
DRIVERS: Final = frozenset({"gpu.nvidia.com", "mig.nvidia.com", "compute-domain.nvidia.com", "gpu.amd.com"})
#: Attributes whose values say what a device is, not which.
PRODUCTS: Final = frozenset({"architecture", "brand", "family", "productName", "profile", "partitionProfile", "type"})
_DEVICE_WORDS: Final = PRODUCTS | DRIVERS | {
    *("resource.kubernetes.io", "cudaComputeCapability", "cudaDriverVersion", "driverVersion", "cores", "memory"),
    *("index", "minor", "numa", "numaNode", "parentIndex", "parentUUID", "pcieRoot", "uuid"),
}  # fmt: skip
#: Names in CEL expressions that are CEL's, or Kubernetes'.
_EXPRESSION_WORDS: Final = frozenset(
    {
        *("add", "all", "allowMultipleAllocations", "asApproximateFloat", "asInteger", "attributes"),
        *("attributesOrNone", "bind", "bool", "bytes", "capacity", "capacityOrNone", "cel", "charAt", "compareTo"),
        *("contains", "device", "double", "driver", "duration", "dyn", "endsWith", "exists", "exists_one", "false"),
        *("filter", "find", "findAll", "format", "has", "hasValue", "in", "indexOf", "int", "isGreaterThan"),
        *("isInteger", "isLessThan", "isQuantity", "isSemver", "isSorted", "join", "lastIndexOf", "list"),
        *("lowerAscii", "major", "map", "matches", "max", "min", "minor", "none", "null", "of", "ofNonZeroValue"),
        *("optFlatMap", "optMap", "optional", "or", "orValue", "patch", "quantity", "replace", "semver", "sets"),
        *("sign", "size", "sort", "split", "startsWith", "string", "sub", "substring", "sum", "timestamp"),
        *("transformList", "transformMap", "transformMapEntry", "trim", "true", "type", "uint", "upperAscii"),
        *("value"),
    }
)
#: Versions, quantities, numbers.
_FIGURE: Final = re.compile(r"v?[0-9][0-9.]*(?:[KMGTPE]i?|[mk])?")
#: Cells of tables of links, and what the tables of device plugins call their parts.
_LINK_WORD: Final = re.compile(
    r"X|NV[0-9]{1,2}|SYS|NODE|PHB|PXB|PIX|numa|true|false|null|id|index|devmem|devcore|health|uuid|score|minors"
)
#: Made by machines: UUIDs, addresses on a PCI bus, numbers.
_MADE: Final = re.compile(
    r"(?:GPU-|MIG-)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|pci[0-9a-f]{4}:[0-9a-f]{2}|[0-9]{1,10}"
)

#: Words of fields that have few, and of which any other is a name.
EFFECTS: Final = frozenset({"", "NoSchedule", "NoExecute", "PreferNoSchedule"})
OPERATORS: Final = frozenset({"", "Equal", "Exists", "Lt", "Gt"})
SCHEDULERS: Final = frozenset({"muster", "default-scheduler"})
METHODS: Final = frozenset({"", "all", "with-exclusive-resources"})
PHASES: Final = frozenset({"Pending", "Scheduling", "Scheduled", "Running", "Finished", "Failed", "Unknown"})
CLASSES: Final = frozenset(
    {"", "best-effort-atomic-scale-up.autoscaling.x-k8s.io", "check-capacity.autoscaling.x-k8s.io"}
)

_GROUPS: Final = frozenset(
    {
        *("", "apps", "autoscaling.x-k8s.io", "batch", "kueue.x-k8s.io", "muster.dev", "policy", "resource.k8s.io"),
        *("kai.scheduler", "grove.io", "resource.nvidia.com", "scheduling.koordinator.sh", "topology.volcano.sh"),
        *("topology.node.k8s.io", "scheduling.k8s.io", "leaderworkerset.x-k8s.io"),
        *(kind.group for source in SOURCES for kind in source.kinds),
    }
)
_KINDS: Final = frozenset(
    {
        *("ConfigMap", "ComputeDomain", "CronJob", "DaemonSet", "Deployment", "Device", "HyperNode", "Job", "Node"),
        *("NodeResourceTopology", "Pod", "Queue", "ReplicaSet", "StatefulSet", "Topology", "ClusterTopologyBinding"),
        *("ClusterNetworkTopology", "ProvisioningRequest", "ResourceClaim", "pods"),
        *(kind.kind for source in SOURCES for kind in source.kinds),
    }
)
_VERSION: Final = re.compile(r"v[0-9]+(?:(?:alpha|beta)[0-9]+)?")


def is_common_resource(name: str) -> bool:
    """Tell whether a resource is one that clusters of many have."""
    return name in _RESOURCES or _RESOURCE.fullmatch(name) is not None


def is_common_device_word(word: str) -> bool:
    """Tell whether a word about devices is a known driver's, a figure, or made by a machine."""
    return word in _DEVICE_WORDS or _FIGURE.fullmatch(word) is not None or is_made(word)


def is_common_in_expressions(name: str) -> bool:
    """Tell whether a name in a CEL expression is the language's own; a single letter tells nothing."""
    return len(name) == 1 or name in _EXPRESSION_WORDS or name in _DEVICE_WORDS


def is_link_word(word: str) -> bool:
    """Tell whether a word of a table of links is one that such tables have."""
    return _LINK_WORD.fullmatch(word) is not None or is_made(word)


def is_made(text: str) -> bool:
    """Tell whether a text is an identifier as machines make them."""
    return _MADE.fullmatch(text) is not None


def is_common_kind(kind: str) -> bool:
    """Tell whether a kind of objects, or its collection, is one that clusters of many have."""
    return kind in _KINDS


def is_common_version(api_version: str) -> bool:
    """Tell whether the version of an API is of a group that clusters of many have."""
    group, _, version = api_version.rpartition("/")
    return group in _GROUPS and _VERSION.fullmatch(version) is not None
