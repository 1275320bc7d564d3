"""What a pod takes from its node: the effective request, as kube-scheduler computes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from extender.domain.quantity import QuantityError, amount
from extender.wire import kubernetes as wire

#: Resources that a pod-level `resources` stanza may set. Source: k8s.io/component-helpers/resource
#: SupportedPodLevelResources.
_POD_LEVEL = ("cpu", "memory")
_POD_LEVEL_PREFIX = "hugepages-"

#: The resource of which every pod takes one. Source: NodeResourcesFit checks allocatable `pods`.
PODS = "pods"

Amounts = Mapping[str, int]
"""Resource name -> milli-CPU, bytes or count."""


def read_amounts(quantities: wire.ResourceList | None, field: str) -> dict[str, int]:
    """Turn a resource list into amounts; raise QuantityError naming `field` and the resource."""
    amounts = {}
    for resource, quantity in (quantities or {}).items():
        try:
            amounts[resource] = amount(resource, quantity)
        except QuantityError as error:
            msg = f"{field}.{resource}: {error}"
            raise QuantityError(msg) from error
    return amounts


def effective_request(pod: wire.Pod) -> dict[str, int]:
    """Return what `pod` takes from its node, itself counted under `pods`; zero amounts are left out.

    Per resource: the larger of the sum over containers and the peak over init containers, sidecars counted in both
    (KEP-753); the largest of spec, allocated and actuated while a resize is under way (KEP-1287); pod-level requests
    replace the aggregate (KEP-2837); overhead comes on top (KEP-688). Source:
    k8s.io/component-helpers/resource.PodRequests 0.37.

    Raises QuantityError naming the field.
    """
    spec = pod.spec or wire.PodSpec()
    status = pod.status or wire.PodStatus()
    total = _aggregate(spec, {})
    granted = {s.name: s for s in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))}
    if any(s.allocated_resources or (s.resources and s.resources.requests) for s in granted.values()):
        _raise_to(total, _aggregate(spec, granted))
    if spec.resources is not None:
        for resource, value in read_amounts(spec.resources.requests, "spec.resources.requests").items():
            if resource in _POD_LEVEL or resource.startswith(_POD_LEVEL_PREFIX):
                total[resource] = value
    _add(total, read_amounts(spec.overhead, "spec.overhead"))
    total[PODS] = 1
    return {resource: value for resource, value in total.items() if value > 0}


def _aggregate(spec: wire.PodSpec, granted: Mapping[str | None, wire.ContainerStatus]) -> dict[str, int]:
    """Combine containers, init containers and sidecars into one request."""
    total: dict[str, int] = {}
    for index, container in enumerate(spec.containers or ()):
        _add(total, _container(container, granted, f"spec.containers[{index}]"))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for index, container in enumerate(spec.init_containers or ()):
        request = _container(container, granted, f"spec.initContainers[{index}]")
        if container.restart_policy == "Always":
            _add(total, request)
            _add(sidecars, request)
            _raise_to(peak, sidecars)
        else:
            _add(request, sidecars)
            _raise_to(peak, request)
    _raise_to(total, peak)
    return total


def _container(
    container: wire.Container, granted: Mapping[str | None, wire.ContainerStatus], field: str
) -> dict[str, int]:
    """Return one container's request, raised to what the kubelet granted or actuated."""
    resources = container.resources or wire.Resources()
    request = read_amounts(resources.requests, f"{field}.resources.requests")
    status = granted.get(container.name)
    if status is not None:
        _raise_to(request, read_amounts(status.allocated_resources, "status.allocatedResources"))
        if status.resources is not None:
            _raise_to(request, read_amounts(status.resources.requests, "status.resources.requests"))
    return request


def _add(total: dict[str, int], more: Amounts) -> None:
    for resource, value in more.items():
        total[resource] = total.get(resource, 0) + value


def _raise_to(total: dict[str, int], floor: Amounts) -> None:
    for resource, value in floor.items():
        total[resource] = max(total.get(resource, 0), value)


def add_amounts(parts: Iterable[Amounts]) -> dict[str, int]:
    """Sum amounts resource by resource."""
    total: dict[str, int] = {}
    for part in parts:
        _add(total, part)
    return total
