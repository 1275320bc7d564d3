"""What a pod takes from its node: the effective request, as kube-scheduler computes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from extender.domain.quantity import QuantityError, amount, billionths, whole_units
from extender.domain.reason import Problem
from extender.wire import kubernetes as wire

#: Resources that a pod-level `resources` stanza may set. Source: component-helpers/resource SupportedPodLevelResources.
_POD_LEVEL = ("cpu", "memory")
_POD_LEVEL_PREFIX = "hugepages-"

#: The resource of which every pod takes one. Source: NodeResourcesFit checks allocatable `pods`.
PODS = "pods"

#: How the name of a resource ends that counts as GPUs: nvidia.com/gpu, amd.com/gpu.
_GPU_SUFFIX = "/gpu"

T = TypeVar("T")

_Exact: TypeAlias = dict[str, int]
"""Resource name -> billionths: kube-scheduler adds first and rounds the sum."""

_Located: TypeAlias = tuple[wire.ResourceList | None, str]
"""A resource list and its path in the pod."""


class ResourceListError(QuantityError):
    """A resource list that holds a quantity nobody can use; `problem` says where and why."""

    def __init__(self, field: str, message: str) -> None:
        """Carry the problem, and read like it."""
        self.problem = Problem(field, message)
        super().__init__(str(self.problem))


def count_gpus(amounts: Iterable[tuple[str, int]]) -> int:
    """Return how many GPUs, of whatever make, there are among amounts of resources."""
    return sum(amount for resource, amount in amounts if resource.endswith(_GPU_SUFFIX))


def read_amounts(quantities: wire.ResourceList | None, field: str) -> dict[str, int]:
    """Turn a resource list into amounts; raise ResourceListError naming `field` and the resource."""
    return _convert(quantities, field, amount)


def effective_request(pod: wire.Pod) -> dict[str, int]:
    """Return what `pod` takes from its node, itself counted under `pods`; zero amounts are left out.

    Per resource: the larger of the sum over containers and the peak over init containers, sidecars counted in both
    (KEP-753); while a resize is under way the largest of what is asked for, allocated and actuated (KEP-1287);
    pod-level requests replace the aggregate (KEP-2837); overhead comes on top (KEP-688). Source:
    k8s.io/component-helpers/resource.PodRequests 0.37 as kube-scheduler calls it with its default feature gates.

    Raises ResourceListError naming the field.
    """
    spec = pod.spec or wire.PodSpec()
    status = pod.status or wire.PodStatus()
    resize = _Resize.of(status)
    total = _all_containers(spec, status, resize)
    total.update(_pod_level(spec, status, resize))
    _add(total, _read(spec.overhead, "spec.overhead"))
    request = {}
    for resource, value in total.items():
        try:
            request[resource] = whole_units(resource, value)
        except QuantityError as error:
            raise ResourceListError("spec", f"the sum of requests for {resource}: {error}") from error
    request[PODS] = 1
    return {resource: value for resource, value in request.items() if value > 0}


@dataclass(frozen=True, slots=True)
class _Resize:
    """What the kubelet says about resources: three views of a container that differ while a resize is under way.

    Source: containerSpecRequests, containerAllocatedRequests and containerActuatedRequests of component-helpers.
    """

    statuses: Mapping[str | None, wire.ContainerStatus]
    infeasible: bool

    @classmethod
    def of(cls, status: wire.PodStatus) -> _Resize:
        """Read a pod's status; the first status of a name counts, and containers go before init containers."""
        statuses = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
        pending = (c.reason for c in status.conditions or () if c.type == "PodResizePending")
        return cls({s.name: s for s in reversed(statuses)}, next(pending, None) == "Infeasible")

    def asked(self, container: wire.Container, path: str) -> _Located:
        """Return what the spec asks for."""
        return _requests(container.resources), f"{path}.resources.requests"

    def allocated(self, container: wire.Container, path: str) -> _Located:
        """Return what the kubelet has granted, else what is asked for if that can still be granted."""
        status = self.statuses.get(container.name)
        if status is not None and status.allocated_resources is not None:
            return status.allocated_resources, f"status.containerStatuses[{container.name}].allocatedResources"
        return (None, path) if self.infeasible else self.asked(container, path)

    def actuated(self, container: wire.Container, path: str) -> _Located:
        """Return what the running container has, else what it has been granted."""
        status = self.statuses.get(container.name)
        running = None if status is None else _requests(status.resources)
        if running is not None:
            return running, f"status.containerStatuses[{container.name}].resources.requests"
        return self.allocated(container, path)

    def under_way(self, spec: wire.PodSpec) -> bool:
        """Tell whether the three views differ: for most pods they do not, and one of them is enough."""
        if self.infeasible or not self.statuses:
            return self.infeasible
        containers = (*(spec.containers or ()), *(spec.init_containers or ()))
        return any(
            (view(container, "")[0] or {}) != (self.asked(container, "")[0] or {})
            for view in (self.allocated, self.actuated)
            for container in containers
        )


def _all_containers(spec: wire.PodSpec, status: wire.PodStatus, resize: _Resize) -> _Exact:
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


def _aggregate(spec: wire.PodSpec, view: Callable[[wire.Container, str], _Located]) -> _Exact:
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


def _pod_level(spec: wire.PodSpec, status: wire.PodStatus, resize: _Resize) -> _Exact:
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


def _requests(resources: wire.Resources | None) -> wire.ResourceList | None:
    return None if resources is None else resources.requests


def _read(quantities: wire.ResourceList | None, path: str) -> _Exact:
    return _convert(quantities, path, lambda _, quantity: billionths(quantity))


def _convert(quantities: wire.ResourceList | None, path: str, convert: Callable[[str, str | float], T]) -> dict[str, T]:
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
