"""A cluster, a kube-scheduler and a Muster, each of which can be hit; and the record of what the API server saw."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from typing import Any

from extender.control.ports import ApiError, WatchedKind
from extender.objects.pod import Pod
from extender.settings import Settings
from muster_lab.simulation.claim_controller import ClaimController
from muster_lab.simulation.cluster import Cluster
from muster_lab.simulation.kubelet import Kubelet
from tests.properties.faults.apiserver import ApiServerFront
from tests.properties.faults.host import Host, Pace, Site
from tests.properties.faults.population import PICKY_STEM
from tests.properties.faults.process import MachineClock, ProcessLoop
from tests.properties.faults.record import Record


class World:
    """Everything there is in one story.

    Attributes:
        cluster: the API server's objects.
        front: the API server as a client sees it.
        hosts: kube-schedulers with their Musters; if there are several, one of them leads.
        record: what the judge is shown.
        crashes: errors of Muster that nobody expected.
    """

    def __init__(self, loop: ProcessLoop, pace: Pace, settings: Settings, replicas: int = 1) -> None:
        """Start schedulers and Musters on an empty cluster."""
        self.loop = loop
        clock = MachineClock(loop)
        self.cluster = Cluster(clock)
        self.record = Record(loop, self.cluster)
        self.front = ApiServerFront(self.cluster, loop, clock)
        self.front.told = self.record.told
        self.crashes: list[str] = []
        self.quiet = False
        self.obstacles: set[tuple[str, int]] = set()
        self._kubelet = Kubelet(self.cluster, clock)
        ClaimController(self.cluster)
        shared = (loop, self.cluster, self.front, self.record, settings, pace, self.crashes.append, self._ruled_out)
        site = Site(*shared, elects=replicas > 1)
        clocks = [clock, *(MachineClock(loop) for _ in range(1, replicas))]
        self.hosts = [Host(f"muster-{number}", site, each) for number, each in enumerate(clocks)]
        loop.set_exception_handler(self._complain)

    def host(self, number: int) -> Host:
        """Return the host that a number stands for."""
        return self.hosts[number % len(self.hosts)]

    def _ruled_out(self, pod: Pod, node: str) -> bool:
        if pod.name.startswith(PICKY_STEM):
            return True
        return bool(self.obstacles) and (node, int(pod.uid[:8], 16) % 4) in self.obstacles

    def clear_obstacles(self) -> None:
        """Let nothing be in the way of pods any more, which kube-scheduler sees at the nodes: it tries again."""
        for name in sorted({node for node, _ in self.obstacles}):
            with suppress(ApiError):  # the node may be gone
                self.cluster.update(WatchedKind.NODE, ("", name), self._relabel)
        self.obstacles.clear()

    def _relabel(self, node: Any) -> None:
        labels = node["metadata"].setdefault("labels", {})
        labels["example.com/rearranged"] = str(int(labels.get("example.com/rearranged", "0")) + 1)

    def heal(self) -> None:
        """Put an end to all faults of processes and lines."""
        self.quiet = True
        self.clear_obstacles()
        for stream in self.front.streams:
            stream.release()
        for host in self.hosts:
            host.heal()

    async def pass_time(self, seconds: float) -> None:
        """Let everything happen that is due within `seconds`."""
        await self.loop.reach(self.loop.time() + seconds)

    def later(self, seconds: float, then: Callable[..., object], *arguments: Any) -> None:
        """Do something later, in nobody's process."""
        self.loop.call_later(seconds, then, *arguments, context=Context())

    def pods(self) -> list[Any]:
        """Return all pods as they stand."""
        return [version.pod for version in self.cluster.list(WatchedKind.POD)]

    async def close(self) -> None:
        """Stop everything."""
        self.loop.set_exception_handler(lambda *_: None)
        for host in self.hosts:
            await host.close()

    def _complain(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Keep what the loop complains of, except for futures whose owner is dead."""
        error = context.get("exception")
        if error is not None and "never retrieved" not in context["message"]:
            self.crashes.append(f"{context['message']}: {error!r}")
