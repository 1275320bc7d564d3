"""Where the GPU hours go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from extender.control.ports import WatchedKind
from extender.objects.pod import Pod
from extender.objects.resourceslice import ResourceSlice
from muster_lab.simulation.cluster import Cluster

SECONDS_PER_HOUR = 3600.0


class Activity(StrEnum):
    """What a gang does with the GPUs that its pods hold: wait for the others, set up the job, or train."""

    IDLE = "idle"
    INIT = "init"
    PRODUCTIVE = "productive"


@dataclass(frozen=True, slots=True)
class GpuSeconds:
    """GPU-seconds by activity; `lost` is training that came to nothing, which `productive` does not hold."""

    idle: float = 0.0
    init: float = 0.0
    productive: float = 0.0
    lost: float = 0.0

    def __add__(self, other: GpuSeconds) -> GpuSeconds:
        """Add activity by activity."""
        return GpuSeconds(
            self.idle + other.idle,
            self.init + other.init,
            self.productive + other.productive,
            self.lost + other.lost,
        )


class GpuMeter:
    """Integrate how many GPUs one gang holds over time, by what it does with them."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._since = now()
        self._spent = dict.fromkeys(Activity, 0.0)
        self._lost = 0.0
        self._trained: list[_Stretch] = []
        self.held = 0
        self.activity = Activity.IDLE

    def set(self, held: int, activity: Activity) -> None:
        """Say what the gang holds and does from now on."""
        self._settle()
        self.held, self.activity = held, activity

    def read(self) -> GpuSeconds:
        """Return what has been spent until now."""
        self._settle()
        return GpuSeconds(**{activity.value: spent for activity, spent in self._spent.items()}, lost=self._lost)

    def lose(self, seconds: float) -> None:
        """Say that training has stopped, and that the last so many seconds of it came to nothing."""
        self._settle()
        lost = 0.0
        while seconds > 0 and self._trained:
            stretch = self._trained.pop()
            taken = min(seconds, stretch.seconds)
            lost += taken * stretch.held
            seconds -= taken
        self._trained.clear()
        self._spent[Activity.PRODUCTIVE] = max(self._spent[Activity.PRODUCTIVE] - lost, 0.0)
        self._lost += lost

    def _settle(self) -> None:
        now = self._now()
        seconds = now - self._since
        self._spent[self.activity] += self.held * seconds
        if self.activity is Activity.PRODUCTIVE and seconds > 0:
            self._trained.append(_Stretch(seconds, self.held))
        self._since = now


@dataclass(frozen=True, slots=True)
class _Stretch:
    """So many seconds of training on so many GPUs."""

    seconds: float
    held: int


def is_gpu(driver: str) -> bool:
    """Tell whether a driver's devices are GPUs: gpu.nvidia.com, gpu.amd.com, gpu.intel.com."""
    return driver.startswith("gpu.")


def claimed_gpus(cluster: Cluster, pods: Iterable[Pod]) -> Counter[str]:
    """Return how many GPUs pods hold on each node by their claims; what several share counts once."""
    held: Counter[str] = Counter()
    counted: set[str] = set()
    for pod in pods:
        for name in pod.claims.names if pod.bound else ():
            found = cluster.find(WatchedKind.RESOURCE_CLAIM, pod.namespace, name)
            if found is None or found.uid in counted or found.claim.allocation is None:
                continue
            counted.add(found.uid)
            held[pod.node_name] += sum(is_gpu(each.device.driver) for each in found.claim.allocation.devices)
    return held


def published_gpus(cluster: Cluster) -> Counter[str]:
    """Return how many GPUs ResourceSlices say that each node has."""
    there: Counter[str] = Counter()
    for version in cluster.list(WatchedKind.RESOURCE_SLICE):
        piece = version.value
        if isinstance(piece, ResourceSlice) and piece.scope is not None and is_gpu(piece.pool.driver):
            there[piece.scope.name] += len(piece.devices)
    return there
