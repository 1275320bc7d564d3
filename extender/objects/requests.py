"""What a pod requests of its node, as kube-scheduler computes it; quantities as exact numbers and as integers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_UP, Context, Decimal
from enum import StrEnum
from functools import lru_cache
from typing import TypeAlias, TypeVar

from extender.objects.meta import ResourceList
from extender.objects.podspec import Container, ContainerStatus, PodObject, PodSpec, PodStatus, Resources
from extender.objects.reason import Problem

#: Suffixes and their factors. Source: k8s.io/apimachinery/pkg/api/resource, the Quantity grammar.
_SUFFIXES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
_GRAMMAR = re.compile(
    r"(?P<sign>[+-]?)(?P<number>\d+\.?\d*|\.\d+)(?P<suffix>[eE][+-]?0*\d{1,3}|[KMGTPE]i|[numkMGTPE]?)", re.ASCII
)

#: The finest decimal place of a quantity; what is finer rounds away from zero. Source: resource.ParseQuantity.
_FINEST = -9
_BILLIONTHS = 10**9
_BILLIONTHS_PER_MILLI = 10**6

#: Quantities in use are shorter, and these shorter ones stay exact in `_EXACT` whatever their suffix.
_MAX_LENGTH = 64
_EXACT = Context(prec=2 * _MAX_LENGTH, rounding=ROUND_UP)

#: Amounts are int64 columns in the cluster model. Go caps or wraps what is larger; Muster refuses it.
MAX_AMOUNT = 2**63 - 1


class QuantityError(ValueError):
    """A quantity that cannot be read or makes no sense where it stands."""


def parse_quantity(text: str) -> Decimal:
    """Read a Kubernetes quantity such as `500m`, `64Gi`, `1e3` or `-1`; raise QuantityError if it is none.

    The result is exact down to a billionth. Unlike Go, which takes them for zero, a suffix or sign without any digit
    is refused.
    """
    if len(text) > _MAX_LENGTH:
        msg = f"{text[:_MAX_LENGTH]!r}... is longer than the {_MAX_LENGTH} characters that a quantity may have"
        raise QuantityError(msg)
    return _parse(text)


@lru_cache(maxsize=4096)
def _parse(text: str) -> Decimal:
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        msg = f"{text!r} is not a quantity (examples: 8, 500m, 64Gi)"
        raise QuantityError(msg)
    suffix = match["suffix"]
    factor = _SUFFIXES.get(suffix) or Decimal(f"1{suffix}")
    number = _EXACT.multiply(Decimal(match["number"]), factor)
    if int(number.as_tuple().exponent) < _FINEST:
        number = _EXACT.quantize(number, Decimal(1).scaleb(_FINEST))
    return -number if match["sign"] == "-" else number


@lru_cache(maxsize=4096)
def billionths(quantity: str | float) -> int:
    """Return the exact billionths of a quantity that is asked for or offered.

    Raises QuantityError for text that is no quantity, or a negative one.
    """
    value = signed_billionths(quantity)
    if value < 0:
        msg = f"'{quantity}' is negative"
        raise QuantityError(msg)
    return value


def signed_billionths(quantity: str | float) -> int:
    """Return the exact billionths of any quantity; raise QuantityError for text that is none."""
    return int(_EXACT.scaleb(parse_quantity(str(quantity)), -_FINEST))


def whole_units(resource: str, value: int) -> int:
    """Turn billionths of `resource` into the integer unit of the cluster model, rounding up as kube-scheduler does.

    CPU becomes milli-CPU; memory, storage and hugepages bytes; everything else counts. Raises QuantityError beyond
    int64.
    """
    units = _units(resource, value)
    if units > MAX_AMOUNT:
        msg = f"{Decimal(value).scaleb(_FINEST):.4g} exceeds 2^63 - 1"
        raise QuantityError(msg)
    return units


def _units(resource: str, value: int) -> int:
    return -(-value // (_BILLIONTHS_PER_MILLI if resource == "cpu" else _BILLIONTHS))


@lru_cache(maxsize=4096)
def amount(resource: str, quantity: str | float) -> int:
    """Turn a quantity as written into milli-CPU, bytes or a count, rounding up.

    Raises QuantityError for text that is no quantity, a negative one, or one beyond int64.
    """
    return whole_units(resource, billionths(quantity))


def format_amount(resource: str, value: int) -> str:
    """Write an amount of the cluster model for people: `1500m` CPU, `64Gi` of memory, plain counts."""
    if resource == "cpu":
        return str(value // 1000) if value % 1000 == 0 else f"{value}m"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        for suffix in ("Ti", "Gi", "Mi", "Ki"):
            factor = int(_SUFFIXES[suffix])
            if value >= factor and value % factor == 0:
                return f"{value // factor}{suffix}"
    return str(value)


#: Resources that a pod-level `resources` stanza may set. Source: component-helpers/resource SupportedPodLevelResources.
_POD_LEVEL = ("cpu", "memory")
_POD_LEVEL_PREFIX = "hugepages-"

#: The resource of which every pod takes one. Source: NodeResourcesFit checks allocatable `pods`.
PODS = "pods"

#: How the name of a resource ends that counts as GPUs: nvidia.com/gpu, amd.com/gpu.
_GPU_SUFFIX = "/gpu"

#: What each DeviceClass can be asked for by as an extended resource, whatever else it names.
#: Source: k8s.io/api/resource/v1 ResourceDeviceClassPrefix.
CLASS_RESOURCE_PREFIX = "deviceclass.resource.kubernetes.io/"

#: What is in the names of what is only counted with what is asked for; no resource can be called so.
_ONLY_COUNTED = "  "
#: Between the names of demands that are counted together.
TOGETHER = "  or  "
#: How the names begin of what counts pods by claims that are tried as a whole.
TRIAL_PREFIX = "muster.dev/claims  "

#: What counts the whole GPUs of ResourceSlices for which no GPU resource stands; no resource can be called so.
SLICE_GPUS = "of ResourceSlices/gpu"

#: Resources that count whole GPUs of known products. Sources: NVIDIA's and AMD's device plugins.
GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", SLICE_GPUS)

#: What no node has: GPUs, and anything else (milli-CPU, bytes, counts). Pods are read as asking for so much at most:
#: whatever 65,000 of them ask for on one node adds up within int64, and a list of one pod's GPUs is small.
MOST_GPUS = 2**20
MOST_AMOUNT = 2**47

T = TypeVar("T")

_Exact: TypeAlias = dict[str, int]
"""Resource name -> billionths: kube-scheduler adds first and rounds the sum."""

_Located: TypeAlias = tuple[ResourceList | None, str]
"""A resource list and its path in the pod."""


class ResourceListError(QuantityError):
    """A resource list that holds an unusable quantity; `problem` says where and why."""

    def __init__(self, field: str, message: str) -> None:
        self.problem = Problem(field, message)
        super().__init__(str(self.problem))


def most_of(resource: str) -> int:
    """Return the amount of `resource` that no node has; a request of more is cut to it."""
    return MOST_GPUS if resource.endswith(_GPU_SUFFIX) else MOST_AMOUNT


def is_extended(resource: str) -> bool:
    """Tell whether a resource is an extended one (`vendor/name`): accelerators above all."""
    return "/" in resource


def is_asked_for(resource: str) -> bool:
    """Tell whether a resource can be asked for by its name: others are only counted with."""
    return _ONLY_COUNTED not in resource and resource != SLICE_GPUS


def is_gpu(resource: str) -> bool:
    """Tell whether a resource counts GPUs; devices of a class do not, which are counted as GPUs beside that."""
    return resource.endswith(_GPU_SUFFIX) and not resource.startswith(CLASS_RESOURCE_PREFIX)


def count_gpus(amounts: Iterable[tuple[str, int]]) -> int:
    """Return how many GPUs, of any make, there are among amounts of resources."""
    return sum(amount for resource, amount in amounts if is_gpu(resource))


def read_amounts(quantities: ResourceList | None, field: str) -> dict[str, int]:
    """Turn a resource list into amounts; raise ResourceListError naming `field` and the resource."""
    return _convert(quantities, field, amount)


def read_requests(quantities: ResourceList | None, field: str) -> dict[str, int]:
    """Turn a container's requests into amounts, each cut to `most_of` its resource.

    Raises ResourceListError naming `field` and the resource.
    """
    return _convert(quantities, field, lambda resource, quantity: _bounded(resource, billionths(quantity)))


def effective_request(pod: PodObject) -> dict[str, int]:
    """Return what `pod` takes from its node, itself counted under `pods`; zero amounts are left out.

    An amount is cut to `most_of` its resource; `excess` says of which field that is.

    Per resource: the larger of the sum over containers and the peak over init containers, sidecars counted in both
    (KEP-753); while a resize is under way the largest of what is asked for, allocated and actuated (KEP-1287);
    pod-level requests replace the aggregate (KEP-2837); overhead comes on top (KEP-688). Source:
    k8s.io/component-helpers/resource.PodRequests 0.37 as kube-scheduler calls it with its default feature gates.

    Raises ResourceListError naming the field.
    """
    spec = pod.spec or PodSpec()
    status = pod.status or PodStatus()
    resize = _Resize.of(status)
    total = _all_containers(spec, status, resize)
    total.update(_pod_level(spec, status, resize))
    _add(total, _read(spec.overhead, "spec.overhead"))
    request = {resource: _bounded(resource, value) for resource, value in total.items()}
    request[PODS] = 1
    return {resource: value for resource, value in request.items() if value > 0}


def excess(pod: PodObject, request: Mapping[str, int]) -> Problem | None:
    """Return which field of `pod` asks for more than any node has, None if none does.

    `request` is its effective request.
    """
    resource = next((each for each, value in request.items() if value >= most_of(each)), None)
    if resource is None:
        return None
    spec = pod.spec or PodSpec()
    asked = [
        (f"{path}[{index}].resources.requests.{resource}", found)
        for path, containers in (("spec.containers", spec.containers), ("spec.initContainers", spec.init_containers))
        for index, container in enumerate(containers or ())
        if (found := (_requests(container.resources) or {}).get(resource)) is not None
    ]
    field, quantity = max(asked, key=lambda each: billionths(each[1]), default=("spec", "the sum of requests"))
    return Problem(field, f"{quantity} of {resource} is more than any node has; counted as {most_of(resource)}")


def _bounded(resource: str, value: int) -> int:
    """Turn billionths into units, `most_of` the resource at most."""
    return min(_units(resource, value), most_of(resource))


@dataclass(frozen=True, slots=True)
class _Resize:
    """What the kubelet says about resources: three views of a container that differ while a resize is under way.

    Source: containerSpecRequests, containerAllocatedRequests and containerActuatedRequests of component-helpers.
    """

    statuses: Mapping[str | None, ContainerStatus]
    infeasible: bool

    @classmethod
    def of(cls, status: PodStatus) -> _Resize:
        """Read a pod's status; the first status of a name counts, and containers go before init containers."""
        statuses = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
        pending = (c.reason for c in status.conditions or () if c.type == "PodResizePending")
        return cls({s.name: s for s in reversed(statuses)}, next(pending, None) == "Infeasible")

    def asked(self, container: Container, path: str) -> _Located:
        """Return what the spec asks for."""
        return _requests(container.resources), f"{path}.resources.requests"

    def allocated(self, container: Container, path: str) -> _Located:
        """Return what the kubelet has granted, else what is asked for if that can still be granted."""
        status = self.statuses.get(container.name)
        if status is not None and status.allocated_resources is not None:
            return status.allocated_resources, f"status.containerStatuses[{container.name}].allocatedResources"
        return (None, path) if self.infeasible else self.asked(container, path)

    def actuated(self, container: Container, path: str) -> _Located:
        """Return what the running container has, else what it has been granted."""
        status = self.statuses.get(container.name)
        running = None if status is None else _requests(status.resources)
        if running is not None:
            return running, f"status.containerStatuses[{container.name}].resources.requests"
        return self.allocated(container, path)

    def under_way(self, spec: PodSpec) -> bool:
        """Tell whether the three views differ: for most pods they do not, and one of them is enough."""
        if self.infeasible or not self.statuses:
            return self.infeasible
        containers = (*(spec.containers or ()), *(spec.init_containers or ()))
        return any(
            (view(container, "")[0] or {}) != (self.asked(container, "")[0] or {})
            for view in (self.allocated, self.actuated)
            for container in containers
        )


