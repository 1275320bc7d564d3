"""The systems that are compared: each is a kube-scheduler on the same control plane, some with something beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from localcluster.client import NATIVE_POD_GROUPS, POD_GROUPS, Resource
from localcluster.cluster import LocalCluster
from localcluster.components import SCHEDULER_CONFIGS, SchedulerProfile
from localcluster.controlplane import NATIVE_PODGROUP_GATES
from localcluster.credentials import Connection
from localcluster.ports import LOOPBACK, free_ports
from localcluster.processes import Server


class Contender(StrEnum):
    """A system under comparison."""

    STOCK = "stock"
    """kube-scheduler alone: pods one by one, gangs unknown."""

    NATIVE = "native"
    """kube-scheduler's own gang scheduling: feature gate GenericWorkload, PodGroups of scheduling.k8s.io/v1beta1."""

    MUSTER = "muster"
    """kube-scheduler with Muster as its extender, PodGroups of scheduling.x-k8s.io/v1alpha1."""

    FLOOR = "floor"
    """What nominating costs at least: kube-scheduler alone, told each pod's node by the one who creates the pods."""

    @property
    def scheduler_name(self) -> str:
        """Return what its pods have as schedulerName."""
        return "muster" if self is Contender.MUSTER else "default-scheduler"

    @property
    def groups(self) -> Resource | None:
        """Return the resource of its PodGroups, None if it knows no gangs."""
        return _GROUPS.get(self)


_GROUPS: Mapping[Contender, Resource] = {Contender.NATIVE: NATIVE_POD_GROUPS, Contender.MUSTER: POD_GROUPS}


@dataclass(slots=True)
class Team:
    """The processes of one contender on one cluster, to be started and killed again and again."""

    contender: Contender
    scheduler: Server
    scheduler_address: Connection
    muster: Server | None = None
    muster_url: str = ""

    @property
    def servers(self) -> dict[str, Server]:
        """Return the processes by their role, Muster first."""
        servers = {"muster": self.muster} if self.muster is not None else {}
        return {**servers, "scheduler": self.scheduler}

    def start(self) -> None:
        """Start everything and wait until it is ready."""
        for server in self.servers.values():
            server.launch()
        for server in self.servers.values():
            server.wait_ready()

    def kill(self) -> None:
        """End everything at once."""
        for server in self.servers.values():
            server.kill()

    def check(self) -> None:
        """Raise LocalClusterError with the end of its log if a process has ended."""
        for server in self.servers.values():
            server.check()


@dataclass(slots=True)
class Teams:
    """The teams of one cluster, each made when it is first asked for."""

    cluster: LocalCluster
    _teams: dict[Contender, Team] = field(default_factory=dict)

    def of(self, contender: Contender) -> Team:
        """Return the processes of `contender`, not started."""
        if contender not in self._teams:
            self._teams[contender] = self._team(contender)
        return self._teams[contender]

    def _team(self, contender: Contender) -> Team:
        cluster = self.cluster
        extender = contender is Contender.MUSTER
        profile = SchedulerProfile(
            SCHEDULER_CONFIGS / ("muster.yaml" if extender else "stock.yaml"),
            extender_port=cluster.muster_port if extender else None,
        )
        gates = NATIVE_PODGROUP_GATES if contender is Contender.NATIVE else {}
        name, (port,) = f"{contender}-contender", free_ports(1)
        scheduler = cluster.scheduler(name, profile, feature_gates=gates, port=port)
        address = Connection(f"https://{LOOPBACK}:{port}", cluster.folder / name / "kube-scheduler.crt", "")
        if not extender:
            return Team(contender, scheduler, address)
        return Team(contender, scheduler, address, cluster.muster(), f"http://{LOOPBACK}:{cluster.muster_port}")
