"""The Topology Manager of one simulated kubelet: merge the hints of its managers, admit a pod or turn it away.

Written the way the kubelet is, and on purpose not the way Muster predicts it: each checks the other. Source:
k8s.io/kubernetes pkg/kubelet/cm/topologymanager, release 1.36; policy options are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import reduce

from extender.objects.nodetopology import NodeTopology, TopologyPolicy, TopologyScope, is_device
from extender.objects.pod import Shape
from extender.objects.requests import ContainerRequest, pod_request
from muster_lab.simulation.hints import DO_NOT_CARE, AdmissionError, Hint, Manager, Mask, narrowness
from muster_lab.simulation.resource_managers import CpuManager, DeviceManager, MemoryManager

#: Source: topologymanager.TopologyAffinityError.
_AFFINITY_ERROR = ("TopologyAffinityError", "Resources cannot be allocated with Topology locality")

#: How the names of resources end whose devices are GPUs: nvidia.com/gpu, amd.com/gpu.
_GPUS = "/gpu"


class TopologyManager:
    """Admit pods to one node and remember what they hold."""

    def __init__(self, topology: NodeTopology) -> None:
        self._policy = topology.policy
        self._scope = topology.scope
        self._all = frozenset(zone.id for zone in topology.zones)
        zones = topology.zones
        names = {resource for zone in zones for resource in zone.allocatable if topology.lists(resource)}
        self._devices = [DeviceManager(resource, zones) for resource in sorted(filter(is_device, names))]
        self._exclusive: list[Manager] = []
        if topology.managers.cpu_static is not False and "cpu" in names:
            self._exclusive.append(CpuManager(zones))
        if topology.managers.memory_static:
            self._exclusive.append(MemoryManager(zones))

    def admit(self, uid: str, shape: Shape) -> None:
        """Give a pod what it asks for; raise AdmissionError, after which it holds nothing."""
        managers, containers = self._serving(shape), _containers(shape)
        for manager in managers:
            manager.begin()
        try:
            whole = (
                self._affinity(managers, _as_one(managers, containers)) if self._scope is TopologyScope.POD else None
            )
            for container in containers:
                asked = [manager.asked(container) for manager in managers]
                affinity = whole if self._scope is TopologyScope.POD else self._affinity(managers, asked)
                for manager, request in zip(managers, asked, strict=True):
                    manager.allocate(uid, request, container.stage, affinity)
        except AdmissionError:
            self.release(uid)
            raise

    def adopt(self, uid: str, shape: Shape, gpus: Collection[int], zones: Collection[int]) -> None:
        """Account for a pod that runs already, whatever the policy and as far as there is room.

        `gpus` and `zones` are what it is known to hold; where they are empty it is given the next best.
        """
        claimed = self._gpus(shape) if gpus else None
        if claimed is not None:
            claimed.claim(uid, gpus)
        managers = [manager for manager in self._serving(shape) if manager is not claimed]
        for manager in managers:
            manager.begin()
            for container in _containers(shape):
                with suppress(AdmissionError):
                    manager.allocate(uid, manager.asked(container), container.stage, frozenset(zones) or None)

    def release(self, uid: str) -> None:
        """Take back all that a pod holds."""
        for manager in (*self._devices, *self._exclusive):
            manager.release(uid)

    def held(self, uid: str) -> dict[int, dict[str, int]]:
        """Return what a pod holds, by zone and resource, in milli-CPU, bytes and counts."""
        total: dict[int, dict[str, int]] = {}
        for manager in (*self._devices, *self._exclusive):
            for zone, amounts in manager.held(uid).items():
                total.setdefault(zone, {}).update(amounts)
        return total

    def gpus(self, uid: str, shape: Shape) -> tuple[int, ...]:
        """Return the indices of the GPUs that a pod of `shape` holds, counted through the zones in order."""
        manager = self._gpus(shape)
        return () if manager is None else manager.indices(uid)

    def _gpus(self, shape: Shape) -> DeviceManager | None:
        """Return the manager of the GPUs that a pod asks for."""
        asked = (m for m in self._devices if m.resource.endswith(_GPUS) and shape.request(m.resource))
        return next(asked, None)

    def _serving(self, shape: Shape) -> list[Manager]:
        return [*self._devices, *(self._exclusive if shape.guaranteed else ())]

    def _affinity(self, managers: Sequence[Manager], asked: Sequence[Mapping[str, int]]) -> Mask | None:
        """Return from where to serve a request, None for anywhere; raise AdmissionError."""
        if self._policy is TopologyPolicy.NONE:
            return None
        providers = [hints for m, request in zip(managers, asked, strict=True) for hints in m.hints(request)]
        if self._policy is TopologyPolicy.SINGLE_NUMA_NODE:
            providers = [
                [h for h in hints if h.preferred and (h.mask is None or len(h.mask) == 1)] for hints in providers
            ]
        best = merge(providers or [DO_NOT_CARE], self._all)
        if not best.preferred and self._policy is not TopologyPolicy.BEST_EFFORT:
            raise AdmissionError(*_AFFINITY_ERROR)
        if self._policy is TopologyPolicy.SINGLE_NUMA_NODE and best.mask == self._all:
            return None
        return best.mask


def _containers(shape: Shape) -> tuple[ContainerRequest, ...]:
    return shape.containers or (ContainerRequest(shape.requests),)


def _as_one(managers: Sequence[Manager], containers: Sequence[ContainerRequest]) -> list[Mapping[str, int]]:
    """Return what each manager is asked for by the pod as a whole."""
    return [
        pod_request(ContainerRequest(tuple(manager.asked(c).items()), c.stage) for c in containers)
        for manager in managers
    ]


def merge(providers: Sequence[Sequence[Hint]], everywhere: Mask) -> Hint:
    """Return the best way to combine one hint of each provider; `everywhere` is all zones.

    Combinations that agree so far are followed once: what their masks have in common, the first of them, None before
    that, and whether all have been that one and preferred. Source: policy.go mergePermutation, HintMerger.
    """
    combined: set[tuple[Mask, Mask | None, bool]] = {(everywhere, None, True)}
    for hints in providers:
        combined = {
            (
                merged if hint.mask is None else merged & hint.mask,
                hint.mask if first is None else first,
                preferred and hint.preferred and (None in (first, hint.mask) or hint.mask == first),
            )
            for merged, first, preferred in combined
            for hint in hints
        }
    masks = [[hint.mask for hint in hints if hint.mask is not None] for hints in providers]
    aim = max(len(min(some, key=narrowness, default=frozenset())) for some in masks)
    candidates = [Hint(merged, preferred) for merged, _, preferred in combined if merged]
    if not candidates:
        return Hint(everywhere, preferred=False)
    return reduce(lambda current, candidate: _better(current, candidate, aim), candidates)


def _better(current: Hint, candidate: Hint, aim: int) -> Hint:
    """Choose between two hints; `aim` is how wide one should be that is not preferred. Source: HintMerger.compare."""
    now, then = current.mask or frozenset(), candidate.mask or frozenset()
    if current.preferred != candidate.preferred:
        return current if current.preferred else candidate
    fitter = candidate if narrowness(then) < narrowness(now) else current
    if current.preferred or len(now) > aim:
        return fitter
    if len(now) == aim:
        return fitter if len(then) == aim else current
    if len(then) > aim:
        return current
    if len(then) != len(now):
        return candidate if len(then) > len(now) else current
    return fitter