def _all_containers(spec: PodSpec, status: PodStatus, resize: _Resize) -> _Exact:
    """Aggregate over containers: the largest of what is asked for, allocated and actuated."""
    total = {} if resize.infeasible else _aggregate(spec, resize.asked)
    running = _requests(status.resources)
    if status.allocated_resources is not None and running is not None:
        _raise_to(total, _read(status.allocated_resources, "status.allocatedResources"))
        _raise_to(total, _read(running, "status.resources.requests"))
    elif resize.under_way(spec):
        _raise_to(total, _aggregate(spec, resize.allocated))
        _raise_to(total, _aggregate(spec, resize.actuated))
    return total


def _aggregate(spec: PodSpec, view: Callable[[Container, str], _Located]) -> _Exact:
    """Combine containers, init containers and sidecars into one request."""
    total: _Exact = {}
    for index, container in enumerate(spec.containers or ()):
        _add(total, _read(*view(container, f"spec.containers[{index}]")))
    sidecars: _Exact = {}
    peak: _Exact = {}
    for index, container in enumerate(spec.init_containers or ()):
        request = _read(*view(container, f"spec.initContainers[{index}]"))
        if container.restart_policy == "Always":
            _add(total, request)
            _add(sidecars, request)
            _raise_to(peak, sidecars)
        else:
            _add(request, sidecars)
            _raise_to(peak, request)
    _raise_to(total, peak)
    return total


