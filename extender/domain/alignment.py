"""What the kubelet's resource managers see of a pod: its containers one by one, and whether they get their own CPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from extender.domain.quantity import QuantityError, billionths
from extender.domain.requests import ResourceListError, read_amounts
from extender.wire import kubernetes as wire

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


def read_containers(pod: wire.Pod) -> tuple[ContainerRequest, ...]:
    """Return the containers that ask for anything, in the order in which the kubelet admits them.

    Empty for a pod whose request is that of one container, which is nearly every pod: the pod's request says it all.
    What a resize under way grants beyond the spec is left out. Raises ResourceListError naming the field.
    """
    spec = pod.spec or wire.PodSpec()
    if not spec.init_containers and not spec.overhead and len(spec.containers or ()) == 1:
        return ()
    containers = tuple(
        ContainerRequest(tuple(sorted(requests.items())), stage)
        for path, container, stage in _containers(spec)
        if (requests := _positive(container, path))
    )
    alone = len(containers) == 1 and containers[0].stage is Stage.APP and not spec.overhead
    return () if alone else containers


def is_guaranteed(pod: wire.Pod) -> bool:
    """Tell whether the kubelet's CPU and memory managers serve the pod: QoS class Guaranteed, container by container.

    A pod with requests of its own is not: both managers pass it over unless the feature gate PodLevelResourceManagers
    is on. Source: component-helpers/qos.ComputePodQOS; cpumanager and memorymanager policy_static.go, 1.36. Requests
    must have been read before. Raises ResourceListError naming a limit that cannot be read.
    """
    spec = pod.spec or wire.PodSpec()
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
            # The API server writes the limit into a request that is missing; people who write scenarios do not.
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


def _containers(spec: wire.PodSpec) -> Iterator[tuple[str, wire.Container, Stage]]:
    for index, container in enumerate(spec.init_containers or ()):
        stage = Stage.SIDECAR if container.restart_policy == "Always" else Stage.INIT
        yield f"spec.initContainers[{index}]", container, stage
    for index, container in enumerate(spec.containers or ()):
        yield f"spec.containers[{index}]", container, Stage.APP


def _positive(container: wire.Container, path: str) -> dict[str, int]:
    quantities = None if container.resources is None else container.resources.requests
    amounts = read_amounts(quantities, f"{path}.resources.requests")
    return {resource: value for resource, value in amounts.items() if value > 0}


def _add(total: dict[str, int], more: Iterable[tuple[str, int]]) -> None:
    for resource, value in more:
        total[resource] = total.get(resource, 0) + value


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
            _add(running, container.requests)
    return {r: max(running.get(r, 0), peak.get(r, 0)) for r in sorted(running.keys() | peak.keys())}
