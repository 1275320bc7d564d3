"""A whole world: cluster, kubelets, workload and scheduler, with Muster or without."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import starmap
from typing import TypeAlias

from extender.clock import Clock
from extender.control.controller import Controller
from extender.control.metrics import Metrics
from extender.control.ports import WatchedKind
from extender.settings import Settings
from muster_lab.simulation.api import SimulatedApi, SimulatedFeed
from muster_lab.simulation.autoscaler import Autoscaler
from muster_lab.simulation.claim_controller import ClaimController
from muster_lab.simulation.cluster import Cluster
from muster_lab.simulation.disruption import DisruptionController
from muster_lab.simulation.evictions import EvictionRecord
from muster_lab.simulation.kubelet import Kubelet
from muster_lab.simulation.manifests import calibration_manifest, node_manifest, priority_class_manifest
from muster_lab.simulation.node_failures import NodeFailures
from muster_lab.simulation.objects import Json
from muster_lab.simulation.placements import MusterPredictions, Placements
from muster_lab.simulation.scenario import Scenario
from muster_lab.simulation.scheduler.extender import ExtenderClient, Transport
from muster_lab.simulation.scheduler.filters import RuledOut
from muster_lab.simulation.scheduler.scheduler import Scheduler
from muster_lab.simulation.virtual_time import LoopClock
from muster_lab.simulation.workload import Workload, WorkloadSite

Connect: TypeAlias = Callable[[Controller, Settings, Metrics, Clock], Transport]
"""Puts the HTTP application in front of a controller and returns the way to it."""

#: The scheduler of a world without Muster.
STOCK_SCHEDULER = "default-scheduler"


def simulation_settings(settings: Settings | None = None) -> Settings:
    """Return `settings` without what only paces the real thing: scheduling takes no time here."""
    return (settings or Settings()).model_copy(
        update={"debounce_seconds": 0.0, "write_concurrency": 1_000_000, "report_rate_per_second": 1e9}
    )


def with_facts(settings: Settings, scenario: Scenario) -> Settings:
    """Return `settings` with what a scenario says of levels and of requests for nodes, where it says anything."""
    levels, autoscaling = scenario.facts.levels, scenario.autoscaling
    said: dict[str, object] = {}
    if levels is not None:
        said |= {"topology_levels": levels, "topology_preset": "auto" if levels else "none"}
    if autoscaling.provisioning_class is not None:
        parameters = tuple(f"{key}={value}" for key, value in autoscaling.parameters.items())
        said |= {"provisioning_class": str(autoscaling.provisioning_class), "provisioning_parameters": parameters}
    return settings.model_copy(update=said)


@dataclass(frozen=True, slots=True)
class ApiLatency:
    """How many seconds things take on the way: a write to the API server, news of a change to Muster or scheduler."""

    write: float = 0.0
    muster_watch: float = 0.0
    scheduler_watch: float = 0.0


class Muster:
    """The real controller, attached to a simulated cluster.

    Attributes:
        settings: its settings.
        metrics: its metrics.
        controller: the controller.
        transport: the way to its verbs.
    """

    def __init__(
        self, cluster: Cluster, clock: Clock, settings: Settings, connect: Connect, latency: ApiLatency
    ) -> None:
        """Put it together; nothing happens before `run`."""
        self.settings = settings
        self.metrics = Metrics()
        self.controller = Controller(settings, clock, SimulatedApi(cluster, clock, latency.write), self.metrics)
        self.transport = connect(self.controller, settings, self.metrics, clock)
        self._feed = SimulatedFeed(cluster, self.controller, latency.muster_watch)

    async def synced(self) -> None:
        """Wait until it has heard of everything there is."""
        await self._feed.synced.wait()

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.controller.run(), name="muster")
            group.create_task(self._feed.run(), name="feed")


class World:
    """A cluster and everything that acts on it.

    Attributes:
        scenario: what it starts from.
        clock: its time.
        cluster: the API server.
        muster: Muster, or None in a world without.
        scheduler: the model of kube-scheduler.
        workload: the gangs.
        evicted: which pods were evicted, by any client.
        autoscaler: who makes and removes nodes, if any does.
        placements: what Muster predicts of them; None in a world without.
    """

    def __init__(  # noqa: PLR0913 - the parts of a world, each with a default
        self,
        scenario: Scenario,
        clock: LoopClock,
        connect: Connect | None,
        *,
        settings: Settings | None = None,
        latency: ApiLatency | None = None,
        ruled_out: RuledOut | None = None,
    ) -> None:
        """Put it together on the running loop; nothing happens before `run`.

        Args:
            scenario: nodes and gangs; more gangs can be added to `workload` later.
            clock: the loop's time.
            connect: puts Muster's application in front of its controller; None for a world without Muster.
            settings: Muster's, with what the scenario says of them; those of a simulation by default.
            latency: how long things take on the way; no time by default.
            ruled_out: which nodes kube-scheduler rules out for reasons that are not modelled; none by default.
        """
        latency = latency or ApiLatency()
        settings = with_facts(settings or simulation_settings(), scenario)
        self.scenario = scenario
        self.clock = clock
        self.cluster = Cluster(clock)
        self._kubelet = Kubelet(self.cluster, clock)
        self._latency = latency
        self._settings = settings
        self.muster: Muster | None = None
        names: tuple[str, ...] = (STOCK_SCHEDULER,)
        extender = None
        if connect is not None:
            self.muster = Muster(self.cluster, clock, settings, connect, latency)
            names = settings.scheduler_names
            extender = ExtenderClient(self.muster.transport)
        self.scheduler = Scheduler(self.cluster, clock, names, extender, ruled_out)
        self.workload = Workload(WorkloadSite(self.cluster, clock, names[0]))
        self.evicted = EvictionRecord(self.cluster, clock)
        DisruptionController(self.cluster, self.workload.scale)
        ClaimController(self.cluster)
        self.autoscaler = Autoscaler(self.cluster, clock, scenario.autoscaling, (node.name for node in scenario.nodes))
        self.placements: Placements | None = None
        if self.muster is not None:
            self.placements = Placements(MusterPredictions(self.muster.controller.admission), self.workload)

    async def run(self) -> None:
        """Create what there is from the start, run everything, let the gangs arrive, and go on until cancelled."""
        for kind, manifest in manifests(self.scenario, self._settings.calibration_config_map):
            self.cluster.create(kind, manifest)
        async with asyncio.TaskGroup() as group:
            if self.muster is not None:
                group.create_task(self.muster.run(), name="muster")
                await self.muster.synced()
            if self.placements is not None:
                self.placements.follow(self.cluster, self._latency.muster_watch)
            group.create_task(self.scheduler.run(self._latency.scheduler_watch), name="scheduler")
            self.workload.add(self.scenario.gangs)
            NodeFailures(self.cluster, self.clock, self.scenario.nodes).add(self.scenario.failures)


def manifests(scenario: Scenario, calibration: str) -> Iterator[tuple[str, Json]]:
    """Yield what a scenario's cluster has from the start; `calibration` names the ConfigMap of measurements."""
    facts, sharing = scenario.facts, scenario.sharing
    for kind, objects in (
        (WatchedKind.NAMESPACE, iter(sharing.namespaces)),
        (WatchedKind.PRIORITY_CLASS, starmap(priority_class_manifest, sharing.priority_classes.items())),
        (WatchedKind.QUEUE, iter(sharing.queues)),
        (WatchedKind.NODE, map(node_manifest, scenario.nodes)),
        (WatchedKind.NODE_TOPOLOGY, iter(facts.node_topologies)),
        (WatchedKind.DEVICE, iter(facts.devices)),
        (WatchedKind.HYPER_NODE, iter(facts.hyper_nodes)),
    ):
        yield from ((kind, manifest) for manifest in objects)
    yield from scenario.claimable
    if facts.calibration:
        yield WatchedKind.CALIBRATION, calibration_manifest(calibration, facts.calibration)