def _pod_level(spec: PodSpec, status: PodStatus, resize: _Resize) -> _Exact:
    """Return the requests of the pod as a whole, which replace those of its containers."""
    asked = _read(_requests(spec.resources), "spec.resources.requests")
    if not any(map(_is_pod_level, asked)):
        return {}
    total = asked
    if status.resources is not None:
        total = {} if resize.infeasible else asked
        _raise_to(total, _read(status.resources.requests, "status.resources.requests"))
        _raise_to(total, _read(status.allocated_resources, "status.allocatedResources"))
    return {resource: value for resource, value in total.items() if _is_pod_level(resource)}


def _is_pod_level(resource: str) -> bool:
    return resource in _POD_LEVEL or resource.startswith(_POD_LEVEL_PREFIX)


def _requests(resources: Resources | None) -> ResourceList | None:
    return None if resources is None else resources.requests


def _read(quantities: ResourceList | None, path: str) -> _Exact:
    return _convert(quantities, path, lambda _, quantity: billionths(quantity))


def _convert(quantities: ResourceList | None, path: str, convert: Callable[[str, str | float], T]) -> dict[str, T]:
    converted = {}
    for resource, quantity in (quantities or {}).items():
        try:
            converted[resource] = convert(resource, quantity)
        except QuantityError as error:
            raise ResourceListError(f"{path}.{resource}", str(error)) from error
    return converted


def _add(total: _Exact, more: Mapping[str, int]) -> None:
    for resource, value in more.items():
        total[resource] = total.get(resource, 0) + value


def _raise_to(total: _Exact, floor: Mapping[str, int]) -> None:
    for resource, value in floor.items():
        if resource not in total or value > total[resource]:
            total[resource] = value


#: What QoS classes are about. Source: k8s.io/component-helpers/qos, supportedQoSComputeResources.
_QOS_RESOURCES = ("cpu", "memory")


class Stage(StrEnum):
    """When a container runs: before the others, from then on beside them, or as one of them."""

    INIT = "init"
    SIDECAR = "sidecar"
    APP = "app"


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """What one container asks for: (resource, milli-CPU | bytes | count) in order of the resource's name."""

    requests: tuple[tuple[str, int], ...]
    stage: Stage = Stage.APP


def read_containers(pod: PodObject) -> tuple[ContainerRequest, ...]:
    """Return the containers that ask for anything, in the order in which the kubelet admits them.

    Empty for a pod whose request is that of one container, which is nearly every pod: the pod's request says it all.
    What a resize under way grants beyond the spec is left out. Raises ResourceListError naming the field.
    """
    spec = pod.spec or PodSpec()
    if not spec.init_containers and not spec.overhead and len(spec.containers or ()) == 1:
        return ()
    containers = tuple(
        ContainerRequest(tuple(sorted(requests.items())), stage)
        for path, container, stage in _containers(spec)
        if (requests := _positive(container, path))
    )
    alone = len(containers) == 1 and containers[0].stage is Stage.APP and not spec.overhead
    return () if alone else containers


def is_guaranteed(pod: PodObject) -> bool:
    """Tell whether the kubelet's CPU and memory managers serve the pod: QoS class Guaranteed, container by container.

    A pod with requests of its own is not: both managers pass it over unless the feature gate PodLevelResourceManagers
    is on. Source: component-helpers/qos.ComputePodQOS; cpumanager and memorymanager policy_static.go, 1.36. Requests
    must have been read before. Raises ResourceListError naming a limit that cannot be read.
    """
    spec = pod.spec or PodSpec()
    if spec.resources is not None and (spec.resources.requests or spec.resources.limits):
        return False
    found = False
    for path, container, _ in _containers(spec):
        resources = container.resources
        if resources is None or not resources.limits:
            return False
        requests = resources.requests or {}
        for resource in _QOS_RESOURCES:
            limit = resources.limits.get(resource)
            # The API server writes the limit into a request that is missing; authors of scenarios do not.
            if limit is None or not _same(requests.get(resource, limit), limit, f"{path}.resources.limits.{resource}"):
                return False
        found = True
    return found


def _same(request: str | float, limit: str | float, field: str) -> bool:
    """Tell whether a request is its limit and not nothing; `field` is that of the limit."""
    try:
        exact = billionths(limit)
    except QuantityError as error:
        raise ResourceListError(field, str(error)) from error
    return exact > 0 and (request == limit or billionths(request) == exact)


def _containers(spec: PodSpec) -> Iterator[tuple[str, Container, Stage]]:
    for index, container in enumerate(spec.init_containers or ()):
        stage = Stage.SIDECAR if container.restart_policy == "Always" else Stage.INIT
        yield f"spec.initContainers[{index}]", container, stage
    for index, container in enumerate(spec.containers or ()):
        yield f"spec.containers[{index}]", container, Stage.APP


def _positive(container: Container, path: str) -> dict[str, int]:
    quantities = None if container.resources is None else container.resources.requests
    amounts = read_requests(quantities, f"{path}.resources.requests")
    return {resource: value for resource, value in amounts.items() if value > 0}


def pod_request(containers: Iterable[ContainerRequest]) -> Mapping[str, int]:
    """Return what the containers ask for as a pod: the kubelet's scope `pod` aligns this as one.

    The larger of what runs side by side and the peak of the init containers, each with the sidecars that started
    before it. Source: devicemanager getPodDeviceRequest, cpumanager podGuaranteedCPUs, 1.36.
    """
    running: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in containers:
        if container.stage is Stage.INIT:
            for resource, value in container.requests:
                peak[resource] = max(peak.get(resource, 0), value + running.get(resource, 0))
        else:
            _add(running, dict(container.requests))
    return {r: max(running.get(r, 0), peak.get(r, 0)) for r in sorted(running.keys() | peak.keys())}
